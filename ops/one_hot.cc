// SPDX-License-Identifier: Apache-2.0
#include "ops/one_hot.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/checks.h"

namespace mtf {
namespace {

using F = ScalarFunction;

// Whether `dtype` represents each of 0, 1, ..., size - 1.
bool Counts(DType dtype, int64_t size) {
  switch (dtype) {
    case kFloat32:
      return size <= (1 << 24) + 1;  // one more than the bits of a mantissa
    case kBFloat16:
      return size <= (1 << 8) + 1;
    case kFloat16:
      return size <= (1 << 11) + 1;
    case kInt32:
      return size <= int64_t{1} << 31;
    case kInt64:
      return true;
    case kBool:
      break;
  }
  return false;
}

class OneHotOp : public Operation {
 public:
  OneHotOp(Tensor indices, Dimension dim, DType dtype)
      : Operation({indices}, indices.shape().With(dim), dtype),
        dim_(std::move(dim.name)) {}
  absl::string_view kind() const override { return "one_hot"; }
  std::string attributes() const override { return dim_; }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    MapExpression expression{1, {}};
    DType counter = input(0).dtype();
    int index = 0;
    if (!Counts(counter, shape().SizeOf(dim_))) {
      counter = kInt64;
      expression.steps.push_back({F::kCast, counter, {0}, 0, ""});
      index = 1;
    }
    expression.steps.push_back({F::kIota, counter, {}, 0, dim_});
    expression.steps.push_back({F::kEqual, kBool, {index, index + 1}, 0, ""});
    if (dtype() != kBool) {
      expression.steps.push_back({F::kCast, dtype(), {index + 2}, 0, ""});
    }
    return emitter.Map(expression, inputs, shape());
  }

 private:
  const std::string dim_;
};

class RangeOp : public Operation {
 public:
  RangeOp(Dimension dim, DType dtype) : Operation({}, {dim}, dtype) {}
  absl::string_view kind() const override { return "range"; }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }
  EmittedValues Emit(Emitter& emitter, absl::Span<const Value>) const override {
    return emitter.Map(MapExpression::Iota(shape()[0].name, dtype()), {},
                       shape());
  }
};

}  // namespace

Tensor OneHot(Tensor indices, Dimension dim, DType dtype,
              std::source_location location) {
  if (!indices.valid()) return {};
  absl::Status status = internal::CheckIndexDType(indices, {indices});
  if (status.ok() && indices.shape().Contains(dim.name)) {
    status = absl::InvalidArgumentError(absl::StrCat(
        "the indices \"", indices.name(), "\" already have a dimension \"",
        dim.name, "\"", DescribeInputs({indices}),
        "\n  help     Rename() it in the indices"));
  }
  if (!status.ok()) {
    return indices.graph().Fail(status, "one_hot", location,
                                indices.shape().With(dim), dtype);
  }
  return indices.graph().Add(
      std::make_unique<OneHotOp>(indices, std::move(dim), dtype), location);
}

Tensor Range(Graph& graph, Dimension dim, DType dtype,
             std::source_location location) {
  absl::Status status;
  if (dtype == kBool) {
    status = absl::InvalidArgumentError(
        "range takes a float or integer dtype, not bool");
  } else if (!Counts(dtype, dim.size)) {
    status = absl::InvalidArgumentError(absl::StrCat(
        DTypeName(dtype), " cannot represent all integers below ", dim.size,
        ", the size of dimension \"", absl::CHexEscape(dim.name), "\"",
        "\n  help     Cast() a range of i64 if rounded numbers are intended"));
  }
  if (!status.ok()) return graph.Fail(status, "range", location, {dim}, dtype);
  return graph.Add(std::make_unique<RangeOp>(std::move(dim), dtype), location);
}

}  // namespace mtf
