// SPDX-License-Identifier: Apache-2.0
//
// The protocol between processes, as writers in one process: rank 0 commits
// only after the shards of every rank are durable.
#include "train/checkpoint/checkpoint_writer.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/checkpoint/memory_file_system.h"
#include "train/checkpoint/checkpoint.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

constexpr char kSaving[] = "a/.saving_step_00000007";
constexpr char kSaved[] = "a/step_00000007";

// What the process of one of two ranks writes: a row of "w".
CheckpointJob JobOf(int64_t rank, MemoryFileSystem& files) {
  const Dimension rows{"rows", 2}, columns{"columns", 3};
  CheckpointJob job;
  job.files = &files;
  job.folder = "a";
  job.manifest.save_id = "one save";
  job.manifest.step = 7;
  job.manifest.variables = {
      {"w", VariableKind::kParameter, kFloat32, {rows, columns}, {}}};
  RankPart part;
  part.rank = rank;
  const std::vector<float> row(3, static_cast<float>(rank));
  RankPart::Shard shard = {0,
                           {{rank, 1}, {0, 3}},
                           kFloat32,
                           3 * sizeof(float),
                           AllocateHostMemory(3 * sizeof(float))};
  std::memcpy(shard.values.get(), row.data(), 3 * sizeof(float));
  part.shards.push_back(std::move(shard));
  job.parts.push_back(std::move(part));
  job.commits = rank == 0;
  if (rank == 0) job.other_ranks = {1};
  return job;
}

std::unique_ptr<MemoryFileSystem> FilesWithFolder() {
  auto files = std::make_unique<MemoryFileSystem>();
  EXPECT_OK(files->MakeFolder("a"));
  EXPECT_OK(files->SyncFolder(""));
  EXPECT_OK(files->MakeFolder(kSaving));
  return files;
}

TEST(CheckpointWriter, CommitsAfterTheLastRank) {
  const auto files = FilesWithFolder();
  CheckpointWriter first(JobOf(0, *files));
  ASSERT_OK(first.WaitForParts());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(files->List(kSaved).ok());
  // What another save has left is not taken for the part of this one.
  CheckpointJob stale = JobOf(1, *files);
  stale.manifest.save_id = "another save";
  CheckpointWriter stale_writer(std::move(stale));
  ASSERT_OK(stale_writer.Wait(false));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(files->List(kSaved).ok());
  for (const char* name : {"part_00001.json", "shard_00001.safetensors"}) {
    ASSERT_OK(files->Remove(absl::StrCat(kSaving, "/", name)));
  }
  CheckpointWriter second(JobOf(1, *files));
  ASSERT_OK(second.Wait(false));
  ASSERT_OK(first.Wait(false));
  EXPECT_EQ(
      *files->List(kSaved),
      std::vector<std::string>({"manifest.json", "shard_00000.safetensors",
                                "shard_00001.safetensors"}));
  EXPECT_OK(VerifyCheckpoint(kSaved, files.get()));
}

// Each operation of the second process fails: nothing is committed, or what is
// committed is durable.
TEST(CheckpointWriter, NothingIsCommittedWithoutARank) {
  for (int64_t operation = 1;; ++operation) {
    const auto files = FilesWithFolder();
    files->FailAt(operation, EIO);
    CheckpointWriter second(JobOf(1, *files));
    const absl::Status failed = second.Wait(false);
    files->Disarm();
    if (failed.ok()) {
      EXPECT_GT(operation, 6);
      break;
    }
    CheckpointWriter first(JobOf(0, *files));
    // The last operation closes the part, which is complete by then.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const absl::Status cancelled = first.Wait(/*cancel=*/true);
    if (cancelled.ok()) {
      files->Restart(MemoryFileSystem::Unsynced::kLost, 1);
      EXPECT_OK(VerifyCheckpoint(kSaved, files.get()));
    } else {
      EXPECT_FALSE(files->List(kSaved).ok()) << operation;
    }
  }
}

TEST(CheckpointWriter, ARankThatDoesNotWriteIsNamed) {
  const auto files = FilesWithFolder();
  CheckpointJob job = JobOf(0, *files);
  job.commit_timeout = 0.02;
  CheckpointWriter writer(std::move(job));
  EXPECT_THAT(
      writer.Wait(false),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               HasSubstr("rank 1 has not written its shards to "
                         "\"a/.saving_step_00000007/part_00001.json\" within "
                         "0.02 s\n  help     all processes need the same")));
  EXPECT_FALSE(files->List(kSaved).ok());
}

// Shards that do not cover a variable are an error of the program, not a
// checkpoint.
TEST(CheckpointWriter, AnIncompleteCheckpointIsNotCommitted) {
  const auto files = FilesWithFolder();
  CheckpointJob job = JobOf(0, *files);
  job.other_ranks.clear();
  CheckpointWriter writer(std::move(job));
  EXPECT_THAT(writer.Wait(false),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("leave a gap")));
  EXPECT_FALSE(files->List(kSaved).ok());
}

}  // namespace
}  // namespace mtf::train
