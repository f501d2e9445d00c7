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
  // `weak`: takes the dtype of other operands.
  SplatOp(double value, DType dtype, bool weak, Shape shape)
      : Operation({}, std::move(shape), dtype), value_(value), weak_(weak) {}
  absl::string_view kind() const override { return "constant"; }
  std::string attributes() const override { return absl::StrCat(value_); }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }
  EmittedValues Emit(Emitter& emitter, absl::Span<const Value>) const override {
    return emitter.Map(MapExpression::Literal(value_, dtype()), {}, shape());
  }

  bool weak() const { return weak_; }
  double value() const { return value_; }

 private:
  const double value_;
  const bool weak_;
};

class ConstantOp : public Operation {
 public:
  ConstantOp(std::vector<double> values, DType dtype, bool weak, Shape shape)
      : Operation({}, std::move(shape), dtype),
        values_(std::move(values)),
        weak_(weak) {}
  absl::string_view kind() const override { return "constant"; }
  std::string attributes() const override {
    return absl::StrCat("of ", values_.size(), " values");
  }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }
  EmittedValues Emit(Emitter& emitter, absl::Span<const Value>) const override {
    return emitter.Constant(values_, dtype(), shape());
  }

  bool weak() const { return weak_; }
  const std::vector<double>& values() const { return values_; }

 private:
  const std::vector<double> values_;
  const bool weak_;
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

Tensor Splat(Graph& graph, double value, DType dtype, bool weak, Shape shape,
             std::source_location location) {
  const absl::Status status = internal::CheckHolds(dtype, value);
  if (!status.ok()) {
    return graph.Fail(status, "constant", location, shape, dtype);
  }
  return graph.Add(
      std::make_unique<SplatOp>(value, dtype, weak, std::move(shape)),
      location);
}

Tensor Elements(Graph& graph, std::vector<double> values, DType dtype,
                bool weak, Shape shape, std::source_location location) {
  const absl::Status status = Check(values, dtype, shape);
  if (!status.ok()) {
    return graph.Fail(status, "constant", location, shape, dtype);
  }
  return graph.Add(std::make_unique<ConstantOp>(std::move(values), dtype, weak,
                                                std::move(shape)),
                   location);
}

bool IsWeak(Tensor x) {
  if (!x.operation()->inputs().empty()) return false;
  const auto* splat = dynamic_cast<const SplatOp*>(x.operation());
  if (splat != nullptr) return splat->weak();
  const auto* constant = dynamic_cast<const ConstantOp*>(x.operation());
  return constant != nullptr && constant->weak();
}

// The constant `x` in `dtype`.
Tensor InDType(Tensor x, DType dtype, std::source_location location) {
  Graph& graph = x.graph();
  if (const auto* splat = dynamic_cast<const SplatOp*>(x.operation())) {
    return Splat(graph, splat->value(), dtype, false, x.shape(), location);
  }
  const auto& constant = dynamic_cast<const ConstantOp&>(*x.operation());
  return Elements(graph, constant.values(), dtype, false, x.shape(), location);
}

}  // namespace

namespace internal {

void AdoptDType(absl::Span<Tensor> tensors, std::source_location location) {
  const Tensor* typed = nullptr;
  for (const Tensor& tensor : tensors) {
    if (typed == nullptr && tensor.valid() && !IsWeak(tensor)) typed = &tensor;
  }
  if (typed == nullptr) return;
  const DType dtype = typed->dtype();
  for (Tensor& tensor : tensors) {
    if (!tensor.valid() || tensor.dtype() == dtype || !IsWeak(tensor)) continue;
    tensor = InDType(tensor, dtype, location);
  }
}

}  // namespace internal

Tensor Constant(Graph& graph, double value, DType dtype, Shape shape,
                std::source_location location) {
  return Splat(graph, value, dtype, false, std::move(shape), location);
}

Tensor Constant(Graph& graph, double value, Shape shape,
                std::source_location location) {
  return Splat(graph, value, kFloat32, true, std::move(shape), location);
}

Tensor Constant(Graph& graph, std::vector<double> values, DType dtype,
                Shape shape, std::source_location location) {
  return Elements(graph, std::move(values), dtype, false, std::move(shape),
                  location);
}

Tensor Constant(Graph& graph, std::vector<double> values, Shape shape,
                std::source_location location) {
  return Elements(graph, std::move(values), kFloat32, true, std::move(shape),
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
