// SPDX-License-Identifier: Apache-2.0
#include "planning/search/mesh_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planning/cost/parallel_for.h"

namespace mtf::internal {
namespace {

// The number of layouts that are priced together. The result does not depend on
// it, but the number of lowered layouts does, so it is not the number of
// threads.
constexpr size_t kBatch = 16;

}  // namespace

std::vector<absl::StatusOr<std::optional<FoundLayout>>> PriceAll(
    const SearchContext& context, const SearchSpace& space,
    const std::vector<LayoutToPrice>& layouts, double limit) {
  std::vector<absl::StatusOr<std::optional<FoundLayout>>> found(
      layouts.size(), absl::UnknownError("not priced"));
  ParallelFor(layouts.size(), [&](size_t i) {
    found[i] = context.pricer.Price(space.mesh,
                                    RulesText(space, layouts[i].roles), limit);
    if (!found[i].ok() || !*found[i] || !(*found[i])->estimated) return;
    // Programs with few layers may have their peak elsewhere than the program
    // with all layers.
    FoundLayout& layout = **found[i];
    layout.price.seconds = std::max(layout.price.seconds, layouts[i].seconds);
    layout.step_bytes =
        std::max(layout.step_bytes, static_cast<int64_t>(layouts[i].memory) -
                                        layout.variable_bytes);
  });
  if (context.options.progress) {
    context.options.progress(
        context.frontier.result.lowered + static_cast<int64_t>(layouts.size()),
        context.frontier.Worst(1));
  }
  return found;
}

MeshSearch::MeshSearch(const SearchContext& context, const SearchSpace& space)
    : context_(context), space_(space), frontier_(context.frontier) {
  for (size_t i = 0; i < num_axes(); ++i) {
    previous_equal_.push_back(-1);
    for (size_t j = 0; j < i; ++j) {
      if (AreAlike(space_, context.prices, static_cast<int>(j),
                   static_cast<int>(i))) {
        previous_equal_[i] = static_cast<int>(j);
      }
    }
  }
  if (context.workload != nullptr) {
    bounds_ =
        std::make_unique<SearchBounds>(context.step, *context.workload, space_,
                                       context.prices, context.traffic);
  }
  ListGroups();
}

double MeshSearch::SecondsLimit() const {
  return frontier_.Worst(
      context_.is_large ? 1 : static_cast<size_t>(context_.options.keep));
}

bool MeshSearch::IsCanonical(const AxisIndices& indices, size_t axis) const {
  return previous_equal_[axis] < 0 ||
         indices[axis] >= indices[previous_equal_[axis]];
}

void MeshSearch::ListGroups() {
  Groups groups;
  std::vector<DimSet> sharded(num_axes());
  const auto choose = [&](const auto& self, size_t axis) -> void {
    if (axis == num_axes()) {
      if (bounds_) groups.compute = bounds_->ComputeSeconds(sharded);
      groups_.push_back(groups);
      return;
    }
    for (int g = 0; g < space_.num_groups(); ++g) {
      groups.group[axis] = static_cast<uint16_t>(g);
      if (!IsCanonical(groups.group, axis)) continue;
      sharded[axis] = space_.roles[space_.groups[g]].sharded;
      self(self, axis + 1);
    }
  };
  choose(choose, 0);
  std::stable_sort(
      groups_.begin(), groups_.end(),
      [](const Groups& a, const Groups& b) { return a.compute < b.compute; });
}

// Appends the layouts of `groups` that may be better than the known ones.
void MeshSearch::AddCandidates(const Groups& groups,
                               std::vector<Candidate>& candidates) {
  const double limit = SecondsLimit();
  Candidate candidate, smallest;
  smallest.memory = std::numeric_limits<double>::infinity();
  Roles roles(num_axes());
  const auto choose = [&](const auto& self, size_t axis) -> void {
    if (axis == num_axes()) {
      AxisRoles layout = RolesOf(space_, roles);
      for (bool keep_gathered : {false, true}) {
        if (keep_gathered && !layout.shards_parameters()) break;
        candidate.keep_gathered = keep_gathered;
        candidate.seconds = candidate.estimate = candidate.memory = 0;
        layout.keep_gathered = keep_gathered;
        if (bounds_) candidate.memory = bounds_->MemoryOf(layout);
        if (candidate.memory < smallest.memory) smallest = candidate;
        if (!frontier_.MayFit(candidate.memory)) continue;
        if (bounds_) {
          const SearchBounds::Bound bound =
              bounds_->Of(roles, groups.compute, keep_gathered);
          candidate.seconds = bound.seconds;
          candidate.estimate = bound.estimate;
        }
        if (candidate.seconds < limit) candidates.push_back(candidate);
      }
      return;
    }
    const int g = groups.group[axis];
    for (int r = space_.groups[g]; r < space_.groups[g + 1]; ++r) {
      roles[axis] = r;
      candidate.role[axis] = static_cast<uint16_t>(r);
      if (!IsCanonical(candidate.role, axis)) continue;
      if (context_.meshes_of_fewer_axes && axis > 0 && r == roles[axis - 1]) {
        continue;
      }
      self(self, axis + 1);
    }
  };
  choose(choose, 0);
  if (bounds_ && smallest.memory < std::numeric_limits<double>::infinity()) {
    smallest_[groups.group] = smallest;
  }
}

namespace {

template <class Candidates>
void SortByEstimate(Candidates& candidates) {
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const auto& a, const auto& b) { return a.estimate < b.estimate; });
}

}  // namespace

void MeshSearch::PricePromising() {
  if (!bounds_) return;
  constexpr size_t kMany = 4000, kTries = 16;
  std::vector<Candidate> candidates;
  for (const Groups& groups : groups_) {
    AddCandidates(groups, candidates);
    if (candidates.size() > kMany) break;
  }
  SortByEstimate(candidates);
  // How much more memory layouts take than their bounds.
  double ratio = 1;
  size_t tries = 0;
  std::vector<Candidate> batch;
  for (const Candidate& candidate : candidates) {
    if (tries >= kTries || candidate.estimate >= SecondsLimit()) break;
    if (!frontier_.MayFit(candidate.memory * ratio)) continue;
    batch.push_back(candidate);
    if (batch.size() < kBatch / 2) continue;
    tries += batch.size();
    const double seen = Price(batch);
    if (seen > 0) ratio = seen;
  }
  Price(batch);
}

absl::Status MeshSearch::PriceRemaining() {
  std::vector<Candidate> candidates;
  for (const Groups& groups : groups_) {
    if (groups.compute >= SecondsLimit()) break;
    AddCandidates(groups, candidates);
  }
  SortByEstimate(candidates);
  std::vector<Candidate> batch;
  for (const Candidate& candidate : candidates) {
    if (candidate.seconds >= SecondsLimit()) continue;
    if (context_.is_large &&
        frontier_.result.lowered >= context_.options.most_lowered) {
      frontier_.result.complete = false;
      break;
    }
    batch.push_back(candidate);
    if (batch.size() == kBatch) Price(batch);
  }
  Price(batch);
  // If nothing fits, the error states how much memory is missing.
  if (frontier_.Best(1).empty()) {
    for (const auto& [group, candidate] : smallest_) batch.push_back(candidate);
    std::stable_sort(batch.begin(), batch.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return a.memory < b.memory;
                     });
    if (batch.size() > kBatch) batch.resize(kBatch);
    Price(batch);
  }
  return error_;
}

std::vector<MeshSearch::Default> MeshSearch::NearlyFastest() const {
  constexpr double kNear = 1.25;
  std::vector<Default> defaults;
  for (const Groups& groups : groups_) {
    if (groups.compute > kNear * groups_[0].compute) break;
    Default& found = defaults.emplace_back();
    for (size_t axis = 0; axis < num_axes(); ++axis) {
      found.sharded.push_back(
          space_.roles[space_.groups[groups.group[axis]]].sharded);
    }
    const auto smallest = smallest_.find(groups.group);
    if (smallest == smallest_.end()) continue;
    const Candidate& candidate = smallest->second;
    found.smallest = RolesOf(
        space_,
        Roles(candidate.role.begin(), candidate.role.begin() + num_axes()));
    found.smallest->keep_gathered = candidate.keep_gathered;
  }
  return defaults;
}

// Prices those layouts of a batch that were not priced before, and empties it.
// Returns the ratio of memory to its lower bound for the last one, or 0.
double MeshSearch::Price(std::vector<Candidate>& batch) {
  std::vector<LayoutToPrice> layouts;
  for (const Candidate& candidate : batch) {
    if (!priced_.insert({candidate.role, candidate.keep_gathered}).second) {
      continue;
    }
    const Roles roles(candidate.role.begin(),
                      candidate.role.begin() + num_axes());
    layouts.push_back(
        {RolesOf(space_, roles), candidate.seconds, candidate.memory});
    layouts.back().roles.keep_gathered = candidate.keep_gathered;
  }
  batch.clear();
  const auto found = PriceAll(context_, space_, layouts, SecondsLimit());
  double ratio = 0;
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (!found[i].ok()) {
      // Layouts that do not lower are skipped. The error of the first, which is
      // replicated, is returned, because then no layout lowers.
      if (layouts[i].roles == RolesOf(space_, Roles(num_axes(), 0))) {
        error_ = found[i].status();
      }
      continue;
    }
    if (!*found[i]) {
      ++frontier_.result.lowered;
      continue;
    }
    frontier_.Add({**found[i], &space_, layouts[i].roles});
    if (layouts[i].memory > 0) {
      ratio =
          static_cast<double>((*found[i])->memory_bytes()) / layouts[i].memory;
    }
  }
  return ratio;
}

}  // namespace mtf::internal
