// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/fuse_pools.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "lowering/passes/copy_windows.h"
#include "lowering/program/pool_spec.h"
#include "lowering/program/reader_lists.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

// The instructions of a pooling, by what they compute, because copies move
// instructions.
struct PoolChain {
  std::vector<int> results;  // in the order of the instructions
  WindowsCopy copy;          // of the first of them, if it has a reader
  int first = 0;             // the instruction at which it can run
  int joins = -1;  // the chain whose results it reduces, in the same group
};

class PoolChainFinder {
 public:
  explicit PoolChainFinder(const Program& program)
      : program_(program),
        producers_(FindProducers(program)),
        readers_(program),
        computed_at_(FindComputedAt(program)),
        group_of_(FindGroups(program)),
        is_taken_(program.instructions.size(), false),
        chain_of_result_(program.values.size(), -1) {}

  std::vector<PoolChain> Find() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      if (IsFree(static_cast<int>(i), Opcode::kFoldWindows)) {
        AddGradient(static_cast<int>(i));
      }
    }
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      if (IsFree(static_cast<int>(i), Opcode::kReduce)) {
        AddReduction(static_cast<int>(i));
      }
    }
    return std::move(chains_);
  }

 private:
  using Members = std::vector<int>;

  const Instruction& At(int i) const { return program_.instructions[i]; }
  int ResultOf(int i) const { return At(i).results[0]; }
  bool IsFree(int i, Opcode opcode) const {
    return i >= 0 && At(i).opcode == opcode && group_of_[i] < 0 &&
           !is_taken_[i];
  }
  // The instruction that alone reads the result of `i`, or -1.
  int OnlyReader(int i) const {
    const auto readers = readers_[ResultOf(i)];
    return readers.size() == 1 ? readers[0] : -1;
  }

  // The windows that compute `value`, preceded by their padding if `padding`.
  Members WindowsBefore(int value, bool padding) const {
    const int windows = producers_[value];
    if (windows < 0 || At(windows).opcode != Opcode::kWindows) return {};
    if (!padding) return {windows};
    const int rows = producers_[At(windows).operands[0]];
    if (rows < 0 || !IsPadding(At(rows)) ||
        At(rows).Get<RowsAttributes>().adds) {
      return {};
    }
    return {rows, windows};
  }

  // Adds `members`, the first `windows` of which may be copied for the next
  // one, if what they read is computed before their first. Returns whether it
  // is.
  bool Add(const Members& members, size_t windows) {
    PoolChain chain;
    bool needs_copy = false;
    for (size_t i = 0; i < windows; ++i) {
      needs_copy = needs_copy || OnlyReader(members[i]) != members[i + 1] ||
                   group_of_[members[i]] >= 0 || is_taken_[members[i]];
    }
    if (!AreComputed(members, windows, members.front())) needs_copy = true;
    if (needs_copy) {
      if (windows == 0) return false;
      if (!AreComputed(members, windows, members[windows])) return false;
      chain.copy.reader = members[windows];
    }
    for (int member : members) {
      chain.results.push_back(ResultOf(member));
      if (needs_copy && chain.copy.results.size() < windows) {
        chain.copy.results.push_back(ResultOf(member));
        continue;
      }
      is_taken_[member] = true;
    }
    chains_.push_back(std::move(chain));
    return true;
  }

  // Whether the inputs of the group that the members after the first `windows`
  // read are computed before instruction `first`.
  bool AreComputed(const Members& members, size_t windows, int first) const {
    for (size_t i = windows; i < members.size(); ++i) {
      for (int operand : At(members[i]).operands) {
        if (computed_at_[operand] >= first &&
            !absl::c_linear_search(members, producers_[operand])) {
          return false;
        }
      }
    }
    return true;
  }

  void AddReduction(int reduce) {
    if (At(reduce).operands.size() != 1) return;
    const int map = OnlyReader(reduce);
    for (const bool padding : {true, false}) {
      Members members = WindowsBefore(At(reduce).operands[0], padding);
      if (members.empty()) continue;
      const size_t windows = members.size();
      members.push_back(reduce);
      if (!FindPool(program_, members).has_value()) continue;
      const bool has_map = IsFree(map, Opcode::kMap);
      if (has_map) members.push_back(map);
      if (!has_map || !FindPool(program_, members).has_value() ||
          !Add(members, windows)) {
        if (has_map) members.pop_back();
        if (!Add(members, windows)) continue;
      }
      return Join(true);
    }
  }

  // Lets the last chain join the one whose results it takes, if both and what
  // that one joined are one group; and perhaps another one join it.
  void Join(bool may_be_joined) {
    const int index = static_cast<int>(chains_.size()) - 1;
    PoolChain& chain = chains_.back();
    if (may_be_joined) chain_of_result_[chain.results.back()] = index;
    for (int result : chain.results) {
      for (int operand : At(producers_[result]).operands) {
        const int before = chain_of_result_[operand];
        if (before < 0 || before == index || !CanJoin(index, before)) continue;
        chain.joins = before;
        chain_of_result_[operand] = -1;  // one chain joins another
        return;
      }
    }
  }

  bool CanJoin(int index, int before) const {
    Members all, runs_at;
    for (int i = index; i >= 0; i = i == index ? before : chains_[i].joins) {
      const PoolChain& chain = chains_[i];
      Members members, positions;
      for (int result : chain.results) {
        const bool copied = members.size() < chain.copy.results.size();
        members.push_back(producers_[result]);
        positions.push_back(copied ? chain.copy.reader : members.back());
      }
      all.insert(all.begin(), members.begin(), members.end());
      runs_at.insert(runs_at.begin(), positions.begin(), positions.end());
    }
    return absl::c_is_sorted(runs_at) && AreComputed(all, 0, runs_at.front()) &&
           (FindPool(program_, all).has_value() ||
            FindPoolGradient(program_, all).has_value());
  }

  void AddGradient(int fold) {
    const int spread = producers_[At(fold).operands[0]];
    if (!IsFree(spread, Opcode::kMap) || OnlyReader(spread) != fold) return;
    Members tail = {spread, fold};
    const int rows = OnlyReader(fold);
    if (rows >= 0 && IsPadding(At(rows)) &&
        At(rows).Get<RowsAttributes>().adds) {
      tail.push_back(rows);
    }
    for (;;) {
      const bool added =
          SelectsHits(At(spread)) ? AddOfMaximum(tail) : AddOfSum(tail);
      if (added) return Join(OnlyReader(tail.back()) >= 0);
      if (tail.size() == 2) return;
      tail.pop_back();
    }
  }

  bool AddOfSum(const Members& tail) {
    const int spread = tail[0];
    if (At(spread).operands.empty()) return false;
    const int share = producers_[At(spread).operands[0]];
    if (IsFree(share, Opcode::kMap) && OnlyReader(share) == spread) {
      Members members = {share};
      members.insert(members.end(), tail.begin(), tail.end());
      if (FindPoolGradient(program_, members).has_value() && Add(members, 0)) {
        return true;
      }
    }
    return FindPoolGradient(program_, tail).has_value() && Add(tail, 0);
  }

  bool AddOfMaximum(const Members& tail) {
    const int spread = tail[0];
    const int equal = producers_[At(spread).operands[0]];
    const int share = producers_[At(spread).operands[1]];
    if (!IsFree(equal, Opcode::kMap) || !IsFree(share, Opcode::kMap) ||
        OnlyReader(share) != spread || At(equal).operands.size() != 2) {
      return false;
    }
    const auto readers = readers_[ResultOf(equal)];
    if (readers.size() != 2) return false;
    const int hits = readers[0] == spread ? readers[1] : readers[0];
    if (!IsFree(hits, Opcode::kReduce) || OnlyReader(hits) != share) {
      return false;
    }
    for (int operand : At(equal).operands) {
      for (const bool padding : {true, false}) {
        Members members = WindowsBefore(operand, padding);
        if (members.empty()) continue;
        const size_t windows = members.size();
        members.insert(members.end(), {equal, hits, share});
        members.insert(members.end(), tail.begin(), tail.end());
        if (absl::c_is_sorted(members) &&
            FindPoolGradient(program_, members).has_value() &&
            Add(members, windows)) {
          return true;
        }
      }
    }
    return false;
  }

  const Program& program_;
  const std::vector<int> producers_;    // by value
  const ReaderLists readers_;           // by value
  const std::vector<int> computed_at_;  // by value
  const std::vector<int> group_of_;     // by instruction
  std::vector<bool> is_taken_;          // by instruction: by a chain
  std::vector<int> chain_of_result_;    // by value: the reduction it ends
  std::vector<PoolChain> chains_;
};

}  // namespace

absl::Status FusePools(const FusionCapabilities& device, Program& program) {
  EraseGroupsFrom<PoolGroup>(program.groups);
  if (!device.pools) return absl::OkStatus();
  std::vector<PoolChain> chains = PoolChainFinder(program).Find();
  std::vector<WindowsCopy*> copies;
  for (PoolChain& chain : chains) {
    if (chain.copy.reader >= 0) copies.push_back(&chain.copy);
  }
  CopyWindows(std::move(copies), program);
  const std::vector<int> producers = FindProducers(program);
  std::vector<FusedGroup> groups;
  std::vector<size_t> group_of;  // by chain; a chain joins an earlier one
  for (PoolChain& chain : chains) {
    absl::c_copy(chain.copy.results, chain.results.begin());
    group_of.push_back(chain.joins < 0 ? groups.size() : group_of[chain.joins]);
    if (chain.joins < 0) groups.push_back({{}, PoolGroup()});
    std::vector<int>& members = groups[group_of.back()].members;
    for (int result : chain.results) members.push_back(producers[result]);
    absl::c_sort(members);
  }
  AddGroups(std::move(groups), program);
  return absl::OkStatus();
}

}  // namespace mtf
