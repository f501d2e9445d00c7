// SPDX-License-Identifier: Apache-2.0
//
// Finds the equal layers of a deep model. A few of them determine the cost of
// all.
#ifndef PLANNING_COST_REPEATED_LAYERS_H_
#define PLANNING_COST_REPEATED_LAYERS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "mtf/graph.h"

namespace mtf::internal {

// Numbers of layers by the scope that numbers them ("layer_").
using LayerCounts = absl::flat_hash_map<std::string, double>;

// Finds equal layers: scopes that differ only in their number ("layer_0",
// "layer_1", ...), whose operations agree in kind, shape and attributes and
// read corresponding operations of their own layer and of its neighbors, and
// the same operations outside of all layers. An operation without a scope
// belongs to the layer of its inputs, or else of its readers, so the update of
// a parameter belongs to its layer. The period may be several layers, for
// example if every second layer has experts.
//
//   const RepeatedLayers layers(graph);
//   const FewLayers few = KeepFew(layers, {3});
//   Program program = *LowerFewLayers(graph, binding, targets, &few);
//
// lowers three layers of a run of equal ones, and everything outside of the
// run. The graph must outlive the object.
class RepeatedLayers {
 public:
  explicit RepeatedLayers(const Graph& graph);

  // The number of runs of equal layers.
  int num_runs() const { return static_cast<int>(runs_.size()); }
  // The number of periods in a run.
  int repeats(int run) const { return runs_[run].repeats; }
  // The fewest repeats of a run that may be kept: 2 in general. It is lower if
  // layers next to the run may stand in for it: layers that have its
  // operations, even if these read other values or if there are further
  // operations. If 0 repeats are kept, only layers next to the run remain; a
  // negative number leaves out that many of them too.
  //
  // Example: a GPT with 12 layers. Its run is layers 2 to 9, so repeats is 8;
  // layers 0, 1, 10 and 11 may stand in for it, so least_kept is 2 - 4 = -2.
  //
  //   kept   layers that remain      layers left out
  //      2   0, 1, 2, 9, 10, 11      6
  //      0   0, 1, 10, 11            8
  //     -2   0, 11                  10
  int least_kept(int run) const;
  // The number of layers, the largest over all scopes.
  int num_layers() const;
  // The number of operations of one repeat.
  int operations(int run) const { return runs_[run].operations; }

  // Maps each operation id to its representative if `kept[run]` repeats (at
  // least least_kept) of each run are kept: to itself if it is kept.
  std::vector<int> Representatives(const std::vector<int>& kept) const;

  // The position of an operation: its run, the index of its repeat among those
  // that are kept, and its index in the repeat.
  struct LayerPosition {
    int run = -1;
    int repeat = 0;
    int operation = 0;
  };
  // The positions of the kept operations and variables of runs, by name.
  absl::flat_hash_map<absl::string_view, LayerPosition> Positions(
      const std::vector<int>& kept) const;

  // The names of the variables that are left out.
  absl::flat_hash_set<absl::string_view> LeftOutVariables(
      const std::vector<int>& representatives) const;

  // The number of layers that are left out, by scope.
  LayerCounts LeftOutLayers(const std::vector<int>& kept) const;

  // Maps names of left out operations and variables to those of their
  // representatives.
  absl::flat_hash_map<absl::string_view, absl::string_view> Names(
      const std::vector<int>& representatives) const;

 private:
  struct Run {
    int first = 0;   // index in layers_ of its first layer
    int period = 1;  // layers in a repeat
    int repeats = 0;
    int operations = 0;
    // The number of repeats before and after the run that may stand in for it.
    int before = 0, after = 0;
  };
  // One layer with its operations, in order.
  struct Layer {
    int group = 0;   // index in the list of scopes
    int number = 0;  // "layer_7": 7
    std::vector<int> operations;
  };

  void FindMembers();
  int LayerOfInputs(const Operation& operation) const;
  void FindLayers();
  void FindRuns(int begin, int end);
  void FindStandIns(Run& run) const;
  bool IsNext(int layer, int to, int step) const;
  std::vector<int> Matching(int layer, int reference) const;
  // The operations of a layer of the run, or of one that may stand in for it.
  std::vector<int> OperationsOf(const Run& run, int layer) const;
  bool HaveSameOperations(absl::Span<const int> xs,
                          absl::Span<const int> ys) const;
  bool Equal(int a, int b) const;
  bool ReadsTheSame(const Operation& x, int a, const Operation& y, int b) const;

  const Graph& graph_;
  std::vector<Layer> layers_;         // group by group, by number
  std::vector<int> layer_of_;         // by operation: index in layers_, or -1
  std::vector<bool> read_elsewhere_;  // by operation: read outside of its layer
  std::vector<int> index_in_layer_;   // by operation: its index in the layer
  std::vector<Run> runs_;
};

// The number of operations of `graph`. Counts those of a decomposition in the
// place of the operation that has it, because lowering may emit them.
int64_t CountOperations(const Graph& graph);

}  // namespace mtf::internal

#endif  // PLANNING_COST_REPEATED_LAYERS_H_
