// SPDX-License-Identifier: Apache-2.0
#include "planning/search/search_step.h"

#include <algorithm>
#include <utility>

#include "mtf/status.h"
#include "planning/cost/repeated_layers.h"

namespace mtf::internal {

SearchStep::SearchStep(const SearchInput& input, int most_layers,
                       AttentionSupport attention)
    : input_(input),
      attention_(attention),
      dimensions_(DimensionsOf(*input.graph)) {
  for (const auto& operation : graph().operations()) {
    if (operation->section() == LayoutSection::kOptimizer) {
      optimizer_.insert(operation->name());
    }
  }
  const RepeatedLayers layers(graph());
  num_layers_ = std::max(1, layers.num_layers());
  if (num_layers_ <= most_layers || layers.num_runs() != 1) return;
  // The gradients of every second layer may start a new bucket, so the two
  // programs differ by two layers.
  constexpr int kApart = 2;
  const int low = layers.least_kept(0), high = low + kApart;
  if (layers.repeats(0) <= high) return;
  few_.push_back(KeepFew(layers, {low}));
  few_.push_back(KeepFew(layers, {high}));
  position_ = static_cast<double>(layers.repeats(0) - low) / kApart;
}

std::vector<const FewLayers*> SearchStep::LayerSubsets() const {
  if (!is_deep()) return {nullptr};
  return {&few_[0], &few_[1]};
}

std::vector<int64_t> SearchStep::LayerSubsetSizes() const {
  std::vector<int64_t> layers;
  for (const FewLayers& few : few_) {
    double left_out = 0;
    for (const auto& [scope, count] : few.left_out_layers) {
      left_out = std::max(left_out, count);
    }
    layers.push_back(num_layers_ - static_cast<int64_t>(left_out));
  }
  return layers;
}

absl::StatusOr<Program> SearchStep::Lower(const Mesh& mesh,
                                          const LayoutRules& rules,
                                          const FewLayers* few,
                                          LowerOptions options) const {
  LayoutRules with_offload = rules;
  with_offload.set_offload(input_.offload);
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindDimensions(dimensions_, mesh, with_offload));
  options.verify = false;
  options.attention = attention_;
  return LowerFewLayers(graph(), binding, input_.targets, few, options);
}

absl::StatusOr<Program> SearchStep::Lower(const Mesh& mesh,
                                          const std::string& rules,
                                          const FewLayers* few,
                                          LowerOptions options) const {
  MTF_ASSIGN_OR_RETURN(const LayoutRules parsed,
                       LayoutRules::Parse(rules, "search"));
  return Lower(mesh, parsed, few, std::move(options));
}

}  // namespace mtf::internal
