// SPDX-License-Identifier: Apache-2.0
//
// What a layout costs at least, without lowering it
// (lowering/search_rules.h).
#ifndef LOWERING_SEARCH_BOUNDS_H_
#define LOWERING_SEARCH_BOUNDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "lowering/search_rules.h"
#include "lowering/search_space.h"

namespace mtf::internal {

// Bounds from below for every layout of a space. Why each holds:
//
//   compute      The einsums and kernels of the step on one device are those on
//                many, or fewer: cuts add masks and copies and keep maps from
//                being fused, and take none away. Each works on its iteration
//                space, cut by the axes that cut one of its dimensions, and by
//                no other.
//   collectives  What an axis forces by itself is read from the program lowered
//                on that axis alone. Further axes cut the values that move,
//                each at most once; a sum may also be shared by ranks that
//                would all do it, and gathered. Where several axes move one
//                group of values, one collective may serve all, so only the
//                dearest of them counts, at the best rate of any group that it
//                may be part of.
//   step         No less than all collectives, one after the other; no less
//                than compute and those collectives that nothing can hide: a
//                kernel makes what they send and the next one reads what they
//                bring. Without overlap, no less than both.
//   memory       Variables; and, where the step on one device holds most, every
//                value that was made before and is read behind. That place is
//                between forward and backward, where no pass moves anything
//                across: what the backward part reads of the forward one has
//                two readers, so it is no part of a fused map, but in memory.
class SearchBounds {
 public:
  // Lowers the step on one device, and on each axis alone under each role.
  // Both arguments are to outlive the bounds.
  static absl::StatusOr<SearchBounds> Make(const SearchInput& input,
                                           const SearchSpace& space,
                                           const SearchPrices& prices);

  // Of the default section alone; `cuts` by place in space.axes.
  double ComputeSeconds(const std::vector<DimSet>& cuts) const;

  struct Bound {
    double seconds = 0;   // no layout is faster
    double estimate = 0;  // as if nothing overlapped: a good order to try
    double memory = 0;    // no layout takes less, in bytes
  };
  // `compute` is ComputeSeconds of the same layout.
  Bound Of(const Roles& roles, double compute) const;

 private:
  // Values that share what can cut them.
  using Bytes = std::map<DimSet, double>;
  // A product of matrices: for batch, m, n and k the dimensions, as places in
  // space.dimensions or -1, with their sizes.
  using Sizes = std::vector<std::pair<int, int64_t>>;
  using Matmul = std::tuple<DType, Sizes, Sizes, Sizes, Sizes>;
  // What moves: dimensions, kind, whether for the optimizer, and whether
  // compute has to wait for it.
  using Move = std::tuple<DimSet, CollectiveKind, bool, bool>;

  // What a step consists of.
  struct Amounts {
    std::map<Matmul, double> matmuls;  // how many
    // Bytes that kernels read and write, those of the size of parameters apart.
    Bytes maps, update_maps, parameter_maps;
    Bytes kernels;  // how many, under 0
    Bytes parameters, states, saved;
  };
  using Moves = std::map<Move, double>;  // bytes of whole buffers

  Amounts AmountsOf(const Graph& graph, const Program& program) const;
  Moves MovesOf(const Graph& graph, const Program& program) const;
  void AddKernels(const absl::flat_hash_set<std::string>& optimizer,
                  const Program& program, Amounts& amounts) const;
  DimSet DimsOf(const Shape& shape) const;
  double CutBy(DimSet dims, const std::vector<DimSet>& cuts) const;
  void MeasureRates();

  const SearchSpace* space_ = nullptr;
  const SearchPrices* prices_ = nullptr;
  std::vector<double> sizes_;  // by place in space.axes
  Amounts amounts_;
  // By place in space.axes and role, in order of dimensions.
  struct Traffic {
    DimSet dims;
    CollectiveKind kind;
    bool optimizer;
    bool waits;
    double bytes;
  };
  std::vector<std::vector<std::vector<Traffic>>> traffic_;
  // Seconds of a byte by kind, place of an axis and set of places that it is
  // in: the least over all groups within the set.
  std::vector<std::vector<std::vector<double>>> rates_;
  double launch_ = 0, copy_rate_ = 0;  // of a copy: seconds, and of a byte
};

// Whether the axes at two places of space.axes have one size and one speed,
// alone and in every group, so that layouts that only trade them cost the same.
bool AreAlike(const SearchSpace& space, const SearchPrices& prices, int a,
              int b);

}  // namespace mtf::internal

#endif  // LOWERING_SEARCH_BOUNDS_H_
