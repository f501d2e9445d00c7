// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/prompt.h"

#include <vector>

#include "nn/models/gpt2.h"
#include "nn/models/language_model.h"
#include "nn/models/llama.h"
#include "nn/models/t5.h"
#include "nn/optimizers/adam.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 2}, kLength{"length", 3}, kModel{"d_model", 4};

TEST(Prompt, StandsBeforeTheInputOfEachExample) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Tensor y = nn::PrependPrompt(x, kLength, kModel, {.prompt_length = 2});
  ASSERT_OK(o.graph.status());
  EXPECT_EQ(y.shape(), Shape({kBatch, {"length", 5}, kModel}));
  const std::vector<double> actual = o.Run(y);
  const auto &in = o.Value("x"), &table = o.Value("prompt/table");
  std::vector<double> expected;
  for (int b = 0; b < 2; ++b) {
    expected.insert(expected.end(), table.begin(), table.end());
    expected.insert(expected.end(), in.begin() + b * 12,
                    in.begin() + (b + 1) * 12);
  }
  testing::ExpectNear(actual, expected);
  const Tensor dropped = nn::DropPrompt(y, "length", 2);
  EXPECT_EQ(dropped.shape(), x.shape());
  EXPECT_EQ(o.Run(dropped), o.Run(x));
}

TEST(Prompt, GradientsMatchDifferences) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kLength, kBatch, kModel});
  const Tensor y = nn::PrependPrompt(x, kLength, kModel, {.prompt_length = 2});
  o.ExpectGradientsOf(testing::Probe(o, Tanh(y)));
}

TEST(PromptErrors, NameTheOptionAndTheDimension) {
  const auto status = [](const Dimension& length, int64_t prompt_length) {
    Graph graph;
    nn::PrependPrompt(Input(graph, "x", kFloat32, {kBatch, kLength, kModel}),
                      length, kModel, {.prompt_length = prompt_length});
    return graph.status();
  };
  EXPECT_THAT(status(kLength, 0), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr(".prompt_length is 0")));
  EXPECT_THAT(status({"depth", 3}, 2),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has no dimension \"depth\"")));
}

nn::Gpt2Config SmallGpt2(int64_t prompt_length) {
  return {.vocab_size = 7,
          .n_positions = 8,
          .n_embd = 4,
          .n_layer = 1,
          .n_head = 2,
          .embd_pdrop = 0,
          .attn_pdrop = 0,
          .resid_pdrop = 0,
          .prompt_length = prompt_length};
}

// A prompt with the embeddings of tokens is as good as these tokens: positions
// and masks count it, and its logits are dropped.
TEST(PromptedGpt2, ReadsThePromptAsTokens) {
  const auto run = [](int64_t prompt_length, std::vector<int32_t> ids) {
    OracleGraph o;
    const Dimension length{"length", static_cast<int64_t>(ids.size())};
    const Tensor tokens = o.Integers("tokens", {length}, ids);
    const nn::LanguageModel model = nn::Gpt2(tokens, SmallGpt2(prompt_length));
    const Tensor logits = nn::LanguageModelLogits(model);
    EXPECT_OK(o.graph.status());
    EXPECT_EQ(logits.shape(), Shape({length, model.vocab}));
    uint64_t seed = 0;
    for (const VariableInfo& info : o.graph.variables()) {
      if (info.name == "prompt/table") continue;
      o.variables[info.name] = {
          info.shape, kFloat32,
          testing::SomeNumbers(info.shape.num_elements(), ++seed)};
    }
    // Of tokens 5 and 2.
    const std::vector<double>& table = o.variables["embedding/table"].data;
    std::vector<double> prompt(table.begin() + 20, table.begin() + 24);
    prompt.insert(prompt.end(), table.begin() + 8, table.begin() + 12);
    if (prompt_length > 0) {
      o.variables["prompt/table"] = {
          {{"prompt_length", 2}, kModel}, kFloat32, prompt};
    }
    return o.Run(logits);
  };
  std::vector<double> whole = run(0, {5, 2, 1, 6, 3});
  whole.erase(whole.begin(), whole.begin() + 2 * 7);
  testing::ExpectNear(run(2, {1, 6, 3}), whole);
}

TEST(PromptedGpt2, CountsThePromptAsPositions) {
  Graph graph;
  const Tensor tokens = Input(graph, "tokens", kInt32, {kBatch, {"length", 7}});
  nn::Gpt2(tokens, SmallGpt2(2));
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has 7 positions after a prompt of 2, but "
                                 "n_positions is 8")));
}

// The loss has a gradient for the prompt, which alone is trained.
template <class Build>
void ExpectPromptTrains(const Build& build) {
  OracleGraph o;
  const Tensor tokens =
      o.Integers("tokens", {kBatch, kLength}, {1, 6, 3, 0, 2, 5});
  const nn::LanguageModel model = build(tokens);
  const Tensor loss = nn::LanguageModelLoss(model, tokens);
  const Tensor step =
      nn::Adam({.learning_rate = 0.1}).Minimize(loss, {.only = "**/prompt"});
  ASSERT_OK(o.graph.status());
  EXPECT_OK(InitializeVariables(o.graph, 1, &o.variables));
  const OracleVariables before = o.variables;
  const double first = o.RunAll({loss, step})[0][0];
  double last = 0;
  for (int i = 0; i < 5; ++i) last = o.RunAll({loss, step})[0][0];
  EXPECT_LT(last, first);
  for (const VariableInfo& info : o.graph.variables()) {
    if (info.kind != VariableKind::kParameter) continue;
    const bool is_prompt = info.name.find("prompt/table") != std::string::npos;
    EXPECT_EQ(o.Value(info.name) != before.at(info.name).data, is_prompt)
        << info.name;
  }
}

TEST(PromptedModels, TrainThePromptAlone) {
  ExpectPromptTrains(
      [](Tensor tokens) { return nn::Gpt2(tokens, SmallGpt2(2)); });
  ExpectPromptTrains([](Tensor tokens) {
    return nn::Llama(tokens, {.vocab_size = 7,
                              .hidden_size = 4,
                              .intermediate_size = 6,
                              .num_hidden_layers = 1,
                              .num_attention_heads = 2,
                              .prompt_length = 2});
  });
  ExpectPromptTrains([](Tensor tokens) {
    const Tensor mask = Less(Cast(tokens, kFloat32), 6.0);
    return nn::T5(tokens, nn::ShiftRight(tokens),
                  {.vocab_size = 7,
                   .d_model = 4,
                   .d_kv = 2,
                   .d_ff = 6,
                   .num_layers = 1,
                   .num_heads = 2,
                   .dropout_rate = 0,
                   .prompt_length = 2},
                  mask);
  });
}

}  // namespace
}  // namespace mtf
