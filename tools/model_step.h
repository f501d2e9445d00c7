// SPDX-License-Identifier: Apache-2.0
//
// The model of --model, --config and the flags of sizes, for commands that
// estimate costs.
#ifndef TOOLS_MODEL_STEP_H_
#define TOOLS_MODEL_STEP_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/models.h"

namespace mtf::tools {

// A training step with AdamW: of the published model of --config
// (nn/models/build_model.h), of --batch sequences or images, --length tokens
// and activations of --dtype; without it of the preset --model
// (nn/models/model_presets.h), for which these flags can be left out, or of the
// GPT --model (tools/models.h).
//
// Errors are those of ModelFromFlags and BuildModel; kInvalidArgument for a
// flag of a size that the config has, and for a published model without config.
absl::StatusOr<GptStep> StepFromFlags();

}  // namespace mtf::tools

#endif  // TOOLS_MODEL_STEP_H_
