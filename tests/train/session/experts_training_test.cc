// SPDX-License-Identifier: Apache-2.0
//
// Mixtures of experts under many layouts: the same tokens are dropped, and
// training gives the losses of one device.
#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/count_costs.h"
#include "nn/experts/experts.h"
#include "nn/layers/layer_norm.h"
#include "nn/optimizers/adam.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "tests/matchers.h"
#include "tests/repeats.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using nn::ExpertsOptions;
using nn::Routing;

// Four ranks divide some of these sizes.
const Dimension kPods{"pods", 2}, kBatch{"batch", 4}, kLength{"length", 10},
    kModel{"d_model", 12}, kHidden{"d_ff", 18}, kExperts{"experts", 8},
    kOuter{"outer", 3}, kInner{"inner", 2};

constexpr int kSteps = testing::Repeats(50, 4);

struct Layout {
  const char *mesh, *rules;
  friend std::ostream& operator<<(std::ostream& out, const Layout& l) {
    return out << l.mesh << " " << l.rules;
  }
};
const Layout kLayouts[] = {
    {"data:4", "batch:data, experts:data"},
    {"data:3", "batch:data, experts:data"},
    {"data:4", "batch:data"},
    {"data:4", "experts:data"},
    {"data:2,model:2", "batch:data, experts:data, d_ff:model"},
    {"data:2,model:2", "batch:data, experts:model"},
    {"data:2,model:2", "batch:data, experts:data+model"},
    {"data:2,model:2", "batch:data+model, experts:model"},
    {"data:2,model:2", "batch:data, length:model, experts:data"},
    {"data:2,model:2", "batch:data, experts:data, capacity:model"},
    {"data:3", "length:data, experts:data"},
    {"data:2,model:2",
     "batch:data, experts:data [in **/expert] capacity:model"},
    {"data:2,model:2",
     "batch:data, experts:data [parameters] d_model:model [optimizer] "
     "d_model:model"},
};
const Layout kTwoLevelLayouts[] = {
    {"pod:2,data:2", "pods:pod, batch:data, outer:data, inner:pod"},
    {"pod:2,data:2", "pods:pod, batch:data"},
    {"pod:2,data:2", "batch:data, outer:data, inner:pod"},
    {"data:3", "batch:data, outer:data"},
};

struct Training {
  std::vector<double> losses, dropped;
  CollectiveCounts counted, planned;  // of the last step
};

// Learns to negate the tokens of one sign of their first element.
template <class Layer>
absl::StatusOr<Training> Train(const Layout& layout, const Shape& shape,
                               const Layer& layer) {
  Graph graph;
  const Tensor x = RandomNormal(graph, shape, 0, 1, {.per_step = false});
  const Tensor wanted = Select(Index(x, "d_model", 0) > 0.0, x, -x);
  Tensor y = x, losses = Zeros(graph, kFloat32, {}), dropped = losses;
  for (int i = 0; i < 2; ++i) {
    const Scope scope(graph, absl::StrCat("layer_", i));
    const nn::Experts experts = layer(nn::LayerNorm(y, kModel));
    y = y + experts.output;
    losses =
        losses + 0.01 * experts.load_balancing_loss + 0.001 * experts.z_loss;
    dropped = dropped + experts.dropped;
  }
  const Tensor loss = ReduceMean(Square(y - wanted), {}) + losses;
  const Tensor step = nn::AdamW({.learning_rate = 3e-3}).Minimize(loss);
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                       Session::Create(graph, layout.mesh, layout.rules,
                                       {.seed = 5, .ranks = RankKind::kLocal}));
  MTF_RETURN_IF_ERROR(session->Initialize());
  const RunRequest request = {.fetches = {loss, dropped}, .updates = {step}};
  Training training;
  for (int i = 0; i < kSteps; ++i) {
    session->ResetCounts();
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> values,
                         session->Run(request));
    training.losses.push_back(*values[0].At(0));
    training.dropped.push_back(*values[1].At(0));
    training.counted = session->counts();
  }
  MTF_ASSIGN_OR_RETURN(const Program* program, session->ProgramOf(request));
  for (const auto& [key, count] : CountCollectives(*program)) {
    training.planned[key] = {count.first, count.second};
  }
  return training;
}

template <class Layer, class Layouts>
void ExpectTrainsTheSame(const Shape& shape, const Layouts& layouts,
                         const Layer& layer) {
  const absl::StatusOr<Training> one = Train({"", ""}, shape, layer);
  ASSERT_OK(one);
  EXPECT_LT(one->losses.back(), one->losses.front());
  EXPECT_GT(one->dropped.front(), 0);
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(layout);
    const absl::StatusOr<Training> run = Train(layout, shape, layer);
    ASSERT_OK(run);
    for (int i = 0; i < kSteps; ++i) {
      EXPECT_NEAR(run->losses[i], one->losses[i], 1e-4 * one->losses[i]) << i;
      EXPECT_NEAR(run->dropped[i], one->dropped[i], 1e-6) << i;
    }
    EXPECT_TRUE(run->counted == run->planned);
  }
}

ExpertsOptions OptionsOf(Routing routing, int64_t choices) {
  return {.routing = routing,
          .choices = choices,
          .capacity_factor = 0.8,
          .min_capacity = 1,
          .jitter = 0.01};
}

TEST(ExpertsTraining, OfTopTwoIsThatOfOneDevice) {
  ExpectTrainsTheSame({kBatch, kLength, kModel}, kLayouts, [](Tensor x) {
    return nn::MixtureOfExperts(x, kExperts, kHidden, Gelu,
                                OptionsOf(Routing::kTopK, 2));
  });
}

TEST(ExpertsTraining, OfSwitchIsThatOfOneDevice) {
  const Layout layouts[] = {kLayouts[0], kLayouts[1], kLayouts[4]};
  ExpectTrainsTheSame({kBatch, kLength, kModel}, layouts, [](Tensor x) {
    ExpertsOptions options = OptionsOf(Routing::kTopK, 1);
    options.dispatch = nn::Dispatch::kOneHot;
    options.feed_forward.gated = true;
    return nn::MixtureOfExperts(x, kExperts, kHidden, Swish, options);
  });
}

TEST(ExpertsTraining, OfExpertChoiceIsThatOfOneDevice) {
  const Layout layouts[] = {kLayouts[0], kLayouts[1], kLayouts[6]};
  ExpectTrainsTheSame({kBatch, kLength, kModel}, layouts, [](Tensor x) {
    return nn::MixtureOfExperts(x, kExperts, kHidden, Gelu,
                                OptionsOf(Routing::kExpertChoice, 2));
  });
}

TEST(ExpertsTraining, OfNoTokenLeftBehindIsThatOfOneDevice) {
  const Layout layouts[] = {kLayouts[0], kLayouts[1], kLayouts[5]};
  ExpectTrainsTheSame({kBatch, kLength, kModel}, layouts, [](Tensor x) {
    return nn::MixtureOfExperts(x, kExperts, kHidden, Gelu,
                                OptionsOf(Routing::kNoTokenLeftBehind, 3));
  });
}

TEST(ExpertsTraining, OfTwoLevelsIsThatOfOneDevice) {
  ExpectTrainsTheSame(
      {kPods, kBatch, kLength, kModel}, kTwoLevelLayouts, [](Tensor x) {
        return nn::TwoLevelExperts(x, kOuter, kInner, kHidden, Gelu,
                                   {.outer = OptionsOf(Routing::kTopK, 2),
                                    .inner = {.capacity_factor = 0.8}});
      });
}

// The tokens without an expert have a result of 0.
absl::StatusOr<std::vector<bool>> Dropped(const Layout& layout,
                                          const ExpertsOptions& options) {
  Graph graph;
  const Tensor x =
      RandomNormal(graph, {kBatch, kLength, kModel}, 0, 1, {.per_step = false});
  const Tensor y =
      nn::MixtureOfExperts(x, kExperts, kHidden, Gelu, options).output;
  const Tensor sum = ReduceSum(Abs(y), {kBatch, kLength});
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                       Session::Create(graph, layout.mesh, layout.rules,
                                       {.seed = 5, .ranks = RankKind::kLocal}));
  MTF_RETURN_IF_ERROR(session->Initialize());
  MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> values,
                       session->Run({.fetches = {sum}}));
  std::vector<bool> dropped;
  for (double each : values[0].ToDoubles()) dropped.push_back(each == 0);
  return dropped;
}

TEST(Experts, DropTheSameTokensUnderEveryLayout) {
  for (const Routing routing :
       {Routing::kTopK, Routing::kNoTokenLeftBehind, Routing::kExpertChoice}) {
    ExpertsOptions options = OptionsOf(routing, 1);
    options.capacity_factor = 0.5;
    for (const nn::Dispatch dispatch :
         {nn::Dispatch::kSorted, nn::Dispatch::kOneHot}) {
      options.dispatch = dispatch;
      const auto one = Dropped({"", ""}, options);
      ASSERT_OK(one);
      EXPECT_GT(std::count(one->begin(), one->end(), true), 4);
      for (const Layout& layout : kLayouts) {
        SCOPED_TRACE(layout);
        const auto dropped = Dropped(layout, options);
        ASSERT_OK(dropped);
        EXPECT_TRUE(*dropped == *one);
      }
    }
  }
}

}  // namespace
}  // namespace mtf::train
