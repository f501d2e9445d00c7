// SPDX-License-Identifier: Apache-2.0
//
// mtf explain: explains a program that --dump_program wrote.
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "planning/explain/explain.h"
#include "tools/model_step.h"
#include "tools/mtf_commands.h"
#include "tools/mtf_flags.h"
#include "tools/read_layout.h"
#include "tools/read_program.h"

ABSL_FLAG(std::string, format, "text", "text, full (text), json or html");
ABSL_FLAG(
    int, width, 0,
    "columns of the text, at least 60; 0: columns of the terminal, or 100");

namespace mtf::tools {
namespace {

absl::StatusOr<int> WidthFromFlags() {
  constexpr int kLeast = 60, kUsual = 100;
  const int width = absl::GetFlag(FLAGS_width);
  if (width == 0) {
    winsize size = {};
    if (isatty(STDOUT_FILENO) != 0 &&
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= kLeast) {
      return size.ws_col;
    }
    return kUsual;
  }
  if (width < kLeast || width > 10000) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--width is ", width, ", not 0 or from ", kLeast, " to 10000"));
  }
  return width;
}

// The explanation of a layout of the model of flags.
absl::StatusOr<Explanation> ExplainLayout(const std::string& argument,
                                          const Machine& machine) {
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, MeshFromFlags());
  MTF_RETURN_IF_ERROR(machine.CheckMesh(mesh));
  MTF_ASSIGN_OR_RETURN(const LayoutRules rules, ReadLayout(argument, "layout"));
  MTF_ASSIGN_OR_RETURN(const GptStep step, StepFromFlags());
  MTF_ASSIGN_OR_RETURN(
      Explanation explanation,
      mtf::Explain(*step.graph, mesh, rules, step.targets, machine));
  explanation.program = ModelText();
  return explanation;
}

// The explanation of a file of --dump_program.
absl::StatusOr<Explanation> ExplainFile(const std::string& path,
                                        const Machine& machine) {
  if (const std::string flag = FirstModelFlag(); !flag.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a program takes no model flags, but --", flag, " is given",
        DetailLine("help",
                   "leave it out; or give a --mesh, and a layout in "
                   "place of the program")));
  }
  MTF_ASSIGN_OR_RETURN(const Program program, ReadProgram(path));
  MTF_RETURN_IF_ERROR(machine.CheckMesh(program.mesh));
  Explanation explanation = ExplainProgram(program, machine);
  explanation.program = path;
  return explanation;
}

absl::Status Explain(const std::vector<std::string>& arguments) {
  const std::optional<nn::ModelPreset> preset = PresetFromFlags();
  const bool takes_its_layout = arguments.empty() && preset;
  if (arguments.size() != 1 && !takes_its_layout &&
      !absl::GetFlag(FLAGS_mesh).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mtf explain --mesh takes one layout, not ", arguments.size(),
        DetailLine("help",
                   "name a preset or give rules: mtf explain data "
                   "--mesh=data:4, mtf explain \"d_ff:model\" "
                   "--mesh=model:2")));
  }
  if (arguments.size() != 1 && !takes_its_layout) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mtf explain takes one program, not ", arguments.size(),
        DetailLine("help",
                   "--dump_program=PROGRAM.txt of a training program writes "
                   "one; with --mesh, give a layout of the model instead")));
  }
  const std::string format = absl::GetFlag(FLAGS_format);
  const std::vector<std::string> formats = {"text", "full", "json", "html"};
  if (!absl::c_linear_search(formats, format)) {
    const std::string nearest = NearestName(format, formats);
    return absl::InvalidArgumentError(absl::StrCat(
        "--format is ", Quoted(format), ", not text, full, json or html",
        nearest.empty()
            ? ""
            : DetailLine("help", absl::StrCat("write --format=", nearest))));
  }
  MTF_ASSIGN_OR_RETURN(const int width, WidthFromFlags());
  MTF_ASSIGN_OR_RETURN(const Machine machine, MachineFromFlags());
  const std::string argument = takes_its_layout ? preset->layout : arguments[0];
  MTF_ASSIGN_OR_RETURN(const Explanation explanation,
                       preset || !absl::GetFlag(FLAGS_mesh).empty()
                           ? ExplainLayout(argument, machine)
                           : ExplainFile(argument, machine));
  if (format == "json") return Write(ExplainJson(explanation));
  if (format == "html") return Write(ExplainHtml(explanation));
  if (format == "full") return Write(ExplainFullText(explanation, width));
  return Write(ExplainText(explanation, width));
}

}  // namespace

Command ExplainCommand() {
  std::vector<std::string> flags = {"machine", "mesh", "format", "width",
                                    "output"};
  for (const std::string& name : ModelFlags()) flags.push_back(name);
  return {"explain", "PROGRAM.txt",
          "explains what a program of --dump_program costs, or a layout of a "
          "model",
          flags, &Explain};
}

}  // namespace mtf::tools
