// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/memory_compressed_attention.h"

#include <algorithm>

#include "ops/reshape.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

const Dimension kLength{"length", 7}, kModel{"d_model", 2}, kHeads{"heads", 2},
    kKey{"d_kv", 2};

TEST(CompressMean, IsTheMeanOfEachBlock) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kLength, kModel});
  for (const int factor : {1, 2, 3, 7, 9}) {
    const Tensor y = nn::CompressMean(x, "length", factor);
    const std::vector<double> actual = o.Run(y);
    std::vector<double> expected;
    for (int begin = 0; begin < 7; begin += factor) {
      for (int d = 0; d < 2; ++d) {
        const int end = std::min(begin + factor, 7);
        double sum = 0;
        for (int i = begin; i < end; ++i) sum += o.Value("x")[i * 2 + d];
        expected.push_back(sum / (end - begin));
      }
    }
    testing::ExpectNear(actual, expected, 1e-9);
    o.ExpectGradientsOf(testing::Probe(o, y));
  }
}

TEST(MemoryCompressedAttention, AttendsToMeansThatAreNotAfterTheQuery) {
  for (const bool causal : {false, true}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kLength, kModel});
    const nn::AttentionOptions options = {
        .length = kLength, .heads = kHeads, .d_kv = kKey, .causal = causal};
    Tensor y, expected;
    {
      const Scope scope(o.graph, "net");
      y = nn::MemoryCompressedAttention(x, 3, options);
    }
    {
      const Scope scope(o.graph, "net", Scope::kReuse);
      const Scope layer(o.graph, "memory_compressed", Scope::kReuse);
      nn::AttentionOptions same = options;
      same.causal = false;
      same.memory_length = {"memory_length", 3};
      if (causal) {
        // Means of positions 0..2, 3..5 and 6.
        std::vector<double> visible;
        for (int l = 0; l < 7; ++l) {
          for (const int last : {2, 5, 6}) visible.push_back(last <= l);
        }
        same.mask =
            Constant(o.graph, visible, kBool, {kLength, same.memory_length});
      }
      const Tensor memory =
          Rename(nn::CompressMean(x, "length", 3), "length", "memory_length");
      expected = nn::MultiHeadAttention(x, memory, same);
    }
    ASSERT_OK(o.graph.status());
    testing::ExpectNear(o.Run(y), o.Run(expected), 1e-12);
    o.ExpectGradientsOf(testing::Probe(o, y));
  }
}

TEST(MemoryCompressedErrors, SayWhatIsWrong) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const auto error = [](int64_t factor, nn::AttentionOptions options) {
    Graph graph;
    options.heads = kHeads;
    options.d_kv = kKey;
    nn::MemoryCompressedAttention(
        Input(graph, "x", kFloat32, {kLength, kModel}), factor, options);
    return graph.status();
  };
  EXPECT_THAT(
      error(0, {.length = kLength}),
      StatusIs(kInvalid, HasSubstr("the factor is 0, less than 1 "
                                   "(memory_compressed, "
                                   "memory_compressed_attention_test")));
  EXPECT_THAT(error(2, {.length = kLength, .window = 2}),
              StatusIs(kInvalid, HasSubstr("keys are means of several")));
  EXPECT_THAT(error(2, {}),
              StatusIs(kInvalid, HasSubstr(".length is missing")));
  Graph graph;
  nn::CompressMean(Input(graph, "x", kInt32, {kLength}), "length", 2);
  EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr("compress_mean")));
}

}  // namespace
}  // namespace mtf
