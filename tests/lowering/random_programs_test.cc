// SPDX-License-Identifier: Apache-2.0
//
// Properties of every program: random programs under random layouts, after
// every pass.
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "lowering/program/print_program.h"
#include "tests/lowering/gpu_fusion.h"
#include "tests/matchers.h"
#include "tests/properties/random_case.h"
#include "tests/repeats.h"

namespace mtf::testing {
namespace {

// A random program under a random layout that suits it.
struct LoweredCase {
  RandomProgram random;
  LayoutBinding binding;
  std::string layout;

  explicit LoweredCase(uint64_t seed) : random(MakeRandomProgram(seed)) {
    std::mt19937_64 numbers(seed * 0x9e3779b97f4a7c15u + 3);
    const Mesh mesh = MakeRandomMesh(numbers, 8);
    LayoutRules rules = MakeRandomRules(numbers, *random.graph, mesh);
    for (;;) {
      layout = rules.ToString();
      binding = *BindLayout(*random.graph, mesh, rules);
      LowerOptions first;
      first.last_pass = "emit_program";
      if (Lower(first).ok() && Initialize(first).ok()) return;
      rules = WithoutRule(rules,
                          static_cast<int>(numbers() % rules.rules().size()));
    }
  }
  absl::StatusOr<Program> Lower(const LowerOptions& options = {}) const {
    std::vector<Tensor> fetches = random.fetches;
    fetches.insert(fetches.end(), random.exact.begin(), random.exact.end());
    return mtf::Lower(*random.graph, binding,
                      {.fetches = fetches, .updates = random.updates}, options);
  }
  absl::StatusOr<Program> Initialize(const LowerOptions& options = {}) const {
    return mtf::Lower(*random.graph, binding, {.initialize = true}, options);
  }
};

constexpr uint64_t kSeeds = Repeats(400, 40);

TEST(RandomPrograms, EveryStageRoundTripsThroughText) {
  for (uint64_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
    const LoweredCase one(seed);
    LowerOptions options;
    options.after_pass = [&](absl::string_view pass, const Program& program) {
      const std::string text = PrintProgram(program);
      const absl::StatusOr<Program> parsed = ParseProgram(text);
      ASSERT_OK(parsed) << "seed " << seed << " after " << pass << "\n" << text;
      ASSERT_EQ(PrintProgram(*parsed), text)
          << "seed " << seed << " after " << pass;
    };
    ASSERT_OK(one.Lower(options)) << "seed " << seed;
    ASSERT_OK(one.Initialize(options)) << "seed " << seed;
  }
}

TEST(RandomPrograms, LoweringTwiceGivesTheSameText) {
  for (uint64_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
    const LoweredCase one(seed);
    const absl::StatusOr<Program> first = one.Lower(), second = one.Lower();
    ASSERT_OK(first);
    ASSERT_OK(second);
    EXPECT_EQ(PrintProgram(*first), PrintProgram(*second)) << "seed " << seed;
  }
}

// Simulates the memory of a step: every block of 64 bytes remembers the value
// written last, and every operand must still be intact when it is read.
class MemoryCheck {
 public:
  explicit MemoryCheck(const Program& program)
      : program_(program),
        owner_(program.values.size()),
        arena_((program.buffers.arena_bytes + 63) / 64, kNone) {}

  std::string Run() {
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.opcode == Opcode::kInput) Write(instruction.results[0]);
    }
    const int commit = program_.buffers.commit;
    const std::vector<int> group_of = FindGroups(program_);
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (group_of[i] >= 0) {
        const FusedGroup& group = program_.groups[group_of[i]];
        const int first = group.members.front();
        const bool is_first = first == static_cast<int>(i);
        if (group.is_planned()) {
          if (is_first && RunGroup(group) && first < commit) {
            Report(instruction.results[0], "changes a variable early");
          }
          continue;
        }
      }
      for (int operand : instruction.operands) Read(operand);
      CheckOverlap(instruction);
      for (int result : instruction.results) {
        const bool changes = Define(instruction, result);
        if (changes && static_cast<int>(i) < commit) {
          Report(result, "changes a variable before the commit");
        }
      }
      const bool can_fail = instruction.opcode == Opcode::kGather ||
                            instruction.opcode == Opcode::kScatterAdd ||
                            instruction.opcode == Opcode::kCheckIndex;
      if (can_fail && static_cast<int>(i) >= commit) {
        Report(instruction.results[0], "can fail after the commit");
      }
    }
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.opcode == Opcode::kWriteVariable &&
          last_write_[instruction.Get<NameAttributes>().name] ==
              instruction.results[0]) {
        Read(instruction.operands[0]);  // copied when the step ends
      }
    }
    return error_;
  }

  // The bytes of all values together.
  int64_t SumOfSizes() const {
    int64_t sum = 0;
    for (const Instruction& instruction : program_.instructions) {
      for (int result : instruction.results) {
        if (IsArena(result)) sum += Blocks(result) * 64;
      }
    }
    return sum;
  }

 private:
  static constexpr int kNone = -1;
  using Storage = BufferPlan::Storage;

  const BufferPlan::Buffer& buffer(int value) const {
    return program_.buffers.buffers[value];
  }
  bool IsArena(int value) const {
    return buffer(value).storage == Storage::kArena;
  }
  int64_t Blocks(int value) const {
    return (program_.values[value].local_bytes() + 63) / 64;
  }
  void Report(int value, absl::string_view what) {
    if (error_.empty()) {
      error_ = absl::StrCat("%", program_.values[value].name, " ", what);
    }
  }

  void Read(int value) {
    const int owner = owner_[value];
    if (buffer(owner).storage == Storage::kVariable) {
      if (stored_[buffer(owner).symbol] != owner)
        Report(value, "is no longer stored");
      return;
    }
    for (int64_t i = 0; i < Blocks(owner); ++i) {
      if (arena_[buffer(owner).offset / 64 + i] != owner) {
        Report(value, "is overwritten before it is read");
      }
    }
  }

  void Write(int value) {
    owner_[value] = value;
    const int64_t begin = buffer(value).offset / 64;
    if (begin + Blocks(value) > static_cast<int64_t>(arena_.size())) {
      return Report(value, "leaves the arena");
    }
    for (int64_t i = 0; i < Blocks(value); ++i) arena_[begin + i] = value;
  }

  // Runs a group that is one kernel: reads everything from outside, then writes
  // what others read. Returns true if that changes a variable.
  bool RunGroup(const FusedGroup& group) {
    std::set<int> computed, outside;
    for (int member : group.members) {
      const Instruction& instruction = program_.instructions[member];
      for (int operand : instruction.operands) {
        if (!computed.contains(operand)) outside.insert(operand);
      }
      computed.insert(instruction.results[0]);
    }
    for (int operand : outside) Read(operand);
    std::vector<int> written;
    bool changes = false;
    for (int member : group.members) {
      const Instruction& instruction = program_.instructions[member];
      const int result = instruction.results[0];
      if (buffer(result).storage == Storage::kNone) continue;
      for (int operand : outside) {
        const ProgramValue& from = program_.values[operand];
        const ProgramValue& to = program_.values[result];
        if (!Overlap(owner_[operand], result)) continue;
        const bool in_step = group.Find<RowGroup>() != nullptr &&
                             from.shape == to.shape && from.local == to.local &&
                             DTypeSize(from.dtype) == DTypeSize(to.dtype);
        if (!in_step) Report(result, "overlaps an operand of its group");
      }
      for (int other : written) {
        if (Overlap(other, result)) Report(result, "overlaps a result");
      }
      written.push_back(result);
    }
    for (int member : group.members) {
      const Instruction& instruction = program_.instructions[member];
      if (buffer(instruction.results[0]).storage == Storage::kNone) continue;
      changes = Define(instruction, instruction.results[0]) || changes;
    }
    return changes;
  }
  bool Overlap(int x, int y) const {
    if (!IsArena(x) || !IsArena(y)) {
      return buffer(x).storage == Storage::kVariable &&
             buffer(y).storage == Storage::kVariable &&
             buffer(x).symbol == buffer(y).symbol;
    }
    return buffer(x).offset < buffer(y).offset + 64 * Blocks(y) &&
           buffer(y).offset < buffer(x).offset + 64 * Blocks(x);
  }

  // Defines a result. Returns true if that changes a variable.
  bool Define(const Instruction& instruction, int result) {
    if (instruction.opcode == Opcode::kInput)
      return false;  // filled before the step
    if (instruction.opcode == Opcode::kWriteVariable) {
      last_write_[instruction.Get<NameAttributes>().name] = result;
    }
    switch (buffer(result).storage) {
      case Storage::kNone:  // a view
        owner_[result] = owner_[instruction.operands[0]];
        return false;
      case Storage::kArena:
        Write(result);
        return false;
      case Storage::kVariable:
        owner_[result] = result;
        if (instruction.opcode == Opcode::kReadVariable &&
            stored_.contains(buffer(result).symbol)) {
          Report(result, "reads a variable for the second time");
        }
        stored_[buffer(result).symbol] = result;
        return instruction.opcode != Opcode::kReadVariable;
    }
    return false;
  }

  // A result may overlap an operand only if the instruction visits both at
  // equal offsets.
  void CheckOverlap(const Instruction& instruction) {
    if (instruction.opcode == Opcode::kInput) return;
    for (int result : instruction.results) {
      if (!IsArena(result)) continue;
      const int64_t begin = buffer(result).offset,
                    end = begin + 64 * Blocks(result);
      for (size_t o = 0; o < instruction.operands.size(); ++o) {
        const int operand = instruction.operands[o];
        const int owner = owner_[operand];
        if (!IsArena(owner) || buffer(owner).offset >= end ||
            buffer(owner).offset + 64 * Blocks(owner) <= begin) {
          continue;
        }
        const ProgramValue& from = program_.values[operand];
        const ProgramValue& to = program_.values[result];
        const bool in_step = (instruction.opcode == Opcode::kMap ||
                              instruction.opcode == Opcode::kMask ||
                              (instruction.opcode == Opcode::kUpdateSlice &&
                               o == 0) ||
                              instruction.opcode == Opcode::kAllReduce) &&
                             buffer(owner).offset == begin &&
                             from.shape == to.shape && from.local == to.local &&
                             DTypeSize(from.dtype) == DTypeSize(to.dtype);
        if (!in_step) Report(result, "overlaps an operand");
      }
    }
  }

  const Program& program_;
  std::vector<int> owner_;  // by value: the value whose memory it shares
  std::vector<int> arena_;  // by block: the value written last
  std::map<std::string, int> stored_;      // by variable
  std::map<std::string, int> last_write_;  // by variable
  std::string error_;
};

TEST(RandomPrograms, NoValueIsOverwrittenBeforeItsLastReader) {
  int64_t arena = 0, sum = 0;
  for (uint64_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
    const LoweredCase one(seed);
    for (const absl::StatusOr<Program>& program :
         {one.Lower(), one.Initialize()}) {
      ASSERT_OK(program);
      MemoryCheck check(*program);
      EXPECT_EQ(check.Run(), "") << "seed " << seed << "\n"
                                 << PrintProgram(*program);
      arena += program->buffers.arena_bytes;
      sum += check.SumOfSizes();
      EXPECT_LE(program->buffers.arena_bytes, check.SumOfSizes());
    }
  }
  EXPECT_LT(arena, sum * 2 / 3) << "memory is hardly shared";
}

// The same for programs of a device that fuses, whose text round-trips too.
TEST(RandomPrograms, OfDevicesThatFuse) {
  int groups = 0;
  for (uint64_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
    const LoweredCase one(seed);
    const auto program = one.Lower({.fusion = GpuFusion()});
    ASSERT_OK(program) << "seed " << seed;
    const std::string text = PrintProgram(*program);
    EXPECT_EQ(MemoryCheck(*program).Run(), "") << "seed " << seed << "\n"
                                               << text;
    auto parsed = ParseProgram(text);
    ASSERT_OK(parsed) << "seed " << seed << "\n" << text;
    EXPECT_EQ(PrintProgram(*parsed), text) << "seed " << seed;
    // Fusing again changes nothing.
    ASSERT_OK(FuseFor(GpuFusion(), *parsed));
    EXPECT_EQ(PrintProgram(*parsed), text) << "seed " << seed;
    ASSERT_OK(FuseFor({}, *parsed));
    EXPECT_EQ(PrintProgram(*parsed), PrintProgram(*one.Lower()));
    groups += static_cast<int>(program->groups.size());
  }
  EXPECT_GT(groups, static_cast<int>(kSeeds) / 4);
}

}  // namespace
}  // namespace mtf::testing
