// SPDX-License-Identifier: Apache-2.0
//
// Models of nn/models with weights that the package `transformers` has saved,
// against what it computed with them: logits, losses and gradients.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/weights/model_fixture.h"

namespace mtf::train {
namespace {

// In float32, by the sums of some tens of products in different orders.
constexpr double kClose = 1e-4;

struct PublishedPlace {
  const char *mesh, *layout;
};
const PublishedPlace kPublishedPlaces[] = {
    {"data:1", "single"},    {"model:2", "megatron"},
    {"data:2", "zero3"},     {"data:2,model:2", "data_model"},
    {"model:3", "megatron"}, {"data:3", "zero3"},
};

// The gradients that the fixture has, and the parameters that they belong to.
struct ExpectedGradient {
  std::string name;
  nn::ParameterWeights weights;
  Tensor gradient;
};

std::vector<ExpectedGradient> GradientsOf(ModelFixture& fixture,
                                          const WeightFiles& files) {
  const auto all = nn::ResolveWeights(fixture.graph(), fixture.model().weights);
  EXPECT_OK(all);
  if (!all.ok()) return {};
  std::vector<ExpectedGradient> result;
  std::vector<Tensor> variables;
  for (const nn::ParameterWeights& weights : *all) {
    if (files.Find(weights.tensors[0]) == nullptr) continue;
    const VariableInfo& info = fixture.graph().variables()[weights.variable];
    result.push_back({info.name, weights, {}});
    variables.push_back(info.read);
  }
  const std::vector<Tensor> gradients =
      Gradients(fixture.model().loss, variables);
  for (size_t i = 0; i < result.size(); ++i) result[i].gradient = gradients[i];
  return result;
}

// The gradients of the fixture in a file of their own, under the names of their
// parameters.
std::string WriteGradients(const ModelFixture& fixture,
                           const std::string& name) {
  std::vector<SafetensorsSpec> specs;
  std::vector<HostTensor> values;
  for (const std::string& each : fixture.expected().names()) {
    absl::string_view parameter = each;
    if (!absl::ConsumePrefix(&parameter, "grad.")) continue;
    const auto value = fixture.expected().Read(each);
    EXPECT_OK(value);
    std::vector<int64_t> sizes;
    for (const Dimension& dim : value->shape()) sizes.push_back(dim.size);
    specs.push_back({std::string(parameter), kFloat32, sizes});
    values.push_back(*value);
  }
  const std::string path =
      absl::StrCat(::testing::TempDir(), "/", name, "_gradients.safetensors");
  std::remove(path.c_str());
  auto writer = SafetensorsWriter::Create(path, specs);
  EXPECT_OK(writer);
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_OK((*writer)->Write(specs[i].name, values[i]));
  }
  EXPECT_OK((*writer)->Finish());
  return path;
}

class PublishedModels : public ::testing::TestWithParam<std::string> {};

TEST_P(PublishedModels, ComputeWhatTheReferenceComputes) {
  ModelFixture fixture(GetParam());
  ASSERT_OK(fixture.graph().status());
  const auto files = WeightFiles::Open(WriteGradients(fixture, GetParam()),
                                       fixture.model().weights);
  ASSERT_OK(files);
  const std::vector<ExpectedGradient> gradients = GradientsOf(fixture, **files);
  EXPECT_GE(gradients.size(), 3u);
  RunRequest request;
  request.feeds = fixture.Feeds();
  request.fetches = {fixture.model().logits, fixture.model().loss};
  for (const ExpectedGradient& each : gradients) {
    ASSERT_TRUE(each.gradient.valid()) << each.name;
    request.fetches.push_back(each.gradient);
  }
  const auto logits = fixture.expected().Read("logits");
  const auto loss = fixture.expected().Read("loss");
  ASSERT_OK(logits);
  ASSERT_OK(loss);

  for (const PublishedPlace& place : kPublishedPlaces) {
    SCOPED_TRACE(absl::StrCat(place.mesh, " ", place.layout));
    const std::unique_ptr<Session> session =
        fixture.Start(place.mesh, place.layout, fixture.weights());
    ASSERT_NE(session, nullptr);
    const auto values = session->Run(request);
    ASSERT_OK(values);
    EXPECT_LT(Difference((*values)[0].ToDoubles(), logits->ToDoubles()), kClose)
        << "logits";
    EXPECT_LT(Difference((*values)[1].ToDoubles(), loss->ToDoubles()), kClose)
        << "loss";
    for (size_t i = 0; i < gradients.size(); ++i) {
      const ExpectedGradient& each = gradients[i];
      const Shape& shape = each.gradient.shape();
      ElementRanges all;
      for (const Dimension& dim : shape) all.push_back({0, dim.size});
      const auto expected = (*files)->Read(each.weights, shape, all);
      ASSERT_OK(expected);
      // Gradients are small: 1e-4 of their greatest element. That of a bias of
      // keys is 0 but for rounding errors, because it shifts all logits of a
      // query alike.
      EXPECT_LT(Difference((*values)[i + 2].ToDoubles(), expected->ToDoubles(),
                           /*least=*/1e-3),
                kClose)
          << each.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PublishedModels,
                         ::testing::ValuesIn(ModelNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mtf::train
