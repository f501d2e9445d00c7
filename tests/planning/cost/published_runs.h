// SPDX-License-Identifier: Apache-2.0
//
// Step times of published training runs, and estimates of them from programs.
#ifndef TESTS_PLANNING_COST_PUBLISHED_RUNS_H_
#define TESTS_PLANNING_COST_PUBLISHED_RUNS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/lower.h"
#include "mtf/check.h"
#include "ops/gradients.h"
#include "planning/cost/estimate_time.h"
#include "planning/machine/machine.h"
#include "tests/lowering/gpt_layers.h"
#include "tests/planning/cost/pipeline_time.h"

namespace mtf::testing {

// A GPT on nodes of eight A100: sequence length 2048, vocabulary 51200, bf16,
// dropout 0.1.
struct PublishedRun {
  std::string name;
  // `batch` is per replica.
  int64_t d_model, layers, heads, stages, interleave, batch, microbatch;
  // True: sequence parallelism, and only attention is rematerialized. False:
  // all activations are rematerialized.
  bool sequence_parallel;
  double seconds;
  int64_t tensor = 8, replicas = 1;
};

// Korthikanti et al., "Reducing activation recomputation in large transformer
// models", 2022, table 5. Machine files are fitted to FittedRuns only.
inline std::vector<PublishedRun> FittedRuns() {
  return {{"22B full", 6144, 48, 64, 1, 1, 4, 4, false, 1.42},
          {"175B full", 12288, 96, 96, 8, 3, 64, 1, false, 18.13},
          {"530B full", 20480, 105, 128, 35, 3, 280, 1, false, 49.05}};
}
inline std::vector<PublishedRun> CheckedRuns() {
  return {{"1T full", 25600, 128, 160, 64, 1, 512, 1, false, 94.42},
          {"22B selective", 6144, 48, 64, 1, 1, 4, 4, true, 1.10},
          {"175B selective", 12288, 96, 96, 8, 3, 64, 1, true, 13.75},
          {"530B selective", 20480, 105, 128, 35, 3, 280, 1, true, 37.83},
          {"1T selective", 25600, 128, 160, 64, 1, 512, 1, true, 71.49}};
}

// Narayanan et al., "Efficient large-scale language model training on GPU
// clusters using Megatron-LM", 2021, table 1: the same system a year earlier.
// Stages, model chunks and microbatches are those of
// examples/sc21/run_table_1.sh of its repository; the seconds follow from the
// TFLOP/s of each GPU by the paper's count of FLOPs, 96 B l s h^2 (1 + s / 6h +
// V / 16 l h).
inline std::vector<PublishedRun> RunsOfThePreviousYear() {
  struct Row {
    const char* name;
    int64_t d_model, layers, heads, tensor, stages, interleave, batch,
        microbatch, gpus;
    double teraflops;
  };
  constexpr Row kRows[] = {
      {"1.7B", 2304, 24, 24, 1, 1, 1, 512, 16, 32, 137},
      {"3.6B", 3072, 30, 32, 2, 1, 1, 512, 16, 64, 138},
      {"7.5B", 4096, 36, 32, 4, 1, 1, 512, 16, 128, 142},
      {"18B", 6144, 40, 48, 8, 1, 1, 1024, 8, 256, 135},
      {"39B", 8192, 48, 64, 8, 2, 1, 1536, 4, 512, 138},
      {"76B", 10240, 60, 80, 8, 4, 3, 1792, 2, 1024, 140},
      {"145B", 12288, 80, 96, 8, 8, 2, 2304, 2, 1536, 148},
      {"310B", 16384, 96, 128, 8, 16, 2, 2160, 1, 1920, 155},
      {"530B", 20480, 105, 128, 8, 35, 3, 2520, 1, 2520, 163},
      {"1T", 25600, 128, 160, 8, 64, 1, 3072, 1, 3072, 163}};
  std::vector<PublishedRun> runs;
  for (const Row& row : kRows) {
    const double h = static_cast<double>(row.d_model),
                 l = static_cast<double>(row.layers);
    const double flops = 96 * static_cast<double>(row.batch) * l * 2048 * h *
                         h * (1 + 2048 / (6 * h) + 51200 / (16 * l * h));
    const int64_t replicas = row.gpus / (row.tensor * row.stages);
    runs.push_back(
        {row.name, row.d_model, row.layers, row.heads, row.stages,
         row.interleave, row.batch / replicas, row.microbatch, false,
         flops / (static_cast<double>(row.gpus) * row.teraflops) / 1e12,
         row.tensor, replicas});
  }
  return runs;
}

// Smith et al., "Using DeepSpeed and Megatron to train Megatron-Turing NLG
// 530B", 2022, section 2.4: other software on 280, 350 and 420 such nodes.
inline std::vector<PublishedRun> RunsOfOtherSoftware() {
  std::vector<PublishedRun> runs;
  for (const auto& [replicas, seconds] :
       {std::pair{8, 60.1}, {10, 50.2}, {12, 44.4}}) {
    runs.push_back({absl::StrCat("530B, ", 35 * replicas, " nodes"), 20480, 105,
                    128, 35, 1, 1920 / replicas, 1, false, seconds, 8,
                    replicas});
  }
  return runs;
}

// The programs of a run with one and with two layers: a layer takes the
// difference of their times, embedding and loss the rest. As in the runs,
// parameters are bf16, gradients are accumulated in f32, and the update clips
// by the global norm and has f32 master parameters.
class RunPrograms {
 public:
  explicit RunPrograms(const PublishedRun& run) : run_(run) {
    for (int layers : {1, 2}) {
      Graph graph;
      GptSizes sizes;
      sizes.layers = layers;
      sizes.batch = run_.microbatch;
      sizes.d_model = run_.d_model;
      sizes.heads = run_.heads;
      sizes.dropout = 0.1;
      const Gpt gpt = GptBuilder(graph, sizes).Build();
      forward_.push_back(Lowered(graph, {.fetches = {gpt.loss}}));
      backward_.push_back(
          Lowered(graph, {.updates = {AddGradients(graph, gpt.loss)}}));
      Graph update;
      const Tensor step = Update(update, graph);
      update_.push_back(Lowered(update, {.updates = {step}}));
    }
  }

  double StepSeconds(const Machine& machine) const {
    const auto times = [&](const std::vector<Program>& programs) {
      const double one = EstimateStep(programs[0], machine).seconds,
                   two = EstimateStep(programs[1], machine).seconds;
      return std::pair<double, double>(two - one, 2 * one - two);
    };
    const auto [forward, forward_ends] = times(forward_);
    const auto [both, both_ends] = times(backward_);
    const auto [update, update_ends] = times(update_);
    const double recompute =
        run_.sequence_parallel ? AttentionSeconds(machine) : forward;
    const double layers =
        static_cast<double>(run_.layers) / static_cast<double>(run_.stages);
    PipelineStep step;
    step.stages = run_.stages;
    step.interleave = run_.interleave;
    step.microbatches = run_.batch / run_.microbatch;
    step.stage = layers * (both + recompute);
    step.slowest_stage = step.stage + both_ends;
    step.update = layers * update + update_ends + ReduceSeconds(machine);
    step.boundary = BoundarySeconds(machine);
    return PipelineSeconds(step);
  }

 private:
  // Accumulates the gradients of all parameters in f32.
  static Tensor AddGradients(Graph& graph, Tensor loss) {
    std::vector<Tensor> parameters, sums;
    for (const VariableInfo& variable : graph.variables()) {
      parameters.push_back(variable.read);
    }
    const std::vector<Tensor> gradients = Gradients(loss, parameters);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor sum = Variable(graph, absl::StrCat("sum_", i),
                                  Zeros(graph, kFloat32, parameters[i].shape()),
                                  {.trainable = false});
      sums.push_back(Assign(sum, sum + Cast(gradients[i], kFloat32)));
    }
    return Group(graph, sums);
  }

  // Updates f32 master copies of the parameters of `model` with AdamW from the
  // accumulated gradients, which are reset to 0, and casts them to bf16.
  static Tensor Update(Graph& graph, const Graph& model) {
    std::vector<Tensor> masters, sums, updates;
    const auto variable = [&](absl::string_view name, DType dtype,
                              const Shape& shape) {
      return Variable(graph, name, Zeros(graph, dtype, shape),
                      {.trainable = false});
    };
    for (const VariableInfo& info : model.variables()) {
      if (info.dtype != kBFloat16) continue;
      masters.push_back(
          Variable(graph, info.name, Zeros(graph, kFloat32, info.shape)));
      sums.push_back(
          variable(absl::StrCat(info.name, "/sum"), kFloat32, info.shape));
      const Tensor used =
          variable(absl::StrCat(info.name, "/used"), kBFloat16, info.shape);
      updates.push_back(Assign(used, Cast(masters.back(), kBFloat16)));
      updates.push_back(
          Assign(sums.back(), Zeros(graph, kFloat32, info.shape)));
    }
    updates.push_back(nn::AdamW({.learning_rate = 1e-4, .max_gradient_norm = 1})
                          .Apply(sums, masters));
    return Group(graph, updates);
  }

  Program Lowered(const Graph& graph, const Targets& targets) const {
    const auto binding = BindLayout(
        graph, *Mesh::Parse(absl::StrCat("model:", run_.tensor)),
        *LayoutRules::Parse(run_.sequence_parallel ? gpt_layouts::kSequence
                                                   : gpt_layouts::kMegatron,
                            "published"));
    MTF_CHECK(binding.ok()) << binding.status().ToString();
    auto program = Lower(graph, *binding, targets);
    MTF_CHECK(program.ok()) << program.status().ToString();
    return *std::move(program);
  }

  // Rematerialization of attention: scores, softmax, dropout and the product
  // with the values.
  double AttentionSeconds(const Machine& machine) const {
    double seconds = 0;
    const Program& program = forward_[1];
    const StepEstimate step = EstimateStep(program, machine);
    for (const TimedInstruction& timed : step.timeline) {
      const int origin = program.instructions[timed.instruction].origin;
      if (origin < 0) continue;
      const std::string& operation = program.origins[origin].operation;
      if (absl::StartsWith(operation, "layer_1/") &&
          absl::StrContains(operation, "/dot_product/")) {
        seconds += timed.end - timed.begin;
      }
    }
    MTF_CHECK(seconds > 0) << "the program has no attention";
    return seconds;
  }

  // Ranks of a layer are adjacent, then replicas, then stages.
  Mesh MeshOfAllRanks() const {
    return *Mesh::Parse(absl::StrCat("stage:", run_.stages, ",replica:",
                                     run_.replicas, ",model:", run_.tensor));
  }

  // Every rank sends its shard to the next stage, which gathers the shards
  // unless activations stay sharded along the sequence.
  double BoundarySeconds(const Machine& machine) const {
    if (run_.stages == 1) return 0;
    const Mesh mesh = MeshOfAllRanks();
    const int64_t bytes = run_.microbatch * 2048 * run_.d_model * 2;
    double seconds = machine.CollectiveSeconds(
        CollectiveKind::kCollectivePermute, mesh, {0}, bytes / run_.tensor);
    if (!run_.sequence_parallel) {
      seconds += machine.CollectiveSeconds(CollectiveKind::kAllGather, mesh,
                                           {2}, bytes);
    }
    return seconds;
  }

  // The 16-bit gradients are reduced once per step, without overlap.
  double ReduceSeconds(const Machine& machine) const {
    if (run_.replicas == 1) return 0;
    int64_t bytes[2] = {};
    for (int i : {0, 1}) {
      for (const ProgramVariable& variable : update_[i].variables) {
        if (!absl::EndsWith(variable.name, "/used")) continue;
        bytes[i] += 2 * LocalElements(update_[i].grains, variable.shape,
                                      variable.layout);
      }
    }
    const int64_t layer = bytes[1] - bytes[0];
    return machine.CollectiveSeconds(
        CollectiveKind::kAllReduce, MeshOfAllRanks(), {1},
        layer * run_.layers / run_.stages + bytes[0] - layer);
  }

  PublishedRun run_;
  std::vector<Program> forward_, backward_, update_;
};

}  // namespace mtf::testing

#endif  // TESTS_PLANNING_COST_PUBLISHED_RUNS_H_
