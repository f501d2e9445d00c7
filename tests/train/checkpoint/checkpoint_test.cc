// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/checkpoint.h"

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
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
#include "tests/train/checkpoint/temporary_folder.h"
#include "train/checkpoint/safetensors_set.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kDamaged = absl::StatusCode::kDataLoss;

std::unique_ptr<Checkpointer> OpenIn(Session& session,
                                     CheckpointOptions options) {
  auto checkpointer = Checkpointer::Open(session, options);
  EXPECT_OK(checkpointer);
  return checkpointer.ok() ? *std::move(checkpointer) : nullptr;
}

void SaveSteps(TinyModel& model, const CheckpointOptions& options,
               const std::vector<int64_t>& steps) {
  const auto checkpointer = OpenIn(*model.session, options);
  for (int64_t step : steps) {
    model.Fill(static_cast<double>(step));
    ASSERT_OK(model.session->SetStep(step));
    ASSERT_OK(checkpointer->Save());
  }
  ASSERT_OK(checkpointer->Wait());
}

std::vector<int64_t> StepsIn(const std::string& folder,
                             FileSystem* files = nullptr) {
  std::vector<int64_t> steps;
  const auto infos = Checkpointer::List(folder, files);
  EXPECT_OK(infos);
  for (const CheckpointInfo& info : *infos) steps.push_back(info.step);
  return steps;
}

TEST(Checkpoint, SavesAndRestores) {
  const TemporaryFolder folder;
  TinyModel model("a:3", "rows:a", 7);
  const auto checkpointer =
      OpenIn(*model.session, {.folder = folder / "new/runs"});
  ASSERT_OK(model.session->SetStep(300));
  ASSERT_OK(checkpointer->Save(
      {.metric = 0.1, .extra = {{"data", "file 3\n"}, {"\"", "\\"}}}));
  const auto saved = AllValues(*model.session);
  model.Fill(100);  // while the thread writes
  ASSERT_OK(checkpointer->Wait());
  const auto infos = Checkpointer::List(folder / "new/runs");
  ASSERT_OK(infos);
  ASSERT_EQ(infos->size(), 1u);
  const CheckpointInfo& info = (*infos)[0];
  EXPECT_OK(info.status);
  EXPECT_EQ(info.step, 300);
  EXPECT_EQ(info.metric, 0.1);
  EXPECT_EQ(info.mesh, "a:3");
  EXPECT_EQ(info.extra.at("data"), "file 3\n");
  EXPECT_EQ(info.extra.at("\""), "\\");
  EXPECT_EQ(info.bytes, 5 * 3 * 4 + 3 * 2 + 4 + 5);
  ASSERT_EQ(info.variables.size(), 4u);
  EXPECT_EQ(info.variables[0].name, "w");
  EXPECT_EQ(info.variables[0].shape.ToString(), "rows=5, columns=3");
  EXPECT_EQ(info.variables[3].kind, VariableKind::kState);
  EXPECT_OK(VerifyCheckpoint(info.path));

  const auto restored = checkpointer->Restore();
  ASSERT_OK(restored);
  EXPECT_TRUE(restored->notices.empty());
  EXPECT_EQ(restored->info.extra, info.extra);
  EXPECT_EQ(model.session->step(), 300);
  EXPECT_TRUE(AllValues(*model.session) == saved);
}

// Every file is a safetensors file that other programs can read.
TEST(Checkpoint, FilesOfOneRankAreTheModel) {
  const TemporaryFolder folder;
  TinyModel model("", "", 7);
  SaveSteps(model, {.folder = folder.path()}, {4});
  const auto set =
      SafetensorsSet::Open(folder / "step_00000004/shard_00000.safetensors");
  ASSERT_OK(set);
  EXPECT_THAT((*set)->names(), ElementsAre("count", "half", "seen", "w"));
  EXPECT_EQ((*set)->Read("w")->ToDoubles(),
            AllValues(*model.session).at("w").ToDoubles());
}

TEST(Checkpoint, KeepsTheNewestAndTheBest) {
  for (const bool asynchronous : {false, true}) {
    const TemporaryFolder folder;
    TinyModel model("a:2", "rows:a", 1);
    CheckpointOptions options = {.folder = folder.path(),
                                 .keep = 2,
                                 .best = BestMetric::kLowest,
                                 .asynchronous = asynchronous};
    auto checkpointer = OpenIn(*model.session, options);
    const double losses[] = {5, 3, 4, 6, 7, 3};
    for (int step = 0; step < 6; ++step) {
      if (step == 4) {  // another run goes on
        ASSERT_OK(checkpointer->Wait());
        checkpointer.reset();
        checkpointer = OpenIn(*model.session, options);
      }
      ASSERT_OK(model.session->SetStep(step));
      ASSERT_OK(checkpointer->Save({.metric = losses[step]}));
    }
    ASSERT_OK(checkpointer->Wait());
    EXPECT_THAT(StepsIn(folder.path()), ElementsAre(1, 4, 5));
    EXPECT_TRUE(checkpointer->TakeNotices().empty());
    EXPECT_THAT(
        checkpointer->Save(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("step 5 has no metric, but the best is to be")));
    EXPECT_THAT(
        checkpointer->Save({.metric = std::nan("")}),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is nan")));
  }
}

TEST(Checkpoint, AnErrorOfTheThreadComesWithTheNextCall) {
  MemoryFileSystem files;
  TinyModel model("a:2", "rows:a", 1);
  const auto checkpointer =
      OpenIn(*model.session, {.folder = "a", .files = &files});
  ASSERT_OK(checkpointer->Save());
  ASSERT_OK(checkpointer->Wait());
  ASSERT_OK(model.session->SetStep(1));
  files.FailAt(5, ENOSPC);
  ASSERT_OK(checkpointer->Save());
  ASSERT_OK(model.session->SetStep(2));
  EXPECT_THAT(checkpointer->Save(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("the checkpoint of step 1 was not saved: "
                                 "cannot write to \"a/.saving_step_00000001/"
                                 "shard_00000.safetensors\": No space left")));
  // Once only, and the next one is saved.
  ASSERT_OK(checkpointer->Save());
  ASSERT_OK(checkpointer->Wait());
  EXPECT_THAT(StepsIn("a", &files), ElementsAre(0, 2));
  EXPECT_THAT(*files.List("a"), ElementsAre("step_00000000", "step_00000002"));
}

TEST(Checkpoint, TwoJobsOnOneFolder) {
  const TemporaryFolder folder;
  TinyModel model("", "", 1), other("", "", 2);
  auto first = OpenIn(*model.session, {.folder = folder.path()});
  EXPECT_THAT(Checkpointer::Open(*other.session, {.folder = folder.path()}),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("another job saves its checkpoints in "
                                       "folder"),
                             HasSubstr("\n  help     name another folder"))));
  ASSERT_OK(first->Save());
  ASSERT_OK(first->Wait());
  EXPECT_OK(RestoreCheckpoint(*other.session, folder.path()));
  first.reset();
  const auto second = OpenIn(*other.session, {.folder = folder.path()});
  EXPECT_THAT(second->Save(),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr("already has a checkpoint of step 0")));
}

TEST(Checkpoint, LeftoversOfKilledJobsAreRemoved) {
  const TemporaryFolder folder;
  for (const char* name : {".saving_step_00000003", ".removing_step_00000001",
                           "my_notes", ".saving_my_notes"}) {
    std::filesystem::create_directory(folder / name);
    WriteTestFile(folder / absl::StrCat(name, "/x"), "x");
  }
  TinyModel model("");
  OpenIn(*model.session, {.folder = folder.path()});
  EXPECT_THAT(*FileSystem::Real().List(folder.path()),
              ElementsAre(".lock", ".saving_my_notes", "my_notes"));
}

TEST(Checkpoint, StateOfTheComputationCanBeLeftOut) {
  MemoryFileSystem files;
  TinyModel model("", "", 5), target("", "", 8);
  SaveSteps(model, {.folder = "a", .files = &files}, {5});
  SaveSteps(model, {.folder = "b", .state = false, .files = &files}, {5});
  const auto before = AllValues(*target.session);
  EXPECT_THAT(
      RestoreCheckpoint(*target.session, "b", {.files = &files}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("1 missing\n  missing  \"seen\" bool[rows=5]")));
  for (const char* folder : {"a", "b"}) {
    ASSERT_OK(RestoreCheckpoint(*target.session, folder,
                                {.state = false, .files = &files}));
    auto expected = AllValues(*model.session);
    expected["seen"] = before.at("seen");
    EXPECT_TRUE(AllValues(*target.session) == expected);
  }
}

TEST(Checkpoint, AnotherSeedIsANotice) {
  MemoryFileSystem files;
  TinyModel model("", "", 5);
  SaveSteps(model, {.folder = "a", .files = &files}, {5});
  Graph graph;
  Variable(graph, "w", Zeros(graph, kFloat32, {{"rows", 5}, {"columns", 3}}));
  SessionOptions options;
  options.seed = 9;
  const auto session = Session::Create(graph, "", "", options);
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const auto restored =
      RestoreCheckpoint(**session, "a", {.partial = true, .files = &files});
  ASSERT_OK(restored);
  EXPECT_THAT(restored->notices,
              ElementsAre(StartsWith("3 variables of the checkpoint are not in "
                                     "the model\n  variable \"count\" i32[]"),
                          HasSubstr("saved with seed 0, and this run has seed "
                                    "9")));
}

TEST(CheckpointErrors, AllDifferencesInOneError) {
  MemoryFileSystem files;
  TinyModel model("", "", 5);
  SaveSteps(model, {.folder = "a", .files = &files}, {5});
  Graph graph;
  Variable(graph, "w", Zeros(graph, kFloat32, {{"columns", 3}, {"rows", 5}}));
  Variable(graph, "half", Zeros(graph, kFloat16, {{"columns", 3}}));
  Variable(graph, "counts", Zeros(graph, kInt32, {}));
  const auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const auto before = AllValues(**session);
  EXPECT_THAT(
      RestoreCheckpoint(**session, "a", {.files = &files}),
      StatusIs(
          absl::StatusCode::kFailedPrecondition,
          "the checkpoint of step 5 is not of this model: 1 missing, 2 extra, "
          "1 of another shape, 1 of another dtype\n"
          "  missing  \"counts\" i32[]; is it \"count\"?\n"
          "  extra    \"count\" i32[]; is it \"counts\"?\n"
          "  extra    \"seen\" bool[rows=5]\n"
          "  shape    \"w\" is f32[rows=5, columns=3] in the checkpoint, "
          "f32[columns=3, rows=5] in the model\n"
          "  dtype    \"half\" would be rounded from bf16 to f16\n"
          "  help     build the model as it was saved; variables of another "
          "shape or a narrower dtype cannot be restored"));
  EXPECT_EQ(
      RestoreCheckpoint(**session, "a", {.partial = true, .files = &files})
          .status()
          .code(),
      absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(AllValues(**session) == before) << "nothing was changed";
}

TEST(CheckpointErrors, FoldersStepsAndOptions) {
  MemoryFileSystem files;
  TinyModel model("");
  Session& session = *model.session;
  EXPECT_THAT(RestoreCheckpoint(session, "a", {.files = &files}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"a\": No")));
  const auto checkpointer = OpenIn(session, {.folder = "a", .files = &files});
  EXPECT_THAT(
      checkpointer->Restore(),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("has no checkpoint")));
  ASSERT_OK(checkpointer->Save());
  EXPECT_THAT(checkpointer->Restore({.step = 3}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no checkpoint of step 3\n  steps    0")));
  EXPECT_THAT(Checkpointer::Open(session, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no folder for checkpoints is named")));
  EXPECT_THAT(
      Checkpointer::Open(session, {.folder = "b", .keep = -1}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("keep is -1")));
  Graph graph;
  Variable(graph, "w", Zeros(graph, kFloat32, {}));
  const auto fresh = Session::Create(graph, "", "");
  ASSERT_OK(fresh);
  EXPECT_THAT(
      RestoreCheckpoint(**fresh, "a", {.partial = true, .files = &files}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("\"w\" is f32[rows=5, columns=3]")));
  const auto unsaved = OpenIn(**fresh, {.folder = "b", .files = &files});
  EXPECT_THAT(unsaved->Save(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("call Initialize()")));
}

// The files of a checkpoint that is small enough to damage every byte.
struct SmallCheckpoint {
  MemoryFileSystem files;
  TinyModel model{"a:2", "rows:a", 1};
  const std::string path = "a/step_00000002/";

  SmallCheckpoint() {
    SaveSteps(model, {.folder = "a", .block_bytes = 16, .files = &files},
              {1, 2});
  }
  std::vector<std::string> names() { return *files.List(path); }
  absl::Status Restore(bool fall_back = false) {
    return RestoreCheckpoint(*model.session, "a",
                             {.fall_back = fall_back, .files = &files})
        .status();
  }
};

TEST(CheckpointDamage, EveryByteIsNoticed) {
  SmallCheckpoint saved;
  EXPECT_THAT(saved.names(),
              ElementsAre("manifest.json", "shard_00000.safetensors",
                          "shard_00001.safetensors"));
  const auto before = AllValues(*saved.model.session);
  int64_t named_bytes = 0, all = 0;
  for (const std::string& name : saved.names()) {
    std::string& bytes = *saved.files.Contents(saved.path + name);
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
      const absl::Status status = saved.Restore();
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
      ASSERT_EQ(status.code(), kDamaged) << name << " byte " << i;
      ASSERT_THAT(
          std::string(status.message()),
          StartsWith(absl::StrCat(
              "checkpoint \"a/step_00000002\" is damaged\n  file     \"", name,
              "\"")));
      named_bytes += absl::StrContains(status.message(), "variable ");
      ++all;
    }
  }
  EXPECT_GE(named_bytes, 5 * 3 * 4 + 3 * 2 + 4 + 5);
  EXPECT_GT(all, 1500);
  EXPECT_TRUE(AllValues(*saved.model.session) == before);
  EXPECT_OK(saved.Restore());
}

TEST(CheckpointDamage, NamesFileVariableAndBytes) {
  SmallCheckpoint saved;
  const std::string name = saved.path + "shard_00000.safetensors";
  saved.files.Contents(name)->back() ^= 4;
  EXPECT_THAT(
      saved.Restore(),
      StatusIs(kDamaged,
               ::testing::MatchesRegex(
                   "checkpoint \"a/step_00000002\" is damaged\n"
                   "  file     \"shard_00000.safetensors\", variable \"seen\", "
                   "bytes [0-9]+-[0-9]+\n"
                   "  why      checksum [0-9a-f]+, but the manifest says "
                   "[0-9a-f]+\n"
                   "  help     restore an older checkpoint, by its step or "
                   "with .fall_back [(]--fall_back[)]")));
  EXPECT_EQ(VerifyCheckpoint("a/step_00000002", &saved.files).code(), kDamaged);
  EXPECT_OK(VerifyCheckpoint("a/step_00000001", &saved.files));
}

// Only if it is asked for.
TEST(CheckpointDamage, FallsBackWithANotice) {
  SmallCheckpoint saved;
  ASSERT_OK(saved.files.Remove(saved.path + "shard_00001.safetensors"));
  EXPECT_THAT(saved.Restore(),
              StatusIs(kDamaged, HasSubstr("shard_00001.safetensors\"\n  why   "
                                           "   the file is missing")));
  const auto restored = RestoreCheckpoint(
      *saved.model.session, "a", {.fall_back = true, .files = &saved.files});
  ASSERT_OK(restored);
  EXPECT_EQ(restored->info.step, 1);
  EXPECT_THAT(restored->notices,
              ElementsAre(StartsWith("skipped: checkpoint \"a/step_00000002\" "
                                     "is damaged")));
  ASSERT_OK(saved.files.Remove("a/step_00000001/manifest.json"));
  EXPECT_THAT(saved.Restore(/*fall_back=*/true),
              StatusIs(kDamaged, HasSubstr("\"a/step_00000001\"")));
  const auto infos = Checkpointer::List("a", &saved.files);
  ASSERT_OK(infos);
  EXPECT_THAT((*infos)[0].status,
              StatusIs(kDamaged, HasSubstr("\"manifest.json\"\n  why      the "
                                           "file is missing")));
  EXPECT_OK((*infos)[1].status) << "List reads manifests only";
}

TEST(CheckpointDamage, TruncatedExtendedAndMixedFiles) {
  SmallCheckpoint saved;
  for (const std::string& name : saved.names()) {
    std::string& bytes = *saved.files.Contents(saved.path + name);
    const std::string whole = bytes;
    const std::string other = *saved.files.Contents("a/step_00000001/" + name);
    for (size_t size = 0; size < whole.size(); size += 7) {
      bytes = whole.substr(0, size);
      EXPECT_EQ(saved.Restore().code(), kDamaged) << name << " " << size;
    }
    bytes = whole + "x";
    EXPECT_EQ(saved.Restore().code(), kDamaged) << name;
    bytes = other;  // of another save, without an error of its own
    EXPECT_EQ(saved.Restore().code(), kDamaged) << name;
    bytes = whole;
    EXPECT_OK(saved.Restore());
  }
  std::string& first =
      *saved.files.Contents(saved.path + "shard_00000.safetensors");
  std::string& second =
      *saved.files.Contents(saved.path + "shard_00001.safetensors");
  std::swap(first, second);
  EXPECT_EQ(saved.Restore().code(), kDamaged);
}

TEST(CheckpointDamage, LinksAreNotFollowed) {
  const TemporaryFolder folder;
  TinyModel model("", "", 1);
  SaveSteps(model, {.folder = folder.path()}, {1});
  const std::string file = folder / "step_00000001/shard_00000.safetensors";
  std::filesystem::rename(file, folder / "x");
  std::filesystem::create_symlink("../x", file);
  EXPECT_THAT(RestoreCheckpoint(*model.session, folder.path()),
              StatusIs(kDamaged, HasSubstr("it is a symbolic link")));
}

}  // namespace
}  // namespace mtf::train
