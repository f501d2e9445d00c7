// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_TRAIN_OPTIMIZER_FLAGS_H_
#define TOOLS_TRAIN_OPTIMIZER_FLAGS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "mtf/tensor.h"

namespace mtf::tools {

// The update of --optimizer with --learning_rate, --schedule, --warmup_steps,
// --final_rate, --weight_decay, --clip and --accumulate, for a run of `steps`
// steps, of the parameters of --train_only. `skips`: it leaves out updates by
// gradients that are not finite.
absl::StatusOr<Tensor> MinimizeFromFlags(Tensor loss, int64_t steps,
                                         bool skips);

}  // namespace mtf::tools

#endif  // TOOLS_TRAIN_OPTIMIZER_FLAGS_H_
