// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/einsum_kind.h"

#include <algorithm>

namespace mtf {
namespace {

bool FoldsInto(const EinsumLoop& outer, const EinsumLoop& inner) {
  return outer.x == inner.x * inner.extent &&
         outer.y == inner.y * inner.extent && outer.z == inner.z * inner.extent;
}

}  // namespace

EinsumKind KindOfEinsum(const EinsumPlan& plan, DType dtype) {
  if (plan.flops() == 0) return EinsumKind::kZero;
  const int64_t repeats = IterationsOf(plan.outer_k);
  if (plan.k.extent * repeats == 1) return EinsumKind::kProduct;
  if (!IsFloat(dtype) || (plan.m.extent == 1 && plan.n.extent == 1)) {
    return EinsumKind::kReduce;
  }
  // Launching a matmul takes a GPU as long as reducing about this many
  // products. The longest loop of the batch is one launch.
  constexpr int64_t kFlopsPerLaunch = 2'000'000;
  int64_t longest = 1;
  for (const EinsumLoop& loop : plan.batch) {
    longest = std::max(longest, loop.extent);
  }
  const int64_t launches = repeats * (IterationsOf(plan.batch) / longest);
  if (launches >= 16 && plan.flops() / launches < kFlopsPerLaunch) {
    return EinsumKind::kReduce;
  }
  return EinsumKind::kMatmul;
}

std::vector<EinsumLoop> FoldBatch(std::vector<EinsumLoop> loops) {
  loops.erase(std::remove_if(loops.begin(), loops.end(),
                             [](const EinsumLoop& l) { return l.extent == 1; }),
              loops.end());
  for (size_t i = 0; i < loops.size(); ++i) {
    for (size_t j = 0; j < loops.size(); ++j) {
      if (i == j || !FoldsInto(loops[i], loops[j])) continue;
      loops[j].extent *= loops[i].extent;
      loops.erase(loops.begin() + i);
      i = static_cast<size_t>(-1);  // start over
      break;
    }
  }
  return loops;
}

bool IsOneMatmul(const EinsumPlan& plan) {
  return plan.flops() > 0 && IterationsOf(plan.outer_k) == 1 && !plan.copy_z &&
         FoldBatch(plan.batch).size() <= 1;
}

}  // namespace mtf
