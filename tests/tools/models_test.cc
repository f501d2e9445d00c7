// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "tools/models.h"

#include <string>

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

}  // namespace
}  // namespace mtf
