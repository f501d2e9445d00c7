// SPDX-License-Identifier: Apache-2.0
//
// Step times of published training runs, and how they follow from programs.
#ifndef TESTS_LOWERING_PUBLISHED_RUNS_H_
#define TESTS_LOWERING_PUBLISHED_RUNS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lowering/estimate_time.h"
#include "lowering/lower.h"
#include "lowering/machine.h"
#include "lowering/pipeline_time.h"
#include "mtf/check.h"
#include "ops/gradients.h"
#include "tests/lowering/gpt_layers.h"

namespace mtf::testing {

// Korthikanti et al., "Reducing activation recomputation in large transformer
// models", 2022, table 5: A100 80 GB, tensor parallel over 8, sequences of
// 2048, vocabulary 51200, 16 bit, dropout 0.1.
struct PublishedRun {
  std::string name;
  int64_t d_model, layers, heads, stages, interleave, batch, microbatch;
  // Activations cut along the sequence between blocks and only attention
  // recomputed, against everything recomputed.
  bool sequence_parallel;
  double seconds;
};

// A machine file may be fitted to these and to nothing else.
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

// The programs of one or two layers of a run: what a layer takes is the
// difference of the two, the rest are embedding and loss. As in the runs,
// parameters are bf16, gradients add up in f32, and the update, which begins
// with a clip by the global norm, has f32 parameters of its own.
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
    step.update = layers * update + update_ends;
    step.boundary = BoundarySeconds(machine);
    return PipelineSeconds(step);
  }

 private:
  // Adds the gradients of all parameters to f32 sums.
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

  // AdamW of f32 copies of the parameters of `model` by the sums of their
  // gradients, which start again at 0; then the bf16 parameters follow.
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
        graph, *Mesh::Parse("model:8"),
        *LayoutRules::Parse(run_.sequence_parallel ? gpt_layouts::kSequence
                                                   : gpt_layouts::kMegatron,
                            "published"));
    MTF_CHECK(binding.ok()) << binding.status().ToString();
    auto program = Lower(graph, *binding, targets);
    MTF_CHECK(program.ok()) << program.status().ToString();
    return *std::move(program);
  }

  // Logits, softmax, dropout and the product with the values, once more.
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

  // Every rank sends its eighth to the next node, where the eighths are
  // gathered unless activations rest cut.
  double BoundarySeconds(const Machine& machine) const {
    if (run_.stages == 1) return 0;
    const Mesh mesh =
        *Mesh::Parse(absl::StrCat("stage:", run_.stages, ",model:8"));
    const int64_t bytes = run_.microbatch * 2048 * run_.d_model * 2;
    double seconds = machine.CollectiveSeconds(
        CollectiveKind::kCollectivePermute, mesh, {0}, bytes / 8);
    if (!run_.sequence_parallel) {
      seconds += machine.CollectiveSeconds(CollectiveKind::kAllGather, mesh,
                                           {1}, bytes);
    }
    return seconds;
  }

  PublishedRun run_;
  std::vector<Program> forward_, backward_, update_;
};

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_PUBLISHED_RUNS_H_
