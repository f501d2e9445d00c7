// SPDX-License-Identifier: Apache-2.0
//
// The sections of an explanation about memory, rules and their changes.
#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "layouts/text_items.h"
#include "planning/explain/explain_parts.h"
#include "planning/explain/explain_table.h"
#include "planning/explain/explain_text.h"

namespace mtf::internal {
namespace {

// Empty for 0, which keeps the tables readable.
std::string BytesUnlessZero(int64_t bytes) {
  return bytes == 0 ? "" : BytesText(static_cast<double>(bytes));
}

std::vector<std::string> RuleRow(const ExplainedRule& rule) {
  std::vector<std::string> row = {
      rule.section == "default"
          ? rule.rule
          : absl::StrCat("[", rule.section, "] ", rule.rule),
      rule.use == RuleUse::kUsed     ? "used"
      : rule.use == RuleUse::kUnused ? absl::StrCat("unused: ", rule.why)
                                     : absl::StrCat("shadowed: ", rule.why)};
  if (rule.saved) {
    const MemoryParts& saved = *rule.saved;
    row.push_back(BytesText(static_cast<double>(saved.total())));
    for (int64_t bytes :
         {saved.parameters, saved.optimizer_state, saved.state, saved.gradients,
          saved.copies, saved.activations, saved.unused, saved.host}) {
      row.push_back(BytesUnlessZero(bytes));
    }
  } else {
    row.push_back("unknown");
    row.resize(row.size() + std::size(kMemoryParts) + 1);
  }
  row.push_back(rule.origin);
  return row;
}

// The tensors that are alive at the peak of memory.
std::string AliveTensorsText(const ExplainedMemory& m, int width,
                             const MemoryTextOptions& options) {
  std::string text = WrappedText(
      absl::StrCat(
          "the largest tensors at the peak, in ",
          m.peak_operation.empty() ? "the step" : m.peak_operation,
          m.peak_site.empty() ? "" : absl::StrCat(" (", m.peak_site, ")")),
      width, 2);
  // Tensors that differ only in their layer share a row; the largest rows come
  // first.
  const auto folds = GroupByLayer(
      m.alive.size(), [&](size_t i) { return m.alive[i].name; },
      [&](size_t i) {
        const ExplainedTensor& tensor = m.alive[i];
        return absl::StrCat(tensor.type, "\n", tensor.site, "\n",
                            static_cast<int>(tensor.kind));
      });
  struct Sum {
    const LayerGroup* fold;
    int64_t bytes;
  };
  std::vector<Sum> sums;
  for (const LayerGroup& fold : folds) {
    sums.push_back({&fold, 0});
    for (int i : fold.members) sums.back().bytes += m.alive[i].bytes;
  }
  std::stable_sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) {
    return a.bytes > b.bytes;
  });
  std::vector<std::vector<std::string>> rows;
  int64_t other_bytes = 0, others = 0;
  for (const auto& [fold, bytes] : sums) {
    const ExplainedTensor& first = m.alive[fold->members[0]];
    if (rows.size() == options.tensors) {
      other_bytes += bytes;
      others += static_cast<int64_t>(fold->members.size());
      continue;
    }
    rows.push_back({fold->name, absl::StrCat(fold->members.size()),
                    BytesText(static_cast<double>(bytes)),
                    MemoryKindName(first.kind), options.types ? first.type : "",
                    first.site});
  }
  text += TableText({{"tensor"},
                     {"count", true},
                     {"memory", true},
                     {"kind"},
                     {"type", false, true},
                     {"made at"}},
                    rows, width);
  if (others > 0) {
    text +=
        WrappedText(absl::StrCat("and ", Plural(others, "tensor"), " of ",
                                 BytesText(static_cast<double>(other_bytes))),
                    width, 2);
  }
  return text;
}

}  // namespace

std::string MemoryText(const Explanation& explanation, int width,
                       const MemoryTextOptions& options) {
  const ExplainedMemory& m = explanation.memory;
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](absl::string_view name, int64_t bytes) {
    rows.push_back(
        {std::string(name), BytesText(static_cast<double>(bytes)),
         absl::StrFormat("%.1f %%",
                         100.0 * static_cast<double>(bytes) /
                             std::max(1.0, static_cast<double>(m.total)))});
  };
  row("parameters", m.parts.parameters);
  row("optimizer state", m.parts.optimizer_state);
  if (m.parts.state > 0) row("state", m.parts.state);
  row("gradients", m.parts.gradients);
  if (m.parts.copies > 0) row("copies of variables", m.parts.copies);
  row("activations", m.parts.activations);
  row("unused", m.parts.unused);
  row("total", m.total);
  std::string text = absl::StrCat(
      "\nmemory per rank, at the peak of the step\n",
      TableText({{"purpose"}, {"memory", true}, {"share", true}}, rows, width));
  if (m.parts.host > 0) {
    text +=
        WrappedText(absl::StrCat("and in host memory, by [offload]: ",
                                 BytesText(static_cast<double>(m.parts.host))),
                    width, 2);
  }
  if (m.machine_bytes > 0 && m.total > m.machine_bytes) {
    text += WrappedText(
        absl::StrCat("does not fit: a device has ",
                     BytesText(static_cast<double>(m.machine_bytes))),
        width, 2);
  }
  if (m.alive.empty()) return text;
  return absl::StrCat(text, "\n", AliveTensorsText(m, width, options));
}

std::string PaddingText(const Explanation& explanation, int width) {
  std::string text = explanation.padding.empty() ? "" : "\n";
  for (const ExplainedPadding& padding : explanation.padding) {
    text += WrappedText(
        absl::StrFormat("padding: \"%s\" %d padded to %d (%.1f %% unused)",
                        padding.dimension, padding.size, padding.padded,
                        100.0 *
                            static_cast<double>(padding.padded - padding.size) /
                            static_cast<double>(padding.padded)),
        width, 2);
  }
  return text;
}

std::string RulesText(const Explanation& explanation, int width) {
  if (explanation.rules.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const ExplainedRule& rule : explanation.rules) {
    rows.push_back(RuleRow(rule));
  }
  return absl::StrCat("\nrules, and the memory that each saves\n",
                      TableText({{"rule"},
                                 {"use"},
                                 {"saved", true},
                                 {"parameters", true, true},
                                 {"optimizer state", true, true},
                                 {"state", true, true},
                                 {"gradients", true, true},
                                 {"copies", true, true},
                                 {"activations", true, true},
                                 {"unused", true, true},
                                 {"host memory", true, true},
                                 {"from"}},
                                rows, width));
}

std::string ChangesText(const Explanation& explanation,
                        const std::vector<size_t>& changes,
                        absl::string_view title, int width) {
  const auto row = [](const std::string& edit, const StepCost& cost,
                      int64_t host_bytes) {
    return std::vector<std::string>{
        edit, SecondsText(cost.seconds),
        BytesText(static_cast<double>(cost.wire_bytes)),
        BytesText(static_cast<double>(cost.memory_bytes)),
        BytesUnlessZero(host_bytes)};
  };
  std::vector<std::vector<std::string>> rows = {
      row("(none)", explanation.cost, explanation.memory.parts.host)};
  for (size_t i : changes) {
    const RuleChange& change = explanation.changes[i];
    rows.push_back(
        row(absl::StrCat(change.edit, change.estimated ? " (estimate)" : ""),
            change.cost, change.memory.host));
  }
  std::string text = absl::StrCat("\n", WrappedText(title, width, 2),
                                  TableText({{"change"},
                                             {"step", true},
                                             {"sent", true},
                                             {"memory", true},
                                             {"host memory", true, true}},
                                            rows, width));
  if (!explanation.changes_note.empty()) {
    text += WrappedText(explanation.changes_note, width, 2);
  }
  return text;
}

}  // namespace mtf::internal
