// SPDX-License-Identifier: Apache-2.0
#include "ops/gradients.h"

#include "mtf/print_graph.h"
#include "ops/einsum.h"
#include "ops/gather.h"
#include "ops/reshape.h"
#include "ops/stop_gradient.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension a{"a", 2}, b{"b", 3};

TEST(Gradients, OfATensorByItselfIsDy) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2}, kFloat32, {a});
  EXPECT_THAT(DataOf(Gradients(x, {x})[0]), ElementsAre(1, 1));
  const Tensor dy = Constant(graph, {5, 7}, kFloat32, {a});
  EXPECT_TRUE(SameTensor(Gradients(x, {x}, dy)[0], dy));
}

TEST(Gradients, WithoutDySumOverTheElements) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2}, kFloat32, {a});
  EXPECT_THAT(DataOf(Gradients(x * x, {x})[0]), ElementsAre(2, 4));
}

TEST(Gradients, AddUpOverAllPaths) {
  ExpectSecondGradients({Numbers({a, b}, 1), Numbers({b}, 2)},
                        [](Graph&, const std::vector<Tensor>& xs) {
                          const Tensor h = Tanh(xs[0] * xs[1]);
                          return h + h * xs[1] + Exp(h) * xs[0] + xs[1];
                        });
}

TEST(Gradients, OfAnXOnThePathToAnotherX) {
  Graph graph;
  const Tensor x = Constant(graph, 3, kFloat32, {});
  const Tensor h = x * x;
  const Tensor y = h * h;
  const auto g = Gradients(y, {h, x});
  EXPECT_THAT(DataOf(g[0]), ElementsAre(2 * 9));
  EXPECT_THAT(DataOf(g[1]), ElementsAre(4 * 27));
}

TEST(Gradients, OfADeepChain) {
  Graph graph;
  const Tensor x = Constant(graph, 1, kFloat32, {});
  Tensor y = x;
  for (int i = 0; i < 20000; ++i) y = y + 0.5 * x;
  EXPECT_THAT(DataOf(Gradients(y, {x})[0]), ElementsAre(10001));
}

TEST(Gradients, AreEmptyWithoutDependence) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2}, kFloat32, {a});
  const Tensor apart = Constant(graph, {1, 2}, kFloat32, {a});
  const Tensor integers = Constant(graph, {1, 2}, kInt32, {a});
  const Tensor y = x * 2;
  const Tensor later = y * 2;
  const auto g = Gradients(y, {apart, integers, Tensor(), later, x});
  EXPECT_FALSE(g[0].valid());
  EXPECT_FALSE(g[1].valid());
  EXPECT_FALSE(g[2].valid());
  EXPECT_FALSE(g[3].valid());
  EXPECT_TRUE(g[4].valid());
  EXPECT_OK(graph.status());
}

TEST(Gradients, StopAtStopGradient) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2}, kFloat32, {a});
  const Tensor stopped = StopGradient(x);
  EXPECT_THAT(DataOf(stopped), ElementsAre(1, 2));
  EXPECT_THAT(DataOf(Gradients(x * stopped, {x})[0]), ElementsAre(1, 2));
  EXPECT_FALSE(Gradients(stopped, {x})[0].valid());
  EXPECT_FALSE(StopGradient(Tensor()).valid());
}

TEST(Gradients, HaveTheOrderOfX) {
  Graph graph;
  const Tensor x = ConstantOf(graph, Numbers({a, b}, 1));
  const Tensor y = ConstantOf(graph, Numbers({b, a}, 2));
  const auto g = Gradients(x * y, {x, y});
  EXPECT_EQ(g[0].shape(), Shape({a, b}));
  EXPECT_EQ(g[1].shape(), Shape({b, a}));
}

TEST(Gradients, KeepNameLineAndSectionOfTheForwardOperation) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {a, b});
  const Tensor w = Ones(graph, kFloat32, {b});
  Tensor y;
  const int line = __LINE__ + 4;
  {
    Scope scope(graph, "layer_0");
    SectionScope section(graph, LayoutSection::kOptimizer);
    y = Einsum({x, w}, {a});
  }
  const Tensor z = Exp(y);
  const size_t before = graph.operations().size();
  // The scope and the line of the call of Gradients do not matter.
  Scope scope(graph, "optimizer");
  CallSiteScope site(graph, CallSite{"optimizer.cc", 1});
  Gradients(z, {w});
  std::vector<std::string> names;
  for (size_t i = before; i < graph.operations().size(); ++i) {
    const Operation& operation = *graph.operations()[i];
    names.push_back(operation.name());
    EXPECT_EQ(operation.call_site().file, "gradients_test.cc");
    if (operation.kind() != "einsum") continue;
    EXPECT_EQ(operation.call_site().line, line);
    EXPECT_EQ(operation.section(), LayoutSection::kOptimizer);
  }
  EXPECT_THAT(names,
              ElementsAre("exp_grad", "exp_grad_1", "layer_0/einsum_grad",
                          "layer_0/einsum_grad_1"));
  EXPECT_EQ(Exp(z).name(), "optimizer/exp") << "the scope is as before";
}

TEST(Gradients, TextOfASmallNetwork) {
  Graph graph;
  const Dimension batch{"batch", 8}, io{"io", 4}, hidden{"hidden", 16};
  const Tensor x = Input(graph, "x", kFloat32, {batch, io});
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {io, hidden}));
  const Tensor loss =
      ReduceMean(Square(Relu(Einsum({x, w}, {batch, hidden}))), {});
  Assign(w, w - 0.1 * Gradients(loss, {w})[0]);
  EXPECT_OK(graph.status());
  EXPECT_EQ(PrintGraph(graph), R"(%x : f32[batch:8, io:4] = input
%constant : f32[io:4, hidden:16] = constant 0
%w : f32[io:4, hidden:16] = variable
%einsum : f32[batch:8, hidden:16] = einsum(%x, %w)
%relu : f32[batch:8, hidden:16] = relu(%einsum)
%square : f32[batch:8, hidden:16] = square(%relu)
%reduce_sum : f32[] = reduce_sum(%square)
%div : f32[] = div(%reduce_sum) [literal.f32(128); div($0, $1)]
%div_grad : f32[] = constant 1
%div_grad_1 : f32[] = literal 128
%div_grad_2 : f32[] = div(%div_grad) [literal.f32(128); div($0, $1)]
%reduce_sum_grad : f32[batch:8, hidden:16] = broadcast(%div_grad_2)
%square_grad : f32[batch:8, hidden:16] = mul(%reduce_sum_grad) [literal.f32(2); mul($1, $0)]
%square_grad_1 : f32[batch:8, hidden:16] = mul(%square_grad, %relu)
%relu_grad : bool[batch:8, hidden:16] = greater(%einsum) [literal.f32(0); greater($0, $1)]
%relu_grad_1 : f32[batch:8, hidden:16] = select(%relu_grad, %square_grad_1) [literal.f32(0); select($0, $1, $2)]
%einsum_grad : f32[batch:8, io:4] = einsum(%relu_grad_1, %w)
%einsum_grad_1 : f32[io:4, hidden:16] = einsum(%x, %relu_grad_1)
%mul : f32[io:4, hidden:16] = mul(%einsum_grad_1) [literal.f32(0.1); mul($1, $0)]
%sub : f32[io:4, hidden:16] = sub(%w, %mul)
%assign : f32[io:4, hidden:16] = assign(%sub) w
)");
}

// The dtypes of uses of a variable `w` with `gradient_dtype`.
struct Used {
  const char* name;
  std::function<Tensor(Tensor w, Tensor x)> use;
};

// The gradient dtype of a parameter applies to all summands (products, sums and
// rows), not only to their sum.
TEST(GradientDType, NoSummandIsRounded) {
  const Dimension k{"k", 4}, n{"n", 3};
  const std::vector<Used> uses = {
      {"einsum",
       [&](Tensor w, Tensor x) {
         return Einsum({x, w}, {n});
       }},
      {"cast",
       [&](Tensor w, Tensor x) {
         return Einsum({Cast(x, kFloat16), Cast(w, kFloat16)}, {n});
       }},
      {"broadcast",
       [&](Tensor w, Tensor x) {
         return Broadcast(x, {n, k}) + w;
       }},
      {"gather",
       [&](Tensor w, Tensor x) {
         return Gather(w, Cast(x, kInt32), "n") * 1.0;
       }},
  };
  for (const Used& used : uses) {
    for (DType dtype : {kBFloat16, kFloat16}) {
      Graph graph;
      const Shape shape =
          used.name == std::string("broadcast") ? Shape{k} : Shape{k, n};
      const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, shape),
                                {.dtype = dtype, .gradient_dtype = kFloat32});
      const Tensor x = Input(graph, "x", dtype, {k});
      const Tensor y = used.use(w, x);
      ASSERT_OK(graph.status()) << used.name;
      const size_t forward = graph.operations().size();
      const std::vector<Tensor> gradients = Gradients(y, {w});
      ASSERT_OK(graph.status()) << used.name;
      EXPECT_EQ(gradients[0].dtype(), kFloat32) << used.name;
      // Every tensor with the shape of the parameter has the gradient dtype.
      for (size_t i = forward; i < graph.operations().size(); ++i) {
        const Operation& operation = *graph.operations()[i];
        if (!operation.shape().SameDimensions(shape)) continue;
        if (operation.kind() == "one" || operation.kind() == "constant") {
          continue;
        }
        EXPECT_EQ(operation.dtype(), kFloat32)
            << used.name << " " << operation.name();
      }
    }
  }
}

TEST(GradientDType, UsesAccumulateInIt) {
  Graph graph;
  const Dimension k{"k", 2};
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {k}),
                            {.dtype = kBFloat16, .gradient_dtype = kFloat32});
  // bf16 does not represent 256 + 1.
  const Tensor y = w * 256.0 + w;
  const Tensor g = Gradients(y, {w})[0];
  ASSERT_OK(graph.status());
  EXPECT_EQ(g.dtype(), kFloat32);
  OracleVariables values;
  ASSERT_OK(InitializeVariables(graph, 1, &values));
  const auto got = Interpret(graph, {}, {g}, &values);
  ASSERT_OK(got);
  EXPECT_EQ((*got)[0].data[0], 257);
}

TEST(GradientDType, OfAVariableByItself) {
  Graph graph;
  const Dimension k{"k", 2};
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {k}),
                            {.dtype = kBFloat16, .gradient_dtype = kFloat32});
  EXPECT_EQ(Gradients(w, {w})[0].dtype(), kFloat32);
  ASSERT_OK(graph.status());
}

// Without a gradient dtype, gradients have the dtype of each use.
TEST(GradientDType, IsThatOfTheVariableByDefault) {
  Graph graph;
  const Dimension k{"k", 2};
  const Tensor w =
      Variable(graph, "w", Ones(graph, kFloat32, {k}), {.dtype = kBFloat16});
  EXPECT_EQ(Gradients(w * w, {w})[0].dtype(), kBFloat16);
  const Tensor v = Variable(graph, "v", Ones(graph, kFloat32, {k}),
                            {.gradient_dtype = kBFloat16});
  EXPECT_EQ(Gradients(v * v, {v})[0].dtype(), kBFloat16);
  ASSERT_OK(graph.status());
}

TEST(GradientsErrors, OfAnInteger) {
  ExpectError(
      [](Graph& g) {
        const Tensor x = Input(g, "x", kInt32, {a});
        Gradients(x + x, {x});
      },
      {"gradients of \"add\", which is i32, not a float dtype (gradients, "});
}

TEST(GradientsErrors, Dy) {
  const auto gradients = [](Shape shape, DType dtype) {
    return [=](Graph& g) {
      const Tensor x = Input(g, "x", kFloat32, {a});
      Gradients(x, {x}, Input(g, "dy", dtype, shape));
    };
  };
  ExpectError(gradients({{"a", 3}}, kFloat32),
              {"dimension \"a\" is 2 in \"x\" but 3 in \"dy\" (gradients, "});
  ExpectError(gradients({}, kFloat32),
              {"the gradient \"dy\" of \"x\" has other dimensions"});
  ExpectError(gradients({a}, kBFloat16), {"\"x\" is f32 but \"dy\" is bf16"});
}

TEST(GradientsErrors, TwoGraphs) {
  Graph other;
  const Tensor stranger = Ones(other, kFloat32, {a});
  ExpectError(
      [&](Graph& g) { Gradients(Input(g, "y", kFloat32, {a}), {stranger}); },
      {"\"constant\" and \"y\" belong to different graphs (gradients, "});
}

TEST(GradientsErrors, OfAnEmptyTensorAreEmpty) {
  Graph graph;
  const auto g = Gradients(Tensor(), {Ones(graph, kFloat32, {a})});
  ASSERT_EQ(g.size(), 1u);
  EXPECT_FALSE(g[0].valid());
}

TEST(GradientsErrors, KeepTheFirstErrorOfTheGraph) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {a});
  const Tensor wrong = x + Ones(graph, kFloat32, {{"a", 3}});
  const Tensor y = Einsum({wrong * x, x}, {});
  const absl::Status first = graph.status();
  Gradients(y, {x, wrong});
  EXPECT_EQ(graph.status(), first);
}

}  // namespace
}  // namespace mtf
