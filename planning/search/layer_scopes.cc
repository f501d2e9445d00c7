// SPDX-License-Identifier: Apache-2.0
#include "planning/search/layer_scopes.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "mtf/operation.h"
#include "mtf/scope_pattern.h"

namespace mtf::internal {
namespace {

// "layer_3/attention_1" as "layer_*/attention_*".
std::string PatternOf(absl::string_view scope) {
  std::string pattern;
  for (absl::string_view part : absl::StrSplit(scope, '/')) {
    absl::StrAppend(&pattern, pattern.empty() ? "" : "/", PatternOfName(part));
  }
  return pattern;
}

}  // namespace

LayerScopes::LayerScopes(const Graph& graph,
                         const std::vector<std::string>& dimensions)
    : scopes_of_(dimensions.size()) {
  absl::flat_hash_map<std::string, DimSet> bits;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    bits[dimensions[i]] = DimSet{1} << i;
  }
  const auto dims_of = [&](const Shape& shape) {
    DimSet dims = 0;
    for (const Dimension& dim : shape) {
      const auto bit = bits.find(dim.name);
      if (bit != bits.end()) dims |= bit->second;
    }
    return dims;
  };
  std::vector<std::string> patterns;
  std::vector<Node*> nodes;
  for (const std::string& scope : graph.scopes()) {
    patterns.push_back(PatternOf(scope));
    Node* node = &root_;
    for (absl::string_view part :
         absl::StrSplit(patterns.back(), '/', absl::SkipEmpty())) {
      node = &node->inner[std::string(part)];
    }
    nodes.push_back(node);
  }
  for (const auto& operation : graph.operations()) {
    if (operation->section() == LayoutSection::kOptimizer) continue;
    DimSet all = 0, in_every = ~DimSet{0};
    for (int i = 0; i < operation->num_results(); ++i) {
      all |= dims_of(operation->shape(i));
    }
    for (const Tensor& input : operation->inputs()) {
      all |= dims_of(input.shape());
    }
    ++nodes[operation->scope()]->operations[all];
    const std::string& pattern = patterns[operation->scope()];
    for (size_t i = 0; i < dimensions.size(); ++i) {
      if (all >> i & 1) scopes_of_[i].insert(pattern);
    }
    // Queries, keys and values. Masks and others may lack any dimension.
    constexpr int kOperands = 3;
    if (operation->decomposition() == nullptr || pattern.empty() ||
        static_cast<int>(operation->inputs().size()) < kOperands) {
      continue;
    }
    for (int i = 0; i < kOperands; ++i) {
      in_every &= dims_of(operation->input(i).shape());
    }
    attentions_[pattern].insert({in_every & all, all & ~in_every});
  }
}

int LayerScopes::Count(const Node& node, DimSet dim) {
  int count = 0;
  for (const auto& [dims, number] : node.operations) {
    if ((dims & dim) != 0) count += number;
  }
  for (const auto& [name, inner] : node.inner) count += Count(inner, dim);
  return count;
}

bool LayerScopes::Find(const Node& node, const std::string& name, DimSet dim,
                       DimSet others, Met& met) {
  const bool meets = std::any_of(
      node.operations.begin(), node.operations.end(), [&](const auto& entry) {
        return (entry.first & dim) != 0 && (entry.first & others) != 0;
      });
  Met inner_met;
  bool any = false, all = true;
  for (const auto& [part, inner] : node.inner) {
    if (Count(inner, dim) == 0) continue;
    any = true;
    const std::string inner_name =
        absl::StrCat(name, name.empty() ? "" : "/", part);
    all = Find(inner, inner_name, dim, others, inner_met) && all;
  }
  const bool is_one = meets || (any && all);
  if (is_one && !name.empty()) {
    met.scopes.push_back(name);
    met.inside += Count(node, dim);
  } else {
    met.scopes.insert(met.scopes.end(), inner_met.scopes.begin(),
                      inner_met.scopes.end());
    met.inside += inner_met.inside;
    if (is_one) met.inside = met.all;  // outside of every scope
  }
  return is_one;
}

std::vector<std::string> LayerScopes::WhereTheyMeet(int dim,
                                                    DimSet others) const {
  Met met;
  met.all = Count(root_, DimSet{1} << dim);
  Find(root_, "", DimSet{1} << dim, others, met);
  constexpr double kMost = 0.9;
  if (met.inside > kMost * met.all) return {};
  return met.scopes;
}

std::vector<LayerScopes::Attention> LayerScopes::Attentions() const {
  std::vector<Attention> attentions;
  for (const auto& [scope, operands] : attentions_) {
    Attention found{.scope = scope};
    for (const auto& [in_every, in_some] : operands) {
      found.own |= in_every;
      found.lengths |= in_some;
    }
    found.own &= ~found.lengths;
    // The layer, which has the projections too.
    const size_t slash = scope.rfind('/');
    if (slash == std::string::npos) continue;
    const std::string layer = scope.substr(0, slash);
    for (size_t i = 0; i < scopes_of_.size(); ++i) {
      const bool elsewhere = std::any_of(
          scopes_of_[i].begin(), scopes_of_[i].end(),
          [&](const std::string& each) {
            return each != layer && !absl::StartsWith(each, layer + "/");
          });
      if (elsewhere) found.own &= ~(DimSet{1} << i);
    }
    if (found.own != 0 && found.lengths != 0) attentions.push_back(found);
  }
  return attentions;
}

}  // namespace mtf::internal
