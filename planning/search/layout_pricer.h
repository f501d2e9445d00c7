// SPDX-License-Identifier: Apache-2.0
//
// The price of one layout, by lowering it.
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

// Lowers and prices layouts. Thread-safe. The arguments of the constructor must
// outlive the object.
class LayoutPricer {
 public:
  LayoutPricer(const SearchStep& step, const SearchPrices& prices,
               const Budget& budget);

  // Makes Price lower a deep step with few layers and extrapolate linearly, to
  // within a few percent.
  void ExtrapolateFromFewLayers() { extrapolates_ = step_.is_deep(); }
  bool extrapolates() const { return extrapolates_; }

  // Prices the layout with these rules. Returns nullopt if the lower bound from
  // the fewest layers is at least `limit` seconds, and the error of Lower if
  // the layout does not lower. Prices are cached; a price with all layers
  // replaces an estimate.
  absl::StatusOr<std::optional<FoundLayout>> Price(const Mesh& mesh,
                                                   const std::string& rules,
                                                   double limit) const;
  // Replaces the price of `found` by that with all layers.
  absl::Status PriceAllLayers(FoundLayout& found) const;

 private:
  struct Measured;
  // Measures with the layers of `few`; null: with all.
  absl::StatusOr<Measured> Measure(const FoundLayout& found,
                                   const FewLayers* few) const;
  // Measures with the fewest layers. Cached if the layout is ruled out.
  absl::StatusOr<std::shared_ptr<const Measured>> MeasureLow(
      const FoundLayout& found, double limit) const;
  absl::Status Extrapolate(const Measured& low, FoundLayout& found) const;
  void Remember(const FoundLayout& found) const;

  const SearchStep& step_;
  // For a deep step the fewest layers, and two more; else null.
  const FewLayers* const few_ = nullptr;
  const FewLayers* const more_ = nullptr;
  const SearchPrices& prices_;
  const Budget& budget_;
  bool extrapolates_ = false;
  mutable std::mutex mutex_;  // guards known_ and low_
  // By mesh and rules.
  mutable std::map<std::pair<std::string, std::string>, FoundLayout> known_;
  // Measurements of layouts that were ruled out.
  mutable std::map<std::pair<std::string, std::string>,
                   std::shared_ptr<const Measured>>
      low_;
};

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_LAYOUT_PRICER_H_
