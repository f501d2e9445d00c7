// SPDX-License-Identifier: Apache-2.0
//
// Readers of a folder in which another job saves: a checkpoint that is removed
// or replaced while it is read is chosen and read again.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/checkpoint/memory_file_system.h"
#include "tests/train/checkpoint/saved_values.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A job that saves to the folder "a" and keeps one checkpoint.
class SavingJob {
 public:
  SavingJob() {
    auto opened = Checkpointer::Open(
        *model_.session,
        {.folder = "a", .keep = 1, .block_bytes = 16, .files = &files});
    EXPECT_OK(opened);
    if (opened.ok()) checkpointer_ = *std::move(opened);
  }

  // Saves `value` as step `step`; removes the checkpoints before.
  void Save(int64_t step, double value) {
    model_.Fill(value);
    ASSERT_OK(model_.session->SetStep(step));
    ASSERT_OK(checkpointer_->Save());
    ASSERT_OK(checkpointer_->Wait());
  }
  void Remove(int64_t step) { ASSERT_OK(RemoveCheckpoint(files, "a", step)); }
  std::map<std::string, HostTensor> Values() {
    return AllValues(*model_.session);
  }

  // Calls `change` before a reader opens a file with this name, `times` times.
  void WhenOpened(const std::string& name, int times,
                  std::function<void()> change) {
    files.on_open = [this, name, left = times, inside = false,
                     change](const std::string& path) mutable {
      if (inside || left == 0 || !absl::EndsWith(path, name)) return;
      inside = true;
      --left;
      change();
      inside = false;
    };
  }

  MemoryFileSystem files;

 private:
  TinyModel model_{"a:2", "rows:a", 1};
  std::unique_ptr<Checkpointer> checkpointer_;
};

// A reader with one rank, so that it opens files one after the other.
absl::StatusOr<RestoredCheckpoint> Restore(TinyModel& model, SavingJob& job,
                                           RestoreOptions options = {}) {
  options.files = &job.files;
  return RestoreCheckpoint(*model.session, "a", options);
}

TEST(CheckpointReaders, RetentionRemovesTheNewestWhileItIsOpened) {
  for (const std::string& opened :
       {std::string(kManifestName), ShardFileName(0), ShardFileName(1)}) {
    SCOPED_TRACE(opened);
    SavingJob job;
    job.Save(1, 10);
    TinyModel reader("");
    job.WhenOpened(opened, 1, [&] { job.Save(2, 20); });
    const auto restored = Restore(reader, job);
    ASSERT_OK(restored);
    EXPECT_EQ(restored->info.step, 2);
    EXPECT_EQ(reader.session->step(), 2);
    EXPECT_TRUE(AllValues(*reader.session) == job.Values());
  }
}

TEST(CheckpointReaders, ACheckpointIsReplacedWhileItIsRead) {
  for (const std::string& opened :
       {std::string(kManifestName), ShardFileName(0), ShardFileName(1)}) {
    SCOPED_TRACE(opened);
    SavingJob job;
    job.Save(5, 10);
    TinyModel reader("");
    job.WhenOpened(opened, 3, [&, value = 20]() mutable {
      job.Remove(5);
      job.Save(5, ++value);
    });
    const auto restored = Restore(reader, job);
    ASSERT_OK(restored);
    EXPECT_EQ(restored->info.step, 5);
    EXPECT_TRUE(AllValues(*reader.session) == job.Values());
    // Also if older ones would be taken in place of a damaged one.
    EXPECT_TRUE(restored->notices.empty());
  }
}

TEST(CheckpointReaders, NothingIsLeft) {
  SavingJob job;
  job.Save(5, 10);
  TinyModel reader("", "", 3);
  const auto before = AllValues(*reader.session);
  job.WhenOpened(ShardFileName(1), 1, [&] { job.Remove(5); });
  EXPECT_THAT(Restore(reader, job), StatusIs(absl::StatusCode::kNotFound,
                                             HasSubstr("has no checkpoint")));
  // The one that was asked for, and not another.
  job.Save(6, 10);
  job.WhenOpened(kManifestName, 1, [&] { job.Save(7, 20); });
  EXPECT_THAT(Restore(reader, job, {.step = 6}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("has no checkpoint of step 6")));
  EXPECT_TRUE(AllValues(*reader.session) == before);
}

TEST(CheckpointReaders, AreNotReplacedForever) {
  SavingJob job;
  job.Save(5, 10);
  TinyModel reader("");
  int replaced = 0;
  job.WhenOpened(ShardFileName(0), -1, [&] {
    job.Remove(5);
    job.Save(5, ++replaced);
  });
  EXPECT_THAT(Restore(reader, job),
              StatusIs(absl::StatusCode::kAborted,
                       AllOf(HasSubstr("step_00000005\" was replaced while"),
                             HasSubstr("keep more checkpoints"))));
  EXPECT_EQ(replaced, kMostReadAttempts);
}

TEST(CheckpointReaders, DamageIsStillDamage) {
  SavingJob job;
  job.Save(5, 10);
  job.files.Contents("a/step_00000005/shard_00001.safetensors")->back() ^= 1;
  TinyModel reader("");
  EXPECT_EQ(Restore(reader, job).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(VerifyCheckpoint("a/step_00000005", &job.files).code(),
            absl::StatusCode::kDataLoss);
}

TEST(CheckpointReaders, VerificationReadsAgain) {
  const std::string path = "a/step_00000005";
  for (const std::string& opened : {ShardFileName(0), ShardFileName(1)}) {
    SCOPED_TRACE(opened);
    SavingJob job;
    job.Save(5, 10);
    job.WhenOpened(opened, 2, [&, value = 20]() mutable {
      job.Remove(5);
      job.Save(5, ++value);
    });
    EXPECT_OK(VerifyCheckpoint(path, &job.files));
    job.WhenOpened(opened, 1, [&] { job.Remove(5); });
    EXPECT_THAT(VerifyCheckpoint(path, &job.files),
                StatusIs(absl::StatusCode::kNotFound,
                         HasSubstr("there is no checkpoint \"a/step_000")));
  }
}

TEST(CheckpointReaders, AListOmitsWhatIsRemovedMeanwhile) {
  SavingJob job;
  job.Save(1, 10);
  job.WhenOpened(kManifestName, 1, [&] { job.Save(2, 20); });
  const auto infos = Checkpointer::List("a", &job.files);
  ASSERT_OK(infos);
  EXPECT_TRUE(infos->empty());
}

}  // namespace
}  // namespace mtf::train
