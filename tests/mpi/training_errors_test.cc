// SPDX-License-Identifier: Apache-2.0
//
// Errors of a run on several ranks: one message, whichever rank fails, an exit
// code, and no hang.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string errors;
};

// On three ranks, for at most a minute.
Outcome RunRanks(const std::string& command) {
  const std::string path =
      ::testing::TempDir() + "/training_errors_" + std::to_string(getpid());
  const int status = std::system(
      ("timeout 60 " MTFRUN " -n 3 " + command + " >/dev/null 2>" + path)
          .c_str());
  std::ostringstream errors;
  errors << std::ifstream(path).rdbuf();
  std::remove(path.c_str());
  return {WEXITSTATUS(status), errors.str()};
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

struct BadInput {
  std::string arguments;
  int exit_code;
  std::string message;
};

void PrintTo(const BadInput& bad, std::ostream* out) { *out << bad.arguments; }

class BadInputs : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputs, AreOneMessageForAllRanks) {
  const Outcome outcome = RunRanks(TRANSFORMER_LM " " + GetParam().arguments);
  EXPECT_EQ(outcome.exit_code, GetParam().exit_code);
  EXPECT_EQ(Count(outcome.errors, GetParam().message), 1) << outcome.errors;
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, BadInputs,
    ::testing::ValuesIn(std::vector<BadInput>{
        {"--mesh_shape=data:2 --layout=batch:data", 2,
         "INVALID_ARGUMENT mesh \"data:2\" has 2 devices but there are 3 "
         "ranks"},
        {"--steps=10", 2, "INVALID_ARGUMENT mesh \"\" has 1 device"},
        {"--mesh_shape=data:3 --layout=bacth:data", 2,
         "INVALID_ARGUMENT no tensor has a dimension \"bacth\""},
        {"--learning_rate=nan", 2,
         "INVALID_ARGUMENT flag --learning_rate is \"nan\""},
        {"--mesh_shape=data:3 --text=/no/such/text", 66,
         "NOT_FOUND cannot read text \"/no/such/text\""},
        // Only rank 0 writes files, so only it fails.
        {"--mesh_shape=data:3 --text=" TEXT " --log_json=/no/such/folder/x", 73,
         "PERMISSION_DENIED cannot write the log"},
        {"--mesh_shape=data:3 --text=" TEXT " --dump_program=/no/such/folder/x",
         73, "PERMISSION_DENIED cannot write the program"},
    }));

TEST(FailingRanks, TheFirstErrorByRankIsPrinted) {
  const Outcome outcome = RunRanks(FAILING_RANK_PROGRAM);
  EXPECT_EQ(outcome.exit_code, 74);
  EXPECT_THAT(outcome.errors, HasSubstr("DATA_LOSS rank 0 has lost its data"));
  EXPECT_EQ(Count(outcome.errors, "has lost its data"), 1) << outcome.errors;
}

TEST(FailingRanks, ARankThatFailsAloneEndsTheJob) {
  const Outcome outcome = RunRanks(FAILING_RANK_PROGRAM " --alone");
  EXPECT_EQ(outcome.exit_code, 74);
  EXPECT_EQ(Count(outcome.errors, "DATA_LOSS rank 2 has lost its data"), 1)
      << outcome.errors;
  EXPECT_THAT(outcome.errors, Not(HasSubstr("Signal")));
}

// The others are about to open the groups of their step.
TEST(FailingRanks, ARankWithoutMemoryForTheStepEndsTheJob) {
  const Outcome outcome = RunRanks(FAILING_RANK_PROGRAM " --no_memory");
  EXPECT_EQ(outcome.exit_code, 71) << outcome.errors;
  EXPECT_EQ(Count(outcome.errors, "RESOURCE_EXHAUSTED no memory"), 1)
      << outcome.errors;
}

// If the mesh depends on the number of ranks, so does that of a dry run.
TEST(DryRun, TakesTheRanksOfTheLauncher) {
  const std::string path =
      ::testing::TempDir() + "/dry_run_" + std::to_string(getpid());
  for (const auto& [arguments, mesh] :
       {std::pair("--mesh_shape=data:-1 --layout=batch:data", "data:3"),
        std::pair("--mesh_shape=data:-1,m:3 --layout=batch:data", "data:1,m:3"),
        std::pair("--layout=data", "data:3"),
        std::pair("--mesh_shape=data:8 --layout=data", "data:8")}) {
    const Outcome outcome =
        RunRanks(std::string(TRANSFORMER_LM " --text=" TEXT " --dry_run ") +
                 arguments + " --explain_file=" + path);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    std::string first;
    std::getline(std::ifstream(path), first);
    EXPECT_THAT(first, HasSubstr(std::string("mesh ") + mesh + " ("))
        << arguments;
    std::remove(path.c_str());
  }
}

}  // namespace
