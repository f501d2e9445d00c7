// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (trainer_test runs the same threads)
//
// The example as a user runs it: its output, and every kind of invalid input,
// each with one message on standard error and an exit code.

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "tests/run_command.h"
#include "train/loop/metrics.h"

#ifdef TRANSFORMER_LM  // a build without the examples has none

namespace mtf::train {
namespace {

using ::mtf::testing::Outcome;
using ::mtf::testing::ReadText;
using ::mtf::testing::RunCommand;
using ::mtf::testing::Temporary;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Runs the example with a tiny model; `arguments` come last, so they take
// precedence. The time limit turns a hang into a failure.
Outcome RunExample(const std::string& arguments) {
  const std::string text = Temporary("text.txt");
  std::ofstream file(text);
  for (int i = 0; i < 500; ++i) file << i << " and " << i * i << "\n";
  file.close();
  const Outcome outcome = RunCommand(absl::StrCat(
      "timeout 60 ", TRANSFORMER_LM, " --text=", text,
      " --steps=12 --batch=4 --length=8 --layers=1 --d_model=12 --heads=2"
      " --d_kv=6 --d_ff=16 --sample_bytes=5 ",
      arguments));
  std::remove(text.c_str());
  return outcome;
}

TEST(Example, TrainsPrintsAndSamples) {
  const Outcome outcome = RunExample("--prompt=12");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith("one device, backend cpu, 1 rank"),
                    ContainsRegex("step 12/12  loss [0-9.]+  [0-9.kM]+ "
                                  "tokens/s  0:00 left"),
                    ContainsRegex("bigram entropy of the text: [0-9.]+"),
                    HasSubstr("\n12")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\r")));
}

TEST(Example, RunsAMeshInOneProcess) {
  const std::string log = Temporary("log.json");
  const Outcome outcome = RunExample(
      absl::StrCat("--mesh_shape='data:2;model:2' --layout=data_model "
                   "--log_json=",
                   log));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out, StartsWith("mesh data:2,model:2, layout data_model, "
                                      "backend cpu, 4 ranks of"));
  const auto steps = ReadMetrics(log);
  ASSERT_OK(steps);
  EXPECT_EQ(steps->size(), 12u);
  EXPECT_GT(steps->front().TotalBytes(), 0);
}

TEST(Example, InertRulesAreReportedOnce) {
  const Outcome outcome =
      RunExample("--mesh_shape=data:2 --layout=batch:data,experts:data");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  const size_t first = outcome.out.find("experts");
  EXPECT_NE(first, std::string::npos);
  EXPECT_THAT(outcome.out, StartsWith("note: "));
}

TEST(Example, ExplainPrintsThePlanAndRunsNothing) {
  const std::string dump = Temporary("dump.txt");
  const Outcome outcome = RunExample(
      absl::StrCat("--explain --mesh_shape=data:64,model:2 --layout=data_model "
                   "--dump_program=",
                   dump));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("all_reduce"), HasSubstr("transformer_lm.cc:"),
                    HasSubstr("batch:data"), Not(HasSubstr("loss 5"))));
  EXPECT_THAT(
      ReadText(dump),
      AllOf(StartsWith("# after emit_program\nmesh{data:64, model:2}"),
            HasSubstr("# after expand_reshards"), HasSubstr("all_reduce(")));
}

TEST(Example, HelpListsTheFlags) {
  const Outcome outcome = RunExample("--help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("--mesh_shape"), HasSubstr("--d_model=128")));
}

// Whether `program` lists `flag` in its help.
bool HasFlag(const std::string& program, const std::string& flag) {
  const Outcome help =
      RunCommand(absl::StrCat("timeout 60 ", program, " --help"));
  EXPECT_EQ(help.exit_code, 0) << help.errors;
  return absl::StrContains(help.out, absl::StrCat("\n  --", flag));
}

TEST(Programs, HaveOnlyTheFlagsThatTheyRead) {
  SKIP_UNDER_SANITIZERS("only transformer_lm is built with them");
  for (const char* flag :
       {"steps", "learning_rate", "precision", "text", "log_json"}) {
    SCOPED_TRACE(flag);
    EXPECT_TRUE(HasFlag(TRANSFORMER_LM, flag));
    EXPECT_EQ(HasFlag(GPT2, flag), flag != std::string("text"));
    EXPECT_FALSE(HasFlag(README_PROGRAM, flag));
    const Outcome outcome = RunCommand(
        absl::StrCat("timeout 60 ", README_PROGRAM, " --", flag, "=1"));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.errors, StartsWith(absl::StrCat(
                                    "INVALID_ARGUMENT unknown flag --", flag)));
  }
  EXPECT_TRUE(HasFlag(README_PROGRAM, "seed"));
  EXPECT_TRUE(HasFlag(README_PROGRAM, "explain"));
}

struct BadInput {
  std::string arguments;
  int exit_code;
  std::string message;  // the beginning of standard error
};

void PrintTo(const BadInput& bad, std::ostream* out) { *out << bad.arguments; }

class BadInputs : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputs, AreOneMessageAndAnExitCode) {
  const Outcome outcome = RunExample(GetParam().arguments);
  EXPECT_EQ(outcome.exit_code, GetParam().exit_code);
  EXPECT_THAT(outcome.errors, StartsWith(GetParam().message));
  // One message: its first line, and details that are indented.
  std::istringstream lines(outcome.errors);
  std::string line;
  for (int i = 0; std::getline(lines, line); ++i) {
    EXPECT_TRUE(i == 0 || absl::StartsWith(line, "  ")) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Example, BadInputs,
    ::testing::ValuesIn(std::vector<BadInput>{
        {"--mesh_shape=data", 2,
         "INVALID_ARGUMENT mesh item \"data\" has no size"},
        {"--mesh_shape=data:0", 2,
         "INVALID_ARGUMENT mesh item \"data:0\" has a size below 1"},
        {"--mesh_shape=data:2,data:2", 2, "INVALID_ARGUMENT mesh item"},
        {"--mesh_shape=data:99999999999", 2, "INVALID_ARGUMENT mesh item"},
        {"--mesh_shape=data:-1", 2, "INVALID_ARGUMENT mesh item \"data:-1\""},
        {"--mesh_shape=data:1000 --layout=batch:data", 2,
         "INVALID_ARGUMENT mesh \"data:1000\" has 1000 devices"},
        {"--mesh_shape=data:2 --layout=batch:data:2", 2, "INVALID_ARGUMENT "},
        {"--mesh_shape=data:2 --layout=:data", 2, "INVALID_ARGUMENT "},
        {"--mesh_shape=data:2 --layout=batch:data,batch:data", 2,
         "INVALID_ARGUMENT "},
        {"--mesh_shape=data:2 --layout=batch:dta", 2, "INVALID_ARGUMENT "},
        {"--mesh_shape=data:2 --layout=bacth:data", 2, "INVALID_ARGUMENT "},
        {"--mesh_shape=data:2 --layout=batch:data,length:data", 2,
         "INVALID_ARGUMENT "},
        {"--mesh_shape=data:2 --layout=megatorn", 66,
         "NOT_FOUND no layout preset is called \"megatorn\"; did you mean "
         "\"megatron\"?"},
        {"--mesh_shape=data:2 --layout_file=/no/such.layout", 66, "NOT_FOUND "},
        {"--layout=batch:data --layout_file=x.layout", 2,
         "INVALID_ARGUMENT both --layout and --layout_file are given"},
        {"--mesh_shape=data:2 --layout=batch:data,experts:data --strict_layout",
         2, "INVALID_ARGUMENT "},
        {"--backend=gpu", 2, "INVALID_ARGUMENT "},
        {"--text=/no/such/text", 66,
         "NOT_FOUND cannot read text \"/no/such/text\""},
        {"--text=/dev/null", 2,
         "INVALID_ARGUMENT cannot read text \"/dev/null\": not a regular file"},
        {"--length=1000000", 65, "OUT_OF_RANGE text "},
        {"--steps=0", 2, "INVALID_ARGUMENT flag --steps is \"0\""},
        {"--steps=-1", 2, "INVALID_ARGUMENT flag --steps is \"-1\""},
        {"--learning_rate=nan", 2,
         "INVALID_ARGUMENT flag --learning_rate is \"nan\""},
        {"--learning_rate=inf", 2,
         "INVALID_ARGUMENT flag --learning_rate is \"inf\""},
        {"--learning_rate=-1", 2,
         "INVALID_ARGUMENT flag --learning_rate is \"-1\""},
        {"--d_model=0", 2, "INVALID_ARGUMENT flag --d_model is \"0\""},
        {"--layers=200000", 2,
         "INVALID_ARGUMENT flag --layers is \"200000\", not a whole number "
         "from 1 to 10000"},
        {"--seed=x", 2, "INVALID_ARGUMENT flag --seed is \"x\""},
        {"--step=3", 2,
         "INVALID_ARGUMENT unknown flag --step; did you mean --steps?"},
        {"stray", 2,
         "INVALID_ARGUMENT unexpected argument \"stray\": flags start with --"},
        {"--flagfile=/no/such.flags", 66, "NOT_FOUND cannot read flagfile"},
        {"--log_json=/no/such/folder/log", 73,
         "PERMISSION_DENIED cannot write the log"},
        {"--dump_program=/no/such/folder/dump", 73,
         "PERMISSION_DENIED cannot write the program"},
        {"--d_ff=2147483647", 71, "RESOURCE_EXHAUSTED no memory"},
        {"--batch=2147483647", 71, "RESOURCE_EXHAUSTED a batch of"},
    }));

}  // namespace
}  // namespace mtf::train

#endif  // TRANSFORMER_LM
