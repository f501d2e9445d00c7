// SPDX-License-Identifier: Apache-2.0
//
// The training step of a small transformer under each preset. For the presets
// of HasGoldens it is compared with the files of tests/golden/: <preset>.txt is
// the program that every rank runs, before buffers are planned, and
// <preset>.explain.txt its explanation. A collective that appears or disappears
// there is an intended performance change. To rewrite the files, run
//
//   MTF_UPDATE_GOLDENS=1 lowering_test --gtest_filter='*Golden*'
//
// and for the outputs of programs, <preset>.<program>.explain.txt,
// train_loop_test with --gtest_filter='*Explanations*'.
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lowering/parse_program.h"
#include "lowering/program/count_costs.h"
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
  const std::string text = PrintProgram(*program);
  if (HasGoldens(GetParam().preset)) {
    ExpectGolden(GetParam().preset + ".txt", text);
  }
  const auto parsed = ParseProgram(text);
  ASSERT_OK(parsed);
  EXPECT_EQ(PrintProgram(*parsed), text);
  EXPECT_EQ(Costs(parsed), Costs(program));
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
  const std::string text = ExplainFullText(*explanation, 120);
  if (HasGoldens(preset)) ExpectGolden(preset + ".explain.txt", text);
  const auto program =
      LowerPreset(graph, preset, GetParam().ranks,
                  {.fetches = {model.loss}, .updates = {model.step}});
  ASSERT_OK(program);
  int64_t calls = 0, bytes = 0;
  for (const auto& [key, count] : CountCollectives(*program)) {
    calls += count.first;
    bytes += count.second;
  }
  EXPECT_EQ(explanation->cost.wire_bytes, bytes);
  EXPECT_EQ(explanation->cost.memory_bytes, explanation->memory.total);
  int64_t listed_calls = 0, listed_bytes = 0;
  for (const ExplainedCollective& collective : explanation->collectives) {
    ++listed_calls;
    listed_bytes += collective.bytes;
  }
  EXPECT_EQ(listed_calls, calls);
  EXPECT_EQ(listed_bytes, bytes);
}

INSTANTIATE_TEST_SUITE_P(Presets, Golden, ::testing::ValuesIn(GoldenCases()),
                         [](const auto& info) { return info.param.preset; });

TEST(GoldenFiles, EveryFileBelongsToAPresetThatHasGoldens) {
  for (const auto& entry : std::filesystem::directory_iterator(GOLDEN_DIR)) {
    if (entry.is_directory())
      continue;  // cuda/, which train_kernels_test writes
    std::string name = entry.path().filename().string();
    name = name.substr(0, name.find('.'));
    EXPECT_TRUE(HasGoldens(name)) << entry.path();
  }
}

}  // namespace
}  // namespace mtf::testing
