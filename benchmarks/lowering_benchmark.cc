// SPDX-License-Identifier: Apache-2.0
//
// Lowers a training step of a transformer from graph to plan, verified after
// every pass as in a session. Targets: 12 layers in less than 50 ms, within 5 %
// on meshes of 8 and of 4096 devices; GPT-3 explained in less than 200 ms on
// any mesh.
//
//   lowering_benchmark                     all benchmarks
//   lowering_benchmark --passes [LAYERS]   the time of each pass
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lowering/lower.h"
#include "lowering/verify/verify_program.h"
#include "mtf/check.h"
#include "nn/attention/attention.h"
#include "nn/layers/embedding.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer_norm.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adam.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "planning/cost/estimate_time.h"
#include "planning/cost/retain_heap.h"
#include "planning/explain/explain.h"
#include "planning/machine/machine.h"

namespace mtf {
namespace {

struct Step {
  Graph graph;
  Targets targets;
};

struct Sizes {
  int layers = 12;
  int64_t batch = 512, length = 1024, d_model = 1024, heads = 64, d_kv = 16,
          vocab = 32768;
};

std::unique_ptr<Step> MakeStep(const Sizes& sizes) {
  const int layers = sizes.layers;
  auto step = std::make_unique<Step>();
  Graph& graph = step->graph;
  const Dimension batch{"batch", sizes.batch}, length{"length", sizes.length},
      d_model{"d_model", sizes.d_model}, heads{"heads", sizes.heads},
      d_kv{"d_kv", sizes.d_kv}, d_ff{"d_ff", 4 * sizes.d_model},
      vocab{"vocab", sizes.vocab};
  const Tensor tokens = Input(graph, "tokens", kInt32, {batch, length});
  const Tensor targets = Input(graph, "targets", kInt32, {batch, length});
  Tensor x = nn::Embedding(tokens, vocab, d_model);
  for (int layer = 0; layer < layers; ++layer) {
    Scope scope(graph, absl::StrCat("layer_", layer));
    x = x +
        nn::SelfAttention(
            nn::LayerNorm(x, d_model),
            {.length = length, .heads = heads, .d_kv = d_kv, .causal = true});
    x = x + nn::FeedForward(nn::LayerNorm(x, d_model), d_ff, Gelu);
  }
  const Tensor loss = nn::CrossEntropy(x, vocab, targets);
  step->targets.fetches = {loss};
  step->targets.updates = {nn::AdamW().Minimize(loss)};
  MTF_CHECK_OK(graph.status());
  return step;
}

// A training step like GPT-2's, with sizes that 4096 devices divide.
std::unique_ptr<Step> MakeStep(int layers) {
  return MakeStep(Sizes{.layers = layers});
}

// GPT-3 175B, with the sizes of Brown et al. 2020, table 2.1.
std::unique_ptr<Step> MakeGpt3(int64_t batch) {
  return MakeStep(Sizes{.layers = 96,
                        .batch = batch,
                        .length = 2048,
                        .d_model = 12288,
                        .heads = 96,
                        .d_kv = 128,
                        .vocab = 51200});
}

LayoutBinding BindTo(const Graph& graph, const std::string& mesh,
                     const std::string& preset) {
  absl::StatusOr<LayoutBinding> binding =
      BindLayout(graph, *Mesh::Parse(mesh), *LayoutRules::Preset(preset));
  MTF_CHECK_OK(binding.status());
  return *std::move(binding);
}

// CPU time of this thread in milliseconds, independent of other load.
double Now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) +
         1e-6 * static_cast<double>(time.tv_nsec);
}

// Arguments: layers, devices.
void BM_Lower(benchmark::State& state, const std::string& preset) {
  const auto step = MakeStep(static_cast<int>(state.range(0)));
  const int64_t devices = state.range(1);
  const LayoutBinding binding =
      BindTo(step->graph, devices == 8 ? "data:2,model:4" : "data:64,model:64",
             preset);
  size_t instructions = 0;
  for (auto _ : state) {
    absl::StatusOr<Program> program =
        Lower(step->graph, binding, step->targets);
    MTF_CHECK_OK(program.status());
    instructions = program->instructions.size();
    benchmark::DoNotOptimize(program);
  }
  state.counters["instructions"] = static_cast<double>(instructions);
}
BENCHMARK_CAPTURE(BM_Lower, data_model, "data_model")
    ->ArgNames({"layers", "devices"})
    ->Args({12, 8})
    ->Args({12, 4096})
    ->Args({48, 8})
    ->Args({48, 4096})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Lower, zero3, "zero3")
    ->ArgNames({"layers", "devices"})
    ->Args({12, 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Lower, sequence, "sequence")
    ->ArgNames({"layers", "devices"})
    ->Args({12, 8})
    ->Unit(benchmark::kMillisecond);

// Estimates a lowered step; the time does not depend on the number of ranks.
void BM_EstimateStep(benchmark::State& state) {
  const auto step = MakeStep(48);
  const Machine machine = *Machine::Load("h100_nvlink_ib");
  const absl::StatusOr<Program> program =
      Lower(step->graph,
            BindTo(step->graph,
                   state.range(0) == 8 ? "data:2,model:4" : "data:64,model:64",
                   "data_model"),
            step->targets);
  MTF_CHECK_OK(program.status());
  for (auto _ : state) {
    benchmark::DoNotOptimize(EstimateStep(*program, machine));
  }
  state.counters["instructions"] =
      static_cast<double>(program->instructions.size());
}
BENCHMARK(BM_EstimateStep)
    ->ArgName("devices")
    ->Arg(8)
    ->Arg(4096)
    ->Unit(benchmark::kMillisecond);

void BM_Bind(benchmark::State& state) {
  const auto step = MakeStep(12);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        BindTo(step->graph, "data:2,model:4", "data_model"));
  }
}
BENCHMARK(BM_Bind)->Unit(benchmark::kMillisecond);

void BM_BuildGraph(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(MakeStep(12));
}
BENCHMARK(BM_BuildGraph)->Unit(benchmark::kMillisecond);

// The ratio of the times for 4096 and for 8 devices: the best of alternating
// runs, so that other load cancels out.
void BM_DeviceRatio(benchmark::State& state) {
  const auto step = MakeStep(12);
  const LayoutBinding few = BindTo(step->graph, "data:2,model:4", "data_model"),
                      many =
                          BindTo(step->graph, "data:64,model:64", "data_model");
  const auto time = [&](const LayoutBinding& binding) {
    const double begin = Now();
    MTF_CHECK_OK(Lower(step->graph, binding, step->targets).status());
    return Now() - begin;
  };
  double best_few = 1e9, best_many = 1e9;
  for (auto _ : state) {
    best_few = std::min(best_few, time(few));
    best_many = std::min(best_many, time(many));
  }
  state.counters["ms_8"] = best_few;
  state.counters["ms_4096"] = best_many;
  state.counters["ratio"] = best_many / best_few;
}
BENCHMARK(BM_DeviceRatio)->Iterations(40)->Unit(benchmark::kMillisecond);

Explanation ExplainStep(const Step& step, const std::string& mesh,
                        const Machine& machine) {
  absl::StatusOr<Explanation> explanation =
      Explain(step.graph, *Mesh::Parse(mesh),
              *LayoutRules::Preset("data_model"), step.targets, machine);
  MTF_CHECK_OK(explanation.status());
  return *std::move(explanation);
}

// The work of --dry_run for GPT-3 on 1024 ranks. Target: below 200 ms.
void BM_ExplainGpt3(benchmark::State& state) {
  const auto step = MakeGpt3(1536);
  const Machine machine = *Machine::Load("h100_nvlink_ib");
  // Rule changes are lowered concurrently on another core. A user waits
  // `best_wall_ms` on an idle machine.
  double best = 1e9, best_wall = 1e9;
  for (auto _ : state) {
    const double begin = Now();
    const auto wall = std::chrono::steady_clock::now();
    const Explanation explanation =
        ExplainStep(*step, "data:64,model:16", machine);
    benchmark::DoNotOptimize(ExplainText(explanation, 120));
    best = std::min(best, Now() - begin);
    best_wall = std::min(best_wall, std::chrono::duration<double, std::milli>(
                                        std::chrono::steady_clock::now() - wall)
                                        .count());
  }
  state.counters["best_ms"] = best;
  state.counters["best_wall_ms"] = best_wall;
}
BENCHMARK(BM_ExplainGpt3)->Iterations(10)->Unit(benchmark::kMillisecond);

// The same model on 4096 ranks and on 8, alternating; target: within 5 %. The
// meshes differ in the axis over which only the batch is sharded: with another
// "model" axis other sums would be small enough to share a bucket.
void BM_ExplainDeviceRatio(benchmark::State& state) {
  const auto step = MakeGpt3(2048);
  const Machine machine = *Machine::Load("h100_nvlink_ib");
  double best_few = 1e9, best_many = 1e9;
  for (auto _ : state) {
    double begin = Now();
    benchmark::DoNotOptimize(ExplainStep(*step, "data:2,model:4", machine));
    best_few = std::min(best_few, Now() - begin);
    begin = Now();
    benchmark::DoNotOptimize(ExplainStep(*step, "data:1024,model:4", machine));
    best_many = std::min(best_many, Now() - begin);
  }
  state.counters["ms_8"] = best_few;
  state.counters["ms_4096"] = best_many;
  state.counters["ratio"] = best_many / best_few;
}
BENCHMARK(BM_ExplainDeviceRatio)->Iterations(10)->Unit(benchmark::kMillisecond);

// Prints the median time of each pass over many runs, and of the verification
// after it.
void PrintPasses(int layers) {
  const auto step = MakeStep(layers);
  const LayoutBinding binding =
      BindTo(step->graph, "data:2,model:4", "data_model");
  std::map<std::string, std::vector<double>> passes, checks;
  std::vector<std::string> names = PassNames();
  names.insert(names.begin(), "emit_program");
  for (int run = 0; run < 30; ++run) {
    LowerOptions options;
    options.verify = false;
    double begin = Now();
    options.after_pass = [&](absl::string_view pass, const Program& program) {
      const double end = Now();
      MTF_CHECK_OK(VerifyProgram(program));
      passes[std::string(pass)].push_back(end - begin);
      checks[std::string(pass)].push_back(Now() - end);
      begin = Now();
    };
    MTF_CHECK_OK(Lower(step->graph, binding, step->targets, options).status());
  }
  const auto median = [](std::vector<double>& times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  };
  double sum = 0, check_sum = 0;
  for (const std::string& name : names) {
    sum += median(passes[name]);
    check_sum += median(checks[name]);
  }
  const double total = sum + check_sum;
  std::printf("%-28s %8s %8s %8s\n", "pass", "ms", "share", "verify");
  for (const std::string& name : names) {
    std::printf("%-28s %8.2f %7.0f%% %8.2f\n", name.c_str(),
                median(passes[name]), 100 * median(passes[name]) / total,
                median(checks[name]));
  }
  std::printf("%-28s %8.2f %7.0f%% %8.2f\n", "all", sum, 100 * sum / total,
              check_sum);
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  mtf::internal::RetainHeap();  // as --dry_run does
  if (argc >= 2 && std::strcmp(argv[1], "--passes") == 0) {
    mtf::PrintPasses(argc == 3 ? std::atoi(argv[2]) : 12);
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
