// SPDX-License-Identifier: Apache-2.0
#include "ops/einsum.h"

#include "ops/reshape.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension batch{"batch", 3}, io{"io", 4}, hidden{"hidden", 5};

TEST(Einsum, MultipliesMatrices) {
  Graph graph;
  const Tensor x =
      Constant(graph, {1, 2, 3, 4, 5, 6}, kFloat32, {{"i", 2}, {"k", 3}});
  const Tensor w =
      Constant(graph, {1, 0, 2, 1, 0, 3}, kFloat32, {{"k", 3}, {"j", 2}});
  EXPECT_THAT(DataOf(Einsum({x, w}, {{"i", 2}, {"j", 2}})),
              ElementsAre(1 + 4, 2 + 9, 4 + 10, 5 + 18));
  // The other order of the output is the transpose.
  EXPECT_THAT(DataOf(Einsum({x, w}, {{"j", 2}, {"i", 2}})),
              ElementsAre(5, 14, 11, 23));
}

TEST(Einsum, OfOneInputSumsAndTransposes) {
  Graph graph;
  const Tensor x =
      Constant(graph, {1, 2, 3, 4, 5, 6}, kInt32, {{"i", 2}, {"k", 3}});
  EXPECT_THAT(DataOf(Einsum({x}, {{"k", 3}, {"i", 2}})),
              ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(DataOf(Einsum({x}, {{"k", 3}})), ElementsAre(5, 7, 9));
  EXPECT_THAT(DataOf(Einsum({x}, {})), ElementsAre(21));
}

TEST(Einsum, KeepsADimensionOfSeveralInputsThatTheOutputNames) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3}, kFloat32, {batch});
  EXPECT_THAT(DataOf(Einsum({x, x}, {batch})), ElementsAre(1, 4, 9));
  EXPECT_THAT(DataOf(Einsum({x, x, x}, {})), ElementsAre(1 + 8 + 27));
}

TEST(Einsum, SumOverADimensionOfSizeZeroIsZero) {
  Graph graph;
  const Tensor x = Zeros(graph, kFloat32, {batch, {"none", 0}});
  const Tensor w = Zeros(graph, kFloat32, {{"none", 0}});
  EXPECT_THAT(DataOf(Einsum({x, w}, {batch})), ElementsAre(0, 0, 0));
}

TEST(Einsum, IntegersWrapAround) {
  Graph graph;
  const Tensor x = Constant(graph, {65536, 65536}, kInt32, {{"k", 2}});
  EXPECT_THAT(DataOf(Einsum({x, x}, {{"k", 2}})), ElementsAre(0, 0));
}

// A random einsum of one to three inputs over sizes 1 to 5, in any order.
struct RandomEinsum {
  std::vector<Shape> inputs;
  Shape output;
};

RandomEinsum MakeRandomEinsum(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Dimension> dims;
  for (const char* name : {"a", "b", "c", "d"}) {
    dims.push_back({name, 1 + static_cast<int64_t>(random() % 5)});
  }
  RandomEinsum result;
  const auto some = [&](const std::vector<Dimension>& from) {
    std::vector<Dimension> chosen;
    for (const Dimension& dim : from) {
      if (random() % 2 == 0) chosen.push_back(dim);
    }
    std::shuffle(chosen.begin(), chosen.end(), random);
    return Shape(chosen);
  };
  const int count = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < count; ++i) result.inputs.push_back(some(dims));
  std::vector<Dimension> present;
  for (const Dimension& dim : dims) {
    for (const Shape& input : result.inputs) {
      if (!input.Contains(dim.name)) continue;
      present.push_back(dim);
      break;
    }
  }
  result.output = some(present);
  return result;
}

class RandomEinsumTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomEinsumTest, IsTheSumOfProducts) {
  const RandomEinsum e = MakeRandomEinsum(GetParam());
  Graph graph;
  std::vector<OracleTensor> values;
  std::vector<Tensor> inputs;
  Shape all = e.output;
  for (const Shape& shape : e.inputs) {
    values.push_back(Numbers(shape, GetParam() + inputs.size()));
    inputs.push_back(ConstantOf(graph, values.back()));
    for (const Dimension& dim : shape) {
      if (!all.Contains(dim.name)) all = all.With(dim);
    }
  }
  std::map<ElementIndex, double> expected;
  ForEachElement(all, [&](const ElementIndex& index) {
    double product = 1;
    for (const OracleTensor& value : values) product *= At(value, index);
    ElementIndex kept;
    for (const Dimension& dim : e.output) kept[dim.name] = index.at(dim.name);
    expected[kept] += product;
  });
  ExpectElements(Fetch(Einsum(inputs, e.output)),
                 [&](const ElementIndex& index) { return expected.at(index); });
}

TEST_P(RandomEinsumTest, GradientsAgreeWithDifferences) {
  const RandomEinsum e = MakeRandomEinsum(GetParam());
  std::vector<OracleTensor> points;
  for (const Shape& shape : e.inputs) {
    points.push_back(Numbers(shape, GetParam() + points.size()));
  }
  ExpectGradients(points, [&](Graph&, const std::vector<Tensor>& xs) {
    return Einsum(xs, e.output);
  });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomEinsumTest, ::testing::Range(0u, 40u));

TEST(Einsum, SecondOrderGradients) {
  ExpectSecondGradients({Numbers({io, batch}, 1), Numbers({io, hidden}, 2)},
                        [](Graph&, const std::vector<Tensor>& xs) {
                          return Einsum({xs[0], xs[1]}, {hidden, batch});
                        });
}

TEST(Einsum, GradientOfARepeatedInput) {
  ExpectSecondGradients({Numbers({batch, io}, 1)},
                        [](Graph&, const std::vector<Tensor>& xs) {
                          return Einsum({xs[0], xs[0]}, {batch});
                        });
}

TEST(Einsum, GradientOfADimensionOfOneInput) {
  // "io" is in no other factor: the gradient is broadcast along it.
  ExpectSecondGradients({Numbers({batch, io}, 1), Numbers({batch}, 2)},
                        [](Graph&, const std::vector<Tensor>& xs) {
                          return Einsum({xs[0], xs[1]}, {batch});
                        });
}

TEST(EinsumDType, TheResultMayBeWiderThanTheInputs) {
  Graph graph;
  const Dimension i{"i", 2}, j{"j", 3}, k{"k", 4};
  for (DType dtype : {kBFloat16, kFloat16, kFloat32}) {
    const Tensor x = Ones(graph, dtype, {i, k}), y = Ones(graph, dtype, {k, j}),
                 z = Ones(graph, dtype, {j});
    for (const std::vector<Tensor>& inputs :
         {std::vector<Tensor>{x, y}, {x}, {x, y, z}}) {
      const Tensor wide = Einsum(inputs, {i}, {.dtype = kFloat32});
      EXPECT_EQ(wide.dtype(), kFloat32);
      EXPECT_EQ(Einsum(inputs, {i}, {.dtype = dtype}).dtype(), dtype);
      EXPECT_EQ(wide.operation()->attributes(), dtype == kFloat32 ? "" : "f32");
      const auto values = Interpret(graph, {}, {wide});
      ASSERT_OK(values);
      EXPECT_EQ((*values)[0].dtype, kFloat32);
      EXPECT_EQ((*values)[0].data[0], inputs.size() == 1 ? 4 : 12);
    }
  }
  ASSERT_OK(graph.status());
}

// Gradients have the dtype of the inputs.
TEST(EinsumDType, GradientsHaveTheDTypeOfTheInputs) {
  Graph graph;
  const Dimension i{"i", 2}, k{"k", 4};
  const Tensor x = Input(graph, "x", kBFloat16, {i, k}),
               y = Input(graph, "y", kBFloat16, {k});
  const Tensor z = Einsum({x, y}, {i}, {.dtype = kFloat32});
  const std::vector<Tensor> gradients = Gradients(z, {x, y});
  ASSERT_OK(graph.status());
  for (const Tensor& gradient : gradients) {
    EXPECT_EQ(gradient.dtype(), kBFloat16);
  }
}

TEST(EinsumDTypeErrors, NeitherTheInputsDTypeNorF32) {
  const struct {
    DType inputs, result;
    const char* words;
  } cases[] = {
      {kFloat32, kBFloat16, "an einsum of f32 gives f32, not bf16"},
      {kBFloat16, kFloat16, "an einsum of bf16 gives bf16 or f32, not f16"},
      {kInt32, kFloat32, "an einsum of i32 gives i32, not f32"},
  };
  for (const auto& c : cases) {
    Graph graph;
    const Dimension k{"k", 4};
    Einsum({Ones(graph, c.inputs, {k})}, {}, {.dtype = c.result});
    EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr(c.words)));
    EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr("einsum_test")));
  }
}

TEST(EinsumErrors, OneNameOfTwoSizes) {
  Graph graph;
  const Tensor h =
      Input(graph, "h", kFloat32, {{"batch", 64}, {"hidden", 2048}});
  const Tensor w2 =
      Input(graph, "w2", kFloat32, {{"hidden", 2050}, {"io", 512}});
  const Shape out = {{"batch", 64}, {"io", 512}};
  // clang-format off
  const std::string here = MTF_HERE; const Tensor y = Einsum({h, w2}, out);
  // clang-format on
  EXPECT_EQ(
      ErrorText(graph.status()),
      absl::StrCat("INVALID_ARGUMENT dimension \"hidden\" is 2048 in \"h\" but "
                   "2050 in \"w2\" (einsum, ",
                   here,
                   "\n"
                   "  inputs   h  f32[batch=64, hidden=2048]\n"
                   "           w2 f32[hidden=2050, io=512]\n"
                   "  output   [batch=64, io=512]\n"
                   "  help     give one size to the name, or Rename() one of "
                   "them"));
  // The call returns a tensor of the intended shape.
  EXPECT_EQ(y.shape(), Shape({{"batch", 64}, {"io", 512}}));
}

TEST(EinsumErrors, OutputOfAnotherSize) {
  ExpectError(
      [](Graph& g) {
        Einsum({Ones(g, kFloat32, {batch})}, {{"batch", 4}});
      },
      {"\"batch\" is 3 in \"constant\" but 4 in the output"});
}

TEST(EinsumErrors, OutputDimensionInNoInput) {
  ExpectError([](Graph& g) { Einsum({Ones(g, kFloat32, {batch})}, {io}); },
              {"output dimension \"io\" is in no input", "Broadcast()"});
}

TEST(EinsumErrors, TwoDTypes) {
  ExpectError(
      [](Graph& g) {
        Einsum({Ones(g, kFloat32, {batch}), Ones(g, kBFloat16, {batch})}, {});
      },
      {"\"constant\" is f32 but \"constant_1\" is bf16", "Cast()"});
}

TEST(EinsumErrors, Bool) {
  ExpectError([](Graph& g) { Einsum({Ones(g, kBool, {batch})}, {}); },
              {"not bool", "Cast()"});
}

TEST(EinsumErrors, EmptyTensorAmongInputs) {
  ExpectError(
      [](Graph& g) {
        Einsum({Ones(g, kFloat32, {batch}), Tensor()}, {});
      },
      {"input 1 is an empty Tensor"});
}

TEST(EinsumErrors, TensorOfAnotherGraph) {
  Graph other;
  const Tensor stranger = Ones(other, kFloat32, {batch});
  ExpectError(
      [&](Graph& g) {
        Einsum({Ones(g, kFloat32, {batch}), stranger}, {});
      },
      {"input \"constant\" belongs to another graph"});
}

TEST(EinsumErrors, RepeatedOutputDimension) {
  ExpectError(
      [](Graph& g) {
        Einsum({Ones(g, kFloat32, {batch})}, {batch, batch});
      },
      {"\"batch\" occurs twice"});
}

TEST(EinsumErrors, NoInputsGiveAnEmptyTensor) {
  EXPECT_FALSE(Einsum({}, {}).valid());
  EXPECT_FALSE(Einsum({Tensor()}, {batch}).valid());
}

TEST(EinsumErrors, FirstErrorIsKept) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {batch});
  const Tensor bad = Einsum({x}, {io});
  const Tensor worse = Einsum({bad, x}, {hidden});
  EXPECT_EQ(worse.shape(), Shape({hidden}));
  EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr("\"io\"")));
  const std::vector<Tensor> g = Gradients(worse, {x});
  EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr("\"io\"")));
  EXPECT_EQ(g.size(), 1u);
}

}  // namespace
}  // namespace mtf
