// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_EXECUTOR_STALLED_RANKS_H_
#define BACKENDS_EXECUTOR_STALLED_RANKS_H_

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "backends/communicator.h"
#include "backends/rank_position.h"
#include "lowering/program/program.h"

namespace mtf {

// Extends `timeout`, the kDeadlineExceeded of a collective of `program` on this
// rank at `position`, by the positions of all ranks, as numbers and names of
// the program's collectives. The ranks that lag furthest come first:
//
//   rank 3 is after 118, all_reduce of layer_7/ffn/einsum over model
//   (lm.cc:83); the others are at 119, all_gather of x over data (lm.cc:90)
//
// A rank "at" a collective waits in it or moves data; a rank "after" it
// computes. The positions of ranks on other hosts are unknown.
//
// Extends the kAborted of ranks that disagree on a collective by the name of
// the collective at `position`. Any other status is returned unchanged.
absl::Status NameStalledRanks(const absl::Status& timeout,
                              const Program& program,
                              const RankPosition& position,
                              const Communicator& communicator);

// "after 118, all_reduce of x over model (lm.cc:83) of step 7": `position` of a
// rank in `program`, whose number is `program_number`.
std::string DescribePosition(const RankPosition& position,
                             const Program& program, int program_number);

// Watches a program whose ranks communicate by messages, which cannot time out:
// once this rank has stayed in one collective for `seconds`, prints the error
// of NameStalledRanks and ends the job with status 75. Active during its
// lifetime.
class StallWatch {
 public:
  StallWatch(const Program& program, int program_number,
             const Communicator& communicator, double seconds);
  ~StallWatch();

 private:
  void Watch();

  const Program& program_;
  const int program_number_;
  const Communicator& communicator_;
  const double seconds_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_STALLED_RANKS_H_
