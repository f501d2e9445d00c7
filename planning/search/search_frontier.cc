// SPDX-License-Identifier: Apache-2.0
#include "planning/search/search_frontier.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "layouts/text_items.h"
#include "planning/cost/layer_names.h"
#include "planning/cost/lifetimes.h"
#include "planning/machine/units.h"

namespace mtf::internal {
namespace {

// Many layouts cost the same: enough are kept that a few differ.
constexpr size_t kMostKept = 256;
constexpr size_t kMostNearest = 8;
// Estimates from few layers exceed the memory of all layers by up to a quarter.
constexpr double kOverestimate = 1.3;

bool IsSame(const PricedLayout& a, const PricedLayout& b) {
  return a.layout.mesh == b.layout.mesh && a.layout.text == b.layout.text;
}

// Whether two costs differ only by the order in which they were summed.
bool Same(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

bool Within(double share, double a, double b) {
  return std::abs(a - b) <= share * std::max(std::abs(a), std::abs(b));
}

std::string Bytes(int64_t bytes) {
  if (bytes == 1) return "1 byte";
  if (bytes < 1024) return absl::StrCat(bytes, " bytes");
  return absl::StrCat(bytes, " bytes (", BytesText(static_cast<double>(bytes)),
                      ")");
}

// The rules in one line.
std::string RulesLine(const FoundLayout& layout) {
  if (layout.text.empty()) return "none: all tensors are replicated";
  std::string line = layout.text;
  if (line.back() == '\n') line.pop_back();
  return absl::StrReplaceAll(line,
                             {{"]\n", "] "}, {"\n[", " ["}, {"\n", ", "}});
}

}  // namespace

bool CostsAreEqual(const FoundLayout& a, const FoundLayout& b) {
  return Within(1e-2, a.price.seconds, b.price.seconds) &&
         Within(3e-2, static_cast<double>(a.memory_bytes()),
                static_cast<double>(b.memory_bytes()));
}

bool IsBetter(const FoundLayout& a, const FoundLayout& b, bool fit) {
  if (!fit && a.broken.size() != b.broken.size()) {
    return a.broken.size() < b.broken.size();
  }
  if (fit && !Same(a.price.seconds, b.price.seconds)) {
    return a.price.seconds < b.price.seconds;
  }
  if (a.memory_bytes() != b.memory_bytes()) {
    return a.memory_bytes() < b.memory_bytes();
  }
  return a.rules.rules().size() < b.rules.rules().size();
}

MemoryLimit MemoryLimitOf(const SearchOptions& options) {
  MemoryLimit limit = {options.memory_limit, -1};
  for (size_t i = 0; i < options.budget.lines().size(); ++i) {
    const BudgetLine& line = options.budget.lines()[i];
    if (line.subject != BudgetSubject::kMemory) continue;
    if (limit.bytes > 0 && limit.bytes <= line.most_bytes) continue;
    limit = {line.most_bytes, static_cast<int>(i)};
  }
  return limit;
}

SearchFrontier::SearchFrontier(const SearchOptions& options)
    : options_(options), memory_(MemoryLimitOf(options)) {
  broken_.resize(options.budget.lines().size(), 0);
}

bool SearchFrontier::Fits(const FoundLayout& layout) const {
  return layout.broken.empty() &&
         (memory_.bytes <= 0 || layout.memory_bytes() <= memory_.bytes);
}

bool SearchFrontier::MayFit(double memory) const {
  return memory_.bytes <= 0 || memory <= static_cast<double>(memory_.bytes);
}

void SearchFrontier::Add(PricedLayout candidate) {
  ++result.lowered;
  if (memory_.bytes > 0 && candidate.layout.memory_bytes() > memory_.bytes) {
    ++result.too_large;
  }
  if (!candidate.layout.broken.empty()) ++result.over_budget;
  for (int line : candidate.layout.broken) ++broken_[line];
  Keep(std::move(candidate));
}

void SearchFrontier::Keep(PricedLayout candidate) {
  if (!Fits(candidate.layout)) {
    if (candidate.layout.estimated && candidate.layout.broken.empty() &&
        MayFit(static_cast<double>(candidate.layout.memory_bytes()) /
               kOverestimate)) {
      doubtful_.push_back(candidate);
    }
    if (!candidate.layout.estimated &&
        (!nearest_with_all_layers_ ||
         IsBetter(candidate.layout, nearest_with_all_layers_->layout, false))) {
      nearest_with_all_layers_ = candidate;
    }
    std::erase_if(nearest_, [&](const PricedLayout& known) {
      return IsSame(known, candidate);
    });
    const auto position =
        std::upper_bound(nearest_.begin(), nearest_.end(), candidate,
                         [](const PricedLayout& a, const PricedLayout& b) {
                           return IsBetter(a.layout, b.layout, false);
                         });
    nearest_.insert(position, std::move(candidate));
    if (nearest_.size() > kMostNearest) nearest_.pop_back();
    return;
  }
  worst_count_ = 0;
  for (PricedLayout& known : best_) {
    if (known.layout.mesh == candidate.layout.mesh &&
        Same(known.layout.price.seconds, candidate.layout.price.seconds) &&
        known.layout.memory_bytes() == candidate.layout.memory_bytes()) {
      candidate.slower_neighbour &= known.slower_neighbour;
      if (IsBetter(candidate.layout, known.layout)) {
        known = std::move(candidate);
      }
      return;
    }
  }
  const auto position =
      std::upper_bound(best_.begin(), best_.end(), candidate,
                       [](const PricedLayout& a, const PricedLayout& b) {
                         return IsBetter(a.layout, b.layout);
                       });
  best_.insert(position, std::move(candidate));
  if (best_.size() > kMostKept) best_.pop_back();
}

std::vector<PricedLayout> SearchFrontier::Best(size_t count) const {
  std::vector<PricedLayout> best;
  for (bool neighbours : {false, true}) {
    for (const PricedLayout& candidate : best_) {
      if (best.size() == count) break;
      const bool is_neighbour =
          candidate.slower_neighbour && &candidate != &best_.front();
      if (is_neighbour != neighbours) continue;
      const bool known =
          std::any_of(best.begin(), best.end(), [&](const PricedLayout& other) {
            return CostsAreEqual(candidate.layout, other.layout);
          });
      if (!known) best.push_back(candidate);
    }
  }
  std::stable_sort(best.begin(), best.end(),
                   [](const PricedLayout& a, const PricedLayout& b) {
                     return IsBetter(a.layout, b.layout);
                   });
  return best;
}

double SearchFrontier::Worst(size_t count) const {
  if (worst_count_ != count) {
    const std::vector<PricedLayout> best = Best(count);
    worst_ = best.size() < count ? std::numeric_limits<double>::infinity()
                                 : best.back().layout.price.seconds;
    worst_count_ = count;
  }
  return worst_;
}

std::vector<PricedLayout> SearchFrontier::Take() {
  worst_count_ = 0;
  return std::exchange(best_, {});
}

std::vector<PricedLayout> SearchFrontier::Doubtful(size_t count) const {
  const double limit = Worst(1);
  const bool any_fits = limit < std::numeric_limits<double>::infinity();
  std::vector<PricedLayout> doubtful;
  for (const PricedLayout& candidate : doubtful_) {
    if (candidate.layout.price.seconds < limit) doubtful.push_back(candidate);
  }
  std::stable_sort(doubtful.begin(), doubtful.end(),
                   [&](const PricedLayout& a, const PricedLayout& b) {
                     return IsBetter(a.layout, b.layout, any_fits);
                   });
  // A layout reached from several neighbours occurs several times.
  doubtful.erase(std::unique(doubtful.begin(), doubtful.end(), IsSame),
                 doubtful.end());
  if (doubtful.size() > count) doubtful.resize(count);
  return doubtful;
}

absl::Status SearchFrontier::NothingFits() const {
  if (!nearest_with_all_layers_) {
    return absl::InternalError("no layout was priced with all layers");
  }
  const FoundLayout& nearest = nearest_with_all_layers_->layout;
  std::string text, help;
  const auto most = std::max_element(broken_.begin(), broken_.end());
  const bool over_budget = most != broken_.end() && *most > result.too_large;
  const auto named = [&](size_t i) {
    const BudgetLine& line = options_.budget.lines()[i];
    return absl::StrCat("budget line ", Quoted(line.ToString()), " (",
                        line.origin, ")");
  };
  if (!over_budget) {
    text = absl::StrCat("no layout fits into ", Bytes(memory_.bytes),
                        " per rank; the smallest found takes ",
                        Bytes(nearest.memory_bytes()));
    if (memory_.line >= 0) {
      absl::StrAppend(&text, DetailLine("limit", named(memory_.line)));
    }
    help = "take more devices, a smaller batch, or a higher limit";
  } else {
    text = absl::StrCat("no layout keeps to the budget: ",
                        named(static_cast<size_t>(most - broken_.begin())),
                        " rejects ", *most, " of the ", result.lowered,
                        " that were lowered");
    if (result.too_large > 0) {
      absl::StrAppend(
          &text, DetailLine("also", absl::StrCat(Bytes(memory_.bytes),
                                                 " per rank are too few for ",
                                                 result.too_large)));
    }
    help = "allow more in the section [budget], or search another mesh";
  }
  for (size_t i = 0; i < broken_.size(); ++i) {
    const bool is_named =
        over_budget && i == static_cast<size_t>(most - broken_.begin());
    if (broken_[i] == 0 || is_named) continue;
    absl::StrAppend(&text,
                    DetailLine("also", absl::StrCat(named(i), " rejects ",
                                                    broken_[i], " of them")));
  }
  absl::StrAppend(
      &text,
      DetailLine(over_budget ? "nearest" : "smallest", RulesLine(nearest)),
      DetailLine("mesh", nearest.mesh.ToString()),
      DetailLine("memory",
                 absl::StrCat("variables ", Bytes(nearest.variable_bytes),
                              ", step ", Bytes(nearest.step_bytes))),
      DetailLine("help", help));
  return absl::ResourceExhaustedError(text);
}

}  // namespace mtf::internal
