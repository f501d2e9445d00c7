// SPDX-License-Identifier: Apache-2.0
#include "ops/index.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/gather.h"
#include "ops/reshape.h"
#include "ops/slice.h"

namespace mtf {
namespace {

absl::Status Check(Tensor x, absl::string_view dim, int64_t index) {
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim));
  const int64_t size = x.shape().SizeOf(dim);
  if (index >= 0 && index < size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("index ", index, " is outside dimension \"", dim, "\" of \"",
                   x.name(), "\", which is ", size, DescribeInputs({x})));
}

}  // namespace

Tensor Index(Tensor x, absl::string_view dim, int64_t index,
             std::source_location location) {
  if (!x.valid()) return {};
  const Shape shape = x.shape().Without(dim);
  const absl::Status status = Check(x, dim, index);
  if (!status.ok()) {
    return x.graph().Fail(status, "index", location, shape, x.dtype());
  }
  return Reshape(Slice(x, dim, index, 1, location), shape, location);
}

Tensor Index(Tensor x, absl::string_view dim, Tensor index,
             std::source_location location) {
  return Gather(x, index, dim, location);
}

}  // namespace mtf
