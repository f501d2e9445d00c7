// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/matmul/choose_matmul.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lowering/program/einsum_kind.h"

namespace mtf::cuda {
namespace {

constexpr int kMaxAlignment = 16;  // bytes; the widest access of a GPU

// A single row or column fits either order; the leading dimension must still be
// valid for the matrix.
MatmulProblem::Matrix MatrixOf(int64_t rows, int64_t row_stride,
                               int64_t columns, int64_t column_stride) {
  MatmulProblem::Matrix matrix;
  if (columns == 1 || column_stride == 1) {
    matrix.leading = rows == 1 ? columns : row_stride;
    return matrix;
  }
  matrix.transposed = true;
  matrix.leading = columns == 1 ? rows : column_stride;
  return matrix;
}

// The copy that packs an operand into dense memory.
StridedCopy PackCopy(DType dtype, const std::vector<StridedDimension>& pack) {
  StridedCopy copy{dtype, dtype, {}};
  int64_t dense = 1;
  for (auto dim = pack.rbegin(); dim != pack.rend(); ++dim) {
    copy.loops.push_back({dim->extent, dim->stride, dense});
    dense *= dim->extent;
  }
  std::reverse(copy.loops.begin(), copy.loops.end());
  return copy;
}

StridedCopy UnpackCopy(DType from, DType to,
                       const std::vector<StridedDimension>& pack) {
  StridedCopy copy = PackCopy(to, pack);
  copy.from_dtype = from;
  for (StridedCopy::Loop& loop : copy.loops) std::swap(loop.from, loop.to);
  return copy;
}

// Number of elements of z, which is dense, packed or not.
int64_t ResultElements(const EinsumPlan& plan) {
  int64_t elements = plan.m.extent * plan.n.extent;
  for (const EinsumLoop& loop : plan.batch) elements *= loop.extent;
  return elements;
}

// Calls `body` with the offsets at every index of `loops`, the last fastest.
template <typename Body>
void ForEachIndex(const std::vector<EinsumLoop>& loops, const Body& body) {
  int64_t count = 1;
  for (const EinsumLoop& loop : loops) count *= loop.extent;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, x = 0, y = 0, z = 0;
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
      const int64_t at = rest % loop->extent;
      rest /= loop->extent;
      x += at * loop->x;
      y += at * loop->y;
      z += at * loop->z;
    }
    body(x, y, z);
  }
}

// The largest power of two up to `alignment` that divides all offsets.
int AlignmentOf(int alignment, int64_t offsets, DType dtype) {
  const int64_t both = std::gcd<int64_t>(alignment, offsets * DTypeSize(dtype));
  return static_cast<int>(std::min<int64_t>(both, kMaxAlignment));
}

}  // namespace

std::string MatmulCalls::ToString() const {
  std::string text;
  for (size_t i = 0; i < calls.size();) {
    const MatmulProblem& problem = problems[calls[i].problem];
    size_t end = i;
    const auto same = [&](const MatmulProblem& other) {
      MatmulProblem with = other;
      with.beta = problem.beta;
      return with == problem;
    };
    while (end < calls.size() && same(problems[calls[end].problem])) ++end;
    if (i > 0) text += "; ";
    if (end - i > 1) absl::StrAppend(&text, end - i, " x ");
    if (problem.batch > 1) absl::StrAppend(&text, "batch ", problem.batch, " ");
    absl::StrAppend(&text, "m ", problem.m, " n ", problem.n, " k ", problem.k);
    i = end;
  }
  if (pack_x.has_value()) text += ", packs x";
  if (pack_y.has_value()) text += ", packs y";
  if (unpack_z.has_value()) text += ", unpacks z";
  return text;
}

MatmulCalls ChooseMatmul(const EinsumPlan& plan, DType dtype, DType result,
                         int alignment) {
  MatmulCalls calls;
  calls.swapped = plan.swapped;
  if (plan.flops() == 0) return calls;
  if (plan.copy_x) calls.pack_x = PackCopy(dtype, plan.pack_x);
  if (plan.copy_y) calls.pack_y = PackCopy(dtype, plan.pack_y);

  int64_t sweeps = 1;
  for (const EinsumLoop& loop : plan.outer_k) sweeps *= loop.extent;
  const DType sum = sweeps > 1 ? kFloat32 : result;
  if (plan.copy_z) {
    calls.unpack_z = UnpackCopy(sum, result, plan.pack_z);
  } else if (sum != result) {
    calls.unpack_z = StridedCopy{sum, result, {{ResultElements(plan), 1, 1}}};
  }

  std::vector<EinsumLoop> loops = FoldBatch(plan.batch);
  MatmulProblem problem;
  problem.dtype = dtype;
  problem.result_dtype = sum;
  problem.m = plan.m.extent;
  problem.n = plan.n.extent;
  problem.k = plan.k.extent;
  problem.x = MatrixOf(problem.m, plan.m.x, problem.k, plan.k.x);
  problem.y = MatrixOf(problem.k, plan.k.y, problem.n, plan.n.y);
  problem.z = MatrixOf(problem.m, plan.m.z, problem.n, plan.n.z);
  // The library iterates over the longest loop, the innermost if several are.
  const auto longest = std::max_element(
      loops.begin(), loops.end(), [](const EinsumLoop& a, const EinsumLoop& b) {
        return a.extent <= b.extent;
      });
  if (longest != loops.end()) {
    problem.batch = longest->extent;
    problem.x.batch_stride = longest->x;
    problem.y.batch_stride = longest->y;
    problem.z.batch_stride = longest->z;
    loops.erase(longest);
  }

  int64_t all_x = 0, all_y = 0, all_z = 0;  // divisors of the offsets
  bool first = true;
  ForEachIndex(plan.outer_k, [&](int64_t outer_x, int64_t outer_y, int64_t) {
    ForEachIndex(loops, [&](int64_t x, int64_t y, int64_t z) {
      calls.calls.push_back({first ? 0 : 1, outer_x + x, outer_y + y, z});
      all_x = std::gcd(all_x, outer_x + x);
      all_y = std::gcd(all_y, outer_y + y);
      all_z = std::gcd(all_z, z);
    });
    first = false;
  });
  problem.x.alignment = AlignmentOf(alignment, all_x, dtype);
  problem.y.alignment = AlignmentOf(alignment, all_y, dtype);
  problem.z.alignment = AlignmentOf(alignment, all_z, sum);
  calls.problems.push_back(problem);
  if (sweeps > 1) {
    problem.beta = 1;
    calls.problems.push_back(problem);
  }
  return calls;
}

}  // namespace mtf::cuda
