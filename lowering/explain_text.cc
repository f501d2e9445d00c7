// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lowering/explain_parts.h"
#include "lowering/explain_table.h"

namespace mtf {
namespace internal {

namespace {

constexpr size_t kMostTensors = 12;  // alive at the peak

std::string Plural(int64_t count, absl::string_view word) {
  return absl::StrCat(count, " ", word, count == 1 ? "" : "s");
}

class TextWriter {
 public:
  TextWriter(const Explanation& explanation, int width)
      : e_(explanation), width_(std::max(width, 60)) {}

  std::string Write() {
    Head();
    Collectives();
    TotalsByKindAndAxis();
    Modules();
    Einsums();
    Memory();
    PaddingAndRules();
    Changes();
    return std::move(text_);
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
    for (const std::string& notice : e_.notices) {
      Line(absl::StrCat("note: ", notice));
    }
  }

  std::string ChangeOf(const ExplainedCollective& collective) const {
    return collective.change < 0 ? absl::StrCat("(", collective.no_change, ")")
                                 : e_.changes[collective.change].edit;
  }

  void Collectives() {
    if (e_.collectives.empty()) {
      Section("no collectives: nothing is sent between devices");
      return;
    }
    Section("collectives, in order; bytes are per rank and step");
    const std::vector<ExplainedCollective>& all = e_.collectives;
    // Where no change was tried, one line says so.
    const bool untried =
        e_.changes.empty() &&
        std::all_of(all.begin(), all.end(), [&](const auto& c) {
          return c.no_change == all[0].no_change;
        });
    const std::vector<Fold> folds = FoldLayers(
        all.size(), [&](size_t i) { return all[i].tensor; },
        [&](size_t i) {
          const ExplainedCollective& c = all[i];
          return absl::StrJoin(
              {c.kind, c.axes, absl::StrCat(c.bytes), c.dimension, c.rule,
               c.rule_origin, c.site, ChangeOf(c)},
              "\n");
        });
    Rows rows;
    for (const Fold& fold : folds) {
      const ExplainedCollective& first = all[fold.members[0]];
      int64_t bytes = 0;
      double seconds = 0, exposed = 0;
      for (int i : fold.members) {
        bytes += all[i].bytes;
        seconds += all[i].seconds;
        exposed += all[i].exposed;
      }
      rows.push_back({absl::StrCat(first.number), first.kind, first.axes,
                      absl::StrCat(fold.members.size()), absl::StrCat(bytes),
                      SecondsText(seconds), SecondsText(exposed), fold.name,
                      first.dimension, first.rule, first.rule_origin,
                      untried ? "" : ChangeOf(first), first.site});
    }
    Table({{"no", true},
           {"collective"},
           {"axis", false, 0, 2},
           {"calls", true, 0, 4},
           {"bytes", true},
           {"time", true, 0, 5},
           {"exposed", true, 0, 3},
           {"tensor", false, 20, 1},
           {"dimension", false, 0, 7},
           {"rule", false, 16},
           {"rule from", false, 20, 6},
           {"removed by", false, 18, untried ? 8 : 0},
           {"made at", false, 20}},
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
    Table({{"total", false, 12},
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
    // Layers may differ in what is exposed; the sum is right whatever they do.
    const auto folds = FoldLayers(
        all.size(), [&](size_t i) { return all[i].name + "/"; },
        [&](size_t i) { return absl::StrCat(all[i].calls); });
    Rows rows;
    for (const Fold& fold : folds) {
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
    Table({{"module", false, 16},
           {"per rank", true},
           {"compute", true},
           {"calls", true, 0, 2},
           {"bytes", true},
           {"collectives", true, 0, 1},
           {"exposed", true}},
          rows);
  }

  static std::string RegimeText(MatmulRegime regime) {
    return absl::StrCat(static_cast<int>(regime), "-D");
  }

  // How far an einsum is from the least that must be moved for it.
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
    const auto folds = FoldLayers(
        all.size(), [&](size_t i) { return all[i].operation; },
        [&](size_t i) {
          const ExplainedEinsum& einsum = all[i];
          return absl::StrCat(einsum.sharding, "\n", einsum.site, "\n",
                              einsum.flops, "\n", einsum.moved_bytes, "\n",
                              einsum.bound_bytes);
        });
    Rows rows;
    for (const Fold& fold : folds) {
      const ExplainedEinsum& first = all[fold.members[0]];
      const double calls = static_cast<double>(fold.members.size());
      rows.push_back(
          {fold.name, absl::StrCat(fold.members.size()), first.sharding,
           FlopsText(calls * first.flops),
           first.repeated < 1.0005 ? ""
                                   : absl::StrFormat("x%.3g", first.repeated),
           BytesText(calls * first.moved_bytes),
           BytesText(calls * first.bound_bytes), RegimeText(first.layout),
           RegimeText(first.best), Distance(first), first.site});
    }
    Table({{"einsum", false, 26},
           {"calls", true, 0, 5},
           {"result", false, 34, 6},
           {"per rank", true},
           {"repeated", true, 0, 3},
           {"moved", true, 0, 2},
           {"least", true, 0, 2},
           {"cuts", false, 0, 4},
           {"best", false, 0, 4},
           {"distance", true},
           {"made at", false, 20, 7}},
          rows);
    Line(
        "distance is moved over least: below 1 where ranks hold copies, and "
        "\"copies\" where nothing is moved for that reason");
  }

  void Memory() {
    const ExplainedMemory& m = e_.memory;
    Section(absl::StrCat("memory per rank: variables ",
                         m.parameters + m.optimizer_state, " bytes, step ",
                         m.arena, " bytes"));
    Rows rows;
    const auto row = [&](absl::string_view name, int64_t bytes) {
      if (bytes == 0) return;
      rows.push_back(
          {std::string(name), absl::StrCat(bytes),
           absl::StrFormat("%.1f %%", 100.0 * static_cast<double>(bytes) /
                                          static_cast<double>(m.total))});
    };
    row("parameters", m.parameters);
    row("optimizer state", m.optimizer_state);
    row("gradients", m.gradients);
    row("gathered parameters", m.gathered);
    row("activations", m.activations);
    row("between tensors", m.unused);
    if (!rows.empty()) {
      Table({{"at the peak"}, {"bytes", true}, {"share", true}}, rows);
    }
    if (m.machine_bytes > 0) {
      Line(absl::StrFormat("%s of the %s of a device%s",
                           BytesText(static_cast<double>(m.total)),
                           BytesText(static_cast<double>(m.machine_bytes)),
                           m.total > m.machine_bytes ? ": does not fit" : ""));
    }
    if (m.alive.empty()) return;
    text_ += "\n";
    Line(absl::StrCat(
        "alive at the peak, in ",
        m.peak_operation.empty() ? "the step" : m.peak_operation,
        m.peak_site.empty() ? "" : absl::StrCat(" (", m.peak_site, ")")));
    const auto folds = FoldLayers(
        m.alive.size(), [&](size_t i) { return m.alive[i].name; },
        [&](size_t i) {
          const ExplainedTensor& tensor = m.alive[i];
          return absl::StrCat(tensor.type, "\n", tensor.site, "\n",
                              static_cast<int>(tensor.kind));
        });
    struct Sum {
      const Fold* fold;
      int64_t bytes;
    };
    std::vector<Sum> sums;
    for (const Fold& fold : folds) {
      sums.push_back({&fold, 0});
      for (int i : fold.members) sums.back().bytes += m.alive[i].bytes;
    }
    std::stable_sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) {
      return a.bytes > b.bytes;
    });
    rows.clear();
    int64_t rest = 0, others = 0;
    for (const auto& [fold, bytes] : sums) {
      const ExplainedTensor& first = m.alive[fold->members[0]];
      if (rows.size() == kMostTensors) {
        rest += bytes;
        others += static_cast<int64_t>(fold->members.size());
        continue;
      }
      rows.push_back({fold->name, absl::StrCat(fold->members.size()),
                      absl::StrCat(bytes), MemoryKindName(first.kind),
                      first.type, first.site});
    }
    Table({{"tensor", false, 26},
           {"of", true, 0, 4},
           {"bytes", true},
           {"kind", false, 0, 2},
           {"type", false, 34, 3},
           {"made at", false, 20}},
          rows);
    if (others > 0) {
      Line(absl::StrCat("and ", Plural(others, "tensor"), " of ", rest,
                        " bytes"));
    }
  }

  void PaddingAndRules() {
    if (!e_.rules.empty()) {
      Section("rules");
      Rows rows;
      for (const ExplainedRule& rule : e_.rules) {
        rows.push_back(
            {absl::StrCat(rule.section == "default"
                              ? ""
                              : absl::StrCat("[", rule.section, "] "),
                          rule.rule),
             rule.use == RuleUse::kUsed ? "used"
             : rule.use == RuleUse::kUnused
                 ? absl::StrCat("unused: ", rule.why)
                 : absl::StrCat("shadowed: ", rule.why),
             rule.dropped < 0
                 ? ""
                 : BytesText(static_cast<double>(rule.memory_saved)),
             rule.origin});
      }
      Table({{"rule", false, 16},
             {"use", false, 20},
             {"memory saved", true, 0, 1},
             {"from", false, 12, 2}},
            rows);
    }
    if (!e_.padding.empty()) text_ += "\n";
    for (const ExplainedPadding& padding : e_.padding) {
      Line(absl::StrFormat(
          "padding: \"%s\" %d in %d places (%.1f %% unused)", padding.dimension,
          padding.size, padding.padded,
          100.0 * static_cast<double>(padding.padded - padding.size) /
              static_cast<double>(padding.padded)));
    }
  }

  void Changes() {
    if (!e_.changes.empty()) {
      Section("changes of a rule, and what the step would then cost");
      Rows rows = {{"(as it is)", SecondsText(e_.cost.seconds),
                    absl::StrCat(e_.cost.wire_bytes),
                    absl::StrCat(e_.cost.memory_bytes)}};
      for (const RuleChange& change : e_.changes) {
        rows.push_back({change.edit, SecondsText(change.cost.seconds),
                        absl::StrCat(change.cost.wire_bytes),
                        absl::StrCat(change.cost.memory_bytes)});
      }
      Table({{"change", false, 20},
             {"step", true},
             {"bytes sent", true},
             {"memory", true}},
            rows);
    }
    if (!e_.changes_note.empty()) Line(e_.changes_note);
  }

  const Explanation& e_;
  int width_;
  std::string text_;
};

}  // namespace
}  // namespace internal

std::string ExplainText(const Explanation& explanation, int width) {
  return internal::TextWriter(explanation, width).Write();
}

}  // namespace mtf
