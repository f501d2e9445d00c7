// SPDX-License-Identifier: Apache-2.0
//
// Training steps on the ranks of the launcher, one process each: under
// every preset layout the losses equal those of one device, from bitwise equal
// initial values, with exactly the communication of the plan. Every rank
// checks. Histograms of parameters, whose counts processes add up, are those of
// one process.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/communicators/launcher.h"
#include "layouts/layout_rules.h"
#include "mtf/precision_text.h"
#include "mtf/status.h"
#include "tests/requirements.h"
#include "tests/train/small_lm.h"
#include "train/loop/run_main.h"
#include "train/loop/variable_histograms.h"

namespace mtf::train {
namespace {

const int kSteps = testing::ThoroughTests() ? 50 : 10;

// The allowed difference of losses from those of one device: sums of bf16 over
// ranks round once more.
struct Numbers {
  const char* name;
  double tolerance;
};
constexpr Numbers kNumbers[] = {{"float32", 1e-4}, {"bfloat16", 1e-2}};

absl::StatusOr<SmallRun> RunUnderMpi(const std::string& layout, int steps,
                                     const Precision& precision) {
  SessionOptions options;
  options.ranks = RankKind::kMpi;
  const int ranks = DetectLauncher().size;
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, LayoutRules::PresetMesh(layout, ranks));
  return RunSmallLm(mesh.ToString(), layout, steps, options, precision);
}

absl::Status Check(bool condition, const std::string& layout,
                   const std::string& fault) {
  if (condition) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("rank ", DetectLauncher().rank,
                                          " of ", DetectLauncher().size,
                                          ", layout ", layout, ": ", fault));
}

absl::Status CheckLayout(const std::string& layout, const Numbers& numbers,
                         const SmallRun& reference) {
  MTF_ASSIGN_OR_RETURN(const Precision precision, ParsePrecision(numbers.name));
  MTF_ASSIGN_OR_RETURN(const SmallRun run,
                       RunUnderMpi(layout, kSteps, precision));
  for (const auto& [name, value] : reference.initial) {
    MTF_RETURN_IF_ERROR(Check(run.initial.at(name) == value, layout,
                              absl::StrCat("initial bits of ", name)));
  }
  MTF_RETURN_IF_ERROR(
      Check(run.masks == reference.masks, layout, "dropout masks"));
  const double difference = LargestLossDifference(run, reference);
  MTF_RETURN_IF_ERROR(Check(difference <= numbers.tolerance, layout,
                            absl::StrCat("losses differ by ", difference)));
  MTF_RETURN_IF_ERROR(
      Check(run.counted == run.planned, layout, "counts are not the plan's"));
  // A second run of fewer steps is bitwise equal.
  MTF_ASSIGN_OR_RETURN(const SmallRun again, RunUnderMpi(layout, 5, precision));
  for (int i = 0; i < 5; ++i) {
    MTF_RETURN_IF_ERROR(Check(again.losses[i] == run.losses[i], layout,
                              absl::StrCat("another run, step ", i)));
  }
  Say(absl::StrFormat("%-12s %-8s losses differ by %.1e of themselves at most",
                      layout, numbers.name, difference));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<VariableHistogram>> InitialHistograms(
    RankKind ranks) {
  const std::string layout = "data_model";
  MTF_ASSIGN_OR_RETURN(const Mesh mesh,
                       LayoutRules::PresetMesh(layout, DetectLauncher().size));
  Graph graph;
  BuildSmallLm(graph);
  MTF_ASSIGN_OR_RETURN(
      const std::unique_ptr<Session> session,
      Session::Create(graph, mesh.ToString(), layout, {.ranks = ranks}));
  MTF_RETURN_IF_ERROR(session->Initialize());
  MTF_ASSIGN_OR_RETURN(const std::vector<int> ids,
                       ParametersThatMatch(graph, {}));
  return HistogramsOfVariables(*session, ids);
}

// Histograms are bitwise those of the same mesh in one process.
absl::Status CheckHistograms() {
  MTF_ASSIGN_OR_RETURN(const std::vector<VariableHistogram> expected,
                       InitialHistograms(RankKind::kLocal));
  MTF_ASSIGN_OR_RETURN(const std::vector<VariableHistogram> found,
                       InitialHistograms(RankKind::kMpi));
  MTF_RETURN_IF_ERROR(
      Check(!expected.empty() && found.size() == expected.size(), "data_model",
            "other parameters"));
  for (size_t i = 0; i < expected.size(); ++i) {
    MTF_RETURN_IF_ERROR(Check(
        found[i].histogram == expected[i].histogram && found[i].nan == 0 &&
            found[i].infinite == 0 && found[i].histogram.count > 0,
        "data_model", absl::StrCat("the histogram of ", found[i].name)));
  }
  return absl::OkStatus();
}

absl::Status CheckAll() {
  MTF_RETURN_IF_ERROR(CheckHistograms());
  SessionOptions options;
  options.ranks = RankKind::kLocal;
  for (const Numbers& numbers : kNumbers) {
    MTF_ASSIGN_OR_RETURN(const Precision precision,
                         ParsePrecision(numbers.name));
    MTF_ASSIGN_OR_RETURN(const SmallRun reference,
                         RunSmallLm("", "", kSteps, options, precision));
    for (const std::string& layout : LayoutRules::PresetNames()) {
      MTF_RETURN_IF_ERROR(CheckLayout(layout, numbers, reference));
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf::train

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Checks training under MPI.",
                             &mtf::train::CheckAll);
}
