// SPDX-License-Identifier: Apache-2.0
#include "lowering/search_rules.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "lowering/check_budget.h"
#include "lowering/estimate_time.h"
#include "lowering/parallel_for.h"
#include "lowering/search_branches.h"
#include "lowering/search_findings.h"
#include "lowering/search_price.h"
#include "lowering/search_refine.h"
#include "lowering/search_space.h"
#include "mtf/status.h"

namespace mtf {
namespace {

using internal::Finding;
using internal::Findings;
using internal::LayoutPricer;
using internal::MeshSearch;
using internal::SearchContext;
using internal::SearchDimensions;
using internal::SearchSpace;

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

// The lines of the budget that say nothing on `mesh`.
absl::Status CheckBudgetOn(const Mesh& mesh, const SearchInput& input,
                           const SearchOptions& options, SearchResult& result) {
  MTF_ASSIGN_OR_RETURN(
      const std::vector<std::string> notices,
      CheckBudgetNames(options.budget, mesh, *input.program.graph, false));
  for (const std::string& notice : notices) {
    const bool known = std::find(result.notices.begin(), result.notices.end(),
                                 notice) != result.notices.end();
    if (!known) result.notices.push_back(notice);
  }
  return absl::OkStatus();
}

// Moves up to `count` of `others` behind `chosen`: no two that take the same
// time, to a hundredth. What a line says of memory is too rough to tell two
// layouts apart.
void ChooseDifferent(size_t count, std::vector<Finding>& others,
                     std::vector<Finding>& chosen) {
  std::vector<double> known;
  std::erase_if(others, [&](Finding& other) {
    const double seconds = other.layout.price.seconds;
    if (count == 0 || other.slower_neighbour ||
        std::any_of(known.begin(), known.end(), [&](double one) {
          return std::abs(one - seconds) < 0.01 * seconds;
        })) {
      return false;
    }
    known.push_back(seconds);
    chosen.push_back(std::move(other));
    --count;
    return true;
  });
}

// Prices the best of what was found as a whole: those that differ, and as many
// of the others as cost little. All may turn out too large; then others get
// their turn, once.
absl::Status PriceBest(const LayoutPricer& pricer, const SearchInput& input,
                       size_t keep, Findings& findings) {
  constexpr int64_t kRepeats = 200;  // to lower in all
  const size_t most =
      std::max(keep, static_cast<size_t>(kRepeats / input.program.repeats));
  std::vector<Finding> others = findings.Take(), chosen;
  const auto price = [&]() -> absl::Status {
    std::vector<absl::Status> priced(chosen.size());
    internal::ParallelFor(chosen.size(), [&](size_t i) {
      priced[i] = pricer.PriceWhole(chosen[i].layout);
    });
    for (size_t i = 0; i < chosen.size(); ++i) {
      MTF_RETURN_IF_ERROR(priced[i]);
      findings.Keep(std::move(chosen[i]));
    }
    chosen.clear();
    return absl::OkStatus();
  };
  ChooseDifferent(keep, others, chosen);
  const size_t more = std::min(most - chosen.size(), others.size());
  const auto end = others.begin() + static_cast<std::ptrdiff_t>(more);
  std::move(others.begin(), end, std::back_inserter(chosen));
  others.erase(others.begin(), end);
  if (chosen.empty() && findings.nearest()) {
    chosen.push_back(*findings.nearest());
  }
  MTF_RETURN_IF_ERROR(price());
  if (!findings.Best(1).empty()) return absl::OkStatus();
  ChooseDifferent(keep, others, chosen);
  return price();
}

absl::StatusOr<SearchResult> Search(const SearchInput& input,
                                    const std::vector<Mesh>& meshes,
                                    const SearchPrices& prices,
                                    const SearchOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  MTF_RETURN_IF_ERROR(CheckInput(input, options));
  const size_t keep = static_cast<size_t>(options.keep);
  // A block more changes nothing about which dimensions meet.
  MTF_ASSIGN_OR_RETURN(
      const SearchDimensions dimensions,
      internal::FindSearchDimensions(*internal::ProgramsOf(input)[0], options));
  Findings findings(options);
  SearchResult& result = findings.result;
  LayoutPricer pricer(input, prices, options.budget);
  internal::StepAmounts amounts;
  internal::TrafficTable traffic;
  SearchContext context = {input,   prices,  options, pricer,
                           nullptr, traffic, findings};
  context.meshes_of_fewer_axes = meshes.size() > 1;
  if (prices.matmul != nullptr && prices.copy != nullptr &&
      prices.collective != nullptr) {
    MTF_ASSIGN_OR_RETURN(amounts,
                         internal::AmountsOfStep(input, dimensions.names));
    context.amounts = &amounts;
  }

  std::deque<SearchSpace> spaces;
  for (const Mesh& mesh : meshes) {
    MTF_RETURN_IF_ERROR(CheckBudgetOn(mesh, input, options, result));
    MTF_ASSIGN_OR_RETURN(SearchSpace space,
                         internal::MakeSearchSpace(dimensions, mesh, options));
    result.space += space.size();
    result.restricted = result.restricted || space.restricted;
    spaces.push_back(std::move(space));
  }
  context.is_large = result.restricted || result.space > options.full_space;
  if (context.is_large) pricer.PriceInLine();
  std::deque<MeshSearch> searches;
  for (const SearchSpace& space : spaces) searches.emplace_back(context, space);
  for (MeshSearch& search : searches) search.FindFirst();
  for (MeshSearch& search : searches) {
    MTF_RETURN_IF_ERROR(search.ProveBest());
  }
  if (result.restricted) {
    std::vector<Finding> starts = findings.Best(keep);
    if (starts.empty() && findings.nearest()) {
      starts.push_back(*findings.nearest());
    }
    // What is much slower does not catch up by a rule or two, and layouts of
    // one default section come to the same end.
    constexpr double kNear = 1.01;
    std::vector<std::pair<const SearchSpace*, std::vector<internal::DimSet>>>
        seen;
    for (const Finding& start : starts) {
      std::vector<internal::DimSet> cuts;
      for (const internal::AxisRole& role : start.roles.axes) {
        cuts.push_back(role.cuts);
      }
      const std::pair key(start.space, cuts);
      if (!start.space->restricted ||
          std::find(seen.begin(), seen.end(), key) != seen.end() ||
          start.layout.price.seconds > kNear * starts[0].layout.price.seconds) {
        continue;
      }
      seen.push_back(key);
      const size_t place =
          static_cast<size_t>(std::find_if(spaces.begin(), spaces.end(),
                                           [&](const SearchSpace& space) {
                                             return &space == start.space;
                                           }) -
                              spaces.begin());
      internal::Refine(context, dimensions, searches[place].bounds(), start);
    }
  }
  if (pricer.in_line()) {
    MTF_RETURN_IF_ERROR(PriceBest(pricer, input, keep, findings));
  }
  for (Finding& finding : findings.Best(keep)) {
    result.best.push_back(std::move(finding.layout));
  }
  if (result.best.empty()) return findings.NothingFits();
  result.all_proved = !context.is_large;
  result.in_line = pricer.in_line();
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return std::move(result);
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
