// SPDX-License-Identifier: Apache-2.0
#include "train/flags.h"

#include <fstream>
#include <iostream>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "backends/communicators/launcher.h"
#include "layouts/text_items.h"
#include "lowering/count_costs.h"
#include "lowering/lower.h"
#include "lowering/print_program.h"
#include "mtf/status.h"
#include "train/placement.h"
#include "train/run_main.h"

ABSL_FLAG(std::string, mesh_shape, "",
          "the devices as named axes, \"data:2,model:2\"; one size may be -1 "
          "for the rest of the ranks; empty: one device, or the mesh of a "
          "preset");
ABSL_FLAG(std::string, layout, "",
          "which dimension is cut over which mesh axes, "
          "\"batch:data, d_ff:model\", or a preset: single, data, megatron, "
          "data_model, sequence, zero3, three_axes");
ABSL_FLAG(std::string, layout_file, "",
          "reads the layout from a file, which may have [parameters] and "
          "[optimizer] sections");
ABSL_FLAG(bool, strict_layout, false,
          "makes a layout rule that does nothing an error");
ABSL_FLAG(std::string, backend, "cpu", "what computes");
ABSL_FLAG(bool, explain, false,
          "prints every collective of a training step, with the line and the "
          "rule that cause it, and exits");
ABSL_FLAG(std::string, dump_program, "",
          "writes the lowered training step after every pass to this file");
ABSL_FLAG(mtf::train::Size, steps, 1000, "training steps");
ABSL_FLAG(mtf::train::Rate, learning_rate, 3e-3, "highest learning rate");
ABSL_FLAG(mtf::train::Seed, seed, 0,
          "of initial values, dropout, order of the data and sampling");
ABSL_FLAG(std::string, text, "",
          "file to learn from; empty: what Debian's \"bible\" prints");
ABSL_FLAG(std::string, log_json, "",
          "writes one JSON object for each step to this file");

namespace mtf::train {
namespace {

absl::StatusOr<std::string> LayoutFromFlags() {
  std::string layout = absl::GetFlag(FLAGS_layout);
  const std::string file = absl::GetFlag(FLAGS_layout_file);
  if (file.empty()) return layout;
  if (!layout.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("both --layout and --layout_file are given",
                     DetailLine("--layout", Quoted(layout)),
                     DetailLine("--layout_file", Quoted(file)),
                     DetailLine("help", "give one of them")));
  }
  return absl::StrCat("@", file);
}

// What --explain and --dump_program show: it needs the mesh, but no rank of it.
absl::Status ShowPlan(const Graph& graph, const RunRequest& request,
                      const std::string& layout) {
  const LauncherInfo launcher = DetectLauncher();
  MTF_ASSIGN_OR_RETURN(const Placement placement,
                       ParsePlacement(absl::GetFlag(FLAGS_mesh_shape), layout,
                                      launcher.size > 1 ? launcher.size : 0));
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindLayout(graph, placement.mesh, placement.rules,
                                  absl::GetFlag(FLAGS_strict_layout)));
  Targets targets;
  targets.fetches = request.fetches;
  targets.updates = request.updates;
  std::string dump;
  LowerOptions options;
  if (!absl::GetFlag(FLAGS_dump_program).empty()) {
    options.after_pass = [&dump](absl::string_view pass,
                                 const Program& program) {
      absl::StrAppend(&dump, "# after ", pass, "\n", PrintProgram(program),
                      "\n");
    };
  }
  MTF_ASSIGN_OR_RETURN(const Program program,
                       Lower(graph, binding, targets, options));
  if (absl::GetFlag(FLAGS_explain)) {
    for (const std::string& notice : binding.rules.notices()) {
      Say(absl::StrCat("note: ", notice));
    }
    Say(ExplainTable(program));
  }
  if (dump.empty() || launcher.rank != 0) return absl::OkStatus();
  const std::string path = absl::GetFlag(FLAGS_dump_program);
  std::ofstream file(path);
  file << dump << std::flush;
  if (file) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("cannot write the program to ", Quoted(path),
                   DetailLine("help",
                              "name a file in a folder that exists with "
                              "--dump_program")));
}

std::string Describe(const Session& session, const std::string& layout) {
  const Mesh& mesh = session.mesh();
  const int64_t ranks = mesh.num_devices();
  return absl::StrCat(
      ranks == 1 ? "one device" : absl::StrCat("mesh ", mesh.ToString()),
      layout.empty() ? "" : absl::StrCat(", layout ", layout), ", backend ",
      absl::GetFlag(FLAGS_backend), ", ", ranks,
      ranks == 1 ? " rank of " : " ranks of ", session.threads_per_rank(),
      session.threads_per_rank() == 1 ? " thread" : " threads");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> StartSession(
    const Graph& graph, const RunRequest& request) {
  MTF_ASSIGN_OR_RETURN(const std::string layout, LayoutFromFlags());
  const bool explain = absl::GetFlag(FLAGS_explain);
  absl::Status shown;
  if (explain || !absl::GetFlag(FLAGS_dump_program).empty()) {
    shown = ShowPlan(graph, request, layout);
  }
  if (explain) {
    MTF_RETURN_IF_ERROR(shown);
    return std::unique_ptr<Session>();
  }
  SessionOptions options;
  options.backend = absl::GetFlag(FLAGS_backend);
  options.strict_layout = absl::GetFlag(FLAGS_strict_layout);
  options.seed = absl::GetFlag(FLAGS_seed);
  MTF_ASSIGN_OR_RETURN(
      std::unique_ptr<Session> session,
      Session::Create(graph, absl::GetFlag(FLAGS_mesh_shape), layout, options));
  // Only one rank writes, so only one can have failed to.
  MTF_RETURN_IF_ERROR(session->Agree(shown));
  for (const std::string& notice : session->notices()) {
    Say(absl::StrCat("note: ", notice));
  }
  Say(Describe(*session, layout));
  MTF_RETURN_IF_ERROR(session->Initialize());
  return session;
}

}  // namespace mtf::train
