// SPDX-License-Identifier: Apache-2.0
//
// RestoreOptions::in_place: the same values without a copy, and no session with
// half of them.
#include <cstdint>
#include <map>
#include <string>

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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Checkpoints of steps 1 and 2.
struct TwoCheckpoints {
  MemoryFileSystem files;
  std::map<int64_t, std::map<std::string, HostTensor>> values;
  const std::string second = "a/step_00000002/";

  TwoCheckpoints() {
    TinyModel model("a:2", "rows:a", 1);
    const auto checkpointer = Checkpointer::Open(
        *model.session, {.folder = "a", .block_bytes = 16, .files = &files});
    EXPECT_OK(checkpointer);
    for (int64_t step : {1, 2}) {
      model.Fill(static_cast<double>(10 * step));
      values[step] = AllValues(*model.session);
      EXPECT_OK(model.session->SetStep(step));
      EXPECT_OK((*checkpointer)->Save());
    }
    EXPECT_OK((*checkpointer)->Wait());
  }
  void DamageSecond() {
    files.Contents(second + "shard_00001.safetensors")->back() ^= 1;
  }
};

absl::StatusOr<RestoredCheckpoint> RestoreInPlace(Session& session,
                                                  TwoCheckpoints& saved,
                                                  RestoreOptions options = {}) {
  options.in_place = true;
  options.files = &saved.files;
  return RestoreCheckpoint(session, "a", options);
}

TEST(RestoreInPlace, AnyMeshHasTheValues) {
  TwoCheckpoints saved;
  for (const std::string layout : {"rows:a", "columns:a", ""}) {
    for (const std::string mesh : {"", "a:2", "a:3", "a:4"}) {
      SCOPED_TRACE(absl::StrCat(mesh, " ", layout));
      TinyModel target(mesh, layout, 500);
      const auto restored = RestoreInPlace(*target.session, saved);
      ASSERT_OK(restored);
      EXPECT_EQ(target.session->step(), 2);
      EXPECT_TRUE(AllValues(*target.session) == saved.values[2]);
      EXPECT_GT(restored->bytes_read, 0);
      // All shards, one that is copied because of its padding, and a block.
      EXPECT_LE(restored->bytes_held, 75 + 60 + 16);
    }
  }
}

TEST(RestoreInPlace, DamageLeavesNoValues) {
  TwoCheckpoints saved;
  saved.DamageSecond();
  TinyModel target("a:2", "rows:a", 500);
  EXPECT_THAT(RestoreInPlace(*target.session, saved),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("shard_00001.safetensors")));
  EXPECT_THAT(target.session->ReadVariable("w"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("call Initialize()")));
  ASSERT_OK(target.session->Initialize());
  EXPECT_OK(target.session->ReadVariable("w"));
  ASSERT_OK(RestoreInPlace(*target.session, saved, {.step = 1}));
  EXPECT_TRUE(AllValues(*target.session) == saved.values[1]);
}

TEST(RestoreInPlace, FallsBackToTheValuesOfOneCheckpoint) {
  TwoCheckpoints saved;
  saved.DamageSecond();
  TinyModel target("a:3", "rows:a", 500);
  const auto restored =
      RestoreInPlace(*target.session, saved, {.fall_back = true});
  ASSERT_OK(restored);
  EXPECT_THAT(restored->notices, ElementsAre(StartsWith("skipped: ")));
  EXPECT_TRUE(AllValues(*target.session) == saved.values[1]);
}

// Nothing was read.
TEST(RestoreInPlace, WithoutACheckpointTheValuesStay) {
  TwoCheckpoints saved;
  TinyModel target("a:2", "rows:a", 500);
  const auto before = AllValues(*target.session);
  EXPECT_THAT(RestoreInPlace(*target.session, saved, {.step = 7}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no checkpoint of step 7")));
  EXPECT_TRUE(AllValues(*target.session) == before);
}

// Variables that a checkpoint lacks keep their values, so all do on an error.
TEST(RestoreInPlace, PartialRestoresAreStaged) {
  TwoCheckpoints saved;
  saved.DamageSecond();
  TinyModel target("a:2", "rows:a", 500);
  const auto before = AllValues(*target.session);
  EXPECT_EQ(
      RestoreInPlace(*target.session, saved, {.partial = true}).status().code(),
      absl::StatusCode::kDataLoss);
  EXPECT_TRUE(AllValues(*target.session) == before);
}

}  // namespace
}  // namespace mtf::train
