// SPDX-License-Identifier: Apache-2.0
#include "ops/split.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/reshape.h"

namespace mtf {
namespace {

// A call with an error returns at most this many tensors.
constexpr int64_t kMostFailed = 1024;

// The types of the results.
std::vector<ResultType> PartTypes(Tensor x, absl::string_view dim,
                                  const std::vector<int64_t>& sizes) {
  std::vector<ResultType> types;
  for (const int64_t size : sizes) {
    types.push_back({x.shape().Resized(dim, size), x.dtype()});
  }
  return types;
}

// One operation for all parts, so that the gradient is one Concat. That of each
// Slice would be a tensor of the size of `x`.
class SplitOp : public Operation {
 public:
  SplitOp(Tensor x, std::string dim, const std::vector<int64_t>& sizes)
      : Operation({x}, PartTypes(x, dim, sizes)), dim_(std::move(dim)) {
    for (int i = 0; i < num_results(); ++i) {
      names_.push_back(absl::StrCat("part_", i));
    }
  }
  absl::string_view kind() const override { return "split"; }
  std::string attributes() const override {
    std::vector<int64_t> sizes;
    for (int i = 0; i < num_results(); ++i) {
      sizes.push_back(shape(i).SizeOf(dim_));
    }
    return absl::StrCat(dim_, " sizes=", absl::StrJoin(sizes, ","));
  }
  absl::string_view ResultName(int index) const override {
    return names_[index];
  }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    std::vector<Tensor> parts;
    for (int i = 0; i < num_results(); ++i) {
      parts.push_back(of_results[i].valid()
                          ? of_results[i]
                          : Zeros(graph(), gradient_dtype(i), shape(i)));
    }
    return {Concat(std::move(parts), dim_)};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    EmittedValues parts;
    int64_t begin = 0;
    for (int i = 0; i < num_results(); ++i) {
      const int64_t size = shape(i).SizeOf(dim_);
      parts.push_back(emitter.Slice(inputs[0], dim_, begin, size));
      begin += size;
    }
    return parts;
  }

 private:
  const std::string dim_;
  std::vector<std::string> names_;  // of the results
};

absl::Status Check(Tensor x, absl::string_view dim,
                   const std::vector<int64_t>& sizes) {
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim));
  const int64_t size = x.shape().SizeOf(dim);
  int64_t left = size;
  for (const int64_t part : sizes) {
    if (part < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a part of dimension \"", dim, "\" of \"", x.name(),
                       "\" has the negative size ", part, DescribeInputs({x})));
    }
    // Cannot overflow: no part is subtracted that exceeds what is left.
    if (part > left) left = -1;
    if (left < 0) break;
    left -= part;
  }
  if (left == 0 && !sizes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the sizes [", absl::StrJoin(sizes, ", "),
                   "] do not add up to dimension \"", dim, "\" of \"", x.name(),
                   "\", which is ", size, DescribeInputs({x})));
}

absl::Status CheckParts(Tensor x, absl::string_view dim, int64_t parts) {
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim));
  const int64_t size = x.shape().SizeOf(dim);
  if (parts >= 1 && size % parts == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "dimension \"", dim, "\" of \"", x.name(), "\", which is ", size,
      ", does not split into ", parts, " equal parts", DescribeInputs({x}),
      "\n  help     give the size of each part: {", size, "}"));
}

}  // namespace

std::vector<Tensor> Split(Tensor x, absl::string_view dim,
                          std::vector<int64_t> sizes,
                          std::source_location location) {
  std::vector<Tensor> parts(sizes.size());
  if (!x.valid()) return parts;
  const absl::Status status = Check(x, dim, sizes);
  if (!status.ok()) {
    const std::vector<ResultType> types = PartTypes(x, dim, sizes);
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i] = x.graph().Fail(status, "split", location, types[i].shape,
                                types[i].dtype);
    }
    if (parts.empty()) x.graph().Fail(status, "split", location);
    return parts;
  }
  const Tensor first = x.graph().Add(
      std::make_unique<SplitOp>(x, std::string(dim), sizes), location);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i] = first.operation()->result(static_cast<int>(i));
  }
  return parts;
}

std::vector<Tensor> Split(Tensor x, absl::string_view dim, int64_t parts,
                          std::source_location location) {
  if (!x.valid()) return std::vector<Tensor>(std::max<int64_t>(parts, 0));
  const absl::Status status = CheckParts(x, dim, parts);
  if (!status.ok()) {
    return std::vector<Tensor>(
        std::clamp<int64_t>(parts, 0, kMostFailed),
        x.graph().Fail(status, "split", location, x.shape(), x.dtype()));
  }
  return Split(x, dim,
               std::vector<int64_t>(parts, x.shape().SizeOf(dim) / parts),
               location);
}

std::vector<Tensor> Unstack(Tensor x, absl::string_view dim,
                            std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = internal::CheckHasDimension(x, dim);
  if (!status.ok()) {
    x.graph().Fail(status, "unstack", location, x.shape(), x.dtype());
    return {};
  }
  const int64_t size = x.shape().SizeOf(dim);
  if (size == 0) return {};
  std::vector<Tensor> parts = Split(x, dim, size, location);
  const Shape shape = x.shape().Without(dim);
  for (Tensor& part : parts) part = Reshape(part, shape, location);
  return parts;
}

}  // namespace mtf
