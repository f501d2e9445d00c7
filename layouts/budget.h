// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_BUDGET_H_
#define LAYOUTS_BUDGET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layouts/reshard_path.h"

namespace mtf {

// What a line of a budget limits.
enum class BudgetSubject : uint8_t {
  kCalls,   // "no all_gather ...", "nothing ...": not a single collective
  kBytes,   // "at most 64 MiB ...": sent by each rank in a step
  kMemory,  // "memory at most 80 GiB": of each rank
};

// Whose values a collective moves.
enum class BudgetTensors : uint8_t { kAll, kParameters, kOptimizer };

// One line of a budget. Which collectives it speaks of: of `kind`, moving
// `tensors`, over one of `axes`, inside of `scope`; what is not given matches
// all.
struct BudgetLine {
  BudgetSubject subject = BudgetSubject::kCalls;
  int64_t most_bytes = 0;  // of kBytes and kMemory
  std::optional<CollectiveKind> kind;
  BudgetTensors tensors = BudgetTensors::kAll;
  std::vector<std::string> axes;  // by name
  std::string scope;              // "layer_*/attention"; "" everywhere
  std::string text;               // "at most 64 MiB over data"
  // Where it came from: "fsdp.layout:9" or "--layout, characters 24-47".
  std::string origin;

  const std::string& ToString() const { return text; }
};

// The section [budget] of a layout: what a plan may cost at most. Lines end at
// line ends, commas and semicolons, words at blanks:
//
//   no all_gather of parameters in layer_*
//   nothing over model in layer_*/attention
//   at most 64 MiB of all_reduce over data
//   memory at most 80 GiB
//
// docs/budgets.md has the grammar; CheckBudget (planning/cost/check_budget.h)
// holds a program against it.
class Budget {
 public:
  Budget() = default;

  // A section's text, and how an error and `origin` name a place in it: the
  // section begins at character `first` (counted from 0) and line `line` of
  // what came from `origin`, whose places are lines if `by_line`.
  struct Source {
    absl::string_view origin;
    int64_t first = 0;
    int line = 1;
    bool by_line = true;
  };

  // Adds the lines of `text`. kInvalidArgument, with the nearest word, the
  // place and the grammar, for a line that is none, and for a second line that
  // limits the same.
  absl::Status Add(absl::string_view text, const Source& source);

  const std::vector<BudgetLine>& lines() const { return lines_; }
  bool empty() const { return lines_.empty(); }

  // Its lines, separated by commas; "" if there are none.
  std::string ToString() const;

 private:
  std::vector<BudgetLine> lines_;
};

// Whether `name`, made of components with "/" between, lies inside `scope`:
// the components of `scope` match the first ones of `name`, where "*" stands
// for any run of characters inside of one. "" is everywhere.
//
//   IsInScope("layer_7/attention/query", "layer_*/attention")  // true
//   IsInScope("layer_7/attention_2", "layer_*/attention")      // false
bool IsInScope(absl::string_view name, absl::string_view scope);

}  // namespace mtf

#endif  // LAYOUTS_BUDGET_H_
