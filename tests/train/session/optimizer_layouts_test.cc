// SPDX-License-Identifier: Apache-2.0
//
// Every optimizer gives the same parameters, state and averages under layouts
// that shard both, over sizes that do not divide.
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/layers/dense.h"
#include "nn/layers/embedding.h"
#include "nn/layers/layer_norm.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adafactor.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/lamb.h"
#include "nn/optimizers/lion.h"
#include "nn/optimizers/muon.h"
#include "nn/optimizers/sgd.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "tests/matchers.h"
#include "train/session/saved_state.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

const Dimension kBatch{"batch", 5}, kVocab{"vocab", 11}, kModel{"d_model", 7},
    kHeads{"heads", 3}, kKey{"d_kv", 2};

struct Model {
  Graph graph;
  Tensor loss, averaged_loss, step;

  explicit Model(const nn::Optimizer& optimizer, bool averages) {
    {
      const Scope network(graph, "network");
      loss = Loss();
    }
    step = optimizer.Minimize(loss);
    if (!averages) return;
    const Scope network(graph, "network", Scope::kReuse);
    const AverageScope average(graph);
    averaged_loss = Loss();
  }

 private:
  Tensor tokens_ = Input(graph, "tokens", kInt32, {kBatch});
  Tensor targets_ = Input(graph, "targets", kInt32, {kBatch});

  Tensor Loss() {
    Tensor x = nn::Embedding(tokens_, kVocab, kModel);
    Tensor y = nn::Dense(nn::LayerNorm(x, kModel), {kModel}, {kHeads, kKey},
                         {.activation = Tanh});
    x = x + nn::Dense(y, {kHeads, kKey}, {kModel}, {.name = "output"});
    return nn::CrossEntropy(x, kVocab, targets_);
  }
};

struct Case {
  const char* name;
  nn::Optimizer optimizer;
  bool averages = false;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

std::vector<Case> Cases() {
  return {
      {"sgd",
       nn::Sgd({.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.1})},
      {"accumulated_adamw",
       nn::AdamW({.learning_rate = 0.01,
                  .groups = {{.parameters = "**/bias", .weight_decay = 0},
                             {.parameters = "network/embedding",
                              .learning_rate = 0.02},
                             {.parameters = "network/output", .frozen = true}},
                  .max_gradient_norm = 0.1,
                  .accumulate_steps = 2,
                  .average_decay = 0.5}),
       true},
      {"adafactor", nn::Adafactor({.learning_rate = 0.05,
                                   .beta1 = 0.5,
                                   .min_factored_size = 0,
                                   .stacked = {"heads"}})},
      {"lion", nn::Lion({.learning_rate = 0.01, .weight_decay = 0.1})},
      {"lamb", nn::Lamb({.learning_rate = 0.01})},
      {"muon", nn::Muon({.learning_rate = 0.01, .average_decay = 0.5}), true},
      {"muon_by_head", nn::Muon({.learning_rate = 0.01, .stacked = {"heads"}})},
  };
}

struct Trained {
  std::map<std::string, HostTensor> variables;
  std::vector<double> losses;  // then that of the averages
};

absl::StatusOr<Trained> Train(const Case& c, const std::string& mesh,
                              const std::string& layout) {
  Model model(c.optimizer, c.averages);
  MTF_ASSIGN_OR_RETURN(const auto session,
                       Session::Create(model.graph, mesh, layout, {.seed = 3}));
  MTF_RETURN_IF_ERROR(session->Initialize());
  Trained run;
  RunRequest request;
  const auto loss_of = [&](Tensor loss) -> absl::Status {
    request.fetches = {loss};
    MTF_ASSIGN_OR_RETURN(const auto values, session->Run(request));
    run.losses.push_back(*values[0].At(0));
    return absl::OkStatus();
  };
  for (int step = 0; step < 4; ++step) {
    std::vector<int32_t> tokens, targets;
    for (int i = 0; i < kBatch.size; ++i) {
      tokens.push_back((3 * i + 5 * step) % 11);
      targets.push_back((7 * i + 2 * step + 1) % 11);
    }
    request.feeds = {{"tokens", HostTensor::Of<int32_t>({kBatch}, tokens)},
                     {"targets", HostTensor::Of<int32_t>({kBatch}, targets)}};
    request.updates = {model.step};
    MTF_RETURN_IF_ERROR(loss_of(model.loss));
  }
  request.updates = {};
  if (c.averages) MTF_RETURN_IF_ERROR(loss_of(model.averaged_loss));
  for (const VariableInfo& info : model.graph.variables()) {
    MTF_ASSIGN_OR_RETURN(run.variables[info.name],
                         session->ReadVariable(info.name));
  }
  return run;
}

class OptimizerLayouts : public ::testing::TestWithParam<Case> {};

TEST_P(OptimizerLayouts, EqualOneDevice) {
  const absl::StatusOr<Trained> one = Train(GetParam(), "", "");
  ASSERT_OK(one);
  const struct {
    const char *mesh, *layout;
  } layouts[] = {
      {"data:2", "batch:data"},
      {"model:2", "heads:model, vocab:model"},
      {"data:3",
       "batch:data [parameters] d_model:data [optimizer] d_model:data"},
      {"data:2,model:2",
       "batch:data, heads:model, vocab:model [optimizer] d_model:data"},
      {"pod:2,data:2,model:2",
       "batch:pod+data, d_model:model [parameters] heads:data, vocab:pod "
       "[optimizer] heads:data, vocab:data+pod"},
  };
  for (const auto& [mesh, layout] : layouts) {
    SCOPED_TRACE(absl::StrCat(mesh, " ", layout));
    const absl::StatusOr<Trained> run = Train(GetParam(), mesh, layout);
    ASSERT_OK(run);
    for (size_t i = 0; i < one->losses.size(); ++i) {
      EXPECT_NEAR(run->losses[i], one->losses[i], 2e-5) << i;
    }
    for (const auto& [name, value] : one->variables) {
      const std::vector<double> expected = value.ToDoubles();
      const std::vector<double> actual = run->variables.at(name).ToDoubles();
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) {
        EXPECT_NEAR(actual[i], expected[i], 2e-5) << name << " " << i;
      }
    }
    const absl::StatusOr<Trained> again = Train(GetParam(), mesh, layout);
    ASSERT_OK(again);
    EXPECT_TRUE(again->variables == run->variables) << "bits differ";
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerLayouts, ::testing::ValuesIn(Cases()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

// Averages and sums of gradients are state, which checkpoints have.
TEST(OptimizerState, IsSaved) {
  Model model(nn::Sgd({.accumulate_steps = 2, .average_decay = 0.5}), true);
  const SavedState state(model.graph);
  const auto session = Session::Create(model.graph, "data:2", "batch:data");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const auto values = state.Save(**session);
  ASSERT_OK(values);
  for (const char* name :
       {"sgd/network/dense/kernel/average",
        "sgd/network/dense/bias/gradient_sum", "sgd/accumulated", "sgd/step"}) {
    EXPECT_EQ(values->count(name), 1u) << name;
  }
  EXPECT_TRUE(values->at("sgd/network/dense/kernel/average") ==
              values->at("network/dense/kernel"));
}

}  // namespace
}  // namespace mtf::train
