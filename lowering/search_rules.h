// SPDX-License-Identifier: Apache-2.0
//
// Finds layouts: which rules make a step fastest within the memory of a
// device. It searches over what a person writes, dimension names and axes and
// the scoped sections, not over single tensors, so what it finds can be read,
// edited and kept in a file.
#ifndef LOWERING_SEARCH_RULES_H_
#define LOWERING_SEARCH_RULES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "layouts/reshard_path.h"
#include "lowering/lower.h"
#include "lowering/machine.h"
#include "lowering/program.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"

namespace mtf {

// A step to be laid out. Where the graph repeats a block, `repeats` says how
// often.
struct SearchProgram {
  const Graph* graph = nullptr;
  Targets targets = {};
  int64_t repeats = 1;
};

struct SearchInput {
  SearchProgram program;
  // The same step with the block twice and four times, say: two numbers of
  // repeats, the smaller first, both below that of `program`. Layouts are then
  // priced on these two, from which time and memory follow in a line, to a
  // percent or so, and only the best are lowered as a whole and ordered by what
  // they cost then. Empty: every layout is lowered as a whole.
  std::vector<SearchProgram> small = {};
};

// What a lowered step costs.
struct StepPrice {
  double seconds = 0;
  double compute = 0;  // sum over kernels
  double exposed = 0;  // collectives that nothing hides
};

// Where prices come from.
struct SearchPrices {
  // The price of a lowered program (all passes run). A pure function, called
  // from several threads.
  std::function<StepPrice(const Program&)> step;
  // What single parts cost at least, as in Machine; with them most layouts
  // need not be lowered. Without (null) every layout is.
  std::function<double(DType, int64_t batch, int64_t m, int64_t n, int64_t k)>
      matmul = {};
  std::function<double(int64_t bytes)> copy = {};
  std::function<double(CollectiveKind, const Mesh&, const AxisList&,
                       int64_t bytes)>
      collective = {};
  bool overlaps = false;  // collectives run beside compute
};
SearchPrices PricesOf(const Machine& machine);

struct SearchOptions {
  int64_t memory_limit = 0;  // bytes of a device; 0: none
  int keep = 3;              // layouts to return
  // The dimensions that rules may cut; empty: all of the graph.
  std::vector<std::string> dimensions = {};
  bool sections = true;  // search [parameters] and [optimizer] too
  // Spaces of up to this many layouts are searched with every list in the
  // scoped sections, larger ones with those of SearchResult::restricted.
  double full_space = 20000;
  // Layouts lowered at most; beyond it the result is not proved best.
  int64_t most_lowered = 3000;
};

struct FoundLayout {
  Mesh mesh;
  LayoutRules rules;
  std::string text;  // the rules, a line each, as a layout file has them
  StepPrice price;
  int64_t variable_bytes = 0;  // per rank: parameters and optimizer state
  int64_t step_bytes = 0;      // and what the step needs besides

  int64_t memory_bytes() const { return variable_bytes + step_bytes; }
};

struct SearchResult {
  std::vector<FoundLayout> best;  // fastest first
  double space = 0;               // layouts there are
  // In a space too large for all, a scoped section gives an axis nothing more
  // than the default one, or as many dimensions as it can; where it cuts
  // parameters further it cuts the optimizer alike; and of dimensions that
  // always stand together, as heads and d_kv, it cuts the larger.
  bool restricted = false;
  int64_t lowered = 0;    // layouts that were lowered and priced
  int64_t too_large = 0;  // of these, those beyond the memory limit
  bool complete = true;   // false: `most_lowered` ended the search
  double seconds = 0;     // what the search took
};

// The layouts of `input` on `mesh` with the least StepPrice::seconds whose
// variables and arena fit into the memory limit.
//
//   MTF_ASSIGN_OR_RETURN(
//       const SearchResult found,
//       SearchRules({{&graph, {.updates = {step}}}}, mesh, PricesOf(machine),
//                   {.memory_limit = machine.memory_bytes()}));
//   std::cout << LayoutFileText(found, 0);
//
// The space. An axis cuts any set of dimensions that no operation meets
// together (Lower is asked); a scoped section may cut a dimension over more
// axes, never fewer. Where a dimension has several axes they stand in mesh
// order, those of the default section first: the order only says who holds
// which shard, and so shards of the sections nest. Layouts of one price and one
// size count once, the one with fewest rules; so do layouts that only trade
// places between axes of equal size and speed.
//
// kResourceExhausted, with the smallest found, when no layout fits. The graph's
// first error; kInvalidArgument for a dimension in `options` that the graph
// lacks, and for a mesh that the graph cannot be lowered on.
absl::StatusOr<SearchResult> SearchRules(const SearchInput& input,
                                         const Mesh& mesh,
                                         const SearchPrices& prices,
                                         const SearchOptions& options = {});

// The same over every mesh of `devices` devices with up to `most_axes` axes:
// "outer", "middle", "inner" by distance, each of at least two devices.
absl::StatusOr<SearchResult> SearchMeshes(const SearchInput& input,
                                          int64_t devices, int most_axes,
                                          const SearchPrices& prices,
                                          const SearchOptions& options = {});

// Layout `place` of a result as a layout file: its rules, below comments that
// say what it costs, where its time goes and why it stands where it does.
std::string LayoutFileText(const SearchResult& result, int place,
                           const SearchOptions& options = {});

// Why layout `place` is better than the next, or the last worse than the best:
// "0.21 s faster than the next: 0.18 s less exposed communication ...".
std::string WhyText(const SearchResult& result, int place);

}  // namespace mtf

#endif  // LOWERING_SEARCH_RULES_H_
