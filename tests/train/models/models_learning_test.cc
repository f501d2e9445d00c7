// SPDX-License-Identifier: Apache-2.0
//
// A mixture of experts learns a text with all of its experts.
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "nn/models/build_model.h"
#include "nn/models/language_model.h"
#include "nn/models/llama.h"
#include "nn/optimizers/adam.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "tests/train/models/characters.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using testing::CharacterOfText;
using testing::kCharacters;

constexpr int64_t kPeriod = 1500;  // the characters that are read

// A number that is as good as random.
uint64_t Mixed(int64_t i) {
  uint64_t bits = (i + 1) * 0x9E3779B97F4A7C15u;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  return bits ^ (bits >> 31);
}

// Windows of the text from different places; `offset` is 1 for the characters
// that follow.
std::vector<int32_t> Windows(const Shape& shape, int64_t step, int64_t offset) {
  std::vector<int32_t> tokens;
  const int64_t rows = shape[0].size, length = shape[1].size;
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin =
        static_cast<int64_t>(Mixed(step * rows + row) % kPeriod) + offset;
    for (int64_t i = 0; i < length; ++i) {
      tokens.push_back(CharacterOfText(begin + i));
    }
  }
  return tokens;
}

// The balancing loss of transformers, of the choices of all layers, is the
// number of choices where all experts are equally probable.
TEST(MixtureModel, BalancesAsStronglyAsTheReference) {
  Graph graph;
  const auto model = nn::BuildModel(graph, "mixtral", R"({
      "vocab_size": 11, "hidden_size": 16, "intermediate_size": 8,
      "num_hidden_layers": 5, "num_attention_heads": 2,
      "num_key_value_heads": 2, "num_local_experts": 4,
      "num_experts_per_tok": 3, "router_aux_loss_coef": 0.5})",
                                    {.batch = 2, .length = 8});
  ASSERT_OK(model);
  const auto session = Session::Create(graph, "data:2", "expert");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  int routers = 0;
  for (const VariableInfo& variable : graph.variables()) {
    if (!absl::EndsWith(variable.name, "experts/router")) continue;
    const std::vector<float> zeros(variable.shape.num_elements(), 0);
    ASSERT_OK((*session)->WriteVariable(
        variable.name, HostTensor::Of<float>(variable.shape, zeros)));
    ++routers;
  }
  ASSERT_EQ(routers, 5);
  const Shape shape = {{"batch", 2}, {"length", 8}};
  const auto tokens =
      HostTensor::Of<int32_t>(shape, {1, 5, 2, 9, 7, 0, 3, 3,  //
                                      8, 4, 6, 10, 1, 2, 0, 5});
  const auto values =
      (*session)->Run({.feeds = {{"tokens", tokens}, {"targets", tokens}},
                       .fetches = {model->objective, model->loss}});
  ASSERT_OK(values);
  const double balance =
      (*values)[0].ToDoubles()[0] - (*values)[1].ToDoubles()[0];
  EXPECT_NEAR(balance, 0.5 * 3, 1e-5);
}

TEST(MixtureModel, UsesAllExperts) {
  const int64_t steps = testing::ThoroughTests() ? 100 : 20;
  Graph graph;
  const Shape shape = {{"batch", 8}, {"length", 24}};
  const Tensor tokens = Input(graph, "tokens", kInt32, shape);
  const Tensor targets = Input(graph, "targets", kInt32, shape);
  constexpr int64_t kExperts = 4;
  const nn::LanguageModel model =
      nn::Llama(tokens, {.vocab_size = kCharacters,
                         .hidden_size = 32,
                         .intermediate_size = 48,
                         .num_hidden_layers = 2,
                         .num_attention_heads = 4,
                         .num_local_experts = kExperts});
  const Tensor loss = nn::LanguageModelLoss(model, targets);
  Tensor objective = loss;
  std::vector<Tensor> fetches = {loss};
  for (const nn::Experts& layer : model.experts) {
    objective = objective + 0.02 * layer.load_balancing_loss;
    fetches.push_back(layer.load);
  }
  ASSERT_EQ(fetches.size(), 3u);
  const Tensor update = nn::AdamW({.learning_rate = 3e-3}).Minimize(objective);
  const auto session = Session::Create(graph, "data:2", "expert");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  double first = 0, last = 0;
  std::vector<std::vector<double>> loads(2, std::vector<double>(kExperts, 0));
  for (int64_t step = 0; step < steps; ++step) {
    const auto values = (*session)->Run(
        {.feeds = {{"tokens",
                    HostTensor::Of<int32_t>(shape, Windows(shape, step, 0))},
                   {"targets",
                    HostTensor::Of<int32_t>(shape, Windows(shape, step, 1))}},
         .fetches = fetches,
         .updates = {update}});
    ASSERT_OK(values);
    const double now = (*values)[0].ToDoubles()[0];
    (step == 0 ? first : last) = now;
    if (2 * step < steps) continue;
    for (int layer = 0; layer < 2; ++layer) {
      const std::vector<double> load = (*values)[1 + layer].ToDoubles();
      for (int64_t i = 0; i < kExperts; ++i) loads[layer][i] += load[i];
    }
  }
  EXPECT_LT(last, first);
  // A quarter each, if all are equally busy.
  for (const std::vector<double>& load : loads) {
    double total = 0;
    for (const double each : load) total += each;
    for (const double each : load) EXPECT_GT(each / total, 0.08);
  }
}

}  // namespace
}  // namespace mtf::train
