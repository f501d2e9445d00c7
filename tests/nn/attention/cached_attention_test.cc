// SPDX-License-Identifier: Apache-2.0
//
// Decoding with a cache gives the values of a pass over the complete sequence.
// tests/train/session/cached_decoding_test.cc checks layouts.
#include "nn/attention/cached_attention.h"

#include <algorithm>
#include <string>

#include "ops/reshape.h"
#include "ops/slice.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 2}, kLength{"length", 5}, kModel{"d_model", 3},
    kHeads{"heads", 2}, kKey{"d_kv", 4}, kGroups{"groups", 3},
    kMemory{"memory_length", 6}, kSource{"source", 4};

nn::AttentionOptions Options(const Dimension& length) {
  return {.length = length, .heads = kHeads, .d_kv = kKey, .causal = true};
}

// Decodes `count` positions a step, and compares with SelfAttention.
void ExpectDecoding(nn::AttentionOptions options, int64_t count) {
  OracleGraph o;
  const Dimension now{"now", count};
  const Tensor all = o.Parameter("all", {kBatch, kLength, kModel});
  Tensor full;
  {
    const Scope scope(o.graph, "net");
    options.length = kLength;
    full = nn::SelfAttention(all, options);
  }
  options.length = now;
  options.memory_length = kMemory;
  const nn::KeyValueCache cache =
      nn::CacheVariables(o.graph, {kBatch}, options);
  const Tensor x = Input(o.graph, "x", kFloat32, {kBatch, now, kModel});
  const Tensor at = Input(o.graph, "at", kInt32, {kBatch});
  nn::CachedAttentionResult y;
  {
    const Scope scope(o.graph, "net", Scope::kReuse);
    y = nn::CachedSelfAttention(x, cache, at, options);
  }
  const Tensor write = nn::WriteCache(cache, y.cache);
  ASSERT_OK(o.graph.status());
  o.feeds["x"] = HostTensor::FromDoubles(
      x.shape(), kFloat32, std::vector<double>(x.shape().num_elements(), 0.0));
  o.feeds["at"] = HostTensor::Of<int32_t>({kBatch}, std::vector<int32_t>{0, 0});
  const std::vector<double> expected = o.Run(full);
  const auto& values = o.Value("all");
  const auto rows = [&](const std::vector<double>& from, int64_t begin) {
    std::vector<double> to;
    for (int b = 0; b < 2; ++b) {
      const auto first = from.begin() + (b * 5 + begin) * 3;
      to.insert(to.end(), first, first + count * 3);
    }
    return to;
  };
  // The oracle keeps doubles, but feeds are f32.
  for (int32_t i = 0; i + count <= 5; i += static_cast<int32_t>(count)) {
    o.feeds["x"] =
        HostTensor::FromDoubles(x.shape(), kFloat32, rows(values, i));
    o.feeds["at"] =
        HostTensor::Of<int32_t>({kBatch}, std::vector<int32_t>{i, i});
    const auto results = o.RunAll({y.output, write});
    testing::ExpectNear(results[0], rows(expected, i), 1e-5);
  }
}

TEST(CachedSelfAttention, GivesTheValuesOfSelfAttention) {
  for (const int64_t count : {1, 2}) {
    SCOPED_TRACE(count);
    nn::AttentionOptions options = Options(kLength);
    ExpectDecoding(options, count);
    options.groups = kGroups;
    options.rotary = nn::RotaryOptions{.base = 100};
    ExpectDecoding(options, count);
    options.window = 2;
    options.d_v = {"d_v", 2};
    options.bias = true;
    ExpectDecoding(options, count);
  }
}

TEST(AttendToCache, WithProjectMemoryIsMultiHeadAttention) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Tensor memory =
      o.Parameter("memory", {kBatch, kSource, {"d_source", 2}});
  nn::AttentionOptions options = Options(kLength);
  options.causal = false;
  options.memory_length = kSource;
  options.groups = kGroups;
  options.name = "cross";
  Tensor both, halves;
  nn::KeyValueCache cache;
  {
    const Scope scope(o.graph, "net");
    both = nn::MultiHeadAttention(x, memory, options);
  }
  {
    const Scope scope(o.graph, "net", Scope::kReuse);
    cache = nn::ProjectMemory(memory, options);
  }
  {
    const Scope scope(o.graph, "net", Scope::kReuse);
    halves = nn::AttendToCache(x, cache, options);
  }
  ASSERT_OK(o.graph.status());
  testing::ExpectNear(o.Run(halves), o.Run(both), 1e-12);
  // Its variables have the shapes of what is projected.
  const nn::KeyValueCache variables =
      nn::CacheVariables(o.graph, {kBatch}, options);
  EXPECT_EQ(variables.keys.shape(), cache.keys.shape());
  EXPECT_EQ(variables.values.shape(), cache.values.shape());
}

TEST(CachedAttentionErrors, SayWhatIsWrong) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const Dimension now{"now", 1};
  const auto error = [&](nn::AttentionOptions options, Shape position,
                         Shape batch, DType dtype = kInt32) {
    Graph graph;
    nn::AttentionOptions of_cache = Options(now);
    of_cache.memory_length = kMemory;
    const nn::KeyValueCache cache = nn::CacheVariables(graph, batch, of_cache);
    nn::CachedSelfAttention(Input(graph, "x", kFloat32, {kBatch, now, kModel}),
                            cache, Input(graph, "at", dtype, position),
                            options);
    return graph.status();
  };
  nn::AttentionOptions options = Options(now);
  EXPECT_THAT(error(options, {now}, {kBatch}),
              StatusIs(kInvalid,
                       AllOf(HasSubstr("the position \"at\" has the dimension "
                                       "\"now\", which is not of the batch"),
                             HasSubstr("cached_attention_test.cc:"))));
  EXPECT_THAT(error(options, {}, {kBatch}, kFloat32),
              StatusIs(kInvalid, HasSubstr("the position must have an integer "
                                           "dtype")));
  EXPECT_THAT(
      error(options, {}, {}),
      StatusIs(kInvalid, HasSubstr("the cached keys are [memory_length=6, "
                                   "heads=2, d_kv=4], not [batch=2, "
                                   "memory_length=6, heads=2, d_kv=4]")));
  options.causal = false;
  EXPECT_THAT(error(options, {}, {kBatch}),
              StatusIs(kInvalid, HasSubstr(".causal is not set")));
  options.heads = Dimension();
  EXPECT_THAT(error(options, {}, {kBatch}),
              StatusIs(kInvalid, HasSubstr("option .heads is missing")));
  Graph graph;
  nn::CacheVariables(graph, {kBatch}, Options(now));
  EXPECT_THAT(graph.status(),
              StatusIs(kInvalid, HasSubstr(".memory_length is missing (cache, "
                                           "cached_attention_test.cc:")));
}

}  // namespace
}  // namespace mtf
