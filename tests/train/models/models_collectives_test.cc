// SPDX-License-Identifier: Apache-2.0
//
// The collectives of published models: per layer those of
// docs/published_layouts.md. T is the tokens of a step, h d_model, e the bytes
// of an activation, t ranks.
#include <iterator>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/models/build_model.h"
#include "nn/models/model_presets.h"
#include "nn/optimizers/sgd.h"
#include "planning/explain/explain.h"
#include "planning/machine/machine.h"
#include "tests/golden_files.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

struct Count {
  int64_t calls = 0, bytes = 0;
  friend bool operator==(const Count&, const Count&) = default;
  friend void PrintTo(const Count& count, std::ostream* out) {
    *out << count.calls << " calls, " << count.bytes << " bytes";
  }
};
using Counts = std::map<std::string, Count>;  // by kind and axes

constexpr int64_t kBatch = 8, kLength = 16, kWidth = 64;
constexpr int64_t kBlock = kBatch * kLength * kWidth * sizeof(float);  // The

std::string ConfigOf(const std::string& type, int layers) {
  const std::string decoder = absl::StrCat(
      R"("vocab_size": 128, "hidden_size": 64, "intermediate_size": 96,
         "num_attention_heads": 8, "num_hidden_layers": )",
      layers);
  std::string config;
  if (type == "gpt2") {
    config = absl::StrCat(
        R"("vocab_size": 128, "n_positions": 16, "n_embd": 64, "n_head": 8,
           "n_layer": )",
        layers);
  } else if (type == "t5" || type == "t5_encoder") {
    // The layers are those of the decoder, or of the encoder.
    const bool decoder = type == "t5";
    return absl::StrCat(
        R"({"model_type": "t5", "vocab_size": 128, "d_model": 64, "d_kv": 8,
            "d_ff": 96, "num_heads": 8, "dropout_rate": 0, "num_layers": )",
        decoder ? 1 : layers, R"(, "num_decoder_layers": )",
        decoder ? layers : 1, "}");
  } else if (type == "mtf_transformer") {
    config = absl::StrCat(
        R"("transformer_type": "decoder", "vocab_size": 128, "max_length": 16,
           "d_model": 64, "d_kv": 8, "d_ff": 96, "num_heads": 8,
           "attention_dropout": 0, "relu_dropout": 0,
           "layer_prepostprocess_dropout": 0, "num_decoder_layers": )",
        layers);
  } else {
    config = absl::StrCat(decoder, R"(, "num_key_value_heads": 4,
        "num_local_experts": 4)");
  }
  return absl::StrCat(R"({"model_type": ")", type, R"(", )", config, "}");
}

// A step under the layout `layout`, a preset or rules.
absl::StatusOr<Program> StepOf(const std::string& type, int layers,
                               absl::string_view mesh, absl::string_view layout,
                               bool trains) {
  Graph graph;
  const ModeScope mode(graph, trains ? Mode::kTrain : Mode::kEvaluate);
  MTF_ASSIGN_OR_RETURN(const nn::PublishedModel model,
                       nn::BuildModel(graph, "", ConfigOf(type, layers),
                                      {.batch = kBatch, .length = kLength}));
  Targets targets;
  targets.fetches = {model.loss};
  if (trains) {
    targets.updates = {
        nn::Sgd({.learning_rate = 0.1}).Minimize(model.objective)};
  }
  const auto preset = LayoutRules::Preset(layout);
  return LowerText(graph, mesh,
                   preset.ok() ? preset->ToString() : std::string(layout),
                   targets);
}

Counts CollectivesOf(const std::string& type, int layers,
                     absl::string_view mesh, absl::string_view preset,
                     bool trains) {
  const auto program = StepOf(type, layers, mesh, preset, trains);
  EXPECT_OK(program);
  Counts counts;
  if (!program.ok()) return counts;
  for (const auto& [key, count] : CountCollectives(*program)) {
    const std::string axes = program->mesh.AxisNames(ListOf(key.second));
    counts[absl::StrCat(CollectiveName(key.first), " ", axes)] = {count.first,
                                                                  count.second};
  }
  return counts;
}

// The collectives of one more layer.
Counts PerLayer(const std::string& type, absl::string_view mesh,
                absl::string_view preset, bool trains = true) {
  Counts more = CollectivesOf(type, 3, mesh, preset, trains);
  for (const auto& [kind, count] :
       CollectivesOf(type, 2, mesh, preset, trains)) {
    more[kind].calls -= count.calls;
    more[kind].bytes -= count.bytes;
  }
  for (auto i = more.begin(); i != more.end();) {
    i = i->second == Count() ? more.erase(i) : std::next(i);
  }
  return more;
}

// Two all_reduces of activations in the forward pass of a layer and two in its
// backward pass: 8 (t-1)/t The. A layer of a decoder with an encoder has one
// more of each. In Megatron-LM it has one more in the backward pass, of the
// gradient of the encoder's output; here the layers are added up before it is
// reduced.
TEST(ModelCollectives, AreThoseOfMegatron) {
  for (const int64_t t : {2, 4}) {
    const std::string mesh = absl::StrCat("model:", t);
    const int64_t one = 2 * (t - 1) * kBlock / t;
    for (const char* type :
         {"gpt2", "llama", "mistral", "bert", "mtf_transformer"}) {
      EXPECT_THAT(
          PerLayer(type, mesh, "megatron"),
          UnorderedElementsAre(Pair("all_reduce model", Count{4, 4 * one})))
          << type;
      EXPECT_THAT(
          PerLayer(type, mesh, "megatron", false),
          UnorderedElementsAre(Pair("all_reduce model", Count{2, 2 * one})))
          << type;
    }
    EXPECT_THAT(
        PerLayer("t5_encoder", mesh, "megatron"),
        UnorderedElementsAre(Pair("all_reduce model", Count{4, 4 * one})));
    EXPECT_THAT(
        PerLayer("t5", mesh, "megatron", false),
        UnorderedElementsAre(Pair("all_reduce model", Count{3, 3 * one})));
    EXPECT_THAT(
        PerLayer("t5", mesh, "megatron"),
        UnorderedElementsAre(Pair("all_reduce model", Count{6, 6 * one})));
  }
}

// The layout of Shazeer et al., 2018, on two axes: 8 (c-1)/c (T/r) he of
// activations over the c ranks of "model", and 2 (r-1)/r (P/c) e of gradients
// over the r ranks of "batch"; norms are not sharded.
TEST(ModelCollectives, OfMeshTensorFlowAreThoseOfBothAxes) {
  const int64_t r = 2, c = 4, e = sizeof(float),
                kernels = 4 * 64 * 64 + 2 * 64 * 96, norms = 2 * 64;
  const Counts counts =
      PerLayer("mtf_transformer", "batch:2,model:4",
               "batch:batch, vocab:model, d_ff:model, heads:model");
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts.at("all_reduce model"),
            (Count{4, 8 * (c - 1) * kBlock / r / c}));
  EXPECT_EQ(counts.at("all_reduce batch").bytes,
            2 * (r - 1) * (kernels / c + norms) * e / r);
}

// The 4N + 2 all_reduces of activations that Shoeybi et al., 2019, count: those
// of the layers, of the embedding, and of the gradient of the head's input. The
// loss of a sharded vocabulary has more, of one number per token: in
// Megatron-LM the maximum, the sum of exponentials and the logit of the target;
// here the latter two are one all_reduce.
TEST(ModelCollectives, UnderMegatronsLayoutAre4NPlus2AndThoseOfTheLoss) {
  const int64_t layers = 3, t = 4, ring = 2 * (t - 1);
  const int64_t numbers_of_loss = 3 * kBatch * kLength * sizeof(float);
  for (const char* type : {"gpt2", "llama", "mistral", "bert"}) {
    const Counts counts =
        CollectivesOf(type, layers, "model:4", "megatron", true);
    SCOPED_TRACE(type);
    ASSERT_EQ(counts.size(), 1u);
    EXPECT_EQ(counts.at("all_reduce model"),
              (Count{4 * layers + 2 + 2, (4 * layers + 2) * ring * kBlock / t +
                                             ring * numbers_of_loss / t}));
  }
}

// Besides those of the layers: of the two embeddings, and of the gradients of
// the head's input and of the encoder's output.
TEST(ModelCollectives, OfT5UnderMegatronsLayoutAreThoseOfItsLayersAnd4) {
  const int64_t layers = 3, t = 4, ring = 2 * (t - 1);
  const int64_t activations = 4 * 1 + 6 * layers + 4;
  const int64_t numbers_of_loss = 3 * kBatch * kLength * sizeof(float);
  EXPECT_THAT(CollectivesOf("t5", layers, "model:4", "megatron", true),
              UnorderedElementsAre(Pair(
                  "all_reduce model",
                  Count{activations + 2, activations * ring * kBlock / t +
                                             ring * numbers_of_loss / t})));
}

// The sum of the sizes of the parameters of one layer.
int64_t ParametersOfALayer(const std::string& type) {
  const auto count = [&](int layers) {
    Graph graph;
    EXPECT_OK(nn::BuildModel(graph, "", ConfigOf(type, layers),
                             {.batch = kBatch, .length = kLength}));
    int64_t parameters = 0;
    for (const VariableInfo& variable : graph.variables()) {
      parameters += variable.shape.num_elements();
    }
    return parameters;
  };
  return count(3) - count(2);
}

// 2 (d-1)/d Pe for P parameters of a layer.
TEST(ModelCollectives, AreThoseOfDataParallelism) {
  // Queries, output, keys and values of half as many heads, three kernels of
  // feed-forward, two norms.
  const int64_t parameters = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64;
  EXPECT_EQ(ParametersOfALayer("llama"), parameters);
  const Counts counts = PerLayer("llama", "data:4", "data");
  ASSERT_EQ(counts.size(), 1u);
  EXPECT_EQ(counts.at("all_reduce data").bytes,
            2 * 3 * parameters * static_cast<int64_t>(sizeof(float)) / 4);
}

// Parameters are gathered in the forward and in the backward pass, and their
// gradients reduce_scattered: (d-1)/d Pe each.
TEST(ModelCollectives, AreThoseOfZero3) {
  for (const char* type : {"llama", "mistral", "t5", "t5_encoder"}) {
    SCOPED_TRACE(type);
    const int64_t once =
        3 * ParametersOfALayer(type) * static_cast<int64_t>(sizeof(float)) / 4;
    const Counts counts = PerLayer(type, "data:4", "zero3");
    ASSERT_EQ(counts.size(), 2u);
    EXPECT_EQ(counts.at("all_gather data").bytes, 2 * once);
    EXPECT_EQ(counts.at("reduce_scatter data").bytes, once);
  }
}

// Each collective of a step with its bytes, its tensor, and the rule and the
// operation that cause it.
TEST(ModelCollectives, AreExplained) {
  const auto machine = Machine::Load("h100_nvlink_ib");
  ASSERT_OK(machine);
  for (const char* type : {"llama", "t5"}) {
    const auto program =
        StepOf(type, 2, "data:2,model:2", "data_model", /*trains=*/true);
    ASSERT_OK(program);
    const Explanation explanation = ExplainProgram(*program, *machine);
    std::string text;
    for (const ExplainedCollective& each : explanation.collectives) {
      absl::StrAppend(&text, each.kind, " over ", each.axes, ", ", each.bytes,
                      " bytes, of ", each.tensor, ", because of ", each.rule,
                      " for ", each.operation, "\n");
    }
    ExpectGolden(absl::StrCat("data_model.", type, ".explain.txt"), text);
  }
}

// Each rule of a published layout shards something of its model.
TEST(ModelPresets, LayoutsFitTheirModels) {
  for (const std::string& name : nn::ModelPresetNames()) {
    SCOPED_TRACE(name);
    const auto preset = nn::FindModelPreset(name);
    ASSERT_OK(preset);
    Graph graph;
    ASSERT_OK(
        nn::BuildModel(graph, preset->type, preset->config,
                       {.batch = preset->batch, .length = preset->length}));
    if (preset->mesh.empty()) continue;
    const auto mesh = Mesh::Parse(preset->mesh);
    const auto rules = LayoutRules::Parse(preset->layout, name);
    ASSERT_OK(mesh);
    ASSERT_OK(rules);
    EXPECT_OK(BindLayout(graph, *mesh, *rules, /*strict=*/true));
  }
}

// Tokens go to their experts and back, and so do their gradients: 4 (n-1)/n
// Tkhe, where k counts slots per token, one for each of the four experts.
TEST(ModelCollectives, OfMixtralAreFourAllToAlls) {
  const Counts counts = PerLayer("mixtral", "data:4", "expert");
  EXPECT_EQ(counts.at("all_to_all data"),
            (Count{4, 4 * 3 * (4 * kBlock / 4) / 4}));
}

}  // namespace
}  // namespace mtf::testing
