// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/bucket_all_reduces.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "layouts/shard.h"

namespace mtf {
namespace {

// With buckets of this size the latency of a call is negligible on any link.
// With more ranks each message is a smaller shard of the bucket, so larger
// groups get larger buckets.
constexpr int64_t kMinFullBytes = int64_t{64} << 20;
constexpr int64_t kFullBytesPerRank = int64_t{2} << 20;
constexpr int64_t kMaxFullBytes = int64_t{256} << 20;

// Whether an instruction is a reduction that is not combined with others yet.
bool IsReduction(const Instruction& instruction) {
  return ReducesAxes(instruction.opcode) && instruction.operands.size() == 1;
}

// The order of the instructions with every reduction moved directly after the
// producer of its operand: reductions that can start early share a bucket with
// more others.
std::vector<int> HoistReductions(const std::vector<Instruction>& instructions,
                                 size_t num_values) {
  std::vector<int> reduction_of(num_values, -1);  // by operand
  for (size_t i = instructions.size(); i-- > 0;) {
    if (IsReduction(instructions[i])) {
      reduction_of[instructions[i].operands[0]] = static_cast<int>(i);
    }
  }
  std::vector<bool> moved(instructions.size(), false);
  std::vector<int> hoisted;
  hoisted.reserve(instructions.size());
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (moved[i]) continue;
    hoisted.push_back(static_cast<int>(i));
    // A result may itself be reduced over other axes.
    for (size_t at = hoisted.size() - 1; at < hoisted.size(); ++at) {
      for (int result : instructions[hoisted[at]].results) {
        if (reduction_of[result] < 0) continue;
        hoisted.push_back(reduction_of[result]);
        moved[reduction_of[result]] = true;
      }
    }
  }
  return hoisted;
}

class ReductionBucketer {
 public:
  explicit ReductionBucketer(Program& program)
      : program_(program), bucket_of_(program.values.size(), -1) {}

  void Run() {
    std::vector<Instruction> before = std::move(program_.instructions);
    program_.instructions.clear();
    program_.instructions.reserve(before.size());
    // Puts reductions into buckets; before any other instruction, issues the
    // buckets that it reads from.
    for (int index : HoistReductions(before, program_.values.size())) {
      Instruction& instruction = before[index];
      if (IsReduction(instruction)) {
        Put(std::move(instruction));
        continue;
      }
      for (int operand : instruction.operands) {
        if (bucket_of_[operand] >= 0) Issue(bucket_of_[operand]);
      }
      program_.instructions.push_back(std::move(instruction));
    }
    while (!open_.empty()) Issue(open_.front());
  }

 private:
  struct Bucket {
    Instruction call;
    int64_t bytes = 0;
    // 0, or one more than the level of the buckets that produce the operands:
    // values that are reduced again over other axes form buckets of their own.
    int level = 0;
  };

  // Adds a reduction to an open bucket, or opens one.
  void Put(Instruction&& instruction) {
    const int operand = instruction.operands[0];
    const ProgramValue& value = program_.values[operand];
    // Bounded, because the product may overflow int64.
    const int64_t bytes =
        std::min(LocalElements(program_.grains, value.shape, value.layout),
                 kMaxFullBytes) *
        DTypeSize(value.dtype);
    const int level =
        bucket_of_[operand] < 0 ? 0 : buckets_[bucket_of_[operand]].level + 1;
    const int64_t full = MaxBucketBytes(
        program_.mesh.SizeOf(instruction.Get<CollectiveAttributes>().axes));
    int bucket = FindOpen(instruction, level);
    if (bucket < 0) {
      bucket = static_cast<int>(buckets_.size());
      open_.push_back(bucket);
      bucket_of_[instruction.results[0]] = bucket;
      buckets_.push_back({std::move(instruction), bytes, level});
    } else {
      Join(instruction, buckets_[bucket]);
      bucket_of_[instruction.results[0]] = bucket;
      buckets_[bucket].bytes += bytes;
    }
    // Operands that wait take memory, and a call that starts now can still
    // overlap with the remaining compute.
    if (buckets_[bucket].bytes >= full) Issue(bucket);
  }

  static void Join(const Instruction& instruction, Bucket& bucket) {
    Instruction& call = bucket.call;
    call.operands.push_back(instruction.operands[0]);
    call.results.push_back(instruction.results[0]);
    for (const Cause& cause : instruction.causes) {
      bool is_known = false;
      for (const Cause& other : call.causes) {
        is_known = is_known || (other.axis == cause.axis &&
                                other.dimension == cause.dimension);
      }
      if (!is_known) call.causes.push_back(cause);
    }
  }

  // The open bucket that `instruction` can be added to, or -1.
  int FindOpen(const Instruction& instruction, int level) const {
    const DType dtype = program_.values[instruction.operands[0]].dtype;
    const auto& collective = instruction.Get<CollectiveAttributes>();
    for (int bucket : open_) {
      const Instruction& call = buckets_[bucket].call;
      const auto& other = call.Get<CollectiveAttributes>();
      if (buckets_[bucket].level == level &&
          call.opcode == instruction.opcode && other.axes == collective.axes &&
          other.reduction == collective.reduction &&
          program_.values[call.operands[0]].dtype == dtype) {
        return bucket;
      }
    }
    return -1;
  }

  // Writes the call of a bucket, after the buckets that produce its operands.
  void Issue(int bucket) {
    for (int operand : buckets_[bucket].call.operands) {
      if (bucket_of_[operand] >= 0) Issue(bucket_of_[operand]);
    }
    for (int result : buckets_[bucket].call.results) bucket_of_[result] = -1;
    open_.erase(std::find(open_.begin(), open_.end(), bucket));
    program_.instructions.push_back(std::move(buckets_[bucket].call));
  }

  Program& program_;
  std::vector<Bucket> buckets_;  // open and issued
  std::vector<int> open_;        // in the order of their first reduction
  // By value: the open bucket that produces it, or -1.
  std::vector<int> bucket_of_;
};

}  // namespace

int64_t MaxBucketBytes(int64_t ranks) {
  return std::clamp(ranks * kFullBytesPerRank, kMinFullBytes, kMaxFullBytes);
}

absl::Status BucketAllReduces(Program& program) {
  if (std::none_of(program.instructions.begin(), program.instructions.end(),
                   IsReduction)) {
    return absl::OkStatus();
  }
  ReductionBucketer(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
