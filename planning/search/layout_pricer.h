// SPDX-License-Identifier: Apache-2.0
//
// What one layout costs, by its own lowering
// (planning/search/search_layouts.h).
#ifndef PLANNING_SEARCH_LAYOUT_PRICER_H_
#define PLANNING_SEARCH_LAYOUT_PRICER_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layouts/budget.h"
#include "layouts/mesh.h"
#include "lowering/emit/emit_program.h"
#include "planning/search/search_layouts.h"

namespace mtf::internal {

// Lowers and prices layouts; from several threads at once. What it is made of
// is to outlive it.
class LayoutPricer {
 public:
  LayoutPricer(const SearchInput& input, const SearchPrices& prices,
               const Budget& budget);

  // From now on Price looks at the small programs, where there are any: what
  // they say of the whole is right to a few percent.
  void PriceInLine() { in_line_ = !input_.small.empty(); }
  bool in_line() const { return in_line_; }

  // The layout of these rules; nothing where it takes no less than `worst` and
  // the smaller program shows that. The error of one that does not lower. What
  // was priced before is remembered: as a whole, where it was.
  absl::StatusOr<std::optional<FoundLayout>> Price(const Mesh& mesh,
                                                   const std::string& rules,
                                                   double worst) const;
  // Fills in what `found` costs as a whole, which is no estimate.
  absl::Status PriceWhole(FoundLayout& found) const;

 private:
  struct Measured;
  // A program with the dimensions of its graph, which are many to look up.
  struct Step {
    SearchProgram program;
    DimensionTable dimensions;
  };
  absl::StatusOr<Measured> Measure(const Step& step, const FoundLayout& found,
                                   bool is_small) const;
  // Of the smaller of the small programs; remembered where it shows that the
  // whole takes no less than `worst`.
  absl::StatusOr<std::shared_ptr<const Measured>> MeasureLow(
      const FoundLayout& found, double worst) const;
  absl::Status PriceByLine(const Measured& low, FoundLayout& found) const;
  void Remember(const FoundLayout& found) const;

  const SearchInput& input_;
  Step whole_;
  std::vector<Step> small_;
  ExtraLayers
      more_layers_;  // of the whole besides those of the first small one
  const SearchPrices& prices_;
  const Budget& budget_;
  bool in_line_ = false;
  mutable std::mutex mutex_;  // guards known_ and low_
  // By mesh and rules.
  mutable std::map<std::pair<std::string, std::string>, FoundLayout> known_;
  // The smaller program of what was seen to be too slow.
  mutable std::map<std::pair<std::string, std::string>,
                   std::shared_ptr<const Measured>>
      low_;
};

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_LAYOUT_PRICER_H_
