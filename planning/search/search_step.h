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

// The step of a search, with what lowering it under many rules needs to know
// only once.
//
// A deep model is lowered with few of its equal layers, twice: once with as few
// as can be (two of a GPT), and once with two more. What grows by the same with
// every layer, such as time, to a few percent, then lies on the line through
// the two.
class SearchStep {
 public:
  // Models of more than `most_layers` layers are deep. The graph must outlive
  // the object.
  explicit SearchStep(const SearchInput& input,
                      int most_layers = SearchOptions().most_layers);

  const Graph& graph() const { return *input_.graph; }
  // The most layers that one scope numbers, at least 1.
  int64_t num_layers() const { return num_layers_; }
  const DimensionTable& dimensions() const { return dimensions_; }
  // Whether an operation of this name belongs to the optimizer.
  bool IsOfOptimizer(absl::string_view operation) const {
    return optimizer_.contains(operation);
  }

  bool is_deep() const { return !few_.empty(); }
  // What stands for the step: of a deep model its two numbers of layers, the
  // smaller first, else null: all layers.
  std::vector<const FewLayers*> Representatives() const;
  // Where all layers lie on the line through these: 0 is the first, 1 the
  // second.
  double position() const { return position_; }
  // How many layers each of these has.
  std::vector<int64_t> RepresentativeLayers() const;

  // Lowers the step, unverified, with the layers of `few`; null: with all.
  absl::StatusOr<Program> Lower(const Mesh& mesh, const LayoutRules& rules,
                                const FewLayers* few,
                                LowerOptions options = {}) const;
  absl::StatusOr<Program> Lower(const Mesh& mesh, const std::string& rules,
                                const FewLayers* few,
                                LowerOptions options = {}) const;

 private:
  const SearchInput input_;
  const DimensionTable dimensions_;
  absl::flat_hash_set<absl::string_view> optimizer_;  // names
  int64_t num_layers_ = 1;
  std::vector<FewLayers> few_;
  double position_ = 0;
};

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_STEP_H_
