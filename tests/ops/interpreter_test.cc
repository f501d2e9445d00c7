// SPDX-License-Identifier: Apache-2.0
#include "backends/reference/interpreter.h"

#include "ops/gather.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension a{"a", 2};

TEST(Interpret, ReturnsTheErrorOfTheGraph) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {a});
  const Tensor y = x + Ones(graph, kInt32, {a});
  EXPECT_EQ(Interpret(graph, {}, {y}).status(), graph.status());
  OracleVariables values;
  EXPECT_EQ(InitializeVariables(graph, 0, &values), graph.status());
}

TEST(Interpret, Fetches) {
  Graph graph, other;
  EXPECT_THAT(
      Interpret(graph, {}, {Tensor()}),
      StatusIs(
          kInvalid,
          HasSubstr("fetch 0 is an empty Tensor\n"
                    "  help     calls without an input, as Einsum({}, ...)")));
  const Tensor x = Ones(graph, kFloat32, {}), y = Ones(other, kFloat32, {});
  EXPECT_THAT(
      Interpret(graph, {}, {x, y}),
      StatusIs(kInvalid, "fetch 1, \"constant\", belongs to another graph"));
  const auto none = Interpret(graph, {}, {});
  ASSERT_OK(none);
  EXPECT_TRUE(none->empty());
}

TEST(Interpret, NeedsOnlyTheFeedsOfItsFetches) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {a});
  const Tensor y = Input(graph, "y", kFloat32, {a});
  const HostTensor fed = HostTensor::Of<float>({a}, {1, 2});
  EXPECT_OK(Interpret(graph, {{"x", fed}}, {x}));
  EXPECT_OK(Interpret(graph, {{"x", fed}, {"y", fed}}, {x}));
  EXPECT_THAT(
      Interpret(graph, {{"x", fed}}, {x + y}),
      StatusIs(kInvalid, HasSubstr("input \"y\" f32[a=2] is not fed (input, "
                                   "interpreter_test.cc:")));
}

TEST(Interpret, FeedsOfTheWrongKind) {
  Graph graph;
  const Tensor x = Input(graph, "tokens", kInt32, {a});
  const auto run = [&](const std::string& name, HostTensor feed) {
    return Interpret(graph, {{name, std::move(feed)}}, {x});
  };
  EXPECT_THAT(run("tokens", HostTensor({a}, kFloat32)),
              StatusIs(kInvalid, HasSubstr("input \"tokens\" is i32[a=2] but "
                                           "is fed f32[a=2] (input, ")));
  EXPECT_THAT(run("tokens", HostTensor({{"b", 2}}, kInt32)),
              StatusIs(kInvalid, HasSubstr("but is fed i32[b=2]")));
  EXPECT_THAT(
      run("tokns", HostTensor({a}, kInt32)),
      StatusIs(kInvalid, AllOf(HasSubstr("feed \"tokns\" is not an input"),
                               HasSubstr("did you mean \"tokens\"?"))));
}

TEST(Interpret, AVariableWithoutAValue) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {a}));
  OracleVariables values;
  for (OracleVariables* variables : {&values, (OracleVariables*)nullptr}) {
    EXPECT_THAT(Interpret(graph, {}, {w}, variables),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("variable \"w\" (interpreter_test.cc:")));
  }
}

TEST(Interpret, ComputesFloatsInDoublePrecision) {
  Graph graph;
  const Tensor x = Constant(graph, 1, kFloat32, {});
  EXPECT_EQ(DataOf(x / 3)[0], 1.0 / 3);
  EXPECT_EQ(DataOf(Cast(Cast(x / 3, kBFloat16), kFloat32))[0], 0.333984375);
}

TEST(Interpret, DoesNotAllocateOnTrust) {
  Graph graph;
  const Tensor huge = Zeros(graph, kFloat32, {{"n", int64_t{1} << 60}});
  EXPECT_THAT(Interpret(graph, {}, {huge}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("(constant, interpreter_test.cc:")));
}

TEST(Interpret, SkipsOperationsThatNoFetchNeeds) {
  Graph graph;
  const Tensor at = Constant(graph, 9, kInt32, {});
  const Tensor bad = Gather(Ones(graph, kFloat32, {a}), at, "a");
  EXPECT_OK(Interpret(graph, {}, {at}));
  EXPECT_THAT(Interpret(graph, {}, {at, bad}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("index 9")));
}

}  // namespace
}  // namespace mtf
