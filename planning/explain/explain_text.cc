// SPDX-License-Identifier: Apache-2.0
#include "planning/explain/explain_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "planning/explain/explain_parts.h"
#include "planning/explain/explain_table.h"

namespace mtf {
namespace internal {

namespace {

// Writes an explanation section by section.
class ExplanationWriter {
 public:
  ExplanationWriter(const Explanation& explanation, int width)
      : e_(explanation), width_(std::max(width, 60)) {}

  std::string Write() {
    Head();
    Collectives();
    TotalsByKindAndAxis();
    Modules();
    Einsums();
    return absl::StrCat(text_, MemoryText(e_, width_),
                        RulesAndChangesText(e_, width_));
  }

 private:
  using Rows = std::vector<std::vector<std::string>>;

  void Line(absl::string_view text, int indent = 2) {
    text_ += WrappedText(text, width_, indent);
  }
  void Section(absl::string_view title) {
    absl::StrAppend(&text_, "\n", title, "\n");
  }
  void Table(const std::vector<TableColumn>& columns, const Rows& rows) {
    text_ += TableText(columns, rows, width_);
  }

  void Head() {
    const int64_t devices = e_.mesh.num_devices();
    Line(absl::StrCat(
        e_.mesh.num_axes() == 0
            ? "one device"
            : absl::StrCat("mesh ", e_.mesh.ToString(), " (",
                           Plural(devices, "device"), ")"),
        ", machine ", e_.machine,
        e_.layout.empty() ? "" : absl::StrCat(", layout ", e_.layout)));
    Line(absl::StrCat("step ", SecondsText(e_.cost.seconds), ": compute ",
                      SecondsText(e_.compute), ", collectives ",
                      SecondsText(e_.collective_seconds), " of which ",
                      SecondsText(e_.exposed), " exposed"));
    Line(absl::StrCat(
        "per rank: ", FlopsText(e_.flops), ", ", e_.cost.wire_bytes,
        " bytes sent in ",
        Plural(static_cast<int64_t>(e_.collectives.size()), "call"), ", ",
        e_.cost.memory_bytes, " bytes of memory"));
    text_ += AttentionText(e_, width_);
    for (const std::string& notice : e_.notices) {
      Line(absl::StrCat("note: ", notice));
    }
  }

  std::string ChangeOf(const ExplainedCollective& collective) const {
    if (collective.change < 0) {
      return absl::StrCat("none: ", collective.no_change);
    }
    return absl::StrCat(e_.changes[collective.change].edit,
                        collective.instead.empty()
                            ? ""
                            : absl::StrCat(" (then ", collective.instead, ")"));
  }

  // The user's operation, unless the name of the tensor includes it.
  static std::string OperationOf(const ExplainedCollective& collective) {
    const absl::string_view tensor = collective.tensor;
    const bool named =
        tensor == collective.operation ||
        absl::StartsWith(tensor, absl::StrCat(collective.operation, " and "));
    return named ? "" : collective.operation;
  }

  void Collectives() {
    if (e_.collectives.empty()) {
      Section("no collectives: nothing is sent between devices");
      return;
    }
    Section("collectives, in order; bytes are per rank and step");
    const std::vector<ExplainedCollective>& all = e_.collectives;
    // If no change was tried, a single line after the table says so.
    const bool untried =
        e_.changes.empty() &&
        std::all_of(all.begin(), all.end(), [&](const auto& c) {
          return c.no_change == all[0].no_change;
        });
    // One row for all collectives that differ only in their layer.
    const std::vector<LayerGroup> folds = GroupByLayer(
        all.size(), [&](size_t i) { return all[i].tensor; },
        [&](size_t i) {
          const ExplainedCollective& c = all[i];
          const LayerName tensor = SplitLayer(c.tensor);
          const LayerName operation = SplitLayer(OperationOf(c));
          return absl::StrJoin(
              {c.kind, c.axes, absl::StrCat(c.bytes), c.dimension, c.rule,
               c.rule_origin, c.site, ChangeOf(c), operation.prefix,
               // Operations outside of layers, such as those of an optimizer,
               // may be numbered across layers.
               operation.layer < 0 ? "" : operation.suffix,
               absl::StrCat(
                   operation.layer < 0 ? 0 : operation.layer - tensor.layer)},
              "\n");
        });
    Rows rows;
    for (const LayerGroup& fold : folds) {
      const ExplainedCollective& first = all[fold.members[0]];
      int64_t bytes = 0;
      double seconds = 0, exposed = 0;
      for (int i : fold.members) {
        bytes += all[i].bytes;
        seconds += all[i].seconds;
        exposed += all[i].exposed;
      }
      const LayerName operation = SplitLayer(OperationOf(first));
      std::string made_by = OperationOf(first);
      if (operation.layer >= 0 &&
          operation.layer == SplitLayer(first.tensor).layer) {
        made_by = absl::StrCat(operation.prefix, fold.layers, operation.suffix);
      } else if (made_by != "" && fold.members.size() > 1) {
        absl::StrAppend(&made_by, " and ", fold.members.size() - 1, " more");
      }
      rows.push_back({absl::StrCat(first.number), first.kind, first.axes,
                      absl::StrCat(fold.members.size()), absl::StrCat(bytes),
                      SecondsText(seconds), SecondsText(exposed), fold.name,
                      first.rule, untried ? "" : ChangeOf(first), first.site,
                      first.dimension, first.rule_origin, std::move(made_by)});
    }
    Table({{"no", true},
           {"collective"},
           {"axis"},
           {"calls", true},
           {"bytes", true},
           {"time", true},
           {"exposed", true},
           {"tensor"},
           {"rule"},
           {"removed by", false, true},
           {"made at"},
           {"dimension"},
           {"rule from"},
           {"operation", false, true}},
          rows);
    if (untried) Line(absl::StrCat("removed by: ", all[0].no_change));
  }

  void TotalsByKindAndAxis() {
    if (e_.collectives.empty()) return;
    text_ += "\n";
    Rows rows;
    for (const auto* totals : {&e_.by_kind, &e_.by_axis}) {
      for (const ExplainedTotal& total : *totals) {
        rows.push_back(
            {absl::StrCat(totals == &e_.by_kind ? "" : "over ", total.name),
             absl::StrCat(total.calls), absl::StrCat(total.bytes),
             SecondsText(total.collectives), SecondsText(total.exposed)});
      }
    }
    Table({{"total"},
           {"calls", true},
           {"bytes", true},
           {"time", true},
           {"exposed", true}},
          rows);
    for (const ExplainedMargin& margin : e_.margins) {
      Line(absl::StrFormat(
          "%s: %.4g FLOP per byte sent; at %.4g this machine computes as long "
          "as it sends (%.2gx)",
          margin.axis, margin.flops_per_byte, margin.break_even,
          margin.flops_per_byte / margin.break_even));
    }
  }

  void Modules() {
    if (e_.by_module.empty()) return;
    Section("modules");
    const std::vector<ExplainedTotal>& all = e_.by_module;
    // The exposed time may differ between layers, so it is no part of the key.
    const auto folds = GroupByLayer(
        all.size(), [&](size_t i) { return all[i].name + "/"; },
        [&](size_t i) { return absl::StrCat(all[i].calls); });
    Rows rows;
    for (const LayerGroup& fold : folds) {
      ExplainedTotal sum;
      for (int i : fold.members) {
        sum.calls += all[i].calls;
        sum.bytes += all[i].bytes;
        sum.collectives += all[i].collectives;
        sum.exposed += all[i].exposed;
        sum.compute += all[i].compute;
        sum.flops += all[i].flops;
      }
      rows.push_back({fold.name.substr(0, fold.name.size() - 1),
                      FlopsText(sum.flops), SecondsText(sum.compute),
                      absl::StrCat(sum.calls), absl::StrCat(sum.bytes),
                      SecondsText(sum.collectives), SecondsText(sum.exposed)});
    }
    Table({{"module"},
           {"per rank", true},
           {"compute", true},
           {"calls", true},
           {"bytes", true},
           {"collectives", true},
           {"exposed", true}},
          rows);
  }

  static std::string RegimeText(MatmulRegime regime) {
    return absl::StrCat(static_cast<int>(regime), "-D");
  }

  // The bytes that an einsum moves relative to its lower bound.
  static std::string Distance(const ExplainedEinsum& einsum) {
    if (einsum.moved_bytes <= 0 && einsum.bound_bytes <= 0) return "at it";
    if (einsum.bound_bytes <= 0) return "avoidable";
    if (einsum.moved_bytes <= 0) return "copies";
    return absl::StrFormat("%.2fx", einsum.moved_bytes / einsum.bound_bytes);
  }

  void Einsums() {
    if (e_.einsums.empty()) return;
    Section("einsums, against the least bytes any layout must move");
    const std::vector<ExplainedEinsum>& all = e_.einsums;
    const auto folds = GroupByLayer(
        all.size(), [&](size_t i) { return all[i].operation; },
        [&](size_t i) {
          const ExplainedEinsum& einsum = all[i];
          return absl::StrCat(einsum.sharding, "\n", einsum.site, "\n",
                              einsum.flops, "\n", einsum.moved_bytes, "\n",
                              einsum.bound_bytes, "\n", einsum.in_attention);
        });
    Rows rows;
    for (const LayerGroup& fold : folds) {
      const ExplainedEinsum& first = all[fold.members[0]];
      const double calls = static_cast<double>(fold.members.size());
      rows.push_back(
          {fold.name, absl::StrCat(fold.members.size()),
           FlopsText(calls * first.flops),
           first.repeated < 1.0005 ? ""
                                   : absl::StrFormat("x%.3g", first.repeated),
           BytesText(calls * first.moved_bytes),
           BytesText(calls * first.bound_bytes), RegimeText(first.layout),
           RegimeText(first.best), Distance(first),
           first.in_attention ? "fused attention" : "", first.site,
           first.sharding});
    }
    Table({{"einsum"},
           {"calls", true},
           {"per rank", true},
           {"repeated", true, true},
           {"moved", true},
           {"least", true},
           {"sharded"},
           {"best"},
           {"distance", true},
           {"runs in", false, true},
           {"made at"},
           {"result"}},
          rows);
    Line(
        "distance is moved divided by least: below 1 if ranks hold copies, "
        "\"copies\" if nothing is moved for that reason");
  }

  const Explanation& e_;
  int width_;
  std::string text_;
};

}  // namespace
}  // namespace internal

std::string ExplainText(const Explanation& explanation, int width) {
  return internal::ExplanationWriter(explanation, width).Write();
}

}  // namespace mtf
