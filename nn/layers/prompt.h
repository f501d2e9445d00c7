// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_PROMPT_H_
#define NN_LAYERS_PROMPT_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "absl/strings/string_view.h"
#include "mtf/dimension.h"
#include "mtf/tensor.h"
#include "nn/layers/initializers.h"

namespace mtf::nn {

struct PromptOptions {
  int64_t prompt_length = 20;  // vectors
  // Initial values of the table, as a kernel from its vectors to the model
  // dimension. Null: uniform in [-0.5, 0.5], as in the paper.
  Initializer init = nullptr;
  std::string name = "prompt";
};

// Puts trainable vectors, the same for all examples, before the embedded input
// `x` of a transformer: prompt tuning (Lester et al., 2021). They are the
// parameter "<name>/table" [prompt_length, d_model].
//
//   // [batch, length:64, d_model] -> [batch, length:84, d_model]
//   x = nn::PrependPrompt(x, length, d_model, {.prompt_length = 20});
//   ...  // positions, layers of length 84
//   // The vectors have no target: their results are dropped again.
//   x = nn::DropPrompt(x, "length", 20);
//
// The dtype is the activation dtype of the PrecisionScope, by default that of
// `x`. Models of nn/models/ do this with their field `prompt_length`.
//
// Records kInvalidArgument in the graph if `x` is not a float, lacks one of the
// dimensions or has it in another size, or has "prompt_length"; if
// .prompt_length is less than 1; and for an error of .init. Returns an empty
// Tensor if `x` is empty.
Tensor PrependPrompt(
    Tensor x, Dimension length, Dimension d_model, PromptOptions options = {},
    std::source_location location = std::source_location::current());

// `x` without its first `prompt_length` elements along `length`. Errors are
// those of Slice().
Tensor DropPrompt(
    Tensor x, absl::string_view length, int64_t prompt_length,
    std::source_location location = std::source_location::current());

namespace internal {

// The dimension of the table of a prompt.
inline constexpr char kPromptLength[] = "prompt_length";

}  // namespace internal
}  // namespace mtf::nn

#endif  // NN_LAYERS_PROMPT_H_
