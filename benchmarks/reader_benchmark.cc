// SPDX-License-Identifier: Apache-2.0
//
// How long a step takes whose data is slow to read: a reader that takes some
// share of a step, with no thread of its own, with one and with two.
//
//   reader_benchmark [share of a step, 0.8 by default]
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "mtf/status.h"
#include "nn/layers/dense.h"
#include "nn/optimizers/sgd.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "train/loop/trainer.h"

namespace mtf::train {
namespace {

constexpr int64_t kSteps = 40;

struct SlowRun {
  double median_step_s = 0;
  double wait_s = 0;  // the mean of all steps but the first
};

// Trains two layers; each batch takes `read_s` seconds to read.
absl::StatusOr<SlowRun> RunWith(int64_t threads, double read_s) {
  const Dimension batch{"batch", 256}, io{"io", 1024}, hidden{"hidden", 2048};
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {batch, io});
  const Tensor y =
      nn::Dense(Tanh(nn::Dense(x, {io}, {hidden})), {hidden}, {io});
  const Tensor loss = ReduceMean(Square(y - x), {});
  const Tensor step = nn::Sgd({.learning_rate = 1e-3}).Minimize(loss);
  MTF_ASSIGN_OR_RETURN(const auto session, Session::Create(graph, "", ""));
  MTF_RETURN_IF_ERROR(session->Initialize());
  SlowRun run;
  const auto add_wait = [&run](const StepMetrics& metrics) {
    if (metrics.step > 0) run.wait_s += metrics.data_wait_s / (kSteps - 1);
    return absl::OkStatus();
  };
  Training training;
  training.loss = loss;
  training.update = step;
  training.steps = kSteps;
  training.feeds = [&](int64_t) {
    std::this_thread::sleep_for(std::chrono::duration<double>(read_s));
    return std::map<std::string, HostTensor>{
        {"x", HostTensor({batch, io}, kFloat32)}};
  };
  training.reading.threads = threads;
  training.tokens_per_step = batch.size;
  training.callbacks.push_back({.on_step = add_wait});
  MTF_ASSIGN_OR_RETURN(const TrainingResult result, Train(*session, training));
  run.median_step_s = result.median_step_s;
  return run;
}

absl::Status Measure(double share) {
  MTF_ASSIGN_OR_RETURN(const SlowRun alone, RunWith(0, 0));
  const double read_s = share * alone.median_step_s;
  const auto report = [](const std::string& what, const SlowRun& run) {
    std::cout << absl::StrFormat("%-36s %8.2f ms/step, waits %8.3f ms\n", what,
                                 1e3 * run.median_step_s, 1e3 * run.wait_s);
  };
  report("no time to read", alone);
  for (const int64_t threads : {0, 1, 2}) {
    MTF_ASSIGN_OR_RETURN(const SlowRun run, RunWith(threads, read_s));
    report(
        absl::StrFormat("%.2f ms to read, %d threads", 1e3 * read_s, threads),
        run);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf::train

int main(int argc, char** argv) {
  double share = 0.8;
  if (argc > 2 || (argc == 2 && !absl::SimpleAtod(argv[1], &share)) ||
      !(share >= 0 && share <= 100)) {
    std::cerr << "usage: reader_benchmark [share of a step, 0 to 100]\n";
    return 2;
  }
  const absl::Status status = mtf::train::Measure(share);
  if (!status.ok()) std::cerr << mtf::ErrorText(status) << std::endl;
  return status.ok() ? 0 : 1;
}
