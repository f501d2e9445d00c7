// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/row_groups.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/reader_lists.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

// A kernel has a parameter for each array, 512 at the most.
constexpr size_t kMostMembers = 48;
// Sums over rows, each of which takes registers, and columns of them.
constexpr int kMostRowSums = 4;
constexpr int64_t kMostSummedColumns = 8192;
// Columns are counted by an int, with room for the step of a loop.
constexpr int64_t kMostColumns = int64_t{1} << 30;

// The rows that a group works on: `columns` innermost dimensions of `shape`.
struct RowSpace {
  Shape shape;
  absl::InlinedVector<int64_t, 5> local;
  int columns = 0;
};

// Whether `value` has the dimensions [begin, end) of the space and no others.
bool HasPart(const ProgramValue& value, const RowSpace& space, int begin,
             int end) {
  if (value.shape.rank() != end - begin) return false;
  for (int i = begin; i < end; ++i) {
    if (value.shape[i - begin] != space.shape[i]) return false;
    if (value.local[i - begin] != space.local[i]) return false;
  }
  return true;
}

// The rows of a reduction over innermost dimensions, if it is one. Without any
// element there is nothing to be one kernel for.
std::optional<RowSpace> RowsOf(const Program& program,
                               const Instruction& reduce) {
  const auto* attributes = reduce.Find<ReduceAttributes>();
  if (attributes == nullptr) return std::nullopt;
  RowSpace space;
  space.shape = attributes->iteration;
  space.local = attributes->iteration_local;
  const ProgramValue& result = program.values[reduce.results[0]];
  const int rank = space.shape.rank();
  space.columns = rank - result.shape.rank();
  if (space.columns < 1 || result.shape.rank() < 1) return std::nullopt;
  if (!HasPart(result, space, 0, rank - space.columns)) return std::nullopt;
  int64_t columns = 1;
  for (int i = 0; i < rank; ++i) {
    if (space.local[i] == 0) return std::nullopt;
    if (i >= rank - space.columns) columns *= space.local[i];
    if (columns > kMostColumns) return std::nullopt;
  }
  return space;
}

// The rows of a group: those of its first reduction.
std::optional<RowSpace> SpaceOf(const Program& program,
                                const std::vector<int>& members) {
  for (int member : members) {
    const Instruction& instruction = program.instructions[member];
    if (instruction.opcode != Opcode::kReduce) continue;
    std::optional<RowSpace> space = RowsOf(program, instruction);
    if (space.has_value()) return space;
  }
  return std::nullopt;
}

// Whether `reduce` adds up the rows of the space. A thread keeps the sums of
// its columns, so there must not be too many.
bool SumsRows(const Program& program, const Instruction& reduce,
              const RowSpace& space) {
  const auto* sum = reduce.Find<ReduceAttributes>();
  if (sum == nullptr) return false;
  const ProgramValue& result = program.values[reduce.results[0]];
  const int rank = space.shape.rank();
  return IsFloat(result.dtype) && sum->kind == ReduceKind::kSum &&
         sum->iteration == space.shape && sum->iteration_local == space.local &&
         result.local_elements() <= kMostSummedColumns &&
         HasPart(result, space, rank - space.columns, rank);
}

bool Belongs(const Program& program, const Instruction& instruction,
             const RowSpace& space) {
  if (SumsRows(program, instruction, space)) return true;
  if (instruction.opcode == Opcode::kReduce) {
    const std::optional<RowSpace> rows = RowsOf(program, instruction);
    return rows.has_value() && rows->shape == space.shape &&
           rows->local == space.local && rows->columns == space.columns;
  }
  const ProgramValue& result = program.values[instruction.results[0]];
  const int rank = space.shape.rank(), rows = rank - space.columns;
  return HasPart(result, space, 0, rank) || HasPart(result, space, 0, rows) ||
         HasPart(result, space, rows, rank);
}

// Whether a value is the same for every row.
bool IsOfColumns(const Program& program, int value, const RowSpace& space) {
  const int rank = space.shape.rank();
  return HasPart(program.values[value], space, rank - space.columns, rank);
}

class GroupFinder {
 public:
  GroupFinder(const Program& program, const std::vector<bool>& taken)
      : program_(program),
        producers_(FindProducers(program)),
        readers_(program),
        made_(program.values.size(), -1),
        run_(program.instructions.size(), -1) {
    int run = 0;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      const bool may = instruction.opcode == Opcode::kMap ||
                       instruction.opcode == Opcode::kReduce;
      // What runs nothing gives what is there already: an input, a variable, a
      // view of an operand.
      const bool there = IsNoOp(program, instruction);
      for (int result : instruction.results) {
        made_[result] = !there ? static_cast<int>(i)
                        : instruction.operands.empty()
                            ? -1
                            : made_[instruction.operands[0]];
      }
      if (may && !taken[i]) {
        run_[i] = run;
      } else if (taken[i] || !IsNoOp(program, instruction)) {
        ++run;
      }
    }
  }

  std::vector<std::vector<int>> Find() {
    std::vector<std::vector<int>> groups;
    for (size_t i = 0; i < run_.size(); ++i) {
      const Instruction& seed = program_.instructions[i];
      if (run_[i] < 0 || seed.opcode != Opcode::kReduce) continue;
      const std::optional<RowSpace> space = RowsOf(program_, seed);
      if (!space.has_value()) continue;
      members_ = {static_cast<int>(i)};
      known_.clear();
      Grow(*space);
      if (members_.size() < 2) continue;
      groups.push_back(members_);
      for (int member : members_) run_[member] = -1;
    }
    std::sort(groups.begin(), groups.end());
    return groups;
  }

 private:
  // What an instruction is to the rows of the group under way.
  struct Part {
    bool belongs = false;
    bool sums_rows = false;
  };

  void Grow(const RowSpace& space) {
    bool grown = true;
    while (grown) {
      grown = false;
      for (int candidate : Neighbours()) {
        if (Contains(members_, candidate)) continue;
        grown = Join(candidate, space) || grown;
      }
    }
  }

  static bool Contains(const std::vector<int>& sorted, int instruction) {
    return std::binary_search(sorted.begin(), sorted.end(), instruction);
  }
  static void Insert(int instruction, std::vector<int>& sorted) {
    sorted.insert(std::lower_bound(sorted.begin(), sorted.end(), instruction),
                  instruction);
  }

  // What reads the results of members, makes their operands or reads those, of
  // their run.
  std::vector<int> Neighbours() const {
    std::vector<int> near;
    const int run = run_[members_.front()];
    const auto add = [&](int instruction) {
      if (run_[instruction] == run) near.push_back(instruction);
    };
    for (int member : members_) {
      const Instruction& instruction = program_.instructions[member];
      for (int reader : readers_[instruction.results[0]]) add(reader);
      for (int operand : instruction.operands) {
        if (producers_[operand] >= 0) add(producers_[operand]);
        // That two read one number does not bring them together.
        if (program_.values[operand].shape.rank() == 0) continue;
        for (int reader : readers_[operand]) add(reader);
      }
    }
    std::sort(near.begin(), near.end());
    near.erase(std::unique(near.begin(), near.end()), near.end());
    return near;
  }

  const Part& PartOf(int instruction, const RowSpace& space) {
    const auto [known, is_new] = known_.try_emplace(instruction);
    if (is_new) {
      const Instruction& of = program_.instructions[instruction];
      known->second = {Belongs(program_, of, space),
                       SumsRows(program_, of, space)};
    }
    return known->second;
  }

  bool MayJoin(int instruction, const RowSpace& space) {
    return run_[instruction] == run_[members_.front()] &&
           PartOf(instruction, space).belongs;
  }

  // Takes in `candidate` and the members-to-be that it needs: everything else
  // that the group reads is made before the first of them. False, and nothing
  // changes, where that cannot be.
  bool Join(int candidate, const RowSpace& space) {
    if (!MayJoin(candidate, space)) return false;
    // What is the same for every row comes along only where it is needed.
    const Instruction& instruction = program_.instructions[candidate];
    if (IsOfColumns(program_, instruction.results[0], space) &&
        !PartOf(candidate, space).sums_rows) {
      return false;
    }
    std::vector<int> all = members_;
    Insert(candidate, all);
    // The members need nothing more of what is behind the first of them.
    std::vector<int> open = {candidate};
    if (candidate == all.front()) open = all;
    const int first = all.front();
    while (!open.empty()) {
      const int member = open.back();
      open.pop_back();
      for (int operand : program_.instructions[member].operands) {
        if (made_[operand] < first) continue;
        const int producer = producers_[operand];
        // A sum over rows is known behind the last of them.
        if (SumsRows(program_, program_.instructions[producer], space)) {
          return false;
        }
        if (Contains(all, producer)) continue;
        if (!MayJoin(producer, space)) return false;
        Insert(producer, all);
        open.push_back(producer);
        if (all.size() > kMostMembers) return false;
      }
    }
    const auto sums = std::count_if(all.begin(), all.end(), [&](int member) {
      return PartOf(member, space).sums_rows;
    });
    if (all.size() > kMostMembers || sums > kMostRowSums) return false;
    members_ = std::move(all);
    return true;
  }

  const Program& program_;
  const std::vector<int> producers_;  // by value
  const ReaderLists readers_;         // by value
  std::vector<int> made_;  // by value: where it comes to be, -1 before the step
  // By instruction: equal where nothing that runs but maps and reductions is
  // between; -1 for what no group may have.
  std::vector<int> run_;
  // Of the group under way.
  std::vector<int> members_;              // ascending
  absl::flat_hash_map<int, Part> known_;  // by instruction
};

}  // namespace

std::vector<std::vector<int>> FindRowGroups(const Program& program,
                                            const std::vector<bool>& taken) {
  return GroupFinder(program, taken).Find();
}

std::vector<FusedGroup> FusedRows(const Program& program,
                                  const std::vector<std::vector<int>>& groups) {
  std::vector<int> group_of(program.instructions.size(), -1);
  std::vector<FusedGroup> fused;
  std::vector<RowSpace> spaces;
  for (const std::vector<int>& members : groups) {
    spaces.push_back(*SpaceOf(program, members));
    for (int member : members)
      group_of[member] = static_cast<int>(fused.size());
    fused.emplace_back().members = members;
  }
  const std::vector<int> producers = FindProducers(program);
  std::vector<bool> added(program.values.size(), false);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (int operand : program.instructions[i].operands) {
      if (producers[operand] < 0 || added[operand]) continue;
      const int group = group_of[producers[operand]];
      if (group < 0 || group == group_of[i]) continue;
      added[operand] = true;
      fused[group].outputs.push_back(operand);
      // A thread reads and writes the same places of a whole row; numbers of
      // rows and columns are read by all of them.
      const RowSpace& space = spaces[group];
      if (HasPart(program.values[operand], space, 0, space.shape.rank())) {
        fused[group].in_place.push_back(operand);
      }
    }
  }
  return fused;
}

}  // namespace mtf
