// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_BUFFER_LIFETIMES_H_
#define LOWERING_PASSES_BUFFER_LIFETIMES_H_

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lowering/program/fused_group.h"
#include "lowering/program/program.h"

namespace mtf {

// The lifetimes of values in memory, for plan_buffers. Values that share memory
// have one owner (FindBufferOwners); lifetimes are those of owners.
class BufferLifetimes {
 public:
  // `program` must outlive this object.
  explicit BufferLifetimes(const Program& program);

  int owner(int value) const { return owner_[value]; }
  // By owner: the last instruction that reads it, or -1. What a group reads is
  // read until its last member.
  int last_reader(int owner) const { return last_reader_[owner]; }
  // By instruction: where it ends (FindEnds).
  int end(int instruction) const { return ends_[instruction]; }
  // The number of variables that an owner is written to.
  int variables_written_from(int owner) const {
    return static_cast<int>(std::count(written_to_variables_.begin(),
                                       written_to_variables_.end(), owner));
  }

  // The group of an instruction, or null.
  const FusedGroup* GroupOf(int instruction) const {
    const int group = group_of_[instruction];
    return group < 0 ? nullptr : &program_.groups[group];
  }
  // The group if it is planned as one kernel, or null.
  const FusedGroup* PlannedGroupOf(int instruction) const {
    const FusedGroup* group = GroupOf(instruction);
    return group != nullptr && group->is_planned() ? group : nullptr;
  }

  // Whether the results of instruction `i`, which reads `owner`, may reuse its
  // memory: nothing else reads it later or, for an asynchronous collective,
  // between its start and its wait.
  bool IsLastReader(int owner, int i) const;

 private:
  void FindLastReaders();
  void NoteAsyncReads(int i);

  const Program& program_;
  std::vector<int> group_of_;     // by instruction: index of its group, or -1
  std::vector<int> ends_;         // by instruction
  std::vector<int> owner_;        // by value
  std::vector<int> last_reader_;  // by owner
  std::vector<int> written_to_variables_;  // owners
  // By owner: the asynchronous collective that alone reads it after its start;
  // -1 if something else does too.
  absl::flat_hash_map<int, int> only_async_reader_;
};

}  // namespace mtf

#endif  // LOWERING_PASSES_BUFFER_LIFETIMES_H_
