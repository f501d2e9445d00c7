// SPDX-License-Identifier: Apache-2.0
//
// What a step costs under other rules: lowered with all of its layers, or with
// as few of them as tell that.
#ifndef PLANNING_EXPLAIN_PRICE_RULES_H_
#define PLANNING_EXPLAIN_PRICE_RULES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "lowering/emit/emit_program.h"
#include "lowering/passes/plan_for_machine.h"
#include "planning/cost/deep_model_cost.h"
#include "planning/cost/few_layers.h"
#include "planning/cost/repeated_layers.h"
#include "planning/explain/explain_parts.h"
#include "planning/machine/machine.h"

namespace mtf::internal {

// What changes are tried on.
struct ChangedStep {
  const Graph& graph;
  const DimensionTable& dimensions;  // of the graph
  const Mesh& mesh;
  const Rules& rules;
  const Targets& targets;
  const Machine& machine;
};

// What a step costs, and the program that told it.
struct PricedChange {
  RuleChange change;
  Program program;
  std::vector<int64_t> wire_bytes;  // by instruction, where layers are left out
};

// What a lowered step costs; `plan` is what PlanForMachine said of it.
RuleChange PriceProgram(const Program& program, const Machine& machine,
                        const MachinePlan& plan);

// to += weight * from, all that is counted.
void AddWeighted(int64_t weight, const RuleChange& from, RuleChange& to);

// With which layers a deep step is lowered. May be called from several threads
// at once.
class LayerChooser {
 public:
  // Both are to outlive it.
  LayerChooser(const Graph& graph, const RepeatedLayers& layers);

  // Repeats of each run that are tried first.
  const std::vector<int>& first() const { return first_; }
  // Whether lowering the first saves a third of the operations.
  bool IsWorthIt() const { return Saves(first_); }
  // More than `kept`, which `trial` was of; nothing where all are as good.
  std::optional<std::vector<int>> KeepMore(std::vector<int> kept,
                                           const DeepEstimate& priced) const;
  // How to lower with so many.
  std::shared_ptr<const FewLayers> Keep(const std::vector<int>& kept);

  // Whether all layers take little time.
  bool AllLayersAreFast() const;
  // Whether they take too long to be lowered for each change.
  bool AllLayersAreTooSlow() const;

 private:
  bool Saves(const std::vector<int>& kept) const;

  const Graph& graph_;
  const RepeatedLayers& layers_;
  std::vector<int> first_;
  std::mutex mutex_;
  std::map<std::vector<int>, std::shared_ptr<const FewLayers>> known_;
};

// Lowers a step under changed rules.
class RulePricer {
 public:
  // With all layers, or as `depths` says. Both are to outlive it.
  RulePricer(const ChangedStep& step, LayerChooser* chooser)
      : step_(step), chooser_(chooser) {}

  // The errors are those of LayoutRules::Parse, BindDimensions and Lower.
  absl::StatusOr<PricedChange> Price(const Rules& rules) const;
  // Nothing where it takes all layers.
  absl::StatusOr<std::optional<PricedChange>> PriceByFewLayers(
      const Rules& rules) const;

 private:
  struct Planned {
    Program program;
    MachinePlan plan;
  };
  absl::StatusOr<LayoutBinding> Bind(const Rules& rules) const;
  absl::StatusOr<Planned> Plan(const LayoutBinding& binding,
                               const FewLayers* few) const;
  absl::StatusOr<PricedChange> Estimate(const LayoutBinding& binding,
                                        const FewLayers& few,
                                        Planned planned) const;

  const ChangedStep& step_;
  LayerChooser* const chooser_;
};

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_PRICE_RULES_H_
