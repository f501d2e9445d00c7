// SPDX-License-Identifier: Apache-2.0
//
// Ranks that make other calls than the others, and ranks that stop before or
// between steps: the job ends in time, with one message that names the rank.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string errors;
  double seconds = 0;
};

// Runs the program on `ranks` ranks, for at most 20 seconds. The last rank
// first runs the shell line `of_last`.
Outcome RunRanks(int ranks, const std::string& arguments,
                 const std::string& environment,
                 const std::string& of_last = ":") {
  const std::string path =
      ::testing::TempDir() + "/rank_agreement_" + std::to_string(getpid());
  const std::string script = path + ".sh";
  std::ofstream(script) << "if [ \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" = "
                        << ranks - 1 << " ]; then " << of_last
                        << "; fi\nexec \"$@\"\n";
  const auto begin = std::chrono::steady_clock::now();
  const int status = std::system(
      (environment + " timeout -k 1 20 " MTFRUN " -n " + std::to_string(ranks) +
       " sh " + script +
       " " DISAGREEING_PROGRAM " --mesh_shape=data:" + std::to_string(ranks) +
       " --layout=batch:data " + arguments + " >/dev/null 2>" + path)
          .c_str());
  Outcome outcome;
  outcome.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  std::ostringstream errors;
  errors << std::ifstream(path).rdbuf();
  outcome.exit_code = WEXITSTATUS(status);
  outcome.errors = errors.str();
  std::remove(path.c_str());
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

// Whether `pattern` matches somewhere in `text`.
bool HasLine(const std::string& text, const std::string& pattern) {
  return ::testing::Matches(ContainsRegex(pattern))(text);
}

// Open MPI waits a second for each rank that it ends, whatever the reason; that
// is not the time until the ranks end the job.
constexpr char kNoGrace[] = " OMPI_MCA_odls_base_sigkill_timeout=0";

// The time of a job without errors, to be subtracted from that of others.
double PlainSeconds(int ranks) {
  static std::map<int, double> seconds;
  if (!seconds.contains(ranks)) {
    const Outcome outcome = RunRanks(ranks, "", "");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    seconds[ranks] = outcome.seconds;
  }
  return seconds[ranks];
}

// What the last rank does, and the first line of the message.
struct Disagreement {
  std::string calls;
  int ranks;
  int exit_code;
  std::string message;
};

void PrintTo(const Disagreement& row, std::ostream* out) {
  *out << row.calls << " on " << row.ranks;
}

class Disagreements : public ::testing::TestWithParam<Disagreement> {};

void ExpectOneMessage(const Disagreement& row, const std::string& environment,
                      double seconds) {
  Outcome outcome;
  // Other load on the machine may cause a delay.
  for (int attempt = 0; attempt < 5; ++attempt) {
    outcome =
        RunRanks(row.ranks, "--calls=" + row.calls, environment + kNoGrace);
    if (outcome.seconds < PlainSeconds(row.ranks) + seconds) break;
  }
  EXPECT_EQ(outcome.exit_code, row.exit_code) << outcome.errors;
  EXPECT_EQ(Count(outcome.errors, "ABORTED") + Count(outcome.errors, "LOSS"), 1)
      << outcome.errors;
  EXPECT_THAT(outcome.errors, ContainsRegex(row.message));
  EXPECT_THAT(outcome.errors, Not(HasSubstr("Signal")));
  EXPECT_LT(outcome.seconds, PlainSeconds(row.ranks) + seconds);
}

TEST_P(Disagreements, EndTheJobWithinASecondWithOneMessage) {
  ExpectOneMessage(GetParam(), "", 1);
}

TEST_P(Disagreements, AreNoticedWithMessagesToo) {
  // On a busy machine, messages wait for cores that other ranks poll on.
  ExpectOneMessage(GetParam(), "MTF_MPI_SHARED_WINDOW=0", 8);
}

constexpr char kLoss[] =
    "request \"reduce_sum_1\" \\(program [0-9a-f]{4}, "
    "disagreeing_program.cc:[0-9]+\\)";

INSTANTIATE_TEST_SUITE_P(
    LastRank, Disagreements,
    ::testing::ValuesIn(std::vector<Disagreement>{
        // The last rank ends while the others want to run their last step.
        {"less", 3, 75,
         std::string("ABORTED rank 2 has ended, where rank [01] is at step 20 "
                     "of ") +
             kLoss + "\n"},
        {"more", 3, 75,
         std::string("ABORTED rank [01] has ended, where rank 2 is at step 21 "
                     "of ") +
             kLoss + "\n"},
        {"another_request", 3, 75,
         std::string("ABORTED rank 2 is at step 11 of request \"reduce_max\" "
                     "\\(program [0-9a-f]{4}, disagreeing_program.cc:[0-9]+"
                     "\\), where ranks 0-1 are at step 11 of ") +
             kLoss + "\n"},
        {"a_new_request", 4, 75,
         std::string("ABORTED rank 3 is at the first use of request \"x\" "
                     "\\(disagreeing_program.cc:[0-9]+\\), where ranks 0-2 are "
                     "at step 11 of ") +
             kLoss + "\n"},
        {"agree", 2, 75,
         std::string("ABORTED rank 1 is at a call of Session::Agree\\(\\), "
                     "where rank 0 is at step 11 of ") +
             kLoss + "\n"},
        {"exits", 3, 75,
         std::string("ABORTED rank 2 has ended, where rank [01] is at step 11 "
                     "of ") +
             kLoss + "\n"},
        // Not a disagreement, but the others wait for it in the same way.
        {"fails", 3, 74, "DATA_LOSS lost at step 10\n"},
        {"fails_early", 3, 74, "DATA_LOSS lost early\n"},
    }));

// At which moment the last rank stops, and the message.
struct Stop {
  std::string moment;
  std::string message;
};

void PrintTo(const Stop& row, std::ostream* out) { *out << row.moment; }

class Stops : public ::testing::TestWithParam<Stop> {};

void ExpectNamedInTime(const std::string& environment,
                       const std::string& of_last, const std::string& message) {
  Outcome outcome;
  // With ranks inside of MPI_Init or MPI_Finalize, mpiexec of Open MPI 4.1.4
  // itself sometimes hangs or crashes in PMIx_server_finalize, after it has
  // ended all ranks. On a busy machine other ranks may be late too, so each
  // attempt waits longer.
  constexpr int kKilled = 137, kCrashed = 139;
  int limit = 1;  // seconds
  for (int attempt = 0; attempt < 4; ++attempt, limit *= 2) {
    outcome = RunRanks(
        3, "--moment=now --collective_timeout=" + std::to_string(limit),
        environment + kNoGrace, of_last);
    if (outcome.exit_code != kKilled && outcome.exit_code != kCrashed &&
        HasLine(outcome.errors, message)) {
      break;
    }
  }
  EXPECT_EQ(outcome.exit_code, 75) << outcome.errors;
  EXPECT_EQ(Count(outcome.errors, "DEADLINE_EXCEEDED"), 1) << outcome.errors;
  EXPECT_THAT(outcome.errors,
              AllOf(ContainsRegex(message), HasSubstr("--collective_timeout")));
  // The limit, the end of the job by its launcher, and load on the machine.
  EXPECT_LT(outcome.seconds, PlainSeconds(3) + limit + 7);
}

TEST_P(Stops, AreReportedAfterTheTimeout) {
  ExpectNamedInTime("STOP_AT=" + GetParam().moment, ":", GetParam().message);
}

TEST_P(Stops, AreReportedWithMessagesToo) {
  ExpectNamedInTime("MTF_MPI_SHARED_WINDOW=0 STOP_AT=" + GetParam().moment, ":",
                    GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    LastRank, Stops,
    ::testing::ValuesIn(std::vector<Stop>{
        {"init",
         "DEADLINE_EXCEEDED rank 2 is in MPI_Init \\(process "
         "[0-9]+, stopped\\)\n"},
        {"first_communicator",
         "DEADLINE_EXCEEDED rank 2 is in the creation of the first "
         "communicator \\(process [0-9]+, stopped\\)\n"},
        {"placement",
         "DEADLINE_EXCEEDED rank 2 is in the placement of the ranks "
         "\\(process [0-9]+, stopped\\)\n"},
        {"communicator",
         "DEADLINE_EXCEEDED rank 2 is in the creation of the "
         "communicator of all ranks \\(process [0-9]+, stopped\\)\n"},
        {"plan_check",
         "DEADLINE_EXCEEDED rank 2 has not come to the "
         "comparison of the plans\n"},
        {"step", "DEADLINE_EXCEEDED rank 2 has not come to step 11 of "},
        {"end",
         "DEADLINE_EXCEEDED rank 2 has not come to the end of the "
         "program\n"},
        {"finalize",
         "DEADLINE_EXCEEDED rank 2 is in MPI_Finalize "
         "\\(process [0-9]+, stopped\\)\n"},
    }));

// Before the first line of main.
TEST(StoppedRank, IsNamedIfItHasNotStarted) {
  ExpectNamedInTime("", "kill -STOP $$",
                    "DEADLINE_EXCEEDED rank 2 has not started");
  // Without the flag, the environment sets the limit.
  const Outcome outcome =
      RunRanks(3, "", "MTF_COLLECTIVE_TIMEOUT=1", "kill -STOP $$");
  EXPECT_EQ(outcome.exit_code, 75) << outcome.errors;
  EXPECT_EQ(Count(outcome.errors, "rank 2 has not started"), 1)
      << outcome.errors;
}

TEST(SignIn, LeavesNoFile) {
  const std::string name =
      "/dev/shm/mtf_start_" + std::to_string(getuid()) + "_";
  ASSERT_EQ(std::system(("rm -f " + name + "*").c_str()), 0);
  EXPECT_EQ(RunRanks(3, "", "").exit_code, 0);
  EXPECT_NE(std::system(("ls " + name + "* 2>/dev/null").c_str()), 0);
}

}  // namespace
