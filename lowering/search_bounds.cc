// SPDX-License-Identifier: Apache-2.0
#include "lowering/search_bounds.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>

namespace mtf::internal {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

int64_t RoundedUp(int64_t size, int64_t shards) {
  return (size + shards - 1) / shards;
}

}  // namespace

SearchBounds::Cuts::Cuts(const AxisRoles& roles) {
  for (const AxisRole& role : roles.axes) {
    defaults.push_back(role.cuts);
    parameters.push_back(role.cuts | role.parameters);
    optimizer.push_back(role.cuts | role.optimizer);
    all.push_back(parameters.back() | optimizer.back());
  }
}

SearchBounds::SearchBounds(const SearchInput& input, const StepAmounts& amounts,
                           const SearchSpace& space, const SearchPrices& prices,
                           TrafficTable& table)
    : amounts_(amounts),
      space_(space),
      prices_(prices),
      maps_(PiecesOf(amounts.maps)),
      update_maps_(PiecesOf(amounts.update_maps)),
      parameter_maps_(PiecesOf(amounts.parameter_maps)),
      parameters_(PiecesOf(amounts.parameters)),
      states_(PiecesOf(amounts.states)),
      saved_(PiecesOf(amounts.saved)),
      kept_(PiecesOf(amounts.kept)),
      rates_(space, prices),
      launch_(prices.copy(0)),
      copy_rate_(CopyRate(prices)) {
  static const AxisTraffic kNone;
  for (int axis : space.axes) {
    const int64_t size = space.mesh.axis_size(axis);
    sizes_.push_back(static_cast<double>(size));
    // On one axis the program of a role is the layout itself: to price it takes
    // no longer than to bound what it sends.
    traffic_.push_back(space.axes.size() == 1 ? &kNone
                                              : &table.Get(input, space, size));
  }
}

SearchBounds::Pieces SearchBounds::PiecesOf(const Amount& amount) {
  // Dimensions that are not searched stay whole.
  std::map<Sizes, double> searched;
  for (const auto& [sizes, bytes] : amount) {
    Sizes left = sizes;
    std::erase_if(left, [](const auto& dim) { return dim.first < 0; });
    searched[left] += bytes;
  }
  Pieces pieces;
  for (const auto& [sizes, bytes] : searched) {
    pieces.push_back({DimsOf(sizes), sizes, bytes});
  }
  return pieces;
}

double SearchBounds::Share(const Pieces& pieces,
                           const std::vector<DimSet>& cuts) const {
  double bytes = 0;
  for (const Piece& piece : pieces) {
    double share = piece.bytes;
    std::array<int64_t, 64> shards;
    DimSet cut = 0;
    for (size_t i = 0; i < cuts.size(); ++i) {
      const DimSet hit = cuts[i] & piece.dims;
      if (hit == 0) continue;
      // Several dimensions are those of several views: it cuts one of them.
      if ((hit & (hit - 1)) != 0) {
        share /= sizes_[i];
        continue;
      }
      const int dim = std::countr_zero(hit);
      if ((cut & hit) == 0) shards[dim] = 1;
      shards[dim] *= static_cast<int64_t>(sizes_[i]);
      cut |= hit;
    }
    for (const auto& [dim, size] : piece.sizes) {
      if ((cut >> dim & 1) == 0) continue;
      share *= static_cast<double>(RoundedUp(size, shards[dim])) /
               static_cast<double>(size);
    }
    bytes += share;
  }
  return bytes;
}

double SearchBounds::ComputeSeconds(const std::vector<DimSet>& cuts) const {
  const auto extent = [&](const Sizes& sizes) {
    int64_t product = 1;
    for (const auto& [place, size] : sizes) {
      int64_t shards = 1;
      for (size_t i = 0; i < cuts.size() && place >= 0; ++i) {
        if (cuts[i] >> place & 1) shards *= static_cast<int64_t>(sizes_[i]);
      }
      product *= RoundedUp(size, shards);
    }
    return product;
  };
  double seconds = launch_ * amounts_.kernels;
  for (const auto& [matmul, count] : amounts_.matmuls) {
    const auto& [dtype, batch, m, n, k] = matmul;
    seconds += count * prices_.matmul(dtype, extent(batch), extent(m),
                                      extent(n), extent(k));
  }
  return seconds + copy_rate_ * Share(maps_, cuts);
}

double SearchBounds::MemoryOf(const Cuts& cuts) const {
  return Share(parameters_, cuts.parameters) + Share(states_, cuts.optimizer) +
         Share(saved_, cuts.defaults);
}

double SearchBounds::KeptBytes(const AxisRoles& roles, const Cuts& cuts) const {
  Pieces gathered;
  for (const Piece& piece : kept_) {
    for (const AxisRole& role : roles.axes) {
      if ((role.parameters & piece.dims) == 0) continue;
      gathered.push_back(piece);
      break;
    }
  }
  return Share(gathered, cuts.defaults);
}

double SearchBounds::MemoryOf(const AxisRoles& roles) const {
  const Cuts cuts(roles);
  return MemoryOf(cuts) + (roles.gathered_once ? KeptBytes(roles, cuts) : 0);
}

// Of what one axis moves, where all of `movers` move values of these
// dimensions.
double SearchBounds::SecondsOf(const LayoutTraffic& move, size_t axis,
                               size_t movers, const Cuts& cuts) const {
  double cut = 1, share = 1;
  size_t idle = 0;
  for (size_t j = 0; j < sizes_.size(); ++j) {
    if (j == axis) continue;
    const DimSet other = move.optimizer ? cuts.all[j] : cuts.defaults[j];
    if ((other & move.dims) != 0) {
      cut *= sizes_[j];
    } else if ((movers >> j & 1) == 0) {
      share *= sizes_[j];
      idle |= size_t{1} << j;
    }
  }
  const double bytes = move.bytes / cut;
  const double seconds = bytes * rates_.Of(move.kind, axis, movers);
  if (idle == 0 || (move.kind != CollectiveKind::kAllReduce &&
                    move.kind != CollectiveKind::kReduceScatter)) {
    return seconds;
  }
  // Ranks that would all do the same sum may share it and gather it.
  double gather = kNever;
  for (size_t j = 0; j < sizes_.size(); ++j) {
    if (idle >> j & 1) {
      gather = std::min(
          gather, rates_.Of(CollectiveKind::kAllGather, j, idle | movers));
    }
  }
  const double result = move.kind == CollectiveKind::kReduceScatter
                            ? bytes / sizes_[axis]
                            : bytes;
  return std::min(seconds, seconds / share + result * gather);
}

std::pair<double, double> SearchBounds::Collectives(const Roles& roles,
                                                    const Cuts& cuts,
                                                    bool once) const {
  const size_t count = roles.size();
  double all = 0, waits = 0;
  if (count == 1) return {all, waits};
  const auto traffic = [&](size_t i) -> const RoleTraffic& {
    return (once ? traffic_[i]->once : traffic_[i]->repeated)[roles[i]];
  };
  // The axes' traffic is sorted by dimensions: walk them together.
  std::vector<size_t> at(count, 0);
  const auto has = [&](size_t i) { return at[i] < traffic(i).moves.size(); };
  const auto next = [&](size_t i) -> const LayoutTraffic& {
    return traffic(i).moves[at[i]];
  };
  for (;;) {
    bool any = false;
    DimSet dims = 0;
    for (size_t i = 0; i < count; ++i) {
      if (!has(i)) continue;
      dims = any ? std::min(dims, next(i).dims) : next(i).dims;
      any = true;
    }
    if (!any) break;
    size_t movers = 0;
    for (size_t i = 0; i < count; ++i) {
      if (has(i) && next(i).dims == dims) movers |= size_t{1} << i;
    }
    double dearest = 0, dearest_wait = 0;
    for (size_t i = 0; i < count; ++i) {
      double seconds = 0, wait = 0;
      for (; has(i) && next(i).dims == dims; ++at[i]) {
        const double time = SecondsOf(next(i), i, movers, cuts);
        seconds += time;
        if (next(i).waits) wait += time;
      }
      dearest = std::max(dearest, seconds);
      dearest_wait = std::max(dearest_wait, wait);
    }
    all += dearest;
    waits += dearest_wait;
  }
  // However little is sent.
  for (size_t i = 0; i < count; ++i) {
    waits = std::max(waits, traffic(i).stops * rates_.Latency(i));
  }
  return {std::max(all, waits), waits};
}

SearchBounds::Bound SearchBounds::Of(const Roles& roles, double compute,
                                     bool once) const {
  const AxisRoles layout = RolesOf(space_, roles);
  const Cuts cuts(layout);
  Bound bound;
  bound.memory = MemoryOf(cuts) + (once ? KeptBytes(layout, cuts) : 0);
  compute += copy_rate_ * (Share(update_maps_, cuts.optimizer) +
                           Share(parameter_maps_, cuts.all));
  const auto [collectives, waits] = Collectives(roles, cuts, once);
  bound.estimate = compute + collectives;
  bound.seconds = prices_.overlaps ? std::max(compute + waits, collectives)
                                   : compute + collectives;
  return bound;
}

}  // namespace mtf::internal
