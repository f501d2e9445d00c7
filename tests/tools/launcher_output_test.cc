// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "tools/launcher_output.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtf::tools {
namespace {

const std::string& Dashes() {
  static const std::string& dashes =
      *new std::string(std::string(74, '-') + "\n");
  return dashes;
}

std::string Block(const std::string& text) {
  return Dashes() + text + Dashes();
}

// Blocks as Open MPI 4.1 writes them.
const char kPrimary[] =
    "Primary job  terminated normally, but 1 process returned\n"
    "a non-zero exit code. Per user-direction, the job has been aborted.\n";
const char kDetected[] =
    "mpiexec detected that one or more processes exited with non-zero status, "
    "thus causing\nthe job to be terminated. The first process to do so was:\n"
    "\n  Process name: [[12169,1],1]\n  Exit code:    3\n";
const char kAbort[] =
    "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n"
    "with errorcode 3.\n\nNOTE: invoking MPI_ABORT causes Open MPI to kill all "
    "MPI processes.\n";
const char kCounts[] =
    "[host:7] 2 more processes have sent help message help-mpi-api.txt / "
    "mpi-abort\n[host:7] Set MCA parameter \"orte_base_help_aggregate\" to 0 "
    "to see all help / error messages\n";
const char kNoFile[] =
    "A system call failed during shared memory initialization that should\n"
    "not have.  It is likely that your MPI job will now either abort or\n"
    "experience performance degradation.\n";
const char kSignal[] =
    "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal "
    "11 (Segmentation fault).\n";

// What is printed of `text` if it arrives in texts of `size` bytes.
std::string Filtered(const std::string& text, size_t size,
                     LauncherOutput& output) {
  std::string passed;
  for (size_t i = 0; i < text.size(); i += size) {
    passed += output.Add(text.substr(i, size));
  }
  return passed + output.End();
}

TEST(LauncherOutput, RemovesTheBlocksOfAFailedRank) {
  const std::string text = "note: a\n" + Block(kAbort) + "broken\n" +
                           Block(kPrimary) + Block(kDetected);
  for (const size_t size : {1, 7, 74, 75, 76, 1000}) {
    LauncherOutput output;
    EXPECT_EQ(Filtered(text, size, output), "note: a\nbroken\n") << size;
    EXPECT_TRUE(output.has_other());
    EXPECT_EQ(output.removed(),
              Block(kAbort) + Block(kPrimary) + Block(kDetected));
  }
}

TEST(LauncherOutput, RemovesTheCountsOfFurtherBlocks) {
  LauncherOutput output;
  EXPECT_EQ(Filtered(Block(kAbort) + kCounts, 4096, output), "");
  EXPECT_FALSE(output.has_other());
}

// A rank that was stopped in MPI_Init goes on when the job ends.
TEST(LauncherOutput, RemovesTheBlockOfAStoppedRankAfterATimeout) {
  const std::string error = "DEADLINE_EXCEEDED rank 1 is in MPI_Init\n";
  const std::string count =
      "[vm:1] 1 more process has sent help message help-opal-shmem-mmap.txt / "
      "sys call fail\n";
  for (const size_t size : {1, 7, 74, 75, 76, 1000}) {
    LauncherOutput output;
    EXPECT_EQ(Filtered(error + Block(kNoFile), size, output), error);
    // Without a timeout it may be the cause of an error.
    LauncherOutput other;
    EXPECT_EQ(Filtered(Block(kNoFile), size, other), Block(kNoFile));
  }
  LauncherOutput output;
  EXPECT_EQ(Filtered(error + Block(kNoFile) + count, 4096, output), error);
}

TEST(LauncherOutput, KeepsAllOtherOutput) {
  for (const std::string& text :
       {Block(kPrimary).substr(75), Block(kSignal), Dashes(),
        Dashes() + Dashes() + "a\n", Dashes() + "Title\n" + Dashes() + "cell\n",
        std::string("-----"), std::string("no end of line"),
        std::string("\r\n\n--- a\r")}) {
    for (const size_t size : {1, 7, 4096}) {
      LauncherOutput output;
      EXPECT_EQ(Filtered(text, size, output), text);
      EXPECT_EQ(output.removed(), "");
    }
  }
}

TEST(LauncherOutput, WaitsOnlyForLinesOfDashes) {
  LauncherOutput output;
  EXPECT_EQ(output.Add("name: "), "name: ");
  EXPECT_EQ(output.Add("-----\n"), "-----\n");
  EXPECT_EQ(output.Add("--"), "");
  EXPECT_EQ(output.Add("x"), "--x");
}

TEST(LauncherOutput, ABlockThatEndsEarlyIsRemoved) {
  LauncherOutput output;
  const std::string text = Dashes() + std::string(kDetected).substr(0, 100);
  EXPECT_EQ(Filtered(text, 4096, output), "");
  EXPECT_EQ(output.removed(), text);
}

}  // namespace
}  // namespace mtf::tools
