// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (checks the output of other programs)
//
// The example as a process: under limits of memory and threads it ends with one
// message and an exit code.

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/run_command.h"

#ifdef TRANSFORMER_LM  // a build without the examples has none

namespace mtf::train {
namespace {

using ::mtf::testing::Outcome;
using ::mtf::testing::RunCommand;
using ::mtf::testing::Temporary;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Runs shell lines in which "$LM" starts the example with a tiny model.
Outcome RunShell(const std::string& script) {
  const std::string text = Temporary("text"), path = Temporary("script");
  std::ofstream file(text);
  for (int i = 0; i < 500; ++i) file << i << " and " << i * i << "\n";
  file.close();
  std::ofstream(path) << "LM='" << TRANSFORMER_LM << " --text=" << text
                      << " --steps=2 --batch=4 --length=8 --layers=1"
                         " --d_model=12 --heads=2 --d_kv=6 --d_ff=16"
                         " --sample_bytes=1'\n"
                      << script;
  const Outcome outcome = RunCommand(absl::StrCat("timeout 60 bash ", path));
  std::remove(text.c_str());
  std::remove(path.c_str());
  return outcome;
}

TEST(CliProcess, WithoutMemoryForItsBatchFails) {
  const Outcome outcome = RunShell(
      "ulimit -v 1500000\n"
      "exec $LM --batch=33000000\n");
  EXPECT_EQ(outcome.exit_code, 71);
  EXPECT_THAT(outcome.errors,
              AllOf(StartsWith("RESOURCE_EXHAUSTED no memory"),
                    HasSubstr("\n  help     "), Not(HasSubstr("terminate"))));
}

// A run whose output is lost is not a success.
TEST(CliProcess, ThatCannotWriteItsOutputFails) {
  for (const char* flags : {"", "--explain", "--help"}) {
    const Outcome outcome =
        RunShell(absl::StrCat("exec $LM ", flags, " > /dev/full\n"));
    EXPECT_EQ(outcome.exit_code, 74) << flags;
    EXPECT_THAT(outcome.errors,
                HasSubstr("DATA_LOSS cannot write to the standard output"));
  }
}

TEST(CliProcess, WithoutThreadsForItsRanksFails) {
  // The stack of a thread counts as memory: 64 GB for all of them.
  const Outcome outcome = RunShell(
      "ulimit -s 262144\n"
      "ulimit -v 6000000\n"
      "exec $LM --batch=256 --mesh_shape=data:256 --layout=data\n");
  EXPECT_EQ(outcome.exit_code, 71);
  EXPECT_THAT(
      outcome.errors,
      AllOf(StartsWith("RESOURCE_EXHAUSTED mesh \"data:256\" needs 256 threads "
                       "of this process: cannot start a thread: "),
            Not(HasSubstr("terminate"))));
}

TEST(CliProcess, TakesTheNumberOfThreadsFromItsFlag) {
  EXPECT_THAT(RunShell("exec $LM --threads=3\n").out,
              HasSubstr("1 rank of 3 threads\n"));
  EXPECT_THAT(
      RunShell("exec $LM --threads=1 --mesh_shape=data:2 --layout=data\n").out,
      HasSubstr("2 ranks of 1 thread\n"));
  for (const char* threads : {"0", "-1", "two", "5000"}) {
    const Outcome outcome =
        RunShell(absl::StrCat("exec $LM --threads=", threads, "\n"));
    EXPECT_EQ(outcome.exit_code, 2) << threads;
    EXPECT_THAT(outcome.errors, HasSubstr("--threads is "));
  }
}

}  // namespace
}  // namespace mtf::train

#endif  // TRANSFORMER_LM
