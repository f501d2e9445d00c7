// SPDX-License-Identifier: Apache-2.0
//
// The training step of a small transformer under each preset, compared with the
// files of tests/golden/: <preset>.txt is the program that every rank runs,
// before buffers are planned, and <preset>.explain.txt its explanation. A
// collective that appears or disappears there is an intended performance
// change. To rewrite the files, run
//
//   MTF_UPDATE_GOLDENS=1 lowering_test --gtest_filter='*Golden*'
//
// and, for the outputs of programs, <preset>.<program>.explain.txt, train_test.
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "lowering/program/print_program.h"
#include "planning/explain/explain.h"
#include "planning/machine/machine.h"
#include "tests/golden_files.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

struct GoldenCase {
  std::string preset;
  int64_t ranks;
  friend std::ostream& operator<<(std::ostream& out, const GoldenCase& c) {
    return out << c.preset << " on " << c.ranks;
  }
};

std::vector<GoldenCase> GoldenCases() {
  std::vector<GoldenCase> cases;
  for (const std::string& preset : LayoutRules::PresetNames()) {
    cases.push_back({preset, preset == "single"       ? 1
                             : preset == "three_axes" ? 8
                                                      : 4});
  }
  return cases;
}

class Golden : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(Golden, TrainingStep) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  const auto program =
      LowerPreset(graph, GetParam().preset, GetParam().ranks,
                  {.fetches = {model.loss}, .updates = {model.step}},
                  {.last_pass = "overlap_collectives"});
  ASSERT_OK(program);
  ExpectGolden(GetParam().preset + ".txt", PrintProgram(*program));
}

TEST_P(Golden, Explanation) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  const std::string& preset = GetParam().preset;
  const auto rules = LayoutRules::Preset(preset);
  const auto mesh = LayoutRules::PresetMesh(preset, GetParam().ranks);
  const auto machine = Machine::Load("h100_nvlink_ib");
  ASSERT_OK(rules);
  ASSERT_OK(mesh);
  ASSERT_OK(machine);
  const auto explanation =
      Explain(graph, *mesh, *rules,
              {.fetches = {model.loss}, .updates = {model.step}}, *machine);
  ASSERT_OK(explanation);
  ExpectGolden(preset + ".explain.txt", ExplainText(*explanation, 120));
}

INSTANTIATE_TEST_SUITE_P(Presets, Golden, ::testing::ValuesIn(GoldenCases()),
                         [](const auto& info) { return info.param.preset; });

// A removed preset leaves no file behind.
TEST(GoldenFiles, EveryFileBelongsToAPreset) {
  const std::vector<std::string> presets = LayoutRules::PresetNames();
  for (const auto& entry : std::filesystem::directory_iterator(GOLDEN_DIR)) {
    if (entry.is_directory()) continue;  // cuda/, which train_test writes
    std::string name = entry.path().filename().string();
    name = name.substr(0, name.find('.'));
    EXPECT_THAT(presets, ::testing::Contains(name)) << entry.path();
  }
}

}  // namespace
}  // namespace mtf::testing
