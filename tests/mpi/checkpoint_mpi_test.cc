// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of jobs with several processes. Run twice, with CHECKPOINT_MODE
// in the environment:
//
//   save   trains, saves while training goes on, and has one rank fail
//   load   another number of processes restores, and continues with the same
//          losses
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/communicators/launcher.h"
#include "layouts/layout_rules.h"
#include "mtf/precision_text.h"
#include "mtf/status.h"
#include "tests/train/small_lm.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/file_system.h"
#include "train/loop/run_main.h"

namespace mtf::train {
namespace {

// The real file system, in which files cannot be created while `fails`.
class FailingFiles : public FileSystem {
 public:
  bool fails = false;

  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(
      const std::string& path, WriteMode mode) override {
    if (fails) return SystemError("create", path, ENOSPC);
    return Real().OpenToWrite(path, mode);
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path,
                                                     Links links) override {
    return Real().Open(path, links);
  }
  absl::Status MakeFolder(const std::string& path) override {
    return Real().MakeFolder(path);
  }
  absl::Status SyncFolder(const std::string& path) override {
    return Real().SyncFolder(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Real().Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override {
    return Real().Remove(path);
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override {
    return Real().List(path);
  }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path) override {
    return Real().Lock(path);
  }
};

absl::Status CheckThat(bool condition, const std::string& fault) {
  if (condition) return absl::OkStatus();
  const LauncherInfo launcher = DetectLauncher();
  return absl::InternalError(
      absl::StrCat("rank ", launcher.rank, " of ", launcher.size, ": ", fault));
}

// The small model on the ranks of the launcher, or of this process alone.
struct Job {
  Graph graph;
  SmallLm model;
  TextDataset text = SmallText();
  std::unique_ptr<Session> session;

  absl::Status Start(RankKind ranks, const std::string& mesh,
                     const std::string& layout) {
    model = BuildSmallLm(graph);
    SessionOptions options;
    options.seed = 7;
    options.ranks = ranks;
    MTF_ASSIGN_OR_RETURN(session,
                         Session::Create(graph, mesh, layout, options));
    return session->Initialize();
  }
  absl::StatusOr<double> Step() {
    RunRequest request = {.fetches = {model.loss}, .updates = {model.step}};
    MTF_ASSIGN_OR_RETURN(
        request.feeds,
        TextFeeds(text, model.tokens, model.targets, 7)(session->step()));
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> loss,
                         session->Run(request));
    return loss[0].At(0);
  }
};

absl::StatusOr<std::string> Folder() {
  const char* folder = std::getenv("CHECKPOINT_FOLDER");
  if (folder != nullptr) return std::string(folder);
  return absl::InvalidArgumentError("CHECKPOINT_FOLDER is not set");
}

// One rank cannot write: every rank gets its error, and the next save works.
absl::Status CheckFailingRank(Job& job, Checkpointer& checkpointer,
                              FailingFiles& files) {
  const LauncherInfo launcher = DetectLauncher();
  files.fails = launcher.rank == launcher.size - 1;
  MTF_RETURN_IF_ERROR(job.session->SetStep(100));
  MTF_RETURN_IF_ERROR(checkpointer.Save());
  const absl::Status status = checkpointer.Wait();
  files.fails = false;
  MTF_RETURN_IF_ERROR(CheckThat(
      absl::IsResourceExhausted(status) &&
          absl::StrContains(status.message(),
                            absl::StrFormat("shard_%05d", launcher.size - 1)),
      absl::StrCat("one rank failed: ", status.ToString())));
  MTF_RETURN_IF_ERROR(job.session->SetStep(101));
  MTF_RETURN_IF_ERROR(checkpointer.Save());
  return checkpointer.Wait();
}

absl::Status SaveOnAllRanks() {
  MTF_ASSIGN_OR_RETURN(const std::string folder, Folder());
  const LauncherInfo launcher = DetectLauncher();
  if (launcher.rank == 0) std::filesystem::remove_all(folder);
  Job job;
  MTF_ASSIGN_OR_RETURN(const Mesh mesh,
                       LayoutRules::PresetMesh("zero3", launcher.size));
  MTF_RETURN_IF_ERROR(job.Start(RankKind::kMpi, mesh.ToString(), "zero3"));
  FailingFiles files;
  MTF_ASSIGN_OR_RETURN(
      const auto checkpointer,
      Checkpointer::Open(*job.session,
                         {.folder = folder, .keep = 0, .files = &files}));
  std::map<std::string, std::string> losses;
  for (int step = 0; step < 6; ++step) {
    if (step >= 3) {
      // The thread writes step 3 while step 3 runs, and so on.
      MTF_RETURN_IF_ERROR(checkpointer->Save({.extra = losses}));
    }
    MTF_ASSIGN_OR_RETURN(const double loss, job.Step());
    losses[absl::StrCat(step)] = absl::StrFormat("%.17g", loss);
  }
  MTF_RETURN_IF_ERROR(checkpointer->Wait());
  return CheckFailingRank(job, *checkpointer, files);
}

// Restores step 3 and repeats the losses that the checkpoint of step 5 states.
absl::Status LoadOnAllRanks() {
  MTF_ASSIGN_OR_RETURN(const std::string folder, Folder());
  MTF_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> infos,
                       Checkpointer::List(folder));
  std::vector<int64_t> steps;
  for (const CheckpointInfo& info : infos) {
    MTF_RETURN_IF_ERROR(info.status);
    MTF_RETURN_IF_ERROR(VerifyCheckpoint(info.path));
    steps.push_back(info.step);
  }
  MTF_RETURN_IF_ERROR(CheckThat(steps == std::vector<int64_t>({3, 4, 5, 101}),
                                "the steps that were saved"));
  Job job, alone;
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, LayoutRules::PresetMesh(
                                            "megatron", DetectLauncher().size));
  MTF_RETURN_IF_ERROR(job.Start(RankKind::kMpi, mesh.ToString(), "megatron"));
  MTF_RETURN_IF_ERROR(alone.Start(RankKind::kLocal, "", ""));
  for (Session* session : {job.session.get(), alone.session.get()}) {
    MTF_RETURN_IF_ERROR(
        RestoreCheckpoint(*session, folder, {.step = 3}).status());
    MTF_RETURN_IF_ERROR(CheckThat(session->step() == 3, "the step"));
  }
  for (const VariableInfo& info : job.graph.variables()) {
    MTF_ASSIGN_OR_RETURN(const HostTensor value,
                         job.session->ReadVariable(info.name));
    MTF_ASSIGN_OR_RETURN(const HostTensor expected,
                         alone.session->ReadVariable(info.name));
    MTF_RETURN_IF_ERROR(CheckThat(value == expected, info.name));
  }
  for (int step = 3; step < 5; ++step) {
    MTF_ASSIGN_OR_RETURN(const double loss, job.Step());
    double expected = 0;
    const bool stated =
        absl::SimpleAtod(infos[2].extra.at(absl::StrCat(step)), &expected);
    MTF_RETURN_IF_ERROR(CheckThat(
        stated && std::abs(loss - expected) <= 1e-6 * expected,
        absl::StrCat("loss of step ", step, " is ", loss, ", not ", expected)));
  }
  Say(absl::StrCat(DetectLauncher().size, " ranks continued at step 3"));
  return absl::OkStatus();
}

absl::Status RunMode() {
  const char* mode = std::getenv("CHECKPOINT_MODE");
  const bool load = mode != nullptr && std::string(mode) == "load";
  return load ? LoadOnAllRanks() : SaveOnAllRanks();
}

}  // namespace
}  // namespace mtf::train

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Checks checkpoints under MPI.",
                             &mtf::train::RunMode);
}
