// SPDX-License-Identifier: Apache-2.0
//
// A mixture of feed-forward networks as plain loops over doubles, for one
// group after the other. Shares no code with nn/experts.
#ifndef TESTS_NN_EXPERTS_EXPERT_LOOPS_H_
#define TESTS_NN_EXPERTS_EXPERT_LOOPS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "nn/experts/experts.h"

namespace mtf::testing {

using Row = std::vector<double>;

struct ExpertSizes {
  int groups, tokens, d_model, d_ff, experts, capacity;
};

struct LoopResult {
  Row output;  // [groups, tokens, d_model]
  double load_balancing_loss = 0, z_loss = 0, dropped = 0;
  Row load;  // [experts]
};

class ExpertLoops {
 public:
  ExpertLoops(const ExpertSizes& sizes, const nn::ExpertsOptions& options,
              Row x, Row router, Row in, Row out, std::vector<int> limit)
      : s_(sizes),
        o_(options),
        x_(std::move(x)),
        router_(std::move(router)),
        in_(std::move(in)),
        out_(std::move(out)),
        limit_(std::move(limit)) {}

  LoopResult Run() {
    result_.output.assign(x_.size(), 0);
    result_.load.assign(s_.experts, 0);
    for (int group = 0; group < s_.groups; ++group) RunGroup(group);
    result_.z_loss /= counted_;
    result_.load_balancing_loss *=
        static_cast<double>(s_.experts) / std::max(groups_, 1);
    result_.dropped = (wanted_ - placed_) / wanted_;
    const double all =
        std::accumulate(result_.load.begin(), result_.load.end(), 0.0);
    for (double& load : result_.load) load /= all;
    return result_;
  }

 private:
  struct Choice {
    int expert;
    double weight;
  };

  int Limit(int group, int token) const {
    return limit_.empty() ? s_.experts : limit_[group * s_.tokens + token];
  }
  const double* Token(int group, int token) const {
    return &x_[(group * s_.tokens + token) * s_.d_model];
  }

  void RunGroup(int group) {
    probabilities_.clear();
    for (int t = 0; t < s_.tokens; ++t) {
      probabilities_.push_back(Probabilities(group, t));
    }
    if (o_.routing == nn::Routing::kExpertChoice) return ChooseTokens(group);
    AddLoss(group);
    std::vector<std::vector<Choice>> choices;
    for (int t = 0; t < s_.tokens; ++t) choices.push_back(ChoicesOf(group, t));
    std::vector<int> order(s_.tokens);
    std::iota(order.begin(), order.end(), 0);
    if (o_.prioritize) {
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return Best(a, 0) > Best(b, 0); });
    }
    std::vector<int> used(s_.experts, 0);
    std::vector<bool> has_expert(s_.tokens, false);
    const bool one = o_.routing == nn::Routing::kNoTokenLeftBehind;
    for (int i = 0; i < o_.choices; ++i) {
      for (int t : order) {
        if (Limit(group, t) <= (one ? 0 : i)) continue;
        if (one && has_expert[t]) continue;
        const Choice& choice = choices[t][i];
        if (!one && i > 0 && !IsKept(choice.weight)) continue;
        ++result_.load[choice.expert];
        if (!one) ++wanted_;
        if (used[choice.expert]++ >= s_.capacity) continue;
        has_expert[t] = true;
        ++placed_;
        Add(group, t, choice);
      }
    }
    for (int t = 0; one && t < s_.tokens; ++t) wanted_ += Limit(group, t) > 0;
  }

  bool IsKept(double weight) const {
    switch (o_.further) {
      case nn::FurtherChoices::kNone:
        return false;
      case nn::FurtherChoices::kThreshold:
        return weight > o_.threshold;
      default:
        return true;
    }
  }

  Row Probabilities(int group, int token) {
    Row p(s_.experts, 0);
    double sum = 0;
    for (int e = 0; e < s_.experts; ++e) {
      double logit = 0;
      for (int d = 0; d < s_.d_model; ++d) {
        logit += Token(group, token)[d] * router_[d * s_.experts + e];
      }
      p[e] = std::exp(logit);
      sum += p[e];
    }
    for (double& each : p) each /= sum;
    if (Limit(group, token) > 0) {
      result_.z_loss += std::log(sum) * std::log(sum);
      ++counted_;
    }
    return p;
  }

  // The experts of a token, best first.
  std::vector<int> Ranking(int token) const {
    std::vector<int> ranking(s_.experts);
    std::iota(ranking.begin(), ranking.end(), 0);
    std::stable_sort(ranking.begin(), ranking.end(), [&](int a, int b) {
      return probabilities_[token][a] > probabilities_[token][b];
    });
    return ranking;
  }
  double Best(int token, int i) const {
    return probabilities_[token][Ranking(token)[i]];
  }

  std::vector<Choice> ChoicesOf(int group, int token) const {
    std::vector<Choice> choices;
    double sum = 0;
    const std::vector<int> ranking = Ranking(token);
    for (int i = 0; i < o_.choices; ++i) {
      const double p = probabilities_[token][ranking[i]];
      choices.push_back({ranking[i], p});
      if (i < Limit(group, token)) sum += p;
    }
    if (o_.normalize.value_or(o_.routing == nn::Routing::kTopK &&
                              o_.choices > 1)) {
      for (Choice& choice : choices) choice.weight /= sum + 1e-9;
    }
    return choices;
  }

  void AddLoss(int group) {
    int tokens = 0;
    for (int t = 0; t < s_.tokens; ++t) tokens += Limit(group, t) > 0;
    if (tokens == 0) return;
    ++groups_;
    for (int e = 0; e < s_.experts; ++e) {
      double share = 0, probability = 0;
      for (int t = 0; t < s_.tokens; ++t) {
        if (Limit(group, t) == 0) continue;
        share += Ranking(t)[0] == e;
        probability += probabilities_[t][e];
      }
      result_.load_balancing_loss += share * probability / tokens / tokens;
    }
  }

  void ChooseTokens(int group) {
    std::vector<bool> has_expert(s_.tokens, false);
    for (int e = 0; e < s_.experts; ++e) {
      std::vector<int> order(s_.tokens);
      std::iota(order.begin(), order.end(), 0);
      const auto score = [&](int t) {
        return Limit(group, t) > 0 ? probabilities_[t][e] : 0.0;
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return score(a) > score(b); });
      for (int i = 0; i < s_.capacity; ++i) {
        has_expert[order[i]] = true;
        Add(group, order[i], {e, score(order[i])});
      }
      result_.load[e] += s_.capacity;
    }
    for (int t = 0; t < s_.tokens; ++t) {
      if (Limit(group, t) == 0) continue;
      ++wanted_;
      placed_ += has_expert[t];
    }
  }

  // weight * relu(x in) out
  void Add(int group, int token, const Choice& choice) {
    const size_t kernel =
        static_cast<size_t>(choice.expert) * s_.d_model * s_.d_ff;
    for (int f = 0; f < s_.d_ff; ++f) {
      double h = 0;
      for (int d = 0; d < s_.d_model; ++d) {
        h += Token(group, token)[d] * in_[kernel + d * s_.d_ff + f];
      }
      for (int d = 0; d < s_.d_model; ++d) {
        result_.output[(group * s_.tokens + token) * s_.d_model + d] +=
            choice.weight * std::max(h, 0.0) *
            out_[kernel + f * s_.d_model + d];
      }
    }
  }

  const ExpertSizes s_;
  const nn::ExpertsOptions o_;
  const Row x_, router_, in_, out_;
  const std::vector<int> limit_;
  std::vector<Row> probabilities_;  // by token of the group
  LoopResult result_;
  double counted_ = 0, wanted_ = 0, placed_ = 0;
  int groups_ = 0;  // that are not all padding
};

}  // namespace mtf::testing

#endif  // TESTS_NN_EXPERTS_EXPERT_LOOPS_H_
