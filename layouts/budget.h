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

// Which values a collective moves.
enum class BudgetTensors : uint8_t { kAll, kParameters, kOptimizer };

// One line of a budget. It limits the collectives that are of `kind`, move
// `tensors`, run over one of `axes`, and belong to an operation in `scope`.
// Fields that are not given match all collectives.
struct BudgetLine {
  BudgetSubject subject = BudgetSubject::kCalls;
  int64_t most_bytes = 0;  // for kBytes and kMemory
  std::optional<CollectiveKind> kind;
  BudgetTensors tensors = BudgetTensors::kAll;
  std::vector<std::string> axes;  // by name
  std::string scope;              // "layer_*/attention"; "" everywhere
  std::string text;               // "at most 64 MiB over data"
  // Where the line is written: "fsdp.layout:9" or "--layout, characters 24-47".
  std::string origin;

  const std::string& ToString() const { return text; }
};

// The section [budget] of a layout: limits on what a plan may cost. Lines are
// separated by line breaks, commas or semicolons, words by blanks:
//
//   no all_gather of parameters in layer_*
//   nothing over model in layer_*/attention
//   at most 64 MiB of all_reduce over data
//   memory at most 80 GiB
//
// docs/budgets.md has the grammar. CheckBudget (planning/cost/check_budget.h)
// checks a program against a budget.
class Budget {
 public:
  Budget() = default;

  // Where the text of a section comes from, for errors and BudgetLine::origin:
  // it begins at character `first` (counted from 0), on line `line`, of the
  // text called `origin`. Positions are given as lines if `by_line`, else as
  // characters.
  struct Source {
    absl::string_view origin;
    int64_t first = 0;
    int line = 1;
    bool by_line = true;
  };

  // Adds the lines of `text`. Returns kInvalidArgument for a malformed line,
  // with the nearest word, the position and the grammar, and for a second line
  // that limits the same collectives.
  absl::Status Add(absl::string_view text, const Source& source);

  const std::vector<BudgetLine>& lines() const { return lines_; }
  bool empty() const { return lines_.empty(); }

  // The lines, separated by commas; "" if there are none.
  std::string ToString() const;

 private:
  std::vector<BudgetLine> lines_;
};

}  // namespace mtf

#endif  // LAYOUTS_BUDGET_H_
