// SPDX-License-Identifier: Apache-2.0
#include "lowering/bucket_all_reduces.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "layouts/shard.h"

namespace mtf {
namespace {

constexpr int64_t kMostBytes = int64_t{256} << 20;

// Whether an instruction is a reduction that nobody has joined yet.
bool IsReduction(const Instruction& instruction) {
  return (instruction.opcode == Opcode::kAllReduce ||
          instruction.opcode == Opcode::kReduceScatter) &&
         instruction.operands.size() == 1;
}

// Moves every reduction to just behind the instruction that makes its operand:
// the sooner a sum is ready to go, the more of them go together.
std::vector<Instruction> Hoisted(std::vector<Instruction> instructions,
                                 size_t num_values) {
  std::vector<int> sum_of(num_values, -1);  // by operand: its reduction
  for (size_t i = instructions.size(); i-- > 0;) {
    if (IsReduction(instructions[i])) {
      sum_of[instructions[i].operands[0]] = static_cast<int>(i);
    }
  }
  std::vector<bool> moved(instructions.size(), false);
  std::vector<Instruction> hoisted;
  hoisted.reserve(instructions.size());
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (moved[i]) continue;
    hoisted.push_back(std::move(instructions[i]));
    // A sum may itself be summed over other axes.
    for (size_t at = hoisted.size() - 1; at < hoisted.size(); ++at) {
      const absl::InlinedVector<int, 1> results = hoisted[at].results;
      for (int result : results) {
        if (sum_of[result] < 0) continue;
        hoisted.push_back(std::move(instructions[sum_of[result]]));
        moved[sum_of[result]] = true;
      }
    }
  }
  return hoisted;
}

struct Bucket {
  Instruction joined;
  int64_t bytes = 0;
};

}  // namespace

absl::Status BucketAllReduces(Program& program) {
  std::vector<Instruction> before =
      Hoisted(std::move(program.instructions), program.values.size());
  program.instructions.clear();
  program.instructions.reserve(before.size());
  std::vector<Bucket> open;
  // By value: it is a result of an open bucket.
  std::vector<bool> held(program.values.size(), false);

  const auto close = [&](size_t i) {
    for (int result : open[i].joined.results) held[result] = false;
    program.instructions.push_back(std::move(open[i].joined));
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (Instruction& instruction : before) {
    for (int operand : instruction.operands) {
      if (!held[operand]) continue;
      for (size_t i = 0; i < open.size(); ++i) {
        const auto& results = open[i].joined.results;
        if (std::find(results.begin(), results.end(), operand) !=
            results.end()) {
          close(i);
          break;
        }
      }
    }
    if (!IsReduction(instruction)) {
      program.instructions.push_back(std::move(instruction));
      continue;
    }
    const ProgramValue& value = program.values[instruction.operands[0]];
    const int64_t bytes =
        LocalElements(program.grains, value.shape, value.layout) *
        DTypeSize(value.dtype);
    size_t place = 0;
    for (; place < open.size(); ++place) {
      const Instruction& joined = open[place].joined;
      if (joined.opcode == instruction.opcode &&
          joined.axes == instruction.axes &&
          joined.reduce_kind == instruction.reduce_kind &&
          program.values[joined.operands[0]].dtype == value.dtype) {
        break;
      }
    }
    if (place < open.size() && open[place].bytes + bytes > kMostBytes) {
      close(place);
      place = open.size();
    }
    for (int result : instruction.results) held[result] = true;
    if (place == open.size()) {
      open.push_back({std::move(instruction), bytes});
      continue;
    }
    Instruction& joined = open[place].joined;
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
    open[place].bytes += bytes;
  }
  while (!open.empty()) close(0);
  return absl::OkStatus();
}

}  // namespace mtf
