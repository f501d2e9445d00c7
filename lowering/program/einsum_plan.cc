// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/einsum_plan.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtf {
namespace {

enum Operand { kX, kY, kZ };

// A dimension of the einsum with its strides in x, y and z; -1 where absent.
struct Dim {
  std::string name;
  int64_t extent;
  int64_t stride[3];
  bool Has(Operand operand) const { return stride[operand] >= 0; }
};

// Dimensions that form one loop: indices into Problem::dims, outermost first.
struct Group {
  std::vector<int> dims;
  EinsumLoop loop;
};

// The dimensions of an einsum by their role in the matmul: indices into `dims`.
struct Problem {
  std::vector<Dim> dims;
  std::vector<int> batch, m, n, k;
  std::vector<int> lonely;  // in one operand only, and summed
};

Problem Classify(absl::Span<const StridedDimension> x,
                 absl::Span<const StridedDimension> y,
                 absl::Span<const StridedDimension> z) {
  Problem problem;
  const absl::Span<const StridedDimension> operands[] = {x, y, z};
  // Dimensions of the result come first, in its order.
  for (Operand operand : {kZ, kX, kY}) {
    for (const StridedDimension& from : operands[operand]) {
      if (from.extent == 1) continue;  // its stride never counts
      auto dim = std::find_if(
          problem.dims.begin(), problem.dims.end(),
          [&](const Dim& known) { return known.name == from.name; });
      if (dim == problem.dims.end()) {
        problem.dims.push_back({from.name, from.extent, {-1, -1, -1}});
        dim = problem.dims.end() - 1;
      }
      dim->stride[operand] = from.stride;
    }
  }
  for (size_t i = 0; i < problem.dims.size(); ++i) {
    const Dim& dim = problem.dims[i];
    std::vector<int>* role = &problem.lonely;
    if (dim.Has(kX) && dim.Has(kY)) {
      role = dim.Has(kZ) ? &problem.batch : &problem.k;
    } else if (dim.Has(kZ)) {
      role = dim.Has(kX) ? &problem.m : &problem.n;
    }
    role->push_back(static_cast<int>(i));
  }
  return problem;
}

// What is chosen before the loops: the order of the operands, and which of them
// are packed.
struct Choice {
  bool swapped = false;
  bool copied[3] = {false, false, false};
};

EinsumLoop LoopOf(const Dim& dim) {
  return {dim.extent, std::max<int64_t>(dim.stride[kX], 0),
          std::max<int64_t>(dim.stride[kY], 0),
          std::max<int64_t>(dim.stride[kZ], 0)};
}

// Folds adjacent dimensions into one loop wherever the strides of every operand
// that is not packed allow it. A packed operand can have any order.
std::vector<Group> Fold(const Problem& problem, std::vector<int> dims,
                        const Choice& choice) {
  std::vector<Operand> bound;  // operands that are not packed
  if (!dims.empty()) {
    for (Operand operand : {kZ, kX, kY}) {
      if (problem.dims[dims[0]].Has(operand) && !choice.copied[operand]) {
        bound.push_back(operand);
      }
    }
  }
  if (!bound.empty()) {
    std::stable_sort(dims.begin(), dims.end(), [&](int a, int b) {
      return problem.dims[a].stride[bound[0]] >
             problem.dims[b].stride[bound[0]];
    });
  }
  std::vector<Group> groups;
  for (int index : dims) {
    const Dim& dim = problem.dims[index];
    bool folds = !groups.empty();
    if (folds) {
      const Dim& before = problem.dims[groups.back().dims.back()];
      for (Operand operand : bound) {
        folds =
            folds && before.stride[operand] == dim.stride[operand] * dim.extent;
      }
    }
    if (folds) {
      Group& group = groups.back();
      const int64_t extent = group.loop.extent * dim.extent;
      group.loop = LoopOf(dim);
      group.loop.extent = extent;
      group.dims.push_back(index);
    } else {
      groups.push_back({{index}, LoopOf(dim)});
    }
  }
  return groups;
}

int64_t Elements(const Problem& problem, Operand operand) {
  int64_t elements = 1;
  for (const Dim& dim : problem.dims) {
    if (dim.Has(operand)) elements *= dim.extent;
  }
  return elements;
}

int64_t& StrideOf(EinsumLoop& loop, Operand operand) {
  return operand == kX ? loop.x : operand == kY ? loop.y : loop.z;
}

// Lays a packed operand out densely in the order of the loops: sets the strides
// of the loops, and the dimensions of `pack` (pack_x, pack_y or pack_z).
void Pack(const Problem& problem, Operand operand,
          absl::Span<const std::pair<EinsumLoop*, const Group*>> loops,
          std::vector<StridedDimension>* pack) {
  for (const auto& [loop, group] : loops) {
    if (group == nullptr) continue;
    for (int index : group->dims) {
      const Dim& dim = problem.dims[index];
      if (dim.Has(operand)) {
        pack->push_back({dim.name, dim.extent, dim.stride[operand]});
      }
    }
  }
  int64_t stride = 1;
  for (auto it = loops.rbegin(); it != loops.rend(); ++it) {
    const auto& [loop, group] = *it;
    const bool present =
        group != nullptr && problem.dims[group->dims[0]].Has(operand);
    StrideOf(*loop, operand) = present ? stride : 0;
    if (present) stride *= loop->extent;
  }
}

// The plan with one group chosen for each of m, n and k (-1: there is none).
EinsumPlan Assemble(const Problem& problem, const Choice& choice,
                    const std::vector<Group>& batch,
                    const std::vector<Group>& m, const std::vector<Group>& n,
                    const std::vector<Group>& k,
                    const std::vector<Group>& lonely, int main_m, int main_n,
                    int main_k) {
  EinsumPlan plan;
  plan.swapped = choice.swapped;
  plan.copy_x = choice.copied[kX];
  plan.copy_y = choice.copied[kY];
  plan.copy_z = choice.copied[kZ];
  std::vector<const Group*> batch_groups, outer_groups;
  for (const Group& group : batch) batch_groups.push_back(&group);
  for (size_t i = 0; i < m.size(); ++i) {
    if (static_cast<int>(i) != main_m) batch_groups.push_back(&m[i]);
  }
  for (size_t i = 0; i < n.size(); ++i) {
    if (static_cast<int>(i) != main_n) batch_groups.push_back(&n[i]);
  }
  // Batch loops run in the memory order of the result or, if that is packed, of
  // x or y.
  const Operand lead = !plan.copy_z ? kZ : !plan.copy_x ? kX : kY;
  std::stable_sort(batch_groups.begin(), batch_groups.end(),
                   [&](const Group* a, const Group* b) {
                     EinsumLoop loop_a = a->loop, loop_b = b->loop;
                     return StrideOf(loop_a, lead) > StrideOf(loop_b, lead);
                   });
  for (const Group& group : lonely) outer_groups.push_back(&group);
  for (size_t i = 0; i < k.size(); ++i) {
    if (static_cast<int>(i) != main_k) outer_groups.push_back(&k[i]);
  }
  for (const Group* group : batch_groups) plan.batch.push_back(group->loop);
  for (const Group* group : outer_groups) plan.outer_k.push_back(group->loop);
  const Group* m_group = main_m < 0 ? nullptr : &m[main_m];
  const Group* n_group = main_n < 0 ? nullptr : &n[main_n];
  const Group* k_group = main_k < 0 ? nullptr : &k[main_k];
  if (m_group != nullptr) plan.m = m_group->loop;
  if (n_group != nullptr) plan.n = n_group->loop;
  if (k_group != nullptr) plan.k = k_group->loop;

  std::vector<std::pair<EinsumLoop*, const Group*>> loops;
  for (size_t i = 0; i < batch_groups.size(); ++i) {
    loops.push_back({&plan.batch[i], batch_groups[i]});
  }
  const size_t num_batch = loops.size();
  for (size_t i = 0; i < outer_groups.size(); ++i) {
    loops.push_back({&plan.outer_k[i], outer_groups[i]});
  }
  const size_t num_outer = loops.size();
  if (plan.copy_x) {
    loops.push_back({&plan.m, m_group});
    loops.push_back({&plan.k, k_group});
    Pack(problem, kX, loops, &plan.pack_x);
    loops.resize(num_outer);
  }
  if (plan.copy_y) {
    loops.push_back({&plan.k, k_group});
    loops.push_back({&plan.n, n_group});
    Pack(problem, kY, loops, &plan.pack_y);
  }
  loops.resize(num_batch);
  if (plan.copy_z) {
    loops.push_back({&plan.m, m_group});
    loops.push_back({&plan.n, n_group});
    Pack(problem, kZ, loops, &plan.pack_z);
  }
  return plan;
}

// A matmul needs a unit stride in each of its matrices, and row-major results.
bool IsMatmul(const EinsumPlan& plan) {
  const EinsumLoop &m = plan.m, &n = plan.n, &k = plan.k;
  const bool x = m.x == 1 || k.x == 1 || m.extent == 1 || k.extent == 1;
  const bool y = n.y == 1 || k.y == 1 || n.extent == 1 || k.extent == 1;
  return x && y && (n.z == 1 || n.extent == 1);
}

// Costs relative to one matmul at full speed. The unit is the time to read or
// write one element. Fitted by eye to oneDNN: about 40 multiply-adds per
// element moved, and full speed from 16 rows, 32 columns and 32 summands on.
constexpr double kPack = 4, kCall = 50, kFlops = 80;

double PackCost(const Problem& problem, const Choice& choice) {
  double cost = 0;
  for (Operand operand : {kX, kY, kZ}) {
    if (choice.copied[operand]) cost += kPack * Elements(problem, operand);
  }
  return cost;
}

double Cost(const Problem& problem, const EinsumPlan& plan) {
  double cost = 0;
  const double sweeps = IterationsOf(plan.outer_k);
  cost += 2 * (sweeps - 1) * Elements(problem, kZ);
  cost += kCall * sweeps * IterationsOf(plan.batch);
  const auto share = [](int64_t extent, double full) {
    return std::min(1.0, extent / full);
  };
  const double efficiency = share(plan.m.extent, 16) *
                            share(plan.n.extent, 32) * share(plan.k.extent, 32);
  cost += plan.flops() / kFlops * (1 / std::max(efficiency, 1e-9) - 1);
  return cost;
}

}  // namespace

int64_t IterationsOf(const std::vector<EinsumLoop>& loops) {
  int64_t iterations = 1;
  for (const EinsumLoop& loop : loops) iterations *= loop.extent;
  return iterations;
}

int64_t EinsumPlan::flops() const {
  return 2 * IterationsOf(batch) * IterationsOf(outer_k) * m.extent * n.extent *
         k.extent;
}

std::string EinsumPlan::ToString() const {
  const auto extents = [](const std::vector<EinsumLoop>& loops) {
    return absl::StrJoin(loops, "x", [](std::string* out, const EinsumLoop& l) {
      absl::StrAppend(out, l.extent);
    });
  };
  std::string text;
  if (!batch.empty()) absl::StrAppend(&text, "batch ", extents(batch), " ");
  absl::StrAppend(&text, "m ", m.extent, " n ", n.extent, " k ", k.extent);
  if (!outer_k.empty()) absl::StrAppend(&text, " outer k ", extents(outer_k));
  if (copy_x) text += " copy x";
  if (copy_y) text += " copy y";
  if (copy_z) text += " copy z";
  if (swapped) text += " swapped";
  return text;
}

EinsumPlan PlanEinsum(absl::Span<const StridedDimension> x,
                      absl::Span<const StridedDimension> y,
                      absl::Span<const StridedDimension> z) {
  // There are few combinations, so all are tried. The first of the cheapest
  // wins, so a plan depends on the dimensions alone.
  std::optional<EinsumPlan> best;
  double best_cost = 0;
  for (bool swapped : {false, true}) {
    const Problem problem = swapped ? Classify(y, x, z) : Classify(x, y, z);
    for (int copies = 0; copies < 8; ++copies) {
      const Choice choice{
          swapped, {(copies & 1) != 0, (copies & 2) != 0, (copies & 4) != 0}};
      const double pack_cost = PackCost(problem, choice);
      if (best.has_value() && pack_cost >= best_cost) continue;
      const auto fold = [&](const std::vector<int>& dims) {
        return Fold(problem, dims, choice);
      };
      const std::vector<Group> batch = fold(problem.batch);
      const std::vector<Group> m = fold(problem.m), n = fold(problem.n);
      const std::vector<Group> k = fold(problem.k);
      std::vector<Group> lonely;
      for (int index : problem.lonely) {
        lonely.push_back({{index}, LoopOf(problem.dims[index])});
      }
      const auto first = [](const std::vector<Group>& groups) {
        return groups.empty() ? -1 : 0;
      };
      const auto last = [](const std::vector<Group>& groups) {
        return groups.empty() ? 0 : static_cast<int>(groups.size());
      };
      for (int i = first(m); i < last(m); ++i) {
        for (int j = first(n); j < last(n); ++j) {
          for (int l = first(k); l < last(k); ++l) {
            EinsumPlan plan =
                Assemble(problem, choice, batch, m, n, k, lonely, i, j, l);
            if (!IsMatmul(plan)) continue;
            const double cost = pack_cost + Cost(problem, plan);
            if (!best.has_value() || cost < best_cost) {
              best = std::move(plan);
              best_cost = cost;
            }
          }
        }
      }
    }
  }
  // There is one: if all operands are packed, every choice is a matmul.
  return *std::move(best);
}

}  // namespace mtf
