// SPDX-License-Identifier: Apache-2.0
//
// Prints a table of runs of one program under several layouts, from their
// --log_json files.
//
//   compare_runs [--tolerance=NUMBER] REFERENCE_LOG [LAYOUT MESH LOG]...
//
// Prints a line for each LAYOUT: ranks, final loss, the largest difference of a
// step's loss from the reference, collectives and bytes sent per rank and step,
// and the median of tokens per second. With a tolerance it fails if a
// difference is larger, or a loss is NaN.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "layouts/mesh.h"
#include "mtf/status.h"
#include "train/loop/metrics.h"
#include "train/loop/progress.h"
#include "train/loop/run_main.h"

namespace mtf {
namespace {

using train::FormatQuantity;
using train::StepMetrics;

double MedianSpeed(const std::vector<StepMetrics>& steps) {
  std::vector<double> speeds;
  for (const StepMetrics& step : steps) speeds.push_back(step.tokens_per_s);
  std::nth_element(speeds.begin(), speeds.begin() + speeds.size() / 2,
                   speeds.end());
  return speeds[speeds.size() / 2];
}

absl::StatusOr<double> LargestDifference(
    const std::string& path, const std::vector<StepMetrics>& steps,
    const std::vector<StepMetrics>& reference) {
  if (steps.empty() || steps.size() != reference.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the log \"", path, "\" has ", steps.size(),
                     " steps, the reference ", reference.size()));
  }
  double largest = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].step != reference[i].step) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", i + 1, " of the log \"", path, "\" is step ", steps[i].step,
          ", that of the reference ", reference[i].step));
    }
    const double difference = std::abs(steps[i].loss - reference[i].loss);
    // Also a NaN, which is neither smaller nor larger.
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) break;
  }
  return largest;
}

constexpr char kUsage[] =
    "usage: compare_runs [--tolerance=NUMBER] REFERENCE_LOG "
    "[LAYOUT MESH LOG]...";

absl::Status Compare(std::vector<std::string> arguments) {
  double tolerance = std::numeric_limits<double>::infinity();
  absl::string_view first;
  if (!arguments.empty()) first = arguments[0];
  const bool compares = absl::ConsumePrefix(&first, "--tolerance=");
  if (compares && !(absl::SimpleAtod(first, &tolerance) && tolerance >= 0)) {
    return absl::InvalidArgumentError(kUsage);
  }
  if (compares) arguments.erase(arguments.begin());
  if (arguments.size() % 3 != 1) return absl::InvalidArgumentError(kUsage);
  MTF_ASSIGN_OR_RETURN(const std::vector<StepMetrics> reference,
                       train::ReadMetrics(arguments[0]));
  std::cout << absl::StrFormat("%-17s %-28s %5s  %10s  %10s  %11s  %10s  %8s\n",
                               "layout", "mesh", "ranks", "final loss",
                               "difference", "collectives", "bytes/step",
                               "tokens/s");
  for (size_t i = 1; i < arguments.size(); i += 3) {
    MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(arguments[i + 1]));
    MTF_ASSIGN_OR_RETURN(const std::vector<StepMetrics> steps,
                         train::ReadMetrics(arguments[i + 2]));
    MTF_ASSIGN_OR_RETURN(const double difference,
                         LargestDifference(arguments[i + 2], steps, reference));
    std::cout << absl::StrFormat(
        "%-17s %-28s %5d  %10.6f  %10.1e  %11d  %10s  %8s\n", arguments[i],
        mesh.ToString(), mesh.num_devices(), steps.back().loss, difference,
        steps.back().TotalCalls(), FormatQuantity(steps.back().TotalBytes()),
        FormatQuantity(MedianSpeed(steps)));
    if (compares && !(difference <= tolerance)) {
      return absl::DataLossError(
          absl::StrFormat("the losses of \"%s\" differ from those of the "
                          "reference by %.2g, more "
                          "than %g",
                          arguments[i + 2], difference, tolerance));
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  const absl::Status status =
      mtf::Compare(std::vector<std::string>(argv + 1, argv + argc));
  if (!status.ok()) std::cerr << mtf::ErrorText(status) << std::endl;
  return mtf::train::ExitCode(status.code());
}
