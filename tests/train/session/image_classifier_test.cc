// SPDX-License-Identifier: Apache-2.0
//
// A classifier of pictures, the model of examples/image_classifier.cc in a
// small size: sharded pictures give the losses of one device, and send halos,
// statistics and gradients only.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/count_costs.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/convolution.h"
#include "nn/layers/dense.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adam.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/pool.h"
#include "ops/reduce.h"
#include "tests/matchers.h"
#include "tests/nn/oracle.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

// Neither 3 nor 2 divides all of them.
const Dimension kBatch{"batch", 6}, kHeight{"height", 14}, kWidth{"width", 12},
    kColors{"colors", 2}, kChannels{"channels", 5}, kFeatures{"features", 7},
    kDigits{"digit", 4};

Tensor Block(Tensor x, const Dimension& in, const Dimension& out) {
  x = nn::Convolution(x, {{"height", 3}, {"width", 3}}, in, out,
                      {.bias = false, .init_scale = 2});
  x = Relu(nn::BatchNorm(x, out));
  return MaxPool(x, {{"height", 2}, {"width", 2}});
}

struct Classifier {
  Classifier() {
    Tensor x = Input(graph, "x", kFloat32, {kBatch, kHeight, kWidth, kColors});
    const Tensor labels = Input(graph, "labels", kInt32, {kBatch});
    x = Block(x, kColors, kChannels);
    x = Block(x, kChannels, kFeatures);
    x = ReduceMean(x, {kBatch, kFeatures});
    loss = nn::SoftmaxCrossEntropy(nn::Dense(x, {kFeatures}, {kDigits}),
                                   kDigits, labels);
    step = nn::AdamW({.learning_rate = 0.01}).Minimize(loss);
  }
  RunRequest RequestOf(int64_t i) const {
    const Shape shape = {kBatch, kHeight, kWidth, kColors};
    return {.feeds = {{"x", HostTensor::FromDoubles(
                                shape, kFloat32,
                                testing::SomeNumbers(shape.num_elements(), i))},
                      {"labels",
                       HostTensor::Of<int32_t>({kBatch}, {0, 1, 2, 3, 1, 2})}},
            .fetches = {loss},
            .updates = {step}};
  }

  Graph graph;
  Tensor loss, step;
};

struct Trained {
  std::vector<double> losses;
  HostTensor moving_variance;
  std::map<std::pair<std::string, std::string>, int> calls;  // kind, axes
};

Trained Train(const std::string& mesh, const std::string& layout) {
  const Classifier model;
  Trained trained;
  auto session = Session::Create(model.graph, mesh, layout);
  EXPECT_OK(session);
  if (!session.ok()) return trained;
  EXPECT_OK((*session)->Initialize());
  for (int64_t i = 0; i < 8; ++i) {
    const RunRequest request = model.RequestOf(i % 2);
    const auto values = (*session)->Run(request);
    EXPECT_OK(values);
    if (!values.ok()) return trained;
    trained.losses.push_back(*(*values)[0].At(0));
    if (i > 0) continue;
    const auto program = (*session)->ProgramOf(request);
    EXPECT_OK(program);
    for (const auto& [key, count] : CountCollectives(**program)) {
      const std::string kind(CollectiveName(key.first));
      const std::string axes((*program)->mesh.AxisNames(ListOf(key.second)));
      trained.calls[std::make_pair(kind, axes)] += count.first;
    }
  }
  trained.moving_variance =
      *(*session)->ReadVariable("batch_norm_1/moving_variance");
  return trained;
}

TEST(ImageClassifier, LossesDoNotDependOnTheLayout) {
  const Trained one = Train("", "");
  ASSERT_EQ(one.losses.size(), 8);
  EXPECT_LT(one.losses.back(), 0.8 * one.losses.front());
  EXPECT_TRUE(one.calls.empty());
  struct Layout {
    const char *mesh, *layout;
  };
  for (const Layout& each :
       {Layout{"data:2", "batch:data"}, Layout{"data:4", "batch:data"},
        Layout{"rows:2,columns:2", "height:rows, width:columns"},
        Layout{"rows:2,columns:3", "height:rows, width:columns"},
        Layout{"rows:3,columns:2", "height:rows, width:columns"},
        Layout{"data:2,rows:2,columns:2",
               "batch:data, height:rows, width:columns"},
        Layout{"model:2", "channels:model"},
        Layout{"data:2,model:2",
               "batch:data [parameters] channels:model [optimizer] "
               "channels:model"}}) {
    SCOPED_TRACE(absl::StrCat(each.mesh, " ", each.layout));
    const Trained sharded = Train(each.mesh, each.layout);
    ASSERT_EQ(sharded.losses.size(), one.losses.size());
    for (size_t i = 0; i < one.losses.size(); ++i) {
      EXPECT_NEAR(sharded.losses[i], one.losses[i], 1e-4 * one.losses[i]);
    }
    for (int64_t i = 0; i < kFeatures.size; ++i) {
      EXPECT_NEAR(*sharded.moving_variance.At(i), *one.moving_variance.At(i),
                  1e-4);
    }
  }
}

// Halos are permutations; what is reduced is statistics of batches, means over
// pictures and gradients. Nothing is gathered.
TEST(ImageClassifier, ShardedPicturesSendHalosAndSumsOnly) {
  const Trained trained =
      Train("rows:2,columns:2", "height:rows, width:columns");
  for (const auto& [key, calls] : trained.calls) {
    EXPECT_TRUE(key.first == "collective_permute" || key.first == "all_reduce")
        << key.first << " over " << key.second << " " << calls << "x";
  }
  EXPECT_GT((trained.calls.count({"collective_permute", "rows"})), 0);
  EXPECT_GT((trained.calls.count({"collective_permute", "columns"})), 0);
}

}  // namespace
}  // namespace mtf::train
