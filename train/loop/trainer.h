// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_TRAINER_H_
#define TRAIN_LOOP_TRAINER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "mtf/host_tensor.h"
#include "mtf/tensor.h"
#include "train/data/text_dataset.h"
#include "train/session/session.h"

namespace mtf::train {

// What a training loop does in each step, and how often.
struct Training {
  Tensor loss;    // scalar
  Tensor update;  // what an optimizer's Minimize returned
  int64_t steps = 0;
  // The feeds of a step; a function of the step alone, so that every process of
  // a job is fed the same.
  std::function<absl::StatusOr<std::map<std::string, HostTensor>>(int64_t step)>
      feeds;
  int64_t tokens_per_step = 0;  // for the speed that is shown
  std::string log_json = "";    // a file for MetricsWriter; empty: no log
};

struct TrainingResult {
  double loss = 0;          // of the last step
  double smooth_loss = 0;   // mean of the last tenth of the steps
  double tokens_per_s = 0;  // of all steps but the first
  // Seconds of a step: the median of all but the first, or of a single one.
  double median_step_s = 0;
};

// Makes the steps, with a progress bar or lines and, where asked for, a JSON
// line each, both by rank 0. kOutOfRange when a loss is not finite: which step,
// and what tends to help.
absl::StatusOr<TrainingResult> Train(Session& session,
                                     const Training& training);

// Feeds the windows of `text` to the i32 inputs `tokens` and `targets`, both of
// shape [batch, length], in the order that the seed gives. `text` and the
// tensors outlive the result.
std::function<absl::StatusOr<std::map<std::string, HostTensor>>(int64_t step)>
TextFeeds(const TextDataset& text, Tensor tokens, Tensor targets,
          uint32_t seed);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_TRAINER_H_
