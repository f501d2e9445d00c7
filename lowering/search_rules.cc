// SPDX-License-Identifier: Apache-2.0
#include "lowering/search_rules.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "layouts/text_items.h"
#include "lowering/estimate_time.h"
#include "lowering/parallel_for.h"
#include "lowering/search_bounds.h"
#include "lowering/search_space.h"
#include "mtf/status.h"

namespace mtf {
namespace {

using internal::AxisRole;
using internal::DimSet;
using internal::Roles;
using internal::SearchBounds;
using internal::SearchSpace;

constexpr double kNever = std::numeric_limits<double>::infinity();

int64_t VariableBytes(const Program& program) {
  int64_t bytes = 0;
  for (const ProgramVariable& variable : program.variables) {
    bytes += LocalElements(program.grains, variable.shape, variable.layout) *
             DTypeSize(variable.dtype);
  }
  return bytes;
}

// Lowers the step under the rules in `found` and fills in what it costs.
absl::Status PriceWhole(const SearchProgram& program,
                        const SearchPrices& prices, FoundLayout& found) {
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindLayout(*program.graph, found.mesh, found.rules));
  MTF_ASSIGN_OR_RETURN(
      const Program lowered,
      Lower(*program.graph, binding, program.targets, {.verify = false}));
  found.price = prices.step(lowered);
  found.variable_bytes = VariableBytes(lowered);
  found.step_bytes = lowered.buffers.arena_bytes;
  return absl::OkStatus();
}

// Fills in what the whole step costs by the small ones.
absl::Status PriceInLine(const SearchInput& input, const SearchPrices& prices,
                         FoundLayout& found) {
  FoundLayout high = found;
  MTF_RETURN_IF_ERROR(PriceWhole(input.small[0], prices, found));
  MTF_RETURN_IF_ERROR(PriceWhole(input.small[1], prices, high));
  const double t =
      static_cast<double>(input.program.repeats - input.small[0].repeats) /
      static_cast<double>(input.small[1].repeats - input.small[0].repeats);
  const auto in_line = [t](double low, double high) {
    return low + t * (high - low);
  };
  found.price.seconds = in_line(found.price.seconds, high.price.seconds);
  found.price.compute = in_line(found.price.compute, high.price.compute);
  found.price.exposed = in_line(found.price.exposed, high.price.exposed);
  for (int64_t FoundLayout::*bytes :
       {&FoundLayout::variable_bytes, &FoundLayout::step_bytes}) {
    found.*bytes = static_cast<int64_t>(in_line(
        static_cast<double>(found.*bytes), static_cast<double>(high.*bytes)));
  }
  return absl::OkStatus();
}

// Prices that differ by less are one: sums in another order.
bool Same(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

bool Better(const FoundLayout& a, const FoundLayout& b) {
  if (!Same(a.price.seconds, b.price.seconds)) {
    return a.price.seconds < b.price.seconds;
  }
  if (a.memory_bytes() != b.memory_bytes()) {
    return a.memory_bytes() < b.memory_bytes();
  }
  return a.rules.rules().size() < b.rules.rules().size();
}

// The best layouts so far, and the smallest of those that are too large.
class Findings {
 public:
  Findings(const SearchOptions& options, size_t keep, size_t spare)
      : limit_(options.memory_limit), keep_(keep), spare_(spare) {}

  void Add(FoundLayout found) {
    ++result.lowered;
    if (!Fits(found)) {
      ++result.too_large;
      if (!smallest || found.memory_bytes() < smallest->memory_bytes()) {
        smallest = std::move(found);
      }
      return;
    }
    for (FoundLayout& known : result.best) {
      if (known.mesh == found.mesh &&
          Same(known.price.seconds, found.price.seconds) &&
          known.memory_bytes() == found.memory_bytes()) {
        if (Better(found, known)) known = std::move(found);
        return;
      }
    }
    result.best.push_back(std::move(found));
    std::sort(result.best.begin(), result.best.end(), Better);
    if (result.best.size() > keep_ + spare_) result.best.pop_back();
  }

  bool Fits(const FoundLayout& found) const {
    return limit_ <= 0 || found.memory_bytes() <= limit_;
  }
  bool MayFit(double memory_bound) const {
    return limit_ <= 0 || memory_bound <= static_cast<double>(limit_);
  }
  // Slower layouts are of no interest.
  double worst() const {
    return result.best.size() < keep_ ? kNever
                                      : result.best[keep_ - 1].price.seconds;
  }

  SearchResult result;
  std::optional<FoundLayout> smallest;

 private:
  int64_t limit_;
  size_t keep_, spare_;
};

// The search on one mesh.
class MeshSearch {
 public:
  MeshSearch(const SearchInput& input, const SearchPrices& prices,
             const SearchOptions& options, Findings& findings)
      : input_(input),
        prices_(prices),
        options_(options),
        findings_(findings) {}

  absl::Status Run(const Mesh& mesh) {
    // A block more changes nothing about which dimensions meet.
    MTF_ASSIGN_OR_RETURN(
        space_, internal::MakeSearchSpace(
                    input_.small.empty() ? input_.program : input_.small[0],
                    mesh, options_));
    findings_.result.space += space_.size();
    findings_.result.restricted =
        findings_.result.restricted || space_.restricted;
    const int count = static_cast<int>(space_.axes.size());
    for (int i = 0; i < count; ++i) {
      before_.push_back(-1);
      for (int j = 0; j < i; ++j) {
        if (internal::AreAlike(space_, prices_, j, i)) before_[i] = j;
      }
    }
    if (prices_.matmul != nullptr && prices_.copy != nullptr &&
        prices_.collective != nullptr) {
      MTF_ASSIGN_OR_RETURN(SearchBounds bounds,
                           SearchBounds::Make(input_, space_, prices_));
      bounds_ = std::make_unique<SearchBounds>(std::move(bounds));
    }
    ListGroups();
    // First a good layout, which then rules most others out.
    FindFirst();
    return ProveBest();
  }

 private:
  // A choice of what each axis cuts in the default section.
  struct Groups {
    std::array<uint16_t, kMaxMeshAxes> group = {};
    double compute = 0;
  };
  struct Candidate {
    std::array<uint16_t, kMaxMeshAxes> role = {};
    double seconds = 0, estimate = 0, memory = 0;
  };

  int num_axes() const { return static_cast<int>(space_.axes.size()); }

  void ListGroups() {
    Groups groups;
    std::vector<DimSet> cuts(num_axes());
    const auto choose = [&](const auto& self, int axis) -> void {
      if (axis == num_axes()) {
        if (bounds_) groups.compute = bounds_->ComputeSeconds(cuts);
        groups_.push_back(groups);
        return;
      }
      for (int g = 0; g < space_.num_groups(); ++g) {
        if (before_[axis] >= 0 && g < groups.group[before_[axis]]) continue;
        groups.group[axis] = static_cast<uint16_t>(g);
        cuts[axis] = space_.roles[space_.groups[g]].cuts;
        self(self, axis + 1);
      }
    };
    choose(choose, 0);
    std::stable_sort(
        groups_.begin(), groups_.end(),
        [](const Groups& a, const Groups& b) { return a.compute < b.compute; });
  }

  // Appends the layouts of `groups` that may be better than what is known.
  void AddCandidates(const Groups& groups, std::vector<Candidate>& candidates) {
    Candidate candidate;
    Roles roles(num_axes());
    const auto choose = [&](const auto& self, int axis) -> void {
      if (axis == num_axes()) {
        if (bounds_) {
          const SearchBounds::Bound bound = bounds_->Of(roles, groups.compute);
          candidate.seconds = bound.seconds;
          candidate.estimate = bound.estimate;
          candidate.memory = bound.memory;
        }
        if (candidate.seconds >= findings_.worst()) return;
        if (!findings_.MayFit(candidate.memory)) {
          if (candidate.memory < least_memory_) {
            least_memory_ = candidate.memory;
            smallest_ = candidate;
          }
          return;
        }
        candidates.push_back(candidate);
        return;
      }
      const int g = groups.group[axis];
      for (int r = space_.groups[g]; r < space_.groups[g + 1]; ++r) {
        if (before_[axis] >= 0 && r < roles[before_[axis]]) continue;
        roles[axis] = r;
        candidate.role[axis] = static_cast<uint16_t>(r);
        self(self, axis + 1);
      }
    };
    choose(choose, 0);
  }

  void FindFirst() {
    if (!bounds_) return;
    constexpr size_t kMany = 4000, kTries = 24;
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
      if (tries >= kTries || candidate.estimate >= findings_.worst()) break;
      if (!findings_.MayFit(candidate.memory * ratio)) continue;
      batch.push_back(candidate);
      if (batch.size() < kBatch / 2) continue;
      tries += batch.size();
      const double seen = Price(batch);
      if (seen > 0) ratio = seen;
    }
    Price(batch);
  }

  absl::Status ProveBest() {
    std::vector<Candidate> candidates;
    for (const Groups& groups : groups_) {
      if (groups.compute >= findings_.worst()) break;
      AddCandidates(groups, candidates);
    }
    SortByEstimate(candidates);
    std::vector<Candidate> batch;
    for (const Candidate& candidate : candidates) {
      if (candidate.seconds >= findings_.worst()) continue;
      if (findings_.result.lowered >= options_.most_lowered) {
        findings_.result.complete = false;
        break;
      }
      batch.push_back(candidate);
      if (batch.size() == kBatch) Price(batch);
    }
    Price(batch);
    // With nothing that fits, the caller wants to know how much is missing.
    if (findings_.result.best.empty() && least_memory_ < kNever) {
      batch = {smallest_};
      Price(batch);
    }
    const bool any =
        !findings_.result.best.empty() || findings_.smallest.has_value();
    return any ? absl::OkStatus() : error_;
  }

  static void SortByEstimate(std::vector<Candidate>& candidates) {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return a.estimate < b.estimate;
                     });
  }

  // What a layout costs, by its own lowering.
  absl::StatusOr<FoundLayout> Evaluate(const Candidate& candidate) const {
    FoundLayout found;
    found.mesh = space_.mesh;
    found.text = RulesText(space_, Roles(candidate.role.begin(),
                                         candidate.role.begin() + num_axes()));
    MTF_ASSIGN_OR_RETURN(found.rules, LayoutRules::Parse(found.text, "search"));
    MTF_RETURN_IF_ERROR(input_.small.empty()
                            ? PriceWhole(input_.program, prices_, found)
                            : PriceInLine(input_, prices_, found));
    // The small programs may be at their largest elsewhere than the whole.
    found.price.seconds = std::max(found.price.seconds, candidate.seconds);
    found.step_bytes =
        std::max(found.step_bytes,
                 static_cast<int64_t>(candidate.memory) - found.variable_bytes);
    return found;
  }

  // Prices the layouts of a batch that have not been, adds them to what is
  // found, in order, and empties it. Returns how much more memory the last one
  // takes than its bound, or 0.
  double Price(std::vector<Candidate>& batch) {
    std::vector<Candidate> fresh;
    for (const Candidate& candidate : batch) {
      if (priced_.insert(candidate.role).second) fresh.push_back(candidate);
    }
    batch.clear();
    std::vector<absl::StatusOr<FoundLayout>> found(
        fresh.size(), absl::UnknownError("not priced"));
    internal::ParallelFor(fresh.size(),
                          [&](size_t i) { found[i] = Evaluate(fresh[i]); });
    double ratio = 0;
    for (size_t i = 0; i < fresh.size(); ++i) {
      if (!found[i].ok()) {
        // What does not lower is no layout; but if nothing does, that is told.
        if (fresh[i].role == decltype(fresh[i].role){}) {
          error_ = found[i].status();
        }
        continue;
      }
      if (fresh[i].memory > 0) {
        ratio = static_cast<double>(found[i]->memory_bytes()) / fresh[i].memory;
      }
      findings_.Add(*std::move(found[i]));
    }
    return ratio;
  }

  // Layouts that are priced at once. What is found does not depend on it, but
  // what is lowered in vain does, so it is no number of threads.
  static constexpr size_t kBatch = 16;

  const SearchInput& input_;
  const SearchPrices& prices_;
  const SearchOptions& options_;
  Findings& findings_;
  SearchSpace space_;
  std::unique_ptr<SearchBounds> bounds_;
  // By place of an axis: the axis before it that is like it, or -1.
  std::vector<int> before_;
  std::vector<Groups> groups_;
  std::set<std::array<uint16_t, kMaxMeshAxes>> priced_;
  double least_memory_ = kNever;
  Candidate smallest_;
  absl::Status error_;
};

std::string BytesText(int64_t bytes) {
  return absl::StrCat(bytes, " bytes (", (bytes + (int64_t{1} << 20) - 1) >> 20,
                      " MiB)");
}

absl::Status NothingFits(const Findings& findings, int64_t limit) {
  const FoundLayout& smallest = *findings.smallest;
  std::string rules = smallest.text;
  std::replace(rules.begin(), rules.end(), '\n', ' ');
  return absl::ResourceExhaustedError(absl::StrCat(
      "no layout fits into ", BytesText(limit), " per rank; the smallest of ",
      findings.result.lowered, " that were lowered takes ",
      BytesText(smallest.memory_bytes()),
      DetailLine("rules",
                 rules.empty() ? "none: all is whole everywhere" : rules),
      DetailLine("mesh", smallest.mesh.ToString()),
      DetailLine("memory",
                 absl::StrCat("variables ", smallest.variable_bytes,
                              " bytes, step ", smallest.step_bytes, " bytes")),
      DetailLine("help",
                 "take more devices, a smaller batch, or a higher limit")));
}

absl::Status CheckInput(const SearchInput& input,
                        const SearchOptions& options) {
  MTF_RETURN_IF_ERROR(input.program.graph->status());
  const bool in_line =
      input.small.empty() || (input.small.size() == 2 &&
                              input.small[0].repeats < input.small[1].repeats &&
                              input.small[1].repeats <= input.program.repeats);
  if (!in_line || options.keep < 1) {
    return absl::InvalidArgumentError(
        in_line ? "a search keeps at least one layout"
                : "a search takes two small programs of rising numbers of "
                  "repeats, or none");
  }
  for (const SearchProgram& program : input.small) {
    MTF_RETURN_IF_ERROR(program.graph->status());
  }
  return absl::OkStatus();
}

absl::StatusOr<SearchResult> Search(const SearchInput& input,
                                    const std::vector<Mesh>& meshes,
                                    const SearchPrices& prices,
                                    const SearchOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  MTF_RETURN_IF_ERROR(CheckInput(input, options));
  const size_t keep = static_cast<size_t>(options.keep);
  // Small programs price to a percent or so: the next best stand by, and what
  // seems to fit may turn out not to.
  constexpr size_t kSpare = 3;
  Findings found(options, keep, input.small.empty() ? 0 : kSpare);
  for (const Mesh& mesh : meshes) {
    MeshSearch search(input, prices, options, found);
    MTF_RETURN_IF_ERROR(search.Run(mesh));
  }
  if (!input.small.empty()) {
    // From here on exactly.
    std::vector<FoundLayout> candidates = std::move(found.result.best);
    found.result.best.clear();
    std::vector<absl::Status> priced(candidates.size());
    internal::ParallelFor(candidates.size(), [&](size_t i) {
      priced[i] = PriceWhole(input.program, prices, candidates[i]);
    });
    for (size_t i = 0; i < candidates.size(); ++i) {
      MTF_RETURN_IF_ERROR(priced[i]);
      --found.result.lowered;  // it was counted
      found.Add(std::move(candidates[i]));
    }
    if (found.result.best.size() > keep) found.result.best.resize(keep);
  }
  if (found.result.best.empty() && !found.smallest) {
    return absl::InternalError("a search has lowered no layout");
  }
  if (found.result.best.empty()) {
    return NothingFits(found, options.memory_limit);
  }
  found.result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return std::move(found.result);
}

// Appends every mesh of `devices` devices with `axes` axes, `sizes` given.
void AddMeshes(int64_t devices, int axes, std::vector<int64_t>& sizes,
               std::vector<Mesh>& meshes) {
  if (axes == 1) {
    if (devices == 1 && !sizes.empty()) return;
    sizes.push_back(devices);
    constexpr const char* kNames[3][3] = {
        {"all"}, {"outer", "inner"}, {"outer", "middle", "inner"}};
    std::string text;
    for (size_t i = 0; i < sizes.size(); ++i) {
      absl::StrAppend(&text, i > 0 ? "," : "", kNames[sizes.size() - 1][i], ":",
                      sizes[i]);
    }
    meshes.push_back(*Mesh::Parse(text));
    sizes.pop_back();
    return;
  }
  for (int64_t size = 2; size <= devices / 2; ++size) {
    if (devices % size != 0) continue;
    sizes.push_back(size);
    AddMeshes(devices / size, axes - 1, sizes, meshes);
    sizes.pop_back();
  }
}

}  // namespace

SearchPrices PricesOf(const Machine& machine) {
  SearchPrices prices;
  prices.step = [machine](const Program& program) {
    const StepEstimate estimate = EstimateStep(program, machine);
    return StepPrice{estimate.seconds, estimate.compute, estimate.exposed};
  };
  prices.matmul = [machine](DType dtype, int64_t batch, int64_t m, int64_t n,
                            int64_t k) {
    return machine.MatmulSeconds(dtype, batch, m, n, k);
  };
  prices.copy = [machine](int64_t bytes) { return machine.CopySeconds(bytes); };
  prices.collective = [machine](CollectiveKind kind, const Mesh& mesh,
                                const AxisList& axes, int64_t bytes) {
    return machine.CollectiveSeconds(kind, mesh, axes, bytes);
  };
  prices.overlaps = machine.overlaps();
  return prices;
}

absl::StatusOr<SearchResult> SearchRules(const SearchInput& input,
                                         const Mesh& mesh,
                                         const SearchPrices& prices,
                                         const SearchOptions& options) {
  return Search(input, {mesh}, prices, options);
}

absl::StatusOr<SearchResult> SearchMeshes(const SearchInput& input,
                                          int64_t devices, int most_axes,
                                          const SearchPrices& prices,
                                          const SearchOptions& options) {
  if (devices < 1 || most_axes < 1 || most_axes > 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a search takes at least one device and one to three axes, not ",
        devices, " and ", most_axes));
  }
  std::vector<Mesh> meshes;
  for (int axes = 1; axes <= most_axes; ++axes) {
    std::vector<int64_t> sizes;
    AddMeshes(devices, axes, sizes, meshes);
  }
  return Search(input, meshes, prices, options);
}

}  // namespace mtf
