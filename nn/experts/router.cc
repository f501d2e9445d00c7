// SPDX-License-Identifier: Apache-2.0
#include "nn/experts/router.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "nn/layers/layer.h"
#include "nn/layers/parameter.h"
#include "nn/layers/softmax.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/index.h"
#include "ops/one_hot.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/scan.h"
#include "ops/slice.h"
#include "ops/stack.h"
#include "ops/stop_gradient.h"
#include "ops/top_k.h"

namespace mtf::nn::internal {
namespace {

class Router {
 public:
  Router(Tensor x, const ExpertDimensions& dims, const ExpertsOptions& options)
      : graph_(x.graph()),
        dims_(dims),
        options_(options),
        routed_{absl::StrCat("router_", dims.experts.name), dims.experts.size},
        tokens_(x.shape().Without(dims.d_model.name)) {
    const Tensor logits = Logits(x);
    probabilities_ = Softmax(logits, routed_);
    routes_.z_loss =
        MeanOfTokens(Square(ReduceLogSumExp(logits, tokens_)), tokens_);
  }

  Routes Route() {
    if (options_.routing == Routing::kExpertChoice) {
      LetExpertsChoose();
    } else {
      LetTokensChoose();
    }
    return routes_;
  }

 private:
  Tensor Logits(Tensor x) {
    x = To(kFloat32, x);
    if (options_.jitter > 0 && graph_.mode() == Mode::kTrain) {
      x = x * RandomUniform(graph_, x.shape(), 1 - options_.jitter,
                            1 + options_.jitter);
    }
    const Tensor kernel = Kernel(graph_, "router", {dims_.d_model}, {routed_},
                                 kFloat32, {.each = dims_.each});
    return Einsum({x, kernel}, tokens_.With(routed_));
  }

  bool has_limit() const { return options_.limit.valid(); }
  // Whether a token may have another expert after `choice`: bool.
  Tensor IsAllowed(int64_t choice) const {
    return options_.limit > static_cast<double>(choice);
  }
  // 1 for tokens, 0 for padding.
  Tensor IsToken() const { return Cast(IsAllowed(0), kFloat32); }
  // The mean of [tokens...] over all tokens that are not padding.
  Tensor MeanOfTokens(Tensor x, const Shape& shape) const {
    if (!has_limit()) return ReduceMean(x, {});
    const Tensor is_token = Broadcast(IsToken(), shape);
    return ReduceSum(x * is_token, {}) / Maximum(ReduceSum(is_token, {}), 1.0);
  }

  void LetTokensChoose() {
    const Dimension choice{"choice", options_.choices};
    const auto [values, indices] = TopK(probabilities_, routed_.name, choice);
    SetLoadBalancingLoss(Index(indices, "choice", 0));
    const Tensor weights = Weights(values);
    if (options_.prioritize) RankTokens(Index(values, "choice", 0));

    const int64_t slots = dims_.experts.size * dims_.capacity.size;
    // For each choice: the slots of all tokens, or `slots` if they have none.
    std::vector<Tensor> slot_of_choice;
    Tensor used;       // by expert: slots that earlier choices wanted
    Tensor is_placed;  // whether a token has a slot
    for (int64_t i = 0; i < options_.choices; ++i) {
      const Tensor expert = Index(indices, "choice", i);
      Tensor wants = Wants(weights, i);
      if (options_.routing == Routing::kNoTokenLeftBehind && i > 0) {
        wants = And(wants, LogicalNot(is_placed));
      }
      // [tokens..., experts]: 1 for the expert of the choice, as integers, so
      // that counts are exact.
      const Tensor chosen =
          OneHot(wants.valid() ? Select(wants, expert, -1.0) : expert, routed_,
                 kInt32);
      Tensor before = CountBefore(chosen);
      if (used.valid()) before = before + used;
      const Tensor count = SumOver(chosen, {dims_.tokens});
      used = used.valid() ? used + count : count;
      const Tensor position = ReduceSum(before * chosen, tokens_);
      const Tensor is_placed_now =
          And(wants, position < static_cast<double>(dims_.capacity.size));
      slot_of_choice.push_back(
          Select(is_placed_now,
                 expert * static_cast<double>(dims_.capacity.size) + position,
                 static_cast<double>(slots)));
      is_placed = i == 0 ? is_placed_now : LogicalOr(is_placed, is_placed_now);
    }
    const Tensor slot = Stack(slot_of_choice, "choice");
    FillSlots(slot, weights);
    SetLoad(used);
    const Tensor wanted = options_.routing == Routing::kTopK
                              ? ReduceSum(Cast(used, kFloat32), {})
                              : TokenCount();
    SetDropped(wanted, ReduceSum(Cast(routes_.source >= 0.0, kFloat32), {}));
  }

  static Tensor And(Tensor a, Tensor b) {
    return a.valid() ? LogicalAnd(a, b) : b;
  }

  // The weights of choices, of their probabilities.
  Tensor Weights(Tensor values) const {
    const bool normalize = options_.normalize.value_or(
        options_.routing == Routing::kTopK && options_.choices > 1);
    if (!normalize) return values;
    Tensor counted = values;
    if (has_limit()) {
      const Dimension choice{"choice", options_.choices};
      const Tensor allowed = options_.limit > Range(graph_, choice);
      counted = Select(Broadcast(allowed, values.shape()), values, 0.0);
    }
    return values / (SumOver(counted, {{"choice", options_.choices}}) + 1e-9);
  }

  // Whether each token wants to be sent to its choice `i`: bool, or an empty
  // Tensor if all do.
  Tensor Wants(Tensor weights, int64_t i) {
    Tensor wants;
    if (has_limit()) {
      const bool one = options_.routing == Routing::kNoTokenLeftBehind;
      wants = Broadcast(IsAllowed(one ? 0 : i), tokens_);
    }
    if (i == 0 || options_.routing == Routing::kNoTokenLeftBehind) return wants;
    const Tensor weight = StopGradient(Index(weights, "choice", i));
    switch (options_.further) {
      case FurtherChoices::kAll:
        return wants;
      case FurtherChoices::kNone:
        return And(wants, weight < 0.0);
      case FurtherChoices::kThreshold:
        return And(wants, weight > options_.threshold);
      case FurtherChoices::kRandom:
        if (graph_.mode() == Mode::kEvaluate) return wants;
        return And(
            wants,
            RandomUniform(graph_, tokens_, 0, 1) * options_.threshold < weight);
    }
    return wants;
  }

  // Of [tokens..., experts]: the sum over the tokens that take slots earlier.
  Tensor CountBefore(Tensor chosen) const {
    if (!order_.valid()) {
      return CumulativeSum(chosen, dims_.tokens.name, {.exclusive = true});
    }
    const Tensor in_order = Gather(chosen, order_, dims_.tokens.name);
    return Gather(CumulativeSum(in_order, "order", {.exclusive = true}), rank_,
                  "order");
  }

  // Sets order_ and rank_ for tokens that take slots by descending `priority`.
  void RankTokens(Tensor priority) {
    const Dimension order{"order", dims_.tokens.size};
    order_ = TopK(StopGradient(priority), dims_.tokens.name, order).indices;
    rank_ = ScatterAdd(Broadcast(Range(graph_, order), order_.shape()), order_,
                       dims_.tokens.name, tokens_);
  }

  // Sets source and weight by the slot of each choice.
  void FillSlots(Tensor slot, Tensor weights) {
    const int64_t count = dims_.experts.size * dims_.capacity.size;
    // The last slot takes what is dropped.
    const Dimension slots{"slots", count + 1};
    Shape shape = dims_.each.With(slots);
    for (const Dimension& dim : dims_.groups) shape = shape.With(dim);
    const Tensor number =
        Broadcast(Range(graph_, dims_.tokens) + 1.0, slot.shape());
    const auto fill = [&](Tensor of_choice) {
      const Tensor all = ScatterAdd(of_choice, slot, "slots", shape);
      return Transpose(SplitDimension(Slice(all, "slots", 0, count), "slots",
                                      {dims_.experts, dims_.capacity}),
                       SlotShape());
    };
    routes_.source = fill(number) - 1.0;
    routes_.weight = fill(weights);
    const Dimension choice{"choice", options_.choices};
    routes_.choice = options_.routing == Routing::kTopK
                         ? fill(Broadcast(Range(graph_, choice), slot.shape()))
                         : Like(routes_.source, 0);
  }

  // [each..., experts, groups..., capacity]
  Shape SlotShape() const {
    return Join(dims_.each.With(dims_.experts),
                dims_.groups.With(dims_.capacity));
  }

  void LetExpertsChoose() {
    Tensor scores = probabilities_;
    if (has_limit()) scores = scores * IsToken();
    const auto [values, indices] =
        TopK(scores, dims_.tokens.name, dims_.capacity);
    const Shape shape = SlotShape().Renamed(dims_.experts.name, routed_.name);
    const auto of_experts = [&](Tensor y) {
      return Rename(Transpose(y, shape), routed_.name, dims_.experts.name);
    };
    routes_.source = of_experts(indices);
    routes_.weight = of_experts(values);
    routes_.choice = Like(routes_.source, 0);
    routes_.load_balancing_loss = Zeros(graph_, kFloat32, {});
    SetLoad(SumOver(OnesLike(indices), {dims_.capacity}));
    // Padding is never counted as sent.
    Tensor sent = Cast(ScatterAdd(OnesLike(indices), indices, dims_.tokens.name,
                                  tokens_) > 0.0,
                       kFloat32);
    if (has_limit()) sent = sent * IsToken();
    SetDropped(TokenCount(), ReduceSum(sent, {}));
  }
  static Tensor OnesLike(Tensor x) { return Like(x, 1); }

  // The number of tokens that are not padding.
  Tensor TokenCount() const {
    if (has_limit()) return ReduceSum(Broadcast(IsToken(), tokens_), {});
    return Constant(graph_, static_cast<double>(tokens_.num_elements()),
                    kFloat32, {});
  }

  void SetLoadBalancingLoss(Tensor first) {
    Tensor share = OneHot(first, routed_), probability = probabilities_;
    if (has_limit()) {
      share = share * IsToken();
      probability = probability * IsToken();
    }
    const double n = static_cast<double>(routed_.size);
    if (!has_limit()) {
      share = MeanOver(share, {dims_.tokens});
      probability = MeanOver(probability, {dims_.tokens});
      routes_.load_balancing_loss =
          ReduceMean(share * probability, {}) * (n * n);
      return;
    }
    // Of each group, with the number of its tokens. Groups of padding alone
    // have a loss of 0 and do not count.
    const Tensor count = SumOver(Broadcast(IsToken(), tokens_), {dims_.tokens});
    const Tensor divisor = Maximum(count, 1.0);
    share = SumOver(share, {dims_.tokens}) / divisor;
    probability = SumOver(probability, {dims_.tokens}) / divisor;
    const Tensor groups = ReduceSum(Cast(count > 0.0, kFloat32), {});
    routes_.load_balancing_loss =
        ReduceSum(share * probability, {}) * n / Maximum(groups, 1.0);
  }

  // `count` has the choices of each expert, [each..., groups..., experts].
  void SetLoad(Tensor count) {
    const Tensor of_expert =
        Rename(ReduceSum(Cast(count, kFloat32), dims_.each.With(routed_)),
               routed_.name, dims_.experts.name);
    routes_.load = of_expert / Maximum(ReduceSum(of_expert, {}), 1.0);
  }

  void SetDropped(Tensor wanted, Tensor placed) {
    routes_.dropped = (wanted - placed) / Maximum(wanted, 1.0);
  }

  Graph& graph_;
  const ExpertDimensions& dims_;
  const ExpertsOptions& options_;
  const Dimension routed_;  // the experts
  const Shape tokens_;      // the dimensions of `x` without d_model
  Tensor probabilities_;    // [tokens..., experts]
  // If tokens take slots in another order than that of their indices: by order
  // the token, and by token its rank.
  Tensor order_, rank_;
  Routes routes_;
};

}  // namespace

Routes RouteTokens(Tensor x, const ExpertDimensions& dims,
                   const ExpertsOptions& options) {
  return Router(x, dims, options).Route();
}

}  // namespace mtf::nn::internal
