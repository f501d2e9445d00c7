// SPDX-License-Identifier: Apache-2.0
#include "ops/dynamic_slice.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/sliced_rows.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"

namespace mtf {
namespace {

// `shape` with `rows` in the place of the dimension `dim`.
Shape WithRows(const Shape& shape, absl::string_view dim,
               const Dimension& rows) {
  std::vector<Dimension> dims = shape.dims();
  for (Dimension& each : dims) {
    if (each.name == dim) each = rows;
  }
  return Shape(std::move(dims));
}

Tensor AddDynamicSlice(Tensor x, Tensor index, std::string dim, Shape shape,
                       std::source_location location);

class DynamicSliceOp : public Operation {
 public:
  DynamicSliceOp(Tensor x, Tensor index, std::string dim, Shape shape)
      : Operation({x, index}, std::move(shape), x.dtype()),
        dim_(std::move(dim)) {}
  absl::string_view kind() const override { return "dynamic_slice"; }
  std::string attributes() const override {
    return absl::StrCat(dim_, " to [", shape().ToString(), "]");
  }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = Cast(of_results[0], input(0).gradient_dtype());
    const Tensor zeros = Zeros(graph(), dy.dtype(), input(0).shape());
    return {UpdateSlice(zeros, dy, dim_, input(1)), {}};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.DynamicSlice(inputs[0], inputs[1], dim_, shape());
  }

 private:
  const std::string dim_;
};

class UpdateSliceOp : public Operation {
 public:
  UpdateSliceOp(Tensor x, Tensor update, Tensor index, std::string dim)
      : Operation({x, update, index}, x.shape(), x.dtype()),
        dim_(std::move(dim)) {}
  absl::string_view kind() const override { return "update_slice"; }
  std::string attributes() const override { return dim_; }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    const Shape& rows = input(1).shape();
    const Tensor zeros = Zeros(graph(), dy.dtype(), rows);
    return {UpdateSlice(dy, zeros, dim_, input(2)),
            AddDynamicSlice(dy, input(2), dim_, rows,
                            std::source_location::current()),
            {}};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.UpdateSlice(inputs[0], inputs[1], inputs[2], dim_);
  }

 private:
  const std::string dim_;
};

// `shape` is that of `x` with any rows, in any order.
Tensor AddDynamicSlice(Tensor x, Tensor index, std::string dim, Shape shape,
                       std::source_location location) {
  return x.graph().Add(std::make_unique<DynamicSliceOp>(
                           x, index, std::move(dim), std::move(shape)),
                       location);
}

// Checks `index` and that `rows` rows fit into dimension `dim` of `x`.
absl::Status CheckRowsAt(Tensor x, absl::string_view dim, Tensor index,
                         int64_t rows, absl::Span<const Tensor> inputs) {
  MTF_RETURN_IF_ERROR(internal::CheckIndexDType(index, inputs));
  if (index.shape().Contains(dim)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the index \"", index.name(), "\" has the dimension \"",
                     dim, "\" that it indexes", DescribeInputs(inputs),
                     "\n  help     Rename() it in the index, or use Gather()"));
  }
  for (const Dimension& each : index.shape()) {
    if (x.shape().Contains(each.name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the index \"", index.name(), "\" has the dimension \"", each.name,
        "\", which \"", x.name(), "\" lacks", DescribeInputs(inputs),
        "\n  help     an index is a scalar, or has some of the dimensions of "
        "the tensor; Gather() takes any"));
  }
  const int64_t size = x.shape().SizeOf(dim);
  if (rows <= size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(rows, " rows exceed dimension \"", dim, "\" of \"", x.name(),
                   "\", which is ", size, DescribeInputs(inputs)));
}

absl::Status CheckDynamicSlice(const Graph& graph, Tensor x,
                               absl::string_view dim, Tensor index,
                               const Dimension& rows) {
  const Tensor inputs[] = {x, index};
  MTF_RETURN_IF_ERROR(internal::CheckInputs(graph, inputs));
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim));
  if (rows.name != dim && x.shape().Contains(rows.name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", x.name(), "\" already has a dimension \"", rows.name, "\"",
        DescribeInputs(inputs),
        "\n  help     give the rows the name of the dimension that they are "
        "of, or a new one"));
  }
  MTF_RETURN_IF_ERROR(WithRows(x.shape(), dim, rows).Validate());
  MTF_RETURN_IF_ERROR(CheckRowsAt(x, dim, index, rows.size, inputs));
  return internal::CheckSizes(inputs);
}

absl::Status CheckUpdateSlice(const Graph& graph, Tensor x, Tensor update,
                              absl::string_view dim, Tensor index) {
  const Tensor inputs[] = {x, update, index};
  MTF_RETURN_IF_ERROR(internal::CheckInputs(graph, inputs));
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim));
  MTF_RETURN_IF_ERROR(internal::CheckOneDType({x, update}));
  const Shape& rows = update.shape();
  const int rows_dim = FindRowsDimension(x.shape(), rows, dim);
  const Shape others = rows_dim < 0 ? rows : rows.Without(rows[rows_dim].name);
  const Shape wanted = x.shape().Without(dim);
  if (!others.SameDimensions(wanted)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", update.name(), "\" does not have the dimensions [",
                     wanted.ToString(), "] of \"", x.name(),
                     "\" in addition to its rows along \"", dim, "\"",
                     DescribeInputs(inputs)));
  }
  MTF_RETURN_IF_ERROR(
      CheckRowsAt(x, dim, index, CountRows(x.shape(), rows, dim), inputs));
  return internal::CheckSizes({x, index});
}

}  // namespace

Tensor DynamicSlice(Tensor x, absl::string_view dim, Tensor index,
                    Dimension rows, std::source_location location) {
  Graph* graph = internal::GraphOf({x, index});
  if (graph == nullptr) return {};
  const absl::Status status = CheckDynamicSlice(*graph, x, dim, index, rows);
  const Shape shape = WithRows(x.shape(), dim, rows);
  if (!status.ok()) {
    return graph->Fail(status, "dynamic_slice", location, shape, x.dtype());
  }
  return AddDynamicSlice(x, index, std::string(dim), shape, location);
}

Tensor DynamicSlice(Tensor x, absl::string_view dim, Tensor index, int64_t size,
                    std::source_location location) {
  return DynamicSlice(x, dim, index, Dimension{std::string(dim), size},
                      location);
}

Tensor UpdateSlice(Tensor x, Tensor update, absl::string_view dim, Tensor index,
                   std::source_location location) {
  Graph* graph = internal::GraphOf({x, update, index});
  if (graph == nullptr) return {};
  if (x.valid() && update.valid()) {
    Tensor pair[] = {x, update};
    internal::AdoptDType(absl::MakeSpan(pair), location);
    x = pair[0];
    update = pair[1];
  }
  const absl::Status status = CheckUpdateSlice(*graph, x, update, dim, index);
  if (!status.ok()) {
    return graph->Fail(status, "update_slice", location, x.shape(), x.dtype());
  }
  return graph->Add(
      std::make_unique<UpdateSliceOp>(x, update, index, std::string(dim)),
      location);
}

}  // namespace mtf
