// SPDX-License-Identifier: Apache-2.0
//
// The contract of every operation: it has the call site of the user, and it
// requests the dimensions that it cannot work on in shards to be replicated.
#include "ops/concat.h"
#include "ops/convolution.h"
#include "ops/einsum.h"
#include "ops/gather.h"
#include "ops/index.h"
#include "ops/one_hot.h"
#include "ops/pad.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reshape.h"
#include "ops/shift.h"
#include "ops/slice.h"
#include "ops/stack.h"
#include "ops/stop_gradient.h"
#include "ops/track_average.h"
#include "ops/windows.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT
using ::testing::IsEmpty;

const Dimension a{"a", 2}, b{"b", 3}, c{"c", 4};

TEST(CallSite, EveryOperationHasALineOfTheUser) {
  Graph graph;
  const int first = __LINE__;
  const Tensor x = Input(graph, "x", kFloat32, {a, b, c});
  const Tensor i = Input(graph, "i", kInt32, {a});
  const Tensor w = Variable(graph, "w", RandomNormal(graph, {b, a}, 0, 1));
  std::vector<Tensor> made = {
      Einsum({x, w}, {a, c}),
      AddN({x, x, x}),
      x + 1.0,
      -x,
      Gelu(x),
      Pow(x, 2),
      Less(x, 0),
      Select(Less(x, 0), x, 0),
      LogicalNot(Less(x, 0)),
      Cast(x, kBFloat16),
      Like(x, 1),
      ReduceSum(x, {a}),
      ReduceMean(x, {a}),
      ReduceMax(x, {a}),
      ReduceMin(x, {a}),
      ReduceLogSumExp(x, {a}),
      Reshape(x, {{"all", 24}}),
      Rename(x, "a", "z"),
      MergeDimensions(x, {"c", "a"}, "ca"),
      SplitDimension(x, "c", {{"c1", 2}, {"c2", 2}}),
      Broadcast(x, {a, b, c, {"d", 2}}),
      Transpose(x, {c, b, a}),
      Slice(x, "a", 0, 1),
      Pad(x, "a", 1, 1),
      Concat({x, x}, "a"),
      Index(x, "a", 1),
      Stack({x, x}, "z"),
      SumOver(x, {a}),
      MeanOver(x, {a}),
      MaxOver(x, {a}),
      MinOver(x, {a}),
      LogSumExpOver(x, {a}),
      Shift(x, "a", 1, true),
      Windows(x, "a", {"w", 2}),
      FoldWindows(x, "a", "b", 2),
      Convolution(x, Input(graph, "f", kFloat32, {{"k", 2}, c}), {{"b", "k"}},
                  {c}),
      TransposedConvolution(x, Input(graph, "t", kFloat32, {{"k", 2}, c}),
                            {{"b", "k"}}, {c}),
      MaxPool(x, {{"b", 2}}),
      AveragePool(x, {{"b", 2}}),
      TrackAverage(x, w, w, 0.5),
      Gather(x, i, "c"),
      ScatterAdd(w, i, "n", {{"n", 5}, b}),
      OneHot(i, {"n", 5}),
      Range(graph, a),
      Constant(graph, {1, 2}, kFloat32, {a}),
      Cast(x, kBFloat16) * Constant(graph, {1, 2}, {a}),
      Cast(x, kBFloat16) * Constant(graph, 0.5),
      Zeros(graph, kFloat32, {a}),
      Ones(graph, kFloat32, {a}),
      Assign(w, Transpose(w, {a, b})),
      Group(graph, {x, i}),
      RandomUniform(graph, {a}, 0, 1),
      Dropout(x, 0.5),
      StopGradient(x),
  };
  for (Tensor g : Gradients(made[0], {x, w})) made.push_back(g);
  const int last = __LINE__;
  ASSERT_OK(graph.status());
  for (const Tensor& tensor : made) EXPECT_TRUE(tensor.valid());
  for (const auto& operation : graph.operations()) {
    EXPECT_EQ(operation->call_site().file, "contract_test.cc")
        << operation->name();
    EXPECT_GT(operation->call_site().line, first) << operation->name();
    EXPECT_LT(operation->call_site().line, last) << operation->name();
  }
}

// The oracle, recording the calls of Unshard.
class NotesWhole : public ReferenceInterpreter {
 public:
  using ReferenceInterpreter::ReferenceInterpreter;
  Value Unshard(Value value, absl::Span<const std::string> dims) override {
    asked.insert(asked.end(), dims.begin(), dims.end());
    return ReferenceInterpreter::Unshard(value, dims);
  }
  std::vector<std::string> asked;
};

// The dimensions that the operation of `x` unshards.
std::vector<std::string> AskedBy(Tensor x) {
  const OracleFeeds feeds;
  NotesWhole emitter(feeds, nullptr, {});
  std::vector<Value> inputs;
  for (const Tensor& input : x.operation()->inputs()) {
    const OracleTensor value = Fetch(input);
    inputs.push_back(emitter.Constant(value.data, value.dtype, value.shape));
  }
  x.operation()->Emit(emitter, inputs);
  return emitter.asked;
}

TEST(Unshard, IsNotRequestedByOperationsThatWorkOnShards) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {a, b, c});
  const Tensor i = Zeros(graph, kInt32, {{"d", 2}});
  EXPECT_THAT(AskedBy(Einsum({x}, {a})), IsEmpty());
  EXPECT_THAT(AskedBy(ReduceMax(x, {a})), IsEmpty());
  EXPECT_THAT(AskedBy(Exp(x)), IsEmpty());
  EXPECT_THAT(AskedBy(Rename(x, "a", "z")), IsEmpty());
  EXPECT_THAT(AskedBy(Gather(x, i, "b")), IsEmpty());
  EXPECT_THAT(AskedBy(OneHot(i, b)), IsEmpty());
  EXPECT_THAT(AskedBy(Slice(x, "b", 0, 1)), IsEmpty());
  EXPECT_THAT(AskedBy(Pad(x, "b", 0, 1)), IsEmpty());
  EXPECT_THAT(AskedBy(Concat({x, x}, "b")), IsEmpty());
  EXPECT_THAT(AskedBy(Shift(x, "b", 1, true)), IsEmpty());
}

}  // namespace
}  // namespace mtf
