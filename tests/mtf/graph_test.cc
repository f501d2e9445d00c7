// SPDX-License-Identifier: Apache-2.0
#include "mtf/graph.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/print_graph.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

class FakeOp : public Operation {
 public:
  using Operation::Operation;
  absl::string_view kind() const override { return "fake"; }
  std::string attributes() const override { return "flag"; }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }
  EmittedValues Emit(Emitter&, absl::Span<const Value>) const override {
    return {};
  }
};

Tensor Fake(Graph& graph, std::vector<Tensor> inputs = {}, Shape shape = {},
            absl::string_view name = "",
            std::source_location location = std::source_location::current()) {
  return graph.Add(std::make_unique<FakeOp>(inputs, shape, kFloat32), location,
                   name);
}

TEST(Graph, NamesAreUnique) {
  Graph graph;
  EXPECT_EQ(Fake(graph).name(), "fake");
  EXPECT_EQ(Fake(graph, {}, {}, "fake_1").name(), "fake_1");
  EXPECT_EQ(Fake(graph).name(), "fake_2");
  EXPECT_EQ(Fake(graph, {}, {}, "x").name(), "x");
  EXPECT_EQ(Fake(graph, {}, {}, "x").name(), "x_1");
}

TEST(Graph, ScopesPrefixNames) {
  Graph graph;
  {
    Scope layer(graph, "layer");
    EXPECT_EQ(Fake(graph).name(), "layer/fake");
    {
      Scope inner(graph, "attention");
      EXPECT_EQ(Fake(graph).name(), "layer/attention/fake");
    }
    EXPECT_EQ(Fake(graph).name(), "layer/fake_1");
  }
  EXPECT_EQ(Fake(graph).name(), "fake");
}

TEST(Graph, TheOutermostCallSiteWins) {
  Graph graph;
  EXPECT_EQ(Fake(graph).operation()->call_site().line, __LINE__);
  CallSiteScope outer(graph, CallSite{"user.cc", 7});
  {
    CallSiteScope inner(graph, CallSite{"layer.cc", 3});
    EXPECT_EQ(Fake(graph).operation()->call_site().ToString(), "user.cc:7");
  }
  EXPECT_EQ(Fake(graph).operation()->call_site().ToString(), "user.cc:7");
}

TEST(Graph, SectionsNest) {
  Graph graph;
  EXPECT_EQ(Fake(graph).operation()->section(), LayoutSection::kDefault);
  {
    SectionScope section(graph, LayoutSection::kOptimizer);
    EXPECT_EQ(Fake(graph).operation()->section(), LayoutSection::kOptimizer);
  }
  EXPECT_EQ(Fake(graph).operation()->section(), LayoutSection::kDefault);
}

TEST(GradientScope, TakesNameLineAndSectionFromTheForwardOperation) {
  Graph graph;
  Tensor forward;
  {
    Scope scope(graph, "layer");
    SectionScope section(graph, LayoutSection::kOptimizer);
    CallSiteScope site(graph, CallSite{"user.cc", 7});
    forward = Fake(graph);
  }
  Scope scope(graph, "optimizer");
  CallSiteScope site(graph, CallSite{"optimizer.cc", 1});
  Tensor gradient;
  {
    GradientScope gradients(graph, *forward.operation());
    gradient = Fake(graph);
    EXPECT_EQ(Fake(graph).name(), "layer/fake_grad_1");
  }
  EXPECT_EQ(gradient.name(), "layer/fake_grad");
  EXPECT_EQ(gradient.operation()->call_site().ToString(), "user.cc:7");
  EXPECT_EQ(gradient.operation()->section(), LayoutSection::kOptimizer);
  EXPECT_EQ(Fake(graph).name(), "optimizer/fake");
  EXPECT_EQ(Fake(graph).operation()->call_site().file, "optimizer.cc");
  EXPECT_EQ(Fake(graph).operation()->section(), LayoutSection::kDefault);
  // The gradient of a gradient gets no second suffix.
  GradientScope again(graph, *gradient.operation());
  EXPECT_EQ(Fake(graph).name(), "layer/fake_grad_2");
}

TEST(Graph, KeepsTheFirstError) {
  Graph graph;
  EXPECT_OK(graph.status());
  const Shape shape = {{"a", 2}};
  const Tensor bad =
      graph.Fail(absl::InvalidArgumentError("first\n  help     none"), "einsum",
                 std::source_location::current(), shape, kInt32);
  graph.Fail(absl::NotFoundError("second"), "add",
             std::source_location::current());
  EXPECT_EQ(bad.shape(), shape);
  EXPECT_EQ(bad.dtype(), kInt32);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("first (einsum, graph_test.cc:"),
                             HasSubstr(")\n  help     none"))));
}

TEST(Graph, RejectsInvalidOperations) {
  const auto code = absl::StatusCode::kInvalidArgument;
  Graph graph;
  const Tensor refused = Fake(graph, {}, {{"a", 2}, {"a", 3}});
  EXPECT_TRUE(refused.valid());
  EXPECT_THAT(graph.status(), StatusIs(code, HasSubstr("\"a\" occurs twice")));
  Graph second, third;
  Fake(second, {Tensor()});
  EXPECT_THAT(
      second.status(),
      StatusIs(
          code,
          AllOf(
              HasSubstr("an input is an empty Tensor (fake, "),
              HasSubstr(
                  "\n  help     calls without an input, as Einsum({}, ...)"))));
  Fake(third, {refused});
  EXPECT_THAT(third.status(), StatusIs(code, HasSubstr("another graph")));
}

TEST(Tensor, EmptyTensorIsAScalar) {
  const Tensor none;
  EXPECT_FALSE(none.valid());
  EXPECT_EQ(none.shape(), Shape());
  EXPECT_EQ(none.dtype(), kFloat32);
  EXPECT_EQ(none.name(), "none");
  EXPECT_EQ(none.dim("a").size, 1);
}

TEST(Tensor, Dim) {
  Graph graph;
  const Tensor x = Fake(graph, {}, {{"a", 2}});
  EXPECT_EQ(x.dim("a"), (Dimension{"a", 2}));
  EXPECT_OK(graph.status());
  EXPECT_EQ(x.dim("b").size, 1);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"fake\" [a=2] has no dimension \"b\" (dim, "
                                 "graph_test.cc:")));
}

TEST(Graph, Variables) {
  Graph graph;
  Scope scope(graph, "layer");
  const Tensor read = Fake(graph, {}, {{"a", 2}}, "w");
  VariableInfo info;
  info.name = "w";
  info.shape = read.shape();
  info.read = read;
  EXPECT_TRUE(SameTensor(
      graph.AddVariable(info, std::source_location::current()), read));
  EXPECT_EQ(graph.FindVariable(read)->name, "layer/w");
  EXPECT_EQ(graph.FindVariable(Fake(graph)), nullptr);
  graph.AddVariable(info, std::source_location::current());
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr("variable \"layer/w\" was created at "
                                 "graph_test.cc:")));
}

TEST(Scope, RejectsEmptyComponentsAndLineBreaks) {
  for (const auto& [name, words] :
       std::vector<std::pair<std::string, std::string>>{
           {"", "the name \"\" of a layer or scope is empty"},
           {"/a", "the name \"/a\" of a layer or scope has an empty component"},
           {"a/", "has an empty component"},
           {"a//b", "has an empty component"},
           {"a\nb",
            "the name \"a\\nb\" of a layer or scope has a control "
            "character"},
           {std::string("a\0b", 3), "has a control character"}}) {
    Graph graph;
    const int line = __LINE__ + 1;
    Scope scope(graph, name);
    EXPECT_THAT(graph.status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(words),
                               HasSubstr(absl::StrCat(
                                   " (scope, graph_test.cc:", line, ")")))));
    EXPECT_EQ(Fake(graph).name(), "scope/fake");
  }
  Graph graph;
  Scope scope(graph, "block 1/att\303\251ntion");
  EXPECT_OK(graph.status());
}

// The streams of three calls in a scope and of one after it.
std::vector<uint32_t> Streams(bool with_others) {
  Graph graph;
  std::vector<uint32_t> streams;
  if (with_others) {
    const Scope other(graph, "other");
    graph.NextRandomStream();
  }
  {
    const Scope layer(graph, "layer");
    for (int i = 0; i < 3; ++i) {
      streams.push_back(graph.NextRandomStream());
      const Scope inner(graph, "inner");
      if (with_others) graph.NextRandomStream();
    }
  }
  streams.push_back(graph.NextRandomStream());
  return streams;
}

TEST(Graph, RandomStreamsDependOnTheirScopeOnly) {
  const std::vector<uint32_t> streams = Streams(false);
  EXPECT_EQ(Streams(true), streams);
  EXPECT_EQ(std::set<uint32_t>(streams.begin(), streams.end()).size(), 4);
}

TEST(Graph, RandomStreamsDiffer) {
  Graph graph;
  std::set<uint32_t> streams;
  for (int i = 0; i < 300; ++i) {
    const Scope scope(graph, absl::StrCat("layer_", i));
    for (int j = 0; j < 300; ++j) streams.insert(graph.NextRandomStream());
  }
  EXPECT_EQ(streams.size(), 90000);
}

TEST(PrintGraph, OneOperationALine) {
  Graph graph;
  const Tensor x = Fake(graph, {}, {{"a", 2}, {"b", 3}}, "x");
  Fake(graph, {x, x}, {{"a", 2}});
  EXPECT_EQ(PrintGraph(graph),
            "%x : f32[a:2, b:3] = fake flag\n"
            "%fake : f32[a:2] = fake(%x, %x) flag\n");
}

}  // namespace
}  // namespace mtf
