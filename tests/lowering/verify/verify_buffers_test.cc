// SPDX-License-Identifier: Apache-2.0
//
// Buffers that overlap values still needed, or lie outside of their storage.
#include "lowering/verify/verify_buffers.h"

#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/readers.h"
#include "lowering/verify/verify_program.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/pass_test.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using Storage = BufferPlan::Storage;

struct WrongOffset {
  const char* name;
  std::string text;
  int line;
  std::string message;
  friend std::ostream& operator<<(std::ostream& out, const WrongOffset& wrong) {
    return out << wrong.name;
  }
};

std::vector<WrongOffset> WrongOffsets() {
  const std::string begin = "mesh{x:2}\nbuffers{arena:192, commit:1}\n";
  const std::string a = begin + "%a : f32[c:8] @0 = input a\n";
  const std::string w = begin + "%w : f32[c:8] @w = read_variable w\n";
  const std::string written = "%n : f32[c:8] = write_variable(%v) w\n";
  return {
      {"BeyondTheArena", a + "%b : f32[c:8] @192 = map(%a) relu\n", 4,
       "%b is at @192, and takes 8 elements of 4 bytes there, which do not fit "
       "into an arena of 192 bytes"},
      {"NotAligned", a + "%b : f32[c:8] @68 = map(%a) relu\n", 4,
       "%b is at @68, but offsets in the arena are multiples of 64 bytes"},
      {"OverAnInput",
       a + "%b : f32[c:8] @0 = input b\n%s : f32[c:8] @64 = "
           "map(%a, %b) add\n",
       4, "%b is written where %a is still needed\n  read by  %s"},
      {"OverAnInputThatIsFedLater",
       begin + "%z : f32[c:8] @0 = random uniform stream 1\n"
               "%a : f32[c:8] @0 = input a\n"
               "%b : f32[c:8] @64 = map(%z, %a) add\n",
       3, "%z is written where %a is still needed"},
      {"OverAValueThatIsReadLater",
       a + "%b : f32[c:8] @0 = map(%a) relu\n%s : f32[c:8] @64 = map(%a, %b) "
           "add\n",
       4, "%b is written where %a is still needed"},
      {"OverOneEndOfAnOperand",
       begin + "%a : f32[c:32] @0 = input a\n"
               "%b : f32[c:32] @64 = map(%a) relu\n",
       4, "%b is written where %a is still needed"},
      {"OverABroadcastOperand", a + "%b : f32[c:8, d:2] @0 = map(%a) relu\n", 4,
       "%b is written where %a is still needed"},
      {"OverTheOperandOfAView",
       a + "%v : f32[d:2, e:4] = reshape(%a)\n"
           "%b : f32[c:8] @0 = random uniform stream 1\n"
           "%u : f32[d:2, e:4] @64 = map(%v) relu\n",
       5, "%b is written where %a is still needed"},
      {"OverAnEinsumsOperand",
       begin +
           "%a : f32[b:8, c:2] @0 = input a\n"
           "%b : f32[c:2, d:2] @64 = input b\n"
           "%p : f32[b:8, d:2] @0 = einsum(%a, %b) sum{c} by{m 8 n 2 k 2}\n",
       5, "%p is written where %a is still needed"},
      {"OverAValueWrittenWhenTheStepEnds",
       w + "%v : f32[c:8] @0 = map(%w) relu\n" + written +
           "%b : f32[c:8] @0 = random uniform stream 1\n",
       6, "%b is written where %v is still needed"},
      {"AVariableInTheArena", begin + "%w : f32[c:8] @0 = read_variable w\n", 3,
       "%w is at @0, but a variable is read from its own storage: @w"},
      {"AnotherVariable",
       w + "%u : f32[c:8] @w = read_variable u\n"
           "%s : f32[c:8] @0 = map(%u) relu\n",
       4, "%u is at @w, but a variable is read from its own storage: @u"},
      {"NoVariable", a + "%b : f32[c:8] @w = map(%a) relu\n", 4,
       "%b is at @w, but there is no such variable"},
      {"AVariableOfAnotherShape",
       w + "%b : f32[d:8] @w = random uniform stream 1\n", 4,
       "%b is at @w, but its type or layout differs from the variable's"},
      {"AVariableThatIsNotWritten", w + "%b : f32[c:8] @w = map(%w) relu\n", 4,
       "%b is at @w, but it is not written to that variable"},
      {"AVariableThatIsReadLater",
       w + "%v : f32[c:8] @w = map(%w) relu\n" + written +
           "%b : f32[c:8] @0 = map(%w) neg\n",
       4, "%v is written where %w is still needed"},
      {"OverAnOperandOfACollectiveInFlight",
       begin + "%a : f32[b:4/x=2, c:8] @0 = input a\n"
               "%s : f32[c:8] unreduced{x} @64 = reduce(%a) sum\n"
               "%r : f32[c:8] @128 = all_reduce(%s) sum over{x} asynchronous\n"
               "%b : f32[c:8] @64 = random uniform stream 1\n"
               "wait(%r)\noutput(%r) r\n",
       6, "%b is written where an asynchronous collective uses %s"},
      {"OverAResultOfACollectiveInFlight",
       begin + "%a : f32[b:4/x=2, c:8] @0 = input a\n"
               "%s : f32[c:8] unreduced{x} @64 = reduce(%a) sum\n"
               "%r : f32[c:8] @128 = all_reduce(%s) sum over{x} asynchronous\n"
               "%b : f32[c:8] @128 = random uniform stream 1\n"
               "wait(%r)\n",
       6, "%b is written where an asynchronous collective uses %r"},
      {"AfterTheWaitButBeforeTheReader",
       begin + "%a : f32[b:4/x=2, c:8] @0 = input a\n"
               "%s : f32[c:8] unreduced{x} @64 = reduce(%a) sum\n"
               "%r : f32[c:8] @128 = all_reduce(%s) sum over{x} asynchronous\n"
               "wait(%r)\n"
               "%b : f32[c:8] @128 = random uniform stream 1\n"
               "output(%r) r\n",
       7, "%b is written where %r is still needed\n  read by  output(%r) r"},
  };
}

class VerifyBuffers : public ::testing::TestWithParam<WrongOffset> {};

TEST_P(VerifyBuffers, NamesTheLineOfTheValue) {
  const WrongOffset& wrong = GetParam();
  const absl::StatusOr<Program> program = ParseText(wrong.text);
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(std::string(program.status().message()),
              ::testing::StartsWith(absl::StrCat(
                  "line ", wrong.line, ", column 1: ", wrong.message)));
}

INSTANTIATE_TEST_SUITE_P(Texts, VerifyBuffers,
                         ::testing::ValuesIn(WrongOffsets()),
                         [](const auto& info) { return info.param.name; });

// Simulates a program on bytes that record the value they belong to. An
// asynchronous collective uses its operands and results from its start to its
// wait.
class Bytes {
 public:
  explicit Bytes(const Program& program)
      : program_(program),
        ends_(FindEnds(program)),
        owner_(program.values.size()),
        arena_(program.buffers.arena_bytes, -1) {}

  bool OperandsAreIntact() {
    const int count = static_cast<int>(program_.instructions.size());
    for (int i = 0; i < count; ++i) {
      if (program_.instructions[i].opcode == Opcode::kInput) Write(i);
    }
    std::vector<int> written;
    for (int i = 0; i < count; ++i) {
      const Instruction& instruction = program_.instructions[i];
      for (int operand : instruction.operands) {
        if (instruction.opcode != Opcode::kWait) good_ &= Has(operand);
      }
      if (instruction.opcode == Opcode::kWriteVariable) {
        written.push_back(instruction.operands[0]);
      }
      if (instruction.opcode != Opcode::kInput) Write(i);
      for (int begun = 0; begun < i; ++begun) {
        if (ends_[begun] != i) continue;
        const Instruction& collective = program_.instructions[begun];
        for (size_t o = 0; o < collective.operands.size(); ++o) {
          const bool in_place =
              program_.buffers.buffers[owner_[collective.operands[o]]].offset ==
              program_.buffers.buffers[collective.results[o]].offset;
          good_ &= in_place || Has(collective.operands[o]);
        }
        for (int result : collective.results) good_ &= Has(result);
      }
    }
    for (int value : written) good_ &= Has(value);
    return good_;
  }

 private:
  void Write(int i) {
    const Instruction& instruction = program_.instructions[i];
    for (int result : instruction.results) {
      const bool view = instruction.opcode == Opcode::kWriteVariable ||
                        (instruction.opcode == Opcode::kReshape &&
                         IsView(program_, instruction));
      owner_[result] = view ? owner_[instruction.operands[0]] : result;
      if (!view) ForRange(result, [&](int& byte) { byte = result; });
    }
  }
  bool Has(int value) {
    bool all = true;
    const int owner = owner_[value];
    ForRange(owner, [&](int& byte) { all &= byte == owner; });
    return all;
  }
  template <class F>
  void ForRange(int value, F f) {
    const BufferPlan::Buffer& buffer = program_.buffers.buffers[value];
    if (buffer.storage != Storage::kArena) return;
    const int64_t bytes = program_.values[value].local_bytes();
    for (int64_t b = 0; b < bytes; ++b) f(arena_[buffer.offset + b]);
  }

  const Program& program_;
  const std::vector<int> ends_;
  std::vector<int> owner_;
  std::vector<int> arena_;
  bool good_ = true;
};

// A wrong offset is either rejected by the verifier or harmless in a
// simulation.
TEST(VerifyBuffers, EveryHarmfulOffsetIsRejected) {
  Graph graph;
  const Transformer model = BuildTransformer(graph, {.layers = 1,
                                                     .batch = 4,
                                                     .length = 4,
                                                     .d_model = 4,
                                                     .heads = 2,
                                                     .d_kv = 2,
                                                     .d_ff = 8,
                                                     .vocab = 8});
  const auto program = LowerText(
      graph, "data:2,model:2",
      "batch:data, heads:model, d_ff:model, [parameters] d_model:data",
      {.fetches = {model.loss}, .updates = {model.step}});
  ASSERT_OK(program);
  ASSERT_TRUE(Bytes(*program).OperandsAreIntact());
  std::vector<int> stored;
  for (size_t v = 0; v < program->values.size(); ++v) {
    if (program->buffers.buffers[v].storage == Storage::kArena) {
      stored.push_back(static_cast<int>(v));
    }
  }
  std::mt19937_64 numbers(7);
  int wrong = 0, right = 0;
  for (int edit = 0; edit < 400; ++edit) {
    Program edited = *program;
    const int value = stored[numbers() % stored.size()];
    const int other = stored[numbers() % stored.size()];
    edited.buffers.buffers[value].offset =
        program->buffers.buffers[other].offset;
    if (!VerifyProgram(edited).ok()) {
      ++wrong;
      continue;
    }
    ++right;
    EXPECT_TRUE(Bytes(edited).OperandsAreIntact())
        << "%" << edited.values[value].name << " at @"
        << edited.buffers.buffers[value].offset;
  }
  EXPECT_GT(wrong, 100);
  EXPECT_GT(right, 20);
}

}  // namespace
}  // namespace mtf::testing
