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

// Classes of collectives: those that reduce, those that gather for use and
// those that gather for the update.
constexpr size_t kClasses = 3;

int64_t RoundedUp(int64_t size, int64_t shards) {
  return (size + shards - 1) / shards;
}

}  // namespace

SearchBounds::ShardedDims::ShardedDims(const AxisRoles& roles) {
  for (const AxisRole& role : roles.axes) {
    defaults.push_back(role.by_default());
    parameters.push_back(role.by_default() | role.parameters);
    optimizer.push_back(role.by_default() | role.optimizer);
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
      maps_(TermsOf(workload.maps)),
      update_maps_(TermsOf(workload.update_maps)),
      parameter_maps_(TermsOf(workload.parameter_maps)),
      parameters_(TermsOf(workload.parameters)),
      states_(TermsOf(workload.states)),
      saved_(TermsOf(workload.saved)),
      kept_(TermsOf(workload.kept)),
      times_(space, prices),
      launch_(prices.copy(0)),
      copy_rate_(CopyRate(prices)) {
  static const AxisTraffic kNone;
  for (int axis : space.axes) {
    const int64_t size = space.mesh.axis_size(axis);
    sizes_.push_back(static_cast<double>(size));
    // On a mesh with one axis the program of a role is the program of the
    // layout: pricing it takes no longer than bounding its transfers.
    traffic_.push_back(space.axes.size() == 1 ? &kNone
                                              : &table.Get(step, space, size));
  }
}

SearchBounds::Terms SearchBounds::TermsOf(const BytesByDims& bytes_by_dims) {
  // Dimensions that are not searched stay replicated.
  std::map<Sizes, double> searched;
  for (const auto& [sizes, bytes] : bytes_by_dims) {
    Sizes searched_sizes = sizes;
    std::erase_if(searched_sizes,
                  [](const auto& dim) { return dim.first < 0; });
    searched[searched_sizes] += bytes;
  }
  Terms terms;
  for (const auto& [sizes, bytes] : searched) {
    terms.push_back({DimsOf(sizes), sizes, bytes});
  }
  return terms;
}

double SearchBounds::CachedShareOf(const Terms& terms,
                                   absl::Span<const DimSet> sharded) const {
  const auto [known, is_new] =
      shares_.try_emplace({&terms, {sharded.begin(), sharded.end()}}, 0.0);
  if (is_new) known->second = ShareOf(terms, sharded);
  return known->second;
}

double SearchBounds::ShareOf(const Terms& terms,
                             absl::Span<const DimSet> sharded) const {
  double bytes = 0;
  for (const Term& term : terms) {
    double share = term.bytes;
    std::array<int64_t, 64> shards;
    DimSet divided = 0;
    for (size_t i = 0; i < sharded.size(); ++i) {
      const DimSet sharded_here = sharded[i] & term.dims;
      if (sharded_here == 0) continue;
      // A term with several of these dimensions has those of several views, of
      // which the axis shards one.
      if ((sharded_here & (sharded_here - 1)) != 0) {
        share /= sizes_[i];
        continue;
      }
      const int dim = std::countr_zero(sharded_here);
      if ((divided & sharded_here) == 0) shards[dim] = 1;
      shards[dim] *= static_cast<int64_t>(sizes_[i]);
      divided |= sharded_here;
    }
    for (const auto& [dim, size] : term.sizes) {
      if ((divided >> dim & 1) == 0) continue;
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
    for (const auto& [dim, size] : sizes) {
      int64_t shards = 1;
      for (size_t i = 0; i < sharded.size() && dim >= 0; ++i) {
        if (sharded[i] >> dim & 1) shards *= static_cast<int64_t>(sizes_[i]);
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
  return seconds + copy_rate_ * CachedShareOf(maps_, sharded);
}

double SearchBounds::MemoryOf(const ShardedDims& sharded) const {
  return CachedShareOf(parameters_, sharded.parameters) +
         CachedShareOf(states_, sharded.optimizer) +
         CachedShareOf(saved_, sharded.defaults);
}

double SearchBounds::KeptBytes(const AxisRoles& roles,
                               const ShardedDims& sharded) const {
  DimSet gathered_by = 0;
  for (const AxisRole& role : roles.axes) gathered_by |= role.parameters;
  AxisDims key = sharded.defaults;
  key.push_back(gathered_by);
  const auto [known, is_new] = shares_.try_emplace({&kept_, key}, 0.0);
  if (is_new) {
    Terms gathered = kept_;
    std::erase_if(gathered, [gathered_by](const Term& term) {
      return (term.dims & gathered_by) == 0;
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

double SearchBounds::SecondsOf(const LayoutTraffic& transfer, size_t axis,
                               const TransferAxes& transfer_axes,
                               const ShardedDims& sharded) const {
  double divisor = 1, sharers = 1, sliced_divisor = 1;
  size_t idle = 0;
  for (size_t j = 0; j < sizes_.size(); ++j) {
    if (j == axis) continue;
    const DimSet other = transfer.optimizer || transfer_axes.mixed
                             ? sharded.all[j]
                             : sharded.defaults[j];
    if ((other & transfer.dims) != 0) {
      divisor *= sizes_[j];
    } else if ((transfer_axes.reduce >> j & 1) != 0) {
      continue;
    } else if ((sharded.all[j] & transfer.dims) != 0) {
      sliced_divisor *= sizes_[j];
    } else {
      sharers *= sizes_[j];
      idle |= size_t{1} << j;
    }
  }
  const bool reduces = IsReduction(transfer.kind);
  const size_t group = (transfer.kind == CollectiveKind::kAllGather
                            ? transfer_axes.gather[transfer.optimizer]
                            : transfer_axes.all) |
                       size_t{1} << axis;
  // A sum whose result is needed in shards computes only those.
  if (reduces) divisor *= sliced_divisor;
  const double value = static_cast<double>(transfer.value) / divisor;
  const double bytes = transfer.bytes / divisor;
  // A reduction that compute does not wait for may be bucketed with others.
  const bool is_separate_call = !reduces || transfer.waits;
  const auto seconds = [&](double parts) {
    if (!is_separate_call) {
      return bytes / parts * times_.Rate(transfer.kind, axis, group);
    }
    if (value == 0) return 0.0;
    return bytes / value *
           times_.Seconds(transfer.kind, axis, group, value / parts);
  };
  if (idle == 0 || !reduces) return seconds(1);
  // Ranks that would all compute the same sum may each compute a share of it
  // and gather the result.
  double gather = kNever;
  for (size_t j = 0; j < sizes_.size(); ++j) {
    if (idle >> j & 1) {
      gather = std::min(gather, times_.Rate(CollectiveKind::kAllGather, j,
                                            idle | transfer_axes.all));
    }
  }
  const double result = transfer.kind == CollectiveKind::kReduceScatter
                            ? bytes / sizes_[axis]
                            : bytes;
  return std::min(seconds(1), seconds(sharers) + result * gather);
}

std::pair<double, double> SearchBounds::Collectives(const Roles& roles,
                                                    const ShardedDims& sharded,
                                                    bool keep_gathered) const {
  const size_t count = roles.size();
  double all = 0, waits = 0;
  if (count == 1) return {all, waits};
  const auto traffic = [&](size_t i) -> const RoleTraffic& {
    return (keep_gathered ? traffic_[i]->once
                          : traffic_[i]->repeated)[roles[i]];
  };
  // The transfers of each axis are sorted by dimensions. Each iteration takes
  // those with the smallest remaining dimensions from all axes.
  std::array<size_t, kMaxMeshAxes> next_transfer = {};
  for (;;) {
    bool any = false;
    DimSet dims = 0;
    for (size_t i = 0; i < count; ++i) {
      if (next_transfer[i] == traffic(i).transfers.size()) continue;
      const DimSet next = traffic(i).transfers[next_transfer[i]].dims;
      dims = any ? std::min(dims, next) : next;
      any = true;
    }
    if (!any) break;
    TransferAxes transfer_axes;
    bool mixes = false;
    std::array<size_t, kMaxMeshAxes> group_end = next_transfer;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<LayoutTraffic>& transfers = traffic(i).transfers;
      for (; group_end[i] < transfers.size() &&
             transfers[group_end[i]].dims == dims;
           ++group_end[i]) {
        transfer_axes.all |= size_t{1} << i;
        const CollectiveKind kind = transfers[group_end[i]].kind;
        mixes = mixes || (kind != CollectiveKind::kReduceScatter &&
                          kind != CollectiveKind::kAllGather);
        if (kind != CollectiveKind::kReduceScatter) {
          transfer_axes.gather[transfers[group_end[i]].optimizer] |= size_t{1}
                                                                     << i;
        }
      }
    }
    // If a parameter is stored in smaller shards than its state, one gather may
    // serve both the use and the update, with the shards of either.
    for (size_t i = 0; i < count; ++i) {
      if ((sharded.parameters[i] & ~sharded.optimizer[i]) == 0) continue;
      transfer_axes.mixed = mixes = true;
      transfer_axes.all = (size_t{1} << count) - 1;
      transfer_axes.gather.fill(transfer_axes.all);
    }
    // One collective does not both reduce and gather, nor gather both for use
    // and for the update. But an all_reduce may be split into a reduce_scatter
    // and an all_gather, and the other kinds may replace gathers.
    std::array<size_t, kClasses> class_of = {0, 1, 2};
    if (transfer_axes.gather[0] == transfer_axes.gather[1]) class_of[2] = 1;
    if (mixes) class_of.fill(0);
    std::array<double, kClasses> most_expensive = {}, most_expensive_wait = {};
    for (size_t i = 0; i < count; ++i) {
      std::array<double, kClasses> seconds = {}, wait = {};
      for (size_t k = next_transfer[i]; k < group_end[i]; ++k) {
        const LayoutTraffic& transfer = traffic(i).transfers[k];
        transfer_axes.reduce = 0;
        for (size_t j = 0; j < count && IsReduction(transfer.kind); ++j) {
          double bytes = 0;
          for (size_t l = next_transfer[j]; l < group_end[j]; ++l) {
            const LayoutTraffic& other = traffic(j).transfers[l];
            if (other.name == transfer.name && IsReduction(other.kind)) {
              bytes += other.bytes;
            }
          }
          if (bytes >= transfer.bytes * (1 - 1e-9)) {
            transfer_axes.reduce |= size_t{1} << j;
          }
        }
        const double time = SecondsOf(transfer, i, transfer_axes, sharded);
        const size_t class_index = class_of[IsReduction(transfer.kind) ? 0
                                            : transfer.optimizer       ? 2
                                                                       : 1];
        seconds[class_index] += time;
        if (transfer.waits) wait[class_index] += time;
      }
      for (size_t c = 0; c < kClasses; ++c) {
        most_expensive[c] = std::max(most_expensive[c], seconds[c]);
        most_expensive_wait[c] = std::max(most_expensive_wait[c], wait[c]);
      }
    }
    next_transfer = group_end;
    for (size_t c = 0; c < kClasses; ++c) {
      all += most_expensive[c];
      waits += most_expensive_wait[c];
    }
  }
  // Each stop takes at least the latency, however little is sent.
  for (size_t i = 0; i < count; ++i) {
    waits = std::max(waits, traffic(i).stops * times_.Latency(i));
  }
  return {std::max(all, waits), waits};
}

SearchBounds::Bound SearchBounds::Of(const Roles& roles, double compute,
                                     bool keep_gathered) const {
  const AxisRoles layout = RolesOf(space_, roles);
  const ShardedDims sharded(layout);
  Bound bound;
  bound.memory =
      MemoryOf(sharded) + (keep_gathered ? KeptBytes(layout, sharded) : 0);
  compute += copy_rate_ * (CachedShareOf(update_maps_, sharded.optimizer) +
                           CachedShareOf(parameter_maps_, sharded.all));
  const auto [collectives, waits] = Collectives(roles, sharded, keep_gathered);
  bound.estimate = compute + collectives;
  bound.seconds = prices_.overlaps ? std::max(compute + waits, collectives)
                                   : compute + collectives;
  return bound;
}

}  // namespace mtf::internal
