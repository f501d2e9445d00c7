// SPDX-License-Identifier: Apache-2.0
//
// What would happen under other rules: the step is lowered again, once for each
// change, and every collective and rule asks the same results.
#include <algorithm>
#include <optional>
#include <set>
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
    std::string named = section == RuleSection::kDefault ? "default" : "";
    for (const LayoutRule& rule : rules) {
      if (rule.section != section) continue;
      if (named != rule.SectionName()) {
        named = rule.SectionName();
        absl::StrAppend(&text, text.empty() ? "" : ", ", "[", named, "]");
      }
      absl::StrAppend(&text, text.empty() ? "" : ", ", rule.ToString());
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

// Without the rules in `places`, which is in order.
Candidate Dropping(const Rules& rules, std::vector<int> places) {
  Candidate candidate;
  std::vector<std::string> dropped;
  for (int i = 0; i < static_cast<int>(rules.size()); ++i) {
    if (std::binary_search(places.begin(), places.end(), i)) {
      dropped.push_back(InSection(rules[i]));
    } else {
      candidate.rules.push_back(rules[i]);
    }
  }
  candidate.edit = absl::StrCat("drop ", absl::StrJoin(dropped, ", "));
  candidate.touched = std::move(places);
  return candidate;
}

// Every change of one rule that is used: without it, without all rules of its
// dimension, over fewer axes, over another axis.
std::vector<Candidate> Candidates(const Rules& rules,
                                  const std::vector<ExplainedRule>& uses,
                                  const Mesh& mesh) {
  std::vector<int> used;
  for (int i = 0; i < static_cast<int>(rules.size()); ++i) {
    if (uses[i].use == RuleUse::kUsed) used.push_back(i);
  }
  std::vector<Candidate> candidates;
  for (int i : used) candidates.push_back(Dropping(rules, {i}));
  for (int i : used) {
    std::vector<int> same;
    for (int j : used) {
      if (rules[j].dimension == rules[i].dimension) same.push_back(j);
    }
    if (same.size() >= 2 && same[0] == i) {
      candidates.push_back(Dropping(rules, std::move(same)));
    }
  }
  const auto with_axes = [&](int i, std::vector<std::string> axes) {
    Candidate candidate{"", rules, {i}};
    candidate.rules[i].axes = std::move(axes);
    candidate.edit = absl::StrCat(InSection(candidate.rules[i]), " instead of ",
                                  rules[i].ToString());
    candidates.push_back(std::move(candidate));
  };
  for (int i : used) {
    const std::vector<std::string>& axes = rules[i].axes;
    for (size_t a = 0; axes.size() > 1 && a < axes.size(); ++a) {
      std::vector<std::string> fewer = axes;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(a));
      with_axes(i, std::move(fewer));
    }
    for (const MeshAxis& axis : mesh.axes()) {
      if (axis.size > 1 &&
          std::find(axes.begin(), axes.end(), axis.name) == axes.end()) {
        with_axes(i, {axis.name});
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

bool Touches(const Candidate& candidate, const std::vector<int>& rules) {
  return std::any_of(
      candidate.touched.begin(), candidate.touched.end(), [&](int rule) {
        return std::find(rules.begin(), rules.end(), rule) != rules.end();
      });
}

// Tries changes and tells the explanation of them.
class ChangeSearch {
 public:
  ChangeSearch(const Graph& graph, const LayoutBinding& binding,
               const Rules& rules, const Targets& targets,
               const Program& program, const Machine& machine,
               Explanation& explanation)
      : graph_(graph),
        mesh_(binding.mesh),
        rules_(rules),
        targets_(targets),
        program_(program),
        machine_(machine),
        explanation_(explanation) {
    for (const ExplainedCollective& collective : explanation.collectives) {
      behind_.push_back(
          RulesBehind(program.instructions[collective.instruction]));
    }
  }

  // Tries `most` changes at most.
  void Run(size_t most) {
    std::vector<Candidate> candidates =
        Candidates(rules_, explanation_.rules, mesh_);
    if (candidates.size() > most) MostExposedFirst(candidates);
    most_ = most;
    Try(std::move(candidates));
    ChooseChanges(0);
    // What no change of a single rule removes may need all of its rules gone.
    const size_t singles = tried_.size();
    Try(Joint());
    ChooseChanges(singles);
    TellRules();
    if (left_out_ > 0) {
      explanation_.changes_note =
          absl::StrCat(attempts_, " of ", attempts_ + left_out_,
                       " changes of rules were tried: the model is large");
    }
  }

 private:
  // The rules of the layout behind an instruction, in order.
  std::vector<int> RulesBehind(const Instruction& instruction) const {
    std::vector<int> places;
    for (size_t i = 0; i < rules_.size(); ++i) {
      for (const Cause& cause : instruction.causes) {
        if (cause.rule < 0) continue;
        const LayoutRule& rule = program_.rules[cause.rule];
        if (rules_[i].section == rule.section &&
            rules_[i].dimension == rule.dimension) {
          places.push_back(static_cast<int>(i));
          break;
        }
      }
    }
    return places;
  }

  // Where not all can be tried, those of the rules that cost most time come
  // first; of one rule, dropping it.
  void MostExposedFirst(std::vector<Candidate>& candidates) const {
    std::vector<double> exposed(rules_.size(), 0);
    for (size_t c = 0; c < behind_.size(); ++c) {
      for (int rule : behind_[c]) {
        exposed[rule] += explanation_.collectives[c].exposed;
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

  void Try(std::vector<Candidate> candidates) {
    for (Candidate& candidate : candidates) {
      if (attempts_ == most_) {
        ++left_out_;
        continue;
      }
      ++attempts_;
      const std::string layout = RulesText(candidate.rules);
      // An illegal layout is no way out.
      const auto rules = LayoutRules::Parse(layout, "");
      if (!rules.ok()) continue;
      const auto binding = BindLayout(graph_, mesh_, *rules);
      if (!binding.ok()) continue;
      LowerOptions options;
      options.verify = false;
      const auto other = Lower(graph_, *binding, targets_, options);
      if (!other.ok()) continue;
      if (!before_) before_.emplace(program_);
      const StepCost cost = CostOf(*other, EstimateStep(*other, machine_),
                                   ListCollectives(*other));
      explanation_.changes.push_back({candidate.edit, layout, cost});
      tried_.push_back({std::move(candidate), cost,
                        Removed(program_, *before_, Traffic(*other))});
    }
  }

  std::vector<Candidate> Joint() const {
    std::vector<Candidate> candidates;
    std::set<std::vector<int>> seen;
    for (const Tried& tried : tried_) seen.insert(tried.candidate.touched);
    for (size_t c = 0; c < behind_.size(); ++c) {
      if (explanation_.collectives[c].change < 0 && behind_[c].size() >= 2 &&
          seen.insert(behind_[c]).second) {
        candidates.push_back(Dropping(rules_, behind_[c]));
      }
    }
    return candidates;
  }

  // Chooses for each collective that has none yet the cheapest change that
  // removes it, of those tried from `begin` on.
  void ChooseChanges(size_t begin) {
    const auto cost = [this](size_t change) {
      return std::make_pair(tried_[change].cost.seconds,
                            tried_[change].cost.memory_bytes);
    };
    for (size_t c = 0; c < behind_.size(); ++c) {
      ExplainedCollective& collective = explanation_.collectives[c];
      // Nothing helps where no rule causes it.
      if (behind_[c].empty() || collective.change >= 0) continue;
      int candidates = 0;
      for (size_t i = 0; i < tried_.size(); ++i) {
        if (!Touches(tried_[i].candidate, behind_[c])) continue;
        ++candidates;
        if (i >= begin && tried_[i].removes.contains(collective.number) &&
            (collective.change < 0 || cost(i) < cost(collective.change))) {
          collective.change = static_cast<int>(i);
        }
      }
      if (collective.change >= 0) {
        collective.no_change = "";
      } else if (left_out_ > 0) {
        collective.no_change = "not tried";
      } else if (candidates > 0) {
        collective.no_change = absl::StrCat(
            "none of ", candidates, candidates == 1 ? " change" : " changes",
            " removes it");
      } else {
        collective.no_change = "no other rule is legal";
      }
    }
  }

  // What each rule saves.
  void TellRules() {
    for (int i = 0; i < static_cast<int>(rules_.size()); ++i) {
      ExplainedRule& rule = explanation_.rules[i];
      for (size_t t = 0; t < tried_.size() && rule.dropped < 0; ++t) {
        if (tried_[t].candidate.touched == std::vector<int>{i} &&
            tried_[t].candidate.rules.size() < rules_.size()) {
          rule.dropped = static_cast<int>(t);
          rule.memory_saved =
              tried_[t].cost.memory_bytes - explanation_.cost.memory_bytes;
        }
      }
    }
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const Rules& rules_;
  const Targets& targets_;
  const Program& program_;
  const Machine& machine_;
  Explanation& explanation_;
  std::vector<std::vector<int>> behind_;  // by collective: rules
  std::optional<Traffic> before_;
  std::vector<Tried> tried_;
  size_t most_ = 0, attempts_ = 0, left_out_ = 0;
};

}  // namespace

void ExplainChanges(const Graph& graph, const LayoutBinding& binding,
                    const LayoutRules& layout, const Targets& targets,
                    const Program& program, const Machine& machine,
                    const ExplainOptions& options, Explanation& explanation) {
  const int64_t operations =
      std::max<int64_t>(1, static_cast<int64_t>(graph.operations().size()));
  ChangeSearch(graph, binding, layout.rules(), targets, program, machine,
               explanation)
      .Run(static_cast<size_t>(
          std::max<int64_t>(0, options.change_operations / operations)));
}

}  // namespace mtf::internal
