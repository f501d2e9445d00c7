// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "layouts/text_items.h"
#include "planning/explain/explain_parts.h"
#include "planning/explain/explain_table.h"
#include "planning/explain/explain_text.h"

namespace mtf::internal {
namespace {

constexpr size_t kMaxTensorRows = 12;  // tensors alive at the peak

// Empty for 0, which keeps the table readable.
std::string SavedText(int64_t bytes) {
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
         {saved.parameters, saved.optimizer_state, saved.gradients,
          saved.copies, saved.activations, saved.unused}) {
      row.push_back(SavedText(bytes));
    }
  } else {
    row.push_back("unknown");
    row.resize(row.size() + 6);
  }
  row.push_back(rule.origin);
  return row;
}

// The tensors that are alive at the peak of memory.
std::string AliveTensorsText(const ExplainedMemory& m, int width) {
  std::string text = WrappedText(
      absl::StrCat(
          "alive at the peak, in ",
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
    if (rows.size() == kMaxTensorRows) {
      other_bytes += bytes;
      others += static_cast<int64_t>(fold->members.size());
      continue;
    }
    rows.push_back({fold->name, absl::StrCat(fold->members.size()),
                    absl::StrCat(bytes), MemoryKindName(first.kind), first.type,
                    first.site});
  }
  text += TableText({{"tensor"},
                     {"count", true},
                     {"bytes", true},
                     {"kind"},
                     {"type"},
                     {"made at"}},
                    rows, width);
  if (others > 0) {
    text += WrappedText(absl::StrCat("and ", Plural(others, "tensor"), " of ",
                                     other_bytes, " bytes"),
                        width, 2);
  }
  return text;
}

}  // namespace

std::string AttentionText(const Explanation& explanation, int width) {
  const ExplainedAttention& attention = explanation.attention;
  std::string text;
  if (attention.fused > 0) {
    text += WrappedText(
        absl::StrCat("attention is fused on this machine: ",
                     Plural(attention.fused, "group"), ", saves ",
                     BytesText(static_cast<double>(attention.saved_bytes))),
        width, 2);
  }
  const auto& all = attention.composed;
  for (const LayerGroup& fold : GroupByLayer(
           all.size(), [&](size_t i) { return all[i].operation; },
           [&](size_t i) {
             return absl::StrCat(all[i].site, "\n", all[i].why);
           })) {
    const ExplainedAttention::Composed& first = all[fold.members[0]];
    text += WrappedText(
        absl::StrCat(
            "attention is not fused: ", fold.name,
            first.site.empty() ? "" : absl::StrCat(" (", first.site, ")"), ": ",
            first.why),
        width, 2);
  }
  return text;
}

std::string MemoryText(const Explanation& explanation, int width) {
  const ExplainedMemory& m = explanation.memory;
  std::string text = absl::StrCat(
      "\n",
      WrappedText(absl::StrCat("memory per rank: variables ",
                               m.parts.parameters + m.parts.optimizer_state,
                               " bytes, step ", m.arena, " bytes"),
                  width, 2));
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](absl::string_view name, int64_t bytes) {
    rows.push_back(
        {std::string(name), absl::StrCat(bytes),
         absl::StrFormat("%.1f %%",
                         100.0 * static_cast<double>(bytes) /
                             std::max(1.0, static_cast<double>(m.total)))});
  };
  row("parameters", m.parts.parameters);
  row("optimizer state", m.parts.optimizer_state);
  row("gradients", m.parts.gradients);
  if (m.parts.copies > 0) row("copies of variables", m.parts.copies);
  row("activations", m.parts.activations);
  row("unused", m.parts.unused);
  text += TableText({{"at the peak"}, {"bytes", true}, {"share", true}}, rows,
                    width);
  if (m.machine_bytes > 0) {
    text += WrappedText(
        absl::StrFormat("%s of the %s of a device%s",
                        BytesText(static_cast<double>(m.total)),
                        BytesText(static_cast<double>(m.machine_bytes)),
                        m.total > m.machine_bytes ? ": does not fit" : ""),
        width, 2);
  }
  if (m.alive.empty()) return text;
  return absl::StrCat(text, "\n", AliveTensorsText(m, width));
}

std::string RulesAndChangesText(const Explanation& explanation, int width) {
  std::string text;
  std::vector<std::vector<std::string>> rows;
  if (!explanation.rules.empty()) {
    for (const ExplainedRule& rule : explanation.rules) {
      rows.push_back(RuleRow(rule));
    }
    absl::StrAppend(&text, "\nrules, and the memory that each saves\n",
                    TableText({{"rule"},
                               {"use"},
                               {"saved", true},
                               {"parameters", true, true},
                               {"optimizer state", true, true},
                               {"gradients", true, true},
                               {"copies", true, true},
                               {"activations", true, true},
                               {"unused", true, true},
                               {"from"}},
                              rows, width));
  }
  if (!explanation.padding.empty()) text += "\n";
  for (const ExplainedPadding& padding : explanation.padding) {
    text += WrappedText(
        absl::StrFormat("padding: \"%s\" %d padded to %d (%.1f %% unused)",
                        padding.dimension, padding.size, padding.padded,
                        100.0 *
                            static_cast<double>(padding.padded - padding.size) /
                            static_cast<double>(padding.padded)),
        width, 2);
  }
  if (!explanation.changes.empty()) {
    const auto row = [](const std::string& edit, const StepCost& cost) {
      return std::vector<std::string>{edit, SecondsText(cost.seconds),
                                      absl::StrCat(cost.wire_bytes),
                                      absl::StrCat(cost.memory_bytes)};
    };
    rows = {row("(current rules)", explanation.cost)};
    for (const RuleChange& change : explanation.changes) {
      rows.push_back(
          row(absl::StrCat(change.edit, change.estimated ? " (estimate)" : ""),
              change.cost));
    }
    absl::StrAppend(&text,
                    "\nrule changes, and what the step would cost with each\n",
                    TableText({{"change"},
                               {"step", true},
                               {"bytes sent", true},
                               {"memory", true}},
                              rows, width));
  }
  if (!explanation.changes_note.empty()) {
    text += WrappedText(explanation.changes_note, width, 2);
  }
  return text;
}

}  // namespace mtf::internal
