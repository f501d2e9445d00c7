// SPDX-License-Identifier: Apache-2.0
//
// Parts of models by their definitions, and errors of configs and maps. The
// models themselves are compared with the reference in tests/train/weights/.
#include "nn/models/transformer.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/layers/activations.h"
#include "nn/models/build_model.h"
#include "nn/models/config_fields.h"
#include "nn/models/language_model.h"
#include "nn/models/weight_map.h"
#include "tests/matchers.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ExactGelu, IsThatOfTheErrorFunction) {
  OracleGraph o;
  std::vector<double> numbers;
  for (double x = -9; x <= 9; x += 0.0625) numbers.push_back(x);
  const Dimension dim{"many", static_cast<int64_t>(numbers.size())};
  const Tensor x = o.Parameter("x", {dim}, numbers);
  const std::vector<double> y = o.Run(nn::ExactGelu(x));
  const std::vector<double> slope =
      o.Run(Gradients(ReduceSum(nn::ExactGelu(x), {}), {x})[0]);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double at = numbers[i], phi = 0.5 * (1 + std::erf(at / std::sqrt(2)));
    const double density = std::exp(-at * at / 2) / std::sqrt(2 * M_PI);
    EXPECT_NEAR(y[i], at * phi, 4e-7 * std::max(1.0, std::abs(at)));
    EXPECT_NEAR(slope[i], phi + at * density, 1e-6);
  }
}

TEST(TransformerStack, ReportsWrongOptions) {
  Graph graph;
  const Dimension length{"length", 3}, d_model{"d_model", 4};
  const Tensor x = Input(graph, "x", kFloat32, {length, d_model});
  nn::TransformerStack(x, {.attention = {.length = length}});
  EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr(".d_ff")));
}

TEST(ConfigFields, NameTheFirstWrongField) {
  EXPECT_THAT(nn::ConfigFields::Parse("[1").status(),
              StatusIs(kInvalid, HasSubstr("not a JSON object")));
  EXPECT_THAT(nn::ConfigFields::Parse(std::string(100, '[')).status(),
              StatusIs(kInvalid, HasSubstr("more than 16 deep")));
  auto fields = nn::ConfigFields::Parse(
      R"({"a": 2, "b": null, "c": 2.5, "d": {"e": [7, 8]}, "f": "x"})");
  ASSERT_OK(fields);
  EXPECT_EQ(fields->Size("a"), 2);
  EXPECT_EQ(fields->Size("b", 5), 5);
  EXPECT_TRUE(fields->IsNull("b"));
  EXPECT_THAT(fields->Sizes("d.e", {}), ElementsAre(7, 8));
  EXPECT_OK(fields->status());
  fields->Size("c");
  fields->Number("f", 1);
  EXPECT_THAT(fields->status(),
              StatusIs(kInvalid, HasSubstr("\"c\" of the model's config is "
                                           "2.5, not a size")));
}

TEST(BuildModel, ReportsUnknownTypesAndUnsupportedFields) {
  const auto error = [](const std::string& type, const std::string& config) {
    Graph graph;
    return nn::BuildModel(graph, type, config).status();
  };
  EXPECT_THAT(error("lama", "{}"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("did you mean \"llama\"")));
  EXPECT_THAT(error("llama", "{}"),
              StatusIs(kInvalid, HasSubstr("\"vocab_size\"")));
  EXPECT_THAT(error("gpt2", R"({"vocab_size": 7, "n_positions": 4, "n_embd": 6,
                                "n_layer": 2000000000, "n_head": 2})"),
              StatusIs(kInvalid, HasSubstr("\"n_layer\" of the model's config "
                                           "is 2000000000, more than 10000 "
                                           "layers")));
  EXPECT_THAT(error("t5", R"({"model_type": "bert"})"),
              StatusIs(kInvalid, HasSubstr("that of a bert, not of a t5")));
  EXPECT_THAT(
      error("", R"({"model_type": "gpt2", "vocab_size": 7, "n_positions": 4,
                    "n_embd": 6, "n_layer": 1, "n_head": 4})"),
      StatusIs(kInvalid, HasSubstr("n_embd is 6, but must be a multiple of "
                                   "n_head, which is 4")));
  EXPECT_THAT(
      error("", R"({"model_type": "gpt2", "vocab_size": 7, "n_positions": 4,
                    "n_embd": 8, "n_layer": 1, "n_head": 4})"),
      StatusIs(kInvalid, HasSubstr("\"length\" has 128 positions, but "
                                   "n_positions is 4")));
}

// A config without a type, as Mixtral, has other defaults than as Llama.
TEST(BuildModel, ReadsConfigsAsTheChosenType) {
  const auto variables = [](const std::string& type,
                            const std::string& stated) {
    Graph graph;
    EXPECT_OK(
        nn::BuildModel(graph, type,
                       absl::StrCat(R"({"vocab_size": 7, "hidden_size": 16,
                         "intermediate_size": 8, "num_hidden_layers": 1,
                         "num_attention_heads": 8)",
                                    stated, "}"),
                       {.batch = 2, .length = 4}));
    std::vector<std::string> found;
    for (const VariableInfo& variable : graph.variables()) {
      found.push_back(
          absl::StrCat(variable.name, " ", variable.shape.ToString()));
    }
    return found;
  };
  for (const char* type : {"llama", "mistral", "mixtral"}) {
    EXPECT_EQ(variables(type, ""),
              variables("", absl::StrCat(R"(, "model_type": ")", type, "\"")));
    EXPECT_EQ(variables(type, R"(, "model_type": null)"), variables(type, ""));
  }
  EXPECT_NE(variables("llama", ""), variables("mixtral", ""));
}

TEST(ConfigWithType, AddsAnAbsentType) {
  const auto with = [](const char* config) {
    const auto text = nn::ConfigWithType(config, "mixtral");
    EXPECT_OK(text);
    const auto fields = nn::ConfigFields::Parse(text.ok() ? *text : "{}");
    EXPECT_OK(fields);
    return nn::ConfigFields(*fields).Text("model_type", "none");
  };
  EXPECT_EQ(with(""), "mixtral");
  EXPECT_EQ(with(R"({"b": 1, "a": [2]})"), "mixtral");
  EXPECT_EQ(with(R"({"model_type": null})"), "mixtral");
  EXPECT_EQ(with(R"({"model_type": "llama"})"), "llama");
  EXPECT_THAT(nn::ConfigWithType("[]", "llama").status(),
              StatusIs(kInvalid, HasSubstr("is not a JSON object")));
}

TEST(ShiftRight, BeginsWithTheStart) {
  OracleGraph o;
  const Tensor tokens = Constant(o.graph, {5, 6, 7}, kInt32, {{"length", 3}});
  EXPECT_THAT(o.Run(nn::ShiftRight(tokens, 2)), ElementsAre(2, 5, 6));
  EXPECT_THAT(o.Run(nn::ShiftRight(tokens)), ElementsAre(0, 5, 6));
}

TEST(WeightMap, MatchesNumbersOnly) {
  std::vector<std::string> numbers;
  EXPECT_TRUE(nn::MatchesNumbered("layer_*/x_*", "layer_12/x_0", &numbers));
  EXPECT_THAT(numbers, ElementsAre("12", "0"));
  EXPECT_FALSE(nn::MatchesNumbered("layer_*/x", "layer_/x"));
  EXPECT_FALSE(nn::MatchesNumbered("layer_*/x", "layer_1/xy"));
}

}  // namespace
}  // namespace mtf
