// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/prompt.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/status.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "ops/concat.h"
#include "ops/random.h"
#include "ops/reshape.h"
#include "ops/slice.h"

namespace mtf::nn {
namespace {

absl::Status CheckPrompt(Tensor x, const Dimension& length,
                         const Dimension& d_model,
                         const PromptOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "prompt"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, length));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, d_model));
  if (x.shape().Contains(internal::kPromptLength)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", x.name(), "\" has the dimension \"", internal::kPromptLength,
        "\"", DescribeInputs({x}), "\n  help     Rename() it"));
  }
  if (options.prompt_length >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(".prompt_length is ",
                                                 options.prompt_length,
                                                 ", but at least 1 is needed"));
}

}  // namespace

Tensor PrependPrompt(Tensor x, Dimension length, Dimension d_model,
                     PromptOptions options, std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  const LayerScope layer(graph, options.name, location);
  const absl::Status status = CheckPrompt(x, length, d_model, options);
  if (!status.ok()) {
    return graph.Fail(status, internal::DescribeLayer("prompt", options.name),
                      location, x.shape(), x.dtype());
  }
  x = internal::To(ActivationDType(x), x);
  if (options.init == nullptr) {
    options.init = [](Graph& in, const KernelShape& kernel) {
      return RandomUniform(in, kernel.Joined(), -0.5, 0.5, {.per_step = false});
    };
  }
  const Dimension prompt_length{internal::kPromptLength, options.prompt_length};
  const Tensor table = Kernel(graph, "table", {prompt_length}, {d_model},
                              x.dtype(), {.init = options.init});
  Shape shape;
  for (const Dimension& dim : x.shape()) {
    shape = shape.With(dim.name == length.name
                           ? Dimension{length.name, options.prompt_length}
                           : dim);
  }
  const Tensor rows =
      Broadcast(Rename(table, internal::kPromptLength, length.name), shape);
  return Concat({rows, x}, length.name);
}

Tensor DropPrompt(Tensor x, absl::string_view length, int64_t prompt_length,
                  std::source_location location) {
  if (!x.valid() || prompt_length == 0) return x;
  const int dim = x.shape().Find(length);
  const int64_t size = dim < 0 ? 0 : x.shape()[dim].size;
  return Slice(x, length, prompt_length, size - prompt_length, location);
}

}  // namespace mtf::nn
