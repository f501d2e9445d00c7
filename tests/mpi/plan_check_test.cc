// SPDX-License-Identifier: Apache-2.0
//
// Ranks that run different programs, and a rank that stops: one prompt message
// that names the ranks, and an exit code.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string errors;
  double seconds = 0;
};

std::string Temporary(const std::string& name) {
  return ::testing::TempDir() + "/plan_check_" + std::to_string(getpid()) +
         "_" + name;
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

// Runs `command` on three ranks, for at most a minute. Rank 2 first runs the
// shell line `of_rank_2`, which may change its arguments by "set --" and its
// environment.
Outcome RunRanks(const std::string& command, const std::string& of_rank_2 = "",
                 const std::string& environment = "") {
  const std::string errors = Temporary("errors"), script = Temporary("rank.sh");
  Write(script, "if [ \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" = 2 ]; then\n:\n" +
                    of_rank_2 + "\nfi\nexec \"$@\"\n");
  const auto begin = std::chrono::steady_clock::now();
  const int status =
      std::system((environment + " timeout 60 " MTFRUN " -n 3 sh " + script +
                   " " + command + " >/dev/null 2>" + errors)
                      .c_str());
  Outcome outcome;
  outcome.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  std::ostringstream text;
  text << std::ifstream(errors).rdbuf();
  outcome.exit_code = WEXITSTATUS(status);
  outcome.errors = text.str();
  std::remove(errors.c_str());
  std::remove(script.c_str());
  return outcome;
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

constexpr char kTraining[] =
    TRANSFORMER_LM " --text=" TEXT
                   " --steps=3 --batch=4 --length=8 --layers=1 --d_model=12 "
                   "--heads=2 --mesh_shape=data:3 ";

// The time of a launch without errors, to be subtracted from that of a run with
// an error.
double PlainSeconds() {
  static const double seconds = [] {
    const Outcome outcome = RunRanks(std::string(kTraining) + "--layout=data");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.seconds;
  }();
  return seconds;
}

// As RunRanks, repeated up to three times if it takes a second more than a
// launch, which other load on the machine may cause.
Outcome RunRanksSoon(const std::string& command, const std::string& of_rank_2,
                     const std::string& environment = "") {
  Outcome outcome;
  for (int i = 0; i < 3; ++i) {
    outcome = RunRanks(command, of_rank_2, environment);
    if (outcome.seconds < PlainSeconds() + 1) break;
  }
  return outcome;
}

// Expects one message, with less than a second for the check.
void ExpectOneMessage(const Outcome& outcome, const std::string& first_line) {
  EXPECT_EQ(outcome.exit_code, 78) << outcome.errors;
  EXPECT_EQ(Count(outcome.errors, "FAILED_PRECONDITION "), 1) << outcome.errors;
  EXPECT_EQ(Count(outcome.errors, "FAILED_PRECONDITION " + first_line), 1)
      << outcome.errors;
  EXPECT_LT(outcome.seconds, PlainSeconds() + 1);
}

TEST(PlanCheck, AnotherFlagOnOneRank) {
  ExpectOneMessage(
      RunRanksSoon(std::string(kTraining) + "--layout=data",
                   "set -- \"$@\" --layout=zero3 --seed=7"),
      "rank 2 has --layout \"zero3\", ranks 0-1 have \"data\"\n"
      "  also     rank 2 has --seed \"7\", ranks 0-1 have \"0\"\n");
}

TEST(PlanCheck, AFlagOfTheProgramOnOneRank) {
  ExpectOneMessage(RunRanksSoon(std::string(kTraining) + "--layout=data",
                                "set -- \"$@\" --d_model=24"),
                   "rank 2 has --d_model \"24\", ranks 0-1 have \"12\"\n");
}

TEST(PlanCheck, AnotherEnvironmentOnOneRank) {
  ExpectOneMessage(RunRanksSoon(std::string(kTraining) + "--layout=data",
                                "export MTF_COLLECTIVE_TIMEOUT=9"),
                   "rank 2 has MTF_COLLECTIVE_TIMEOUT \"9\", ranks 0-1 have "
                   "no MTF_COLLECTIVE_TIMEOUT\n");
}

TEST(PlanCheck, AWrongFlagOnOneRankIsThatRanksError) {
  const Outcome outcome = RunRanksSoon(std::string(kTraining) + "--layout=data",
                                       "set -- \"$@\" --steps=never");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(Count(outcome.errors, "INVALID_ARGUMENT flag --steps"), 1)
      << outcome.errors;
  EXPECT_LT(outcome.seconds, PlainSeconds() + 1);
}

TEST(PlanCheck, HelpOnOneRank) {
  const Outcome outcome = RunRanksSoon(std::string(kTraining) + "--layout=data",
                                       "set -- \"$@\" --help");
  EXPECT_EQ(outcome.exit_code, 78) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("rank 2 has --help"));
}

// Only rank 0 uses the flag.
TEST(PlanCheck, ALogOnOneRankIsAllowed) {
  const std::string log = Temporary("log");
  const Outcome outcome = RunRanks(std::string(kTraining) + "--layout=data",
                                   "set -- \"$@\" --log_json=" + log);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_FALSE(std::ifstream(log).is_open());
}

// A rank that only explains would exit before the others begin.
TEST(PlanCheck, ExplanationOnOneRank) {
  ExpectOneMessage(RunRanksSoon(std::string(kTraining) + "--layout=data",
                                "set -- \"$@\" --explain"),
                   "rank 2 has --explain \"text\", ranks 0-1 have \"none\"\n");
}

TEST(PlanCheck, AnotherProgramFileOnOneRank) {
  const std::string file = Temporary("another_lm");
  ExpectOneMessage(
      RunRanksSoon(
          std::string(kTraining) + "--layout=data",
          "ln -sf \"$1\" " + file + "; shift; set -- " + file + " \"$@\""),
      "rank 2 has the program file \"" + file.substr(file.rfind('/') + 1) +
          "\", ranks 0-1 have \"transformer_lm\"\n");
  std::remove(file.c_str());
}

// The path is the same on every rank, but the contents differ, as on hosts with
// their own disks.
TEST(PlanCheck, AnotherLayoutFileOnOneRank) {
  // Each rank has its own working directory.
  const std::string folder = Temporary("folder");
  ASSERT_EQ(
      std::system(("mkdir -p " + folder + " " + folder + "_other").c_str()), 0);
  Write(folder + "/x.layout",
        "# a comment\nbatch:data\n[optimizer] d_ff:data\n");
  Write(folder + "_other/x.layout", "batch:data\n[optimizer]\nvocab:data\n");
  const Outcome other =
      RunRanksSoon(std::string(kTraining) + "--layout_file=x.layout",
                   "cd " + folder + "_other", "cd " + folder + " &&");
  ExpectOneMessage(other,
                   "rank 2 has line 2 of the layout \"[optimizer] "
                   "vocab:data\", ranks 0-1 have \"[optimizer] d_ff:data\"\n");
  // If one rank lacks the file, all get its error and none waits.
  std::remove((folder + "_other/x.layout").c_str());
  const Outcome missing =
      RunRanksSoon(std::string(kTraining) + "--layout_file=x.layout",
                   "cd " + folder + "_other", "cd " + folder + " &&");
  EXPECT_EQ(missing.exit_code, 66);
  EXPECT_EQ(
      Count(missing.errors, "NOT_FOUND cannot read layout file \"x.layout\""),
      1)
      << missing.errors;
  EXPECT_LT(missing.seconds, PlainSeconds() + 1);
}

TEST(PlanCheck, AnotherTextOnOneRank) {
  const std::string folder = Temporary("texts");
  ASSERT_EQ(
      std::system(("mkdir -p " + folder + " " + folder + "_other").c_str()), 0);
  std::string text, other;
  for (int i = 0; i < 500; ++i) {
    text += std::to_string(i) + " and " + std::to_string(i * i) + "\n";
    other += std::to_string(i) + " and " + std::to_string(i * i + 1) + "\n";
  }
  Write(folder + "/text", text);
  Write(folder + "_other/text", other);
  ExpectOneMessage(
      RunRanksSoon(std::string(kTraining) + "--text=text --layout=data",
                   "cd " + folder + "_other", "cd " + folder + " &&"),
      "rank 2 has file text (--text) \"" + std::to_string(other.size()) +
          " bytes of checksum ");
}

TEST(PlanCheck, AnotherProgramOnOneRank) {
  ExpectOneMessage(RunRanksSoon(FAILING_RANK_PROGRAM " --another_program", ""),
                   "rank 2 has line ");
}

TEST(PlanCheck, RanksThatAgreeRun) {
  EXPECT_EQ(RunRanks(std::string(kTraining) + "--layout=zero3").exit_code, 0);
}

// Expects that the stopped rank and its position are reported soon after the
// timeout.
void ExpectStalledRank(const std::string& environment) {
  const Outcome outcome =
      RunRanks(FAILING_RANK_PROGRAM " --stall", "", environment);
  EXPECT_EQ(outcome.exit_code, 75) << outcome.errors;
  EXPECT_EQ(Count(outcome.errors, "DEADLINE_EXCEEDED"), 1) << outcome.errors;
  EXPECT_THAT(
      // The value written by a step has the name of the variable, "sum".
      outcome.errors,
      AllOf(HasSubstr("rank 2 has not come to step 10 of request \"assign\" "
                      "(program "),
            HasSubstr("  last     rank 2 was after 1, all_reduce of sum over "
                      "data (failing_rank_program.cc:"),
            HasSubstr(" of step 9\n"), Not(HasSubstr("Signal"))));
  EXPECT_LT(outcome.seconds, 20);
}

TEST(StalledRank, IsNamedByThoseThatShareMemory) { ExpectStalledRank(""); }

TEST(StalledRank, IsNamedByThoseThatSendMessages) {
  ExpectStalledRank("MTF_MPI_SHARED_WINDOW=0");
}

}  // namespace
