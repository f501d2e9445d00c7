// SPDX-License-Identifier: Apache-2.0
//
// Failures and crashes at every operation of a save. Whatever happens, a
// checkpoint is left that can be loaded, with the values of one Save.
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/checkpoint/memory_file_system.h"
#include "tests/train/checkpoint/saved_values.h"
#include "train/checkpoint/checkpoint.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
using Values = std::map<std::string, HostTensor>;
using Unsynced = MemoryFileSystem::Unsynced;

// One run that saves steps 1 and 2, and keeps the last.
class SavingRun {
 public:
  explicit SavingRun(int ranks)
      : mesh_(absl::StrCat("a:", ranks)),
        model_(mesh_, "rows:a", 1),
        target_(mesh_, "rows:a") {
    values_[1] = AllValues(*model_.session);
    model_.Fill(20);
    values_[2] = AllValues(*model_.session);
    model_.Fill(300);
    values_[3] = AllValues(*model_.session);
  }

  CheckpointOptions Options(MemoryFileSystem& files) const {
    return {.folder = "runs/a", .keep = 1, .block_bytes = 16, .files = &files};
  }

  // Saves step 1, arms the file system, and saves step 2.
  absl::Status Save(MemoryFileSystem& files, const std::function<void()>& arm) {
    auto checkpointer = Checkpointer::Open(*model_.session, Options(files));
    EXPECT_OK(checkpointer);
    EXPECT_OK(SaveStep(**checkpointer, 1));
    EXPECT_OK((*checkpointer)->Wait());
    arm();
    const absl::Status begun = SaveStep(**checkpointer, 2);
    return begun.ok() ? (*checkpointer)->Wait() : begun;
  }

  // Loads the newest checkpoint, which must be one of those saved, and returns
  // its step.
  int64_t Load(MemoryFileSystem& files) {
    const auto restored =
        RestoreCheckpoint(*target_.session, "runs/a", {.files = &files});
    EXPECT_OK(restored);
    if (!restored.ok()) return -1;
    const int64_t step = restored->info.step;
    EXPECT_EQ(target_.session->step(), step);
    EXPECT_TRUE(AllValues(*target_.session) == values_[step]) << step;
    return step;
  }

  // After whatever happened, the next run saves step 3 and leaves nothing else.
  void Continue(MemoryFileSystem& files) {
    const auto checkpointer =
        Checkpointer::Open(*model_.session, Options(files));
    ASSERT_OK(checkpointer);
    const auto names = files.List("runs/a");
    ASSERT_OK(names);
    for (const std::string& name : *names) {
      EXPECT_TRUE(name == ".lock" || name[0] != '.') << name;
    }
    ASSERT_OK(SaveStep(**checkpointer, 3));
    ASSERT_OK((*checkpointer)->Wait());
    EXPECT_EQ(Load(files), 3);
    const auto left = files.List("runs/a");
    ASSERT_OK(left);
    EXPECT_EQ(*left, std::vector<std::string>({"step_00000003"}));
  }

 private:
  absl::Status SaveStep(Checkpointer& checkpointer, int64_t step) {
    model_.Fill(step == 1 ? 1 : step == 2 ? 20 : 300);
    EXPECT_OK(model_.session->SetStep(step));
    return checkpointer.Save();
  }
  std::string mesh_;
  TinyModel model_, target_;
  std::map<int64_t, Values> values_;
};

int64_t OperationsOfASave(SavingRun& run) {
  MemoryFileSystem files;
  EXPECT_OK(run.Save(files, [&] { files.Disarm(); }));
  EXPECT_EQ(run.Load(files), 2);
  return files.operations();
}

TEST(CheckpointFaults, EveryFailureLeavesALoadableCheckpoint) {
  int points = 0;
  for (int ranks : {1, 2, 4}) {
    SavingRun run(ranks);
    const int64_t operations = OperationsOfASave(run);
    for (int64_t i = 1; i <= operations; ++i) {
      for (int error : {EIO, ENOSPC}) {
        SCOPED_TRACE(absl::StrCat(ranks, " ranks, operation ", i));
        MemoryFileSystem files;
        const absl::Status status =
            run.Save(files, [&] { files.FailAt(i, error); });
        files.Disarm();
        const int64_t step = run.Load(files);
        // Only the removal of the old checkpoint may fail without an error.
        if (status.ok()) {
          EXPECT_EQ(step, 2);
        } else {
          EXPECT_THAT(std::string(status.message()),
                      ::testing::StartsWith("the checkpoint of step 2 was not "
                                            "saved: cannot "));
          EXPECT_EQ(status.code(), error == EIO
                                       ? absl::StatusCode::kDataLoss
                                       : absl::StatusCode::kResourceExhausted);
        }
        run.Continue(files);
        ++points;
      }
    }
  }
  EXPECT_GE(points, 100);
}

TEST(CheckpointFaults, EveryCrashLeavesALoadableCheckpoint) {
  int points = 0;
  int64_t before = 0, after = 0;
  for (int ranks : {1, 2, 4}) {
    SavingRun run(ranks);
    const int64_t operations = OperationsOfASave(run);
    for (int64_t i = 1; i <= operations; ++i) {
      for (int mode = 0; mode < 5; ++mode) {
        SCOPED_TRACE(
            absl::StrCat(ranks, " ranks, operation ", i, ", mode ", mode));
        MemoryFileSystem files;
        const absl::Status status = run.Save(files, [&] { files.CrashAt(i); });
        files.Restart(mode == 0   ? Unsynced::kLost
                      : mode == 1 ? Unsynced::kKept
                                  : Unsynced::kRandom,
                      static_cast<uint32_t>(i * 8 + mode));
        const int64_t step = run.Load(files);
        if (status.ok()) {
          EXPECT_EQ(step, 2) << "it had been reported as saved";
        }
        ++(step == 1 ? before : after);
        run.Continue(files);
        ++points;
      }
    }
  }
  EXPECT_GE(points, 200);
  EXPECT_GT(before, 50);
  EXPECT_GT(after, 20);
}

TEST(CheckpointFaults, AFullDisk) {
  SavingRun run(2);
  int64_t saved = 0;
  for (int64_t bytes = 3000; bytes < 9000; bytes += 250) {
    SCOPED_TRACE(bytes);
    MemoryFileSystem files;
    const absl::Status status =
        run.Save(files, [&] { files.most_bytes = bytes; });
    if (status.ok()) {
      ++saved;
    } else {
      EXPECT_THAT(status,
                  StatusIs(absl::StatusCode::kResourceExhausted,
                           HasSubstr("No space left on device\n  help     make "
                                     "room there")));
    }
    EXPECT_EQ(run.Load(files), status.ok() ? 2 : 1);
    files.most_bytes = int64_t{1} << 40;
    run.Continue(files);
  }
  EXPECT_GT(saved, 2);
  EXPECT_LT(saved, 22);
}

TEST(CheckpointFaults, AReadOnlyFolder) {
  SavingRun run(2);
  MemoryFileSystem files;
  EXPECT_THAT(run.Save(files, [&] { files.read_only = true; }),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("Read-only file system\n  help     name a "
                                 "folder in which this user may write")));
  EXPECT_EQ(run.Load(files), 1) << "reading needs no permission to write";
  TinyModel model("");
  EXPECT_THAT(
      Checkpointer::Open(*model.session, run.Options(files)),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("Read-only")));
}

}  // namespace
}  // namespace mtf::train
