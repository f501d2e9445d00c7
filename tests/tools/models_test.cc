// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "tools/models.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

TEST(Models, AllBuildInAFewLayers) {
  for (const std::string& name : ModelNames()) {
    auto sizes = FindModel(name);
    ASSERT_OK(sizes);
    sizes->layers = 2;
    const auto step = BuildGpt(*sizes);
    ASSERT_OK(step) << name;
    EXPECT_EQ(step->targets.updates.size(), 1u);
  }
  // 12 d^2 for each block, plus 2 vocab d and length d.
  const GptSizes gpt3 = *FindModel("gpt3_175b");
  const double parameters =
      static_cast<double>(gpt3.layers) * 12 * gpt3.d_model * gpt3.d_model;
  EXPECT_NEAR(parameters, 174e9, 1e9);
}

// Billions of parameters as published: Shazeer et al., 2018, and
// tensor2tensor's mtf_transformer.py.
TEST(Models, OfMeshTensorFlowHaveThePublishedSizes) {
  const std::pair<const char*, double> published[] = {
      {"mesh_lm_m1", 0.14}, {"mesh_lm_0", 0.22}, {"mesh_lm_1", 0.37},
      {"mesh_lm_2", 0.67},  {"mesh_lm_3", 1.28}, {"mesh_lm_4", 2.48},
      {"mesh_lm_5", 4.90}};
  for (const auto& [name, billions] : published) {
    const auto sizes = FindModel(name);
    ASSERT_OK(sizes);
    const auto step = BuildGpt(*sizes);
    ASSERT_OK(step);
    double parameters = 0;
    for (const VariableInfo& info : step->graph->variables()) {
      if (info.kind != VariableKind::kParameter) continue;
      parameters += static_cast<double>(info.shape.num_elements());
    }
    EXPECT_NEAR(parameters / 1e9, billions, 0.006) << name;
  }
}

}  // namespace
}  // namespace mtf
