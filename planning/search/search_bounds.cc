// SPDX-License-Identifier: Apache-2.0
#include "planning/search/search_bounds.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>

namespace mtf::internal {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Of collectives: those that reduce, that gather for use, and for the update.
constexpr size_t kClasses = 3;

int64_t RoundedUp(int64_t size, int64_t shards) {
  return (size + shards - 1) / shards;
}

}  // namespace

SearchBounds::ShardedDims::ShardedDims(const AxisRoles& roles) {
  for (const AxisRole& role : roles.axes) {
    defaults.push_back(role.by_first_name());
    parameters.push_back(role.by_first_name() | role.parameters);
    optimizer.push_back(role.by_first_name() | role.optimizer);
    all.push_back(parameters.back() | optimizer.back());
  }
}

SearchBounds::SearchBounds(const SearchStep& step,
                           const WorkloadSummary& workload,
                           const SearchSpace& space, const SearchPrices& prices,
                           TrafficTable& table)
    : workload_(workload),
      space_(space),
      prices_(prices),
      maps_(EntriesOf(workload.maps)),
      update_maps_(EntriesOf(workload.update_maps)),
      parameter_maps_(EntriesOf(workload.parameter_maps)),
      parameters_(EntriesOf(workload.parameters)),
      states_(EntriesOf(workload.states)),
      saved_(EntriesOf(workload.saved)),
      kept_(EntriesOf(workload.kept)),
      times_(space, prices),
      launch_(prices.copy(0)),
      copy_rate_(CopyRate(prices)) {
  static const AxisTraffic kNone;
  for (int axis : space.axes) {
    const int64_t size = space.mesh.axis_size(axis);
    sizes_.push_back(static_cast<double>(size));
    // On one axis the program of a role is the layout itself: to price it takes
    // no longer than to bound what it sends.
    traffic_.push_back(space.axes.size() == 1 ? &kNone
                                              : &table.Get(step, space, size));
  }
}

SearchBounds::AmountEntries SearchBounds::EntriesOf(const Amount& amount) {
  // Dimensions that are not searched stay whole.
  std::map<Sizes, double> searched;
  for (const auto& [sizes, bytes] : amount) {
    Sizes left = sizes;
    std::erase_if(left, [](const auto& dim) { return dim.first < 0; });
    searched[left] += bytes;
  }
  AmountEntries entries;
  for (const auto& [sizes, bytes] : searched) {
    entries.push_back({DimsOf(sizes), sizes, bytes});
  }
  return entries;
}

double SearchBounds::Share(const AmountEntries& entries,
                           absl::Span<const DimSet> sharded) const {
  const auto [known, is_new] =
      shares_.try_emplace({&entries, {sharded.begin(), sharded.end()}}, 0.0);
  if (is_new) known->second = ShareOf(entries, sharded);
  return known->second;
}

double SearchBounds::ShareOf(const AmountEntries& entries,
                             absl::Span<const DimSet> sharded) const {
  double bytes = 0;
  for (const AmountEntry& entry : entries) {
    double share = entry.bytes;
    std::array<int64_t, 64> shards;
    DimSet set = 0;
    for (size_t i = 0; i < sharded.size(); ++i) {
      const DimSet hit = sharded[i] & entry.dims;
      if (hit == 0) continue;
      // Several dimensions are those of several views: it shards one of them.
      if ((hit & (hit - 1)) != 0) {
        share /= sizes_[i];
        continue;
      }
      const int dim = std::countr_zero(hit);
      if ((set & hit) == 0) shards[dim] = 1;
      shards[dim] *= static_cast<int64_t>(sizes_[i]);
      set |= hit;
    }
    for (const auto& [dim, size] : entry.sizes) {
      if ((set >> dim & 1) == 0) continue;
      share *= static_cast<double>(RoundedUp(size, shards[dim])) /
               static_cast<double>(size);
    }
    bytes += share;
  }
  return bytes;
}

double SearchBounds::ComputeSeconds(absl::Span<const DimSet> sharded) const {
  const auto extent = [&](const Sizes& sizes) {
    int64_t product = 1;
    for (const auto& [place, size] : sizes) {
      int64_t shards = 1;
      for (size_t i = 0; i < sharded.size() && place >= 0; ++i) {
        if (sharded[i] >> place & 1) shards *= static_cast<int64_t>(sizes_[i]);
      }
      product *= RoundedUp(size, shards);
    }
    return product;
  };
  double seconds = launch_ * workload_.kernels;
  for (const auto& [matmul, count] : workload_.matmuls) {
    const auto& [dtype, batch, m, n, k] = matmul;
    seconds += count * prices_.matmul(dtype, extent(batch), extent(m),
                                      extent(n), extent(k));
  }
  return seconds + copy_rate_ * Share(maps_, sharded);
}

double SearchBounds::MemoryOf(const ShardedDims& sharded) const {
  return Share(parameters_, sharded.parameters) +
         Share(states_, sharded.optimizer) + Share(saved_, sharded.defaults);
}

double SearchBounds::KeptBytes(const AxisRoles& roles,
                               const ShardedDims& sharded) const {
  DimSet gathered_by = 0;
  for (const AxisRole& role : roles.axes) gathered_by |= role.parameters;
  AxisDims key = sharded.defaults;
  key.push_back(gathered_by);
  const auto [known, is_new] = shares_.try_emplace({&kept_, key}, 0.0);
  if (is_new) {
    AmountEntries gathered = kept_;
    std::erase_if(gathered, [gathered_by](const AmountEntry& entry) {
      return (entry.dims & gathered_by) == 0;
    });
    known->second = ShareOf(gathered, sharded.defaults);
  }
  return known->second;
}

double SearchBounds::MemoryOf(const AxisRoles& roles) const {
  const ShardedDims sharded(roles);
  return MemoryOf(sharded) +
         (roles.keep_gathered ? KeptBytes(roles, sharded) : 0);
}

double SearchBounds::SecondsOf(const LayoutTraffic& move, size_t axis,
                               const TransferAxes& transfer_axes,
                               const ShardedDims& sharded) const {
  double set = 1, share = 1, sliced = 1;
  size_t idle = 0;
  for (size_t j = 0; j < sizes_.size(); ++j) {
    if (j == axis) continue;
    const DimSet other = move.optimizer || transfer_axes.mixed
                             ? sharded.all[j]
                             : sharded.defaults[j];
    if ((other & move.dims) != 0) {
      set *= sizes_[j];
    } else if ((transfer_axes.reduce >> j & 1) != 0) {
      continue;
    } else if ((sharded.all[j] & move.dims) != 0) {
      sliced *= sizes_[j];
    } else {
      share *= sizes_[j];
      idle |= size_t{1} << j;
    }
  }
  const bool reduces = IsReduction(move.kind);
  const size_t group = (move.kind == CollectiveKind::kAllGather
                            ? transfer_axes.gather[move.optimizer]
                            : transfer_axes.all) |
                       size_t{1} << axis;
  // Of a sum whose result is wanted in shards only those are summed.
  if (reduces) set *= sliced;
  const double value = static_cast<double>(move.value) / set;
  const double bytes = move.bytes / set;
  // What waits to be read late may go with others in one call.
  const bool alone = !reduces || move.waits;
  const auto seconds = [&](double part) {
    if (!alone) return bytes / part * times_.Rate(move.kind, axis, group);
    if (value == 0) return 0.0;
    return bytes / value * times_.Seconds(move.kind, axis, group, value / part);
  };
  if (idle == 0 || !reduces) return seconds(1);
  // Ranks that would all do the same sum may share it and gather it.
  double gather = kNever;
  for (size_t j = 0; j < sizes_.size(); ++j) {
    if (idle >> j & 1) {
      gather = std::min(gather, times_.Rate(CollectiveKind::kAllGather, j,
                                            idle | transfer_axes.all));
    }
  }
  const double result = move.kind == CollectiveKind::kReduceScatter
                            ? bytes / sizes_[axis]
                            : bytes;
  return std::min(seconds(1), seconds(share) + result * gather);
}

std::pair<double, double> SearchBounds::Collectives(const Roles& roles,
                                                    const ShardedDims& sharded,
                                                    bool once) const {
  const size_t count = roles.size();
  double all = 0, waits = 0;
  if (count == 1) return {all, waits};
  const auto traffic = [&](size_t i) -> const RoleTraffic& {
    return (once ? traffic_[i]->once : traffic_[i]->repeated)[roles[i]];
  };
  // The axes' traffic is sorted by dimensions: walk them together.
  std::array<size_t, kMaxMeshAxes> at = {};
  for (;;) {
    bool any = false;
    DimSet dims = 0;
    for (size_t i = 0; i < count; ++i) {
      if (at[i] == traffic(i).moves.size()) continue;
      const DimSet next = traffic(i).moves[at[i]].dims;
      dims = any ? std::min(dims, next) : next;
      any = true;
    }
    if (!any) break;
    TransferAxes transfer_axes;
    bool mixes = false;
    std::array<size_t, kMaxMeshAxes> end = at;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<LayoutTraffic>& moves = traffic(i).moves;
      for (; end[i] < moves.size() && moves[end[i]].dims == dims; ++end[i]) {
        transfer_axes.all |= size_t{1} << i;
        const CollectiveKind kind = moves[end[i]].kind;
        mixes = mixes || (kind != CollectiveKind::kReduceScatter &&
                          kind != CollectiveKind::kAllGather);
        if (kind != CollectiveKind::kReduceScatter) {
          transfer_axes.gather[moves[end[i]].optimizer] |= size_t{1} << i;
        }
      }
    }
    // Where a parameter rests in smaller shards than its state, one gather may
    // serve the use and the update, of what is sharded for any of them.
    for (size_t i = 0; i < count; ++i) {
      if ((sharded.parameters[i] & ~sharded.optimizer[i]) == 0) continue;
      transfer_axes.mixed = mixes = true;
      transfer_axes.all = (size_t{1} << count) - 1;
      transfer_axes.gather.fill(transfer_axes.all);
    }
    // One collective does not reduce and gather, nor gather for use and for the
    // update; but an all_reduce may be taken apart, and other kinds move what
    // others gather.
    std::array<size_t, kClasses> class_of = {0, 1, 2};
    if (transfer_axes.gather[0] == transfer_axes.gather[1]) class_of[2] = 1;
    if (mixes) class_of.fill(0);
    std::array<double, kClasses> dearest = {}, dearest_wait = {};
    for (size_t i = 0; i < count; ++i) {
      std::array<double, kClasses> seconds = {}, wait = {};
      for (size_t k = at[i]; k < end[i]; ++k) {
        const LayoutTraffic& move = traffic(i).moves[k];
        transfer_axes.reduce = 0;
        for (size_t j = 0; j < count && IsReduction(move.kind); ++j) {
          double bytes = 0;
          for (size_t l = at[j]; l < end[j]; ++l) {
            const LayoutTraffic& other = traffic(j).moves[l];
            if (other.name == move.name && IsReduction(other.kind)) {
              bytes += other.bytes;
            }
          }
          if (bytes >= move.bytes * (1 - 1e-9)) {
            transfer_axes.reduce |= size_t{1} << j;
          }
        }
        const double time = SecondsOf(move, i, transfer_axes, sharded);
        const size_t place = class_of[IsReduction(move.kind) ? 0
                                      : move.optimizer       ? 2
                                                             : 1];
        seconds[place] += time;
        if (move.waits) wait[place] += time;
      }
      for (size_t c = 0; c < kClasses; ++c) {
        dearest[c] = std::max(dearest[c], seconds[c]);
        dearest_wait[c] = std::max(dearest_wait[c], wait[c]);
      }
    }
    at = end;
    for (size_t c = 0; c < kClasses; ++c) {
      all += dearest[c];
      waits += dearest_wait[c];
    }
  }
  // However little is sent.
  for (size_t i = 0; i < count; ++i) {
    waits = std::max(waits, traffic(i).stops * times_.Latency(i));
  }
  return {std::max(all, waits), waits};
}

SearchBounds::Bound SearchBounds::Of(const Roles& roles, double compute,
                                     bool once) const {
  const AxisRoles layout = RolesOf(space_, roles);
  const ShardedDims sharded(layout);
  Bound bound;
  bound.memory = MemoryOf(sharded) + (once ? KeptBytes(layout, sharded) : 0);
  compute += copy_rate_ * (Share(update_maps_, sharded.optimizer) +
                           Share(parameter_maps_, sharded.all));
  const auto [collectives, waits] = Collectives(roles, sharded, once);
  bound.estimate = compute + collectives;
  bound.seconds = prices_.overlaps ? std::max(compute + waits, collectives)
                                   : compute + collectives;
  return bound;
}

}  // namespace mtf::internal
