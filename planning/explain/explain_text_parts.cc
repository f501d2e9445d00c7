// SPDX-License-Identifier: Apache-2.0
//
// The sections that both texts of an explanation begin with.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "planning/explain/explain_parts.h"
#include "planning/explain/explain_table.h"
#include "planning/explain/explain_text.h"

namespace mtf::internal {
namespace {

std::string RemovedBy(const Explanation& explanation,
                      const ExplainedCollective& collective) {
  if (collective.change < 0) {
    return absl::StrCat("none: ", collective.no_change);
  }
  return absl::StrCat(explanation.changes[collective.change].edit,
                      collective.instead.empty()
                          ? ""
                          : absl::StrCat(" (then ", collective.instead, ")"));
}

// The user's operation, unless the name of the tensor includes it.
std::string OperationOf(const ExplainedCollective& collective) {
  const absl::string_view tensor = collective.tensor;
  const bool is_named =
      tensor == collective.operation ||
      absl::StartsWith(tensor, absl::StrCat(collective.operation, " and "));
  return is_named ? "" : collective.operation;
}

// Equal for collectives that differ only in their layer.
std::string GroupKey(const Explanation& explanation,
                     const ExplainedCollective& collective) {
  const LayerName tensor = SplitLayer(collective.tensor);
  const LayerName operation = SplitLayer(OperationOf(collective));
  // Operations outside of layers, such as those of an optimizer, may be
  // numbered across layers.
  const bool in_layer = operation.layer >= 0;
  return absl::StrJoin(
      {collective.kind, collective.axes, absl::StrCat(collective.bytes),
       collective.dimension, collective.rule, collective.rule_origin,
       collective.site, RemovedBy(explanation, collective), operation.prefix,
       in_layer ? operation.suffix : "",
       absl::StrCat(in_layer ? operation.layer - tensor.layer : 0)},
      "\n");
}

// The operation of a group of collectives.
std::string OperationOf(const ExplainedCollective& first,
                        const LayerGroup& layers) {
  const std::string operation = OperationOf(first);
  const LayerName name = SplitLayer(operation);
  if (name.layer >= 0 && name.layer == SplitLayer(first.tensor).layer) {
    return absl::StrCat(name.prefix, layers.layers, name.suffix);
  }
  if (operation.empty() || layers.members.size() == 1) return operation;
  return absl::StrCat(operation, " and ", layers.members.size() - 1, " more");
}

std::string AttentionText(const Explanation& explanation, int width) {
  const ExplainedAttention& attention = explanation.attention;
  std::string text;
  const auto& all = attention.composed;
  for (const LayerGroup& fold : GroupByLayer(
           all.size(), [&](size_t i) { return all[i].operation; },
           [&](size_t i) {
             return absl::StrCat(all[i].site, "\n", all[i].why);
           })) {
    const ExplainedAttention::Composed& first = all[fold.members[0]];
    text += WrappedText(
        absl::StrCat(
            "attention is composed of einsums: ", fold.name,
            first.site.empty() ? "" : absl::StrCat(" (", first.site, ")"), ": ",
            first.why),
        width, 2);
  }
  return text;
}

// The least time of compute relative to that of communication over each axis.
std::string MarginsText(const std::vector<ExplainedMargin>& margins) {
  std::vector<std::string> items;
  for (const ExplainedMargin& margin : margins) {
    const double ratio = margin.flops_per_byte / margin.break_even;
    items.push_back(absl::StrCat(
        ratio < 1       ? absl::StrFormat("%.2g %%", 100 * ratio)
        : ratio < 999.5 ? absl::StrFormat("%.3g times", ratio)
                        : absl::StrFormat("%.0f times", ratio),
        items.empty() ? " as long as the communication over " : " over ",
        margin.axis));
  }
  return absl::StrCat("compute at peak speed takes ",
                      absl::StrJoin(items, ", "));
}

}  // namespace

std::vector<CollectiveGroup> GroupCollectives(const Explanation& explanation) {
  const std::vector<ExplainedCollective>& all = explanation.collectives;
  std::vector<CollectiveGroup> groups;
  for (const LayerGroup& layers : GroupByLayer(
           all.size(), [&](size_t i) { return all[i].tensor; },
           [&](size_t i) { return GroupKey(explanation, all[i]); })) {
    const ExplainedCollective& first = all[layers.members[0]];
    CollectiveGroup& group = groups.emplace_back();
    group.first = &first;
    group.tensor = layers.name;
    group.operation = OperationOf(first, layers);
    group.removed_by = RemovedBy(explanation, first);
    group.calls = static_cast<int64_t>(layers.members.size());
    for (int i : layers.members) {
      group.bytes += all[i].bytes;
      group.seconds += all[i].seconds;
      group.exposed += all[i].exposed;
    }
  }
  return groups;
}

bool NoChangeWasTried(const Explanation& explanation) {
  const std::vector<ExplainedCollective>& all = explanation.collectives;
  return explanation.changes.empty() &&
         std::all_of(all.begin(), all.end(),
                     [&](const ExplainedCollective& collective) {
                       return collective.no_change == all[0].no_change;
                     });
}

// A notice. Its detail lines (DetailLine) stay lines, and keep their labels.
std::string NoticeText(absl::string_view notice, int width) {
  constexpr size_t kLabelWidth = 11;
  const std::vector<absl::string_view> lines = absl::StrSplit(notice, '\n');
  std::string text = WrappedText(absl::StrCat("note: ", lines[0]), width, 2);
  for (size_t i = 1; i < lines.size(); ++i) {
    const absl::string_view label = lines[i].substr(0, kLabelWidth);
    absl::StrAppend(&text, label,
                    WrappedText(lines[i].substr(label.size()), width,
                                kLabelWidth, kLabelWidth));
  }
  return text;
}

std::string HeadText(const Explanation& explanation, int width) {
  const Explanation& e = explanation;
  std::string text;
  const auto line = [&](const std::string& words) {
    text += WrappedText(words, width, 2);
  };
  line(absl::StrCat(
      e.mesh.num_axes() == 0
          ? "one device"
          : absl::StrCat("mesh ", e.mesh.ToString(), " (",
                         Plural(e.mesh.num_devices(), "device"), ")"),
      e.layout.empty() ? "" : absl::StrCat(", layout ", e.layout)));
  line(absl::StrCat("estimates for machine ", e.machine, ", ",
                    e.machine_checked.empty()
                        ? "never compared to a measured training step"
                        : absl::StrCat("compared to ", e.machine_checked)));
  line(absl::StrCat(
      "step ", SecondsText(e.cost.seconds), ": compute ",
      SecondsText(e.compute), ", collectives ",
      SecondsText(e.collective_seconds), " of which ", SecondsText(e.exposed),
      " exposed (nothing computes)",
      e.host_copy_bytes == 0
          ? ""
          : absl::StrCat(", host copies ", SecondsText(e.host_copy_seconds))));
  const int64_t device_bytes = e.memory.machine_bytes;
  line(absl::StrCat(
      "per rank: ", FlopsText(e.flops), ", ",
      BytesText(static_cast<double>(e.cost.wire_bytes)), " sent in ",
      Plural(static_cast<int64_t>(e.collectives.size()), "collective"), ", ",
      BytesText(static_cast<double>(e.cost.memory_bytes)),
      device_bytes == 0
          ? ""
          : absl::StrCat(" of ", BytesText(static_cast<double>(device_bytes))),
      " of memory",
      device_bytes != 0 && e.cost.memory_bytes > device_bytes ? ": does not fit"
                                                              : ""));
  if (e.memory.parts.host > 0) {
    line(absl::StrCat("offloaded per rank: ",
                      BytesText(static_cast<double>(e.memory.parts.host)),
                      " of host memory; copies of ",
                      BytesText(static_cast<double>(e.host_copy_bytes)),
                      " to and from the device take ",
                      SecondsText(e.host_copy_seconds),
                      ", during which nothing computes"));
  }
  text += AttentionText(e, width);
  for (const std::string& notice : e.notices) {
    text += NoticeText(notice, width);
  }
  return text;
}

std::string TotalsText(const Explanation& explanation, int width) {
  if (explanation.collectives.empty()) return "";
  // In the order of by_axis, and of the first collective of each kind.
  std::map<std::pair<std::string, std::string>, ExplainedTotal> totals;
  for (const ExplainedCollective& collective : explanation.collectives) {
    ExplainedTotal& total = totals[{collective.axes, collective.kind}];
    ++total.calls;
    total.bytes += collective.bytes;
    total.collectives += collective.seconds;
    total.exposed += collective.exposed;
  }
  std::vector<std::vector<std::string>> rows;
  for (const ExplainedTotal& axis : explanation.by_axis) {
    for (const ExplainedTotal& kind : explanation.by_kind) {
      const auto found = totals.find({axis.name, kind.name});
      if (found == totals.end()) continue;
      const ExplainedTotal& total = found->second;
      rows.push_back({axis.name, kind.name, absl::StrCat(total.calls),
                      BytesText(static_cast<double>(total.bytes)),
                      SecondsText(total.collectives),
                      SecondsText(total.exposed)});
    }
  }
  std::string text = absl::StrCat("\ncommunication per rank and step\n",
                                  TableText({{"axis"},
                                             {"collective"},
                                             {"calls", true},
                                             {"sent", true},
                                             {"time", true},
                                             {"exposed", true}},
                                            rows, width));
  if (explanation.margins.empty()) return text;
  return absl::StrCat(text,
                      WrappedText(MarginsText(explanation.margins), width, 2));
}

}  // namespace mtf::internal
