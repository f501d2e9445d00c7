// SPDX-License-Identifier: Apache-2.0
//
// Fine-tuning of published models by adapters: under every layout, merged into
// exported weights, and in files of PEFT.
#include "train/weights/adapters.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/checkpoint/temporary_folder.h"
#include "tests/train/weights/fine_tuning.h"
#include "tests/train/weights/model_fixture.h"
#include "train/checkpoint/safetensors.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class AdaptedModels : public ::testing::TestWithParam<std::string> {};

// Of fused kernels, of grouped queries, and of experts.
TEST_P(AdaptedModels, TrainEquallyUnderAllLayoutsAndMerge) {
  ModelFixture fixture(GetParam(), {{.pattern = "**", .rank = 3}});
  const Tensor step = TrainAdapters(fixture);
  ASSERT_OK(fixture.graph().status());
  ModelFixture plain(GetParam());
  const auto base = plain.Start("data:1", "", plain.weights());
  ASSERT_NE(base, nullptr);
  const std::vector<double> before = LogitsOf(plain, *base);
  std::vector<double> first;
  for (const FineTuningPlace& place : kFineTuningPlaces) {
    SCOPED_TRACE(absl::StrCat(place.mesh, " ", place.layout));
    const auto session =
        fixture.Start(place.mesh, place.layout, fixture.weights());
    ASSERT_NE(session, nullptr);
    // Adapters do not change the function at first.
    EXPECT_LT(Difference(LogitsOf(fixture, *session), before), 1e-5);
    const std::vector<double> losses = TrainSteps(fixture, *session, step);
    ASSERT_EQ(losses.size(), 20);
    if (first.empty()) first = losses;
    EXPECT_LT(GreatestDifference(losses, first), 1e-4);
    EXPECT_LT(losses.back(), losses.front() - 0.1);

    const std::vector<double> adapted = LogitsOf(fixture, *session);
    EXPECT_GT(GreatestDifference(adapted, before), 0.01);
    const TemporaryFolder folder;
    ASSERT_OK(ExportWeights(*session, fixture.model().weights,
                            folder / "merged", {.max_file_bytes = 30000}));
    const auto merged = plain.Start("data:1", "", folder / "merged");
    ASSERT_NE(merged, nullptr);
    EXPECT_LT(Difference(LogitsOf(plain, *merged), adapted), 1e-5);
  }
}

TEST_P(AdaptedModels, AreLoadedFromTheFilesOfPeft) {
  const std::vector<nn::AdapterOptions> options = {
      {.pattern = "**", .rank = 2, .alpha = 3}};
  ModelFixture fixture(GetParam(), options);
  const Tensor step = TrainAdapters(fixture);
  const auto session =
      fixture.Start("data:2,model:2", "data_model", fixture.weights());
  ASSERT_NE(session, nullptr);
  TrainSteps(fixture, *session, step, 3);
  const std::vector<double> adapted = LogitsOf(fixture, *session);
  const TemporaryFolder folder;
  ASSERT_OK(ExportAdapters(*session, fixture.model().weights,
                           folder / "adapters", {.base_model = "base"}));
  EXPECT_THAT(
      ExportAdapters(*session, fixture.model().weights, folder / "adapters"),
      StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("")));

  // The scale is that of the file.
  ModelFixture other(GetParam(), {{.pattern = "**", .rank = 2, .alpha = 7}});
  const FineTuningPlace places[] = {{"model:2", "megatron"},
                                    {"data:3", "zero3"}};
  for (const FineTuningPlace& place : places) {
    const auto again = other.Start(place.mesh, place.layout, other.weights());
    ASSERT_NE(again, nullptr);
    const auto count =
        LoadAdapters(*again, other.model().weights, folder / "adapters");
    ASSERT_OK(count);
    EXPECT_GT(*count, 4);
    EXPECT_LT(Difference(LogitsOf(other, *again), adapted), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdaptedModels,
                         ::testing::Values("gpt2", "llama3", "mixtral", "t5"),
                         [](const auto& info) { return info.param; });

class PeftAdapters : public ::testing::TestWithParam<std::string> {};

// For tests/scripts/models_test.py, which compares the merged model with the
// adapters that PEFT loads.
TEST_P(PeftAdapters, AreWrittenForPeft) {
  const char* folder = std::getenv("MTF_ADAPTERS_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "MTF_ADAPTERS_FOLDER is not set";
  ModelFixture fixture(GetParam(), {{.pattern = "**", .rank = 2}});
  const Tensor step = TrainAdapters(fixture);
  const auto session =
      fixture.Start("data:2,model:2", "data_model", fixture.weights());
  ASSERT_NE(session, nullptr);
  TrainSteps(fixture, *session, step);
  const std::string path = absl::StrCat(folder, "/", GetParam());
  ASSERT_OK(
      ExportAdapters(*session, fixture.model().weights, path + "/adapters"));
  ASSERT_OK(ExportWeights(*session, fixture.model().weights, path + "/merged",
                          {.config = fixture.config()}));
}

// For the same, which has saved adapters of PEFT and the logits that the
// adapted model has.
TEST_P(PeftAdapters, AreLoadedAsPeftSavedThem) {
  const char* folder = std::getenv("MTF_PEFT_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "MTF_PEFT_FOLDER is not set";
  // PEFT adapts the experts of Mixtral as one parameter, with other files.
  ModelFixture fixture(
      GetParam(), {{.pattern = GetParam() == "mixtral" ? "**/attention" : "**",
                    .rank = 3}});
  const auto session =
      fixture.Start("data:2,model:2", "data_model", fixture.weights());
  ASSERT_NE(session, nullptr);
  const std::vector<double> before = LogitsOf(fixture, *session);
  const std::string path = absl::StrCat(folder, "/", GetParam());
  ASSERT_OK(LoadAdapters(*session, fixture.model().weights, path));
  const auto expected = SafetensorsSet::Open(path + "/expected.safetensors");
  ASSERT_OK(expected);
  const auto logits = (*expected)->Read("logits");
  ASSERT_OK(logits);
  const std::vector<double> adapted = LogitsOf(fixture, *session);
  EXPECT_GT(GreatestDifference(adapted, before), 0.01);
  EXPECT_LT(Difference(adapted, logits->ToDoubles()), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, PeftAdapters, ::testing::ValuesIn(ModelNames()),
                         [](const auto& info) { return info.param; });

// The model of `name` with trained adapters, and the folder of their files.
class AdapterFiles : public ::testing::Test {
 protected:
  void Export(const std::string& name,
              const std::vector<nn::AdapterOptions>& adapters) {
    fixture_ = std::make_unique<ModelFixture>(name, adapters);
    const Tensor step = TrainAdapters(*fixture_);
    session_ = fixture_->Start("model:2", "megatron", fixture_->weights());
    ASSERT_NE(session_, nullptr);
    TrainSteps(*fixture_, *session_, step, 2);
    ASSERT_OK(ExportAdapters(*session_, fixture_->model().weights, path_));
  }
  // The status of loading the files into a model with `adapters`.
  absl::Status Load(const std::string& name,
                    const std::vector<nn::AdapterOptions>& adapters,
                    bool partial = false) {
    ModelFixture fixture(name, adapters);
    EXPECT_OK(fixture.graph().status());
    const auto session = fixture.Start("data:1", "", fixture.weights());
    if (session == nullptr) return absl::InternalError("no session");
    return LoadAdapters(*session, fixture.model().weights, path_,
                        {.partial = partial})
        .status();
  }
  void WriteConfig(const std::string& text) {
    std::ofstream(path_ + "/adapter_config.json") << text;
  }
  std::string Config() { return FileText(path_ + "/adapter_config.json"); }
  // The names of the tensors in the file.
  std::vector<std::string> Names() {
    const auto set = SafetensorsSet::Open(path_ + "/adapter_model.safetensors");
    EXPECT_OK(set);
    return set.ok() ? (*set)->names() : std::vector<std::string>();
  }
  // Replaces `from` by `to` in the names of the tensors.
  void RenameTensors(const std::string& from, const std::string& to) {
    const std::string file = path_ + "/adapter_model.safetensors";
    const auto set = SafetensorsSet::Open(file);
    ASSERT_OK(set);
    std::map<std::string, HostTensor> tensors;
    std::vector<SafetensorsSpec> headers;
    for (const std::string& name : (*set)->names()) {
      const std::string renamed = absl::StrReplaceAll(name, {{from, to}});
      const auto value = (*set)->Read(name);
      ASSERT_OK(value);
      tensors[renamed] = *value;
      headers.push_back({renamed, kFloat32, (*(*set)->Find(name))->sizes});
    }
    std::remove(file.c_str());
    auto writer = SafetensorsWriter::Create(file, headers);
    ASSERT_OK(writer);
    for (const auto& [name, value] : tensors) {
      ASSERT_OK((*writer)->Write(name, value));
    }
    ASSERT_OK((*writer)->Finish());
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "adapters";
  std::unique_ptr<ModelFixture> fixture_;
  std::unique_ptr<Session> session_;
};

TEST_F(AdapterFiles, HaveTheNamesAndSizesOfPeft) {
  Export("llama2", {{.pattern = "layer_0/attention/query", .rank = 4},
                    {.pattern = "layer_1/**/out", .rank = 2, .alpha = 5}});
  const auto set = SafetensorsSet::Open(path_ + "/adapter_model.safetensors");
  ASSERT_OK(set);
  std::map<std::string, std::string> tensors;
  for (const std::string& name : (*set)->names()) {
    tensors[name] = (*(*set)->Find(name))->Describe();
  }
  const std::string query = "base_model.model.model.layers.0.self_attn.q_proj.",
                    out = "base_model.model.model.layers.1.mlp.down_proj.";
  EXPECT_THAT(tensors, ElementsAre(Pair(query + "lora_A.weight", "F32[4, 24]"),
                                   Pair(query + "lora_B.weight", "F32[24, 4]"),
                                   Pair(out + "lora_A.weight", "F32[2, 32]"),
                                   Pair(out + "lora_B.weight", "F32[24, 2]")));
  EXPECT_THAT(Config(),
              AllOf(HasSubstr("\"peft_type\": \"LORA\""), HasSubstr("\"r\": 4"),
                    HasSubstr("\"lora_alpha\": 16"),
                    HasSubstr("\"fan_in_fan_out\": false"),
                    HasSubstr("\"rank_pattern\": "
                              "{\"model.layers.1.mlp.down_proj\": 2}"),
                    HasSubstr("\"alpha_pattern\": "
                              "{\"model.layers.1.mlp.down_proj\": 5}"),
                    HasSubstr("\"model.layers.0.self_attn.q_proj\",")));
}

TEST_F(AdapterFiles, HaveTheSumOfTheRanksOfAFusedLayer) {
  Export("gpt2", {{.pattern = "layer_0/attention/query", .rank = 2},
                  {.pattern = "layer_0/attention/value", .rank = 2}});
  const auto set = SafetensorsSet::Open(path_ + "/adapter_model.safetensors");
  ASSERT_OK(set);
  const std::string fused = "base_model.model.transformer.h.0.attn.c_attn.";
  const auto a = (*set)->Read(fused + "lora_A.weight"),
             b = (*set)->Read(fused + "lora_B.weight");
  ASSERT_OK(a);
  ASSERT_OK(b);
  EXPECT_EQ(a->shape(), Shape({{"d0", 4}, {"d1", 24}}));
  ASSERT_EQ(b->shape(), Shape({{"d0", 72}, {"d1", 4}}));
  const std::vector<double> elements = b->ToDoubles();
  for (int row = 0; row < 72; ++row) {
    for (int column = 0; column < 4; ++column) {
      const bool is_block =
          (row < 24 && column < 2) || (row >= 48 && column >= 2);
      EXPECT_EQ(elements[row * 4 + column] != 0, is_block)
          << row << ", " << column;
    }
  }
  EXPECT_THAT(Config(),
              AllOf(HasSubstr("\"r\": 4"), HasSubstr("\"lora_alpha\": 32"),
                    HasSubstr("\"fan_in_fan_out\": true")));
  // The queries alone would lose the rows of the values.
  EXPECT_THAT(Load("gpt2", {{.pattern = "layer_0/attention/query", .rank = 4}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is not 0, but belongs to no adapter")));
}

// PEFT itself has one A for the three parts of c_attn.
TEST_F(AdapterFiles, MayShareAInAFusedLayer) {
  const std::vector<nn::AdapterOptions> options = {
      {.pattern = "layer_1/attention/query", .rank = 2},
      {.pattern = "layer_1/attention/key", .rank = 2},
      {.pattern = "layer_1/attention/value", .rank = 2}};
  Export("gpt2", options);
  const std::string fused = "base_model.model.transformer.h.1.attn.c_attn.",
                    file = path_ + "/adapter_model.safetensors";
  std::vector<double> a(2 * 24), b(72 * 2);
  for (size_t i = 0; i < a.size(); ++i) a[i] = 0.01 * (i % 7);
  for (size_t i = 0; i < b.size(); ++i) b[i] = 0.1 * (i % 5) - 0.2;
  std::remove(file.c_str());
  auto writer = SafetensorsWriter::Create(
      file, {{fused + "lora_A.weight", kFloat32, {2, 24}},
             {fused + "lora_B.weight", kFloat32, {72, 2}}});
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->Write(
      fused + "lora_A.weight",
      HostTensor::FromDoubles({{"r", 2}, {"i", 24}}, kFloat32, a)));
  ASSERT_OK((*writer)->Write(
      fused + "lora_B.weight",
      HostTensor::FromDoubles({{"o", 72}, {"r", 2}}, kFloat32, b)));
  ASSERT_OK((*writer)->Finish());
  std::remove((path_ + "/adapter_config.json").c_str());
  WriteConfig(R"({"peft_type": "LORA", "r": 2, "lora_alpha": 3.0,
                  "alpha_pattern": {"c_attn": 6,
                                    "transformer.h.1.attn.c_attn": 9},
                  "bias": "none",
                  "use_dora": false, "modules_to_save": null})");
  ASSERT_OK(LoadAdapters(*session_, fixture_->model().weights, path_));
  ASSERT_OK(
      ExportWeights(*session_, fixture_->model().weights, folder_ / "merged"));
  const std::string name = "transformer.h.1.attn.c_attn.weight";
  const auto read = [&](const std::string& path) {
    const auto set = SafetensorsSet::Open(path);
    EXPECT_OK(set);
    const auto value = (*set)->Read(name);
    EXPECT_OK(value);
    return value->ToDoubles();
  };
  const std::vector<double> before = read(fixture_->weights()),
                            after = read(folder_ / "merged");
  for (int i = 0; i < 24; ++i) {
    for (int o = 0; o < 72; ++o) {
      const double product =
          6.0 / 2 * (a[i] * b[o * 2] + a[24 + i] * b[o * 2 + 1]);
      EXPECT_NEAR(after[i * 72 + o], before[i * 72 + o] + product, 1e-6);
    }
  }
  // Without adapters of keys and values.
  EXPECT_THAT(Load("gpt2", {options[0]}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is not 0, but belongs to no adapter")));
}

// Those of `transformers` 5, which differ from those of published tensors.
TEST_F(AdapterFiles, OfVitHaveTheNamesOfLayers) {
  const std::vector<nn::AdapterOptions> options = {
      {.pattern = "layer_1/attention/output", .rank = 2}};
  Export("vit", options);
  const std::string layer = "base_model.model.vit.layers.1.attention.o_proj.",
                    older =
                        "base_model.model.vit.encoder.layer.1.attention."
                        "output.dense.";
  EXPECT_THAT(Names(),
              ElementsAre(layer + "lora_A.weight", layer + "lora_B.weight"));
  EXPECT_OK(Load("vit", options));
  RenameTensors(layer, older);
  EXPECT_THAT(Names(),
              ElementsAre(older + "lora_A.weight", older + "lora_B.weight"));
  EXPECT_OK(Load("vit", options));
}

TEST_F(AdapterFiles, OfEmbeddingsAreNotSupported) {
  Export("llama2", {{.pattern = "**/query", .rank = 2}});
  RenameTensors("layers.1.self_attn.q_proj.lora_A.weight",
                "embed_tokens.lora_embedding_A");
  const std::vector<nn::AdapterOptions> first = {
      {.pattern = "layer_0/**/query", .rank = 2}};
  EXPECT_THAT(Load("llama2", first),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("embed_tokens.lora_embedding_A"),
                             HasSubstr("adapts an embedding"))));
  EXPECT_OK(Load("llama2", first, true));
}

TEST_F(AdapterFiles, ErrorsNameTheTensorAndTheField) {
  Export("llama2", {{.pattern = "**/query", .rank = 2}});
  EXPECT_THAT(Load("llama2", {{.pattern = "**/query", .rank = 3}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("has the rank 2, but"),
                             HasSubstr("layer_0/attention/query/adapter/a"),
                             HasSubstr("build the model with .rank = 2"))));
  EXPECT_THAT(Load("llama2", {{.pattern = "layer_0/**/query", .rank = 2}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("2 tensors in"),
                             HasSubstr("layers.1.self_attn.q_proj"))));
  EXPECT_OK(Load("llama2", {{.pattern = "layer_0/**/query", .rank = 2}}, true));
  EXPECT_THAT(Load("llama2", {{.pattern = "**", .rank = 2}}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("self_attn.k_proj.lora_A.weight")));
  EXPECT_OK(Load("llama2", {{.pattern = "**", .rank = 2}}, true));
  EXPECT_THAT(Load("llama2", {}),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("has no adapter to load"),
                             HasSubstr("mtf train: --adapters"))));
  const std::string config = Config();
  for (const char* alpha : {"1e300", "-1e39"}) {
    WriteConfig(absl::StrReplaceAll(
        config,
        {{"\"lora_alpha\": 16", absl::StrCat("\"lora_alpha\": ", alpha)}}));
    EXPECT_THAT(Load("llama2", {{.pattern = "**/query", .rank = 2}}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("q_proj"), HasSubstr("at most"),
                               HasSubstr("\"lora_alpha\""))))
        << alpha;
  }
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"\"LORA\"", "\"IA3\""},
      {"\"bias\": \"none\"", "\"bias\": \"all\""},
      {"\"inference_mode\"", "\"use_dora\""},
      {"\"inference_mode\": true", "\"init_lora_weights\": \"pissa_niter_4\""},
      {"\"inference_mode\": true", "\"layer_replication\": [[0, 2]]"},
      {"\"inference_mode\": true", "\"modules_to_save\": [\"lm_head\"]"},
      {"\"alpha_pattern\": {}", "\"alpha_pattern\": 3"},
      {"\"alpha_pattern\": {}", "\"alpha_pattern\": {\"^a.*b$\": 1}"}};
  for (const auto& [from, to] : changes) {
    WriteConfig(absl::StrReplaceAll(config, {{from, to}}));
    EXPECT_THAT(Load("llama2", {{.pattern = "**/query", .rank = 2}}),
                StatusIs(absl::StatusCode::kUnimplemented,
                         HasSubstr("adapter_config.json\" must be")))
        << to;
  }
  WriteConfig(absl::StrReplaceAll(
      config, {{"\"inference_mode\": true",
                "\"init_lora_weights\": \"gaussian\", "
                "\"modules_to_save\": [], \"loftq_config\": {}"}}));
  EXPECT_OK(Load("llama2", {{.pattern = "**/query", .rank = 2}}));
  WriteConfig("[1");
  EXPECT_THAT(Load("llama2", {{.pattern = "**/query", .rank = 2}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is not a JSON object")));
}

// alpha / rank is not an f32: the file has alpha all the same.
TEST_F(AdapterFiles, HaveTheShortestAlpha) {
  const auto options = [](int64_t rank) {
    return std::vector<nn::AdapterOptions>{
        {.pattern = "layer_0/attention/query", .rank = rank},
        {.pattern = "layer_0/attention/key", .rank = rank},
        {.pattern = "layer_0/attention/value", .rank = rank}};
  };
  Export("gpt2", options(3));
  EXPECT_THAT(Config(),
              AllOf(HasSubstr("\"r\": 9,"), HasSubstr("\"lora_alpha\": 48,"),
                    HasSubstr("\"alpha_pattern\": {},")));
  EXPECT_THAT(Load("gpt2", options(4)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("has the rank 9, but"),
                             HasSubstr("build the model with .rank = 3 (mtf "
                                       "train: --adapter_rank=3)"))));
}

TEST(ExportAdaptersErrors, SayWhatDiffersOrIsMissing) {
  const auto status = [](const std::string& name,
                         const std::vector<nn::AdapterOptions>& adapters) {
    const TemporaryFolder folder;
    ModelFixture fixture(name, adapters);
    const auto session = fixture.Start("data:1", "", fixture.weights());
    return ExportAdapters(*session, fixture.model().weights, folder / "a");
  };
  EXPECT_THAT(status("gpt2", {}), StatusIs(absl::StatusCode::kNotFound,
                                           HasSubstr("has no adapter")));
  EXPECT_THAT(status("gpt2", {{.pattern = "**/query", .rank = 2},
                              {.pattern = "**/key", .rank = 3}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("have the ranks 2 and 3")));
  EXPECT_THAT(status("gpt2", {{.pattern = "**/query", .rank = 2, .alpha = 2},
                              {.pattern = "**/key", .rank = 2, .alpha = 4}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("have the scales 1 and 2")));
}

}  // namespace
}  // namespace mtf::train
