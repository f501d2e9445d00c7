// SPDX-License-Identifier: Apache-2.0
#include "planning/search/search_layouts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "planning/cost/check_budget.h"
#include "planning/cost/estimate_time.h"
#include "planning/cost/parallel_for.h"
#include "planning/search/layout_pricer.h"
#include "planning/search/mesh_search.h"
#include "planning/search/search_frontier.h"
#include "planning/search/search_modules.h"
#include "planning/search/search_refine.h"
#include "planning/search/search_space.h"
#include "planning/search/search_step.h"

namespace mtf {
namespace {

using internal::LayoutPricer;
using internal::MeshSearch;
using internal::PricedLayout;
using internal::SearchContext;
using internal::SearchDimensions;
using internal::SearchFrontier;
using internal::SearchSpace;

absl::Status CheckInput(const SearchInput& input,
                        const SearchOptions& options) {
  MTF_RETURN_IF_ERROR(input.graph->status());
  if (options.keep >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError("a search keeps at least one layout");
}

// Adds notices for the lines of the budget that have no effect on `mesh`.
absl::Status CheckBudgetOn(const Mesh& mesh, const SearchInput& input,
                           const SearchOptions& options, SearchResult& result) {
  MTF_ASSIGN_OR_RETURN(
      const std::vector<std::string> notices,
      CheckBudgetNames(options.budget, mesh, *input.graph, false));
  for (const std::string& notice : notices) {
    const bool known = std::find(result.notices.begin(), result.notices.end(),
                                 notice) != result.notices.end();
    if (!known) result.notices.push_back(notice);
  }
  return absl::OkStatus();
}

// Moves up to `count` layouts from `remaining` to the end of `chosen`, so that
// no two of them and of `known` cost the same. Layouts next to a better one
// come last.
void ChooseDifferent(size_t count, std::vector<PricedLayout> known,
                     std::vector<PricedLayout>& remaining,
                     std::vector<PricedLayout>& chosen) {
  for (bool neighbours : {false, true}) {
    std::erase_if(remaining, [&](PricedLayout& other) {
      const bool differs = std::none_of(
          known.begin(), known.end(), [&](const PricedLayout& one) {
            return internal::CostsAreEqual(one.layout, other.layout);
          });
      if (count == 0 || other.slower_neighbour != neighbours || !differs) {
        return false;
      }
      known.push_back(other);
      chosen.push_back(std::move(other));
      --count;
      return true;
    });
  }
}

// Prices `chosen` with all layers and adds them to the frontier. Returns the
// lowest estimated time among those that turn out not to fit, or infinity.
absl::StatusOr<double> PriceAllLayersOf(const LayoutPricer& pricer,
                                        std::vector<PricedLayout> chosen,
                                        SearchFrontier& frontier) {
  std::vector<FoundLayout> with_all_layers(chosen.size());
  std::vector<absl::Status> priced(chosen.size());
  internal::ParallelFor(chosen.size(), [&](size_t i) {
    with_all_layers[i] = chosen[i].layout;
    if (with_all_layers[i].estimated) {
      priced[i] = pricer.PriceAllLayers(with_all_layers[i]);
    }
  });
  double mistaken_seconds = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < chosen.size(); ++i) {
    MTF_RETURN_IF_ERROR(priced[i]);
    if (!frontier.Fits(with_all_layers[i])) {
      mistaken_seconds =
          std::min(mistaken_seconds, chosen[i].layout.price.seconds);
    }
    chosen[i].layout = std::move(with_all_layers[i]);
    frontier.Keep(std::move(chosen[i]));
  }
  return mistaken_seconds;
}

// Prices the best estimates with all layers: `keep` layouts that differ, and
// others up to `most`; more as long as fewer than `keep` turn out to differ.
// Afterwards no layout of the frontier is an estimate. Returns the result of
// PriceAllLayersOf: up to that time the estimates misled the search.
absl::StatusOr<double> PriceBest(const LayoutPricer& pricer, size_t keep,
                                 size_t most, SearchFrontier& frontier) {
  std::vector<PricedLayout> remaining = frontier.Take(), chosen;
  const bool estimates_fit = !remaining.empty();
  if (!estimates_fit) chosen = frontier.nearest();
  ChooseDifferent(keep, {}, remaining, chosen);
  std::erase_if(remaining, [&](PricedLayout& other) {
    if (chosen.size() >= most && other.layout.estimated) return false;
    chosen.push_back(std::move(other));
    return true;
  });
  double mistaken_seconds = std::numeric_limits<double>::infinity();
  constexpr int kMoreTries = 4;
  for (int i = 0; !chosen.empty(); ++i) {
    MTF_ASSIGN_OR_RETURN(const double mistaken,
                         PriceAllLayersOf(pricer, std::move(chosen), frontier));
    if (estimates_fit) mistaken_seconds = std::min(mistaken_seconds, mistaken);
    const std::vector<PricedLayout> best = frontier.Best(keep);
    chosen.clear();
    if (best.size() == keep || i == kMoreTries) break;
    ChooseDifferent(keep - best.size(), best, remaining, chosen);
  }
  return mistaken_seconds;
}

// With many axes there are more layouts than bounds can be computed for.
absl::Status CheckNumberOfLayouts(const SearchSpace& space) {
  constexpr double kMostLayouts = 1e10;
  if (space.size() <= kMostLayouts) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "mesh ", Quoted(space.mesh.ToString()), " has ",
      absl::StrFormat("%.3g", space.size()),
      " layouts, more than can be searched",
      DetailLine("axes",
                 absl::StrCat(space.axes.size(), " of more than one device")),
      DetailLine("help",
                 "join axes over which a layout would shard the same "
                 "dimensions, or search without "
                 "the sections of variables")));
}

// Prices layouts with all layers that may fit although their estimates do not.
// Returns whether any fits: the search may then continue from it.
absl::StatusOr<bool> PriceDoubtful(const LayoutPricer& pricer,
                                   SearchFrontier& frontier) {
  constexpr size_t kMost = 16;
  std::vector<PricedLayout> doubtful = frontier.Doubtful(kMost);
  std::vector<absl::Status> priced(doubtful.size());
  internal::ParallelFor(doubtful.size(), [&](size_t i) {
    priced[i] = pricer.PriceAllLayers(doubtful[i].layout);
  });
  bool any_fits = false;
  for (size_t i = 0; i < doubtful.size(); ++i) {
    MTF_RETURN_IF_ERROR(priced[i]);
    any_fits = any_fits || frontier.Fits(doubtful[i].layout);
    frontier.Keep(std::move(doubtful[i]));
  }
  return any_fits;
}

// Adds the best layouts of `spaces` to the frontier of `context`.
absl::Status FindBest(const SearchContext& context,
                      const SearchDimensions& dimensions,
                      const std::deque<SearchSpace>& spaces) {
  SearchFrontier& frontier = context.frontier;
  std::deque<MeshSearch> searches;
  for (const SearchSpace& space : spaces) searches.emplace_back(context, space);
  for (MeshSearch& search : searches) search.PricePromising();
  for (MeshSearch& search : searches) {
    MTF_RETURN_IF_ERROR(search.PriceRemaining());
  }
  for (size_t i = 0; i < spaces.size(); ++i) {
    internal::PriceByModules(context, dimensions, spaces[i], searches[i]);
  }
  // Searches locally from each of the best layouts that differ, until all of
  // them were expanded: a layout that is nearly as good may have a better
  // neighbour. A much slower one does not become the best by a rule or two.
  constexpr size_t kStarts = 8;
  constexpr double kNear = 1.04;
  std::vector<internal::Refined> refined(spaces.size());
  const auto space_index_of = [&](const PricedLayout& candidate) {
    return std::find_if(spaces.begin(), spaces.end(),
                        [&](const SearchSpace& space) {
                          return &space == candidate.space;
                        }) -
           spaces.begin();
  };
  for (;;) {
    std::vector<PricedLayout> starts = frontier.Best(
        std::max(kStarts, static_cast<size_t>(context.options.keep)));
    const bool any_fits = !starts.empty();
    if (!any_fits) starts = frontier.nearest();
    const auto next = std::find_if(
        starts.begin(), starts.end(), [&](const PricedLayout& start) {
          // In a space that was searched in full no neighbour is better than
          // the best.
          return (start.space->restricted || start.roles.by_modules()) &&
                 (!any_fits || start.layout.price.seconds <=
                                   kNear * starts[0].layout.price.seconds) &&
                 !refined[space_index_of(start)].expanded.contains(
                     start.layout.text);
        });
    if (next == starts.end()) return absl::OkStatus();
    const auto space_index = space_index_of(*next);
    internal::Refine(context, dimensions, searches[space_index].bounds(), *next,
                     refined[space_index]);
  }
}

// The spaces of all meshes. Sets their size and the notices of the budget in
// `result`.
absl::StatusOr<std::deque<SearchSpace>> MakeSpaces(
    const SearchInput& input, const std::vector<Mesh>& meshes,
    const SearchDimensions& dimensions, const SearchOptions& options,
    SearchResult& result) {
  std::deque<SearchSpace> spaces;
  for (const Mesh& mesh : meshes) {
    MTF_RETURN_IF_ERROR(CheckBudgetOn(mesh, input, options, result));
    MTF_ASSIGN_OR_RETURN(SearchSpace space,
                         internal::MakeSearchSpace(dimensions, mesh, options));
    MTF_RETURN_IF_ERROR(CheckNumberOfLayouts(space));
    result.space += space.size();
    result.restricted = result.restricted || space.restricted;
    spaces.push_back(std::move(space));
  }
  return spaces;
}

absl::StatusOr<SearchResult> Search(const SearchInput& input,
                                    const std::vector<Mesh>& meshes,
                                    const SearchPrices& prices,
                                    const SearchOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  MTF_RETURN_IF_ERROR(CheckInput(input, options));
  const size_t keep = static_cast<size_t>(options.keep);
  const internal::SearchStep step(input, options.most_layers, prices.attention);
  MTF_ASSIGN_OR_RETURN(const SearchDimensions dimensions,
                       internal::FindSearchDimensions(step, options));
  SearchResult result;
  LayoutPricer pricer(step, prices, options.budget);
  bool is_bounded = false;
  internal::WorkloadSummary workload;
  internal::TrafficTable traffic;
  if (prices.matmul != nullptr && prices.copy != nullptr &&
      prices.collective != nullptr) {
    MTF_ASSIGN_OR_RETURN(
        workload, internal::SummarizeStep(step, dimensions.names, prices));
    is_bounded = true;
  }

  MTF_ASSIGN_OR_RETURN(const std::deque<SearchSpace> spaces,
                       MakeSpaces(input, meshes, dimensions, options, result));
  const bool is_large =
      result.restricted ||
      internal::IsLarge(result.space, step.num_layers(), options);
  if (is_large) pricer.ExtrapolateFromFewLayers();
  // A layout that is best by its estimate may be too large with all layers,
  // because the programs with few layers may have their peak elsewhere. It may
  // have ruled out the layout that is the best, so the search starts again,
  // with the exact prices known. Prices are cached, so a round is cheap; after
  // the last round no estimate was wrong.
  // Layers to lower in the first round, over all layouts.
  constexpr int64_t kFirstLayers = 200;
  constexpr int kUsualRounds = 5, kMostRounds = 16;
  constexpr size_t kMostAtOnce = 16;
  size_t most_per_round =
      std::max(keep, static_cast<size_t>(kFirstLayers / step.num_layers()));
  std::optional<SearchFrontier> frontier;
  for (int round = 1;; ++round) {
    // Exact prices stay in the frontier.
    std::vector<PricedLayout> known;
    if (frontier) {
      known = frontier->Take();
      if (frontier->nearest_with_all_layers()) {
        known.push_back(*frontier->nearest_with_all_layers());
      }
    }
    frontier.emplace(options);
    frontier->result = result;
    for (PricedLayout& candidate : known) frontier->Keep(std::move(candidate));
    const SearchContext context = {.step = step,
                                   .prices = prices,
                                   .options = options,
                                   .pricer = pricer,
                                   .workload = is_bounded ? &workload : nullptr,
                                   .traffic = traffic,
                                   .frontier = *frontier,
                                   .is_large = is_large,
                                   .meshes_of_fewer_axes = meshes.size() > 1};
    MTF_RETURN_IF_ERROR(FindBest(context, dimensions, spaces));
    if (!pricer.extrapolates()) break;
    MTF_ASSIGN_OR_RETURN(const double mistaken_seconds,
                         PriceBest(pricer, keep, most_per_round, *frontier));
    MTF_ASSIGN_OR_RETURN(const bool others_fit,
                         PriceDoubtful(pricer, *frontier));
    // The best layout gets as many rounds as needed, the others get a few.
    if (!others_fit &&
        mistaken_seconds >= frontier->Worst(round < kUsualRounds ? keep : 1)) {
      break;
    }
    // An error that nothing fits is returned only if no estimate fits either.
    if (round >= kMostRounds && !frontier->Best(1).empty()) {
      frontier->result.complete = false;
      break;
    }
    // If more rounds are needed than usual, each round prices more layouts.
    if (round >= kUsualRounds) {
      most_per_round =
          std::min(2 * most_per_round, std::max(keep, kMostAtOnce));
    }
  }
  result = std::move(frontier->result);
  for (PricedLayout& candidate : frontier->Best(keep)) {
    result.best.push_back(std::move(candidate.layout));
  }
  if (result.best.empty()) return frontier->NothingFits();
  result.searched_in_full = !is_large && result.by_modules == 0;
  if (pricer.extrapolates()) result.priced_layers = step.LayerSubsetSizes();
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return result;
}

// Appends every mesh whose first axes have `sizes` and whose last `axes` axes
// have `devices` devices in all.
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
  prices.attention = machine.attention();
  prices.fusion = machine.fusion();
  prices.step = [machine](const Program& program) {
    const StepEstimate estimate = EstimateStep(program, machine);
    return StepPrice{estimate.seconds, estimate.compute, estimate.exposed,
                     estimate.host_copies};
  };
  prices.least = [machine](const Program& program,
                           const internal::LayerCounts& left_out) {
    return internal::LeastSeconds(program, machine, left_out);
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
