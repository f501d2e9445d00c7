// SPDX-License-Identifier: Apache-2.0
#include "planning/explain/explain_changes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "planning/cost/parallel_for.h"
#include "planning/cost/repeated_layers.h"

namespace mtf::internal {
namespace {

bool Touches(const RuleCandidate& candidate, const std::vector<int>& rules) {
  return std::any_of(
      candidate.touched.begin(), candidate.touched.end(), [&](int rule) {
        return std::find(rules.begin(), rules.end(), rule) != rules.end();
      });
}

// Tries changes of the rules of a step.
class ChangePricer {
 public:
  ChangePricer(const ChangedStep& step, const RulePricer& pricer,
               size_t busy_cores)
      : step_(step), pricer_(pricer), busy_cores_(busy_cores) {}

  // Tries the changes that may remove collectives from `program`, which is the
  // step under the present rules.
  void TryAll(const LayoutBinding& binding, const Program& program,
              ChangeTrials& trials) {
    const std::vector<CollectiveCost> collectives = ListCollectives(program);
    Try(RuleCandidates(step_.rules,
                       ExplainRuleUses(binding, step_.rules, program),
                       step_.mesh),
        trials.tried);
    trials.singles = trials.tried.size();
    const std::vector<CollectiveKeys> keys =
        KeysOf(program, collectives, trials.names);
    // Visits the rules that cause each collective that no change so far
    // removes.
    const auto for_each_remaining =
        [&](absl::FunctionRef<void(const std::vector<int>&)> visit) {
          for (size_t c = 0; c < collectives.size(); ++c) {
            const std::vector<int> causes =
                RulesCausing(step_.rules, program,
                             program.instructions[collectives[c].instruction]);
            const bool removed = std::any_of(
                trials.tried.begin(), trials.tried.end(),
                [&](const TriedChange& tried) {
                  return Touches(tried.candidate, causes) &&
                         tried.traffic.LacksCollective(collectives[c], keys[c],
                                                       trials.traffic);
                });
            if (!causes.empty() && !removed) visit(causes);
          }
        };
    // If no change of a single rule removes a collective, drop all rules that
    // cause it.
    std::vector<RuleCandidate> joint;
    std::set<std::vector<int>> seen;
    for (const TriedChange& tried : trials.tried) {
      seen.insert(tried.candidate.touched);
    }
    for_each_remaining([&](const std::vector<int>& causes) {
      if (causes.size() < 2 || !seen.insert(causes).second) return;
      joint.push_back(DropRules(step_.rules, causes));
    });
    Try(std::move(joint), trials.tried);
    // Or replicate the dimensions of these rules: one, all, or all in every
    // section.
    std::set<std::vector<int>> rule_sets;
    for_each_remaining([&](const std::vector<int>& causes) {
      std::set<int> all(causes.begin(), causes.end());
      for (int rule : causes) {
        rule_sets.insert({rule});
        for (int i = 0; i < static_cast<int>(step_.rules.size()); ++i) {
          if (step_.rules[i].dimension == step_.rules[rule].dimension &&
              ShardsOnMesh(step_.rules[i], step_.mesh)) {
            all.insert(i);
          }
        }
      }
      rule_sets.insert(causes);
      rule_sets.insert(std::vector<int>(all.begin(), all.end()));
    });
    std::vector<RuleCandidate> replicated;
    for (const std::vector<int>& rule_set : rule_sets) {
      replicated.push_back(ReplicateDimensions(step_.rules, rule_set));
    }
    Try(std::move(replicated), trials.tried);
  }

 private:
  // Appends the candidates whose rules are legal, in order.
  void Try(std::vector<RuleCandidate> candidates,
           std::vector<TriedChange>& tried) const {
    std::vector<std::optional<TriedChange>> outcomes(candidates.size());
    ParallelFor(
        candidates.size(),
        [&](size_t i) {
          absl::StatusOr<PricedChange> priced =
              pricer_.Price(candidates[i].rules);
          // A change to an illegal layout is not reported.
          if (!priced.ok()) return;
          priced->change.edit = candidates[i].edit;
          Traffic traffic(priced->program, priced->wire_bytes);
          outcomes[i].emplace(TriedChange{std::move(candidates[i]),
                                          std::move(priced->change),
                                          std::move(traffic)});
        },
        busy_cores_);
    for (std::optional<TriedChange>& outcome : outcomes) {
      if (outcome) tried.push_back(*std::move(outcome));
    }
  }

  const ChangedStep& step_;
  const RulePricer& pricer_;
  const size_t busy_cores_;
};

}  // namespace

ChangeTrials TryChanges(const ChangedStep& step, const LayoutBinding& binding,
                        const Program& program) {
  ChangeTrials trials{
      PriceProgram(program, step.machine), Traffic(program), {}, 0, false, {}};
  ChangePricer(step, RulePricer(step, nullptr), 0)
      .TryAll(binding, program, trials);
  return trials;
}

absl::StatusOr<std::optional<ChangeTrials>> TryChangesOnFewLayers(
    const ChangedStep& step, const LayoutBinding& binding) {
  const RepeatedLayers layers(step.graph);
  LayerChooser chooser(step.graph, layers);
  if (!chooser.IsWorthIt()) return std::nullopt;
  const RulePricer pricer(step, &chooser);
  std::optional<PricedChange> present;
  if (chooser.AllLayersAreFast()) {
    MTF_ASSIGN_OR_RETURN(present, pricer.PriceByFewLayers(step.rules));
    if (!present) return std::nullopt;
  } else {
    MTF_ASSIGN_OR_RETURN(present, pricer.Price(step.rules));
  }
  ChangeTrials trials{
      std::move(present->change),
      Traffic(present->program, present->wire_bytes),
      {},
      0,
      true,
      layers.Names(chooser.Keep(chooser.first())->representatives)};
  ChangePricer(step, pricer, 1).TryAll(binding, present->program, trials);
  return trials;
}

void ReportChanges(const ChangeTrials& trials, const Rules& rules,
                   const Program& program, Explanation& explanation) {
  const RuleChange now{"", "", explanation.cost, explanation.memory.parts};
  for (const TriedChange& tried : trials.tried) {
    RuleChange change = tried.change;
    if (change.estimated) {
      // Correct by the error of the estimate for the present rules.
      AddWeighted(-1, trials.present, change);
      AddWeighted(1, now, change);
      change.cost.seconds = std::max(change.cost.seconds, 0.0);
      change.memory.unused = std::max<int64_t>(change.memory.unused, 0);
      change.cost.memory_bytes = change.memory.total();
    }
    explanation.changes.push_back(std::move(change));
  }
  const auto cost = [&explanation](int change) {
    const StepCost& of = explanation.changes[change].cost;
    return std::make_pair(of.seconds, of.memory_bytes);
  };
  const std::vector<CollectiveCost> collectives = ListCollectives(program);
  const std::vector<CollectiveKeys> keys =
      KeysOf(program, collectives, trials.names);
  for (size_t c = 0; c < collectives.size(); ++c) {
    ExplainedCollective& collective = explanation.collectives[c];
    const std::vector<int>& causes = collective.rules;
    if (causes.empty()) {
      collective.no_change = kNoRule;
      continue;
    }
    int touching = 0;
    for (size_t i = 0; i < trials.tried.size(); ++i) {
      // Changes of several rules count only if no single one is enough.
      if (i == trials.singles && collective.change >= 0) break;
      const TriedChange& tried = trials.tried[i];
      if (!Touches(tried.candidate, causes)) continue;
      ++touching;
      const int index = static_cast<int>(i);
      if (tried.traffic.LacksCollective(collectives[c], keys[c],
                                        trials.traffic) &&
          (collective.change < 0 || cost(index) < cost(collective.change))) {
        collective.change = index;
      }
    }
    if (collective.change >= 0) {
      collective.instead =
          trials.tried[collective.change].traffic.AddedCollectives(
              keys[c], trials.traffic, program.mesh);
    }
    collective.no_change =
        collective.change >= 0 ? ""
        : touching == 0        ? "no change of its rules is legal"
        : touching == 1
            ? "the only legal change of its rules keeps the collective"
            : absl::StrCat("each of ", touching,
                           " changes of its rules keeps the collective");
  }
  for (int i = 0; i < static_cast<int>(rules.size()); ++i) {
    ExplainedRule& rule = explanation.rules[i];
    if (rule.use != RuleUse::kUsed) rule.saved = MemoryParts();
    for (size_t t = 0; t < trials.singles && rule.dropped < 0; ++t) {
      const RuleCandidate& candidate = trials.tried[t].candidate;
      if (candidate.touched != std::vector<int>{i} ||
          candidate.rules.size() == rules.size()) {
        continue;
      }
      rule.dropped = static_cast<int>(t);
      rule.saved = explanation.changes[t].memory;
      for (int64_t MemoryParts::*part : kMemoryParts) {
        (*rule.saved).*part -= now.memory.*part;
      }
      rule.saved->host -= now.memory.host;
    }
  }
}

}  // namespace mtf::internal
