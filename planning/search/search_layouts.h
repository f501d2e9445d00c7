// SPDX-License-Identifier: Apache-2.0
//
// Searches for layouts: the rules that make a step fastest within the memory of
// a device. The search is over what users write, that is dimension names, axes
// and sections of variables, not over single tensors, so a result can be read,
// edited and kept in a file.
#ifndef PLANNING_SEARCH_SEARCH_LAYOUTS_H_
#define PLANNING_SEARCH_SEARCH_LAYOUTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "layouts/budget.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "layouts/reshard_path.h"
#include "lowering/lower.h"
#include "lowering/program/program.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "planning/cost/least_time.h"
#include "planning/machine/machine.h"

namespace mtf {

// A step to be laid out. The graph must outlive the search.
struct SearchInput {
  const Graph* graph = nullptr;
  Targets targets = {};
  // Variables in host memory. The search keeps it in each layout.
  OffloadRules offload = {};
};

// The cost of a lowered step.
struct StepPrice {
  double seconds = 0;
  double compute = 0;      // sum over kernels
  double exposed = 0;      // collectives that do not overlap compute
  double host_copies = 0;  // of offloaded variables
};

// Functions that price programs and single operations.
struct SearchPrices {
  // The price of a planned program. A pure function, called from several
  // threads.
  std::function<StepPrice(const Program&)> step;
  // A lower bound on the time of a step with `left_out` more layers than the
  // program has (planning/cost/least_time.h). Null: no such bound.
  std::function<double(const Program&, const internal::LayerCounts& left_out)>
      least = {};
  // Lower bounds on the time of single operations, as in Machine. With them
  // most layouts need not be lowered; if null, every layout is.
  std::function<double(DType, int64_t batch, int64_t m, int64_t n, int64_t k)>
      matmul = {};
  std::function<double(int64_t bytes)> copy = {};
  std::function<double(CollectiveKind, const Mesh&, const AxisList&,
                       int64_t bytes)>
      collective = {};
  bool overlaps = false;  // collectives overlap compute
  // Of LowerOptions.
  AttentionSupport attention = AttentionSupport::kNone;
  FusionCapabilities fusion = {};
};
SearchPrices PricesOf(const Machine& machine);

struct SearchOptions {
  int64_t memory_limit = 0;  // bytes per device; 0: none
  int keep = 3;              // layouts to return
  // Further limits on a layout (planning/cost/check_budget.h).
  Budget budget = {};
  // The dimensions that rules may shard; empty: all of the graph.
  std::vector<std::string> dimensions = {};
  bool sections = true;  // search [parameters] and [optimizer] too
  // Models with more layers than this are priced with few of their equal layers
  // (planning/search/search_step.h): two layers, for example, may rule a layout
  // out (SearchPrices::least). In large spaces layouts are priced with two and
  // with four layers. Time is extrapolated linearly, to within a few percent,
  // and memory for each instruction (planning/search/search_memory.h). The best
  // layouts are then lowered with all layers and sorted by the resulting cost;
  // if one turns out too large, the search continues without it.
  int most_layers = 6;
  // If the number of layouts of a mesh times the layers of the model is at most
  // this, the sections of variables are searched in full. Otherwise the search
  // is that of SearchResult::restricted, and its best layouts are improved rule
  // by rule.
  double full_space = 30000;
  // The search of a larger space ends after this many layouts were lowered.
  int64_t most_lowered = 20000;
  // Progress callback. Arguments: the layouts lowered so far, and the seconds
  // of the best one or infinity. Calls are serialized.
  std::function<void(int64_t lowered, double seconds)> progress = {};
};

struct FoundLayout {
  Mesh mesh;
  LayoutRules rules;
  std::string text;  // the rules, a line each, as a layout file has them
  StepPrice price;
  int64_t variable_bytes = 0;    // per rank: variables that are not offloaded
  int64_t step_bytes = 0;        // per rank: the arena of the step
  int64_t host_bytes = 0;        // per rank: offloaded variables
  std::vector<int> broken = {};  // indices of broken budget lines
  bool estimated = false;        // from few layers; false in results

  int64_t memory_bytes() const { return variable_bytes + step_bytes; }
};

struct SearchResult {
  std::vector<FoundLayout> best;  // fastest first
  double space = 0;               // number of layouts
  // The space was too large to search in full. Then a section of variables
  // shards over an axis either the dimensions of the default section or as many
  // as possible; if it shards parameters further, it shards the optimizer state
  // alike; and it leaves out minor dimensions: the smaller of those that always
  // occur together, as d_kv with heads, and those of tensors with less than 1 %
  // of the stored bytes.
  bool restricted = false;
  int64_t lowered = 0;      // layouts that were lowered and priced
  int64_t too_large = 0;    // of these, those beyond the memory limit
  int64_t over_budget = 0;  // of these, those that break another budget line
  int64_t refined = 0;  // of these, those that differ from the best in one rule
  // Of these, those that shard a dimension differently inside of layers than
  // between them, by sections [in ...]. They are in no space.
  int64_t by_modules = 0;
  // Every layout of the space was priced, or ruled out by a lower bound (which
  // assumes the present passes of Lower). False: `most_lowered` ended the
  // search.
  bool complete = true;
  // The search covered the space for all of `best`, not only for the first.
  bool searched_in_full = true;
  // The numbers of layers with which layouts were priced; only the best were
  // priced with all. Empty: every layout was priced with all layers.
  std::vector<int64_t> priced_layers;
  std::vector<std::string> notices;  // lines of the budget without effect
  double seconds = 0;                // duration of the search
};

// Searches for the layouts of `input` on `mesh` with the least
// StepPrice::seconds among those whose variables and arena fit into the memory
// limit and that stay within the budget.
//
//   MTF_ASSIGN_OR_RETURN(
//       const SearchResult found,
//       SearchRules({&graph, {.updates = {step}}}, mesh, PricesOf(machine),
//                   {.memory_limit = machine.memory_bytes()}));
//   std::cout << LayoutFileText(found, 0);
//
// The space. An axis shards any set of dimensions of which no two conflict in
// an operation, as found by lowering. A section of variables may shard a
// dimension over more axes than the default section, never over fewer. Gathered
// parameters may be kept until their next use. If several axes shard a
// dimension, they are in mesh order, those of the default section first, so
// that the shards of the sections nest. Layouts that differ only by swapping
// axes of equal size and speed count once.
//
// The result. A space within `full_space` is searched in full: the result is
// the fastest layout and the next fastest that differ. In a larger space the
// restricted layouts are searched, then each of the best is changed, one rule
// at a time, until no change makes it faster. No rule for variables is tried
// for a dimension of tensors with less than 0.1 % of the stored bytes. Two
// layouts differ if their times differ by 1 % or their memory by 3 %. Of
// layouts with equal cost the one with the fewest rules is kept.
//
// Rules for scopes. No layout of a space shards a dimension differently inside
// of layers than between them, as sequence parallelism and all-to-all attention
// do. If `dimensions` is empty and the prices have bounds, some such layouts
// are also tried on every mesh: neighbours of the layouts whose default section
// divides compute most, with sections [in ...]. The best are changed rule by
// rule as above. They may be faster than the fastest of the space; that they
// are the fastest of their kind is not guaranteed.
//
// Errors: kResourceExhausted if no layout fits, with the nearest one, or if
// none stays within the budget, with the line that rejects most layouts; the
// graph's first error; kInvalidArgument for a dimension in `options` or a name
// in the budget that is probably misspelled, and for a mesh that the graph
// cannot be lowered on.
absl::StatusOr<SearchResult> SearchRules(const SearchInput& input,
                                         const Mesh& mesh,
                                         const SearchPrices& prices,
                                         const SearchOptions& options = {});

// Like SearchRules, over every mesh of `devices` devices with up to `most_axes`
// axes of at least two devices each: "outer", "middle" and "inner", by
// distance.
absl::StatusOr<SearchResult> SearchMeshes(const SearchInput& input,
                                          int64_t devices, int most_axes,
                                          const SearchPrices& prices,
                                          const SearchOptions& options = {});

// Layout `index` of a result as a layout file: comments with its cost and the
// reason why it is better than the next one, then its rules and the budget.
std::string LayoutFileText(const SearchResult& result, int index,
                           const SearchOptions& options = {});

// A summary of the search and its result, as lines of comments.
std::string SummaryText(const SearchResult& result);

// Why layout `index` is better than the next one, or why the last one is worse
// than the best: "0.21 s faster than layout 2: 0.18 s less exposed
// communication ...", and below it the rules in which they differ.
std::string WhyText(const SearchResult& result, int index);

}  // namespace mtf

#endif  // PLANNING_SEARCH_SEARCH_LAYOUTS_H_
