// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/bucket_all_reduces.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "layouts/shard.h"

namespace mtf {
namespace {

// A call of so many bytes costs hardly more than its bytes, whatever the links;
// of more ranks each sends a smaller piece at a time, so those get more.
constexpr int64_t kFullBytes = int64_t{64} << 20;
constexpr int64_t kFullBytesOfRank = int64_t{2} << 20;
constexpr int64_t kMostBytes = int64_t{256} << 20;

// Whether an instruction is a reduction that nobody has joined yet.
bool IsReduction(const Instruction& instruction) {
  return (instruction.opcode == Opcode::kAllReduce ||
          instruction.opcode == Opcode::kReduceScatter) &&
         instruction.operands.size() == 1;
}

// The order of the instructions in which every reduction stands just behind the
// one that makes its operand: the sooner a sum is ready to go, the more of them
// go together.
std::vector<int> Hoisted(const std::vector<Instruction>& instructions,
                         size_t num_values) {
  std::vector<int> sum_of(num_values, -1);  // by operand: its reduction
  for (size_t i = instructions.size(); i-- > 0;) {
    if (IsReduction(instructions[i])) {
      sum_of[instructions[i].operands[0]] = static_cast<int>(i);
    }
  }
  std::vector<bool> moved(instructions.size(), false);
  std::vector<int> hoisted;
  hoisted.reserve(instructions.size());
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (moved[i]) continue;
    hoisted.push_back(static_cast<int>(i));
    // A sum may itself be summed over other axes.
    for (size_t at = hoisted.size() - 1; at < hoisted.size(); ++at) {
      for (int result : instructions[hoisted[at]].results) {
        if (sum_of[result] < 0) continue;
        hoisted.push_back(sum_of[result]);
        moved[sum_of[result]] = true;
      }
    }
  }
  return hoisted;
}

class Bucketer {
 public:
  explicit Bucketer(Program& program)
      : program_(program), held_by_(program.values.size(), -1) {}

  void Run() {
    std::vector<Instruction> before = std::move(program_.instructions);
    program_.instructions.clear();
    program_.instructions.reserve(before.size());
    for (int place : Hoisted(before, program_.values.size())) {
      Instruction& instruction = before[place];
      if (IsReduction(instruction)) {
        Put(std::move(instruction));
        continue;
      }
      for (int operand : instruction.operands) {
        if (held_by_[operand] >= 0) Close(held_by_[operand]);
      }
      program_.instructions.push_back(std::move(instruction));
    }
    while (!open_.empty()) Close(open_.front());
  }

 private:
  struct Bucket {
    Instruction joined;
    int64_t bytes = 0;
    // 0, or one more than that of the buckets that its operands come from: a
    // sum that is summed again, over other axes, waits for its like too.
    int level = 0;
  };

  void Put(Instruction&& instruction) {
    const int operand = instruction.operands[0];
    const ProgramValue& value = program_.values[operand];
    // Bounded, because the product may leave int64.
    const int64_t bytes =
        std::min(LocalElements(program_.grains, value.shape, value.layout),
                 kMostBytes) *
        DTypeSize(value.dtype);
    const int level =
        held_by_[operand] < 0 ? 0 : buckets_[held_by_[operand]].level + 1;
    const int64_t full = FullBucketBytes(
        program_.mesh.SizeOf(instruction.Get<CollectiveAttributes>().axes));
    int place = Find(instruction, level);
    if (place < 0) {
      place = static_cast<int>(buckets_.size());
      open_.push_back(place);
      held_by_[instruction.results[0]] = place;
      buckets_.push_back({std::move(instruction), bytes, level});
    } else {
      Join(instruction, buckets_[place]);
      held_by_[instruction.results[0]] = place;
      buckets_[place].bytes += bytes;
    }
    // What waits takes memory, and a call that starts now is hidden behind
    // what is left to compute.
    if (buckets_[place].bytes >= full) Close(place);
  }

  static void Join(const Instruction& instruction, Bucket& bucket) {
    Instruction& joined = bucket.joined;
    joined.operands.push_back(instruction.operands[0]);
    joined.results.push_back(instruction.results[0]);
    for (const Cause& cause : instruction.causes) {
      bool known = false;
      for (const Cause& other : joined.causes) {
        known = known || (other.axis == cause.axis &&
                          other.dimension == cause.dimension);
      }
      if (!known) joined.causes.push_back(cause);
    }
  }

  // The open bucket that `instruction` may join, or -1.
  int Find(const Instruction& instruction, int level) const {
    const DType dtype = program_.values[instruction.operands[0]].dtype;
    const auto& collective = instruction.Get<CollectiveAttributes>();
    for (int place : open_) {
      const Instruction& joined = buckets_[place].joined;
      const auto& other = joined.Get<CollectiveAttributes>();
      if (buckets_[place].level == level &&
          joined.opcode == instruction.opcode &&
          other.axes == collective.axes &&
          other.reduction == collective.reduction &&
          program_.values[joined.operands[0]].dtype == dtype) {
        return place;
      }
    }
    return -1;
  }

  // Writes the bucket, behind those that its operands come from.
  void Close(int place) {
    for (int operand : buckets_[place].joined.operands) {
      if (held_by_[operand] >= 0) Close(held_by_[operand]);
    }
    for (int result : buckets_[place].joined.results) held_by_[result] = -1;
    open_.erase(std::find(open_.begin(), open_.end(), place));
    program_.instructions.push_back(std::move(buckets_[place].joined));
  }

  Program& program_;
  std::vector<Bucket> buckets_;  // open and closed
  std::vector<int> open_;        // in the order of their first sum
  std::vector<int> held_by_;     // by value: the open bucket it is made in
};

}  // namespace

int64_t FullBucketBytes(int64_t ranks) {
  return std::clamp(ranks * kFullBytesOfRank, kFullBytes, kMostBytes);
}

absl::Status BucketAllReduces(Program& program) {
  if (std::none_of(program.instructions.begin(), program.instructions.end(),
                   IsReduction)) {
    return absl::OkStatus();
  }
  Bucketer(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
