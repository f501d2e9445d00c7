// SPDX-License-Identifier: Apache-2.0
//
// mtf diff: the changes from one layout or program to another.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "layouts/shard.h"
#include "layouts/text_items.h"
#include "lowering/lower.h"
#include "lowering/program/count_costs.h"
#include "mtf/status.h"
#include "planning/cost/check_budget.h"
#include "planning/cost/estimate_time.h"
#include "planning/explain/explain_parts.h"
#include "tools/model_step.h"
#include "tools/mtf_commands.h"
#include "tools/mtf_flags.h"
#include "tools/read_layout.h"
#include "tools/read_program.h"

namespace mtf::tools {
namespace {

using internal::BytesText;
using internal::SecondsText;

// One of the two layouts or programs that are compared.
struct Side {
  std::string name;
  std::string text;  // of a file, or ""
  bool is_program = false;
  LayoutRules rules;
  std::vector<std::string> notices;
  Program program;
  StepEstimate step;
  int64_t variables = 0;  // bytes in device memory
  int64_t host = 0;       // bytes of offloaded variables
};

// Errors call an argument that is not a file `source`: "layout A".
absl::StatusOr<Side> ReadSide(const std::string& argument,
                              absl::string_view source) {
  Side side;
  side.name = argument;
  const std::string path = PathOf(argument);
  if (!path.empty()) {
    MTF_ASSIGN_OR_RETURN(side.text, ReadText(path, "layout or program"));
    side.is_program = LooksLikeProgram(side.text);
  }
  if (side.is_program) {
    MTF_ASSIGN_OR_RETURN(side.program, ParseDump(side.text, path));
  } else {
    MTF_ASSIGN_OR_RETURN(side.rules, ReadLayout(argument, source));
  }
  return side;
}

absl::Status LowerSide(const GptStep& step, const Mesh& mesh,
                       const Machine& machine, Side& side) {
  const auto lower = [&]() -> absl::Status {
    MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                         BindLayoutAndBudget(*step.graph, mesh, side.rules));
    side.notices = binding.rules.notices();
    MTF_ASSIGN_OR_RETURN(side.program,
                         Lower(*step.graph, binding, step.targets,
                               {.attention = machine.attention()}));
    return absl::OkStatus();
  };
  const absl::Status status = lower();
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), DetailLine("layout", Quoted(side.name))));
}

// Estimates time and memory on `machine`.
absl::Status Price(const Machine& machine, Side& side) {
  MTF_RETURN_IF_ERROR(FuseFor(machine.fusion(), side.program));
  side.step = EstimateStep(side.program, machine);
  for (const ProgramVariable& variable : side.program.variables) {
    (variable.offloaded ? side.host : side.variables) +=
        LocalElements(side.program.grains, variable.shape, variable.layout) *
        DTypeSize(variable.dtype);
  }
  return absl::OkStatus();
}

// Returns "layer_12/attention" as "layer_*/attention", so that equal layers
// share a line.
std::string WithoutNumbers(absl::string_view name) {
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool digit = absl::ascii_isdigit(static_cast<unsigned char>(name[i]));
    const bool numbered = digit && absl::EndsWith(text, "layer_");
    if (!numbered) {
      text.push_back(name[i]);
      continue;
    }
    while (i + 1 < name.size() &&
           absl::ascii_isdigit(static_cast<unsigned char>(name[i + 1]))) {
      ++i;
    }
    text.push_back('*');
  }
  return text;
}

struct Count {
  int64_t calls = 0, bytes = 0;
};
// Keys are kind, axes, tensor and rule.
using Collectives =
    std::map<std::tuple<std::string, std::string, std::string, std::string>,
             Count>;

Collectives CollectivesOf(const Side& side) {
  Collectives result;
  for (const CollectiveCost& cost : ListCollectives(side.program)) {
    Count& count = result[{std::string(CollectiveName(cost.kind)),
                           side.program.mesh.AxisNames(cost.axes),
                           WithoutNumbers(cost.tensor), cost.rule}];
    ++count.calls;
    count.bytes += cost.bytes;
  }
  return result;
}

// Adds a line for each collective of which `a` has more calls than `b`.
void AddLines(const Collectives& a, const Collectives& b, char sign,
              std::string& text) {
  for (const auto& [key, count] : a) {
    const auto found = b.find(key);
    Count more = count;
    if (found != b.end()) {
      more.calls -= found->second.calls;
      more.bytes -= found->second.bytes;
    }
    if (more.calls <= 0) continue;
    const auto& [kind, axes, tensor, rule] = key;
    absl::StrAppendFormat(
        &text, "  %c %3d x %-18s over %-12s %12s  %s%s\n", sign, more.calls,
        kind, axes, BytesText(static_cast<double>(more.bytes)), tensor,
        rule.empty() ? "" : absl::StrCat("  because of ", rule));
  }
}

std::string Change(double a, double b) {
  if (a == b) return "same";
  if (a == 0) return "new";
  const double percent = 100 * (b - a) / a;
  if (std::abs(percent) < 0.05) return "same";
  if (percent >= 1000) return absl::StrFormat("%.1f times", b / a);
  return absl::StrFormat("%+.1f %%", percent);
}

class Table {
 public:
  void Add(absl::string_view what, double a, double b,
           std::string (*show)(double)) {
    absl::StrAppendFormat(&text_, "  %-36s %12s %12s  %s\n", what, show(a),
                          show(b), Change(a, b));
  }
  void AddHeading(absl::string_view what) {
    absl::StrAppendFormat(&text_, "%-38s %12s %12s  %s\n", what, "A", "B",
                          "change");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string RuleChanges(const Side& a, const Side& b) {
  const auto lines = [](const Side& side) {
    std::set<std::string> set;
    for (const LayoutRule& rule : side.rules.rules()) {
      set.insert(rule.TextWithSection());
    }
    for (const OffloadItem& item : side.rules.offload().items()) {
      set.insert(absl::StrCat("[offload] ", item.text));
    }
    return set;
  };
  const std::set<std::string> before = lines(a), after = lines(b);
  std::string text;
  for (const std::string& rule : before) {
    if (!after.contains(rule)) absl::StrAppend(&text, "  - ", rule, "\n");
  }
  for (const std::string& rule : after) {
    if (!before.contains(rule)) absl::StrAppend(&text, "  + ", rule, "\n");
  }
  return absl::StrCat("rules\n", text.empty() ? "  the same\n" : text);
}

// Whether a plan meets a line of its budget, and the calls or bytes it spends.
std::string BudgetResult(const BudgetUse& use) {
  const bool counts = use.line.subject == BudgetSubject::kCalls;
  const std::string spent =
      counts ? Plural(static_cast<int64_t>(use.collectives.size()), "call")
             : BytesText(static_cast<double>(use.bytes));
  return absl::StrCat(use.exceeded ? "broken, " : "met, ", spent);
}

// Checks each plan against its own budget; "" if neither layout has one.
std::string Budgets(const Side& a, const Side& b) {
  struct Row {
    std::string line, a = "-", b = "-";
  };
  std::vector<Row> rows;
  for (const Side* side : {&a, &b}) {
    for (const BudgetUse& use :
         MeasureBudget(side->program, side->rules.budget())) {
      const std::string& line = use.line.ToString();
      auto row = std::find_if(rows.begin(), rows.end(),
                              [&](const Row& r) { return r.line == line; });
      if (row == rows.end()) row = rows.insert(row, Row{line});
      (side == &a ? row->a : row->b) = BudgetResult(use);
    }
  }
  if (rows.empty()) return "";
  std::string text = absl::StrFormat("%-46s %-20s %s\n",
                                     "budgets, each of its own plan", "A", "B");
  for (const Row& row : rows) {
    const char sign = row.b == "-" ? '-' : row.a == "-" ? '+' : ' ';
    absl::StrAppendFormat(&text, "  %c %-42s %-20s %s\n", sign, row.line, row.a,
                          row.b);
  }
  return absl::StrCat(text, "\n");
}

std::string Compare(const Side& a, const Side& b) {
  std::string text;
  Table table;
  table.AddHeading("a step of one rank");
  table.Add("time", a.step.seconds, b.step.seconds, SecondsText);
  table.Add("compute", a.step.compute, b.step.compute, SecondsText);
  table.Add("collectives", a.step.collectives, b.step.collectives, SecondsText);
  table.Add("exposed", a.step.exposed, b.step.exposed, SecondsText);
  if (a.step.host_copies > 0 || b.step.host_copies > 0) {
    table.Add("host copies", a.step.host_copies, b.step.host_copies,
              SecondsText);
  }
  const auto memory = [](const Side& side) {
    return static_cast<double>(side.variables +
                               side.program.buffers.arena_bytes);
  };
  table.Add("memory", memory(a), memory(b), BytesText);
  table.Add("variables", static_cast<double>(a.variables),
            static_cast<double>(b.variables), BytesText);
  table.Add("the step itself",
            static_cast<double>(a.program.buffers.arena_bytes),
            static_cast<double>(b.program.buffers.arena_bytes), BytesText);
  if (a.host > 0 || b.host > 0) {
    table.Add("host memory", static_cast<double>(a.host),
              static_cast<double>(b.host), BytesText);
  }
  absl::StrAppend(&text, table.text());

  // Bytes by axes and kind, of A and of B.
  std::map<std::string, std::pair<double, double>> bytes;
  for (const Side* side : {&a, &b}) {
    for (const auto& [key, count] : CountCollectives(side->program)) {
      const std::string what =
          absl::StrCat(side->program.mesh.AxisNames(ListOf(key.second)), ", ",
                       CollectiveName(key.first));
      auto& both = bytes[what];
      (side == &a ? both.first : both.second) +=
          static_cast<double>(count.second);
    }
  }
  if (!bytes.empty()) {
    Table sent;
    sent.AddHeading("bytes that a rank sends, by axis");
    for (const auto& [what, both] : bytes) {
      sent.Add(what, both.first, both.second, BytesText);
    }
    absl::StrAppend(&text, "\n", sent.text());
  }

  const Collectives before = CollectivesOf(a), after = CollectivesOf(b);
  std::string lines;
  AddLines(before, after, '-', lines);
  AddLines(after, before, '+', lines);
  return absl::StrCat(text, "\ncollectives removed (-) and added (+)\n",
                      lines.empty() ? "  none\n" : lines);
}

absl::Status Diff(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mtf diff takes two layouts or two programs, not ", arguments.size(),
        DetailLine("help",
                   "a layout is a file, the name of a preset or rules; a "
                   "program is a file of --dump_program")));
  }
  MTF_ASSIGN_OR_RETURN(const Machine machine, MachineFromFlags());
  Side sides[2];
  for (int i = 0; i < 2; ++i) {
    MTF_ASSIGN_OR_RETURN(
        sides[i], ReadSide(arguments[i], i == 0 ? "layout A" : "layout B"));
  }
  Side &a = sides[0], &b = sides[1];
  if (a.is_program != b.is_program) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(a.name), a.is_program ? " is a program" : " is a layout",
        " and ", Quoted(b.name), b.is_program ? " a program" : " a layout",
        DetailLine("help", "compare two layouts or two programs")));
  }
  std::string text;
  if (a.is_program) {
    if (!absl::GetFlag(FLAGS_mesh).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("programs have a mesh of their own",
                       DetailLine("help", "leave out --mesh")));
    }
    if (const std::string flag = FirstModelFlag(); !flag.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "programs take no model flags, but --", flag, " is given",
          DetailLine("help", absl::StrCat("leave out --", flag,
                                          "; the file defines what the "
                                          "program computes"))));
    }
  } else {
    MTF_ASSIGN_OR_RETURN(const Mesh mesh, MeshFromFlags());
    MTF_ASSIGN_OR_RETURN(const GptStep step, StepFromFlags());
    for (Side& side : sides) {
      MTF_RETURN_IF_ERROR(LowerSide(step, mesh, machine, side));
      for (const std::string& notice : side.notices) {
        absl::StrAppend(&text, "note: ", &side == &a ? "A" : "B", ": ", notice,
                        "\n");
      }
    }
    absl::StrAppend(&text, ModelText(), ", ");
  }
  for (Side& side : sides) {
    MTF_RETURN_IF_ERROR(machine.CheckMesh(side.program.mesh));
    MTF_RETURN_IF_ERROR(Price(machine, side));
  }
  const std::string mesh_a = a.program.mesh.ToString(),
                    mesh_b = b.program.mesh.ToString();
  const auto mesh_text = [](const std::string& mesh) {
    return mesh.empty() ? std::string("one device")
                        : absl::StrCat("mesh ", mesh);
  };
  absl::StrAppend(&text, mesh_text(mesh_a),
                  mesh_a == mesh_b
                      ? ""
                      : absl::StrCat(" (A) and ", mesh_text(mesh_b), " (B)"),
                  ", machine ", machine.name(), "\n  A  ", a.name, "\n  B  ",
                  b.name, "\n\n");
  if (!a.is_program) {
    absl::StrAppend(&text, RuleChanges(a, b), "\n", Budgets(a, b));
  }
  return Write(absl::StrCat(text, Compare(a, b)));
}

}  // namespace

Command DiffCommand() {
  std::vector<std::string> flags = {"mesh", "machine", "output"};
  for (const std::string& name : ModelFlags()) flags.push_back(name);
  return {"diff", "A B", "compares two layouts of a model, or two programs",
          flags, &Diff};
}

}  // namespace mtf::tools
