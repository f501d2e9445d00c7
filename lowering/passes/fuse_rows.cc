// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/fuse_rows.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/reader_lists.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

// The rows of a group: its columns are the `columns` innermost dimensions of
// `shape`.
struct RowSpace {
  Shape shape;
  absl::InlinedVector<int64_t, 5> local;
  int columns = 0;
};

// Whether `value` has exactly the dimensions [begin, end) of the space.
bool HasDimensions(const ProgramValue& value, const RowSpace& space, int begin,
                   int end) {
  if (value.shape.rank() != end - begin) return false;
  for (int i = begin; i < end; ++i) {
    if (value.shape[i - begin] != space.shape[i]) return false;
    if (value.local[i - begin] != space.local[i]) return false;
  }
  return true;
}

// The rows of a reduction over innermost dimensions; nullopt for any other
// reduction, or if there are no elements to reduce.
std::optional<RowSpace> RowsOf(const Program& program,
                               const Instruction& reduce,
                               int64_t most_columns) {
  const auto* attributes = reduce.Find<ReduceAttributes>();
  if (attributes == nullptr) return std::nullopt;
  RowSpace space;
  space.shape = attributes->iteration;
  space.local = attributes->iteration_local;
  const ProgramValue& result = program.values[reduce.results[0]];
  const int rank = space.shape.rank();
  space.columns = rank - result.shape.rank();
  if (space.columns < 1 || result.shape.rank() < 1) return std::nullopt;
  if (!HasDimensions(result, space, 0, rank - space.columns))
    return std::nullopt;
  int64_t columns = 1;
  for (int i = 0; i < rank; ++i) {
    if (space.local[i] == 0) return std::nullopt;
    if (i >= rank - space.columns) columns *= space.local[i];
    if (columns > most_columns) return std::nullopt;
  }
  return space;
}

// Threads divide the rows, so a kernel of sums over few rows has little use of
// them; a reduction divides the columns.
constexpr int64_t kLeastSummedRows = 1024;

// The rows of a sum over many of them, which keeps innermost dimensions;
// nullopt for any other reduction.
std::optional<RowSpace> RowsOfSum(const Program& program,
                                  const Instruction& reduce) {
  const auto* attributes = reduce.Find<ReduceAttributes>();
  if (attributes == nullptr) return std::nullopt;
  RowSpace space;
  space.shape = attributes->iteration;
  space.local = attributes->iteration_local;
  space.columns = program.values[reduce.results[0]].shape.rank();
  const int rows = space.shape.rank() - space.columns;
  if (space.columns < 1 || rows < 1) return std::nullopt;
  int64_t count = 1;
  for (int i = 0; i < space.shape.rank(); ++i) {
    if (space.local[i] == 0) return std::nullopt;
    if (i < rows) count *= space.local[i];
  }
  if (count < kLeastSummedRows) return std::nullopt;
  return space;
}

// Whether a value is the same for every row.
bool IsOfColumns(const Program& program, int value, const RowSpace& space) {
  const int rank = space.shape.rank();
  return HasDimensions(program.values[value], space, rank - space.columns,
                       rank);
}

// Grows groups from reductions, within segments of maps and reductions.
class RowGroupFinder {
 public:
  RowGroupFinder(const FusionCapabilities::Rows& device, const Program& program)
      : device_(device),
        program_(program),
        producers_(FindProducers(program)),
        readers_(program),
        computed_at_(FindComputedAt(program)),
        segment_(program.instructions.size(), -1) {
    const std::vector<int> group_of = FindGroups(program);
    int segment = 0;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      if (HasExpression(instruction) && group_of[i] < 0) {
        segment_[i] = segment;
      } else if (group_of[i] >= 0 || !IsNoOp(program, instruction)) {
        ++segment;
      }
    }
  }

  std::vector<FusedGroup> Find() {
    for (size_t i = 0; i < segment_.size(); ++i) {
      const Instruction& seed = program_.instructions[i];
      if (segment_[i] < 0 || seed.opcode != Opcode::kReduce) continue;
      const auto space = RowsOf(program_, seed, device_.columns);
      if (space.has_value()) AddGroup(static_cast<int>(i), *space);
    }
    if (!device_.only_row_sums) return std::move(groups_);
    // What rows left over, because a group with both reads values once.
    for (size_t i = 0; i < segment_.size(); ++i) {
      const Instruction& seed = program_.instructions[i];
      if (segment_[i] < 0 || seed.opcode != Opcode::kReduce) continue;
      const auto space = RowsOfSum(program_, seed);
      if (space.has_value() && SumsRows(seed, *space)) {
        AddGroup(static_cast<int>(i), *space);
      }
    }
    return std::move(groups_);
  }

 private:
  void AddGroup(int seed, const RowSpace& space) {
    members_ = {seed};
    known_.clear();
    Grow(space);
    if (members_.size() < 2) return;
    groups_.push_back({members_, RowGroup()});
    for (int member : members_) segment_[member] = -1;
  }

  // What an instruction can be to the group being grown.
  struct Membership {
    bool can_be_member = false;
    bool sums_rows = false;
  };

  // Whether `reduce` sums over the rows of the space. A thread holds the sums
  // of its columns, so their number is limited.
  bool SumsRows(const Instruction& reduce, const RowSpace& space) const {
    const auto* sum = reduce.Find<ReduceAttributes>();
    if (sum == nullptr) return false;
    const ProgramValue& result = program_.values[reduce.results[0]];
    const int rank = space.shape.rank();
    return IsFloat(result.dtype) && sum->kind == ReduceKind::kSum &&
           sum->iteration == space.shape &&
           sum->iteration_local == space.local &&
           result.local_elements() <= device_.summed_columns &&
           HasDimensions(result, space, rank - space.columns, rank);
  }

  // Whether an instruction works on the rows of the space.
  bool CanBeMember(const Instruction& instruction,
                   const RowSpace& space) const {
    if (SumsRows(instruction, space)) return true;
    if (instruction.opcode == Opcode::kReduce) {
      const std::optional<RowSpace> rows =
          RowsOf(program_, instruction, device_.columns);
      return rows.has_value() && rows->shape == space.shape &&
             rows->local == space.local && rows->columns == space.columns;
    }
    const ProgramValue& result = program_.values[instruction.results[0]];
    const int rank = space.shape.rank(), rows = rank - space.columns;
    return HasDimensions(result, space, 0, rank) ||
           HasDimensions(result, space, 0, rows) ||
           HasDimensions(result, space, rows, rank);
  }

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

  // The instructions of the segment that read results of members, produce their
  // operands, or read those operands too.
  std::vector<int> Neighbours() const {
    std::vector<int> neighbours;
    const int segment = segment_[members_.front()];
    const auto add = [&](int instruction) {
      if (segment_[instruction] == segment) neighbours.push_back(instruction);
    };
    for (int member : members_) {
      const Instruction& instruction = program_.instructions[member];
      for (int reader : readers_[instruction.results[0]]) add(reader);
      for (int operand : instruction.operands) {
        if (producers_[operand] >= 0) add(producers_[operand]);
        // Reading the same scalar does not connect instructions.
        if (program_.values[operand].shape.rank() == 0) continue;
        for (int reader : readers_[operand]) add(reader);
      }
    }
    std::sort(neighbours.begin(), neighbours.end());
    neighbours.erase(std::unique(neighbours.begin(), neighbours.end()),
                     neighbours.end());
    return neighbours;
  }

  const Membership& MembershipOf(int instruction, const RowSpace& space) {
    const auto [known, is_new] = known_.try_emplace(instruction);
    if (is_new) {
      const Instruction& of = program_.instructions[instruction];
      known->second = {CanBeMember(of, space), SumsRows(of, space)};
    }
    return known->second;
  }

  bool CanJoin(int instruction, const RowSpace& space) {
    return segment_[instruction] == segment_[members_.front()] &&
           MembershipOf(instruction, space).can_be_member;
  }

  // Adds `candidate` and the producers that it needs, so that everything else
  // the group reads is computed before its first member. Returns false and
  // changes nothing if that is impossible.
  bool Join(int candidate, const RowSpace& space) {
    if (!CanJoin(candidate, space)) return false;
    // A value that is the same for every row joins only if a member needs it.
    const Instruction& instruction = program_.instructions[candidate];
    if (IsOfColumns(program_, instruction.results[0], space) &&
        !MembershipOf(candidate, space).sums_rows) {
      return false;
    }
    std::vector<int> all = members_;
    Insert(candidate, all);
    // If the candidate becomes the first member, the operands of all members
    // must be checked again.
    std::vector<int> unchecked = {candidate};
    if (candidate == all.front()) unchecked = all;
    const int first = all.front();
    while (!unchecked.empty()) {
      const int member = unchecked.back();
      unchecked.pop_back();
      for (int operand : program_.instructions[member].operands) {
        if (computed_at_[operand] < first) continue;
        const int producer = producers_[operand];
        // A sum over rows is complete only after the last row.
        if (SumsRows(program_.instructions[producer], space)) return false;
        if (Contains(all, producer)) continue;
        if (!CanJoin(producer, space)) return false;
        Insert(producer, all);
        unchecked.push_back(producer);
        if (static_cast<int>(all.size()) > device_.members) return false;
      }
    }
    const auto sums = std::count_if(all.begin(), all.end(), [&](int member) {
      return MembershipOf(member, space).sums_rows;
    });
    if (static_cast<int>(all.size()) > device_.members ||
        sums > device_.row_sums) {
      return false;
    }
    members_ = std::move(all);
    return true;
  }

  const FusionCapabilities::Rows& device_;
  const Program& program_;
  const std::vector<int> producers_;    // by value
  const ReaderLists readers_;           // by value
  const std::vector<int> computed_at_;  // by value (FindComputedAt)
  // By instruction: equal if only maps and reductions run in between; -1 for
  // instructions that cannot be members.
  std::vector<int> segment_;
  std::vector<FusedGroup> groups_;
  // Of the group being grown.
  std::vector<int> members_;                    // ascending
  absl::flat_hash_map<int, Membership> known_;  // by instruction
};

}  // namespace

absl::Status FuseRows(const FusionCapabilities& device, Program& program) {
  EraseGroupsFrom<RowGroup>(program.groups);
  if (device.rows.members == 0) return absl::OkStatus();
  AddGroups(RowGroupFinder(device.rows, program).Find(), program);
  return absl::OkStatus();
}

}  // namespace mtf
