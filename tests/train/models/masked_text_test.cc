// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (trains for hundreds of steps)
//
// BERT predicts masked tokens from their context: its loss falls below the
// entropy of single tokens, which no prediction without context can reach.
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nn/models/bert.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/schedules.h"
#include "ops/input.h"
#include "tests/matchers.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

constexpr int64_t kRows = 32, kTokens = 12, kLetters = 16;
constexpr int32_t kMask = kLetters, kVocabulary = kLetters + 1, kNoLoss = -1;

// A number that is as good as random.
uint64_t RandomBits(int64_t i) {
  uint64_t bits = (i + 1) * 0x9E3779B97F4A7C15u;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return bits ^ (bits >> 31);
}

// Texts that say one word of three letters again and again, of which one
// letter in four is masked.
struct MaskedTexts {
  std::vector<int32_t> tokens, targets;

  explicit MaskedTexts(int64_t step) {
    for (int64_t row = 0; row < kRows; ++row) {
      const uint64_t word = RandomBits(2 * (step * kRows + row)),
                     masked = RandomBits(2 * (step * kRows + row) + 1);
      for (int64_t i = 0; i < kTokens; ++i) {
        const auto letter =
            static_cast<int32_t>(word >> (8 * (i % 3)) & (kLetters - 1));
        const bool is_masked = (masked >> (2 * i) & 3) == 0;
        tokens.push_back(is_masked ? kMask : letter);
        targets.push_back(is_masked ? letter : kNoLoss);
      }
    }
  }
};

// Of the targets of so many steps, in nats.
double UnigramEntropy(int64_t steps) {
  std::map<int32_t, double> counts;
  double total = 0;
  for (int64_t step = 0; step < steps; ++step) {
    for (const int32_t target : MaskedTexts(step).targets) {
      if (target == kNoLoss) continue;
      counts[target] += 1;
      total += 1;
    }
  }
  double entropy = 0;
  for (const auto& [letter, count] : counts) {
    entropy -= count / total * std::log(count / total);
  }
  return entropy;
}

TEST(MaskedText, LossOfBertFallsBelowTheEntropyOfSingleTokens) {
  constexpr int64_t kSteps = 180, kLast = 20;
  const Shape shape = {{"batch", kRows}, {"length", kTokens}};
  Graph graph;
  const Tensor tokens = Input(graph, "tokens", kInt32, shape),
               targets = Input(graph, "targets", kInt32, shape);
  const nn::BertOutputs outputs =
      nn::Bert({.tokens = tokens}, {.vocab_size = kVocabulary,
                                    .hidden_size = 32,
                                    .num_hidden_layers = 2,
                                    .num_attention_heads = 4,
                                    .intermediate_size = 64,
                                    .max_position_embeddings = kTokens});
  const Tensor loss = nn::BertPretrainingLoss(outputs, targets);
  const Tensor update =
      nn::AdamW({.learning_rate = nn::Schedule(3e-3) * nn::LinearWarmup(20)})
          .Minimize(loss);
  const auto session = Session::Create(graph, "data:2", "data");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  double mean = 0;  // of the last steps, whose texts are new as all are
  for (int64_t step = 0; step < kSteps; ++step) {
    const MaskedTexts texts(step);
    const auto values = (*session)->Run(
        {.feeds = {{"tokens", HostTensor::Of<int32_t>(shape, texts.tokens)},
                   {"targets", HostTensor::Of<int32_t>(shape, texts.targets)}},
         .fetches = {loss},
         .updates = {update}});
    ASSERT_OK(values);
    if (step >= kSteps - kLast) mean += (*values)[0].ToDoubles()[0] / kLast;
  }
  EXPECT_NEAR(UnigramEntropy(kSteps), std::log(kLetters), 0.01);
  EXPECT_LT(mean, UnigramEntropy(kSteps) - 0.3);
}

}  // namespace
}  // namespace mtf::train
