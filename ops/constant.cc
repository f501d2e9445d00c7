// SPDX-License-Identifier: Apache-2.0
#include "ops/constant.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "ops/checks.h"

namespace mtf {
namespace {

class SplatOp : public Operation {
 public:
  SplatOp(double value, DType dtype, Shape shape)
      : Operation({}, std::move(shape), dtype), value_(value) {}
  absl::string_view kind() const override { return "constant"; }
  std::string attributes() const override { return absl::StrCat(value_); }
  std::vector<Tensor> Gradient(Tensor) const override { return {}; }
  Value Emit(Emitter& emitter, absl::Span<const Value>) const override {
    return emitter.Map(MapExpression::Literal(value_, dtype()), {}, shape());
  }

 private:
  const double value_;
};

class ConstantOp : public Operation {
 public:
  ConstantOp(std::vector<double> values, DType dtype, Shape shape)
      : Operation({}, std::move(shape), dtype), values_(std::move(values)) {}
  absl::string_view kind() const override { return "constant"; }
  std::string attributes() const override {
    return absl::StrCat("of ", values_.size(), " values");
  }
  std::vector<Tensor> Gradient(Tensor) const override { return {}; }
  Value Emit(Emitter& emitter, absl::Span<const Value>) const override {
    return emitter.Constant(values_, dtype(), shape());
  }

 private:
  const std::vector<double> values_;
};

absl::Status Check(const std::vector<double>& values, DType dtype,
                   const Shape& shape) {
  MTF_RETURN_IF_ERROR(shape.Validate());
  if (static_cast<int64_t>(values.size()) != shape.num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat(values.size(), " values for the ", shape.num_elements(),
                     " elements of ", DescribeTensor(dtype, shape)));
  }
  for (double value : values) {
    MTF_RETURN_IF_ERROR(internal::CheckHolds(dtype, value));
  }
  return absl::OkStatus();
}

}  // namespace

Tensor Constant(Graph& graph, double value, DType dtype, Shape shape,
                std::source_location location) {
  const absl::Status status = internal::CheckHolds(dtype, value);
  if (!status.ok()) {
    return graph.Fail(status, "constant", location, shape, dtype);
  }
  return graph.Add(std::make_unique<SplatOp>(value, dtype, std::move(shape)),
                   location);
}

Tensor Constant(Graph& graph, std::vector<double> values, DType dtype,
                Shape shape, std::source_location location) {
  const absl::Status status = Check(values, dtype, shape);
  if (!status.ok()) {
    return graph.Fail(status, "constant", location, shape, dtype);
  }
  return graph.Add(
      std::make_unique<ConstantOp>(std::move(values), dtype, std::move(shape)),
      location);
}

Tensor Zeros(Graph& graph, DType dtype, Shape shape,
             std::source_location location) {
  return Constant(graph, 0.0, dtype, std::move(shape), location);
}

Tensor Ones(Graph& graph, DType dtype, Shape shape,
            std::source_location location) {
  return Constant(graph, 1.0, dtype, std::move(shape), location);
}

}  // namespace mtf
