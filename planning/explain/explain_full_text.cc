// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planning/explain/explain_parts.h"
#include "planning/explain/explain_table.h"
#include "planning/explain/explain_text.h"

namespace mtf {
namespace internal {

namespace {

// Writes the full text of an explanation section by section.
class FullTextWriter {
 public:
  FullTextWriter(const Explanation& explanation, int width)
      : e_(explanation), width_(std::max(width, kMinTextWidth)) {}

  std::string Write() {
    text_ = HeadText(e_, width_) + TotalsText(e_, width_);
    Collectives();
    Modules();
    Einsums();
    text_ += MemoryText(e_, width_, {});
    text_ += RulesText(e_, width_) + PaddingText(e_, width_);
    if (e_.changes.empty()) return text_;
    std::vector<size_t> changes(e_.changes.size());
    std::iota(changes.begin(), changes.end(), 0);
    return text_ + ChangesText(e_, changes,
                               "changes of rules, and the step with each",
                               width_);
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

  void Collectives() {
    if (e_.collectives.empty()) {
      Section(kNothingSent);
      return;
    }
    Section("collectives, in order; bytes are per rank and step");
    Rows rows;
    const bool untried = NoChangeWasTried(e_);
    for (const CollectiveGroup& group : GroupCollectives(e_)) {
      const ExplainedCollective& first = *group.first;
      rows.push_back({absl::StrCat(first.number), first.kind, first.axes,
                      absl::StrCat(group.calls), BytesText(group.bytes),
                      SecondsText(group.seconds), SecondsText(group.exposed),
                      group.tensor, first.rule, untried ? "" : group.removed_by,
                      first.site, first.dimension, first.rule_origin,
                      group.operation});
    }
    Table({{"no", true},
           {"collective"},
           {"axis"},
           {"calls", true},
           {"sent", true},
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
    if (untried) {
      Line(absl::StrCat("removed by: ", e_.collectives[0].no_change));
    }
  }

  void Modules() {
    if (e_.by_module.empty()) return;
    Section("modules");
    const std::vector<ExplainedTotal>& all = e_.by_module;
    // The exposed time may differ between layers, so it is not part of the key.
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
                      absl::StrCat(sum.calls), BytesText(sum.bytes),
                      SecondsText(sum.collectives), SecondsText(sum.exposed)});
    }
    Table({{"module"},
           {"per rank", true},
           {"compute", true},
           {"calls", true},
           {"sent", true},
           {"collectives", true},
           {"exposed", true}},
          rows);
  }

  // "2-D", or "2-D, 1-D is best".
  static std::string Sharded(const ExplainedEinsum& einsum) {
    const auto text = [](MatmulRegime regime) {
      return absl::StrCat(static_cast<int>(regime), "-D");
    };
    if (einsum.layout == einsum.best) return text(einsum.layout);
    return absl::StrCat(text(einsum.layout), ", best ", text(einsum.best));
  }

  // The bytes that an einsum receives relative to its lower bound.
  static std::string Ratio(const ExplainedEinsum& einsum) {
    if (einsum.bound_bytes <= 0) return "";
    return absl::StrFormat("%.2fx", einsum.moved_bytes / einsum.bound_bytes);
  }

  void Einsums() {
    if (e_.einsums.empty()) return;
    Section("einsums, and the bytes that each rank receives for them");
    const std::vector<ExplainedEinsum>& all = e_.einsums;
    const auto folds = GroupByLayer(
        all.size(), [&](size_t i) { return all[i].operation; },
        [&](size_t i) {
          const ExplainedEinsum& einsum = all[i];
          return absl::StrCat(einsum.sharding, "\n", einsum.site, "\n",
                              einsum.flops, "\n", einsum.moved_bytes, "\n",
                              einsum.bound_bytes);
        });
    Rows rows;
    for (const LayerGroup& fold : folds) {
      const ExplainedEinsum& first = all[fold.members[0]];
      const double calls = static_cast<double>(fold.members.size());
      rows.push_back({fold.name, absl::StrCat(fold.members.size()),
                      FlopsText(calls * first.flops),
                      first.repeated < 1.0005
                          ? ""
                          : absl::StrFormat("x%.3g", first.repeated),
                      BytesText(calls * first.moved_bytes),
                      BytesText(calls * first.bound_bytes), Ratio(first),
                      Sharded(first), first.site, first.sharding});
    }
    Table({{"einsum"},
           {"calls", true},
           {"per rank", true},
           {"repeated", true, true},
           {"received", true},
           {"lower bound", true},
           {"ratio", true},
           {"sharded"},
           {"made at"},
           {"result"}},
          rows);
    Line(
        "lower bound: the least that any layout receives if it stores each "
        "matrix once; the ratio is below 1 where ranks hold copies");
    Line(
        "sharded: how many of the dimensions m, n and k of the matmul are "
        "sharded, and how many the best layout shards");
  }

  const Explanation& e_;
  int width_;
  std::string text_;
};

}  // namespace
}  // namespace internal

std::string ExplainFullText(const Explanation& explanation, int width) {
  return internal::FullTextWriter(explanation, width).Write();
}

}  // namespace mtf
