// SPDX-License-Identifier: Apache-2.0
//
// docs/explain.md documents the JSON: every key, and every flag that affects
// it.
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "nn/layers/dense.h"
#include "nn/optimizers/adam.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "planning/explain/explain.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;

std::string Page() {
  std::ifstream file(std::string(DOCS_ROOT) + "/docs/explain.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void CollectKeys(const nlohmann::json& json, std::set<std::string>& keys) {
  // A number has no keys.
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) {
    if (json.is_object()) keys.insert(key);
    CollectKeys(value, keys);
  }
}

TEST(ExplainPage, ExplainsEveryNameOfTheJson) {
  Graph graph;
  const Dimension batch{"batch", 7}, io{"io", 4}, hidden{"hidden", 6};
  const Tensor x = Input(graph, "x", kFloat32, {batch, io});
  const Tensor y = nn::Dense(nn::Dense(x, {io}, {hidden}), {hidden}, {io});
  const Tensor loss = ReduceMean(Square(y - x), {});
  const auto explanation =
      Explain(graph, *Mesh::Parse("data:2,model:2"),
              *LayoutRules::Parse("batch:data, hidden:model", "--layout"),
              {.fetches = {loss}, .updates = {nn::AdamW().Minimize(loss)}},
              *Machine::Load("h100_nvlink_ib"));
  ASSERT_OK(explanation);
  std::set<std::string> keys;
  CollectKeys(nlohmann::json::parse(ExplainJson(*explanation)), keys);
  // Every list has an item, so that its keys are checked.
  EXPECT_EQ(keys.count("padded"), 1u);
  EXPECT_EQ(keys.count("edit"), 1u);
  EXPECT_EQ(keys.count("peak_site"), 1u);
  EXPECT_GT(keys.size(), 60u);
  const std::string page = Page();
  for (const std::string& key : keys) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("`", key, "`"))) << key;
  }
}

TEST(ExplainPage, NamesTheFlags) {
  for (const char* flag :
       {"--explain", "--explain=json", "--explain=html", "--explain_file",
        "--dry_run", "--machine", "--explain_all_changes"}) {
    EXPECT_THAT(Page(), HasSubstr(absl::StrCat("`", flag))) << flag;
  }
}

}  // namespace
}  // namespace mtf
