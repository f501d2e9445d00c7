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

// The arguments of a training loop.
struct Training {
  Tensor loss;    // scalar
  Tensor update;  // the result of an optimizer's Minimize
  int64_t steps = 0;
  // Returns the feeds of a step. They may depend only on the step, so that
  // every process of a job is fed the same.
  std::function<absl::StatusOr<std::map<std::string, HostTensor>>(int64_t step)>
      feeds;
  int64_t tokens_per_step = 0;  // for the displayed tokens/s
  std::string log_json = "";    // the file for MetricsWriter; empty: no log
};

struct TrainingResult {
  double loss = 0;          // of the last step
  double smooth_loss = 0;   // mean of the last tenth of the steps
  double tokens_per_s = 0;  // of all steps but the first
  // Median time of a step without the first, or of the only step.
  double median_step_s = 0;
};

// Runs the steps. Rank 0 shows the progress and writes the log. kOutOfRange if
// the loss of a step is not finite.
absl::StatusOr<TrainingResult> Train(Session& session,
                                     const Training& training);

// Returns a Training::feeds that feeds windows of `text` to the i32 inputs
// `tokens` and `targets`, both of shape [batch, length], in the order given by
// the seed. `text` and the tensors must outlive the result.
std::function<absl::StatusOr<std::map<std::string, HostTensor>>(int64_t step)>
TextFeeds(const TextDataset& text, Tensor tokens, Tensor targets,
          uint32_t seed);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_TRAINER_H_
