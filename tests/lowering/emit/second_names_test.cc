// SPDX-License-Identifier: Apache-2.0
//
// A second name without a rule does not occur in a program; one with a rule is
// a dimension of its own.
#include "lowering/emit/second_names.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lowering/emit/emit_program.h"
#include "lowering/parse_program.h"
#include "lowering/program/print_program.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/one_hot.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const Dimension kBatch{"batch", 6}, kLength{"length", 7}, kIn{"in", 4},
    kOut{"out", 5};

// Uses most methods of an emitter, on [batch, length, in].
struct Net {
  Graph graph;
  Tensor loss, step;

  explicit Net(bool second) {
    const auto enter = [&](Tensor x) {
      return second ? SecondName(x, "length", "inner") : x;
    };
    const auto leave = [&](Tensor x) {
      return second ? Rename(x, "inner", "length") : x;
    };
    const Dimension inside{second ? "inner" : "length", kLength.size};
    const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength, kIn});
    const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {kIn, kOut}));
    const Tensor table =
        Variable(graph, "table", Ones(graph, kFloat32, {inside, kOut}));
    Tensor y = Einsum({enter(x), w}, {kBatch, inside, kOut}) + table;
    y = y * Cast(Range(graph, inside), kFloat32);
    y = Concat({y, Zeros(graph, kFloat32, {kBatch, inside, kOut})}, "out");
    y = y + ReduceMax(y, {kBatch, {"out", 10}}) + ReduceSum(y, {inside});
    y = leave(Tanh(y));
    loss = ReduceSum(y * y, {});
    const std::vector<Tensor> slopes = Gradients(loss, {w, table});
    step = Group(graph,
                 {Assign(w, w - slopes[0]), Assign(table, table - slopes[1])});
  }
  absl::StatusOr<Program> Lowered(absl::string_view layout) const {
    return LowerText(graph, "a:2,b:3", layout,
                     {.fetches = {loss}, .updates = {step}});
  }
};

// The instructions without the names of their values.
std::vector<std::string> Instructions(const Program& program) {
  std::vector<std::string> list;
  for (const Instruction& instruction : program.instructions) {
    std::string text(OpcodeName(instruction.opcode));
    for (int result : instruction.results) {
      const ProgramValue& value = program.values[result];
      absl::StrAppend(&text, " ", DTypeName(value.dtype), "[",
                      value.shape.ToString(), "] ", value.layout.unreduced);
      for (const AxisList& axes : value.layout.dims) {
        absl::StrAppend(&text, " ", program.mesh.AxisNames(axes));
      }
    }
    list.push_back(std::move(text));
  }
  return list;
}

TEST(SecondNames, WithoutARuleLeaveNoTrace) {
  const Net with(true), without(false);
  ASSERT_OK(with.graph.status());
  for (const char* layout :
       {"", "batch:a", "length:b", "length:a+b", "length:a, out:b",
        "in:a, batch:b", "length:a [parameters] in:b [optimizer] out:a"}) {
    const auto program = with.Lowered(layout), plain = without.Lowered(layout);
    ASSERT_OK(program) << layout;
    ASSERT_OK(plain) << layout;
    std::vector<std::string> names = Instructions(*program);
    // A variable keeps the user's names, so reading and writing it may rename.
    std::vector<std::string> kept;
    for (std::string& line : names) {
      const bool view = absl::StartsWith(line, "reshape");
      if (!view)
        kept.push_back(absl::StrReplaceAll(line, {{"inner", "length"}}));
    }
    EXPECT_EQ(kept, Instructions(*plain)) << layout;
    EXPECT_EQ(Costs(program), Costs(plain)) << layout;
  }
}

TEST(SecondNames, WithARuleAreDimensionsOfTheirOwn) {
  const Net net(true);
  const auto replicated = net.Lowered("length:b, inner:replicated");
  EXPECT_THAT(PrintProgram(*replicated), HasSubstr("inner:7"));
  EXPECT_THAT(PrintProgram(*replicated), HasSubstr("length:7/b"));
  EXPECT_THAT(Costs(replicated), HasSubstr("all_gather b"));
  EXPECT_THAT(Costs(net.Lowered("length:b, inner:a")),
              HasSubstr("all_gather a"));
  // Sharded like the first name, by a rule of its own.
  EXPECT_EQ(Costs(net.Lowered("length:b, inner:b")),
            Costs(net.Lowered("length:b")));
}

absl::flat_hash_map<std::string, std::string> BoundNames(
    const Graph& graph, absl::string_view layout) {
  return BindLayout(graph, *Mesh::Parse("a:2,b:3"),
                    *LayoutRules::Parse(layout, "test"))
      ->first_names;
}

TEST(SecondNames, OfSecondNamesResolveToTheNearestWithARule) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kLength});
  SecondName(SecondName(x, "length", "inner"), "inner", "innermost");
  EXPECT_THAT(SecondNamesOf(graph),
              ElementsAre(Pair("inner", "length"), Pair("innermost", "inner")));
  EXPECT_THAT(BoundNames(graph, "length:a"),
              UnorderedElementsAre(Pair("inner", "length"),
                                   Pair("innermost", "length")));
  EXPECT_THAT(BoundNames(graph, "inner:replicated"),
              UnorderedElementsAre(Pair("innermost", "inner")));
  EXPECT_THAT(BoundNames(graph, "innermost:b"),
              UnorderedElementsAre(Pair("inner", "length")));
  // A rule over an axis that the mesh lacks has no effect.
  EXPECT_THAT(BoundNames(graph, "innermost:columns"),
              UnorderedElementsAre(Pair("inner", "length"),
                                   Pair("innermost", "length")));
  EXPECT_THAT(BoundNames(graph, "[optimizer] inner:a"),
              UnorderedElementsAre(Pair("innermost", "inner")));
}

TEST(SecondNames, ThatFormACycleAreResolved) {
  Graph graph;
  SecondName(Input(graph, "x", kFloat32, {kLength}), "length", "inner");
  SecondName(Input(graph, "y", kFloat32, {{"inner", 7}}), "inner", "length");
  EXPECT_THAT(BoundNames(graph, ""),
              UnorderedElementsAre(Pair("inner", "length")));
}

TEST(SecondNames, TogetherWithTheFirstAreDimensionsOfTheirOwn) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength});
  const Tensor y = SecondName(x, "length", "inner");
  EXPECT_THAT(SecondNamesOf(graph), Not(IsEmpty()));
  const Tensor products = Einsum({x, y}, {kLength, {"inner", 7}});
  EXPECT_THAT(SecondNamesOf(graph), IsEmpty());
  // The rule of the first name does not apply to the second, as after a Rename.
  EXPECT_OK(LowerText(graph, "a:2,b:3", "length:a", {.fetches = {products}}));
  EXPECT_EQ(Costs(LowerText(graph, "a:2,b:3", "length:a",
                            {.fetches = {products}, .fetch_shards = true})),
            Costs([&] {
              Graph plain;
              const Tensor x = Input(plain, "x", kFloat32, {kBatch, kLength});
              const Tensor y = Rename(x, "length", "inner");
              const Tensor z = Einsum({x, y}, {kLength, {"inner", 7}});
              return LowerText(plain, "a:2,b:3", "length:a",
                               {.fetches = {z}, .fetch_shards = true});
            }()));
}

// As many as a model has layers that name their own dimensions.
TEST(SecondNames, ManyInOneGraph) {
  Graph graph;
  const int count = 150;
  std::vector<Tensor> products;
  for (int i = 0; i < count; ++i) {
    const Dimension first{absl::StrCat("length_", i), 6};
    const Dimension second{absl::StrCat("inner_", i), 6};
    const Tensor x = Input(graph, absl::StrCat("x_", i), kFloat32, {first});
    const Tensor y = SecondName(x, first.name, second.name);
    // One of them is a dimension of its own.
    if (i == 100) products.push_back(Einsum({x, y}, {first, second}));
  }
  const NamePairs pairs = SecondNamesOf(graph);
  EXPECT_EQ(pairs.size(), count - 1);
  EXPECT_THAT(pairs, Contains(Pair("inner_149", "length_149")));
  EXPECT_THAT(pairs, Not(Contains(Pair("inner_100", "length_100"))));
  EXPECT_EQ(BoundNames(graph, "inner_149:a, length_7:b").size(), count - 2);
}

TEST(SecondNames, AreKeptByInputsOutputsAndVariables) {
  Graph graph;
  const Dimension inner{"inner", 7};
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, inner});
  const Tensor v = Variable(graph, "v", Ones(graph, kFloat32, {inner, kBatch}));
  const Tensor y = SecondName(Input(graph, "y", kFloat32, {kBatch, kLength}),
                              "length", "inner");
  const Tensor z = x + y + v;
  const Tensor step = Assign(v, Transpose(z, {inner, kBatch}));
  for (bool initialize : {false, true}) {
    const auto program =
        LowerText(graph, "a:2,b:3", "length:b, batch:a",
                  initialize ? Targets{.initialize = true}
                             : Targets{.fetches = {z}, .updates = {step}});
    ASSERT_OK(program);
    for (const Instruction& instruction : program->instructions) {
      const int value = instruction.opcode == Opcode::kOutput ||
                                instruction.opcode == Opcode::kWriteVariable
                            ? instruction.operands[0]
                        : instruction.opcode == Opcode::kReadVariable ||
                                (instruction.opcode == Opcode::kInput &&
                                 instruction.Get<NameAttributes>().name == "x")
                            ? instruction.results[0]
                            : -1;
      if (value < 0) continue;
      EXPECT_TRUE(program->values[value].shape.Contains("inner"))
          << PrintProgram(*program);
    }
    for (const ProgramVariable& variable : program->variables) {
      EXPECT_EQ(variable.shape, Shape({inner, kBatch}));
      EXPECT_THAT(variable.layout.dims, ElementsAre(AxisList{1}, AxisList{0}));
    }
  }
}

// A gather of a second name has the rule of the first, in the text too.
TEST(SecondNames, HaveTheRuleOfTheFirstAtAnySize) {
  for (const int64_t size : {7, 1}) {
    Graph graph;
    const Tensor x = Input(graph, "x", kFloat32, {kBatch, {"length", size}});
    const Tensor y = Tanh(SecondName(x, "length", "inner"));
    const auto program =
        LowerText(graph, "a:2,b:3", "length:b", {.fetches = {y}});
    ASSERT_OK(program);
    const std::string text =
        PrintProgram(*program, ProgramDetail::kWithOrigins);
    EXPECT_THAT(text, HasSubstr("tied{inner:length}\n"));
    EXPECT_THAT(text, HasSubstr("for{inner/b rule 0}"));
    const auto parsed = ParseProgram(text);
    ASSERT_OK(parsed);
    EXPECT_EQ(PrintProgram(*parsed, ProgramDetail::kWithOrigins), text);
  }
}

// Layouts without rules for the second names of layers give programs without
// them.
TEST(SecondNames, OfATransformerNeedARule) {
  for (const std::string& preset : LayoutRules::PresetNames()) {
    Graph graph;
    const Transformer model = BuildTransformer(graph);
    const auto program = LowerPreset(
        graph, preset, 8, {.fetches = {model.loss}, .updates = {model.step}});
    ASSERT_OK(program);
    int renames = 0;
    bool named = false;
    for (const Instruction& instruction : program->instructions) {
      renames += instruction.opcode == Opcode::kReshape;
    }
    for (const ProgramValue& value : program->values) {
      for (const Dimension& dim : value.shape) {
        named = named || absl::StartsWith(dim.name, "block_") ||
                absl::StartsWith(dim.name, "attention_");
      }
    }
    if (preset == "megatron_sequence" || preset == "all_to_all") {
      EXPECT_TRUE(named) << preset;
      continue;
    }
    EXPECT_FALSE(named) << preset;
    // In each of two layers, the memory of attention and its gradient.
    EXPECT_EQ(renames, 4) << preset;
  }
}

}  // namespace
}  // namespace mtf::testing
