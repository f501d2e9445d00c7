// SPDX-License-Identifier: Apache-2.0
#include "ops/variable.h"

#include <utility>
#include <vector>

#include "mtf/host_tensor.h"
#include "mtf/print_graph.h"
#include "ops/random.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension a{"a", 2}, b{"b", 3};

TEST(Variable, HasItsInitialValueShapeAndOptions) {
  Graph graph;
  Tensor w;
  {
    Scope scope(graph, "layer");
    w = Variable(graph, "w", Constant(graph, {1, 2}, kBFloat16, {a}),
                 {.kind = VariableKind::kOptimizerState, .trainable = false});
  }
  EXPECT_EQ(w.shape(), Shape({a}));
  EXPECT_EQ(w.dtype(), kBFloat16);
  ASSERT_EQ(graph.variables().size(), 1u);
  const VariableInfo& info = graph.variables()[0];
  EXPECT_EQ(info.name, "layer/w");
  EXPECT_EQ(info.kind, VariableKind::kOptimizerState);
  EXPECT_FALSE(info.trainable);
  EXPECT_EQ(graph.FindVariable(w), &info);
  OracleVariables values;
  ASSERT_OK(InitializeVariables(graph, 1, &values));
  const auto y = Interpret(graph, {}, {w + 1}, &values);
  ASSERT_OK(y);
  EXPECT_THAT((*y)[0].data, ElementsAre(2, 3));
}

TEST(Assign, TakesEffectWhenTheStepEnds) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {a}));
  const Tensor next = Assign(w, w + 1);
  const Tensor seen = w * 10;
  OracleVariables values;
  ASSERT_OK(InitializeVariables(graph, 1, &values));
  for (int step = 0; step < 3; ++step) {
    const auto y = Interpret(graph, {}, {next, seen}, &values);
    ASSERT_OK(y);
    EXPECT_EQ((*y)[0].data[0], step + 1);
    EXPECT_EQ((*y)[1].data[0], step * 10) << "reads see the old value";
    EXPECT_EQ(values["w"].data[0], step + 1);
  }
}

TEST(Assign, AddsAndSubtracts) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kInt32, {a, b}));
  const Tensor v = Variable(graph, "v", Zeros(graph, kFloat32, {}));
  const Tensor by = Constant(graph, {1, 2, 3, 4, 5, 6}, kInt32, {b, a});
  const Tensor step =
      Group(graph, {AssignAdd(w, by), AssignSub(v, Constant(graph, 0.5))});
  OracleVariables values;
  ASSERT_OK(InitializeVariables(graph, 1, &values));
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(Interpret(graph, {}, {step}, &values));
  }
  EXPECT_THAT(values["w"].data, ElementsAre(2, 6, 10, 4, 8, 12));
  EXPECT_THAT(values["v"].data, ElementsAre(-1));
}

TEST(Assign, RunsOnlyWhenFetched) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {a}));
  Assign(w, w + 1);
  OracleVariables values;
  ASSERT_OK(InitializeVariables(graph, 1, &values));
  ASSERT_OK(Interpret(graph, {}, {w}, &values));
  EXPECT_EQ(values["w"].data[0], 0);
}

TEST(Assign, TakesAnotherOrderOfDimensions) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kInt32, {a, b}));
  const Tensor next =
      Assign(w, Constant(graph, {1, 2, 3, 4, 5, 6}, kInt32, {b, a}));
  EXPECT_EQ(next.shape(), w.shape());
  OracleVariables values;
  ASSERT_OK(InitializeVariables(graph, 1, &values));
  ASSERT_OK(Interpret(graph, {}, {next}, &values));
  EXPECT_THAT(values["w"].data, ElementsAre(1, 3, 5, 2, 4, 6));
}

TEST(Assign, AFailedStepChangesNothing) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {a}));
  const Tensor next = Assign(w, w + 1);
  const Tensor x = Input(graph, "x", kFloat32, {a});
  OracleVariables values;
  ASSERT_OK(InitializeVariables(graph, 1, &values));
  EXPECT_THAT(Interpret(graph, {}, {next, x}, &values),
              StatusIs(kInvalid, HasSubstr("\"x\"")));
  EXPECT_EQ(values["w"].data[0], 0);
}

TEST(Assign, LetsTheGradientThrough) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {a}));
  const Tensor x = Constant(graph, {1, 2}, kFloat32, {a});
  EXPECT_THAT(DataOf(Gradients(Assign(w, x * 3), {x})[0]), ElementsAre(3, 3));
}

TEST(Group, RunsAllTensors) {
  Graph graph;
  const Tensor v = Variable(graph, "v", Zeros(graph, kFloat32, {a}));
  const Tensor w = Variable(graph, "w", Zeros(graph, kInt32, {}));
  const Tensor step = Group(graph, {Assign(v, v + 1), Assign(w, w + 2)});
  EXPECT_EQ(step.shape(), Shape());
  OracleVariables values;
  ASSERT_OK(InitializeVariables(graph, 1, &values));
  const auto y = Interpret(graph, {}, {step}, &values);
  ASSERT_OK(y);
  EXPECT_THAT((*y)[0].data, ElementsAre(0));
  EXPECT_THAT(values["v"].data, ElementsAre(1, 1));
  EXPECT_THAT(values["w"].data, ElementsAre(2));
  EXPECT_THAT(DataOf(Group(graph, {})), ElementsAre(0));
}

TEST(InitializeVariables, DrawsAsOfStepZero) {
  Graph graph;
  const Tensor noise = RandomNormal(graph, {a, b}, 0, 1);
  Variable(graph, "w", noise);
  OracleVariables values;
  ASSERT_OK(InitializeVariables(graph, 9, &values));
  EXPECT_EQ(values["w"].data, Fetch(noise, {.seed = 9, .step = 0}).data);
}

TEST(VariableErrors, ANameTwice) {
  ExpectError(
      [](Graph& g) {
        Scope scope(g, "layer");
        Variable(g, "w", Ones(g, kFloat32, {a}));
        Variable(g, "w", Ones(g, kFloat32, {a}));
      },
      {"variable \"layer/w\" was created at variable_test.cc:",
       "with shape [a=2]", "(variable, "},
      absl::StatusCode::kAlreadyExists);
}

TEST(VariableErrors, InitialValues) {
  ExpectError([](Graph& g) { Variable(g, "w", Tensor()); },
              {"input 0 is an empty Tensor (variable, "});
  ExpectError(
      [](Graph& g) { Variable(g, "w", Input(g, "x", kFloat32, {a}) * 2); },
      {"the initial value \"mul\" depends on input \"x\" (variable, "});
  ExpectError(
      [](Graph& g) {
        const Tensor v = Variable(g, "v", Ones(g, kFloat32, {a}));
        Variable(g, "w", v + v);
      },
      {"the initial value \"add\" depends on variable \"v\""});
  ExpectError([](Graph& g) { Variable(g, "w 2", Ones(g, kFloat32, {a})); },
              {"the name \"w 2\" is not made of letters"});
}

TEST(VariableErrors, DimensionsOfKernels) {
  for (const auto& [each, fan_in] :
       std::vector<std::pair<int, int>>{{-1, 0}, {0, -1}, {1, 1}, {0, 2}}) {
    Graph graph;
    Variable(graph, "w", Zeros(graph, kFloat32, {{"a", 2}}),
             {.kernel = {each, fan_in}});
    EXPECT_THAT(graph.status(),
                StatusIs(kInvalid, HasSubstr(absl::StrCat(
                                       ".kernel is {", each, ", ", fan_in,
                                       "}, not two numbers of dimensions "
                                       "whose sum is at most 1 (variable, "
                                       "variable_test.cc:"))));
  }
}

TEST(AssignErrors, VariableAndValue) {
  ExpectError(
      [](Graph& g) {
        const Tensor x = Input(g, "x", kFloat32, {a});
        Assign(x, x);
      },
      {"\"x\" is not a variable (assign, "});
  const auto assign = [](Shape shape, DType dtype) {
    return [=](Graph& g) {
      Assign(Variable(g, "w", Ones(g, kFloat32, {a, b})),
             Input(g, "x", dtype, shape));
    };
  };
  ExpectError(assign({a, b}, kInt32), {"\"w\" is f32 but \"x\" is i32"});
  ExpectError(assign({a}, kFloat32),
              {"\"x\" has other dimensions than variable \"w\""});
  ExpectError(assign({a, b, {"c", 1}}, kFloat32), {"has other dimensions"});
  ExpectError(assign({a, {"b", 4}}, kFloat32),
              {"dimension \"b\" is 3 in \"w\" but 4 in \"x\" (assign, "});
  ExpectError(
      [](Graph& g) {
        Assign(Variable(g, "w", Ones(g, kFloat32, {a})), Tensor());
      },
      {"input 1 is an empty Tensor"});
  EXPECT_FALSE(Assign(Tensor(), Tensor()).valid());
}

TEST(AssignErrors, OfAddAndSub) {
  ExpectError(
      [](Graph& g) {
        AssignAdd(Variable(g, "w", Zeros(g, kFloat32, {a})),
                  Zeros(g, kFloat32, {}));
      },
      {"has other dimensions than variable \"w\"", "(assign_add"});
  ExpectError(
      [](Graph& g) {
        AssignSub(Zeros(g, kFloat32, {a}), Zeros(g, kFloat32, {a}));
      },
      {"is not a variable", "(assign_sub"});
  EXPECT_FALSE(AssignAdd({}, {}).valid());
}

TEST(GroupErrors, EmptyTensor) {
  ExpectError([](Graph& g) { Group(g, {Tensor()}); },
              {"input 0 is an empty Tensor (group, "});
}

// bf16 does not represent 0.1; the nearest number is 0.10009765625.
TEST(VariableDType, KeepsTheUnroundedInitialValue) {
  Graph graph;
  const Tensor draw = RandomNormal(graph, {a, b}, 0, 1, {.per_step = false});
  const Tensor w = Variable(graph, "w", draw, {.dtype = kBFloat16});
  Variable(graph, "v", draw);
  ASSERT_OK(graph.status());
  EXPECT_EQ(w.dtype(), kBFloat16);
  const VariableInfo& info = graph.variables()[0];
  EXPECT_EQ(info.dtype, kBFloat16);
  EXPECT_TRUE(SameTensor(info.master_value, draw));
  EXPECT_FALSE(graph.variables()[1].master_value.valid());
  OracleVariables values;
  ASSERT_OK(InitializeVariables(graph, 1, &values));
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(values["w"].data[i], RoundToDType(values["v"].data[i], kBFloat16))
        << i;
    EXPECT_NE(values["w"].data[i], values["v"].data[i]) << i;
  }
}

TEST(VariableDType, AMasterCopyKnowsItsParameter) {
  Graph graph;
  const Tensor initial = Constant(graph, 0.1, kFloat32, {a});
  const Tensor w = Variable(graph, "w", initial, {.dtype = kBFloat16});
  const VariableOptions of_w = {.master_of = w};
  const Tensor master = Variable(graph, "master", initial, of_w);
  ASSERT_OK(graph.status());
  EXPECT_EQ(master.dtype(), kFloat32);
  EXPECT_EQ(graph.variables()[0].master, 1);
  EXPECT_EQ(graph.variables()[0].master_of, -1);
  EXPECT_EQ(graph.variables()[1].master, -1);
  EXPECT_EQ(graph.variables()[1].master_of, 0);
  Variable(graph, "other", initial, of_w);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr("variable \"w\" already has the master copy "
                                 "\"master\" (variable, variable_test.cc:")));
}

TEST(VariableDTypeErrors, Values) {
  const struct {
    DType initial, dtype;
    const char* words;
  } cases[] = {
      {kBFloat16, kFloat32, "a variable of f32 cannot be rounded from bf16"},
      {kBFloat16, kFloat16, "a variable of f16 cannot be rounded from bf16"},
      {kFloat32, kInt32, "a variable of i32 cannot be rounded from f32"},
      {kInt32, kInt64, "a variable of i64 cannot be rounded from i32"},
  };
  for (const auto& c : cases) {
    Graph graph;
    Variable(graph, "w", Zeros(graph, c.initial, {a}), {.dtype = c.dtype});
    EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr(c.words)));
    EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr("\n  inputs ")));
  }
  Graph graph;
  Variable(graph, "w", Zeros(graph, kFloat32, {a}), {.gradient_dtype = kInt32});
  EXPECT_THAT(graph.status(),
              StatusIs(kInvalid, HasSubstr("gradients have a float dtype, "
                                           "not i32")));
}

TEST(VariableDTypeErrors, TensorsWithoutAMasterCopy) {
  Graph graph;
  const Tensor zeros = Zeros(graph, kFloat32, {a});
  const Tensor w = Variable(graph, "w", zeros);
  Variable(graph, "master", zeros, {.master_of = w});
  EXPECT_THAT(graph.status(),
              StatusIs(kInvalid, HasSubstr("\"w\" is not a variable that was "
                                           "rounded from another dtype")));
  Graph other;
  const Tensor x =
      Variable(other, "x", Zeros(other, kFloat32, {a}), {.dtype = kBFloat16});
  Variable(other, "master", Zeros(other, kFloat32, {b}), {.master_of = x});
  EXPECT_THAT(other.status(),
              StatusIs(kInvalid, HasSubstr("a master copy of \"x\" has the "
                                           "shape and dtype of its initial "
                                           "value")));
}

}  // namespace
}  // namespace mtf
