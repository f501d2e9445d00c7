// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_EXECUTOR_STALLED_RANKS_H_
#define BACKENDS_EXECUTOR_STALLED_RANKS_H_

#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "backends/communicator.h"
#include "backends/rank_position.h"
#include "lowering/program/program.h"

namespace mtf {

// Turns `timeout`, the kDeadlineExceeded of a collective of `program` in which
// this rank is at `position`, into one that tells who is where, by the numbers
// and names of the program's collectives. Those furthest behind come first:
//
//   rank 3 is behind 118, all_reduce of layer_7/ffn/einsum over model
//   (lm.cc:83); the others are at 119, all_gather of x over data (lm.cc:90)
//
// "At" a collective a rank waits in it or moves data; "behind" it a rank
// computes. Of ranks on other hosts no more is known than that they are there.
// Any other status is returned as it is.
absl::Status NameStalledRanks(const absl::Status& timeout,
                              const Program& program,
                              const RankPosition& position,
                              const Communicator& communicator);

// Where ranks talk by messages that nothing can interrupt: prints that error,
// and ends the job with status 75, once this rank has stayed in one collective
// of `program` for `seconds`. For as long as it exists.
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
  std::thread thread_;  // the last: it uses the others
};

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_STALLED_RANKS_H_
