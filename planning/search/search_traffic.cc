// SPDX-License-Identifier: Apache-2.0
#include "planning/search/search_traffic.h"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/program/derived_from_parameters.h"
#include "planning/cost/parallel_for.h"
#include "planning/search/search_names.h"
#include "planning/search/workload_summary.h"

namespace mtf::internal {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Message sizes: the best rate of these bounds that of any message.
constexpr int64_t kSizes[] = {int64_t{1} << 20, int64_t{1} << 24,
                              int64_t{1} << 28, int64_t{1} << 32,
                              int64_t{1} << 36};

// The fields of LayoutTraffic without its bytes, and the bytes by these.
using TransferKey =
    std::tuple<DimSet, CollectiveKind, bool, bool, int64_t, uint64_t>;
using TransferBytes = std::map<TransferKey, double>;

// Finds the collectives that cannot overlap compute: one kernel computes the
// operand and the next kernel of the program reads the result, so nothing
// computes between the two. Adds to `stops` the number of kernels that wait.
// Values derived from variables alone do not count: their collectives may start
// earlier.
std::vector<bool> FindWaits(const Program& program, double& stops) {
  const auto is_kernel = [](const Instruction& instruction) {
    switch (instruction.opcode) {
      case Opcode::kInput:
      case Opcode::kReadVariable:
      case Opcode::kOutput:
      case Opcode::kReshard:
      case Opcode::kWriteVariable:
      case Opcode::kCopyToDevice:
      case Opcode::kCopyToHost:
      case Opcode::kDepend:
      case Opcode::kReshape:  // may be a view; if not, it only adds time
        return false;
      default:
        return !Communicates(instruction.opcode);
    }
  };
  const int count = static_cast<int>(program.instructions.size());
  const std::vector<bool> derived_from_variables =
      FindDerivedFromVariables(program);
  std::vector<bool> waits(count, false);
  // By value: the kernel or the collective that computes it, through views.
  std::vector<int> kernel(program.values.size(), -1),
      collective(program.values.size(), -1);
  int last = -1;          // the last kernel so far
  std::vector<int> open;  // collectives after it whose operand it computed
  for (int i = 0; i < count; ++i) {
    const Instruction& instruction = program.instructions[i];
    if (derived_from_variables[i]) continue;
    if (is_kernel(instruction)) {
      bool stopped = false;
      for (int operand : instruction.operands) {
        if (collective[operand] >= 0 &&
            std::find(open.begin(), open.end(), collective[operand]) !=
                open.end()) {
          waits[collective[operand]] = true;
          stopped = true;
        }
      }
      if (stopped) ++stops;
      open.clear();
      last = i;
      for (int result : instruction.results) kernel[result] = i;
      continue;
    }
    if (instruction.operands.size() != 1 || instruction.results.empty()) {
      continue;
    }
    const int operand = instruction.operands[0];
    const int result = instruction.results[0];
    if (instruction.opcode == Opcode::kReshape) {
      collective[result] = collective[operand];
    } else if (IsCollective(instruction.opcode)) {
      collective[result] = i;
      if (last >= 0 && kernel[operand] == last) open.push_back(i);
    }
  }
  return waits;
}

TransferBytes TransfersOf(const SearchStep& step, const Program& program,
                          const std::vector<std::string>& dimensions,
                          double& stops) {
  TransferBytes transfers;
  const std::vector<bool> waits = FindWaits(program, stops);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (!Communicates(instruction.opcode)) continue;
    const std::string name =
        instruction.origin < 0 ? ""
                               : program.origins[instruction.origin].operation;
    const CollectiveKind kind = CollectiveOf(instruction.opcode);
    const auto& values = kind == CollectiveKind::kAllGather
                             ? instruction.results[0]
                             : instruction.operands[0];
    const ProgramValue& value = program.values[values];
    DimSet dims = 0;
    for (size_t d = 0; d < dimensions.size(); ++d) {
      if (value.shape.Contains(dimensions[d])) dims |= DimSet{1} << d;
    }
    const int64_t bytes =
        LocalElements(program.grains, value.shape, value.layout) *
        DTypeSize(value.dtype);
    transfers[{dims, kind, step.IsOfOptimizer(name), waits[i], bytes,
               NameKey(name)}] += static_cast<double>(bytes);
  }
  return transfers;
}

// Extrapolates the traffic of all layers from those of the subsets.
RoleTraffic ExtrapolateTraffic(const std::vector<TransferBytes>& transfers,
                               const std::vector<double>& stops,
                               double position) {
  RoleTraffic traffic;
  for (const auto& [key, bytes] :
       Extrapolate(transfers.front(), transfers.back(), position)) {
    const auto& [dims, kind, optimizer, waits, value, name] = key;
    traffic.transfers.push_back(
        {dims, kind, optimizer, waits, value, name, std::max(0.0, bytes)});
  }
  traffic.stops = stops.front() + position * (stops.back() - stops.front());
  return traffic;
}

}  // namespace

bool IsReduction(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce ||
         kind == CollectiveKind::kReduceScatter;
}

AxisTraffic AxisTrafficOf(const SearchStep& step, const SearchSpace& space,
                          int64_t size) {
  SearchSpace alone;
  alone.mesh = *Mesh::Parse(absl::StrCat("axis:", size));
  alone.axes = {0};
  alone.dimensions = space.dimensions;
  AxisTraffic traffic;
  traffic.repeated.resize(space.roles.size());
  traffic.once.resize(space.roles.size());
  const double position = step.position();
  ParallelFor(space.roles.size(), [&](size_t role) {
    const std::string rules = RulesText(alone, {{space.roles[role]}});
    std::vector<TransferBytes> once, repeated;
    std::vector<double> stops_once, stops_repeated;
    for (const FewLayers* few : step.LayerSubsets()) {
      once.emplace_back();
      repeated.emplace_back();
      stops_once.push_back(0);
      stops_repeated.push_back(0);
      const auto transfers = [&](const Program& lowered, double& stops) {
        return TransfersOf(step, lowered, space.dimensions, stops);
      };
      // Stops before collectives are bucketed: each value still has its own.
      LowerOptions options = {.last_pass = "regather_parameters"};
      options.after_pass = [&](absl::string_view pass, const Program& lowered) {
        if (pass == "remove_trivial_collectives") {
          once.back() = transfers(lowered, stops_once.back());
        } else if (pass == "regather_parameters") {
          repeated.back() = transfers(lowered, stops_repeated.back());
        }
      };
      // A role that does not lower has no transfers. Its error is reported when
      // it is priced.
      if (!step.Lower(alone.mesh, rules, few, options).ok()) continue;
    }
    traffic.once[role] = ExtrapolateTraffic(once, stops_once, position);
    traffic.repeated[role] =
        ExtrapolateTraffic(repeated, stops_repeated, position);
  });
  return traffic;
}

const AxisTraffic& TrafficTable::Get(const SearchStep& step,
                                     const SearchSpace& space, int64_t size) {
  const auto [entry, inserted] = known_.try_emplace({size, space.restricted});
  if (inserted) entry->second = AxisTrafficOf(step, space, size);
  return entry->second;
}

CollectiveTimes::CollectiveTimes(const SearchSpace& space,
                                 const SearchPrices& prices)
    : space_(space), prices_(prices) {
  const size_t count = space.axes.size();
  latencies_.assign(count, kNever);
  rates_.assign(kNumCollectiveKinds,
                std::vector<std::vector<double>>(
                    count, std::vector<double>(size_t{1} << count, kNever)));
  for (int kind = 0; kind < kNumCollectiveKinds; ++kind) {
    std::vector<double> rate(size_t{1} << count, kNever);
    for (size_t group = 1; group < rate.size(); ++group) {
      const AxisList axes = AxesOf(group);
      const double latency = prices.collective(
          static_cast<CollectiveKind>(kind), space.mesh, axes, 1);
      for (size_t i = 0; i < count; ++i) {
        if (group >> i & 1) latencies_[i] = std::min(latencies_[i], latency);
      }
      for (int64_t size : kSizes) {
        rate[group] = std::min(
            rate[group], prices.collective(static_cast<CollectiveKind>(kind),
                                           space.mesh, axes, size) /
                             static_cast<double>(size));
      }
    }
    for (size_t i = 0; i < count; ++i) {
      for (size_t set = 1; set < rate.size(); ++set) {
        for (size_t group = set; group > 0; group = (group - 1) & set) {
          if ((group >> i & 1) == 0) continue;
          rates_[kind][i][set] = std::min(rates_[kind][i][set], rate[group]);
        }
      }
    }
  }
}

AxisList CollectiveTimes::AxesOf(size_t group) const {
  AxisList axes;
  for (size_t i = 0; i < space_.axes.size(); ++i) {
    if (group >> i & 1) axes.push_back(space_.axes[i]);
  }
  return axes;
}

double CollectiveTimes::Seconds(CollectiveKind kind, size_t axis, size_t set,
                                double bytes) const {
  const int64_t size = static_cast<int64_t>(bytes);
  const auto [known, is_new] = known_.try_emplace(
      {static_cast<int>(kind), set << 8 | axis, size}, kNever);
  if (!is_new) return known->second;
  const double rate = Rate(kind, axis, set);
  for (size_t group = set; group > 0; group = (group - 1) & set) {
    if ((group >> axis & 1) == 0) continue;
    const AxisList axes = AxesOf(group);
    const auto seconds = [&](int64_t all) {
      return prices_.collective(kind, space_.mesh, axes, all);
    };
    double least = seconds(size);
    // Reductions are bucketed into calls of up to some hundred MiB. Then this
    // one adds the time of the call minus that of the others at their rate.
    for (int64_t all = size + size / 4 + 1;
         IsReduction(kind) && all < int64_t{1} << 30; all += all / 4 + 1) {
      least = std::min(least,
                       seconds(all) - rate * static_cast<double>(all - size));
    }
    known->second = std::min(known->second, least);
  }
  return known->second;
}

double CopyRate(const SearchPrices& prices) {
  double rate = kNever;
  for (int64_t size : kSizes) {
    rate = std::min(rate, prices.copy(size) / static_cast<double>(size));
  }
  return rate;
}

bool AreAlike(const SearchSpace& space, const SearchPrices& prices, int a,
              int b) {
  const int count = static_cast<int>(space.axes.size());
  const Mesh& mesh = space.mesh;
  if (mesh.axis_size(space.axes[a]) != mesh.axis_size(space.axes[b]) ||
      prices.collective == nullptr) {
    return false;
  }
  for (size_t group = 1; group < size_t{1} << count; ++group) {
    AxisList axes, swapped;
    for (int i = 0; i < count; ++i) {
      if ((group >> i & 1) == 0) continue;
      axes.push_back(space.axes[i]);
      swapped.push_back(space.axes[i == a ? b : i == b ? a : i]);
    }
    for (int kind = 0; kind < kNumCollectiveKinds; ++kind) {
      for (int64_t size : kSizes) {
        const auto of = [&](const AxisList& list) {
          return prices.collective(static_cast<CollectiveKind>(kind), mesh,
                                   list, size);
        };
        if (of(axes) != of(swapped)) return false;
      }
    }
  }
  return true;
}

}  // namespace mtf::internal
