// SPDX-License-Identifier: Apache-2.0
//
// The models of tests/fixtures/models.py, in a session.
#ifndef TESTS_TRAIN_WEIGHTS_MODEL_FIXTURE_H_
#define TESTS_TRAIN_WEIGHTS_MODEL_FIXTURE_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "mtf/status.h"
#include "nn/layers/adapter.h"
#include "nn/models/build_model.h"
#include "ops/gradients.h"
#include "tests/matchers.h"
#include "train/checkpoint/safetensors_set.h"
#include "train/session/session.h"
#include "train/weights/load_weights.h"
#include "train/weights/weight_files.h"

namespace mtf::train {

// The models of tests/fixtures/models.py.
inline std::vector<std::string> ModelNames() {
  return {"gpt2", "llama2",  "llama3", "mistral", "mixtral",
          "t5",   "t5_v1_1", "bert",   "vit",     "resnet"};
}

inline std::string ModelFolder(const std::string& name) {
  return absl::StrCat(MODELS_DIR, "/", name);
}

inline std::string FileText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// One model of the fixtures, with what the reference computed.
class ModelFixture {
 public:
  // With adapters, and a prompt of this length, if given.
  explicit ModelFixture(const std::string& name,
                        const std::vector<nn::AdapterOptions>& adapters = {},
                        int64_t prompt_length = 0)
      : folder_(ModelFolder(name)),
        config_(FileText(absl::StrCat(folder_, "/config.json"))) {
    auto expected =
        SafetensorsSet::Open(absl::StrCat(folder_, "/expected.safetensors"));
    EXPECT_OK(expected);
    if (expected.ok()) expected_ = *std::move(expected);
    nn::ModelSizes sizes;
    sizes.batch = 3;
    sizes.length = 10;
    sizes.target_length = 7;
    sizes.image_size = 20;
    sizes.prompt_length = prompt_length;
    // Batch norms of the reference used their averages.
    const ModeScope mode(graph_, Mode::kEvaluate);
    std::deque<nn::AdapterScope> scopes;
    for (const nn::AdapterOptions& each : adapters) {
      scopes.emplace_back(graph_, each);
    }
    auto model = nn::BuildModel(graph_, "", config_, sizes);
    EXPECT_OK(model);
    if (model.ok()) model_ = *std::move(model);
  }

  Graph& graph() { return graph_; }
  const nn::PublishedModel& model() const { return model_; }
  const std::string& folder() const { return folder_; }
  const std::string& config() const { return config_; }
  const SafetensorsSet& expected() const { return *expected_; }

  // The weights in the folder, which also has expected.safetensors.
  std::string weights() const {
    const std::string index =
        absl::StrCat(folder_, "/model.safetensors.index.json");
    return std::ifstream(index) ? index
                                : absl::StrCat(folder_, "/model.safetensors");
  }

  // A session whose parameters have the weights at `path`.
  std::unique_ptr<Session> Start(const std::string& mesh,
                                 const std::string& layout,
                                 const std::string& path) {
    auto session = Session::Create(graph_, mesh, layout);
    EXPECT_OK(session);
    if (!session.ok()) return nullptr;
    EXPECT_OK((*session)->Initialize());
    const auto loaded = LoadWeights(**session, model_.weights, path);
    EXPECT_OK(loaded);
    return loaded.ok() ? *std::move(session) : nullptr;
  }

  std::map<std::string, HostTensor> Feeds() const {
    std::map<std::string, HostTensor> feeds;
    for (const Tensor& input : model_.inputs) {
      const std::string name = graph_.FeedName(input);
      const auto value = expected_->Read(name);
      EXPECT_OK(value) << name;
      HostTensor feed(input.shape(), input.dtype());
      if (value.ok() && value->num_bytes() == feed.num_bytes()) {
        std::memcpy(feed.data(), value->data(), feed.num_bytes());
      } else {
        ADD_FAILURE() << name << " has another size";
      }
      feeds[name] = feed;
    }
    return feeds;
  }

 private:
  const std::string folder_, config_;
  std::unique_ptr<SafetensorsSet> expected_;
  Graph graph_;
  nn::PublishedModel model_;
};

// The greatest difference of the elements, divided by the greatest element of
// `b`, or by `least` if that is less.
inline double Difference(const std::vector<double>& a,
                         const std::vector<double>& b, double least = 1) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, greatest = least;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    greatest = std::max(greatest, std::abs(b[i]));
    if (a[i] != a[i]) return a[i];
  }
  return difference / greatest;
}

}  // namespace mtf::train

#endif  // TESTS_TRAIN_WEIGHTS_MODEL_FIXTURE_H_
