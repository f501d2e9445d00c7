// SPDX-License-Identifier: Apache-2.0
//
// What Print and ScalarSummary record in the graph; tests/train/session has
// what sessions do with it.
#include "ops/observe.h"

#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension a{"a", 3}, b{"b", 4};

TEST(Print, ReturnsItsOperandAndShowsTheFirstElements) {
  Graph graph;
  const OracleTensor numbers = Numbers({a, b}, 1);
  const Tensor x = ConstantOf(graph, numbers);
  struct Case {
    int64_t count;
    Shape shown;
  };
  for (const Case& each :
       {Case{0, {{"a", 0}, b}}, Case{1, {{"a", 1}, {"b", 1}}},
        Case{3, {{"a", 1}, {"b", 3}}}, Case{4, {{"a", 1}, b}},
        Case{5, {{"a", 2}, b}}, Case{12, {a, b}}, Case{100, {a, b}}}) {
    EXPECT_TRUE(SameTensor(Print(x, "x", each.count), x));
    const Observation& print = graph.observations().back();
    EXPECT_EQ(print.count, each.count);
    EXPECT_EQ(print.text, "x");
    EXPECT_TRUE(SameTensor(print.of, x));
    EXPECT_EQ(print.shown.shape(), each.shown) << each.count;
    const std::vector<double> shown = DataOf(print.shown);
    for (size_t i = 0; i < shown.size(); ++i) {
      EXPECT_EQ(shown[i], numbers.data[i]);
    }
  }
  Print(Zeros(graph, kBool, {}), "");
  Print(Zeros(graph, kFloat32, {{"none", 0}, a}), "");
  Print(Zeros(graph, kFloat32, {a, {"none", 0}}), "");
  EXPECT_OK(graph.status());
  EXPECT_FALSE(Print({}, "").valid());
}

TEST(ScalarSummary, IsNamedInItsScope) {
  Graph graph;
  const Tensor x = Zeros(graph, kInt32, {});
  EXPECT_TRUE(SameTensor(ScalarSummary("loss", x), x));
  {
    Scope scope(graph, "decoder");
    ScalarSummary("loss", x);
  }
  ASSERT_EQ(graph.observations().size(), 2u);
  EXPECT_EQ(graph.observations()[0].text, "loss");
  EXPECT_EQ(graph.observations()[1].text, "decoder/loss");
  EXPECT_OK(graph.status());
  EXPECT_FALSE(ScalarSummary("loss", {}).valid());
}

TEST(ObserveErrors, NameTheTensor) {
  ExpectError([](Graph& g) { Print(Input(g, "x", kFloat32, {a}), "x", -1); },
              {"first_n is -1, which is negative", "(print", "f32[a=3]"});
  ExpectError(
      [](Graph& g) { ScalarSummary("s", Input(g, "x", kFloat32, {a})); },
      {"summary \"s\" is not a scalar", "x f32[a=3]", "ReduceMean",
       "(scalar_summary"});
  ExpectError([](Graph& g) { ScalarSummary("s", Input(g, "x", kBool, {})); },
              {"takes a float or integer dtype, not bool"});
  ExpectError([](Graph& g) { ScalarSummary("", Input(g, "x", kFloat32, {})); },
              {"the name \"\""});
  ExpectError(
      [](Graph& g) {
        const Tensor x = Zeros(g, kFloat32, {});
        ScalarSummary("loss", x);
        ScalarSummary("loss", x);
      },
      {"summary \"loss\" was created at observe_test.cc:", "open a Scope"},
      absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace mtf
