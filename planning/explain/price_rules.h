// SPDX-License-Identifier: Apache-2.0
//
// The cost of a step under changed rules, lowered with all layers or with few
// that determine it.
#ifndef PLANNING_EXPLAIN_PRICE_RULES_H_
#define PLANNING_EXPLAIN_PRICE_RULES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lowering/emit/emit_program.h"
#include "planning/cost/deep_model_cost.h"
#include "planning/cost/few_layers.h"
#include "planning/cost/repeated_layers.h"
#include "planning/explain/explain_parts.h"
#include "planning/machine/machine.h"

namespace mtf::internal {

// The step whose rules are changed.
struct ChangedStep {
  const Graph& graph;
  const DimensionTable& dimensions;  // of the graph
  const Mesh& mesh;
  const Rules& rules;
  const OffloadRules& offload;  // stays as it is
  const Targets& targets;
  const Machine& machine;
};

// The cost of a step under changed rules, and its program.
struct PricedChange {
  RuleChange change;
  Program program;
  std::vector<int64_t> wire_bytes;  // by instruction, if layers are left out
};

// The cost of a lowered step.
RuleChange PriceProgram(const Program& program, const Machine& machine);

// Adds weight * from to `to`: seconds, bytes and memory.
void AddWeighted(int64_t weight, const RuleChange& from, RuleChange& to);

// Chooses the layers that a deep step is lowered with. Thread-safe.
class LayerChooser {
 public:
  // The arguments must outlive the object.
  LayerChooser(const Graph& graph, const RepeatedLayers& layers);

  // The repeats of each run that are kept in the first attempt.
  const std::vector<int>& first() const { return first_; }
  // Whether lowering these saves a third of the operations.
  bool IsWorthIt() const { return Saves(first_); }
  // More repeats than `kept`, for which `priced` was computed; nullopt if
  // lowering all layers costs about as much.
  std::optional<std::vector<int>> KeepMore(std::vector<int> kept,
                                           const DeepEstimate& priced) const;
  // The layers to lower when `kept` repeats are kept; cached.
  std::shared_ptr<const FewLayers> Keep(const std::vector<int>& kept);

  // Whether lowering all layers takes little time.
  bool AllLayersAreFast() const;
  // Whether lowering all layers for each change takes too long.
  bool AllLayersAreTooSlow() const;

 private:
  bool Saves(const std::vector<int>& kept) const;

  const Graph& graph_;
  const RepeatedLayers& layers_;
  std::vector<int> first_;
  std::mutex mutex_;
  std::map<std::vector<int>, std::shared_ptr<const FewLayers>> known_;
};

// Lowers and prices a step under changed rules.
class RulePricer {
 public:
  // Lowers all layers if `chooser` is null. Both must outlive the object.
  RulePricer(const ChangedStep& step, LayerChooser* chooser)
      : step_(step), chooser_(chooser) {}

  // The errors are those of LayoutRules::Parse, BindDimensions and Lower.
  absl::StatusOr<PricedChange> Price(const Rules& rules) const;
  // Returns nullopt if all layers are needed.
  absl::StatusOr<std::optional<PricedChange>> PriceByFewLayers(
      const Rules& rules) const;

 private:
  absl::StatusOr<LayoutBinding> Bind(const Rules& rules) const;
  // The rules and the section [offload], as --layout takes them.
  std::string LayoutText(const Rules& rules) const;
  absl::StatusOr<Program> Lowered(const LayoutBinding& binding,
                                  const FewLayers* few) const;
  absl::StatusOr<PricedChange> Estimate(const LayoutBinding& binding,
                                        const FewLayers& few,
                                        Program program) const;

  const ChangedStep& step_;
  LayerChooser* const chooser_;
};

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_PRICE_RULES_H_
