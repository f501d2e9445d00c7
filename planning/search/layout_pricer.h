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
#include "planning/search/search_layouts.h"
#include "planning/search/search_step.h"

namespace mtf::internal {

// Lowers and prices layouts; from several threads at once. What it is made of
// is to outlive it.
class LayoutPricer {
 public:
  LayoutPricer(const SearchStep& step, const SearchPrices& prices,
               const Budget& budget);

  // From now on Price lowers a deep step with few layers and extrapolates by a
  // line, which is right to a few percent.
  void ExtrapolateFromFewLayers() { extrapolates_ = step_.is_deep(); }
  bool in_line() const { return extrapolates_; }

  // The layout of these rules; nothing where it takes no less than `worst` and
  // the smaller program shows that. The error of one that does not lower. What
  // was priced before is remembered: as a whole, where it was.
  absl::StatusOr<std::optional<FoundLayout>> Price(const Mesh& mesh,
                                                   const std::string& rules,
                                                   double worst) const;
  // Fills in what `found` costs as a whole, which is no estimate.
  absl::Status PriceAllLayers(FoundLayout& found) const;

 private:
  struct Measured;
  // With the layers of `few`; null: with all.
  absl::StatusOr<Measured> Measure(const FoundLayout& found,
                                   const FewLayers* few) const;
  // With the fewest layers; remembered where it shows that the
  // whole takes no less than `worst`.
  absl::StatusOr<std::shared_ptr<const Measured>> MeasureLow(
      const FoundLayout& found, double worst) const;
  absl::Status Extrapolate(const Measured& low, FoundLayout& found) const;
  void Remember(const FoundLayout& found) const;

  const SearchStep& step_;
  // What stands for a deep step: with the fewest layers, and with two more.
  const FewLayers* const few_ = nullptr;
  const FewLayers* const more_ = nullptr;
  const SearchPrices& prices_;
  const Budget& budget_;
  bool extrapolates_ = false;
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
