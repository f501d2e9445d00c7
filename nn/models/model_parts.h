// SPDX-License-Identifier: Apache-2.0
//
// Checks and small parts that the models share. Not for users.
#ifndef NN_MODELS_MODEL_PARTS_H_
#define NN_MODELS_MODEL_PARTS_H_

#include <cstdint>
#include <source_location>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/dimension.h"
#include "mtf/status.h"
#include "mtf/tensor.h"
#include "nn/layers/activations.h"
#include "nn/layers/initializers.h"
#include "nn/models/config_fields.h"
#include "nn/models/language_model.h"

namespace mtf::nn {

// The activation that configs call `name`: "gelu", "gelu_new", "relu", "silu".
// kInvalidArgument for another one.
absl::StatusOr<Activation> ActivationOf(absl::string_view name);

// An error unless `size`, the field `field`, divides by `divisor`.
absl::Status CheckDivides(absl::string_view divisor_field, int64_t divisor,
                          absl::string_view field, int64_t size);

// An error unless `tokens` are integers with a last dimension that, after a
// prompt of `prompt_length`, has at most `most` positions, the field `field`;
// 0: any number.
absl::Status CheckTokens(Tensor tokens, absl::string_view field = "",
                         int64_t most = 0, int64_t prompt_length = 0);

// The number of labels of a classifier: num_labels, or the entries of id2label.
int64_t NumLabels(ConfigFields& fields);

const Dimension& LastDimension(Tensor x);

// `length` with that of a prompt before it.
Dimension WithPrompt(Dimension length, int64_t prompt_length);
// The Embedding of `tokens`, after a prompt (nn/layers/prompt.h) unless its
// length is 0.
Tensor PromptedEmbedding(Tensor tokens, Tensor table, Dimension vocab,
                         Dimension d_model, int64_t prompt_length);

// The model for the calls that follow an error.
LanguageModel FailedModel(Tensor tokens, const absl::Status& status,
                          absl::string_view what,
                          std::source_location location);

// Normal values with the deviation `stddev`, whatever the fan.
Initializer NormalValues(double stddev);

}  // namespace mtf::nn

#endif  // NN_MODELS_MODEL_PARTS_H_
