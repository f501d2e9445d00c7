// SPDX-License-Identifier: Apache-2.0
#include "train/loop/text_sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/philox.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

constexpr uint32_t kSampleStream = 0x5a3b1e5;

absl::Status CheckShapes(Tensor tokens, Tensor logits,
                         const SampleOptions& options) {
  if (!(options.temperature > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the temperature is ", options.temperature, ", not above 0"));
  }
  const Shape& shape = logits.shape();
  if (tokens.shape().rank() != 2 || shape.rank() != 3 ||
      shape[0] != tokens.shape()[0] ||
      shape[1].size != tokens.shape()[1].size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "logits [", shape.ToString(), "] are not [batch, length, vocab] for ",
        "tokens [", tokens.shape().ToString(), "]"));
  }
  if (!IsFloat(logits.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "logits are ", DTypeName(logits.dtype()), ", not a float dtype"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t SampleFromLogits(absl::Span<const float> logits, double temperature,
                         double uniform) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> weights;
  double total = 0;
  for (float logit : logits) {
    weights.push_back(std::exp((logit - highest) / temperature));
    total += weights.back();
  }
  double rest = uniform * total;
  for (size_t i = 0; i < weights.size(); ++i) {
    rest -= weights[i];
    if (rest < 0) return static_cast<int64_t>(i);
  }
  return static_cast<int64_t>(weights.size()) - 1;
}

absl::StatusOr<std::vector<int32_t>> SampleTokens(
    Session& session, Tensor tokens, Tensor logits, std::vector<int32_t> text,
    const SampleOptions& options) {
  MTF_RETURN_IF_ERROR(CheckShapes(tokens, logits, options));
  if (text.empty()) {
    return absl::InvalidArgumentError("the sample has no token to begin with");
  }
  const int64_t length = tokens.shape()[1].size;
  const int64_t vocab = logits.shape()[2].size;
  for (int64_t i = 0; i < options.bytes; ++i) {
    const int64_t seen = std::min<int64_t>(text.size(), length);
    HostTensor window(tokens.shape(), kInt32);
    std::copy(text.end() - seen, text.end(),
              static_cast<int32_t*>(window.data()));
    RunRequest request = {.fetches = {logits}};
    request.feeds.emplace(tokens.graph().FeedName(tokens), std::move(window));
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> fetched,
                         session.Run(request));
    // Row 0, position seen - 1: the logits of the next token.
    std::vector<float> next(vocab);
    for (int64_t k = 0; k < vocab; ++k) {
      next[k] = static_cast<float>(*fetched[0].At((seen - 1) * vocab + k));
    }
    const double uniform =
        UniformFromWord(PhiloxAt(options.seed, kSampleStream, 0, i).word[0]);
    text.push_back(static_cast<int32_t>(
        SampleFromLogits(next, options.temperature, uniform)));
  }
  return text;
}

absl::StatusOr<std::string> SampleText(Session& session, Tensor tokens,
                                       Tensor logits,
                                       const SampleOptions& options) {
  std::vector<int32_t> prompt;
  const std::string text_of_prompt =
      options.prompt.empty() ? "\n" : options.prompt;
  for (const char byte : text_of_prompt) {
    prompt.push_back(static_cast<unsigned char>(byte));
  }
  MTF_ASSIGN_OR_RETURN(
      const std::vector<int32_t> sampled,
      SampleTokens(session, tokens, logits, std::move(prompt), options));
  std::string text;
  for (const int32_t token : sampled) text += static_cast<char>(token);
  return text;
}

}  // namespace mtf::train
