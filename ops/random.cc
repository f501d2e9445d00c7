// SPDX-License-Identifier: Apache-2.0
#include "ops/random.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf {
namespace {

using F = ScalarFunction;

// `scale` * random + `offset`.
class RandomOp : public Operation {
 public:
  RandomOp(RandomKind random_kind, uint32_t stream, double scale, double offset,
           RandomOptions options, Shape shape)
      : Operation({}, std::move(shape), options.dtype),
        random_kind_(random_kind),
        stream_(stream),
        scale_(scale),
        offset_(offset),
        per_step_(options.per_step) {}
  absl::string_view kind() const override {
    return random_kind_ == RandomKind::kUniform ? "random_uniform"
                                                : "random_normal";
  }
  std::string attributes() const override {
    return absl::StrCat("stream=", stream_, " scale=", scale_,
                        " offset=", offset_, per_step_ ? "" : " fixed");
  }
  std::vector<Tensor> Gradient(Tensor) const override { return {}; }

  Value Emit(Emitter& emitter, absl::Span<const Value>) const override {
    const Value random =
        emitter.Random(random_kind_, stream_, per_step_, kFloat32, shape());
    MapExpression expression{1, {}};
    int last = 0;
    const auto apply = [&](F function, double number) {
      expression.steps.push_back({F::kLiteral, kFloat32, {}, number, ""});
      expression.steps.push_back(
          {function,
           kFloat32,
           {last, static_cast<int>(expression.steps.size())},
           0,
           ""});
      last = static_cast<int>(expression.steps.size());
    };
    if (scale_ != 1) apply(F::kMultiply, scale_);
    if (offset_ != 0) apply(F::kAdd, offset_);
    if (dtype() != kFloat32) {
      expression.steps.push_back({F::kCast, dtype(), {last}, 0, ""});
    }
    if (expression.steps.empty()) return random;
    return emitter.Map(expression, {random}, shape());
  }

 private:
  const RandomKind random_kind_;
  const uint32_t stream_;
  const double scale_;
  const double offset_;
  const bool per_step_;
};

Tensor Random(Graph& graph, RandomKind kind, absl::string_view what,
              Shape shape, double scale, double offset, RandomOptions options,
              std::source_location location) {
  // Taken also by a wrong call, so that later streams do not depend on it.
  const uint32_t stream = graph.NextRandomStream();
  absl::Status status;
  if (!IsFloat(options.dtype)) {
    status = absl::InvalidArgumentError(absl::StrCat(
        what, " takes a float dtype, not ", DTypeName(options.dtype)));
  } else if (!std::isfinite(scale) || !std::isfinite(offset)) {
    status = absl::InvalidArgumentError(
        absl::StrCat(what, " has the scale ", scale, " and the offset ", offset,
                     ", which are not finite"));
  }
  if (!status.ok()) {
    return graph.Fail(status, what, location, shape, options.dtype);
  }
  return graph.Add(std::make_unique<RandomOp>(kind, stream, scale, offset,
                                              options, std::move(shape)),
                   location);
}

}  // namespace

Tensor RandomUniform(Graph& graph, Shape shape, double low, double high,
                     RandomOptions options, std::source_location location) {
  return Random(graph, RandomKind::kUniform, "random_uniform", std::move(shape),
                high - low, low, options, location);
}

Tensor RandomNormal(Graph& graph, Shape shape, double mean, double stddev,
                    RandomOptions options, std::source_location location) {
  return Random(graph, RandomKind::kNormal, "random_normal", std::move(shape),
                stddev, mean, options, location);
}

Tensor Dropout(Tensor x, double rate, DropoutOptions options,
               std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  absl::Status status;
  if (!(rate >= 0 && rate < 1)) {
    status = absl::InvalidArgumentError(
        absl::StrCat("the rate ", rate, " is not in [0, 1)"));
  } else if (!IsFloat(x.dtype())) {
    status = absl::InvalidArgumentError(
        absl::StrCat("dropout takes a float dtype, not ", DTypeName(x.dtype()),
                     DescribeInputs({x})));
  } else {
    status = internal::CheckSubset(x, options.noise_shape);
  }
  if (!status.ok()) {
    return graph.Fail(status, "dropout", location, x.shape(), x.dtype());
  }
  if (rate == 0) return x;
  const Shape noise =
      options.noise_shape.rank() > 0 ? options.noise_shape : x.shape();
  const Tensor uniform = RandomUniform(graph, noise, 0, 1, {}, location);
  // Rounded to a number that uniform can be, so that every backend compares
  // alike, whatever its precision.
  const double threshold = std::ceil(rate * 0x1p24) * 0x1p-24;
  const Tensor keep = GreaterEqual({uniform, location}, {threshold, location});
  return Select({keep, location},
                Multiply({x, location}, {1 / (1 - rate), location}),
                {0.0, location});
}

}  // namespace mtf
