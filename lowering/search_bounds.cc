// SPDX-License-Identifier: Apache-2.0
#include "lowering/search_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "layouts/shard.h"
#include "lowering/fused_kernels.h"
#include "lowering/parallel_for.h"
#include "lowering/readers.h"
#include "mtf/status.h"

namespace mtf::internal {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Sizes of messages whose best rate counts: no message has a better one.
constexpr int64_t kSizes[] = {int64_t{1} << 20, int64_t{1} << 24,
                              int64_t{1} << 28, int64_t{1} << 32,
                              int64_t{1} << 36};

// The names of the operations that belong to the optimizer.
absl::flat_hash_set<std::string> OptimizerOperations(const Graph& graph) {
  absl::flat_hash_set<std::string> names;
  for (const auto& operation : graph.operations()) {
    if (operation->section() == LayoutSection::kOptimizer) {
      names.insert(operation->name());
    }
  }
  return names;
}

absl::StatusOr<Program> LowerRules(const SearchProgram& program,
                                   const Mesh& mesh, const std::string& text,
                                   const std::string& last_pass) {
  MTF_ASSIGN_OR_RETURN(const LayoutRules rules,
                       LayoutRules::Parse(text, "search"));
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindLayout(*program.graph, mesh, rules));
  return Lower(*program.graph, binding, program.targets,
               {.last_pass = last_pass, .verify = false});
}

// What grows by a line with the number of repeats, from two of them.
template <class Key>
std::map<Key, double> AtRepeats(const std::map<Key, double>& low,
                                const std::map<Key, double>& high, double t) {
  std::map<Key, double> result;
  for (const auto& [key, amount] : low) result[key] = (1 - t) * amount;
  for (const auto& [key, amount] : high) result[key] += t * amount;
  return result;
}

// Where `repeats` of the whole lies on the line through the small ones.
double PlaceOf(const SearchInput& input) {
  const double low = static_cast<double>(input.small[0].repeats);
  const double high = static_cast<double>(input.small[1].repeats);
  return (static_cast<double>(input.program.repeats) - low) / (high - low);
}

}  // namespace

DimSet SearchBounds::DimsOf(const Shape& shape) const {
  DimSet set = 0;
  for (size_t i = 0; i < space_->dimensions.size(); ++i) {
    if (shape.Contains(space_->dimensions[i])) set |= DimSet{1} << i;
  }
  return set;
}

double SearchBounds::CutBy(DimSet dims, const std::vector<DimSet>& cuts) const {
  double cut = 1;
  for (size_t i = 0; i < cuts.size(); ++i) {
    if ((cuts[i] & dims) != 0) cut *= sizes_[i];
  }
  return cut;
}

SearchBounds::Amounts SearchBounds::AmountsOf(const Graph& graph,
                                              const Program& program) const {
  Amounts amounts;
  const auto optimizer = OptimizerOperations(graph);
  const auto bytes_of = [&](int value) {
    return static_cast<double>(program.values[value].shape.num_elements() *
                               DTypeSize(program.values[value].dtype));
  };
  const auto sizes_of = [&](const Shape& in, const Shape* both,
                            const Shape* without) {
    Sizes sizes;
    for (const Dimension& dim : in) {
      if (both != nullptr && !both->Contains(dim.name)) continue;
      if (without != nullptr && without->Contains(dim.name)) continue;
      const auto found = std::find(space_->dimensions.begin(),
                                   space_->dimensions.end(), dim.name);
      sizes.emplace_back(
          found == space_->dimensions.end()
              ? -1
              : static_cast<int>(found - space_->dimensions.begin()),
          dim.size);
    }
    std::sort(sizes.begin(), sizes.end());
    return sizes;
  };
  for (const Instruction& instruction : program.instructions) {
    const bool updates =
        instruction.origin >= 0 &&
        optimizer.contains(program.origins[instruction.origin].operation);
    if (instruction.opcode == Opcode::kEinsum && !updates) {
      const Shape& x = program.values[instruction.operands[0]].shape;
      const Shape& y = program.values[instruction.operands[1]].shape;
      const Shape& z = program.values[instruction.results[0]].shape;
      Shape shared;
      for (const Dimension& dim : x) {
        if (y.Contains(dim.name)) shared = shared.With(dim);
      }
      amounts.matmuls[{program.values[instruction.operands[0]].dtype,
                       sizes_of(shared, &z, nullptr), sizes_of(x, &z, &y),
                       sizes_of(y, &z, &x), sizes_of(shared, nullptr, &z)}] +=
          1;
    }
  }
  AddKernels(optimizer, program, amounts);
  for (const VariableInfo& variable : graph.variables()) {
    if (program.FindVariable(variable.name) == nullptr) continue;
    Bytes& bytes = variable.kind == VariableKind::kParameter
                       ? amounts.parameters
                       : amounts.states;
    bytes[DimsOf(variable.shape)] += static_cast<double>(
        variable.shape.num_elements() * DTypeSize(variable.dtype));
  }

  // Values from the place that made them to their last reader; a reshape may be
  // the same memory.
  const std::vector<int> producers = FindProducers(program);
  struct Life {
    DimSet dims = 0;
    int begin = -1, end = -1;
  };
  std::map<int, Life> lives;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].opcode == Opcode::kReshape) continue;
    for (int value : program.instructions[i].operands) {
      DimSet dims = DimsOf(program.values[value].shape);
      while (producers[value] >= 0 &&
             program.instructions[producers[value]].opcode ==
                 Opcode::kReshape) {
        value = program.instructions[producers[value]].operands[0];
        dims |= DimsOf(program.values[value].shape);
      }
      if (producers[value] < 0 ||
          program.instructions[producers[value]].opcode ==
              Opcode::kReadVariable) {
        continue;
      }
      Life& life = lives[value];
      life.dims |= dims;
      life.begin = producers[value];
      life.end = static_cast<int>(i);
    }
  }
  // The place where most is held.
  std::vector<double> held(program.instructions.size() + 1, 0);
  for (const auto& [value, life] : lives) {
    held[life.begin] += bytes_of(value);
    held[life.end] -= bytes_of(value);
  }
  double sum = 0, most = -1;
  int place = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    sum += held[i];
    if (sum > most) {
      most = sum;
      place = static_cast<int>(i);
    }
  }
  for (const auto& [value, life] : lives) {
    if (life.begin <= place && place < life.end) {
      amounts.saved[life.dims] += bytes_of(value);
    }
  }
  return amounts;
}

// Bytes that elementwise kernels read and write, fused as far as can be.
void SearchBounds::AddKernels(const absl::flat_hash_set<std::string>& optimizer,
                              const Program& program, Amounts& amounts) const {
  std::vector<int> kernels = FindFusedKernels(program).kernel;
  // The epilogue of a product may cost nothing besides it.
  for (int& kernel : kernels) {
    if (kernel >= 0 && program.instructions[kernel].opcode == Opcode::kEinsum) {
      kernel = -1;
    }
  }
  // By value: its kernel, and whether another reads it.
  std::vector<int> maker(program.values.size(), -1);
  std::vector<bool> leaves(program.values.size(), false);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (int value : program.instructions[i].operands) {
      if (maker[value] != kernels[i] || kernels[i] < 0) leaves[value] = true;
    }
    for (int value : program.instructions[i].results) maker[value] = kernels[i];
  }
  std::set<DimSet> variables;
  for (const ProgramVariable& variable : program.variables) {
    variables.insert(DimsOf(variable.shape));
  }
  std::set<std::pair<int, int>> read;
  std::set<int> launched;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (kernels[i] < 0) continue;
    launched.insert(kernels[i]);
    const bool updates =
        instruction.origin >= 0 &&
        optimizer.contains(program.origins[instruction.origin].operation);
    const auto add = [&](int value) {
      const ProgramValue& of = program.values[value];
      const DimSet dims = DimsOf(of.shape);
      // A cast of a parameter or of a gradient may work on the shard at rest.
      Bytes& maps = updates                    ? amounts.update_maps
                    : variables.contains(dims) ? amounts.parameter_maps
                                               : amounts.maps;
      maps[dims] +=
          static_cast<double>(of.shape.num_elements() * DTypeSize(of.dtype));
    };
    for (int value : instruction.operands) {
      if (maker[value] == kernels[i]) continue;
      if (read.insert({kernels[i], value}).second) add(value);
    }
    for (int value : instruction.results) {
      if (leaves[value]) add(value);
    }
  }
  amounts.kernels[0] = static_cast<double>(launched.size());
}

namespace {

// Which collectives nothing can hide: a kernel makes the operand, the next
// kernel of the program reads the result, so between the two nothing computes.
std::vector<bool> FindWaits(const Program& program) {
  const auto is_kernel = [](const Instruction& instruction) {
    switch (instruction.opcode) {
      case Opcode::kInput:
      case Opcode::kReadVariable:
      case Opcode::kOutput:
      case Opcode::kReshard:
      case Opcode::kWriteVariable:
      case Opcode::kReshape:  // may be a view; if not, it only adds time
        return false;
      default:
        return !IsCollective(instruction.opcode) ||
               instruction.opcode == Opcode::kAllSlice;
    }
  };
  const int count = static_cast<int>(program.instructions.size());
  std::vector<bool> waits(count, false);
  // By value: the kernel that makes it, or the collective, through views.
  std::vector<int> kernel(program.values.size(), -1),
      collective(program.values.size(), -1);
  int last = -1;          // kernel so far
  std::vector<int> open;  // collectives since then whose operand it made
  for (int i = 0; i < count; ++i) {
    const Instruction& instruction = program.instructions[i];
    if (is_kernel(instruction)) {
      for (int operand : instruction.operands) {
        if (collective[operand] >= 0 &&
            std::find(open.begin(), open.end(), collective[operand]) !=
                open.end()) {
          waits[collective[operand]] = true;
        }
      }
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

}  // namespace

SearchBounds::Moves SearchBounds::MovesOf(const Graph& graph,
                                          const Program& program) const {
  Moves moves;
  const auto optimizer = OptimizerOperations(graph);
  const std::vector<bool> waits = FindWaits(program);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (!IsCollective(instruction.opcode) ||
        instruction.opcode == Opcode::kAllSlice) {
      continue;
    }
    const bool updates =
        instruction.origin >= 0 &&
        optimizer.contains(program.origins[instruction.origin].operation);
    const CollectiveKind kind = CollectiveOf(instruction.opcode);
    const auto& values = kind == CollectiveKind::kAllGather
                             ? instruction.results[0]
                             : instruction.operands[0];
    const ProgramValue& value = program.values[values];
    moves[{DimsOf(value.shape), kind, updates, waits[i]}] +=
        static_cast<double>(
            LocalElements(program.grains, value.shape, value.layout) *
            DTypeSize(value.dtype));
  }
  return moves;
}

void SearchBounds::MeasureRates() {
  copy_rate_ = std::numeric_limits<double>::infinity();
  for (int64_t size : kSizes) {
    copy_rate_ =
        std::min(copy_rate_, prices_->copy(size) / static_cast<double>(size));
  }
  const int count = static_cast<int>(space_->axes.size());
  rates_.assign(
      kNumCollectiveKinds,
      std::vector<std::vector<double>>(
          count, std::vector<double>(size_t{1} << count,
                                     std::numeric_limits<double>::infinity())));
  for (int kind = 0; kind < kNumCollectiveKinds; ++kind) {
    std::vector<double> rate(size_t{1} << count);
    for (size_t group = 1; group < rate.size(); ++group) {
      AxisList axes;
      for (int i = 0; i < count; ++i) {
        if (group >> i & 1) axes.push_back(space_->axes[i]);
      }
      rate[group] = std::numeric_limits<double>::infinity();
      for (int64_t size : kSizes) {
        rate[group] = std::min(
            rate[group], prices_->collective(static_cast<CollectiveKind>(kind),
                                             space_->mesh, axes, size) /
                             static_cast<double>(size));
      }
    }
    for (int i = 0; i < count; ++i) {
      for (size_t set = 1; set < rate.size(); ++set) {
        for (size_t group = set; group > 0; group = (group - 1) & set) {
          if ((group >> i & 1) == 0) continue;
          rates_[kind][i][set] = std::min(rates_[kind][i][set], rate[group]);
        }
      }
    }
  }
}

absl::StatusOr<SearchBounds> SearchBounds::Make(const SearchInput& input,
                                                const SearchSpace& space,
                                                const SearchPrices& prices) {
  SearchBounds bounds;
  bounds.space_ = &space;
  bounds.prices_ = &prices;
  for (int axis : space.axes) {
    bounds.sizes_.push_back(static_cast<double>(space.mesh.axis_size(axis)));
  }
  bounds.MeasureRates();

  std::vector<const SearchProgram*> programs;
  for (const SearchProgram& small : input.small) programs.push_back(&small);
  if (programs.empty()) programs.push_back(&input.program);
  std::vector<Amounts> amounts;
  for (const SearchProgram* program : programs) {
    MTF_ASSIGN_OR_RETURN(const Program lowered,
                         LowerRules(*program, Mesh(), "", ""));
    amounts.push_back(bounds.AmountsOf(*program->graph, lowered));
  }
  const double t = input.small.empty() ? 0 : PlaceOf(input);
  const Amounts &low = amounts.front(), &high = amounts.back();
  bounds.amounts_.matmuls = AtRepeats(low.matmuls, high.matmuls, t);
  bounds.amounts_.kernels = AtRepeats(low.kernels, high.kernels, t);
  bounds.amounts_.maps = AtRepeats(low.maps, high.maps, t);
  bounds.amounts_.update_maps = AtRepeats(low.update_maps, high.update_maps, t);
  bounds.amounts_.parameter_maps =
      AtRepeats(low.parameter_maps, high.parameter_maps, t);
  bounds.amounts_.parameters = AtRepeats(low.parameters, high.parameters, t);
  bounds.amounts_.states = AtRepeats(low.states, high.states, t);
  bounds.amounts_.saved = AtRepeats(low.saved, high.saved, t);

  for (size_t i = 0; i < space.axes.size(); ++i) {
    const MeshAxis& axis = space.mesh.axes()[space.axes[i]];
    size_t same = 0;
    while (bounds.sizes_[same] != bounds.sizes_[i]) ++same;
    if (same < i) {
      bounds.traffic_.push_back(bounds.traffic_[same]);
      continue;
    }
    SearchSpace alone;
    MTF_ASSIGN_OR_RETURN(
        alone.mesh, Mesh::Parse(absl::string_view(axis.name + ":" +
                                                  std::to_string(axis.size))));
    alone.axes = {0};
    alone.dimensions = space.dimensions;
    alone.roles = space.roles;
    bounds.traffic_.emplace_back();
    bounds.traffic_.back().resize(space.roles.size());
    // On one axis the program of a role is the layout itself: to price it takes
    // no longer than to bound what it sends.
    if (space.axes.size() == 1) break;
    ParallelFor(space.roles.size(), [&](size_t role) {
      const std::string rules = RulesText(alone, {static_cast<int>(role)});
      std::vector<Moves> moves;
      for (const SearchProgram* program : programs) {
        // Before collectives are bucketed: each value still stands alone.
        const absl::StatusOr<Program> lowered = LowerRules(
            *program, alone.mesh, rules, "remove_trivial_collectives");
        // A role that does not lower is told so when it is priced.
        moves.push_back(lowered.ok() ? bounds.MovesOf(*program->graph, *lowered)
                                     : Moves());
      }
      for (const auto& [move, bytes] :
           AtRepeats(moves.front(), moves.back(), t)) {
        const auto& [dims, kind, optimizer, waits] = move;
        bounds.traffic_.back()[role].push_back(
            {dims, kind, optimizer, waits, std::max(0.0, bytes)});
      }
    });
  }
  return bounds;
}

double SearchBounds::ComputeSeconds(const std::vector<DimSet>& cuts) const {
  const auto extent = [&](const Sizes& sizes) {
    int64_t product = 1;
    for (const auto& [place, size] : sizes) {
      int64_t shards = 1;
      for (size_t i = 0; i < cuts.size() && place >= 0; ++i) {
        if (cuts[i] >> place & 1) shards *= static_cast<int64_t>(sizes_[i]);
      }
      product *= (size + shards - 1) / shards;
    }
    return product;
  };
  double seconds = launch_ * amounts_.kernels.at(0);
  for (const auto& [matmul, count] : amounts_.matmuls) {
    const auto& [dtype, batch, m, n, k] = matmul;
    seconds += count * prices_->matmul(dtype, extent(batch), extent(m),
                                       extent(n), extent(k));
  }
  for (const auto& [dims, bytes] : amounts_.maps) {
    seconds += copy_rate_ * bytes / CutBy(dims, cuts);
  }
  return seconds;
}

SearchBounds::Bound SearchBounds::Of(const Roles& roles, double compute) const {
  const size_t count = roles.size();
  std::vector<DimSet> defaults(count), parameters(count), optimizer(count),
      all(count);
  for (size_t i = 0; i < count; ++i) {
    const AxisRole& role = space_->roles[roles[i]];
    defaults[i] = role.cuts;
    parameters[i] = role.cuts | role.parameters;
    optimizer[i] = role.cuts | role.optimizer;
    all[i] = parameters[i] | optimizer[i];
  }
  Bound bound;
  for (const auto& [dims, bytes] : amounts_.parameters) {
    bound.memory += bytes / CutBy(dims, parameters);
  }
  for (const auto& [dims, bytes] : amounts_.states) {
    bound.memory += bytes / CutBy(dims, optimizer);
  }
  for (const auto& [dims, bytes] : amounts_.saved) {
    bound.memory += bytes / CutBy(dims, defaults);
  }
  for (const auto& [dims, bytes] : amounts_.update_maps) {
    compute += copy_rate_ * bytes / CutBy(dims, optimizer);
  }
  for (const auto& [dims, bytes] : amounts_.parameter_maps) {
    compute += copy_rate_ * bytes / CutBy(dims, all);
  }

  // The axes' traffic is sorted by dimensions: walk them together.
  double collectives = 0, waits = 0;
  std::vector<size_t> at(count, 0);
  for (;;) {
    bool any = false;
    DimSet dims = 0;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<Traffic>& mine = traffic_[i][roles[i]];
      if (at[i] == mine.size()) continue;
      dims = any ? std::min(dims, mine[at[i]].dims) : mine[at[i]].dims;
      any = true;
    }
    if (!any) break;
    size_t movers = 0;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<Traffic>& mine = traffic_[i][roles[i]];
      if (at[i] < mine.size() && mine[at[i]].dims == dims) {
        movers |= size_t{1} << i;
      }
    }
    double dearest = 0, dearest_wait = 0;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<Traffic>& mine = traffic_[i][roles[i]];
      double seconds = 0, wait = 0;
      for (; at[i] < mine.size() && mine[at[i]].dims == dims; ++at[i]) {
        const Traffic& move = mine[at[i]];
        double cut = 1, share = 1, gather = kNever;
        size_t idle = 0;
        for (size_t j = 0; j < count; ++j) {
          if (j == i) continue;
          const DimSet other = move.optimizer ? all[j] : defaults[j];
          if ((other & dims) != 0) {
            cut *= sizes_[j];
          } else if ((movers >> j & 1) == 0) {
            share *= sizes_[j];
            idle |= size_t{1} << j;
          }
        }
        double time =
            move.bytes / cut * rates_[static_cast<int>(move.kind)][i][movers];
        // Ranks that would all do the same sum may share it and gather it.
        if (idle != 0 && (move.kind == CollectiveKind::kAllReduce ||
                          move.kind == CollectiveKind::kReduceScatter)) {
          for (size_t j = 0; j < count; ++j) {
            if (idle >> j & 1) {
              gather = std::min(
                  gather, rates_[static_cast<int>(CollectiveKind::kAllGather)]
                                [j][idle | movers]);
            }
          }
          double result = move.bytes / cut;
          if (move.kind == CollectiveKind::kReduceScatter) result /= sizes_[i];
          time = std::min(time, time / share + result * gather);
        }
        seconds += time;
        if (move.waits) wait += time;
      }
      dearest = std::max(dearest, seconds);
      dearest_wait = std::max(dearest_wait, wait);
    }
    collectives += dearest;
    waits += dearest_wait;
  }
  bound.estimate = compute + collectives;
  bound.seconds = prices_->overlaps ? std::max(compute + waits, collectives)
                                    : compute + collectives;
  return bound;
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
    AxisList axes, traded;
    for (int i = 0; i < count; ++i) {
      if ((group >> i & 1) == 0) continue;
      axes.push_back(space.axes[i]);
      traded.push_back(space.axes[i == a ? b : i == b ? a : i]);
    }
    for (int kind = 0; kind < kNumCollectiveKinds; ++kind) {
      for (int64_t size : kSizes) {
        const auto of = [&](const AxisList& list) {
          return prices.collective(static_cast<CollectiveKind>(kind), mesh,
                                   list, size);
        };
        if (of(axes) != of(traded)) return false;
      }
    }
  }
  return true;
}

}  // namespace mtf::internal
