// SPDX-License-Identifier: Apache-2.0
//
// Attention whose keys are sharded over the axes that shard its queries.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/parse_program.h"
#include "lowering/program/attention_size.h"
#include "lowering/program/attributes.h"
#include "lowering/program/print_program.h"
#include "lowering/program/ring_rows.h"
#include "lowering/verify/verify_program.h"
#include "tests/lowering/attention_parts.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kRing[] = "length:x, memory:x";

absl::StatusOr<Program> LowerRing(const AttentionParts& parts,
                                  const std::string& mesh,
                                  const std::string& layout = kRing) {
  Graph graph;
  const Targets targets = BuildAttention(graph, parts);
  return LowerText(graph, mesh, layout, targets,
                   {.attention = AttentionSupport::kAll});
}

std::vector<AttentionAttributes> StepsOf(const Program& program,
                                         Opcode opcode) {
  std::vector<AttentionAttributes> steps;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == opcode) {
      steps.push_back(instruction.Get<AttentionAttributes>());
    }
  }
  return steps;
}

int Count(const Program& program, Opcode opcode) {
  return static_cast<int>(std::count_if(
      program.instructions.begin(), program.instructions.end(),
      [&](const Instruction& each) { return each.opcode == opcode; }));
}

TEST(RecorderRing, HasOneStepPerRank) {
  for (const int ranks : {2, 3, 4}) {
    const auto program =
        LowerRing({.causal = false}, absl::StrCat("x:", ranks));
    ASSERT_OK(program);
    for (const Opcode opcode :
         {Opcode::kAttention, Opcode::kAttentionGradient}) {
      const auto steps = StepsOf(*program, opcode);
      ASSERT_EQ(steps.size(), ranks);
      for (int i = 0; i < ranks; ++i) {
        EXPECT_TRUE(steps[i].ring);
        EXPECT_FALSE(steps[i].striped);
        EXPECT_EQ(steps[i].shift, i);
        EXPECT_EQ(steps[i].continues, i > 0);
      }
    }
    // Keys and values twice, their gradients once and home.
    EXPECT_EQ(Count(*program, Opcode::kCollectivePermute),
              2 * (ranks - 1) * 2 + 2 * ranks);
  }
}

// While a step is computed the keys and values of the next one are sent.
TEST(RecorderRing, SendsDuringSteps) {
  const auto program = LowerRing({.causal = false, .gradient = false}, "x:3");
  ASSERT_OK(program);
  std::vector<std::string> order;
  for (const Instruction& instruction : program->instructions) {
    if (instruction.opcode == Opcode::kAttention ||
        instruction.opcode == Opcode::kWait) {
      order.emplace_back(OpcodeName(instruction.opcode));
    } else if (instruction.opcode == Opcode::kCollectivePermute) {
      EXPECT_TRUE(instruction.Get<CollectiveAttributes>().asynchronous);
      order.emplace_back("send");
    }
  }
  EXPECT_THAT(order,
              ElementsAre("send", "send", "attention", "wait", "send", "wait",
                          "send", "attention", "wait", "attention"));
}

// A query that sees 20 positions needs the shards of 20 that are up to 19
// positions back: this one and the one before.
TEST(RecorderRing, LeavesOutStepsBeyondTheWindow) {
  const auto steps_with = [](int64_t window) {
    Graph graph;
    const Shape shape({{"length", 80}, {"d", 8}});
    const Shape keys({{"memory", 80}, {"d", 8}});
    const auto results = Attention({.q = Input(graph, "q", kFloat32, shape),
                                    .k = Input(graph, "k", kFloat32, keys),
                                    .v = Input(graph, "v", kFloat32, keys)},
                                   {.length = "length",
                                    .memory_length = "memory",
                                    .d_kv = "d",
                                    .d_v = "d",
                                    .causal = true,
                                    .window = window});
    const auto program =
        LowerText(graph, "x:4", kRing, {.fetches = {results.output}},
                  {.attention = AttentionSupport::kAll});
    EXPECT_OK(program);
    return StepsOf(*program, Opcode::kAttention).size();
  };
  EXPECT_EQ(steps_with(1), 1);
  EXPECT_EQ(steps_with(2), 2);
  EXPECT_EQ(steps_with(21), 2);
  EXPECT_EQ(steps_with(22), 3);
  EXPECT_EQ(steps_with(1000), 4);
}

// Pairs of a query and a key that a rank computes in all steps.
std::vector<double> PairsByRank(const Program& program) {
  std::vector<double> pairs(program.mesh.num_devices());
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kAttention) continue;
    const auto& attention = instruction.Get<AttentionAttributes>();
    const ProgramValue& q = program.values[instruction.operands[0]];
    const ProgramValue& k = program.values[instruction.operands[1]];
    for (size_t rank = 0; rank < pairs.size(); ++rank) {
      const RingRows queries =
          FindRingRows(program, q, "length", attention, rank);
      const RingRows keys = FindRingRows(program, k, "memory", attention, rank);
      for (int64_t i = 0; i < queries.valid; ++i) {
        for (int64_t j = 0; j < keys.valid; ++j) {
          pairs[rank] += keys.first + j * keys.stride <=
                         queries.first + i * queries.stride;
        }
      }
    }
  }
  return pairs;
}

TEST(RecorderRing, CausalWorkIsBalanced) {
  const auto program =
      LowerRing({.gradient = false, .length = 512, .memory = 512}, "x:8");
  ASSERT_OK(program);
  const std::vector<double> pairs = PairsByRank(*program);
  const double mean = 512.0 * 513 / 2 / 8;
  for (const double each : pairs) {
    EXPECT_NEAR(each, mean, 0.02 * mean);
  }
  // Each step has half of its pairs, and the estimates know it.
  for (const Instruction& instruction : program->instructions) {
    if (instruction.opcode != Opcode::kAttention) continue;
    EXPECT_NEAR(SizeOfAttention(*program, instruction).visible, 0.5, 0.02);
  }
}

// Where shards do not divide into stripes all pairs are still computed once.
TEST(RecorderRing, UnevenLengthsAreNotStriped) {
  const auto program =
      LowerRing({.gradient = false, .length = 26, .memory = 26}, "x:4");
  ASSERT_OK(program);
  const std::vector<double> pairs = PairsByRank(*program);
  double sum = 0;
  for (const double each : pairs) sum += each;
  EXPECT_EQ(sum, 26 * 27 / 2);
  EXPECT_FALSE(StepsOf(*program, Opcode::kAttention)[0].striped);
}

TEST(RecorderRing, DevicesWithoutItGatherKeys) {
  for (const AttentionSupport support :
       {AttentionSupport::kNone, AttentionSupport::kFusedKernels}) {
    Graph graph;
    const Targets targets = BuildAttention(graph, {.causal = false});
    const auto program =
        LowerText(graph, "x:4", kRing, targets, {.attention = support});
    ASSERT_OK(program);
    EXPECT_EQ(Count(*program, Opcode::kAttention), 0);
    EXPECT_EQ(Count(*program, Opcode::kCollectivePermute), 0);
    EXPECT_GT(Count(*program, Opcode::kAllGather), 0);
    if (support == AttentionSupport::kNone) continue;
    ASSERT_EQ(program->composed_attention.size(), 1);
    EXPECT_EQ(program->composed_attention[0].why,
              "the layout shards memory over x, as length, and fused kernels "
              "have no ring");
  }
}

// Gradients of gradients are composed, and gather the keys.
TEST(RecorderRing, HasGradientsOfGradients) {
  Graph graph;
  const Shape shape({{"length", 8}, {"d", 4}}), keys({{"memory", 8}, {"d", 4}});
  const Tensor q = Input(graph, "q", kFloat32, shape);
  const Tensor k = Input(graph, "k", kFloat32, keys);
  const Tensor y =
      Attention({.q = q, .k = k, .v = k}, {.length = "length",
                                           .memory_length = "memory",
                                           .d_kv = "d",
                                           .d_v = "d",
                                           .causal = true})
          .output;
  const std::vector<Tensor> first = Gradients(ReduceSum(y * y, {}), {q, k});
  const std::vector<Tensor> second = Gradients(
      ReduceSum(first[0] * first[0], {}) + ReduceSum(first[1] * first[1], {}),
      {q, k});
  EXPECT_OK(LowerText(graph, "x:4", kRing, {.fetches = second},
                      {.attention = AttentionSupport::kAll}));
}

TEST(RecorderRing, OperandsWithBothLengthsAreAnError) {
  EXPECT_THAT(
      LowerRing({.added = "lm"}, "x:4"),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("dimensions \"length\" and \"memory\" of one operation "
                    "are both sharded over mesh axis \"x\"")));
}

// One tensor with two lengths over two axes, as in axial attention.
TEST(RecorderRing, OneTensorMayBeInTwoRings) {
  Graph graph;
  const Dimension rows{"rows", 8}, columns{"columns", 8}, d{"d", 4};
  const Tensor q = Input(graph, "q", kFloat32, {rows, columns, d});
  const auto attend = [&](const Dimension& length, const Dimension& other) {
    const std::string memory = absl::StrCat("memory_of_", length.name);
    const Tensor k = Input(graph, memory, kFloat32, {{memory, 8}, other, d});
    return Attention({.q = q, .k = k, .v = k}, {.length = length.name,
                                                .memory_length = memory,
                                                .d_kv = "d",
                                                .d_v = "d",
                                                .causal = true})
        .output;
  };
  const Tensor y = attend(rows, columns), z = attend(columns, rows);
  const auto program =
      LowerText(graph, "x:2,y:2",
                "rows:x, memory_of_rows:x, columns:y, memory_of_columns:y",
                {.fetches = {y, z}}, {.attention = AttentionSupport::kAll});
  ASSERT_OK(program);  // the verifier follows the order of rows
  for (const AttentionAttributes& step :
       StepsOf(*program, Opcode::kAttention)) {
    EXPECT_TRUE(step.striped);
  }
  // For each ring: queries, keys and values, and the output.
  EXPECT_EQ(Count(*program, Opcode::kAllToAll), 2 * 3);
}

TEST(RecorderRing, ProgramsRoundTripThroughText) {
  for (const char* mesh : {"x:2", "x:4", "y:2,x:2"}) {
    for (const bool causal : {false, true}) {
      const auto program =
          LowerRing({.causal = causal, .added = "hm", .trains_added = true},
                    mesh, absl::StrCat(kRing, ", batch:y"));
      ASSERT_OK(program);
      EXPECT_FALSE(StepsOf(*program, Opcode::kAttentionGradient).empty());
      const std::string text = PrintProgram(*program);
      const auto parsed = ParseProgram(text);
      ASSERT_OK(parsed);
      EXPECT_EQ(PrintProgram(*parsed), text);
      EXPECT_OK(VerifyProgram(*parsed));
    }
  }
}

// Replaces `from` in the first line of the program that has it.
absl::Status VerifyChanged(const std::string& from, const std::string& to) {
  const auto program =
      LowerRing({.gradient = false, .length = 16, .memory = 16}, "x:2");
  if (!program.ok()) return program.status();
  // Long lines are continued.
  std::string text =
      absl::StrReplaceAll(PrintProgram(*program), {{"\n    ", " "}});
  const size_t at = text.find(from);
  if (at == std::string::npos) return absl::NotFoundError(text);
  text.replace(at, from.size(), to);
  const auto parsed = ParseProgram(text);
  return parsed.ok() ? VerifyProgram(*parsed) : parsed.status();
}

TEST(RecorderRing, VerifierKnowsTheOrderOfRows) {
  EXPECT_THAT(VerifyChanged("ring 1 striped", "ring 0 striped").message(),
              HasSubstr("is shifted by 1 ranks, in stripes, not by 0"));
  EXPECT_THAT(VerifyChanged("ring 0 striped", "ring 0").message(),
              HasSubstr("is shifted by 0 ranks, in stripes, not by 0"));
  EXPECT_THAT(VerifyChanged("shift 1", "shift 2").message(),
              HasSubstr("the shift is not less than the number of ranks"));
  EXPECT_THAT(
      VerifyChanged("length from stripes", "length into stripes").message(),
      HasSubstr("the operand is already shifted or in stripes"));
}

}  // namespace
}  // namespace mtf::testing
