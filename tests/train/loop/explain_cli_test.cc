// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (checks the output of other programs)
//
// --explain and --dry_run of the examples. Their output under some presets is
// in tests/golden/<preset>.transformer_lm.explain.txt; to update it, run
//
//   MTF_UPDATE_GOLDENS=1 train_loop_test --gtest_filter='*Explanations*'

#include <cstdio>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/layout_rules.h"
#include "nlohmann/json.hpp"

#ifdef TRANSFORMER_LM  // a build without the examples has none
#include "tests/golden_files.h"
#include "tests/run_command.h"

namespace mtf::train {
namespace {

using ::mtf::testing::ExpectGolden;
using ::mtf::testing::HasGoldens;
using ::mtf::testing::Outcome;
using ::mtf::testing::ReadText;
using ::mtf::testing::RunCommand;
using ::mtf::testing::Temporary;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Outcome RunProgram(const std::string& program, const std::string& arguments) {
  // Without a machine file of the user.
  return RunCommand(absl::StrCat("MTF_MACHINES=/no/such/folder timeout 60 ",
                                 program, " ", arguments));
}

// Runs the example on a text of the test.
Outcome RunExample(const std::string& arguments) {
  const std::string text = Temporary("text.txt");
  std::ofstream(text) << std::string(4096, 'a');
  Outcome outcome =
      RunProgram(TRANSFORMER_LM, absl::StrCat("--text=", text, " ", arguments));
  std::remove(text.c_str());
  return outcome;
}

std::string MeshOf(const std::string& preset) {
  return LayoutRules::PresetMesh(preset, preset == "three_axes" ? 8 : 4)
      ->ToString();
}

// Expects an explanation of `preset` on its mesh.
void ExpectExplanation(const Outcome& outcome, const std::string& preset) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith(absl::StrCat("mesh ", MeshOf(preset), " (")),
                    HasSubstr("estimates for machine "), HasSubstr("\nstep "),
                    HasSubstr(" of memory\n")));
}

class Explanations : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(EveryPreset, Explanations,
                         ::testing::ValuesIn(LayoutRules::PresetNames()),
                         [](const auto& info) { return info.param; });

TEST_P(Explanations, OfTheTransformer) {
  const Outcome outcome = RunExample(absl::StrCat(
      "--explain --layout=", GetParam(), " --mesh_shape=", MeshOf(GetParam())));
  ExpectExplanation(outcome, GetParam());
  if (HasGoldens(GetParam())) {
    ExpectGolden(GetParam() + ".transformer_lm.explain.txt", outcome.out);
  }
}

TEST_P(Explanations, OfTheProgramOfTheReadme) {
  const Outcome outcome = RunProgram(
      README_PROGRAM, absl::StrCat("--explain --layout=", GetParam(),
                                   " --mesh_shape=", MeshOf(GetParam())));
  ExpectExplanation(outcome, GetParam());
}

TEST_P(Explanations, OfGpt2) {
  const Outcome outcome =
      RunProgram(GPT2, absl::StrCat("--explain --layout=", GetParam(),
                                    " --mesh_shape=", MeshOf(GetParam())));
  ExpectExplanation(outcome, GetParam());
}

TEST_P(Explanations, OfTheLessons) {
  for (const char* program : {LESSON_1, LESSON_2}) {
    const Outcome outcome =
        RunProgram(program, absl::StrCat("--explain --layout=", GetParam(),
                                         " --mesh_shape=", MeshOf(GetParam())));
    ExpectExplanation(outcome, GetParam());
  }
}

TEST(ExplainCli, ADryRunTakesAnyMeshAndAllocatesNothing) {
  // Its parameters alone are 700 GB.
  const Outcome outcome = RunExample(
      "--dry_run --mesh_shape='data:64;model:16' --layout=data_model "
      "--layers=96 --d_model=12288 --heads=96 --d_kv=128 --d_ff=49152 "
      "--length=2048 --batch=1536");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith("mesh data:64,model:16 (1024 devices), layout "),
                    HasSubstr("\nestimates for machine h100_nvlink_ib, "),
                    HasSubstr("layer_0..95/"), HasSubstr("does not fit"),
                    HasSubstr("--explain_all_changes lowers"),
                    Not(HasSubstr("not tried"))));
}

TEST(ExplainCli, TheMachineIsChosenAndNamed) {
  const Outcome fast =
      RunProgram(README_PROGRAM,
                 "--dry_run --mesh_shape=data:8 --layout=batch:data "
                 "--machine=h200_x8");
  EXPECT_EQ(fast.exit_code, 0) << fast.errors;
  EXPECT_THAT(fast.out, HasSubstr("machine h200_x8"));
  const Outcome none =
      RunProgram(README_PROGRAM, "--dry_run --machine=h200_8x");
  EXPECT_EQ(none.exit_code, 66);
  EXPECT_THAT(none.errors, AllOf(StartsWith("NOT_FOUND "),
                                 HasSubstr("did you mean \"h200_x8\"?")));
  const Outcome large = RunProgram(
      README_PROGRAM, "--dry_run --machine=h200_x8 --mesh_shape=data:16");
  EXPECT_EQ(large.exit_code, 2);
  EXPECT_THAT(large.errors, StartsWith("INVALID_ARGUMENT mesh \"data:16\""));
}

TEST(ExplainCli, EveryRequestOfAProgramIsExplained) {
  const Outcome train = RunExample("--explain");
  EXPECT_EQ(train.exit_code, 0) << train.errors;
  EXPECT_THAT(train.out, HasSubstr("note: this is the request train; "
                                   "--explain_request explains sample\n"));
  const std::string parallel = "--mesh_shape=data:2 --layout=data ";
  const Outcome sample =
      RunExample(parallel + "--explain=json --explain_request=sample");
  EXPECT_EQ(sample.exit_code, 0) << sample.errors;
  const auto json = nlohmann::json::parse(sample.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << sample.out;
  EXPECT_THAT(json["notices"].dump(), HasSubstr("this is the request sample"));
  EXPECT_EQ(json["program"], "transformer_lm");
  EXPECT_EQ(json["request"], "sample");
  // It reads parameters and has no gradients to reduce.
  for (const auto& collective : json["collectives"]) {
    EXPECT_NE(collective["kind"], "all_reduce") << collective.dump();
  }
  const Outcome none = RunExample("--dry_run --explain_request=sampel");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(
      none.errors,
      AllOf(StartsWith("INVALID_ARGUMENT --explain_request is "
                       "\"sampel\""),
            HasSubstr("did you mean \"sample\"?"), HasSubstr("train, sample")));
}

TEST(ExplainCli, FlagsWithoutEffectAreErrors) {
  for (const auto& [flag, needs] :
       std::vector<std::pair<std::string, std::string>>{
           {"--machine=h200_x8", "--explain"},
           {"--explain_all_changes", "--explain"},
           {"--explain_request=step", "--explain"},
           {"--trace_steps=2", "--trace"}}) {
    const Outcome outcome = RunProgram(README_PROGRAM, flag);
    EXPECT_EQ(outcome.exit_code, 2) << flag;
    EXPECT_EQ(outcome.out, "") << flag;
    EXPECT_THAT(outcome.errors,
                AllOf(StartsWith(absl::StrCat(
                          "INVALID_ARGUMENT ", flag.substr(0, flag.find('=')),
                          " is given without ", needs, "\n")),
                      HasSubstr("help")))
        << flag;
  }
}

TEST(ExplainCli, JsonIsJson) {
  const Outcome outcome = RunProgram(
      README_PROGRAM, "--explain=json --mesh_shape=data:2 --layout=batch:data");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << outcome.out;
  EXPECT_EQ(json["collectives"][0]["rule"], "batch:data");
  EXPECT_EQ(json["program"], "readme_program");
  EXPECT_EQ(json["request"], "");
  EXPECT_EQ(json["batch"], "batch:256");
  EXPECT_EQ(json["precision"], "f32");
}

TEST(ExplainCli, HtmlGoesToAFile) {
  const std::string path = Temporary("page.html");
  const Outcome outcome = RunProgram(
      README_PROGRAM,
      absl::StrCat("--explain=html --mesh_shape=data:2 --layout=batch:data "
                   "--explain_file=",
                   path));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(ReadText(path), AllOf(StartsWith("<!DOCTYPE html>"),
                                    HasSubstr("\"rule\": \"batch:data\"")));
  std::remove(path.c_str());
}

TEST(ExplainCli, ExplainAloneIsTextAndNoexplainUndoesIt) {
  const Outcome text = RunProgram(README_PROGRAM, "--explain");
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.out,
              StartsWith("one device\nestimates for machine cpu_host, "));
  const Outcome run = RunProgram(README_PROGRAM, "--explain --noexplain");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("loss"));
}

TEST(ExplainCli, WrongValuesAreErrors) {
  for (const auto& [arguments, code, message] :
       std::vector<std::tuple<std::string, int, std::string>>{
           {"--explain=pdf", 2,
            "INVALID_ARGUMENT flag --explain is \"pdf\", not text, full, "
            "json, html or none"},
           {"--explain_file=x", 2,
            "INVALID_ARGUMENT --explain_file is given without --explain"},
           {"--dry_run=maybe", 2, "INVALID_ARGUMENT flag --dry_run is"},
           {"--explain --explain_file=/no/such/folder/x", 73,
            "PERMISSION_DENIED cannot write the explanation to"},
           {"--explain --explain_file=/dev/full", 71,
            "RESOURCE_EXHAUSTED cannot write the explanation to \"/dev/full\": "
            "No space left on device"},
           {"--dry_run --mesh_shape=data:2 --layout=\"data, [budget], nothing "
            "over data\"",
            2,
            "INVALID_ARGUMENT preset \"data\" is combined with other items in "
            "--layout"},
           {"--dry_run --budget=\"nothin over data\"", 2, "INVALID_ARGUMENT "},
           {"--dry_run --machine=/no/such.machine", 66, "NOT_FOUND "},
           {"--dry_run --mesh_shape=data:-1", 2,
            "INVALID_ARGUMENT mesh item \"data:-1\""},
           {"--dry_run --mesh_shape=data:2 --layout=bach:data", 2,
            "INVALID_ARGUMENT no tensor has a dimension \"bach\""}}) {
    const Outcome outcome = RunProgram(README_PROGRAM, arguments);
    EXPECT_EQ(outcome.exit_code, code) << arguments;
    EXPECT_THAT(outcome.errors, StartsWith(message)) << arguments;
  }
}

// A preset is a complete layout, so its budget is given by a separate flag.
TEST(ExplainCli, ABudgetIsAddedToAPreset) {
  const std::string step = "--dry_run --mesh_shape=data:2 --layout=data ";
  const Outcome within =
      RunProgram(README_PROGRAM, step + "--budget=\"at most 1 GiB over data\"");
  EXPECT_EQ(within.exit_code, 0) << within.errors;
  const Outcome beyond =
      RunProgram(README_PROGRAM, step + "--budget=\"at most 1 KiB over data\"");
  EXPECT_EQ(beyond.exit_code, 71);
  EXPECT_THAT(beyond.errors, AllOf(StartsWith("RESOURCE_EXHAUSTED "),
                                   HasSubstr("at most 1 KiB over data"),
                                   HasSubstr("--budget")));
  const std::string path = Temporary("step.budget");
  std::ofstream(path) << "[budget]\nnothing over data\n";
  const Outcome file = RunProgram(README_PROGRAM, step + "--budget=@" + path);
  EXPECT_EQ(file.exit_code, 71);
  EXPECT_THAT(file.errors, HasSubstr("nothing over data"));
  std::ofstream(path) << "batch:data\n";
  const Outcome rules = RunProgram(README_PROGRAM, step + "--budget=@" + path);
  EXPECT_EQ(rules.exit_code, 2);
  EXPECT_THAT(rules.errors, HasSubstr("has the rule batch:data"));
  std::remove(path.c_str());
}

// As for an invalid budget in a layout, nothing is printed or written before.
TEST(ExplainCli, AnInvalidBudgetIsAnErrorBeforeAnyOutput) {
  const std::string page = Temporary("page");
  const std::string program = Temporary("program");
  const std::string step = absl::StrCat(
      "--mesh_shape=data:2 --layout=batch:data --dump_program=", program, " ");
  for (const auto& [budget, code, message] :
       std::vector<std::tuple<std::string, int, std::string>>{
           {"\"no foo\"", 2, "INVALID_ARGUMENT budget line \"no foo\" has"},
           {"@/no/such.budget", 66, "NOT_FOUND cannot read layout file"},
           {"\"nothing over dta\"", 2,
            "INVALID_ARGUMENT mesh \"data:2\" has no axis \"dta\""},
           {"\"nothing over pod\" --strict_layout", 2,
            "INVALID_ARGUMENT budget line \"nothing over pod\""}}) {
    for (const std::string& form :
         {std::string("--dry_run"), std::string("--explain=json"),
          absl::StrCat("--explain=html --explain_file=", page),
          std::string("--seed=2")}) {
      const Outcome outcome = RunProgram(
          README_PROGRAM, absl::StrCat(step, form, " --budget=", budget));
      EXPECT_EQ(outcome.exit_code, code) << form << " " << budget;
      EXPECT_EQ(outcome.out, "") << form << " " << budget;
      EXPECT_THAT(outcome.errors, StartsWith(message)) << form;
      EXPECT_FALSE(std::ifstream(page)) << budget;
      EXPECT_FALSE(std::ifstream(program)) << budget;
    }
  }
}

// The notice must not be printed after the JSON.
TEST(ExplainCli, ABudgetWithoutEffectIsANoticeOfTheExplanation) {
  const Outcome outcome =
      RunProgram(README_PROGRAM,
                 "--explain=json --mesh_shape=data:2 --layout=batch:data "
                 "--budget=\"nothing over pod\"");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << outcome.out;
  EXPECT_THAT(json["notices"].dump(), HasSubstr("has no axis"));
}

// The budget is checked before a run too, not only in an explanation.
TEST(ExplainCli, ABudgetStopsAStep) {
  const Outcome run = RunProgram(
      README_PROGRAM,
      "--mesh_shape=data:2 --layout=data --budget=\"nothing over data\"");
  EXPECT_EQ(run.exit_code, 71);
  EXPECT_THAT(run.errors, StartsWith("RESOURCE_EXHAUSTED "));
  EXPECT_THAT(run.out, Not(HasSubstr("loss")));
}

}  // namespace
}  // namespace mtf::train

#endif  // TRANSFORMER_LM
