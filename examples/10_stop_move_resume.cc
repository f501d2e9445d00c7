// SPDX-License-Identifier: Apache-2.0
//
// Lesson 10: stop, move, resume. A run that is killed goes on from its last
// checkpoint, on another mesh under another layout, as if nothing had happened.
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

constexpr int kRunSteps = 40;

// One job, from its start to its end: builds the graph, starts a session on
// `mesh`, and trains from the newest checkpoint of `folder`, if there is one.
// Empty: nothing is saved. It "is killed" after `killed_after` steps.
absl::StatusOr<std::map<int64_t, double>> RunJob(const std::string& mesh,
                                                 const std::string& layout,
                                                 const std::string& folder,
                                                 int64_t killed_after) {
  const Dimension batch{"batch", 8}, in{"in", 6}, hidden{"hidden", 24};
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {batch, in});
  // Dropout and the schedule of the learning rate continue, too.
  const Tensor h = Dropout(Gelu(nn::Dense(x, {in}, {hidden})), 0.1);
  const Tensor y = nn::Dense(h, {hidden}, {in});
  const Tensor loss = ReduceMean(Square(y - Square(x)), {});
  const Tensor step =
      nn::AdamW({.learning_rate = 3e-2 * nn::CosineDecay(5, kRunSteps)})
          .Minimize(loss);
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::Session::Create(graph, mesh, layout));
  MTF_RETURN_IF_ERROR(session->Initialize());

  std::map<int64_t, double> losses;
  train::Training training = {
      .loss = loss,
      .update = step,
      .steps = kRunSteps,
      // The data of a step depends on its number only.
      .feeds =
          [&](int64_t number) {
            std::vector<float> values(x.shape().num_elements());
            for (size_t i = 0; i < values.size(); ++i) {
              values[i] = static_cast<float>((i * 31 + number * 17) % 23) / 23;
            }
            return std::map<std::string, HostTensor>{
                {"x", HostTensor::Of<float>(x.shape(), values)}};
          },
      .tokens_per_step = batch.size};
  training.callbacks.push_back(
      {.on_step = [&](const train::StepMetrics& metrics) -> absl::Status {
        losses[metrics.step] = metrics.loss;
        return metrics.step + 1 == killed_after ? absl::CancelledError("killed")
                                                : absl::OkStatus();
      }});
  // Checkpoints of every tenth step, of which the newest two are kept.
  std::unique_ptr<train::CheckpointStore> store;
  if (!folder.empty()) {
    MTF_ASSIGN_OR_RETURN(
        store, train::CheckpointStore::Open(*session, folder, {.keep = 2}));
    training.saving = {.store = store.get(), .every = 10};
  }
  const absl::Status status = train::Train(*session, training).status();
  if (!status.ok() && !absl::IsCancelled(status)) return status;
  return losses;
}

absl::Status Main() {
  const std::string folder = (std::filesystem::temp_directory_path() /
                              absl::StrCat("mtf_lesson_10_", getpid()))
                                 .string();
  MTF_ASSIGN_OR_RETURN(const auto whole, RunJob("", "", "", -1));
  // The same run in two jobs. The first is killed after step 27 and has saved
  // step 20; the second has other devices.
  MTF_ASSIGN_OR_RETURN(auto losses, RunJob("data:2", "batch:data", folder, 27));
  MTF_ASSIGN_OR_RETURN(
      const auto second,
      RunJob("data:2,model:2", "batch:data, hidden:model", folder, -1));
  std::filesystem::remove_all(folder);
  train::Say(
      absl::StrCat("the second job began at step ", second.begin()->first));
  for (const auto& [step, loss] : second) losses[step] = loss;
  bool same = losses.size() == whole.size();
  for (const auto& [step, loss] : whole) {
    const std::string text = absl::StrFormat("%.4f", loss);
    same = same && text == absl::StrFormat("%.4f", losses[step]);
    if (step % 13 == 0) {
      train::Say(absl::StrFormat("step %2d  loss %s in one run, %.4f in two",
                                 step, text, losses[step]));
    }
  }
  train::Say(same ? "Every loss is the same." : "The losses differ.");
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Lesson 10: stop, move, resume.",
                             &mtf::Main);
}
