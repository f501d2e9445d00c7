// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/check_budget.h"

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/pass_test.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr absl::string_view kMegatron = "heads:model, d_ff:model, vocab:model";
constexpr absl::string_view kZero3 =
    "batch:data, [parameters] d_model:data, [optimizer] d_model:data";

Budget BudgetOf(absl::string_view text) {
  Budget budget;
  EXPECT_OK(budget.Add(text, {.origin = "b.layout"})) << text;
  return budget;
}

// Checks a training step of the small transformer against its budget, as a
// session does.
absl::Status CheckTransformer(absl::string_view mesh_text,
                              absl::string_view layout_text) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(mesh_text));
  MTF_ASSIGN_OR_RETURN(const LayoutRules rules,
                       LayoutRules::Parse(layout_text, "--layout"));
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindLayoutAndBudget(graph, mesh, rules));
  MTF_ASSIGN_OR_RETURN(const Program program, Lower(graph, binding,
                                                    {.fetches = {model.loss},
                                                     .updates = {model.step}}));
  return CheckBudget(program, binding.budget);
}

struct Case {
  const char* name;
  const char* mesh;
  absl::string_view layout;
  const char* passes;
  const char* fails;
  const char* message;  // of the failing budget
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

class EveryBudgetWord : public ::testing::TestWithParam<Case> {};

TEST_P(EveryBudgetWord, PassesAndFails) {
  const Case& c = GetParam();
  EXPECT_OK(CheckTransformer(c.mesh,
                             absl::StrCat(c.layout, ", [budget] ", c.passes)));
  const absl::Status status =
      CheckTransformer(c.mesh, absl::StrCat(c.layout, ", [budget] ", c.fails));
  EXPECT_THAT(
      status,
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(StartsWith(absl::StrCat("budget line \"", c.fails,
                                             "\" (--layout, characters ")),
                     HasSubstr(c.message), HasSubstr("small_transformer.h:"),
                     HasSubstr("\n  help     "))));
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryBudgetWord,
    ::testing::Values(
        Case{"AllReduce", "data:2", "batch:data", "no all_gather",
             "no all_reduce", "allows 0 collectives, but a step has "},
        Case{"AllGather", "data:2", kZero3, "no all_to_all", "no all_gather",
             "all_gather of embedding/table over data"},
        Case{"ReduceScatter", "data:2", kZero3, "no collective_permute",
             "no reduce_scatter", "rule batch:data, d_model:data"},
        Case{"Collective", "data:2", "batch:data", "no collective over model",
             "no collective", "dimension batch, rule batch:data (--layout, "},
        Case{"Nothing", "data:2", "batch:data", "nothing over model", "nothing",
             "but a step has "},
        Case{"Over", "data:2,model:2", kMegatron, "nothing over data",
             "nothing over model", " over model, "},
        Case{"OverOneOfTwo", "data:2,model:2", kMegatron, "nothing over data",
             "nothing over data+model", " over model, "},
        Case{"In", "data:2,model:2", "d_ff:model",
             "nothing over model in layer_*/attention",
             "nothing over model in layer_*/feed_forward",
             "all_reduce of layer_"},
        Case{"InOneLayer", "data:2", kZero3, "no all_gather in layer_0/ffn*",
             "no all_gather in layer_1", "all_gather of layer_1/"},
        // length:model gathers keys and values, which are not parameters.
        Case{"OfParameters", "model:2", "length:model",
             "no all_gather of parameters", "no all_gather",
             "all_gather of layer_0/"},
        Case{"OfParametersInLayers", "data:2", kZero3,
             "no all_reduce of parameters",
             "no all_gather of parameters in layer_*",
             "all_gather of layer_0/feed_forward/in/kernel over data"},
        Case{"Memory", "data:2", "batch:data", "memory at most 1 MiB",
             "memory at most 1 KiB", "allows 1024 bytes (1.0 KiB) on each "}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CheckBudget, CountsTheBytesOfListCollectives) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  const auto program = LowerText(
      graph, "data:2,model:2", absl::StrCat("batch:data, ", kMegatron),
      {.fetches = {model.loss}, .updates = {model.step}});
  ASSERT_OK(program);
  int64_t over_model = 0, all_reduces = 0;
  for (const CollectiveCost& cost : ListCollectives(*program)) {
    if (cost.axes.Contains(1)) over_model += cost.bytes;
    if (cost.kind == CollectiveKind::kAllReduce) all_reduces += cost.bytes;
  }
  ASSERT_GT(over_model, 0);
  ASSERT_GT(all_reduces, over_model);
  for (const auto& [bytes, what] :
       {std::pair{over_model, "over model"}, {all_reduces, "of all_reduce"}}) {
    EXPECT_OK(CheckBudget(
        *program, BudgetOf(absl::StrCat("at most ", bytes, " B ", what))));
    EXPECT_THAT(CheckBudget(*program, BudgetOf(absl::StrCat(
                                          "at most ", bytes - 1, " B ", what))),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr(absl::StrCat("sends ", bytes, " bytes"))));
  }
}

TEST(CheckBudget, MemoryIsVariablesAndArena) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  const auto program =
      LowerText(graph, "data:2", "batch:data", {.updates = {model.step}});
  ASSERT_OK(program);
  int64_t bytes = program->buffers.arena_bytes;
  for (const ProgramVariable& variable : program->variables) {
    int64_t elements = 1;
    for (const Dimension& dim : variable.shape) elements *= dim.size;
    bytes += elements * DTypeSize(variable.dtype);
  }
  EXPECT_OK(CheckBudget(
      *program, BudgetOf(absl::StrCat("memory at most ", bytes, " B"))));
  EXPECT_THAT(CheckBudget(*program, BudgetOf(absl::StrCat("memory at most ",
                                                          bytes - 1, " B"))),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr(absl::StrCat("needs ", bytes, " bytes")),
                             HasSubstr("\n  at rest  parameters "),
                             HasSubstr(", optimizer state "),
                             HasSubstr("\n  largest  "),
                             HasSubstr("more alive at the peak"))));
}

constexpr absl::string_view kTwoKinds = R"(
mesh{x:2, y:2}
%a : f32[b:16/x, c:16] = input a
%t : f32[b:16, c:16/x] = all_to_all(%a) b to c over{x}
%m : f32[b:16/y, c:16] = collective_permute(%a) over{x, y}
%r : f32[b:16/y, c:16] = map(%m) relu
output(%r) r
)";

TEST(CheckBudget, AllToAllAndCollectivePermute) {
  const auto program = ParseText(kTwoKinds);
  ASSERT_OK(program);
  EXPECT_OK(CheckBudget(*program, BudgetOf("no all_to_all over y")));
  EXPECT_THAT(CheckBudget(*program, BudgetOf("no all_to_all")),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("all_to_all of a over x, 256 bytes")));
  EXPECT_OK(CheckBudget(*program, BudgetOf("no collective_permute in m")));
  EXPECT_THAT(CheckBudget(*program, BudgetOf("no collective_permute over y")),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("collective_permute of a over x+y")));
}

TEST(CheckBudget, CountsOnlyTensorsInTheScopeOfABucket) {
  const auto program = ParseText(R"(
mesh{x:2}
%a : f32[b:16/x, c:64] = input a
%layer_0/g : f32[c:64] unreduced{x} = reduce(%a) sum
%d : f32[b:16/x, d:8] = input d
%layer_1/g : f32[d:8] unreduced{x} = reduce(%d) sum
%s : f32[c:64], %t : f32[d:8] = all_reduce(%layer_0/g, %layer_1/g) sum over{x}
output(%s) s
output(%t) t
)");
  ASSERT_OK(program);
  const std::vector<BudgetUse> uses = MeasureBudget(
      *program, BudgetOf("at most 1 B in layer_0\nat most 1 B in layer_1\n"
                         "at most 1 B\nnothing in layer_2"));
  ASSERT_EQ(uses.size(), 4u);
  EXPECT_EQ(uses[0].bytes, 64 * 4);
  EXPECT_EQ(uses[1].bytes, 8 * 4);
  EXPECT_EQ(uses[2].bytes, 72 * 4);
  ASSERT_EQ(uses[2].collectives.size(), 1u);
  EXPECT_EQ(uses[2].collectives[0].tensor, "layer_0/g and 1 more");
  EXPECT_EQ(uses[1].collectives[0].tensor, "layer_1/g");
  EXPECT_THAT(uses[3].collectives, IsEmpty());
  EXPECT_FALSE(uses[3].exceeded);
}

TEST(CheckBudget, DistinguishesOptimizerStateFromParameters) {
  auto program = ParseText(R"(
mesh{x:2}
%i : f32[c:64/x] = input i
%v : f32[c:64/x] = read_variable v
%w : f32[c:64] = all_gather(%v) c over{x}
%r : f32[c:64] = map(%w) relu
output(%r) r
)");
  ASSERT_OK(program);
  ASSERT_EQ(program->variables.size(), 1u);
  const Budget parameters = BudgetOf("nothing of parameters");
  const Budget optimizer = BudgetOf("at most 0 B of optimizer");
  EXPECT_FALSE(CheckBudget(*program, parameters).ok());
  EXPECT_OK(CheckBudget(*program, optimizer));
  program->variables[0].section = RuleSection::kOptimizer;
  EXPECT_OK(CheckBudget(*program, parameters));
  EXPECT_FALSE(CheckBudget(*program, optimizer).ok());
}

TEST(CheckBudget, LoweredVariablesHaveTheirSections) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  const auto program = LowerText(graph, "", "", {.updates = {model.step}});
  ASSERT_OK(program);
  int parameters = 0, state = 0;
  for (const ProgramVariable& variable : program->variables) {
    ++(variable.section == RuleSection::kParameters ? parameters : state);
  }
  // Two moments for each parameter.
  EXPECT_GE(state, 2 * parameters);
  EXPECT_GT(parameters, 10);
}

TEST(CheckBudget, CountsTheGatherOfAnUpdatedParameter) {
  // ZeRO-1: each device updates its shard of the parameters.
  EXPECT_THAT(
      CheckTransformer("data:2",
                       "batch:data, [optimizer] d_model:data, [budget] no "
                       "all_gather of parameters in layer_0"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("collectives, but a step has ")));
}

TEST(CheckBudget, ProgramThatOnlyReadsVariablesIsNoStep) {
  const absl::string_view text = R"(
mesh{x:2}
%v : f32[c:64/x] = read_variable v
%w : f32[c:64] = all_gather(%v) c over{x}
output(%w) w
)";
  const auto program = ParseText(text);
  ASSERT_OK(program);
  EXPECT_OK(CheckBudget(*program, BudgetOf("nothing")));
  // Memory lines apply to it.
  EXPECT_FALSE(CheckBudget(*program, BudgetOf("memory at most 64 B")).ok());
}

TEST(CheckBudget, GathersOfFetchedValuesAreFree) {
  const auto program = ParseText(R"(
mesh{x:2, y:2}
%a : f32[b:16/x, c:16/y] = input a
%g : f32[b:16, c:16/y] = all_gather(%a) b over{x}
%w : f32[b:16, c:16] = all_gather(%g) c over{y}
output(%w) w
)");
  ASSERT_OK(program);
  EXPECT_OK(CheckBudget(*program, BudgetOf("nothing")));
  // Unless another instruction reads the gathered value.
  const auto used = ParseText(R"(
mesh{x:2, y:2}
%a : f32[b:16/x, c:16/y] = input a
%g : f32[b:16, c:16/y] = all_gather(%a) b over{x}
%w : f32[b:16, c:16] = all_gather(%g) c over{y}
output(%w) w
%r : f32[b:16, c:16/y] = map(%g) relu
output(%r) r
)");
  ASSERT_OK(used);
  EXPECT_OK(CheckBudget(*used, BudgetOf("nothing over y")));
  EXPECT_FALSE(CheckBudget(*used, BudgetOf("nothing over x")).ok());
  // Reductions are not free: they compute the result.
  const auto reduced = ParseText(R"(
mesh{x:2}
%a : f32[b:16/x] = input a
%s : f32[] unreduced{x} = reduce(%a) sum
%t : f32[] = all_reduce(%s) sum over{x}
output(%t) t
)");
  ASSERT_OK(reduced);
  EXPECT_FALSE(CheckBudget(*reduced, BudgetOf("nothing")).ok());
}

TEST(CheckBudget, MessageIsComplete) {
  Graph graph;
  const Dimension batch{"batch", 8}, io{"io", 4}, hidden{"hidden", 64};
  const Tensor x = Input(graph, "x", kFloat32, {batch, io});
  const Tensor w = Input(graph, "w", kFloat32, {io, hidden});
  const Tensor v = Input(graph, "v", kFloat32, {hidden, io});
  const Tensor h = Relu(Einsum({x, w}, {batch, hidden}));
  const int line = __LINE__ + 1;
  const Tensor y = Einsum({h, v}, {batch, io});
  const auto program =
      LowerText(graph, "data:2,model:2", "batch:data, hidden:model",
                {.fetches = {y}, .fetch_shards = true});
  ASSERT_OK(program);
  const absl::Status status =
      CheckBudget(*program, BudgetOf("at most 63 B over model\nnothing"));
  EXPECT_EQ(
      std::string(status.message()),
      absl::StrCat(
          "budget line \"at most 63 B over model\" (b.layout:1) allows 63 "
          "bytes from each rank, but a step sends 64 bytes in 1 collective\n"
          "  largest  all_reduce of einsum_1 over model, 64 bytes "
          "(check_budget_test.cc:",
          line,
          ")\n"
          "           dimension hidden, rule hidden:model (--layout, rule 2 "
          "of 2, characters 13-24)\n"
          "  also     budget line \"nothing\" (b.layout:2) is exceeded\n"
          "  mesh     \"data:2,model:2\"\n"
          "  help     change the rule that causes it, or allow more in the "
          "section [budget]"));
}

TEST(CheckBudget, NoBudgetAllowsEverything) {
  const auto program = ParseText(kTwoKinds);
  ASSERT_OK(program);
  EXPECT_OK(CheckBudget(*program, Budget()));
  EXPECT_THAT(MeasureBudget(*program, Budget()), IsEmpty());
}

// The notices of CheckBudgetNames for the small transformer.
absl::StatusOr<std::vector<std::string>> Notices(absl::string_view budget,
                                                 bool strict = false) {
  Graph graph;
  BuildTransformer(graph);
  return CheckBudgetNames(BudgetOf(budget), *Mesh::Parse("data:2,model:2"),
                          graph, strict);
}

TEST(BudgetNames, ExistingNamesHaveNoNotice) {
  for (const char* line :
       {"nothing over model", "nothing in layer_*", "no all_gather in layer_1",
        "nothing over model in layer_*/attention/query",
        "nothing over pod+data", "memory at most 1 B",
        "nothing in */attention"}) {
    const auto notices = Notices(line);
    ASSERT_OK(notices) << line;
    EXPECT_THAT(*notices, IsEmpty()) << line;
  }
}

TEST(BudgetNames, LineWithoutEffectIsANotice) {
  const auto axis = Notices("nothing over pod");
  ASSERT_OK(axis);
  EXPECT_THAT(*axis, ::testing::ElementsAre(
                         "budget line \"nothing over pod\" (b.layout:1) has no "
                         "effect: mesh \"data:2,model:2\" has no axis "
                         "\"pod\""));
  const auto scope = Notices("nothing in decoder/layer_0");
  ASSERT_OK(scope);
  EXPECT_THAT(*scope,
              ::testing::ElementsAre(
                  "budget line \"nothing in decoder/layer_0\" (b.layout:1) has "
                  "no effect: no operation is in \"decoder/layer_0\""));
}

// One budget serves models of many depths.
TEST(BudgetNames, MissingLayerIsANotice) {
  for (const char* scope : {"layer_9", "layer_123/attention"}) {
    const auto notices = Notices(absl::StrCat("no all_gather in ", scope));
    ASSERT_OK(notices);
    EXPECT_THAT(*notices,
                ::testing::ElementsAre(HasSubstr(absl::StrCat(
                    "has no effect: no operation is in \"", scope, "\""))));
  }
  EXPECT_THAT(Notices("nothing in leyer_9"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("did you mean \"layer_*\"?")));
}

TEST(BudgetNames, StrictMakesNoticesErrors) {
  EXPECT_THAT(Notices("nothing over pod", /*strict=*/true),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("has no effect"),
                             HasSubstr("--strict_layout"))));
}

TEST(BudgetNames, MisspelledNamesAreErrors) {
  EXPECT_THAT(Notices("nothing over modle"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(StartsWith("mesh \"data:2,model:2\" has no axis "
                                        "\"modle\"; did you mean \"model\"?"),
                             HasSubstr("b.layout:1"))));
  EXPECT_THAT(
      Notices("nothing in layer_*/atention"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(StartsWith("no operation is in \"layer_*/atention\"; did "
                                "you mean \"layer_*/attention\"?"),
                     Not(HasSubstr("has no effect")))));
  EXPECT_THAT(Notices("nothing in leyer_*/attention"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("did you mean \"layer_*/attention\"?")));
}

TEST(BudgetNames, AreCheckedWithTheRules) {
  EXPECT_THAT(
      CheckTransformer("data:2", "batch:data [budget] nothing over dta"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("did you mean \"data\"?")));
  Graph graph;
  BuildTransformer(graph);
  const auto binding = BindLayoutAndBudget(
      graph, *Mesh::Parse("data:2"),
      *LayoutRules::Parse("batch:data [budget] nothing over pod", "--layout"));
  ASSERT_OK(binding);
  ASSERT_EQ(binding->rules.notices().size(), 1u);
  EXPECT_THAT(binding->rules.notices()[0], HasSubstr("\"pod\""));
}

}  // namespace
}  // namespace mtf::testing
