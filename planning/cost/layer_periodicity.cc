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

LayerPeriodicity::LayerPeriodicity(const Program& program,
                                   const MachinePlan& plan,
                                   const FewLayers& few,
                                   const std::vector<double>& seconds)
    : program_(program),
      few_(few),
      seconds_(seconds),
      count_(static_cast<int>(program.instructions.size())) {
  FindPositions();
  FindMemory(plan);
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
    if (FindSegments(period) && HoldAllCompute(period) && HoldAllSent(period) &&
        HoldAllMemory(period)) {
      return period;
    }
  }
  return 0;
}

void LayerPeriodicity::FindPositions() {
  first_id_.assign(few_.kept.size() + 1, 0);
  for (const auto& [name, place] : few_.positions) {
    first_id_[place.run + 1] =
        std::max(first_id_[place.run + 1], place.operation + 1);
  }
  for (size_t run = 0; run + 1 < first_id_.size(); ++run) {
    first_id_[run + 1] += first_id_[run];
  }
  std::vector<LayerPosition> of_origin(program_.origins.size());
  for (size_t origin = 0; origin < of_origin.size(); ++origin) {
    const auto place = few_.positions.find(program_.origins[origin].operation);
    if (place != few_.positions.end() && few_.left_out[place->second.run] > 0) {
      of_origin[origin] = place->second;
    }
  }
  positions_.resize(count_);
  of_value_.resize(program_.values.size());
  operand_bytes_.assign(count_, 0);
  for (int i = 0; i < count_; ++i) {
    const Instruction& at = instruction(i);
    if (at.origin >= 0) positions_[i] = of_origin[at.origin];
    const bool sends = Communicates(at.opcode);
    for (size_t r = 0; r < at.results.size(); ++r) {
      of_value_[at.results[r]] = positions_[i];
      if (!sends) continue;
      operand_bytes_[i] += LocalBytes(program_, at.operands[r]);
      if (of_value_[at.operands[r]].run >= 0 || at.results.size() > 1) {
        of_value_[at.results[r]] = of_value_[at.operands[r]];
      }
    }
  }
}

void LayerPeriodicity::FindMemory(const MachinePlan& plan) {
  lifetimes_ = Lifetimes(program_, plan.groups);
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
  int64_t alive = 0;
  for (const AliveBytes& change : change_) {
    alive += Sum(change);
    peak_ = std::max(peak_, alive);
  }
}

// Einsums first. What is made of a variable alone may stand with its gather,
// anywhere, and begins nothing.
void LayerPeriodicity::FindTraversals() {
  const std::vector<bool> derived_from_parameters =
      FindDerivedFromVariables(program_);
  std::vector<std::vector<int>> first(first_id_.back());  // by id and repeat
  std::vector<int> einsums, others;
  for (int i = 0; i < count_; ++i) {
    if (!Computes(i) || derived_from_parameters[i]) continue;
    const LayerPosition& place = positions_[i];
    std::vector<int>& of = first[Id(place)];
    if (of.empty()) of.assign(few_.kept[place.run], -1);
    if (of[place.repeat] >= 0) continue;
    of[place.repeat] = i;
    if (place.repeat != few_.kept[place.run] / 2) continue;
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

// Unless these kernels are part of another traversal, or stand in no order.
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

bool LayerPeriodicity::Alike(int a, int b) const {
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

// Finds a segment of `period` repeats in each traversal that is like a
// neighbour. The first does not count: what is late in it may be of no repeat.
// What is ahead in the last may not be either.
bool LayerPeriodicity::FindSegments(int period) {
  segment_.assign(count_ + 2, -1);
  for (size_t s = 0; s < traversals_.size(); ++s) {
    Traversal& traversal = traversals_[s];
    const std::vector<int>& begins = traversal.begins;
    traversal.begin = traversal.end = 0;
    const auto alike_next = [&](int i) {
      if (i + 2 * period >= static_cast<int>(begins.size())) return false;
      const int begin = begins[i], end = begins[i + period];
      if (begins[i + 2 * period] - end != end - begin) return false;
      for (int k = 0; k < end - begin; ++k) {
        if (!Alike(begin + k, end + k)) return false;
      }
      return true;
    };
    for (int i = period; i + period < static_cast<int>(begins.size()); ++i) {
      if (!alike_next(i - period) && !alike_next(i)) continue;
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

// Sums of scalars of all repeats may be one kernel, which is as short as that
// of few.
bool LayerPeriodicity::HoldAllCompute(int period) const {
  std::vector<int> missing(first_id_.back(), 0);
  for (int i = 0; i < count_; ++i) {
    const auto& results = instruction(i).results;
    const bool is_scalar = !results.empty() &&
                           program_.values[results[0]].shape.rank() == 0 &&
                           instruction(i).opcode == Opcode::kMap;
    if (!Computes(i) || is_scalar) continue;
    if (Counts(positions_[i], period)) ++missing[Id(positions_[i])];
    if (segment_[i] >= 0) --missing[Id(positions_[i])];
  }
  return std::all_of(missing.begin(), missing.end(),
                     [](int count) { return count == 0; });
}

void LayerPeriodicity::VisitSent(
    absl::FunctionRef<void(int i, int operand, const LayerPosition&)> visit)
    const {
  for (int i = 0; i < count_; ++i) {
    const Instruction& at = instruction(i);
    if (!Communicates(at.opcode)) continue;
    for (size_t r = 0; r < at.results.size(); ++r) {
      const LayerPosition& place = of_value_[at.results[r]];
      if (place.run >= 0) visit(i, at.operands[r], place);
    }
  }
}

// What an operation sends stands in the segments, or all of it in one call.
bool LayerPeriodicity::HoldAllSent(int period) {
  std::vector<int> inside(first_id_.back(), 0), wanted = inside,
                                                call(first_id_.back(), -1);
  VisitSent([&](int i, int, const LayerPosition& place) {
    if (segment_[i] >= 0) ++inside[Id(place)];
    if (Counts(place, period)) ++wanted[Id(place)];
  });
  more_bytes_.assign(count_, 0);
  bool all = true;
  VisitSent([&](int i, int operand, const LayerPosition& place) {
    const int id = Id(place);
    const bool is_end =
        place.repeat == 0 || place.repeat + 1 == few_.kept[place.run];
    if (inside[id] == wanted[id] || is_end) return;
    if (call[id] < 0) call[id] = i;
    if (inside[id] > 0 || call[id] != i) all = false;
    if (!Counts(place, period)) return;
    more_bytes_[i] +=
        LocalBytes(program_, operand) * (few_.left_out[place.run] / period);
  });
  // A call that would be full is written sooner.
  for (int i = 0; i < count_ && all; ++i) {
    if (more_bytes_[i] == 0) continue;
    all = ReducesAxes(instruction(i).opcode) &&
          operand_bytes_[i] + more_bytes_[i] <
              MaxBucketBytes(program_.mesh.SizeOf(
                  instruction(i).Get<CollectiveAttributes>().axes));
  }
  return all;
}

LayerPeriodicity::Guess LayerPeriodicity::GuessFromCalls() const {
  // By kind of call: the sums of one repeat, in the order they are made in.
  std::map<std::tuple<Opcode, AxisSet, DType>, std::vector<int64_t>> sums;
  VisitSent([&](int i, int operand, const LayerPosition& place) {
    if (!Counts(place, 1) || !ReducesAxes(instruction(i).opcode)) return;
    sums[{instruction(i).opcode,
          SetOf(instruction(i).Get<CollectiveAttributes>().axes),
          program_.values[operand].dtype}]
        .push_back(LocalBytes(program_, operand));
  });
  constexpr int kMost = 1000;
  Guess guess;
  int first = 0;  // the repeat that is like one before it
  for (const auto& [kind, bytes] : sums) {
    const int64_t full =
        MaxBucketBytes(program_.mesh.SizeOf(std::get<1>(kind)));
    absl::flat_hash_map<int64_t, int> seen;  // by bytes that wait: repeats
    int64_t waits = 0;
    for (int repeat = 0; repeat < kMost; ++repeat) {
      const auto [before, is_new] = seen.try_emplace(waits, repeat);
      if (!is_new) {
        first = std::max(first, before->second);
        guess.period =
            std::min(kMost, std::lcm(guess.period, repeat - before->second));
        break;
      }
      for (int64_t sum : bytes) {
        waits += sum;
        if (waits >= full) waits = 0;
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
    const LayerPosition& place = of_value_[lifetime.value];
    if (place.run < 0 || lifetime.end < lifetime.begin) continue;
    visit(lifetime, place, begins ? lifetime.begin : lifetime.end + 1);
  }
}

// The memory of an operation is taken and left in the segments, or at one
// place by that of all repeats.
bool LayerPeriodicity::HoldAllMemory(int period) {
  more_change_.assign(count_ + 2, AliveBytes{});
  int64_t doubtful = 0;
  for (const bool begins : {true, false}) {
    // What an operation makes, and that after its collectives.
    const int ids = first_id_.back();
    std::vector<int64_t> inside(2 * ids, 0), wanted = inside;
    std::vector<int> place_of(2 * ids, -1);
    const auto id_of = [&](const Lifetime& lifetime,
                           const LayerPosition& place) {
      return Id(place) +
             (Communicates(instruction(lifetime.maker).opcode) ? ids : 0);
    };
    VisitMemory(begins, [&](const Lifetime& lifetime,
                            const LayerPosition& place, int at) {
      const int id = id_of(lifetime, place);
      if (segment_[at] >= 0) inside[id] += lifetime.bytes;
      if (Counts(place, period)) wanted[id] += lifetime.bytes;
    });
    VisitMemory(begins, [&](const Lifetime& lifetime,
                            const LayerPosition& place, int at) {
      const int id = id_of(lifetime, place);
      if (inside[id] == wanted[id] || !Counts(place, period)) return;
      if (place_of[id] < 0) place_of[id] = at;
      const int64_t bytes =
          lifetime.bytes * (few_.left_out[place.run] / period);
      if (inside[id] > 0 || place_of[id] != at) doubtful += bytes;
      if (inside[id] > 0) return;
      more_change_[at][purposes_[lifetime.value]] += begins ? bytes : -bytes;
    });
  }
  // Scalars here and there do not matter.
  return doubtful <= peak_ / 1000;
}

}  // namespace mtf::internal
