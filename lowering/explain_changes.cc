// SPDX-License-Identifier: Apache-2.0
//
// What would happen under other rules: the step is lowered again, once for each
// change, and every collective and rule asks the same results.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lowering/count_costs.h"
#include "lowering/explain_parts.h"
#include "lowering/readers.h"

namespace mtf::internal {
namespace {

// The rules of a layout as --layout takes them, section by section.
std::string RulesText(const Rules& rules) {
  std::string text;
  for (RuleSection section : {RuleSection::kDefault, RuleSection::kParameters,
                              RuleSection::kOptimizer}) {
    bool named = section == RuleSection::kDefault;
    for (const LayoutRule& rule : rules) {
      if (rule.section != section) continue;
      if (!named) {
        absl::StrAppend(&text, text.empty() ? "" : ", ", "[",
                        RuleSectionName(section), "]");
      }
      absl::StrAppend(&text, text.empty() ? "" : ", ", rule.ToString());
      named = true;
    }
  }
  return text;
}

// A change to try: the rules it leaves, and which of the present ones it
// touches.
struct Candidate {
  std::string edit;
  Rules rules;
  std::vector<int> touched;
};

// Every change of one rule: without it, without all rules of its dimension,
// over fewer axes, over another axis.
std::vector<Candidate> Candidates(const Rules& rules, const Mesh& mesh) {
  std::vector<Candidate> candidates;
  const int count = static_cast<int>(rules.size());
  const auto with_axes = [&](int i, std::vector<std::string> axes) {
    Candidate candidate{"", rules, {i}};
    candidate.rules[i].axes = std::move(axes);
    candidate.edit = absl::StrCat(InSection(candidate.rules[i]), " instead of ",
                                  rules[i].ToString());
    return candidate;
  };
  for (int i = 0; i < count; ++i) {
    if (!Cuts(rules[i], mesh)) continue;
    Candidate candidate{absl::StrCat("drop ", InSection(rules[i])), rules, {i}};
    candidate.rules.erase(candidate.rules.begin() + i);
    candidates.push_back(std::move(candidate));
  }
  for (int i = 0; i < count; ++i) {
    Candidate candidate;
    std::vector<std::string> dropped;
    for (int j = 0; j < count; ++j) {
      if (rules[j].dimension != rules[i].dimension) {
        candidate.rules.push_back(rules[j]);
      } else {
        candidate.touched.push_back(j);
        dropped.push_back(InSection(rules[j]));
      }
    }
    if (candidate.touched.size() < 2 || candidate.touched[0] != i) continue;
    candidate.edit = absl::StrCat("drop ", absl::StrJoin(dropped, ", "));
    candidates.push_back(std::move(candidate));
  }
  for (int i = 0; i < count; ++i) {
    if (!Cuts(rules[i], mesh)) continue;
    const std::vector<std::string>& axes = rules[i].axes;
    for (size_t a = 0; axes.size() > 1 && a < axes.size(); ++a) {
      std::vector<std::string> fewer = axes;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(a));
      candidates.push_back(with_axes(i, std::move(fewer)));
    }
    for (const MeshAxis& axis : mesh.axes()) {
      if (axis.size > 1 &&
          std::find(axes.begin(), axes.end(), axis.name) == axes.end()) {
        candidates.push_back(with_axes(i, {axis.name}));
      }
    }
  }
  return candidates;
}

// What is sent in a program, by what can be compared between layouts.
class Traffic {
 public:
  explicit Traffic(const Program& program)
      : program_(program), producers_(FindProducers(program)) {
    for (const CollectiveCost& cost : ListCollectives(program)) {
      for (const std::string& key : KeysOf(cost)) keys_.insert(key);
      for (int axis : cost.axes) {
        bytes_[AxisKey(cost.kind, axis)] += cost.bytes;
      }
    }
  }

  // Every sum or gather of a collective, by kind, axis and user's operation.
  std::vector<std::string> KeysOf(const CollectiveCost& cost) const {
    std::vector<std::string> keys;
    const Instruction& instruction = program_.instructions[cost.instruction];
    for (int operand : instruction.operands) {
      const std::string source = SourceOf(operand);
      for (int axis : cost.axes) {
        keys.push_back(absl::StrCat(AxisKey(cost.kind, axis), source));
      }
    }
    return keys;
  }
  static std::string AxisKey(CollectiveKind kind, int axis) {
    return absl::StrCat(CollectiveName(kind), " ", axis, " ");
  }

  bool Has(const std::string& key) const { return keys_.contains(key); }
  int64_t BytesOf(const std::string& axis_key) const {
    const auto found = bytes_.find(axis_key);
    return found == bytes_.end() ? 0 : found->second;
  }

 private:
  // The user's operation behind a value, or the variable it was.
  std::string SourceOf(int value) const {
    while (producers_[value] >= 0) {
      const Instruction& producer = program_.instructions[producers_[value]];
      if (producer.opcode == Opcode::kReadVariable) return producer.symbol;
      if (!IsCollective(producer.opcode)) {
        return producer.origin < 0
                   ? program_.values[value].name
                   : program_.origins[producer.origin].operation;
      }
      const auto place =
          std::find(producer.results.begin(), producer.results.end(), value);
      value = producer.operands[place - producer.results.begin()];
    }
    return program_.values[value].name;
  }

  const Program& program_;
  std::vector<int> producers_;
  absl::flat_hash_set<std::string> keys_;
  absl::flat_hash_map<std::string, int64_t> bytes_;
};

// A candidate that could be lowered.
struct Tried {
  Candidate candidate;
  StepCost cost;
  absl::flat_hash_set<int> removes;  // numbers of collectives
};

// The collectives of the present program that are gone under another: nothing
// of their operations, kind and axes is left, and it has not moved elsewhere.
absl::flat_hash_set<int> Removed(const Program& now, const Traffic& before,
                                 const Traffic& after) {
  absl::flat_hash_set<int> removed;
  int number = 0;
  for (const CollectiveCost& cost : ListCollectives(now)) {
    ++number;
    bool gone = true;
    for (int axis : cost.axes) {
      const std::string key = Traffic::AxisKey(cost.kind, axis);
      gone =
          gone && (cost.bytes == 0 || after.BytesOf(key) < before.BytesOf(key));
    }
    for (const std::string& key : before.KeysOf(cost)) {
      gone = gone && !after.Has(key);
      if (!gone) break;
    }
    if (gone) removed.insert(number);
  }
  return removed;
}

// Which rules of the layout stand behind each collective.
std::vector<int> RulesBehind(const Program& program, const Rules& rules,
                             const Instruction& instruction) {
  std::vector<int> places;
  for (const Cause& cause : instruction.causes) {
    if (cause.rule < 0) continue;
    const LayoutRule& rule = program.rules[cause.rule];
    for (size_t i = 0; i < rules.size(); ++i) {
      if (rules[i].section == rule.section &&
          rules[i].dimension == rule.dimension) {
        places.push_back(static_cast<int>(i));
      }
    }
  }
  return places;
}

bool Touches(const Candidate& candidate, const std::vector<int>& rules) {
  return std::any_of(
      candidate.touched.begin(), candidate.touched.end(), [&](int rule) {
        return std::find(rules.begin(), rules.end(), rule) != rules.end();
      });
}

// Chooses for each collective the cheapest change that removes it.
void ChooseChanges(const Program& program, const Rules& rules,
                   const std::vector<Tried>& tried, bool tried_all,
                   Explanation& explanation) {
  for (ExplainedCollective& collective : explanation.collectives) {
    const std::vector<int> behind = RulesBehind(
        program, rules, program.instructions[collective.instruction]);
    if (behind.empty()) continue;  // no rule causes it
    int candidates = 0;
    for (size_t i = 0; i < tried.size(); ++i) {
      if (!Touches(tried[i].candidate, behind)) continue;
      ++candidates;
      if (!tried[i].removes.contains(collective.number)) continue;
      const auto cost = [&tried](size_t change) {
        return std::make_pair(tried[change].cost.seconds,
                              tried[change].cost.memory_bytes);
      };
      if (collective.change < 0 || cost(i) < cost(collective.change)) {
        collective.change = static_cast<int>(i);
      }
    }
    if (collective.change >= 0) {
      collective.no_change = "";
    } else if (candidates > 0 && tried_all) {
      collective.no_change =
          absl::StrCat("none of ", candidates,
                       candidates == 1 ? " change" : " changes", " removes it");
    } else if (tried_all) {
      collective.no_change = "no other rule is legal";
    }
  }
}

// Where not all can be tried, those of the rules that cost most time come
// first; of one rule, dropping it.
void MostExposedFirst(const Program& program, const Rules& rules,
                      const Explanation& explanation,
                      std::vector<Candidate>& candidates) {
  std::vector<double> exposed(rules.size(), 0);
  for (const ExplainedCollective& collective : explanation.collectives) {
    for (int rule : RulesBehind(program, rules,
                                program.instructions[collective.instruction])) {
      exposed[rule] += collective.exposed;
    }
  }
  const auto weight = [&](const Candidate& candidate) {
    double sum = 0;
    for (int rule : candidate.touched) sum += exposed[rule];
    return sum;
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate& a, const Candidate& b) {
                     return weight(a) > weight(b);
                   });
}

}  // namespace

void ExplainChanges(const Graph& graph, const LayoutBinding& binding,
                    const LayoutRules& layout, const Targets& targets,
                    const Program& program, const Machine& machine,
                    const ExplainOptions& options, Explanation& explanation) {
  const Rules& rules = layout.rules();
  std::vector<Candidate> candidates = Candidates(rules, binding.mesh);
  const int64_t operations =
      std::max<int64_t>(1, static_cast<int64_t>(graph.operations().size()));
  const size_t most = static_cast<size_t>(
      std::max<int64_t>(0, options.change_operations / operations));
  const bool all = candidates.size() <= most;
  if (!all) {
    explanation.changes_note =
        absl::StrCat(most, " of ", candidates.size(),
                     " changes of rules were tried: the model is large");
    MostExposedFirst(program, rules, explanation, candidates);
    candidates.resize(most);
  }

  std::optional<Traffic> before;
  if (!candidates.empty()) before.emplace(program);
  std::vector<Tried> tried;
  for (Candidate& candidate : candidates) {
    const auto changed = LayoutRules::Parse(RulesText(candidate.rules), "");
    if (!changed.ok()) continue;
    // An illegal layout is no way out.
    const auto changed_binding = BindLayout(graph, binding.mesh, *changed);
    if (!changed_binding.ok()) continue;
    LowerOptions lower_options;
    lower_options.verify = false;
    const auto other = Lower(graph, *changed_binding, targets, lower_options);
    if (!other.ok()) continue;
    explanation.changes.push_back(
        {candidate.edit, RulesText(candidate.rules),
         CostOf(*other, EstimateStep(*other, machine))});
    tried.push_back({std::move(candidate), explanation.changes.back().cost,
                     Removed(program, *before, Traffic(*other))});
  }
  ChooseChanges(program, rules, tried, all, explanation);

  for (int i = 0; i < static_cast<int>(rules.size()); ++i) {
    ExplainedRule& rule = explanation.rules[i];
    for (size_t t = 0; t < tried.size() && rule.dropped < 0; ++t) {
      if (tried[t].candidate.touched == std::vector<int>{i} &&
          tried[t].candidate.rules.size() < rules.size()) {
        rule.dropped = static_cast<int>(t);
        rule.memory_saved =
            tried[t].cost.memory_bytes - explanation.cost.memory_bytes;
      }
    }
  }
}

}  // namespace mtf::internal
