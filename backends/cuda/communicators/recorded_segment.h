// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_COMMUNICATORS_RECORDED_SEGMENT_H_
#define BACKENDS_CUDA_COMMUNICATORS_RECORDED_SEGMENT_H_

#include <cstdint>
#include <memory>

#include "backends/backend.h"
#include "backends/communicator.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// The state of a segment of a program between its runs on a rank.
struct RecordedSegment : public Replay {
  enum class Stage : uint8_t { kNew, kHasRun, kRecorded };
  Stage stage = Stage::kNew;
  std::shared_ptr<Recording> recording;
  CollectiveCounts counts;  // of one run
};

// The state stored in `replay`, created if missing.
inline RecordedSegment& RecordedSegmentIn(std::unique_ptr<Replay>& replay) {
  if (replay == nullptr) replay = std::make_unique<RecordedSegment>();
  return static_cast<RecordedSegment&>(*replay);
}

// MTF_CUDA_RECORD=0: every step is enqueued kernel by kernel.
bool RecordingIsOff();

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_COMMUNICATORS_RECORDED_SEGMENT_H_
