// SPDX-License-Identifier: Apache-2.0
//
// Which programs return what a graph observes, what prints send, and the order
// that depend gives.
#include <string>

#include "ops/depend.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/observe.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/program_text.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Dimension kBatch{"batch", 8}, kLength{"length", 64};

std::string Lowered(const Graph& graph, const Targets& targets,
                    const std::string& mesh, const std::string& layout,
                    const std::string& last_pass = "expand_reshards") {
  ProgramDetail detail{};
  const absl::StatusOr<Program> program =
      LowerText(graph, mesh, layout, targets, {.last_pass = last_pass});
  if (!program.ok()) return ErrorText(program.status());
  return absl::StrCat("\n", TextOf(*program, detail));
}

TEST(Observations, AreReturnedByProgramsThatComputeTheTensor) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch});
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {}));
  const Tensor norm = ReduceSum(Square(x), {});
  ScalarSummary("norm", norm);
  Print(x, "x", 2);
  const Tensor loss = norm + w;
  EXPECT_EQ(Lowered(graph, {.fetches = {loss}}, "", ""), R"(
mesh{}
%x : f32[batch:8] = input x
%w : f32[] = read_variable w
%square : f32[batch:8] = map(%x) square
%reduce_sum : f32[] = reduce(%square) sum
%slice : f32[batch:2] = slice(%x) batch begin 0
%add : f32[] = map(%reduce_sum, %w) add
output(%add) add
output(%reduce_sum) reduce_sum
output(%slice) stop_gradient
)");
  // Neither is computed.
  EXPECT_THAT(Lowered(graph, {.fetches = {w}}, "", ""),
              Not(HasSubstr("reduce_sum")));
  // Initial values are not a step.
  EXPECT_THAT(Lowered(graph, {.initialize = true}, "", ""),
              Not(HasSubstr("output")));
  // A tensor that is fetched and observed is returned once; updates count too.
  const Tensor update = Assign(w, loss);
  const std::string text =
      Lowered(graph, {.fetches = {norm}, .updates = {update}}, "", "");
  EXPECT_THAT(text, HasSubstr("output(%reduce_sum) reduce_sum\n"
                              "output(%slice) stop_gradient\n"));
}

TEST(Observations, APrintSendsTheFirstElements) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength});
  const Tensor y = Square(x);
  Print(y, "y", 4);
  const Targets targets = {.fetches = {ReduceSum(y, {})}};
  for (const char* layout : {"batch:x", "length:x"}) {
    // Beyond the sum (2 * 3/4 * 4 bytes): the four elements, which rank 0 sends
    // to the others, padded to equal shards.
    const auto program = LowerText(graph, "x:4", layout, targets);
    ASSERT_OK(program);
    int64_t bytes = 0;
    for (const auto& [key, count] : CountCollectives(*program)) {
      bytes += count.second;
    }
    EXPECT_LE(bytes, 6 + 4 * 4 * 4) << layout << "\n" << Costs(program);
  }
}

TEST(Depend, ReadersComeAfterTheOthers) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch});
  const Tensor y = Exp(x);
  const Tensor z = Square(Depend(x, {y}));
  const std::string text =
      Lowered(graph, {.fetches = {y, z}}, "x:2", "batch:x", "plan_buffers");
  EXPECT_THAT(text, HasSubstr("= depend(%x, %exp)\n"));
  EXPECT_LT(text.find("map(%x) exp"), text.find("depend(%x, %exp)"));
  EXPECT_LT(text.find("depend(%x, %exp)"), text.find("map(%depend) square"));
}

TEST(Depend, UnreducedValuesAreComputedFirst) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength});
  const Tensor sum = ReduceSum(x, {kLength});
  const Tensor y = Square(Depend(x, {sum}));
  EXPECT_THAT(Lowered(graph, {.fetches = {y}}, "x:2", "batch:x"),
              HasSubstr("= depend(%x, %reduce_sum_1)\n"));
}

}  // namespace
}  // namespace mtf::testing
