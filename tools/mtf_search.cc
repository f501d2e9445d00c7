// SPDX-License-Identifier: Apache-2.0
//
// mtf search: finds layouts for a GPT on a mesh or on a number of devices.
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "planning/cost/retain_heap.h"
#include "planning/explain/explain_parts.h"
#include "planning/search/search_layouts.h"
#include "tools/model_step.h"
#include "tools/mtf_commands.h"
#include "tools/mtf_flags.h"
#include "train/loop/flag_types.h"
#include "train/loop/search_progress.h"

using mtf::tools::Bytes;
using mtf::train::Size;

ABSL_FLAG(Bytes, memory, {},
          "memory limit of a device, such as 80GiB; empty: the memory of the "
          "machine's devices");
ABSL_FLAG(std::optional<Size>, devices, std::nullopt,
          "searches over the meshes of this many devices too, in place of "
          "--mesh");
ABSL_FLAG(std::string, budget, "",
          "limits that the layouts must keep: lines such as \"at most 64 MiB "
          "over data, no all_to_all\", or @FILE with a section [budget]");
ABSL_FLAG(std::string, offload, "",
          "variables in host memory, as in the section [offload] of a layout: "
          "\"optimizer\", \"parameters\" or names, with commas");
ABSL_FLAG(Size, keep, 3, "layouts to show, up to 100");
ABSL_FLAG(bool, sections, true,
          "searches the sections [parameters] and [optimizer] too");

namespace mtf::tools {
namespace {

// Comments the lines out with "# ". The output is then the layout file of the
// best layout; uncommenting another one selects it.
std::string CommentedOut(const std::string& text) {
  std::string commented;
  for (absl::string_view line :
       absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    absl::StrAppend(&commented, absl::StartsWith(line, "#") ? "" : "# ", line,
                    "\n");
  }
  return commented;
}

// Reads --mesh or --devices; exactly one must be given.
absl::Status CheckWhere(bool has_mesh, std::optional<Size> devices) {
  constexpr int64_t kMostDevices = 1 << 20;
  if (devices.has_value() && *devices > kMostDevices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--devices is ", devices->value, ", more than ", kMostDevices));
  }
  if (has_mesh != devices.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      has_mesh ? "both --mesh and --devices are given"
               : "neither --mesh nor --devices is given",
      DetailLine("help",
                 "give one of them: --mesh=data:8,model:8 or --devices=64")));
}

// Whether --budget is a path although it has no "@": it names an existing file,
// or begins with a word that no budget line begins with.
bool IsPath(const std::string& text) {
  std::error_code ignored;
  const bool has_blanks = text.find_first_of(" \t\n") != std::string::npos;
  return std::filesystem::exists(text, ignored) ||
         (!has_blanks && text.find_first_of("/.") != std::string::npos);
}

// The lines of --budget.
absl::StatusOr<Budget> BudgetFromFlags() {
  const std::string text = absl::GetFlag(FLAGS_budget);
  Budget budget;
  if (!absl::StartsWith(text, "@") && !IsPath(text)) {
    MTF_RETURN_IF_ERROR(
        budget.Add(text, {.origin = "--budget", .by_line = false}));
    return budget;
  }
  const std::string path(absl::StripPrefix(text, "@"));
  MTF_ASSIGN_OR_RETURN(const LayoutRules layout, LayoutRules::ReadFile(path));
  if (layout.budget().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(path), " has no section [budget]",
        DetailLine("help",
                   "write \"[budget]\" and below it a line such as \"at most "
                   "64 MiB over data\"; docs/budgets.md has every word")));
  }
  return layout.budget();
}

constexpr absl::string_view kOffloadHelp =
    "give \"optimizer\", \"parameters\" or \"state\", or names of variables, "
    "as "
    "in --offload=optimizer,layer_*/feed_forward";

// The items of --offload, each of which selects variables of `graph`.
absl::StatusOr<OffloadRules> OffloadFromFlags(const Graph& graph) {
  OffloadRules offload;
  for (absl::string_view item :
       absl::StrSplit(absl::GetFlag(FLAGS_offload), absl::ByAnyChar(", "),
                      absl::SkipEmpty())) {
    const absl::Status added = offload.Add({std::string(item), "--offload"});
    if (added.ok()) continue;
    // The details speak of layouts.
    const absl::string_view what = added.message();
    return absl::InvalidArgumentError(absl::StrCat(
        "item ", Quoted(item), " of --offload ",
        what.substr(0, what.find('\n')), DetailLine("help", kOffloadHelp)));
  }
  std::vector<std::string> notices;
  MTF_RETURN_IF_ERROR(offload.CheckItems(DimensionsOf(graph).variables,
                                         /*strict=*/false, notices));
  if (notices.empty()) return offload;
  return absl::InvalidArgumentError(
      absl::StrCat(notices[0], DetailLine("help", kOffloadHelp)));
}

absl::StatusOr<SearchOptions> OptionsFromFlags(const Machine& machine) {
  SearchOptions options;
  constexpr int kMostKept = 100;
  const int64_t keep = absl::GetFlag(FLAGS_keep);
  if (keep > kMostKept) {
    return absl::InvalidArgumentError(
        absl::StrCat("--keep is ", keep, ", more than ", kMostKept));
  }
  options.keep = static_cast<int>(keep);
  options.sections = absl::GetFlag(FLAGS_sections);
  options.memory_limit = absl::GetFlag(FLAGS_memory).value;
  if (options.memory_limit == 0) options.memory_limit = machine.memory_bytes();
  MTF_ASSIGN_OR_RETURN(options.budget, BudgetFromFlags());
  return options;
}

// Returns the error that Write would return. Changes no file.
absl::Status CheckCanWrite() {
  const std::string path = absl::GetFlag(FLAGS_output);
  std::error_code ignored;
  const bool is_there =
      std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
  if (path.empty() ||
      (is_there && !std::filesystem::is_directory(path, ignored) &&
       access(path.c_str(), W_OK) == 0)) {
    return absl::OkStatus();
  }
  // Opening a folder or a read-only file for writing changes nothing.
  MTF_RETURN_IF_ERROR(Write(""));
  if (!is_there) std::filesystem::remove(path, ignored);
  return absl::OkStatus();
}

absl::StatusOr<SearchResult> Find(const SearchInput& input, const Mesh* mesh,
                                  int devices, const SearchPrices& prices,
                                  SearchOptions options) {
  train::SearchProgress progress;
  progress.Watch(options);
  constexpr int kMostAxes = 3;
  return mesh != nullptr
             ? SearchRules(input, *mesh, prices, options)
             : SearchMeshes(input, devices, kMostAxes, prices, options);
}

absl::Status Search(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mtf search takes flags only, not ", Quoted(arguments[0]),
        DetailLine("help", "give the mesh as --mesh=data:8,model:8")));
  }
  const std::optional<Size> given = absl::GetFlag(FLAGS_devices);
  const std::optional<nn::ModelPreset> preset = PresetFromFlags();
  const bool has_mesh = !absl::GetFlag(FLAGS_mesh).empty() ||
                        (preset && !preset->mesh.empty() && !given.has_value());
  MTF_RETURN_IF_ERROR(CheckWhere(has_mesh, given));
  const int devices = static_cast<int>(given.value_or(0));
  MTF_ASSIGN_OR_RETURN(const Machine machine, MachineFromFlags());
  MTF_ASSIGN_OR_RETURN(const SearchOptions options, OptionsFromFlags(machine));
  Mesh mesh;
  if (has_mesh) {
    MTF_ASSIGN_OR_RETURN(mesh, MeshFromFlags());
  } else {
    MTF_ASSIGN_OR_RETURN(mesh, Mesh::Parse(absl::StrCat("all:", devices)));
  }
  MTF_RETURN_IF_ERROR(machine.CheckMesh(mesh));
  MTF_RETURN_IF_ERROR(CheckCanWrite());
  internal::RetainHeap();
  MTF_ASSIGN_OR_RETURN(const GptStep step, StepFromFlags());
  SearchInput input = step.Input();
  MTF_ASSIGN_OR_RETURN(input.offload, OffloadFromFlags(*input.graph));
  const SearchPrices prices = PricesOf(machine);
  MTF_ASSIGN_OR_RETURN(
      const SearchResult found,
      Find(input, has_mesh ? &mesh : nullptr, devices, prices, options));

  std::string text = absl::StrCat(
      "# mtf search: ", ModelText(), " on ",
      has_mesh ? absl::StrCat("mesh ", mesh.ToString())
               : absl::StrCat(devices, devices == 1 ? " device" : " devices"),
      " of machine ", machine.name(), "\n# A step: ", step.text, "\n",
      SummaryText(found));
  if (!found.priced_layers.empty()) {
    absl::StrAppend(&text, "# Priced by ",
                    absl::StrJoin(found.priced_layers, " and "),
                    " layers, to a few percent; those below by all layers\n");
  }
  for (int i = 0; i < static_cast<int>(found.best.size()); ++i) {
    const std::string layout = LayoutFileText(found, i, options);
    absl::StrAppend(&text, "\n", i == 0 ? layout : CommentedOut(layout));
  }
  return Write(text);
}

}  // namespace

Command SearchCommand() {
  std::vector<std::string> flags = {"mesh",   "devices", "memory",
                                    "budget", "machine", "sections",
                                    "keep",   "output",  "offload"};
  for (const std::string& name : ModelFlags()) flags.push_back(name);
  return {"search", "",
          "finds the fastest layouts of a model that fit into memory", flags,
          &Search};
}

}  // namespace mtf::tools
