// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/embedding.h"

#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 2};
const Dimension kLength{"length", 3};
const Dimension kVocab{"vocab", 4};
const Dimension kModel{"d_model", 2};
const std::vector<int32_t>& kTokens =
    *new std::vector<int32_t>{3, 0, 3, 1, 1, 3};

TEST(Embedding, LooksUpRows) {
  OracleGraph o;
  const Tensor tokens = o.Integers("tokens", {kBatch, kLength}, kTokens);
  const Tensor x = nn::Embedding(tokens, kVocab, kModel);
  EXPECT_EQ(x.shape(), Shape({kBatch, kLength, kModel}));
  const std::vector<double> actual = o.Run(x);
  const auto& table = o.Value("embedding/table");
  std::vector<double> expected;
  for (int32_t token : kTokens) {
    expected.push_back(table[token * 2]);
    expected.push_back(table[token * 2 + 1]);
  }
  testing::ExpectNear(actual, expected);
  o.ExpectGradientsOf(testing::Probe(o, x));
}

TEST(Embedding, GivesTheDTypeOfTheActivations) {
  Graph graph;
  const Tensor tokens = Input(graph, "tokens", kInt32, {kBatch});
  const Tensor x = nn::Embedding(tokens, kVocab, kModel, {.dtype = kBFloat16});
  EXPECT_EQ(x.dtype(), kBFloat16);
  EXPECT_EQ(graph.variables()[0].dtype, kFloat32);
}

TEST(PositionEmbedding, AddsARowForEachPosition) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Tensor y = nn::PositionEmbedding(x, kLength, kModel);
  EXPECT_EQ(y.shape(), x.shape());
  const std::vector<double> actual = o.Run(y);
  std::vector<double> expected = o.Value("x");
  const auto& table = o.Value("position_embedding/table");
  for (int i = 0; i < 12; ++i) expected[i] += table[i % 6];
  testing::ExpectNear(actual, expected);
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(EmbeddingErrors, FloatTokens) {
  Graph graph;
  const Tensor tokens = Input(graph, "tokens", kFloat32, {kBatch});
  nn::Embedding(tokens, kVocab, kModel);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tokens must have an integer dtype, not f32 "
                                 "(embedding, embedding_test.cc:")));
}

TEST(EmbeddingErrors, TokensOverTheVocabulary) {
  Graph graph;
  const Tensor tokens = Input(graph, "tokens", kInt32, {kBatch, kVocab});
  nn::Embedding(tokens, kVocab, kModel);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dimension \"vocab\" of the table is also in "
                                 "\"tokens\" (embedding, "
                                 "embedding_test.cc:")));
}

TEST(EmbeddingErrors, ATokenOutsideOfTheVocabulary) {
  OracleGraph o;
  const Tensor tokens = o.Integers("tokens", {kBatch}, {0, 4});
  const Tensor x = nn::Embedding(tokens, kVocab, kModel);
  o.Fill();
  EXPECT_THAT(Interpret(o.graph, o.feeds, {x}, &o.variables),
              StatusIs(absl::StatusCode::kOutOfRange,
                       AllOf(HasSubstr("index 4"), HasSubstr("\"vocab\""),
                             HasSubstr("embedding_test.cc:"))));
}

TEST(EmbeddingErrors, ATableOfATable) {
  Graph graph;
  const Tensor table = nn::EmbeddingTable(graph, kVocab, kModel);
  ASSERT_OK(graph.status());
  nn::EmbeddingTable(graph, kVocab, kModel, {.table = table});
  EXPECT_THAT(
      graph.status(),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          AllOf(HasSubstr("EmbeddingTable() creates a table and takes none "
                          "(embedding_table \"embedding\", "
                          "embedding_test.cc:"),
                HasSubstr("give .table to Embedding()"))));
}

TEST(EmbeddingErrors, ATableOfAnotherDType) {
  Graph graph;
  nn::EmbeddingTable(graph, kVocab, kModel, {.dtype = kBFloat16});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("a table is f32, not bf16 "
                                       "(embedding_table \"embedding\", "
                                       "embedding_test.cc:"),
                             HasSubstr("to Embedding()"))));
}

TEST(EmbeddingErrors, AStddevThatIsNegative) {
  Graph graph;
  const Tensor tokens = Input(graph, "tokens", kInt32, {kBatch});
  nn::Embedding(tokens, kVocab, kModel, {.stddev = -1});
  EXPECT_THAT(
      graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("stddev is -1, not a non-negative number of f32 "
                         "(random_normal, embedding_test.cc:")));
}

TEST(EmbeddingErrors, PositionsOfAnotherLength) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kLength, kModel});
  nn::PositionEmbedding(x, {"length", 4}, kModel);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dimension \"length\" is 4 in the call but 3 "
                                 "in \"x\" (position_embedding, "
                                 "embedding_test.cc:")));
}

}  // namespace
}  // namespace mtf
