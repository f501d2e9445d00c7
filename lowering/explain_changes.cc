// SPDX-License-Identifier: Apache-2.0
#include "lowering/explain_changes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lowering/emit_program.h"
#include "lowering/explain_layers.h"
#include "lowering/parallel_for.h"

namespace mtf::internal {
namespace {

// One lowering of a step, and how often what it costs counts.
struct Probe {
  std::vector<int> stand_ins;  // empty: all layers
  int64_t weight = 1;
};

constexpr int kRepeats = 3;  // of a run of equal layers

// Every repeat of a run adds the same to what a step costs; how much, a
// lowering with one repeat less tells.
std::vector<Probe> FewLayers(const RepeatedLayers& layers) {
  std::vector<int> kept(layers.num_runs());
  for (int run = 0; run < layers.num_runs(); ++run) {
    kept[run] = std::min(kRepeats, layers.repeats(run));
  }
  std::vector<Probe> probes = {{layers.StandIns(kept), 1}};
  for (int run = 0; run < layers.num_runs(); ++run) {
    const int64_t left_out = layers.repeats(run) - kept[run];
    if (left_out == 0) continue;
    std::vector<int> fewer = kept;
    --fewer[run];
    probes.push_back({layers.StandIns(fewer), -left_out});
    probes[0].weight += left_out;
  }
  return probes;
}

void Add(int64_t weight, const RuleChange& from, RuleChange& to) {
  to.cost.seconds += static_cast<double>(weight) * from.cost.seconds;
  to.cost.wire_bytes += weight * from.cost.wire_bytes;
  to.cost.memory_bytes += weight * from.cost.memory_bytes;
  for (int64_t MemoryParts::*part : kMemoryParts) {
    to.memory.*part += weight * (from.memory.*part);
  }
}

bool Touches(const Candidate& candidate, const std::vector<int>& rules) {
  return std::any_of(
      candidate.touched.begin(), candidate.touched.end(), [&](int rule) {
        return std::find(rules.begin(), rules.end(), rule) != rules.end();
      });
}

// Lowers a step under changed rules.
class Trier {
 public:
  Trier(const ChangedStep& step, std::vector<Probe> probes, size_t busy_cores)
      : step_(step),
        dimensions_(DimensionsOf(step.graph)),
        probes_(std::move(probes)),
        busy_cores_(busy_cores) {}

  // Without a change; by the first probe, whose program comes back.
  absl::StatusOr<Program> TryPresent(const Rules& rules, RuleChange& present) {
    std::optional<Program> first;
    MTF_RETURN_IF_ERROR(Price(rules, present, [&](Program program) {
      first.emplace(std::move(program));
    }));
    return *std::move(first);
  }

  // Tries everything that removes something from `program`, which is the step
  // under the present rules.
  void TryAll(const LayoutBinding& binding, const Program& program,
              ChangeTrials& trials) {
    const std::vector<CollectiveCost> collectives = ListCollectives(program);
    Try(Candidates(step_.rules, ExplainUses(binding, step_.rules, program),
                   step_.mesh),
        trials.tried);
    trials.singles = trials.tried.size();
    // What no change of a single rule removes may need all of its rules gone.
    const std::vector<CollectiveKeys> keys =
        KeysOf(program, collectives);
    std::vector<Candidate> joint;
    std::set<std::vector<int>> seen;
    for (const TriedChange& tried : trials.tried) {
      seen.insert(tried.candidate.touched);
    }
    for (size_t c = 0; c < collectives.size(); ++c) {
      const std::vector<int> behind =
          RulesBehind(step_.rules, program,
                      program.instructions[collectives[c].instruction]);
      if (behind.size() < 2) continue;
      const bool removed =
          std::any_of(trials.tried.begin(), trials.tried.end(),
                      [&](const TriedChange& tried) {
                        return Touches(tried.candidate, behind) &&
                               tried.traffic.IsWithout(collectives[c], keys[c],
                                                       trials.traffic);
                      });
      if (!removed && seen.insert(behind).second) {
        joint.push_back(Dropping(step_.rules, behind));
      }
    }
    Try(std::move(joint), trials.tried);
  }

 private:
  // Adds up what all probes cost, and hands out the program of the first.
  template <class TakeProgram>
  absl::Status Price(const Rules& rules, RuleChange& change,
                     const TakeProgram& take) const {
    change.layout = RulesText(rules);
    MTF_ASSIGN_OR_RETURN(const LayoutRules parsed,
                         LayoutRules::Parse(change.layout, ""));
    MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                         BindDimensions(dimensions_, step_.mesh, parsed));
    LowerOptions options;
    options.verify = false;
    options.last_pass = PassBeforePlan();
    int64_t unused = 0;
    for (const Probe& probe : probes_) {
      options.stand_ins = probe.stand_ins;
      MTF_ASSIGN_OR_RETURN(Program program,
                           Lower(step_.graph, binding, step_.targets, options));
      const MachinePlan plan = PlanMemory(step_.machine, program);
      const RuleChange priced = Priced(program, step_.machine, plan);
      Add(probe.weight, priced, change);
      if (&probe != &probes_[0]) continue;
      unused = priced.memory.unused;
      take(std::move(program));
    }
    // What is lost between tensors does not grow with the layers.
    change.memory.unused = unused;
    change.cost.memory_bytes = change.memory.total();
    return absl::OkStatus();
  }

  // Appends those whose rules are legal, in order.
  void Try(std::vector<Candidate> candidates,
           std::vector<TriedChange>& tried) const {
    std::vector<std::optional<TriedChange>> outcomes(candidates.size());
    ParallelFor(
        candidates.size(),
        [&](size_t i) {
          RuleChange change{candidates[i].edit, "", {}, {}};
          std::optional<Traffic> traffic;
          // An illegal layout is no way out.
          const absl::Status legal =
              Price(candidates[i].rules, change,
                    [&](const Program& program) { traffic.emplace(program); });
          if (!legal.ok()) return;
          outcomes[i].emplace(TriedChange{std::move(candidates[i]),
                                          std::move(change),
                                          *std::move(traffic)});
        },
        busy_cores_);
    for (std::optional<TriedChange>& outcome : outcomes) {
      if (outcome) tried.push_back(*std::move(outcome));
    }
  }

  const ChangedStep& step_;
  const DimensionTable dimensions_;
  const std::vector<Probe> probes_;
  const size_t busy_cores_;
};

}  // namespace

RuleChange Priced(const Program& program, const Machine& machine,
                  const MachinePlan& plan) {
  RuleChange change;
  change.cost = CostOf(program, EstimateStep(program, machine, plan.attention),
                       ListCollectives(program));
  change.memory = ExplainMemory(program, plan.groups).parts;
  return change;
}

ChangeTrials TryChanges(const ChangedStep& step, const LayoutBinding& binding,
                        const Program& program, const MachinePlan& plan) {
  ChangeTrials trials{
      Priced(program, step.machine, plan), Traffic(program), {}, 0, false, {}};
  Trier(step, {Probe()}, 0).TryAll(binding, program, trials);
  return trials;
}

absl::StatusOr<std::optional<ChangeTrials>> TryChangesOnFewLayers(
    const ChangedStep& step, const LayoutBinding& binding) {
  const RepeatedLayers layers(step.graph);
  size_t left_out = 0;
  for (int run = 0; run < layers.num_runs(); ++run) {
    left_out += static_cast<size_t>(layers.operations(run)) *
                std::max(0, layers.repeats(run) - kRepeats);
  }
  if (3 * left_out < step.graph.operations().size()) return std::nullopt;
  std::vector<Probe> probes = FewLayers(layers);
  NameMap names = layers.Names(probes[0].stand_ins);
  Trier trier(step, std::move(probes), 1);
  RuleChange present;
  MTF_ASSIGN_OR_RETURN(const Program program,
                       trier.TryPresent(step.rules, present));
  ChangeTrials trials{std::move(present), Traffic(program), {}, 0, true,
                      std::move(names)};
  trier.TryAll(binding, program, trials);
  return trials;
}

void TellChanges(const ChangeTrials& trials, const Rules& rules,
                 const Program& program, Explanation& explanation) {
  const RuleChange now{"", "", explanation.cost, explanation.memory.parts};
  for (const TriedChange& tried : trials.tried) {
    RuleChange change = tried.change;
    if (trials.few_layers) {
      // What few layers tell of the present rules is off by as much.
      Add(-1, trials.present, change);
      Add(1, now, change);
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
    const std::vector<int>& behind = collective.rules;
    if (behind.empty()) {
      collective.no_change = kNoRule;
      continue;
    }
    int touching = 0;
    for (size_t i = 0; i < trials.tried.size(); ++i) {
      // Several rules at once only where one is not enough.
      if (i == trials.singles && collective.change >= 0) break;
      const TriedChange& tried = trials.tried[i];
      if (!Touches(tried.candidate, behind)) continue;
      ++touching;
      const int place = static_cast<int>(i);
      if (tried.traffic.IsWithout(collectives[c], keys[c], trials.traffic) &&
          (collective.change < 0 || cost(place) < cost(collective.change))) {
        collective.change = place;
      }
    }
    if (collective.change >= 0) {
      collective.instead = trials.tried[collective.change].traffic.Instead(
          collectives[c], keys[c], trials.traffic, program.mesh);
    }
    collective.no_change =
        collective.change >= 0 ? ""
        : touching == 0        ? "no other rule is legal"
        : touching == 1 ? "the one change of its rules that is legal leaves it"
                        : absl::StrCat("each of ", touching,
                                       " changes of its rules ", "leaves it");
  }
  for (int i = 0; i < static_cast<int>(rules.size()); ++i) {
    ExplainedRule& rule = explanation.rules[i];
    if (rule.use != RuleUse::kUsed) rule.saved = MemoryParts();
    for (size_t t = 0; t < trials.singles && rule.dropped < 0; ++t) {
      const Candidate& candidate = trials.tried[t].candidate;
      if (candidate.touched != std::vector<int>{i} ||
          candidate.rules.size() == rules.size()) {
        continue;
      }
      rule.dropped = static_cast<int>(t);
      rule.saved = explanation.changes[t].memory;
      for (int64_t MemoryParts::*part : kMemoryParts) {
        (*rule.saved).*part -= now.memory.*part;
      }
    }
  }
}

}  // namespace mtf::internal
