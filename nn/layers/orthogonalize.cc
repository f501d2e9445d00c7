// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/orthogonalize.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "mtf/dimension.h"
#include "nn/layers/layer.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/reshape.h"

namespace mtf::nn::internal {
namespace {

// Renames each of `dims` from "<name><from>" to "<name><to>".
Tensor RenameAll(Tensor x, const Shape& dims, absl::string_view from,
                 absl::string_view to) {
  for (const Dimension& dim : dims) {
    x = Rename(x, absl::StrCat(dim.name, from), absl::StrCat(dim.name, to));
  }
  return x;
}

}  // namespace

Tensor Normalized(Tensor x, const Shape& stack, double epsilon) {
  return x / Maximum(Sqrt(ReduceSum(Square(x), stack)), epsilon);
}

Tensor OrthogonalizeStep(Tensor x, const Shape& stack, const Shape& rows,
                         const OddPolynomial& p) {
  // A product of matrices over rows needs their dimensions under two names, and
  // three to square it.
  constexpr absl::string_view kSecond = "_second", kThird = "_third";
  Shape square = Join(stack, rows);
  for (const Dimension& dim : rows) {
    square = square.With({absl::StrCat(dim.name, kSecond), dim.size});
  }
  const Tensor x_second = RenameAll(x, rows, "", kSecond);
  const Tensor gram = Einsum({x, x_second}, square);  // x x^T
  Tensor factor = p.cubic * gram;
  if (p.quintic != 0) {
    const Tensor gram_square = Einsum({RenameAll(gram, rows, kSecond, kThird),
                                       RenameAll(gram, rows, "", kThird)},
                                      square);
    factor = factor + p.quintic * gram_square;
  }
  return p.linear * x + Einsum({factor, x_second}, x.shape());
}

}  // namespace mtf::nn::internal
