// SPDX-License-Identifier: Apache-2.0
#include "planning/explain/price_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lowering/lower.h"
#include "lowering/program/count_costs.h"
#include "planning/explain/explain_candidates.h"

namespace mtf::internal {
namespace {

// The repeats of a run of equal layers that are kept in the first attempt: with
// fewer, no inner repeat equals the next one.
constexpr int kFirstKept = 4;
// If few layers do not determine the cost of the present step, a graph with up
// to kFew operations is lowered with all layers for each change. One with more
// than kTooMany operations never is.
constexpr int64_t kFew = 16000, kTooMany = 60000;

}  // namespace

RuleChange PriceProgram(const Program& program, const Machine& machine) {
  RuleChange change;
  change.cost =
      CostOf(program, EstimateStep(program, machine), ListCollectives(program));
  change.memory = ExplainMemory(program).parts;
  return change;
}

void AddWeighted(int64_t weight, const RuleChange& from, RuleChange& to) {
  to.cost.seconds += static_cast<double>(weight) * from.cost.seconds;
  to.cost.wire_bytes += weight * from.cost.wire_bytes;
  to.cost.memory_bytes += weight * from.cost.memory_bytes;
  for (int64_t MemoryParts::*part : kMemoryParts) {
    to.memory.*part += weight * (from.memory.*part);
  }
  to.memory.host += weight * from.memory.host;
}

LayerChooser::LayerChooser(const Graph& graph, const RepeatedLayers& layers)
    : graph_(graph), layers_(layers) {
  for (int run = 0; run < layers.num_runs(); ++run) {
    first_.push_back(std::min(kFirstKept, layers.repeats(run)));
  }
}

bool LayerChooser::Saves(const std::vector<int>& kept) const {
  size_t left_out = 0;
  for (int run = 0; run < layers_.num_runs(); ++run) {
    left_out += static_cast<size_t>(layers_.operations(run)) *
                (layers_.repeats(run) - kept[run]);
  }
  return 3 * left_out >= graph_.operations().size();
}

// Keeps half as many repeats more, or as many as calls with sums of several
// layers need; and so many that the period divides the number that is left out.
std::optional<std::vector<int>> LayerChooser::KeepMore(
    std::vector<int> kept, const DeepEstimate& priced) const {
  for (int run = 0; run < layers_.num_runs(); ++run) {
    const int repeats = layers_.repeats(run);
    int period = priced.period;
    if (period == 0) {
      period = priced.guess.period;
      kept[run] = std::min(repeats, std::max(kept[run] + (kept[run] + 1) / 2,
                                             priced.guess.needed));
    }
    kept[run] += (repeats - kept[run]) % period;
  }
  if (!Saves(kept)) return std::nullopt;
  return kept;
}

std::shared_ptr<const FewLayers> LayerChooser::Keep(
    const std::vector<int>& kept) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<const FewLayers>& known = known_[kept];
  if (known == nullptr) {
    known = std::make_shared<FewLayers>(KeepFew(layers_, kept));
  }
  return known;
}

bool LayerChooser::AllLayersAreFast() const {
  return CountOperations(graph_) <= kFew;
}

bool LayerChooser::AllLayersAreTooSlow() const {
  return CountOperations(graph_) > kTooMany;
}

absl::StatusOr<LayoutBinding> RulePricer::Bind(const Rules& rules) const {
  MTF_ASSIGN_OR_RETURN(LayoutRules parsed,
                       LayoutRules::Parse(FormatRules(rules), ""));
  parsed.set_offload(step_.offload);
  return BindDimensions(step_.dimensions, step_.mesh, parsed);
}

std::string RulePricer::LayoutText(const Rules& rules) const {
  const std::string text = FormatRules(rules);
  if (step_.offload.empty()) return text;
  return absl::StrCat(text, text.empty() ? "" : ", ", "[offload] ",
                      step_.offload.ToString());
}

absl::StatusOr<Program> RulePricer::Lowered(const LayoutBinding& binding,
                                            const FewLayers* few) const {
  LowerOptions options;
  options.verify = false;
  options.attention = step_.machine.attention();
  options.fusion = step_.machine.fusion();
  return LowerFewLayers(step_.graph, binding, step_.targets, few, options);
}

absl::StatusOr<PricedChange> RulePricer::Price(const Rules& rules) const {
  if (chooser_ != nullptr) {
    MTF_ASSIGN_OR_RETURN(std::optional<PricedChange> few,
                         PriceByFewLayers(rules));
    if (few) return *std::move(few);
  }
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding, Bind(rules));
  MTF_ASSIGN_OR_RETURN(Program program, Lowered(binding, nullptr));
  RuleChange change = PriceProgram(program, step_.machine);
  change.layout = LayoutText(rules);
  return PricedChange{std::move(change), std::move(program), {}};
}

absl::StatusOr<std::optional<PricedChange>> RulePricer::PriceByFewLayers(
    const Rules& rules) const {
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding, Bind(rules));
  std::optional<std::vector<int>> kept = chooser_->first();
  while (kept) {
    const auto few = chooser_->Keep(*kept);
    MTF_ASSIGN_OR_RETURN(Program program, Lowered(binding, few.get()));
    DeepEstimate deep = CostOfAllLayers(program, step_.machine, *few);
    std::optional<PricedChange> priced;
    if (deep.cost) {
      RuleChange change;
      change.cost = deep.cost->cost;
      change.memory = deep.cost->memory;
      priced.emplace(PricedChange{std::move(change), std::move(program),
                                  std::move(deep.cost->wire_bytes)});
    } else {
      kept = chooser_->KeepMore(*std::move(kept), deep);
      if (kept || !chooser_->AllLayersAreTooSlow()) continue;
      MTF_ASSIGN_OR_RETURN(priced, Estimate(binding, *few, std::move(program)));
    }
    priced->change.layout = LayoutText(rules);
    return priced;
  }
  return std::nullopt;
}

// Assumes that every left out repeat costs as much as one of those that are
// kept.
absl::StatusOr<PricedChange> RulePricer::Estimate(const LayoutBinding& binding,
                                                  const FewLayers& few,
                                                  Program program) const {
  const RuleChange all = PriceProgram(program, step_.machine);
  RuleChange change = all;
  for (size_t run = 0; run < few.kept.size(); ++run) {
    if (few.left_out[run] == 0) continue;
    std::vector<int> fewer = few.kept;
    --fewer[run];
    MTF_ASSIGN_OR_RETURN(const Program less,
                         Lowered(binding, chooser_->Keep(fewer).get()));
    AddWeighted(few.left_out[run], all, change);
    AddWeighted(-few.left_out[run], PriceProgram(less, step_.machine), change);
  }
  // Unused memory between tensors does not grow with the layers.
  change.memory.unused = all.memory.unused;
  change.cost.memory_bytes = change.memory.total();
  change.estimated = true;
  std::vector<int64_t> wire_bytes(program.instructions.size(), 0);
  const double scale =
      static_cast<double>(change.cost.wire_bytes) /
      static_cast<double>(std::max<int64_t>(1, all.cost.wire_bytes));
  for (const CollectiveCost& collective : ListCollectives(program)) {
    wire_bytes[collective.instruction] =
        static_cast<int64_t>(scale * static_cast<double>(collective.bytes));
  }
  return PricedChange{std::move(change), std::move(program),
                      std::move(wire_bytes)};
}

}  // namespace mtf::internal
