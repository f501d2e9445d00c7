// SPDX-License-Identifier: Apache-2.0
//
// What the forward pass of a layer leaves for the backward pass, value by value
// beside the terms of Korthikanti et al., 2022.
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tests/lowering/gpt_plan.h"
#include "tests/lowering/gpt_recompute.h"
#include "tests/lowering/gpt_saved.h"

namespace mtf::testing {
namespace {

// How a value is cut: like what is inside of a block, like what is between
// blocks, or as what goes from there into a block.
enum class Place { kInside, kBetween, kEntering };

// A value that the forward pass of a layer leaves, and the bytes that it is
// counted with: for each element of a [length, batch, d_model] tensor, or of a
// [heads, length, length, batch] tensor where it has one, or of what is left of
// one after a reduction.
struct Term {
  const char* value;
  enum { kModel, kWeights, kPositions, kRows } unit;
  int ours, published;
  Place place;
  // What a block reads, where it is brought into the block for good: "" where
  // that is the value itself.
  const char* inside = "";
};
using ExpressionNumbering = absl::Span<const Term>;

// Korthikanti et al. count 34 sbh + 5 a s^2 b: of those, 10 sbh are between
// blocks and on the way into them, and the rest is inside. Where we differ:
//  * a layer norm keeps three f32 numbers for each position besides its input;
//  * a softmax keeps exp(x - max) in f32 where they count its 16-bit result,
//    and two f32 numbers for each row.
constexpr Term kTerms[] = {
    {"layer_0/add_1", Term::kModel, 2, 2, Place::kBetween},
    {"layer_1/layer_norm/div", Term::kPositions, 4, 0, Place::kBetween},
    {"layer_1/layer_norm/add", Term::kPositions, 4, 0, Place::kBetween},
    {"layer_1/layer_norm/rsqrt", Term::kPositions, 4, 0, Place::kBetween},
    // What all three projections read.
    {"layer_1/layer_norm/cast_1", Term::kModel, 2, 2, Place::kEntering,
     "layer_1/reshape_1"},
    // Queries, keys, values.
    {"layer_1/attention/einsum", Term::kModel, 2, 2, Place::kInside},
    {"layer_1/attention/einsum_1", Term::kModel, 2, 2, Place::kInside},
    {"layer_1/attention/einsum_2", Term::kModel, 2, 2, Place::kInside},
    // Softmax, mask of its dropout, what is left.
    {"layer_1/attention/dot_product/softmax/exp", Term::kWeights, 4, 2,
     Place::kInside},
    {"layer_1/attention/dot_product/softmax/reduce_sum", Term::kRows, 4, 0,
     Place::kInside},
    {"layer_1/attention/dot_product/softmax/reciprocal", Term::kRows, 4, 0,
     Place::kInside},
    {"layer_1/attention/dot_product/greater_equal_1", Term::kWeights, 1, 1,
     Place::kInside},
    {"layer_1/attention/dot_product/select_1", Term::kWeights, 2, 2,
     Place::kInside},
    // What the output projection reads, and the mask of its dropout.
    {"layer_1/attention/dot_product/einsum_1", Term::kModel, 2, 2,
     Place::kInside},
    {"layer_1/greater_equal", Term::kModel, 1, 1, Place::kBetween},
    // The feed-forward layer: its norm, what it reads, gelu before and after,
    // the mask.
    {"layer_1/add", Term::kModel, 2, 2, Place::kBetween},
    {"layer_1/layer_norm_1/div", Term::kPositions, 4, 0, Place::kBetween},
    {"layer_1/layer_norm_1/add", Term::kPositions, 4, 0, Place::kBetween},
    {"layer_1/layer_norm_1/rsqrt", Term::kPositions, 4, 0, Place::kBetween},
    {"layer_1/layer_norm_1/cast_1", Term::kModel, 2, 2, Place::kEntering,
     "layer_1/reshape_2_1"},
    {"layer_1/feed_forward/einsum", Term::kModel, 8, 8, Place::kInside},
    {"layer_1/feed_forward/gelu", Term::kModel, 8, 8, Place::kInside},
    {"layer_1/greater_equal_1", Term::kModel, 1, 1, Place::kBetween},
};

// Where attention is made again, all of what they keep, 34 sbh, and one value
// more: the mask of the dropout of its weights. They draw it again from the
// state of a generator; random numbers here follow from the call that draws
// them, and a second call draws others. A layer norm is made again from its
// input of 16 bits.
constexpr Term kWithoutAttention[] = {
    {"layer_0/add_1", Term::kModel, 2, 2, Place::kBetween},
    {"layer_1/layer_norm/cast_1", Term::kModel, 2, 2, Place::kEntering,
     "layer_1/reshape_1"},
    {"layer_1/einsum", Term::kModel, 2, 2, Place::kInside},
    {"layer_1/einsum_1", Term::kModel, 2, 2, Place::kInside},
    {"layer_1/einsum_2", Term::kModel, 2, 2, Place::kInside},
    {"layer_1/greater_equal", Term::kWeights, 1, 0, Place::kInside},
    {"layer_1/core/einsum_1", Term::kModel, 2, 2, Place::kInside},
    {"layer_1/greater_equal_1", Term::kModel, 1, 1, Place::kBetween},
    {"layer_1/add", Term::kModel, 2, 2, Place::kBetween},
    {"layer_1/layer_norm_1/cast_1", Term::kModel, 2, 2, Place::kEntering,
     "layer_1/reshape_2_1"},
    {"layer_1/einsum_4", Term::kModel, 8, 8, Place::kInside},
    {"layer_1/gelu", Term::kModel, 8, 8, Place::kInside},
    {"layer_1/greater_equal_2", Term::kModel, 1, 1, Place::kBetween},
};

// Where layers are made again: their input, and all three masks.
constexpr Term kOfLayers[] = {
    {"layer_0/add_1", Term::kModel, 2, 2, Place::kBetween},
    {"layer_1/greater_equal", Term::kWeights, 1, 0, Place::kInside},
    {"layer_1/greater_equal_1", Term::kModel, 1, 0, Place::kBetween},
    {"layer_1/greater_equal_2", Term::kModel, 1, 0, Place::kBetween},
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

// Theirs in GiB, of the first of p.pipeline stages.
double PublishedGiB(ExpressionNumbering terms, const Published& p,
                    bool sequence) {
  double bytes = 0;
  for (const Term& term : terms) {
    const bool cut = sequence || term.place == Place::kInside;
    bytes += static_cast<double>(term.published * ElementsOf(term, p)) /
             static_cast<double>(cut ? p.tensor : 1);
  }
  const double in_flight =
      p.interleaved == 1
          ? 1.0
          : 1 + static_cast<double>(p.pipeline - 1) /
                    static_cast<double>(p.pipeline * p.interleaved);
  return bytes * static_cast<double>(p.layers) * in_flight / kGiB;
}

// Ours of a layer, by value. What enters a block is kept as the block reads it,
// also where it is cut before, unless it is brought in again.
std::map<std::string, int64_t> Ours(ExpressionNumbering terms,
                                    const Published& p, bool sequence,
                                    bool enters_again) {
  std::map<std::string, int64_t> bytes;
  for (const Term& term : terms) {
    const bool inside = term.place == Place::kEntering && !enters_again;
    const bool cut = term.place == Place::kInside || (sequence && !inside);
    bytes[sequence && inside ? term.inside : term.value] =
        term.ours * ElementsOf(term, p) / (cut ? p.tensor : 1);
  }
  return bytes;
}

const char* LayoutOf(bool sequence) {
  return sequence ? gpt_layouts::kSequence : gpt_layouts::kMegatron;
}

class PublishedActivations : public ::testing::TestWithParam<Published> {
 protected:
  // What a layer leaves in a program that makes some of it again.
  static std::map<std::string, int64_t> Left(const Published& p, bool sequence,
                                             const RecomputeOptions& options,
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

TEST_P(PublishedActivations, AreOursTermByTerm) {
  const Published& p = GetParam();
  GptSizes sizes = SizesOf(p);
  sizes.dropout = 0.1;
  for (bool sequence : {false, true}) {
    EXPECT_NEAR(PublishedGiB(kTerms, p, sequence),
                sequence ? p.sequence_parallel : p.tensor_parallel, 1e-6);
    // They gather again what enters a block, 2 (t-1)/t T h e more on the wire
    // (see GptBytes.SequenceParallel).
    EXPECT_EQ(PerLayer<Saved>(absl::StrCat("model:", p.tensor),
                              LayoutOf(sequence), sizes, AdamWStep, SavedOf)
                  .bytes,
              Ours(kTerms, p, sequence, false))
        << (sequence ? "sequence parallel" : "tensor parallel");
  }
}

TEST_P(PublishedActivations, AreOursWhereAttentionIsMadeAgain) {
  const Published& p = GetParam();
  for (bool sequence : {false, true}) {
    EXPECT_NEAR(PublishedGiB(kWithoutAttention, p, sequence),
                sequence ? p.selective_sequence : p.selective, 1e-6);
    for (bool again : {false, true}) {
      EXPECT_EQ(Left(p, sequence, {Recompute::kAttention, again}),
                Ours(kWithoutAttention, p, sequence, again))
          << sequence << again;
    }
  }
}

TEST_P(PublishedActivations, AreOursWhereLayersAreMadeAgain) {
  const Published& p = GetParam();
  EXPECT_NEAR(PublishedGiB(kOfLayers, p, false), p.full, 1e-6);
  for (bool sequence : {false, true}) {
    EXPECT_EQ(Left(p, sequence, {Recompute::kLayer}),
              Ours(kOfLayers, p, sequence, false));
  }
}

// Without dropout nothing is kept but what they keep, to the byte.
TEST_P(PublishedActivations, AreTheSameWithoutDropout) {
  const Published& p = GetParam();
  const auto sum = [](const std::map<std::string, int64_t>& bytes) {
    int64_t all = 0;
    for (const auto& [name, count] : bytes) all += count;
    return all;
  };
  const int64_t sbh = 2048 * p.batch * p.h, t = p.tensor;
  const auto left = [&](bool sequence, const RecomputeOptions& options) {
    return sum(Left(p, sequence, options, /*dropout=*/0));
  };
  // 10 + 24 / t, 34 / t and 2, of which 2 are masks but in the last.
  EXPECT_EQ(left(false, {Recompute::kAttention}), 8 * sbh + 24 * sbh / t);
  EXPECT_EQ(left(true, {Recompute::kAttention, true}), 32 * sbh / t);
  EXPECT_EQ(left(false, {Recompute::kLayer}), 2 * sbh);
  EXPECT_EQ(left(true, {Recompute::kLayer}), 2 * sbh / t);
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedActivations,
                         ::testing::ValuesIn(kPublished),
                         [](const auto& info) { return info.param.name; });

// In units of sbh: 34 published and of ours, 5 as/h published and 7 as/h of
// ours.
TEST(GptActivations, OfALayer) {
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
