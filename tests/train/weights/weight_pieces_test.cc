// SPDX-License-Identifier: Apache-2.0
#include "train/weights/weight_pieces.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/constant.h"
#include "ops/variable.h"
#include "tests/matchers.h"

namespace mtf::train {
namespace {

// The index in the file of the element `index` of the parameter, by the rule's
// definition: each dimension of the tensor is the mixed-radix number of its
// factors.
int64_t IndexInFile(const nn::ParameterWeights& weights,
                    const std::vector<int64_t>& index) {
  int64_t result = 0;
  for (const auto& factors : weights.dims) {
    for (const nn::WeightFactor& factor : factors) {
      result = result * factor.size +
               (factor.dim < 0 ? factor.index : index[factor.dim]);
    }
  }
  return result;
}

// The elements of `piece` of a row-major tensor of `sizes`, as their indices.
std::vector<float> ElementsOf(const WeightPiece& piece,
                              const std::vector<int64_t>& sizes) {
  std::vector<float> elements;
  ForEachRun(piece.ranges, AllElements(sizes), piece.ranges,
             [&](int64_t from, int64_t, int64_t count) {
               for (int64_t i = 0; i < count; ++i) {
                 elements.push_back(static_cast<float>(from + i));
               }
               return true;
             });
  return elements;
}

const Shape kShape = {{"a", 3}, {"b", 4}, {"c", 5}};

TEST(WeightPieces, AreScatteredInTheDtypeOfTheParameter) {
  // Columns 1 and 3 of a [3, 4] parameter.
  WeightPiece piece;
  piece.ranges = {{0, 3}, {0, 2}};
  piece.sizes = {3, 2};
  piece.strides = {4, 2};
  piece.offset = 1;
  const std::vector<float> elements = {0.1f, -2.7f, 1e-6f, 3, 65519, 1e30f};
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    HostTensor parameter({{"a", 3}, {"b", 4}}, dtype);
    ScatterPiece(piece, elements, dtype, parameter.data());
    for (int i = 0; i < 12; ++i) {
      const double expected =
          i % 2 == 0 ? 0 : RoundToDType(elements[i / 2], dtype);
      EXPECT_EQ(LoadElement(parameter.data(), dtype, i), expected)
          << DTypeName(dtype) << " " << i;
    }
  }
}

// Every range of a parameter gets the elements that the rule says, for rules of
// every kind.
TEST(WeightPieces, AreTheElementsOfTheRule) {
  std::mt19937 random(5);
  for (const char* dims :
       {"", "a b c", "c b a", "b (a c)", "(c b) a", "(a b c)", "(c a b)",
        "1 (b a) 1 c", "(1/3 a b) c", "c (a 2/5 b)", "c (b a 0/2)", "b c"}) {
    const bool stacks = std::string(dims) == "b c";
    Graph graph;
    Variable(graph, "p", Zeros(graph, kFloat32, kShape));
    const auto resolved = nn::ResolveWeights(
        graph, {.rules = {{"p", stacks ? "t.{a}" : "t", dims}}});
    ASSERT_OK(resolved);
    const nn::ParameterWeights& weights = (*resolved)[0];
    ASSERT_EQ(weights.tensors.size(), stacks ? 3u : 1u);
    const std::vector<int64_t> sizes = weights.TensorSizes();
    for (int round = 0; round < 50; ++round) {
      ElementRanges wanted;
      for (const Dimension& dim : kShape) {
        const int64_t begin = static_cast<int64_t>(random()) % dim.size;
        wanted.push_back(
            {begin, static_cast<int64_t>(random()) % (dim.size - begin + 1)});
      }
      std::vector<float> values(NumElements(wanted), -1);
      std::vector<int> tensor_of(values.size(), 0);
      int64_t total = 0;
      std::vector<WeightPiece> pieces;
      for (const WeightPiece& piece : PiecesOf(weights, kShape, wanted)) {
        // Blocks of a piece together are the piece.
        const int64_t most = 1 + static_cast<int64_t>(random()) % 30;
        for (const WeightPiece& block : BlocksOf(piece, most)) {
          EXPECT_LE(block.num_elements(), most);
          pieces.push_back(block);
        }
      }
      for (const WeightPiece& piece : pieces) {
        ASSERT_TRUE(IsWithin(piece.ranges, sizes));
        std::vector<float> elements = ElementsOf(piece, sizes);
        total += static_cast<int64_t>(elements.size());
        for (float& element : elements) {
          element += static_cast<float>(1000 * piece.tensor);
        }
        ScatterPiece(piece, elements, kFloat32, values.data());
        std::vector<float> gathered(elements.size());
        GatherPiece(piece, values, absl::MakeSpan(gathered));
        EXPECT_EQ(gathered, elements);
      }
      EXPECT_EQ(total, NumElements(wanted));
      size_t at = 0;
      for (int64_t a = 0; a < wanted[0].size; ++a) {
        for (int64_t b = 0; b < wanted[1].size; ++b) {
          for (int64_t c = 0; c < wanted[2].size; ++c) {
            const std::vector<int64_t> index = {
                wanted[0].begin + a, wanted[1].begin + b, wanted[2].begin + c};
            const int64_t expected =
                IndexInFile(weights, index) + (stacks ? 1000 * index[0] : 0);
            EXPECT_EQ(values[at++], static_cast<float>(expected)) << dims;
          }
        }
      }
    }
  }
}

// A layout that shards the first of merged dimensions, or one that is alone,
// reads one range.
TEST(WeightPieces, AreFewForUsualLayouts) {
  Graph graph;
  Variable(graph, "p", Zeros(graph, kFloat32, kShape));
  const auto resolved =
      nn::ResolveWeights(graph, {.rules = {{"p", "t", "(a b) c"}}});
  ASSERT_OK(resolved);
  const auto count = [&](const ElementRanges& wanted) {
    return PiecesOf((*resolved)[0], kShape, wanted).size();
  };
  EXPECT_EQ(count({{1, 2}, {0, 4}, {0, 5}}), 1u);
  EXPECT_EQ(count({{0, 3}, {0, 4}, {2, 2}}), 1u);
  EXPECT_EQ(count({{0, 3}, {2, 2}, {0, 5}}), 3u);
  EXPECT_EQ(count({{0, 0}, {0, 4}, {0, 5}}), 0u);
}

TEST(WeightPieces, AreReadInBlocks) {
  Graph graph;
  Variable(graph, "p", Zeros(graph, kFloat32, kShape));
  const auto sizes = [&](const char* dims,
                         const ElementRanges& wanted = {{0, 3}, {0, 4}, {0, 5}},
                         int64_t most = 25) {
    const auto resolved =
        nn::ResolveWeights(graph, {.rules = {{"p", "t", dims}}});
    EXPECT_OK(resolved);
    std::vector<int64_t> elements;
    for (const WeightPiece& piece : PiecesOf((*resolved)[0], kShape, wanted)) {
      for (const WeightPiece& block : BlocksOf(piece, most)) {
        elements.push_back(block.num_elements());
      }
    }
    return elements;
  };
  EXPECT_EQ(sizes("a b c"), (std::vector<int64_t>{20, 20, 20}));
  EXPECT_EQ(sizes("(b a) c"), (std::vector<int64_t>{15, 15, 15, 15}));
  EXPECT_EQ(sizes("c (a b)"), (std::vector<int64_t>{24, 24, 12}));
  // One head of a rank, whose rows are split.
  EXPECT_EQ(sizes("(a b) c", {{1, 1}, {0, 4}, {0, 5}}, 10),
            (std::vector<int64_t>{10, 10}));
  EXPECT_EQ(sizes("1 (0/3 a) c b", {{1, 1}, {0, 4}, {0, 5}}, 8),
            (std::vector<int64_t>{8, 8, 4}));
  // A row that is too large is split, too.
  EXPECT_EQ(
      sizes("a b c", {{0, 2}, {0, 4}, {0, 5}}, 4),
      (std::vector<int64_t>{4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1}));
}

}  // namespace
}  // namespace mtf::train
