// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/layer_periodicity.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "lowering/passes/bucket_all_reduces.h"
#include "lowering/program/derived_from_parameters.h"
#include "planning/cost/memory_use.h"

namespace mtf::internal {
namespace {

Purpose PurposeOf(MemoryKind kind) {
  return kind == MemoryKind::kGradient ? kGradients
         : kind == MemoryKind::kCopy   ? kCopies
                                       : kActivations;
}

}  // namespace

LayerPeriodicity::LayerPeriodicity(const Program& program, const FewLayers& few,
                                   const std::vector<double>& seconds)
    : program_(program),
      few_(few),
      seconds_(seconds),
      count_(static_cast<int>(program.instructions.size())) {
  FindPositions();
  FindMemory();
  FindTraversals();
}

int LayerPeriodicity::FindPeriod() {
  if (traversals_.empty()) return 0;
  for (const ProgramVariable& variable : program_.variables) {
    if (few_.left_out_variables.contains(variable.name)) return 0;
  }
  size_t least = std::numeric_limits<size_t>::max();
  for (const Traversal& traversal : traversals_) {
    least = std::min(least, traversal.begins.size());
  }
  for (int period = 1; 2 * period < static_cast<int>(least); ++period) {
    if (FindSegments(period) && SegmentsHaveAllCompute(period) &&
        SegmentsHaveAllTransfers(period) && SegmentsHaveAllMemory(period)) {
      return period;
    }
  }
  return 0;
}

void LayerPeriodicity::FindPositions() {
  first_id_.assign(few_.kept.size() + 1, 0);
  for (const auto& [name, position] : few_.positions) {
    first_id_[position.run + 1] =
        std::max(first_id_[position.run + 1], position.operation + 1);
  }
  for (size_t run = 0; run + 1 < first_id_.size(); ++run) {
    first_id_[run + 1] += first_id_[run];
  }
  std::vector<LayerPosition> of_origin(program_.origins.size());
  for (size_t origin = 0; origin < of_origin.size(); ++origin) {
    const auto position =
        few_.positions.find(program_.origins[origin].operation);
    if (position != few_.positions.end() &&
        few_.left_out[position->second.run] > 0) {
      of_origin[origin] = position->second;
    }
  }
  positions_.resize(count_);
  value_positions_.resize(program_.values.size());
  operand_bytes_.assign(count_, 0);
  for (int i = 0; i < count_; ++i) {
    const Instruction& at = instruction(i);
    if (at.origin >= 0) positions_[i] = of_origin[at.origin];
    const bool sends = Communicates(at.opcode);
    for (size_t r = 0; r < at.results.size(); ++r) {
      value_positions_[at.results[r]] = positions_[i];
      if (!sends) continue;
      operand_bytes_[i] += LocalBytes(program_, at.operands[r]);
      if (value_positions_[at.operands[r]].run >= 0 || at.results.size() > 1) {
        value_positions_[at.results[r]] = value_positions_[at.operands[r]];
      }
    }
  }
}

void LayerPeriodicity::FindMemory() {
  lifetimes_ = Lifetimes(program_);
  for (MemoryKind kind : FindPurposes(program_)) {
    purposes_.push_back(PurposeOf(kind));
  }
  change_.assign(count_ + 2, AliveBytes{});
  for (const Lifetime& lifetime : lifetimes_) {
    if (lifetime.end < lifetime.begin) continue;
    const Purpose purpose = purposes_[lifetime.value];
    change_[lifetime.begin][purpose] += lifetime.bytes;
    change_[lifetime.end + 1][purpose] -= lifetime.bytes;
  }
  int64_t live_bytes = 0;
  for (const AliveBytes& change : change_) {
    live_bytes += Sum(change);
    peak_ = std::max(peak_, live_bytes);
  }
}

// Einsums are tried first. Kernels whose inputs derive from variables alone may
// run anywhere, next to the gather, so they begin no traversal.
void LayerPeriodicity::FindTraversals() {
  const std::vector<bool> derived_from_parameters =
      FindDerivedFromVariables(program_);
  std::vector<std::vector<int>> first(first_id_.back());  // by id and repeat
  std::vector<int> einsums, others;
  for (int i = 0; i < count_; ++i) {
    if (!Computes(i) || derived_from_parameters[i]) continue;
    const LayerPosition& position = positions_[i];
    std::vector<int>& of = first[Id(position)];
    if (of.empty()) of.assign(few_.kept[position.run], -1);
    if (of[position.repeat] >= 0) continue;
    of[position.repeat] = i;
    if (position.repeat != few_.kept[position.run] / 2) continue;
    (instruction(i).opcode == Opcode::kEinsum ? einsums : others).push_back(i);
  }
  for (const std::vector<int>* kernels : {&einsums, &others}) {
    for (int kernel : *kernels) {
      AddTraversal(positions_[kernel].run, first[Id(positions_[kernel])]);
    }
  }
  std::sort(traversals_.begin(), traversals_.end(),
            [](const Traversal& a, const Traversal& b) {
              return a.begins.front() < b.begins.front();
            });
}

// Adds a traversal unless these kernels belong to another one or are in no
// order.
void LayerPeriodicity::AddTraversal(int run, std::vector<int> begins) {
  for (int begin : begins) {
    if (begin < 0) return;
    for (const Traversal& traversal : traversals_) {
      if (traversal.run == run && traversal.Spans(begin)) return;
    }
  }
  Traversal traversal;
  traversal.run = run;
  traversal.ascends = begins.front() < begins.back();
  if (!traversal.ascends) std::reverse(begins.begin(), begins.end());
  if (!std::is_sorted(begins.begin(), begins.end())) return;
  traversal.begins = std::move(begins);
  traversals_.push_back(std::move(traversal));
}

bool LayerPeriodicity::AreEqual(int a, int b) const {
  const Instruction &x = instruction(a), &y = instruction(b);
  if (x.opcode != y.opcode) return false;
  if (IsCollective(x.opcode)) {
    const auto& of_x = x.Get<CollectiveAttributes>();
    const auto& of_y = y.Get<CollectiveAttributes>();
    if (of_x.asynchronous != of_y.asynchronous || of_x.axes != of_y.axes) {
      return false;
    }
  }
  return seconds_[a] == seconds_[b] && operand_bytes_[a] == operand_bytes_[b] &&
         x.operands.size() == y.operands.size() && change_[a] == change_[b];
}

// Finds a segment of `period` repeats in each traversal that equals the one
// before or after it. The first segment is not used, because delayed
// instructions in it may belong to no repeat; the same holds for instructions
// in the last one that run ahead.
bool LayerPeriodicity::FindSegments(int period) {
  segment_.assign(count_ + 2, -1);
  for (size_t s = 0; s < traversals_.size(); ++s) {
    Traversal& traversal = traversals_[s];
    const std::vector<int>& begins = traversal.begins;
    traversal.begin = traversal.end = 0;
    const auto equals_next_period = [&](int i) {
      if (i + 2 * period >= static_cast<int>(begins.size())) return false;
      const int begin = begins[i], end = begins[i + period];
      if (begins[i + 2 * period] - end != end - begin) return false;
      for (int k = 0; k < end - begin; ++k) {
        if (!AreEqual(begin + k, end + k)) return false;
      }
      return true;
    };
    for (int i = period; i + period < static_cast<int>(begins.size()); ++i) {
      if (!equals_next_period(i - period) && !equals_next_period(i)) continue;
      traversal.begin = begins[i];
      traversal.end = begins[i + period];
      break;
    }
    if (traversal.end == 0) return false;
    for (int i = traversal.begin; i < traversal.end; ++i) {
      if (segment_[i] >= 0) return false;
      segment_[i] = static_cast<int>(s);
    }
  }
  return true;
}

// Whether the segments have all kernels of a period. Maps of scalars are
// ignored: those of all repeats may be one kernel, which takes as long as that
// of few.
bool LayerPeriodicity::SegmentsHaveAllCompute(int period) const {
  std::vector<int> missing(first_id_.back(), 0);
  for (int i = 0; i < count_; ++i) {
    const auto& results = instruction(i).results;
    const bool is_scalar = !results.empty() &&
                           program_.values[results[0]].shape.rank() == 0 &&
                           instruction(i).opcode == Opcode::kMap;
    if (!Computes(i) || is_scalar) continue;
    if (IsInPeriod(positions_[i], period)) ++missing[Id(positions_[i])];
    if (segment_[i] >= 0) --missing[Id(positions_[i])];
  }
  return std::all_of(missing.begin(), missing.end(),
                     [](int count) { return count == 0; });
}

void LayerPeriodicity::VisitTransfers(
    absl::FunctionRef<void(int i, int operand, const LayerPosition&)> visit)
    const {
  for (int i = 0; i < count_; ++i) {
    const Instruction& at = instruction(i);
    if (!Communicates(at.opcode)) continue;
    for (size_t r = 0; r < at.results.size(); ++r) {
      const LayerPosition& position = value_positions_[at.results[r]];
      if (position.run >= 0) visit(i, at.operands[r], position);
    }
  }
}

// Whether the segments have all transfers of each operation, or one call
// outside of them has all.
bool LayerPeriodicity::SegmentsHaveAllTransfers(int period) {
  std::vector<int> inside(first_id_.back(), 0), in_period = inside,
                                                call(first_id_.back(), -1);
  VisitTransfers([&](int i, int, const LayerPosition& position) {
    if (segment_[i] >= 0) ++inside[Id(position)];
    if (IsInPeriod(position, period)) ++in_period[Id(position)];
  });
  more_bytes_.assign(count_, 0);
  bool complete = true;
  VisitTransfers([&](int i, int operand, const LayerPosition& position) {
    const int id = Id(position);
    const bool is_end =
        position.repeat == 0 || position.repeat + 1 == few_.kept[position.run];
    if (inside[id] == in_period[id] || is_end) return;
    if (call[id] < 0) call[id] = i;
    if (inside[id] > 0 || call[id] != i) complete = false;
    if (!IsInPeriod(position, period)) return;
    more_bytes_[i] +=
        LocalBytes(program_, operand) * (few_.left_out[position.run] / period);
  });
  // A call outside of the segments must not become full with all layers: it
  // would be emitted earlier.
  for (int i = 0; i < count_ && complete; ++i) {
    if (more_bytes_[i] == 0) continue;
    complete = ReducesAxes(instruction(i).opcode) &&
               operand_bytes_[i] + more_bytes_[i] <
                   MaxBucketBytes(program_.mesh.SizeOf(
                       instruction(i).Get<CollectiveAttributes>().axes));
  }
  return complete;
}

LayerPeriodicity::Guess LayerPeriodicity::GuessFromCalls() const {
  // By kind of call: the bytes of the sums of one repeat, in the order in which
  // they are computed.
  std::map<std::tuple<Opcode, AxisSet, DType>, std::vector<int64_t>> sums;
  VisitTransfers([&](int i, int operand, const LayerPosition& position) {
    if (!IsInPeriod(position, 1) || !ReducesAxes(instruction(i).opcode)) return;
    sums[{instruction(i).opcode,
          SetOf(instruction(i).Get<CollectiveAttributes>().axes),
          program_.values[operand].dtype}]
        .push_back(LocalBytes(program_, operand));
  });
  constexpr int kMost = 1000;
  Guess guess;
  int first = 0;  // the first repeat that begins like a later one
  for (const auto& [kind, bytes] : sums) {
    const int64_t full =
        MaxBucketBytes(program_.mesh.SizeOf(std::get<1>(kind)));
    absl::flat_hash_map<int64_t, int> seen;  // repeat by bytes in the bucket
    int64_t bucket_bytes = 0;
    for (int repeat = 0; repeat < kMost; ++repeat) {
      const auto [before, is_new] = seen.try_emplace(bucket_bytes, repeat);
      if (!is_new) {
        first = std::max(first, before->second);
        guess.period =
            std::min(kMost, std::lcm(guess.period, repeat - before->second));
        break;
      }
      for (int64_t sum : bytes) {
        bucket_bytes += sum;
        if (bucket_bytes >= full) bucket_bytes = 0;
      }
    }
  }
  guess.needed = first + 2 * guess.period + 2;
  return guess;
}

void LayerPeriodicity::VisitMemory(
    bool begins,
    absl::FunctionRef<void(const Lifetime&, const LayerPosition&, int at)>
        visit) const {
  for (const Lifetime& lifetime : lifetimes_) {
    const LayerPosition& position = value_positions_[lifetime.value];
    if (position.run < 0 || lifetime.end < lifetime.begin) continue;
    visit(lifetime, position, begins ? lifetime.begin : lifetime.end + 1);
  }
}

// Whether the memory of each operation is allocated and released within the
// segments, or for all repeated layers at one instruction.
bool LayerPeriodicity::SegmentsHaveAllMemory(int period) {
  more_change_.assign(count_ + 2, AliveBytes{});
  int64_t doubtful = 0;
  for (const bool begins : {true, false}) {
    // By operation: bytes of its own results, then bytes of the results of its
    // collectives.
    const int ids = first_id_.back();
    std::vector<int64_t> inside(2 * ids, 0), in_period = inside;
    std::vector<int> instruction_of(2 * ids, -1);
    const auto id_of = [&](const Lifetime& lifetime,
                           const LayerPosition& position) {
      return Id(position) +
             (Communicates(instruction(lifetime.maker).opcode) ? ids : 0);
    };
    VisitMemory(begins, [&](const Lifetime& lifetime,
                            const LayerPosition& position, int at) {
      const int id = id_of(lifetime, position);
      if (segment_[at] >= 0) inside[id] += lifetime.bytes;
      if (IsInPeriod(position, period)) in_period[id] += lifetime.bytes;
    });
    VisitMemory(begins, [&](const Lifetime& lifetime,
                            const LayerPosition& position, int at) {
      const int id = id_of(lifetime, position);
      if (inside[id] == in_period[id] || !IsInPeriod(position, period)) return;
      if (instruction_of[id] < 0) instruction_of[id] = at;
      const int64_t bytes =
          lifetime.bytes * (few_.left_out[position.run] / period);
      if (inside[id] > 0 || instruction_of[id] != at) doubtful += bytes;
      if (inside[id] > 0) return;
      more_change_[at][purposes_[lifetime.value]] += begins ? bytes : -bytes;
    });
  }
  // Small tensors, such as scalars, may be elsewhere.
  return doubtful <= peak_ / 1000;
}

}  // namespace mtf::internal
