// SPDX-License-Identifier: Apache-2.0
// The values that the forward pass of a layer leaves for the backward pass,
// compared with the terms of Korthikanti et al., 2022.
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tests/lowering/gpt_plan.h"
#include "tests/lowering/gpt_recompute.h"
#include "tests/lowering/gpt_saved.h"

namespace mtf::testing {
namespace {

// How a value is sharded: like values inside a block, like values between
// blocks, or like values that enter a block from there.
enum class Region { kInside, kBetween, kEntering };

// A value that the forward pass of a layer leaves, with its bytes per element
// of a [length, batch, d_model] tensor, or of a [heads, length, length, batch]
// tensor, or of a reduction of one of them.
struct Term {
  const char* value;
  enum { kModel, kWeights, kPositions, kRows } unit;
  int ours, published;
  Region region;
  // The value inside the block that is kept instead, if the gathered value is
  // kept; "" if they are the same.
  const char* inside = "";
};
using Terms = absl::Span<const Term>;

// Korthikanti et al. count 34 sbh + 5 a s^2 b: of those, 10 sbh are between
// blocks and on the way into them, and the rest is inside. We differ in two
// points:
// * a layer norm also keeps three f32 numbers per position;
// * a softmax keeps exp(x - max) in f32 where they count its 16-bit result, and
//   two f32 numbers per row.
constexpr Term kTerms[] = {
    {"layer_0/add_1", Term::kModel, 2, 2, Region::kBetween},
    {"layer_1/layer_norm/div", Term::kPositions, 4, 0, Region::kBetween},
    {"layer_1/layer_norm/add", Term::kPositions, 4, 0, Region::kBetween},
    {"layer_1/layer_norm/rsqrt", Term::kPositions, 4, 0, Region::kBetween},
    // The input of all three projections.
    {"layer_1/layer_norm/cast_1", Term::kModel, 2, 2, Region::kEntering,
     "layer_1/reshape_1"},
    // Queries, keys, values.
    {"layer_1/attention/einsum", Term::kModel, 2, 2, Region::kInside},
    {"layer_1/attention/einsum_1", Term::kModel, 2, 2, Region::kInside},
    {"layer_1/attention/einsum_2", Term::kModel, 2, 2, Region::kInside},
    // Softmax, mask of its dropout, result.
    {"layer_1/attention/dot_product/softmax/exp", Term::kWeights, 4, 2,
     Region::kInside},
    {"layer_1/attention/dot_product/softmax/reduce_sum", Term::kRows, 4, 0,
     Region::kInside},
    {"layer_1/attention/dot_product/softmax/reciprocal", Term::kRows, 4, 0,
     Region::kInside},
    {"layer_1/attention/dot_product/greater_equal_1", Term::kWeights, 1, 1,
     Region::kInside},
    {"layer_1/attention/dot_product/select_1", Term::kWeights, 2, 2,
     Region::kInside},
    // The input of the output projection, and the mask of its dropout.
    {"layer_1/attention/dot_product/einsum_1", Term::kModel, 2, 2,
     Region::kInside},
    {"layer_1/greater_equal", Term::kModel, 1, 1, Region::kBetween},
    // The feed-forward layer: its norm, its input, GELU before and after, the
    // mask.
    {"layer_1/add", Term::kModel, 2, 2, Region::kBetween},
    {"layer_1/layer_norm_1/div", Term::kPositions, 4, 0, Region::kBetween},
    {"layer_1/layer_norm_1/add", Term::kPositions, 4, 0, Region::kBetween},
    {"layer_1/layer_norm_1/rsqrt", Term::kPositions, 4, 0, Region::kBetween},
    {"layer_1/layer_norm_1/cast_1", Term::kModel, 2, 2, Region::kEntering,
     "layer_1/reshape_2_1"},
    {"layer_1/feed_forward/einsum", Term::kModel, 8, 8, Region::kInside},
    {"layer_1/feed_forward/gelu", Term::kModel, 8, 8, Region::kInside},
    {"layer_1/greater_equal_1", Term::kModel, 1, 1, Region::kBetween},
};

// With attention rematerialized, everything they keep, 34 sbh, and one more
// value: the mask of the dropout of the weights. They draw it again from the
// state of a generator; random numbers here depend on the call that draws them,
// and a second call draws others. A layer norm is recomputed from its 16-bit
// input.
constexpr Term kAttentionRematerialized[] = {
    {"layer_0/add_1", Term::kModel, 2, 2, Region::kBetween},
    {"layer_1/layer_norm/cast_1", Term::kModel, 2, 2, Region::kEntering,
     "layer_1/reshape_1"},
    {"layer_1/einsum", Term::kModel, 2, 2, Region::kInside},
    {"layer_1/einsum_1", Term::kModel, 2, 2, Region::kInside},
    {"layer_1/einsum_2", Term::kModel, 2, 2, Region::kInside},
    {"layer_1/greater_equal", Term::kWeights, 1, 0, Region::kInside},
    {"layer_1/core/einsum_1", Term::kModel, 2, 2, Region::kInside},
    {"layer_1/greater_equal_1", Term::kModel, 1, 1, Region::kBetween},
    {"layer_1/add", Term::kModel, 2, 2, Region::kBetween},
    {"layer_1/layer_norm_1/cast_1", Term::kModel, 2, 2, Region::kEntering,
     "layer_1/reshape_2_1"},
    {"layer_1/einsum_4", Term::kModel, 8, 8, Region::kInside},
    {"layer_1/gelu", Term::kModel, 8, 8, Region::kInside},
    {"layer_1/greater_equal_2", Term::kModel, 1, 1, Region::kBetween},
};

// With layers rematerialized: their input, and all three masks.
constexpr Term kLayersRematerialized[] = {
    {"layer_0/add_1", Term::kModel, 2, 2, Region::kBetween},
    {"layer_1/greater_equal", Term::kWeights, 1, 0, Region::kInside},
    {"layer_1/greater_equal_1", Term::kModel, 1, 0, Region::kBetween},
    {"layer_1/greater_equal_2", Term::kModel, 1, 0, Region::kBetween},
};

int64_t ElementsOf(const Term& term, const Published& p) {
  constexpr int64_t kS = 2048;
  switch (term.unit) {
    case Term::kModel:
      return kS * p.batch * p.h;
    case Term::kWeights:
      return p.heads * kS * kS * p.batch;
    case Term::kPositions:
      return kS * p.batch;
    case Term::kRows:
      return p.heads * kS * p.batch;
  }
  return 0;
}

// Their total in GiB, for the first of p.pipeline stages.
double PublishedGiB(Terms terms, const Published& p, bool sequence) {
  double bytes = 0;
  for (const Term& term : terms) {
    const bool is_sharded = sequence || term.region == Region::kInside;
    bytes += static_cast<double>(term.published * ElementsOf(term, p)) /
             static_cast<double>(is_sharded ? p.tensor : 1);
  }
  const double in_flight =
      p.interleaved == 1
          ? 1.0
          : 1 + static_cast<double>(p.pipeline - 1) /
                    static_cast<double>(p.pipeline * p.interleaved);
  return bytes * static_cast<double>(p.layers) * in_flight / kGiB;
}

// Our bytes of a layer, by value. A value that enters a block is kept as the
// block reads it, even if it was sharded before, unless it is gathered again.
std::map<std::string, int64_t> Ours(Terms terms, const Published& p,
                                    bool sequence, bool regathers) {
  std::map<std::string, int64_t> bytes;
  for (const Term& term : terms) {
    const bool inside = term.region == Region::kEntering && !regathers;
    const bool is_sharded =
        term.region == Region::kInside || (sequence && !inside);
    bytes[sequence && inside ? term.inside : term.value] =
        term.ours * ElementsOf(term, p) / (is_sharded ? p.tensor : 1);
  }
  return bytes;
}

const char* LayoutOf(bool sequence) {
  return sequence ? gpt_layouts::kSequence : gpt_layouts::kMegatron;
}

class PublishedActivations : public ::testing::TestWithParam<Published> {
 protected:
  // The values that a layer leaves in a program that rematerializes others.
  static std::map<std::string, int64_t> SavedBytes(
      const Published& p, bool sequence, const RecomputeOptions& options,
      double dropout = 0.1) {
    Saved saved[2];
    for (int layers : {1, 2}) {
      Graph graph;
      GptSizes sizes = SizesOf(p);
      sizes.layers = layers;
      sizes.dropout = dropout;
      const Gpt gpt = RecomputingGpt(graph, sizes, options).Build();
      const auto program =
          LowerText(graph, absl::StrCat("model:", p.tensor), LayoutOf(sequence),
                    {.fetches = {gpt.loss}, .updates = {gpt.step}});
      EXPECT_OK(program);
      if (program.ok()) saved[layers - 1] = SavedOf(graph, *program);
    }
    return (saved[1] - saved[0]).bytes;
  }
};

TEST_P(PublishedActivations, MatchTermByTerm) {
  const Published& p = GetParam();
  GptSizes sizes = SizesOf(p);
  sizes.dropout = 0.1;
  for (bool sequence : {false, true}) {
    EXPECT_NEAR(PublishedGiB(kTerms, p, sequence),
                sequence ? p.sequence_parallel : p.tensor_parallel, 1e-6);
    // They regather the values that enter a block, 2 (t-1)/t T h e more on the
    // wire (see GptBytes.SequenceParallel).
    EXPECT_EQ(PerLayer<Saved>(absl::StrCat("model:", p.tensor),
                              LayoutOf(sequence), sizes, AdamWStep, SavedOf)
                  .bytes,
              Ours(kTerms, p, sequence, false))
        << (sequence ? "sequence parallel" : "tensor parallel");
  }
}

TEST_P(PublishedActivations, MatchWhenAttentionIsRematerialized) {
  const Published& p = GetParam();
  for (bool sequence : {false, true}) {
    EXPECT_NEAR(PublishedGiB(kAttentionRematerialized, p, sequence),
                sequence ? p.selective_sequence : p.selective, 1e-6);
    for (bool regathers : {false, true}) {
      EXPECT_EQ(SavedBytes(p, sequence, {Recompute::kAttention, regathers}),
                Ours(kAttentionRematerialized, p, sequence, regathers))
          << sequence << regathers;
    }
  }
}

TEST_P(PublishedActivations, MatchWhenLayersAreRematerialized) {
  const Published& p = GetParam();
  EXPECT_NEAR(PublishedGiB(kLayersRematerialized, p, false), p.full, 1e-6);
  for (bool sequence : {false, true}) {
    EXPECT_EQ(SavedBytes(p, sequence, {Recompute::kLayer}),
              Ours(kLayersRematerialized, p, sequence, false));
  }
}

// Without dropout we keep exactly what they keep, to the byte.
TEST_P(PublishedActivations, MatchToTheByteWithoutDropout) {
  const Published& p = GetParam();
  const auto sum = [](const std::map<std::string, int64_t>& bytes) {
    int64_t all = 0;
    for (const auto& [name, count] : bytes) all += count;
    return all;
  };
  const int64_t sbh = 2048 * p.batch * p.h, t = p.tensor;
  const auto saved_bytes = [&](bool sequence, const RecomputeOptions& options) {
    return sum(SavedBytes(p, sequence, options, /*dropout=*/0));
  };
  // 10 + 24 / t, 34 / t and 2; all but the last include 2 for masks.
  EXPECT_EQ(saved_bytes(false, {Recompute::kAttention}),
            8 * sbh + 24 * sbh / t);
  EXPECT_EQ(saved_bytes(true, {Recompute::kAttention, true}), 32 * sbh / t);
  EXPECT_EQ(saved_bytes(false, {Recompute::kLayer}), 2 * sbh);
  EXPECT_EQ(saved_bytes(true, {Recompute::kLayer}), 2 * sbh / t);
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedActivations,
                         ::testing::ValuesIn(kPublished),
                         [](const auto& info) { return info.param.name; });

// In units of sbh: 34 published and ours; 5 as/h published and 7 as/h ours.
TEST(GptActivations, CoefficientsOfOneLayer) {
  int published[2] = {}, ours[2] = {};
  for (const Term& term : kTerms) {
    if (term.unit > Term::kWeights) continue;
    published[term.unit] += term.published;
    ours[term.unit] += term.ours;
  }
  EXPECT_EQ(published[Term::kModel], 34);
  EXPECT_EQ(published[Term::kWeights], 5);
  EXPECT_EQ(ours[Term::kModel], 34);
  EXPECT_EQ(ours[Term::kWeights], 7);
}

}  // namespace
}  // namespace mtf::testing
