// SPDX-License-Identifier: Apache-2.0
#include "ops/concat.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/slice.h"

namespace mtf {
namespace {

class ConcatOp : public Operation {
 public:
  ConcatOp(std::vector<Tensor> xs, Shape shape, std::string dim)
      : Operation(xs, std::move(shape), xs[0].dtype()), dim_(std::move(dim)) {}
  absl::string_view kind() const override { return "concat"; }
  std::string attributes() const override { return dim_; }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    std::vector<Tensor> gradients;
    int64_t begin = 0;
    for (const Tensor& x : inputs()) {
      const int64_t size = x.shape().SizeOf(dim_);
      gradients.push_back(Slice(dy, dim_, begin, size));
      begin += size;
    }
    return gradients;
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.Concat(inputs, dim_);
  }

 private:
  const std::string dim_;
};

absl::Status Check(const Graph& graph, const std::vector<Tensor>& xs,
                   absl::string_view dim) {
  MTF_RETURN_IF_ERROR(internal::CheckInputs(graph, xs));
  MTF_RETURN_IF_ERROR(internal::CheckOneDType(xs));
  for (const Tensor& x : xs) {
    MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim));
  }
  for (const Tensor& x : xs) {
    MTF_RETURN_IF_ERROR(internal::CheckSameDimensions(xs[0], x, xs, dim));
  }
  return absl::OkStatus();
}

}  // namespace

Tensor Concat(std::vector<Tensor> xs, absl::string_view dim,
              std::source_location location) {
  Graph* graph = internal::GraphOf(xs);
  if (graph == nullptr) return {};
  internal::AdoptDType(absl::MakeSpan(xs), location);
  const absl::Status status = Check(*graph, xs, dim);
  if (!status.ok()) {
    return graph->Fail(status, "concat", location, xs[0].shape(),
                       xs[0].dtype());
  }
  // The sum saturates at 2^62 + 1, which Shape::Validate rejects.
  constexpr int64_t kTooMuch = (int64_t{1} << 62) + 1;
  int64_t size = 0;
  for (const Tensor& x : xs) {
    size = std::min(size, kTooMuch - x.shape().SizeOf(dim));
    size += x.shape().SizeOf(dim);
  }
  const Shape shape = xs[0].shape().Resized(dim, size);
  return graph->Add(
      std::make_unique<ConcatOp>(std::move(xs), shape, std::string(dim)),
      location);
}

}  // namespace mtf
