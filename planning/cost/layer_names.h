// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_LAYER_NAMES_H_
#define PLANNING_COST_LAYER_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace mtf::internal {

// The module that an operation belongs to: the first part of its name, and of
// a numbered layer the second too.
//
//   layer_0/attention/output/einsum   layer_0/attention
//   embedding/gather                  embedding
//   einsum_1                          (top)
std::string ModuleOf(absl::string_view operation);

// "layer_0/attention/output/einsum" as "layer_", 0 and "/attention/...": the
// number of the first scope that has one, or -1 and all of the name behind.
struct LayerName {
  std::string before;
  int layer = -1;
  std::string behind;
};
LayerName SplitLayer(absl::string_view name);
// Whether `name` is of a layer; `before` and `number` as above.
bool FindLayer(absl::string_view name, absl::string_view* before, int* number);

// Items that are equal but for the layer they are of.
struct Fold {
  std::string name;    // "layer_0..11/attention"
  std::string layers;  // "0..11", or ""
  std::vector<int> members;
};
// Folds `count` items, in the order in which the first of each comes.
// `name_of` and `key_of` tell the name of item i and all else that has to be
// equal. What is of no layer stays alone.
using TextOf = absl::FunctionRef<std::string(size_t)>;
std::vector<Fold> FoldLayers(size_t count, TextOf name_of, TextOf key_of);

}  // namespace mtf::internal

#endif  // PLANNING_COST_LAYER_NAMES_H_
