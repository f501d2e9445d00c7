// SPDX-License-Identifier: Apache-2.0
#include "nn/models/model_parts.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/embedding.h"
#include "nn/layers/layer.h"
#include "nn/layers/prompt.h"
#include "ops/elementwise.h"
#include "ops/random.h"

namespace mtf::nn {

absl::StatusOr<Activation> ActivationOf(absl::string_view name) {
  if (name == "gelu") {
    return Activation([](Tensor x) { return ExactGelu(x); });
  }
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") {
    return Activation([](Tensor x) { return Gelu(x); });
  }
  if (name == "relu") return Activation([](Tensor x) { return Relu(x); });
  if (name == "silu" || name == "swish") {
    return Activation([](Tensor x) { return Swish(x); });
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no activation is called \"", absl::Utf8SafeCEscape(name).substr(0, 80),
      "\"\n  help     use gelu, gelu_new, gelu_pytorch_tanh, relu or silu"));
}

absl::Status CheckDivides(absl::string_view divisor_field, int64_t divisor,
                          absl::string_view field, int64_t size) {
  if (divisor >= 1 && size >= 1 && size % divisor == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", size, ", but must be a multiple of ",
                   divisor_field, ", which is ", divisor));
}

absl::Status CheckTokens(Tensor tokens, absl::string_view field, int64_t most,
                         int64_t prompt_length) {
  MTF_RETURN_IF_ERROR(internal::CheckInteger(tokens, "tokens"));
  MTF_RETURN_IF_ERROR(internal::ModelDimension(tokens).status());
  if (prompt_length < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompt_length is ", prompt_length, ", but cannot be negative"));
  }
  const Dimension& length = LastDimension(tokens);
  if (most == 0 || length.size <= most - prompt_length) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", length.name, "\" has ", length.size, " positions",
      prompt_length == 0 ? ""
                         : absl::StrCat(" after a prompt of ", prompt_length),
      ", but ", field, " is ", most, DescribeInputs({tokens})));
}

int64_t NumLabels(ConfigFields& fields) {
  int64_t labels = 0;
  while (fields.Has(absl::StrCat("id2label.", labels))) ++labels;
  return fields.Size("num_labels", labels == 0 ? 2 : labels);
}

const Dimension& LastDimension(Tensor x) { return x.shape().dims().back(); }

Dimension WithPrompt(Dimension length, int64_t prompt_length) {
  length.size += prompt_length;
  return length;
}

Tensor PromptedEmbedding(Tensor tokens, Tensor table, Dimension vocab,
                         Dimension d_model, int64_t prompt_length) {
  const Tensor x = Embedding(tokens, vocab, d_model, {.table = table});
  if (prompt_length == 0) return x;
  return PrependPrompt(x, LastDimension(tokens), d_model,
                       {.prompt_length = prompt_length});
}

LanguageModel FailedModel(Tensor tokens, const absl::Status& status,
                          absl::string_view what,
                          std::source_location location) {
  Graph& graph = tokens.graph();
  const Dimension one{"d_model", 1}, vocab{"vocab", 1};
  Shape shape = tokens.shape();
  if (!shape.Contains(one.name)) shape = shape.With(one);
  return {graph.Fail(status, what, location, shape),
          graph.Fail(status, what, location, {vocab, one}),
          vocab,
          {}};
}

Initializer NormalValues(double stddev) {
  return [stddev](Graph& graph, const KernelShape& kernel) {
    return RandomNormal(graph, kernel.Joined(), 0, stddev, {.per_step = false});
  };
}

}  // namespace mtf::nn
