// SPDX-License-Identifier: Apache-2.0
//
// What the forward pass of a layer leaves for the backward pass, value by value
// beside the terms of Korthikanti et al., 2022.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "lowering/plan_buffers.h"
#include "lowering/readers.h"
#include "tests/lowering/gpt_plan.h"

namespace mtf::testing {
namespace {

// Values that the forward pass of a layer leaves for the backward pass.
struct Saved {
  std::map<std::string, int64_t> bytes;  // by name

  Saved operator-(const Saved& other) const {
    Saved rest;
    for (const auto& [name, count] : bytes) {
      if (!other.bytes.contains(name)) rest.bytes[name] = count;
    }
    return rest;
  }
};

Saved SavedOf(const Graph&, const Program& program) {
  const auto is_backward = [&](const Instruction& instruction) {
    return instruction.origin >= 0 &&
           absl::StrContains(program.origins[instruction.origin].operation,
                             "_grad");
  };
  std::vector<int> owner(program.values.size());
  std::vector<bool> forward(program.values.size(), false);
  bool backward = false;
  Saved saved;
  const std::vector<int> producers = FindProducers(program);
  for (const Instruction& instruction : program.instructions) {
    backward = backward || is_backward(instruction);
    for (int result : instruction.results) {
      owner[result] =
          instruction.opcode == Opcode::kReshape && IsView(program, instruction)
              ? owner[instruction.operands[0]]
              : result;
      forward[result] = !backward;
    }
    if (!backward) continue;
    for (int operand : instruction.operands) {
      const int value = owner[operand];
      const std::vector<int> sources = SourcesOf(
          program, producers, value, {Opcode::kMap, Opcode::kAllGather});
      const bool parameter =
          sources.size() == 1 && producers[sources[0]] >= 0 &&
          program.instructions[producers[sources[0]]].opcode ==
              Opcode::kReadVariable;
      if (!forward[value] || parameter) continue;
      saved.bytes[program.values[value].name] =
          program.values[value].local_bytes();
    }
  }
  return saved;
}

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
};

// Korthikanti et al. count 34 sbh + 5 a s^2 b: of those, 10 sbh are between
// blocks and on the way into them, and the rest is inside. Where we differ:
//  * a layer norm keeps x - mean in f32 (4 bytes) where they count its input in
//    16 bits, and two f32 numbers for each position;
//  * a softmax keeps exp(x - max) in f32 where they count its 16-bit result,
//  and
//    two f32 numbers for each row.
constexpr Term kTerms[] = {
    {"layer_norm/sub", Term::kModel, 4, 2, Place::kBetween},
    {"layer_norm/add", Term::kPositions, 4, 0, Place::kBetween},
    {"layer_norm/rsqrt", Term::kPositions, 4, 0, Place::kBetween},
    // What all three projections read.
    {"layer_norm/cast_1", Term::kModel, 2, 2, Place::kEntering},
    // Queries times the scale, keys, values.
    {"attention/dot_product/mul", Term::kModel, 2, 2, Place::kInside},
    {"attention/einsum_1", Term::kModel, 2, 2, Place::kInside},
    {"attention/einsum_2", Term::kModel, 2, 2, Place::kInside},
    // Softmax, mask of its dropout, what is left.
    {"attention/dot_product/softmax/exp", Term::kWeights, 4, 2, Place::kInside},
    {"attention/dot_product/softmax/reduce_sum", Term::kRows, 4, 0,
     Place::kInside},
    {"attention/dot_product/softmax/reciprocal", Term::kRows, 4, 0,
     Place::kInside},
    {"attention/dot_product/greater_equal_1", Term::kWeights, 1, 1,
     Place::kInside},
    {"attention/dot_product/select_1", Term::kWeights, 2, 2, Place::kInside},
    // What the output projection reads, and the mask of its dropout.
    {"attention/dot_product/einsum_1", Term::kModel, 2, 2, Place::kInside},
    {"greater_equal", Term::kModel, 1, 1, Place::kBetween},
    // The feed-forward layer: its norm, what it reads, gelu before and after,
    // the mask.
    {"layer_norm_1/sub", Term::kModel, 4, 2, Place::kBetween},
    {"layer_norm_1/add", Term::kPositions, 4, 0, Place::kBetween},
    {"layer_norm_1/rsqrt", Term::kPositions, 4, 0, Place::kBetween},
    {"layer_norm_1/cast_1", Term::kModel, 2, 2, Place::kEntering},
    {"feed_forward/einsum", Term::kModel, 8, 8, Place::kInside},
    {"feed_forward/gelu", Term::kModel, 8, 8, Place::kInside},
    {"greater_equal_1", Term::kModel, 1, 1, Place::kBetween},
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

class PublishedActivations : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedActivations, AreOursTermByTerm) {
  const Published& p = GetParam();
  GptSizes sizes = SizesOf(p);
  sizes.dropout = 0.1;
  const int64_t t = p.tensor;
  for (bool sequence : {false, true}) {
    // Theirs, of the first of p.pipeline stages.
    double published = 0;
    for (const Term& term : kTerms) {
      const bool cut = sequence || term.place == Place::kInside;
      published += static_cast<double>(term.published * ElementsOf(term, p)) /
                   static_cast<double>(cut ? t : 1);
    }
    const double in_flight =
        p.interleaved == 1
            ? 1.0
            : 1 + static_cast<double>(p.pipeline - 1) /
                      static_cast<double>(p.pipeline * p.interleaved);
    EXPECT_NEAR(published * static_cast<double>(p.layers) * in_flight / kGiB,
                sequence ? p.sequence_parallel : p.tensor_parallel, 1e-6);

    // Ours. What enters a block is gathered there and kept whole, also where
    // it is cut before: they gather it again instead, 2 (t-1)/t T h e more on
    // the wire (see GptBytes.SequenceParallel).
    std::map<std::string, int64_t> ours;
    for (const Term& term : kTerms) {
      std::string value = term.value;
      if (sequence && term.place == Place::kEntering) {
        value = value == "layer_norm/cast_1" ? "reshape_1" : "reshape_2_1";
      }
      const bool cut = term.place == Place::kInside ||
                       (sequence && term.place == Place::kBetween);
      ours[absl::StrCat("layer_1/", value)] =
          term.ours * ElementsOf(term, p) / (cut ? t : 1);
    }
    EXPECT_EQ(PerLayer<Saved>(
                  absl::StrCat("model:", t),
                  sequence ? gpt_layouts::kSequence : gpt_layouts::kMegatron,
                  sizes, AdamWStep, SavedOf)
                  .bytes,
              ours)
        << (sequence ? "sequence parallel" : "tensor parallel");
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedActivations,
                         ::testing::ValuesIn(kPublished),
                         [](const auto& info) { return info.param.name; });

// In units of sbh: 34 published and 38 of ours, 5 as/h published and 7 as/h of
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
  EXPECT_EQ(ours[Term::kModel], 38);
  EXPECT_EQ(ours[Term::kWeights], 7);
}

}  // namespace
}  // namespace mtf::testing
