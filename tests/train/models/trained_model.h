// SPDX-License-Identifier: Apache-2.0
//
// Small models with batches to train them on.
#ifndef TESTS_TRAIN_MODELS_TRAINED_MODEL_H_
#define TESTS_TRAIN_MODELS_TRAINED_MODEL_H_

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nn/models/build_model.h"
#include "nn/optimizers/adam.h"
#include "tests/matchers.h"
#include "tests/train/models/characters.h"
#include "tests/train/weights/model_fixture.h"
#include "train/session/session.h"

namespace mtf::train {

// Models of Mesh-TensorFlow, small, of which there is no fixture.
inline std::map<std::string, std::string> MeshModelConfigs() {
  const std::string transformer = R"({"model_type": "mtf_transformer",
      "vocab_size": 40, "max_length": 12, "d_model": 16, "d_kv": 5,
      "d_ff": 24, "num_heads": 4, "num_encoder_layers": 2,
      "transformer_type": )",
                    image = R"({"model_type": "mtf_image_transformer",
      "vocab_size": 40, "img_len": 4, "num_channels": 2, "hidden_size": 16,
      "d_kv": 5, "d_ff": 24, "num_heads": 4, "num_decoder_layers": 2,
      "block_length": 5, "block_height": 2, "block_width": 3,
      "attention_type": )";
  return {
      {"mesh_lm",
       transformer + R"("decoder", "label_smoothing": 0, "z_loss": 1e-3,
          "shared_embedding_and_softmax_weights": false})"},
      {"mesh_translation", transformer + R"("encdec"})"},
      {"mesh_encoder", transformer + R"("encoder"})"},
      {"image_local1d", image + R"("local1d"})"},
      {"image_local1d_spatial", image + R"("local1d_spatial"})"},
      {"image_local2d_spatial", image + R"("local2d_spatial"})"},
  };
}

inline std::vector<std::string> MeshModelNames() {
  std::vector<std::string> names;
  for (const auto& [name, config] : MeshModelConfigs()) names.push_back(name);
  return names;
}

// The config.json of one of these, or of a fixture.
inline std::string TrainedConfig(const std::string& name) {
  const std::map<std::string, std::string> configs = MeshModelConfigs();
  const auto found = configs.find(name);
  if (found != configs.end()) return found->second;
  return FileText(absl::StrCat(ModelFolder(name), "/config.json"));
}

// A step of such a model, with its dropout.
class TrainedModel {
 public:
  explicit TrainedModel(const std::string& name) {
    nn::ModelSizes sizes;
    sizes.batch = 4;
    sizes.length = 9;
    sizes.target_length = 6;
    sizes.image_size = 33;
    auto model = nn::BuildModel(graph_, "", TrainedConfig(name), sizes);
    EXPECT_OK(model);
    if (!model.ok()) return;
    model_ = *std::move(model);
    step_ = nn::AdamW({.learning_rate = 1e-3}).Minimize(model_.objective);
    EXPECT_OK(graph_.status());
  }

  const Graph& graph() const { return graph_; }
  // Batch `step`: windows of a text, or pictures.
  RunRequest request(int64_t step = 0) const {
    return {.feeds = Feeds(step), .fetches = {model_.loss}, .updates = {step_}};
  }

  // The losses of so many steps on two batches in turn.
  std::vector<double> Losses(const std::string& mesh, const std::string& layout,
                             int64_t steps) {
    auto session = Session::Create(graph_, mesh, layout);
    EXPECT_OK(session);
    if (!session.ok()) return {};
    EXPECT_OK((*session)->Initialize());
    std::vector<double> losses;
    for (int64_t i = 0; i < steps; ++i) {
      const auto values = (*session)->Run(request(i % 2));
      EXPECT_OK(values);
      if (!values.ok()) return losses;
      losses.push_back((*values)[0].ToDoubles()[0]);
    }
    return losses;
  }

 private:
  std::map<std::string, HostTensor> Feeds(int64_t step) const {
    std::map<std::string, HostTensor> feeds;
    for (const Tensor& input : model_.inputs) {
      const std::string name = graph_.FeedName(input);
      std::vector<double> values;
      for (int64_t i = 0; i < input.shape().num_elements(); ++i) {
        values.push_back(Value(name, input.shape(), step, i));
      }
      feeds[name] =
          HostTensor::FromDoubles(input.shape(), input.dtype(), values);
    }
    return feeds;
  }

  // Element `i` of the input `name`.
  double Value(const std::string& name, const Shape& shape, int64_t step,
               int64_t i) const {
    const int64_t row =
        step * shape[0].size + i / (shape.num_elements() / shape[0].size);
    if (name == "labels") return static_cast<double>(row % model_.classes);
    if (name == "next_sentences") return static_cast<double>(row % 2);
    if (name == "images") {
      // Stripes as wide as their class.
      const double at = static_cast<double>(i % 997);
      return std::sin(at / static_cast<double>(1 + row % model_.classes));
    }
    const int64_t length = shape[1].size, at = i % length;
    if (name == "token_types") return 2 * at < length ? 0 : 1;
    if (name == "mask") return at + row % 3 < length ? 1 : 0;
    const int64_t next = name == "targets" && model_.type != "bert" ? 1 : 0;
    return testing::CharacterOfText(row * length + at + next);
  }

  Graph graph_;
  nn::PublishedModel model_;
  Tensor step_;
};

// A mesh that has the axes of every preset.
inline std::string MeshFor(absl::string_view preset) {
  if (preset == "three_axes") return "data:1,sequence:2,model:2";
  if (preset == "megatron" || preset == "megatron_sequence") return "model:3";
  for (const absl::string_view one : {"data", "zero2", "zero3", "expert"}) {
    if (preset == one) return "data:3";
  }
  return "data:2,model:2";
}

}  // namespace mtf::train

#endif  // TESTS_TRAIN_MODELS_TRAINED_MODEL_H_
