// SPDX-License-Identifier: Apache-2.0
#include "planning/search/layout_pricer.h"

#include <limits>
#include <utility>
#include <vector>

#include "mtf/status.h"
#include "planning/cost/check_budget.h"
#include "planning/cost/lifetimes.h"
#include "planning/search/search_memory.h"
#include "planning/search/workload_summary.h"

namespace mtf::internal {
namespace {

int64_t VariableBytes(const Program& program) {
  int64_t bytes = 0;
  for (const ProgramVariable& variable : program.variables) {
    if (!variable.offloaded) bytes += StoredBytes(program, variable);
  }
  return bytes;
}

}  // namespace

struct LayoutPricer::Measured {
  StepPrice price;
  int64_t variable_bytes = 0;
  int64_t step_bytes = 0;
  int64_t host_bytes = 0;
  std::vector<BudgetUse> uses;
  // Set only for few layers.
  LiveBytes live;
  double least = 0;  // lower bound on the seconds of all layers
};

LayoutPricer::LayoutPricer(const SearchStep& step, const SearchPrices& prices,
                           const Budget& budget)
    : step_(step),
      few_(step.LayerSubsets().front()),
      more_(step.LayerSubsets().back()),
      prices_(prices),
      budget_(budget) {}

absl::StatusOr<LayoutPricer::Measured> LayoutPricer::Measure(
    const FoundLayout& found, const FewLayers* few) const {
  MTF_ASSIGN_OR_RETURN(
      Program lowered,
      step_.Lower(found.mesh, found.rules, few, {.fusion = prices_.fusion}));
  Measured measured;
  measured.price = prices_.step(lowered);
  measured.variable_bytes = VariableBytes(lowered);
  measured.step_bytes = lowered.buffers.arena_bytes;
  measured.host_bytes = HostBytes(lowered);
  measured.uses = MeasureBudget(lowered, budget_);
  if (few == nullptr) return measured;
  measured.live = LiveBytesAlong(lowered);
  if (prices_.least && few == few_) {
    measured.least = prices_.least(lowered, few->left_out_layers);
  }
  return measured;
}

absl::StatusOr<std::optional<FoundLayout>> LayoutPricer::Price(
    const Mesh& mesh, const std::string& rules, double limit) const {
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find({mesh.ToString(), rules});
    if (known != known_.end()) return known->second;
  }
  FoundLayout found;
  found.mesh = mesh;
  found.text = rules;
  MTF_ASSIGN_OR_RETURN(found.rules, LayoutRules::Parse(rules, "search"));
  found.rules.set_offload(step_.offload());
  const bool may_be_ruled_out = step_.is_deep() && prices_.least &&
                                limit < std::numeric_limits<double>::infinity();
  if (extrapolates_ || may_be_ruled_out) {
    MTF_ASSIGN_OR_RETURN(const auto low, MeasureLow(found, limit));
    if (low->least >= limit) return std::nullopt;
    if (extrapolates_) {
      MTF_RETURN_IF_ERROR(Extrapolate(*low, found));
      Remember(found);
      return found;
    }
  }
  MTF_RETURN_IF_ERROR(PriceAllLayers(found));
  return found;
}

absl::StatusOr<std::shared_ptr<const LayoutPricer::Measured>>
LayoutPricer::MeasureLow(const FoundLayout& found, double limit) const {
  const std::pair key(found.mesh.ToString(), found.text);
  {
    const std::lock_guard lock(mutex_);
    const auto known = low_.find(key);
    if (known != low_.end()) return known->second;
  }
  MTF_ASSIGN_OR_RETURN(Measured measured, Measure(found, few_));
  std::shared_ptr<const Measured> low =
      std::make_shared<Measured>(std::move(measured));
  if (low->least >= limit) {
    const std::lock_guard lock(mutex_);
    low_[key] = low;
  }
  return low;
}

void LayoutPricer::Remember(const FoundLayout& found) const {
  const std::lock_guard lock(mutex_);
  known_[{found.mesh.ToString(), found.text}] = found;
}

absl::Status LayoutPricer::Extrapolate(const Measured& low,
                                       FoundLayout& found) const {
  MTF_ASSIGN_OR_RETURN(const Measured high, Measure(found, more_));
  found.estimated = true;
  const double position = step_.position();
  const auto extrapolate = [position](double a, double b) {
    return a + position * (b - a);
  };
  const auto bytes = [&](int64_t a, int64_t b) {
    return static_cast<int64_t>(
        extrapolate(static_cast<double>(a), static_cast<double>(b)));
  };
  found.price = {extrapolate(low.price.seconds, high.price.seconds),
                 extrapolate(low.price.compute, high.price.compute),
                 extrapolate(low.price.exposed, high.price.exposed),
                 extrapolate(low.price.host_copies, high.price.host_copies)};
  found.variable_bytes = bytes(low.variable_bytes, high.variable_bytes);
  found.host_bytes = bytes(low.host_bytes, high.host_bytes);
  found.step_bytes = PeakLiveBytes(low.live, high.live, position);
  for (size_t i = 0; i < high.uses.size(); ++i) {
    const BudgetLine& line = high.uses[i].line;
    if (line.subject == BudgetSubject::kMemory) continue;
    const bool broken =
        line.subject == BudgetSubject::kCalls
            ? high.uses[i].exceeded
            : bytes(low.uses[i].bytes, high.uses[i].bytes) > line.most_bytes;
    if (broken) found.broken.push_back(static_cast<int>(i));
  }
  return absl::OkStatus();
}

absl::Status LayoutPricer::PriceAllLayers(FoundLayout& found) const {
  MTF_ASSIGN_OR_RETURN(const Measured with_all_layers, Measure(found, nullptr));
  found.price = with_all_layers.price;
  found.variable_bytes = with_all_layers.variable_bytes;
  found.step_bytes = with_all_layers.step_bytes;
  found.host_bytes = with_all_layers.host_bytes;
  found.broken.clear();
  found.estimated = false;
  for (size_t i = 0; i < with_all_layers.uses.size(); ++i) {
    // SearchFrontier compares memory: it has all limits.
    if (with_all_layers.uses[i].line.subject == BudgetSubject::kMemory) {
      continue;
    }
    if (with_all_layers.uses[i].exceeded) {
      found.broken.push_back(static_cast<int>(i));
    }
  }
  Remember(found);
  return absl::OkStatus();
}

}  // namespace mtf::internal
