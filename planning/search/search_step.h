// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_SEARCH_SEARCH_STEP_H_
#define PLANNING_SEARCH_SEARCH_STEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "lowering/emit/layout_binding.h"
#include "lowering/lower.h"
#include "lowering/program/program.h"
#include "planning/cost/few_layers.h"
#include "planning/search/search_layouts.h"

namespace mtf::internal {

// The step of a search, with tables of its graph that all lowerings share.
//
// A deep model is lowered with few of its equal layers, twice: with as few as
// possible (two of a GPT), and with two more. Quantities that grow linearly
// with the layers, as time does to within a few percent, are extrapolated from
// these.
class SearchStep {
 public:
  // Models of more than `most_layers` layers are deep. The graph must outlive
  // the object.
  // `attention` is that of LowerOptions.
  explicit SearchStep(const SearchInput& input,
                      int most_layers = SearchOptions().most_layers,
                      AttentionSupport attention = AttentionSupport::kNone);

  const Graph& graph() const { return *input_.graph; }
  // The number of layers, the largest over all scopes; at least 1.
  int64_t num_layers() const { return num_layers_; }
  AttentionSupport attention() const { return attention_; }
  const DimensionTable& dimensions() const { return dimensions_; }
  const OffloadRules& offload() const { return input_.offload; }
  // Whether an operation of this name belongs to the optimizer.
  bool IsOfOptimizer(absl::string_view operation) const {
    return optimizer_.contains(operation);
  }

  bool IsOffloaded(const VariableInfo& variable) const {
    return input_.offload.Selects(OffloadKindOf(variable), variable.name);
  }

  bool is_deep() const { return !few_.empty(); }
  // The subsets of the layers that the step is lowered with: two for a deep
  // model, the smaller first; otherwise one null pointer, for all layers.
  std::vector<const FewLayers*> LayerSubsets() const;
  // The position of the step with all layers on the line through these subsets,
  // where 0 is the first and 1 the second.
  double position() const { return position_; }
  // The number of layers of each subset.
  std::vector<int64_t> LayerSubsetSizes() const;

  // Lowers the step, unverified, with the layers of `few`; null: with all.
  absl::StatusOr<Program> Lower(const Mesh& mesh, const LayoutRules& rules,
                                const FewLayers* few,
                                LowerOptions options = {}) const;
  absl::StatusOr<Program> Lower(const Mesh& mesh, const std::string& rules,
                                const FewLayers* few,
                                LowerOptions options = {}) const;

 private:
  const SearchInput input_;
  const AttentionSupport attention_;
  const DimensionTable dimensions_;
  absl::flat_hash_set<absl::string_view> optimizer_;  // names
  int64_t num_layers_ = 1;
  std::vector<FewLayers> few_;
  double position_ = 0;
};

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_STEP_H_
