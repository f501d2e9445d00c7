// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_LAYER_NAMES_H_
#define PLANNING_COST_LAYER_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace mtf::internal {

// The module that an operation belongs to: the first scope of its name, or the
// first two if the first is a numbered layer.
//
//   layer_0/attention/output/einsum   layer_0/attention
//   embedding/gather                  embedding
//   einsum_1                          (top)
std::string ModuleOf(absl::string_view operation);

// A name split at the number of its first numbered scope:
// "layer_0/attention/output/einsum" is "layer_", 0, "/attention/output/einsum".
// A name without a numbered scope has layer -1, and `suffix` is the name.
struct LayerName {
  std::string prefix;
  int layer = -1;
  std::string suffix;
};
LayerName SplitLayer(absl::string_view name);
// Returns whether `name` has a numbered scope. If so, sets `prefix` and `layer`
// to those of SplitLayer, without allocating.
bool FindLayer(absl::string_view name, absl::string_view* prefix, int* layer);

// Items that differ only in their layer.
struct LayerGroup {
  std::string name;    // "layer_0..11/attention"
  std::string layers;  // "0..11", or ""
  std::vector<int> members;
};
// Groups `count` items, ordered by the first member of each group. Items share
// a group if their names differ only in the layer and their keys are equal;
// `name_of` and `key_of` return both for item i. An item without a layer has a
// group of its own.
using TextOf = absl::FunctionRef<std::string(size_t)>;
std::vector<LayerGroup> GroupByLayer(size_t count, TextOf name_of,
                                     TextOf key_of);

}  // namespace mtf::internal

#endif  // PLANNING_COST_LAYER_NAMES_H_
