// SPDX-License-Identifier: Apache-2.0
#include "ops/gather.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf {
namespace {

// The dimensions of `indices`, then the other dimensions of `table` except
// `dim`.
Shape GatherShape(const Shape& table, const Shape& indices,
                  absl::string_view dim) {
  Shape shape = indices;
  for (const Dimension& d : table) {
    if (d.name != dim && !shape.Contains(d.name)) shape = shape.With(d);
  }
  return shape;
}

class GatherOp : public Operation {
 public:
  GatherOp(Tensor table, Tensor indices, std::string dim)
      : Operation({table, indices},
                  GatherShape(table.shape(), indices.shape(), dim),
                  table.dtype()),
        dim_(std::move(dim)) {}
  absl::string_view kind() const override { return "gather"; }
  std::string attributes() const override { return dim_; }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    const Tensor updates = Cast(dy, input(0).gradient_dtype());
    return {ScatterAdd(updates, input(1), dim_, input(0).shape()), {}};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.Gather(inputs[0], inputs[1], dim_, shape());
  }

 private:
  const std::string dim_;
};

class ScatterAddOp : public Operation {
 public:
  ScatterAddOp(Tensor updates, Tensor indices, std::string dim, Shape shape)
      : Operation({updates, indices}, std::move(shape), updates.dtype()),
        dim_(std::move(dim)) {}
  absl::string_view kind() const override { return "scatter_add"; }
  std::string attributes() const override { return dim_; }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    return {Gather(dy, input(1), dim_), {}};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.ScatterAdd(inputs[0], inputs[1], dim_, shape());
  }

 private:
  const std::string dim_;
};

absl::Status CheckIndices(Tensor indices, absl::string_view dim,
                          absl::Span<const Tensor> inputs) {
  MTF_RETURN_IF_ERROR(internal::CheckIndexDType(indices, inputs));
  if (indices.shape().Contains(dim)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the indices \"", indices.name(), "\" have the dimension \"", dim,
        "\" that they index", DescribeInputs(inputs),
        "\n  help     Rename() it in the indices"));
  }
  return absl::OkStatus();
}

absl::Status CheckGather(const Graph& graph, Tensor table, Tensor indices,
                         absl::string_view dim) {
  const Tensor inputs[] = {table, indices};
  MTF_RETURN_IF_ERROR(internal::CheckInputs(graph, inputs));
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(table, dim));
  MTF_RETURN_IF_ERROR(CheckIndices(indices, dim, inputs));
  return internal::CheckSizes(inputs);
}

absl::Status CheckScatterAdd(const Graph& graph, Tensor updates, Tensor indices,
                             absl::string_view dim, const Shape& shape) {
  const Tensor inputs[] = {updates, indices};
  MTF_RETURN_IF_ERROR(internal::CheckInputs(graph, inputs));
  MTF_RETURN_IF_ERROR(shape.Validate());
  if (!shape.Contains(dim)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no dimension \"", dim, "\" in the result [",
                     shape.ToString(), "]", DescribeInputs(inputs)));
  }
  MTF_RETURN_IF_ERROR(CheckIndices(indices, dim, inputs));
  const Shape rest = shape.Without(dim);
  MTF_RETURN_IF_ERROR(internal::CheckSizes(inputs, &rest));
  MTF_RETURN_IF_ERROR(internal::CheckNumber(updates, "scatter_add"));
  const Shape wanted = GatherShape(shape, indices.shape(), dim);
  if (!updates.shape().SameDimensions(wanted)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", updates.name(), "\" does not have the dimensions [",
        wanted.ToString(), "] of the indices and the result",
        DescribeInputs(inputs), "\n  output   [", shape.ToString(), "]"));
  }
  return absl::OkStatus();
}

}  // namespace

Tensor Gather(Tensor table, Tensor indices, absl::string_view dim,
              std::source_location location) {
  Graph* graph = internal::GraphOf({table, indices});
  if (graph == nullptr) return {};
  const absl::Status status = CheckGather(*graph, table, indices, dim);
  if (!status.ok()) {
    return graph->Fail(status, "gather", location,
                       GatherShape(table.shape(), indices.shape(), dim),
                       table.dtype());
  }
  return graph->Add(
      std::make_unique<GatherOp>(table, indices, std::string(dim)), location);
}

Tensor ScatterAdd(Tensor updates, Tensor indices, absl::string_view dim,
                  Shape shape, std::source_location location) {
  Graph* graph = internal::GraphOf({updates, indices});
  if (graph == nullptr) return {};
  const absl::Status status =
      CheckScatterAdd(*graph, updates, indices, dim, shape);
  if (!status.ok()) {
    return graph->Fail(status, "scatter_add", location, shape, updates.dtype());
  }
  return graph->Add(std::make_unique<ScatterAddOp>(
                        updates, indices, std::string(dim), std::move(shape)),
                    location);
}

}  // namespace mtf
