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
#include "mtf/half.h"
#include "mtf/host_tensor.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf {
namespace {

using F = ScalarFunction;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// `scale` * random + `offset`, at most `limit`.
struct Distribution {
  RandomKind kind = RandomKind::kUniform;
  double scale = 1;
  double offset = 0;
  double limit = kNoLimit;
};

absl::string_view KindName(RandomKind kind) {
  return kind == RandomKind::kUniform ? "random_uniform" : "random_normal";
}

class RandomOp : public Operation {
 public:
  RandomOp(const Distribution& distribution, uint32_t stream,
           RandomOptions options, Shape shape)
      : Operation({}, std::move(shape), options.dtype),
        distribution_(distribution),
        stream_(stream),
        per_step_(options.per_step) {}
  absl::string_view kind() const override {
    return KindName(distribution_.kind);
  }
  std::string attributes() const override {
    return absl::StrCat("stream=", stream_, " scale=", distribution_.scale,
                        " offset=", distribution_.offset,
                        per_step_ ? "" : " fixed");
  }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }

  EmittedValues Emit(Emitter& emitter, absl::Span<const Value>) const override {
    const Value random = emitter.Random(distribution_.kind, stream_, per_step_,
                                        kFloat32, shape());
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
    if (distribution_.scale != 1) apply(F::kMultiply, distribution_.scale);
    if (distribution_.offset != 0) apply(F::kAdd, distribution_.offset);
    if (distribution_.limit != kNoLimit) {
      apply(F::kMinimum, distribution_.limit);
    }
    if (dtype() != kFloat32) {
      expression.steps.push_back({F::kCast, dtype(), {last}, 0, ""});
    }
    if (expression.steps.empty()) return random;
    return emitter.Map(expression, {random}, shape());
  }

 private:
  const Distribution distribution_;
  const uint32_t stream_;
  const bool per_step_;
};

// The bits of the next smaller 16-bit float, in either format. The magnitude of
// a float increases with its bit pattern.
uint16_t BitsBelow(uint16_t bits) {
  constexpr uint16_t kSign = 0x8000;
  if ((bits | kSign) == kSign) return kSign | 1;  // the largest below 0
  return static_cast<uint16_t>(bits & kSign ? bits + 1 : bits - 1);
}

// The largest number of `dtype` below `x`, which `dtype` represents.
float NextBelow(DType dtype, float x) {
  if (dtype == kBFloat16) {
    return ToFloat(BFloat16{BitsBelow(ToBFloat16(x).bits)});
  }
  if (dtype == kFloat16) return ToFloat(Float16{BitsBelow(ToFloat16(x).bits)});
  return std::nextafter(x, -std::numeric_limits<float>::infinity());
}

// Uniform in [low, high). The limit excludes `high`, which rounding in the sum
// or in the cast could give.
Distribution Uniform(double low, double high, DType dtype) {
  Distribution uniform{RandomKind::kUniform, high - low, low, kNoLimit};
  if (low == 0 && high == 1 && dtype == kFloat32) return uniform;
  const double first = RoundToDType(low, dtype);
  const double end = RoundToDType(high, dtype);
  uniform.limit = first < end ? NextBelow(dtype, end) : first;
  return uniform;
}

absl::Status CheckFinite(absl::string_view name, DType dtype, double value) {
  if (std::isfinite(RoundToDType(value, dtype))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is ", value, ", not a finite number of ", DTypeName(dtype)));
}

absl::Status CheckDType(absl::string_view what, DType dtype) {
  if (IsFloat(dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " takes a float dtype, not ", DTypeName(dtype)));
}

absl::Status CheckUniform(double low, double high, DType dtype) {
  MTF_RETURN_IF_ERROR(CheckDType(KindName(RandomKind::kUniform), dtype));
  MTF_RETURN_IF_ERROR(CheckFinite("low", dtype, low));
  MTF_RETURN_IF_ERROR(CheckFinite("high", dtype, high));
  // Drawn in f32, whatever the dtype.
  MTF_RETURN_IF_ERROR(CheckFinite("high - low", kFloat32, high - low));
  if (low <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("low is ", low, ", above high, which is ", high));
}

absl::Status CheckNormal(double mean, double stddev, DType dtype) {
  MTF_RETURN_IF_ERROR(CheckDType(KindName(RandomKind::kNormal), dtype));
  MTF_RETURN_IF_ERROR(CheckFinite("mean", dtype, mean));
  return internal::CheckNotNegative("stddev", stddev);
}

Tensor Random(Graph& graph, const absl::Status& status,
              const Distribution& distribution, Shape shape,
              RandomOptions options, std::source_location location) {
  // A call with an error takes a stream too, so that the streams of later calls
  // do not depend on it.
  const uint32_t stream = graph.NextRandomStream();
  if (!status.ok()) {
    return graph.Fail(status, KindName(distribution.kind), location, shape,
                      options.dtype);
  }
  return graph.Add(std::make_unique<RandomOp>(distribution, stream, options,
                                              std::move(shape)),
                   location);
}

}  // namespace

Tensor RandomUniform(Graph& graph, Shape shape, double low, double high,
                     RandomOptions options, std::source_location location) {
  return Random(graph, CheckUniform(low, high, options.dtype),
                Uniform(low, high, options.dtype), std::move(shape), options,
                location);
}

Tensor RandomNormal(Graph& graph, Shape shape, double mean, double stddev,
                    RandomOptions options, std::source_location location) {
  return Random(graph, CheckNormal(mean, stddev, options.dtype),
                {RandomKind::kNormal, stddev, mean, kNoLimit}, std::move(shape),
                options, location);
}

Tensor RandomGumbel(Graph& graph, Shape shape, RandomOptions options,
                    std::source_location location) {
  const absl::Status status = CheckDType("random_gumbel", options.dtype);
  if (!status.ok()) {
    graph.NextRandomStream();
    return graph.Fail(status, "random_gumbel", location, shape, options.dtype);
  }
  CallSiteScope site(graph, location);
  const Tensor u = RandomUniform(graph, std::move(shape), 0, 1,
                                 {.per_step = options.per_step});
  // Half of the least number above 0 instead of 0, whose logarithm is
  // infinite. No number is rounded: near 1 the result depends on 1 - u.
  const Tensor gumbel = -Log(-Log(Maximum(u, 0x1p-25)));
  return options.dtype == kFloat32 ? gumbel : Cast(gumbel, options.dtype);
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
  if (rate == 0 || graph.mode() == Mode::kEvaluate) return x;
  return internal::DropoutOfStream(
      x, rate, options.noise_shape.rank() > 0 ? options.noise_shape : x.shape(),
      graph.NextRandomStream(), location);
}

double internal::DropoutThreshold(double rate) {
  return std::ceil(rate * 0x1p24) * 0x1p-24;
}

Tensor internal::DropoutOfStream(Tensor x, double rate, const Shape& noise,
                                 uint32_t stream,
                                 std::source_location location) {
  const Tensor uniform =
      x.graph().Add(std::make_unique<RandomOp>(Uniform(0, 1, kFloat32), stream,
                                               RandomOptions{}, noise),
                    location);
  const Tensor keep =
      GreaterEqual({uniform, location}, {DropoutThreshold(rate), location});
  // Use the order of dimensions of x, so that the result has it too.
  Shape in_order;
  for (const Dimension& dim : x.shape()) {
    if (noise.Contains(dim.name)) in_order = in_order.With(dim);
  }
  return Select({internal::InOrderOf(keep, in_order, location), location},
                Multiply({x, location}, {1 / (1 - rate), location}),
                {0.0, location});
}

}  // namespace mtf
