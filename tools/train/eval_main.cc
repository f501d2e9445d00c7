// SPDX-License-Identifier: Apache-2.0
//
// mtf eval: prints the metrics of a checkpoint on held-out data.
#include <memory>
#include <optional>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "tools/train/model_flags.h"
#include "tools/train/trained_model.h"
#include "train/checkpoint/checkpoint.h"
#include "train/loop/flag_types.h"
#include "train/loop/flags.h"
#include "train/loop/run_main.h"
#include "train/tokenizers/tokenizer.h"

ABSL_FLAG(std::string, checkpoint_dir, "", "the checkpoints of a training run");
ABSL_FLAG(std::optional<mtf::train::Count>, step, std::nullopt,
          "the step of the checkpoint; default: the newest");

namespace mtf::tools {
namespace {

absl::Status Evaluate() {
  const std::string folder = absl::GetFlag(FLAGS_checkpoint_dir);
  if (folder.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no checkpoint to evaluate",
        DetailLine("help", "give the folder of a run as --checkpoint_dir")));
  }
  MTF_RETURN_IF_ERROR(TakeSavedFlags(folder));
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Tokenizer> tokenizer,
                       TokenizerFromFlags());
  Graph graph;
  MTF_ASSIGN_OR_RETURN(const TrainedModel model,
                       ModelFromFlags(graph, tokenizer.get()));
  MTF_ASSIGN_OR_RETURN(const train::Evaluation evaluation,
                       EvaluationFromFlags(model, tokenizer.get()));
  train::RunRequest request;
  for (const train::Metric& metric : evaluation.metrics) {
    request.fetches.push_back(metric.sum);
    request.fetches.push_back(metric.count);
  }
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::StartSession(graph, request));
  train::RestoreOptions options = {.partial = true};  // without the optimizer
  if (absl::GetFlag(FLAGS_step).has_value()) {
    options.step = *absl::GetFlag(FLAGS_step);
  }
  MTF_ASSIGN_OR_RETURN(const train::RestoredCheckpoint restored,
                       train::RestoreCheckpoint(*session, folder, options));
  MTF_RETURN_IF_ERROR(CheckRestored(graph, restored.info));
  MTF_ASSIGN_OR_RETURN(const train::MetricValues values,
                       train::Evaluate(*session, evaluation));
  train::Say(absl::StrCat("step ", restored.info.step, "  ",
                          train::MetricsText(values)));
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf::tools

int main(int argc, char** argv) {
  return mtf::train::RunMain(
      argc, argv, "mtf eval: evaluates a checkpoint on held-out data.",
      &mtf::tools::Evaluate);
}
