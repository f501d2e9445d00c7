// SPDX-License-Identifier: Apache-2.0
#include "train/loop/search_text.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "planning/cost/retain_heap.h"
#include "planning/explain/explain.h"
#include "planning/explain/explain_table.h"
#include "planning/machine/units.h"
#include "planning/search/search_layouts.h"
#include "train/loop/search_progress.h"

namespace mtf::train {
namespace {

using ::mtf::internal::BytesText;
using ::mtf::internal::SecondsText;
using ::mtf::internal::TableText;
using ::mtf::internal::WrappedText;

// The limits of the layout and of --budget together.
absl::StatusOr<Budget> AllLimits(const SearchQuestion& question) {
  Budget limits = question.present.budget();
  for (const BudgetLine& line : question.budget.lines()) {
    MTF_RETURN_IF_ERROR(
        limits.Add(line.text, {.origin = line.origin, .by_line = false}));
  }
  return limits;
}

absl::StatusOr<SearchResult> Find(const SearchQuestion& question) {
  SearchOptions options;
  options.memory_limit = question.machine.memory_bytes();
  MTF_ASSIGN_OR_RETURN(options.budget, AllLimits(question));
  SearchProgress progress;
  progress.Watch(options);
  return SearchRules(
      {&question.graph, question.targets, question.present.offload()},
      question.mesh, PricesOf(question.machine), options);
}

std::string Flag(const LayoutRules& rules, const Budget& budget) {
  const std::string text = rules.ToString();
  const std::string limits =
      budget.empty() ? "" : absl::StrCat("[budget] ", budget.ToString());
  return absl::StrCat("--layout='", text,
                      text.empty() || limits.empty() ? "" : ", ", limits, "'");
}

// What is printed of the search itself, as lines of `width` characters.
std::string HeadText(const SearchQuestion& question, const SearchResult& found,
                     int width) {
  const Machine& machine = question.machine;
  std::string text = WrappedText(
      absl::StrCat("search of layouts for mesh ", question.mesh.ToString(),
                   " of machine ", machine.name(), ", with ",
                   BytesText(static_cast<double>(machine.memory_bytes())),
                   " a device"),
      width, 2);
  const std::string summary = SummaryText(found);
  for (absl::string_view line :
       absl::StrSplit(absl::StripSuffix(summary, "\n"), '\n')) {
    text += WrappedText(absl::StripPrefix(line, "# "), width, 2);
  }
  if (!found.priced_layers.empty()) {
    text += WrappedText(
        "The search estimated them from a few layers; the table has all", width,
        2);
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> SearchText(const SearchQuestion& question,
                                       int width) {
  if (question.mesh.num_devices() == 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--search needs a mesh of several devices",
        DetailLine("help", "give one, as --mesh_shape=data:4,model:2")));
  }
  MTF_RETURN_IF_ERROR(question.machine.CheckMesh(question.mesh));
  mtf::internal::RetainHeap();
  std::vector<std::vector<std::string>> rows;
  ExplainOptions options;
  options.changes = false;
  const auto add = [&](const std::string& name,
                       const LayoutRules& rules) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(const Explanation explained,
                         Explain(question.graph, question.mesh, rules,
                                 question.targets, question.machine, options));
    const int64_t most = question.machine.memory_bytes();
    const int64_t memory = explained.cost.memory_bytes;
    const int64_t host = explained.memory.parts.host;
    rows.push_back({name, SecondsText(explained.cost.seconds),
                    SecondsText(explained.compute),
                    SecondsText(explained.exposed),
                    explained.host_copy_bytes > 0
                        ? SecondsText(explained.host_copy_seconds)
                        : "",
                    BytesText(static_cast<double>(explained.cost.wire_bytes)),
                    BytesText(static_cast<double>(memory)),
                    host > 0 ? BytesText(static_cast<double>(host)) : "",
                    most > 0 && memory > most ? "does not fit" : ""});
    return absl::OkStatus();
  };
  // The present layout first: an error in it takes no search.
  options.strict = question.strict;
  MTF_RETURN_IF_ERROR(add("present", question.present));
  options.strict = false;
  MTF_ASSIGN_OR_RETURN(const SearchResult found, Find(question));
  std::string flags;
  for (size_t i = 0; i < found.best.size(); ++i) {
    const LayoutRules& rules = found.best[i].rules;
    MTF_RETURN_IF_ERROR(add(absl::StrCat(i + 1), rules));
    absl::StrAppend(&flags, i + 1, "  ", Flag(rules, question.present.budget()),
                    "\n");
  }
  const std::vector<internal::TableColumn> columns = {
      {"layout", true},
      {"step", true},
      {"compute", true},
      {"exposed", true},
      {"host copies", true, true},
      {"sent", true},
      {"memory", true},
      {"host memory", true, true},
      {"", false, true}};
  return absl::StrCat(HeadText(question, found, width),
                      "\na step of one rank\n", TableText(columns, rows, width),
                      "\n", flags,
                      "\nmore: add --explain to a run with one of "
                      "these layouts\n");
}

}  // namespace mtf::train
