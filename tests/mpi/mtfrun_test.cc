// SPDX-License-Identifier: Apache-2.0
//
// Runs mtfrun as a user does. MTFRUN is its path; /bin/echo replaces mpirun
// where no ranks need to start.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int status = -1;
  std::string output;  // both streams
};

// Removes settings of the test environment.
constexpr char kCleanEnvironment[] =
    "env -u OMPI_MCA_rmaps_base_oversubscribe -u OMPI_MCA_mpi_yield_when_idle "
    "-u OMPI_MCA_hwloc_base_binding_policy -u OMPI_ALLOW_RUN_AS_ROOT "
    "-u OMPI_ALLOW_RUN_AS_ROOT_CONFIRM -u OMP_NUM_THREADS -u OMP_WAIT_POLICY "
    "-u MTF_MPIRUN ";

Outcome RunMtfrun(const std::string& arguments,
                  const std::string& variables = "MTF_MPIRUN=/bin/echo") {
  const std::string command = std::string(kCleanEnvironment) + variables +
                              " " MTFRUN " " + arguments + " 2>&1";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof(buffer), pipe)) {
    outcome.output.append(buffer, n);
  }
  const int raw = pclose(pipe);
  outcome.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -1;
  return outcome;
}

int Cores() { return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); }

TEST(Mtfrun, PassesOnTheProgramAndItsOptions) {
  const Outcome outcome = RunMtfrun("-n 3 --print true --flag -n 7");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, EndsWith("/bin/echo -n 3 true --flag -n 7\n"));
  EXPECT_THAT(RunMtfrun("--print -np 2 -- true").output,
              EndsWith("/bin/echo -n 2 true\n"));
  EXPECT_THAT(RunMtfrun("-n4 --host a:2,b:2 --print true").output,
              EndsWith("/bin/echo -n 4 --host a:2,b:2 true\n"));
  EXPECT_EQ(RunMtfrun("-n 3 true").output, "3 true");  // echo takes the -n
}

TEST(Mtfrun, SetsTheVariablesThatMpirunNeeds) {
  const std::string settings = RunMtfrun("-n 2 --print true").output;
  EXPECT_THAT(settings,
              AllOf(HasSubstr("OMPI_MCA_rmaps_base_oversubscribe=1\n"),
                    HasSubstr("OMPI_MCA_hwloc_base_binding_policy=none\n"),
                    HasSubstr("OMP_NUM_THREADS=")));
  if (geteuid() == 0) {
    EXPECT_THAT(settings, HasSubstr("OMPI_ALLOW_RUN_AS_ROOT=1\n"));
  } else {
    EXPECT_THAT(settings, Not(HasSubstr("ROOT")));
  }
}

TEST(Mtfrun, MoreRanksThanCoresYield) {
  const std::string many =
      RunMtfrun("-n " + std::to_string(Cores() + 1) + " --print true").output;
  EXPECT_THAT(many, AllOf(HasSubstr("OMPI_MCA_mpi_yield_when_idle=1\n"),
                          HasSubstr("OMP_NUM_THREADS=1\n"),
                          HasSubstr("OMP_WAIT_POLICY=passive\n")));
  EXPECT_THAT(RunMtfrun("-n 1 --print true").output,
              AllOf(Not(HasSubstr("yield")), Not(HasSubstr("passive"))));
}

TEST(Mtfrun, KeepsVariablesOfTheUser) {
  EXPECT_THAT(RunMtfrun("-n 1 --print true",
                        "MTF_MPIRUN=/bin/echo OMP_NUM_THREADS=9999 "
                        "OMPI_MCA_hwloc_base_binding_policy=core")
                  .output,
              AllOf(Not(HasSubstr("OMP_NUM_THREADS")),
                    HasSubstr("binding_policy=core\n"),
                    HasSubstr("OMP_WAIT_POLICY=passive\n")));
}

TEST(Mtfrun, OtherHostsCountTheirOwnThreads) {
  EXPECT_THAT(RunMtfrun("-n 2 --host a,b --print true").output,
              Not(HasSubstr("OMP_NUM_THREADS")));
}

TEST(Mtfrun, HelpNamesEveryOption) {
  const Outcome outcome = RunMtfrun("--help");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("usage: mtfrun -n RANKS"), HasSubstr("--host"),
                    HasSubstr("--hostfile"), HasSubstr("--print")));
}

struct WrongUse {
  const char* arguments;
  int status;
  const char* message;
};

class MtfrunErrors : public ::testing::TestWithParam<WrongUse> {};

TEST_P(MtfrunErrors, StateTheProblemAndTheRemedy) {
  const Outcome outcome = RunMtfrun(GetParam().arguments);
  EXPECT_EQ(outcome.status, GetParam().status);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr(GetParam().message), HasSubstr("\n  help  ")));
}

INSTANTIATE_TEST_SUITE_P(
    Uses, MtfrunErrors,
    ::testing::Values(
        WrongUse{"", 2, "the number of ranks is missing"},
        WrongUse{"true", 2, "the number of ranks is missing"},
        WrongUse{"-n 2", 2, "the program is missing"},
        WrongUse{"-n", 2, "-n has no value"},
        WrongUse{"-n two true", 2, "\"two\" is not a number of ranks"},
        WrongUse{"-n 2x true", 2, "\"2x\" is not a number"},
        WrongUse{"-n 0 true", 2, "\"0\" is not a number"},
        WrongUse{"-n -4 true", 2, "\"-4\" is not a number"},
        WrongUse{"-n 99999999999 true", 2, "is not a number"},
        WrongUse{"-n 2 --bind-to none true", 2, "unknown option \"--bind-to\""},
        WrongUse{"-n 2 no_such_program_anywhere", 127,
                 "there is no program \"no_such_program_anywhere\""},
        WrongUse{"-n 2 ./no/such/path", 127,
                 "there is no program \"./no/such/path\""},
        WrongUse{"-n 2 /etc/passwd", 126, "\"/etc/passwd\" cannot be run"}));

TEST(Mtfrun, AMissingMpirunIsNamed) {
  const Outcome outcome = RunMtfrun("-n 2 true", "MTF_MPIRUN=/no/such/mpirun");
  EXPECT_EQ(outcome.status, 127);
  EXPECT_THAT(outcome.output, HasSubstr("no mpirun at \"/no/such/mpirun\""));
}

#ifdef EXIT_PROGRAM
TEST(Mtfrun, StartsRanksAndPassesTheirStatusOn) {
  EXPECT_EQ(RunMtfrun("-n 3 echo rank", "").output, "rank\nrank\nrank\n");
  EXPECT_EQ(RunMtfrun("-n 2 sh -c 'exit 7'", "").status, 7);
}

// A command of which rank 1 runs `script` and the others wait.
std::string OnRank1(const std::string& script) {
  return "-n 2 sh -c '[ $OMPI_COMM_WORLD_RANK = 1 ] && { " + script +
         "; }; sleep 20'";
}

TEST(Mtfrun, LeavesOutWhatMpirunAddsToAMessage) {
  const Outcome one = RunMtfrun(OnRank1("echo broken >&2; exit 3"), "");
  EXPECT_EQ(one.status, 3);
  EXPECT_EQ(one.output, "broken\n");
}

TEST(Mtfrun, AFailureWithoutAMessageIsReported) {
  const Outcome outcome = RunMtfrun(OnRank1("exit 7"), "");
  EXPECT_EQ(outcome.status, 7);
  EXPECT_THAT(outcome.output, HasSubstr("non-zero exit code"));
}

TEST(Mtfrun, SignalsThatEndARankAreReported) {
  const Outcome outcome =
      RunMtfrun(OnRank1("echo broken >&2; kill -SEGV $$"), "");
  EXPECT_EQ(outcome.status, 128 + SIGSEGV);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("broken\n"), HasSubstr("exited on signal 11")));
}

TEST(Mtfrun, ErrorsOfTheLauncherAreReported) {
  const Outcome outcome = RunMtfrun("-n 2 --hostfile /no/such/file true", "");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("/no/such/file"));
}

// Whether a process runs; one that has ended but was not waited for does not.
bool Runs(const std::string& pid) {
  std::string command_line;
  std::ifstream file("/proc/" + pid + "/cmdline");
  return std::getline(file, command_line) && !command_line.empty();
}

TEST(Mtfrun, PassesSignalsOn) {
  const Outcome outcome =
      RunMtfrun("-n 2 sh -c 'echo $$; exec sleep 50' < /dev/null", "timeout 2");
  EXPECT_EQ(outcome.status, 124);
  std::istringstream pids(outcome.output);
  int count = 0;
  for (std::string pid; pids >> pid; ++count) EXPECT_FALSE(Runs(pid)) << pid;
  EXPECT_EQ(count, 2) << outcome.output;
}

// The job ends with the status of the failed rank, however that rank ends;
// exit_status_program.cc lists the ways.
class JobsEnd : public ::testing::TestWithParam<const char*> {};

TEST_P(JobsEnd, WithTheStatusOfTheRankThatFailed) {
  const std::string arguments =
      std::string("-n 3 " EXIT_PROGRAM " ") + GetParam();
  for (const char* window : {"0", "1"}) {
    EXPECT_EQ(
        RunMtfrun(arguments, std::string("MTF_MPI_SHARED_WINDOW=") + window)
            .status,
        3)
        << "with MTF_MPI_SHARED_WINDOW=" << window;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, JobsEnd,
                         ::testing::Values("all", "one", "abort"));
#endif

}  // namespace
