// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_TRAINER_H_
#define TRAIN_LOOP_TRAINER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/host_tensor.h"
#include "mtf/tensor.h"
#include "train/data/text_dataset.h"
#include "train/loop/evaluation.h"
#include "train/loop/metrics.h"
#include "train/loop/training_store.h"
#include "train/session/session.h"

namespace mtf::train {

struct TrainingResult {
  double loss = 0;  // of the last step
  // Mean of the last tenth of the steps; after an early stop, or with more
  // steps than before a restart, of at most LossGuard::spike_window of them.
  double smooth_loss = 0;
  double tokens_per_s = 0;  // of all steps but the first
  // Median time of a step without the first, or of the only step.
  double median_step_s = 0;
  // The best evaluation so far: the value of the metric EvaluationPlan::best,
  // and the number of steps before it; -1 if there was none.
  double best_value = 0;
  int64_t best_step = -1;
  bool stopped_early = false;  // by EvaluationPlan::patience
};

// Functions of the user's that the loop calls in every process. An error ends
// the training and is returned. Null: not called.
struct TrainingCallbacks {
  std::function<absl::Status(const StepMetrics& metrics)> on_step = nullptr;
  // After an evaluation, `step` steps done.
  std::function<absl::Status(int64_t step, const MetricValues& values)>
      on_evaluation = nullptr;
  std::function<absl::Status(int64_t step)> on_save = nullptr;
  // At the end, also after an early stop and not after an error.
  std::function<absl::Status(const TrainingResult& result)> on_end = nullptr;
};

// When to evaluate, and what follows from it.
struct EvaluationPlan {
  Evaluation evaluation = {};
  int64_t every = 0;  // steps; also after the last one. 0: never
  // The metric that says which evaluation is the best, and whether a higher
  // value is better. The store keeps the state of the best.
  std::string best = "loss";
  bool higher_is_better = false;
  // Training ends after so many evaluations in a row that were not better than
  // the best by more than `least_gain`. 0: it does not end early.
  int64_t patience = 0;
  double least_gain = 0;
};

// What to do about a loss that is not finite, or far too high.
enum class Remedy : uint8_t {
  kReport,    // say so, and go on
  kStop,      // end with an error
  kSkip,      // leave out the batch
  kRollBack,  // restore the last saved state, and leave out the batch
};

// Losses that are not finite, and spikes (LossWatch).
struct LossGuard {
  // kStop, kSkip or kRollBack. The error says which tensor was the first that
  // is not finite; to find it, the steps since the last saved state are run
  // again. kSkip needs an optimizer with `.skip_non_finite`, or with loss
  // scaling, which leaves out the update; after kMostInARow steps it stops.
  Remedy non_finite = Remedy::kStop;
  // kReport, kStop or kRollBack for a loss over the mean of the last
  // `spike_window` by more than `spike_deviations` standard deviations. 0:
  // spikes are not looked for.
  Remedy spike = Remedy::kReport;
  double spike_deviations = 0;
  int64_t spike_window = 100;
  // The most skips, and the most returns to one saved state, before it stops.
  static constexpr int64_t kMostInARow = 5;
};

// Whether a training loop goes on from a saved state.
enum class Resume : uint8_t {
  kAuto,   // from the newest, or from the beginning if there is none
  kNever,  // kAlreadyExists if there is one
  kMust,   // kNotFound if there is none
  kStep,   // from the one of Saving::step
};

// Where, how often, and from what on.
struct Saving {
  TrainingStore* store = nullptr;  // null: nothing is saved
  int64_t every = 0;               // steps; also at the end. 0: at the end only
  Resume resume = Resume::kAuto;
  int64_t step = 0;  // of kStep
  // Further texts to save, such as the flags of the program.
  TrainingStore::Extra extra = {};
};

// Threads that read the feeds of the next batches while a step runs. A step
// waits for its data only if reading takes longer than a step, divided by the
// number of threads.
struct Reading {
  // At most kMostThreads. 0: the thread that runs the step reads its feeds
  // first.
  int64_t threads = 1;
  // Batches that are read before they are needed, at least one for each thread.
  int64_t ahead = 2;
  static constexpr int64_t kMostThreads = 256;
};

// Histograms of parameters in the event file. Those after the update of a step
// have the step number of its loss, so that a run that resumes after this step
// keeps them.
struct HistogramPlan {
  int64_t every = 0;  // steps; 0: never
  // Names of parameters or of their scopes (mtf/scope_pattern.h), such as
  // "layer_*/attention"; empty: all.
  std::vector<std::string> parameters = {};
};

// The arguments of a training loop. All but the first four have defaults.
struct Training {
  Tensor loss;    // scalar
  Tensor update;  // the result of an optimizer's Minimize
  // Trains until the session has done so many steps, those before a restart
  // included.
  int64_t steps = 0;
  // Returns the feeds of a batch. They may depend only on its number, so that
  // every process of a job is fed the same. It is the number of the step, as
  // long as no batch is left out (LossGuard). Called by the threads of
  // `reading`, by several at once if there are several, so it must not use the
  // session.
  std::function<absl::StatusOr<std::map<std::string, HostTensor>>(
      int64_t batch)>
      feeds;
  Reading reading = {};
  int64_t tokens_per_step = 0;  // for the displayed tokens/s
  std::string log_json = "";    // the file for MetricsWriter; empty: no log
  std::string events = "";      // the folder for EventWriter; empty: none
  HistogramPlan histograms = {};
  EvaluationPlan evaluate = {};
  int64_t sample_every = 0;  // steps; 0: never
  // Returns a sample of the model as text.
  std::function<absl::StatusOr<std::string>()> sample = nullptr;
  LossGuard guard = {};
  Saving saving = {};
  std::vector<TrainingCallbacks> callbacks = {};
  // For the share of the peak: the operations of a step and those that all
  // devices together can do in a second. 0: it is not shown.
  double flops_per_step = 0;
  double peak_flops = 0;
};

// Runs the steps. Rank 0 shows the progress and writes the logs.
//
//   MTF_ASSIGN_OR_RETURN(const train::TrainingResult result, train::Train(
//       *session, {.loss = model.loss, .update = model.step, .steps = 1000,
//                  .feeds = train::TextFeeds(text, tokens, targets, seed)}));
//
// With a store, SIGTERM and SIGUSR1 make all ranks save after the same step and
// end (stop_signals.h), and a later call goes on there: losses, evaluations,
// logs and the result are those of a run that was not stopped, bit for bit if
// mesh and layout are the same.
//
// kOutOfRange if a loss is not finite, or for a spike with Remedy::kStop;
// kInvalidArgument for options that contradict each other; the errors of
// Resume; kUnavailable after a signal; otherwise those of the session, the
// feeds, the files and the callbacks.
absl::StatusOr<TrainingResult> Train(Session& session,
                                     const Training& training);

// Returns a Training::feeds that feeds windows of `text` to the i32 inputs
// `tokens` and `targets`, both of shape [batch, length], in the order given by
// the seed. `text` and the tensors must outlive the result.
std::function<absl::StatusOr<std::map<std::string, HostTensor>>(int64_t step)>
TextFeeds(const TextDataset& text, Tensor tokens, Tensor targets,
          uint32_t seed);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_TRAINER_H_
