// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_SEARCH_LAYER_SCOPES_H_
#define PLANNING_SEARCH_LAYER_SCOPES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "mtf/graph.h"

namespace mtf::internal {

// Bit i: dimension i of SearchDimensions::names.
using DimSet = uint64_t;

// Which dimensions meet in which scopes of a graph, so that a search can write
// sections [in ...] for them. Equal layers are one scope: "layer_*/attention".
class LayerScopes {
 public:
  LayerScopes(const Graph& graph, const std::vector<std::string>& dimensions);

  // The scopes in which `dim` cannot share a mesh axis with `others`: patterns
  // of the outermost scopes whose operations have both, or all of whose inner
  // scopes with `dim` do. Empty if there are none, or if they have most of the
  // operations with `dim`, so that it would hardly be sharded.
  std::vector<std::string> WhereTheyMeet(int dim, DimSet others) const;

  // A scope of operations that are attention or can be composed like it.
  struct Attention {
    std::string scope;
    // Those that occur in this layer only and in every operand, as heads do,
    // and those that some operands lack, as the lengths.
    DimSet own = 0, lengths = 0;
  };
  std::vector<Attention> Attentions() const;

 private:
  // A scope with the scopes in it, by the last component of the name.
  struct Node {
    std::map<std::string, Node> inner;
    std::map<DimSet, int> operations;  // their number by their dimensions
  };
  struct Met {
    std::vector<std::string> scopes;
    int inside = 0, all = 0;  // operations with the dimension
  };

  static int Count(const Node& node, DimSet dim);
  // Adds what meets in `node`. Returns whether all of it is one scope.
  static bool Find(const Node& node, const std::string& name, DimSet dim,
                   DimSet others, Met& met);

  Node root_;
  std::map<std::string, std::set<std::pair<DimSet, DimSet>>> attentions_;
  // By dimension: the scopes of operations that have it.
  std::vector<std::set<std::string>> scopes_of_;
};

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_LAYER_SCOPES_H_
