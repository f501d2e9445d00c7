// SPDX-License-Identifier: Apache-2.0
//
// The model of examples/transformer_lm.cc in a small size, with dropout, and
// the runs that tests of training compare.
#ifndef TESTS_TRAIN_SMALL_LM_H_
#define TESTS_TRAIN_SMALL_LM_H_

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lowering/program/count_costs.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "nn/attention/attention.h"
#include "nn/layers/dense.h"
#include "nn/layers/embedding.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer_norm.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adam.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/random.h"
#include "train/data/text_dataset.h"
#include "train/loop/trainer.h"
#include "train/session/session.h"

namespace mtf::train {

struct SmallLm {
  Tensor tokens, targets, logits, loss, step;
  Tensor mask;  // of a separate dropout, new in each step
};

// Few of its sizes are divisible by the sizes of a mesh.
inline SmallLm BuildSmallLm(Graph& graph, const Precision& precision = {}) {
  const PrecisionScope scope(graph, precision);
  const Dimension batch{"batch", 6}, length{"length", 10},
      d_model{"d_model", 20}, heads{"heads", 3}, d_kv{"d_kv", 8},
      d_ff{"d_ff", 28}, vocab{"vocab", TextDataset::kVocabularySize};
  SmallLm model;
  model.tokens = Input(graph, "tokens", kInt32, {batch, length});
  model.targets = Input(graph, "targets", kInt32, {batch, length});
  Tensor x = nn::Embedding(model.tokens, vocab, d_model);
  x = nn::PositionEmbedding(x, length, d_model);
  for (int i = 0; i < 2; ++i) {
    Scope layer(graph, absl::StrCat("layer_", i));
    x = x +
        Dropout(nn::SelfAttention(nn::LayerNorm(x, d_model), {.length = length,
                                                              .heads = heads,
                                                              .d_kv = d_kv,
                                                              .causal = true}),
                0.1);
    x = x + nn::FeedForward(nn::LayerNorm(x, d_model), d_ff, Gelu);
  }
  model.logits =
      nn::Dense(nn::LayerNorm(x, d_model), {d_model}, {vocab}, {.bias = false});
  model.loss = nn::SoftmaxCrossEntropy(model.logits, vocab, model.targets);
  model.mask = Dropout(Ones(graph, kFloat32, {batch, length, d_model}), 0.3);
  model.step = nn::AdamW({.learning_rate = 3e-3, .max_gradient_norm = 1.0})
                   .Minimize(model.loss);
  return model;
}

// A text with structure that a model can learn.
inline TextDataset SmallText() {
  std::string text;
  for (int i = 0; i < 400; ++i) {
    absl::StrAppend(&text, i, " times ", i % 7, " is ", i * (i % 7), ".\n");
  }
  return *TextDataset::FromText(text, "multiplication");
}

// The results of a run of the small model.
struct SmallRun {
  std::map<std::string, HostTensor> initial;  // variables by name
  std::map<std::string, HostTensor> final;
  std::vector<HostTensor> masks;  // of the first steps
  std::vector<double> losses;     // of every step
  // Of a step: the counts of the communicator and those of the plan.
  CollectiveCounts counted;
  CollectiveCounts planned;
};

inline absl::StatusOr<SmallRun> RunSmallLm(const std::string& mesh,
                                           const std::string& layout, int steps,
                                           SessionOptions options = {},
                                           const Precision& precision = {}) {
  options.seed = 7;
  Graph graph;
  const SmallLm model = BuildSmallLm(graph, precision);
  const TextDataset text = SmallText();
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                       Session::Create(graph, mesh, layout, options));
  MTF_RETURN_IF_ERROR(session->Initialize());
  SmallRun run;
  for (const VariableInfo& variable : graph.variables()) {
    MTF_ASSIGN_OR_RETURN(run.initial[variable.name],
                         session->ReadVariable(variable.name));
  }
  const auto feeds = TextFeeds(text, model.tokens, model.targets, 7);
  for (int step = 0; step < steps; ++step) {
    if (step < 3) {
      MTF_ASSIGN_OR_RETURN(std::vector<HostTensor> mask,
                           session->Run({.fetches = {model.mask}}));
      run.masks.push_back(std::move(mask[0]));
    }
    RunRequest request = {.fetches = {model.loss}, .updates = {model.step}};
    MTF_ASSIGN_OR_RETURN(request.feeds, feeds(step));
    session->ResetCounts();
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> loss,
                         session->Run(request));
    run.losses.push_back(*loss[0].At(0));
    run.counted = session->counts();
    if (step > 0) continue;
    MTF_ASSIGN_OR_RETURN(const Program* program, session->ProgramOf(request));
    for (const auto& [key, count] : CountCollectives(*program)) {
      run.planned[key] = {count.first, count.second};
    }
  }
  for (const VariableInfo& variable : graph.variables()) {
    MTF_ASSIGN_OR_RETURN(run.final[variable.name],
                         session->ReadVariable(variable.name));
  }
  return run;
}

// The largest difference of any step's loss, relative to `reference`.
inline double LargestLossDifference(const SmallRun& run,
                                    const SmallRun& reference) {
  double largest = 0;
  for (size_t i = 0; i < reference.losses.size(); ++i) {
    largest = std::max(largest, std::abs(run.losses[i] - reference.losses[i]) /
                                    reference.losses[i]);
  }
  return largest;
}

}  // namespace mtf::train

#endif  // TESTS_TRAIN_SMALL_LM_H_
