// SPDX-License-Identifier: Apache-2.0
//
// mtf verify: proves the reshards of a mesh.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "layouts/prove_reshards.h"
#include "layouts/prove_rows.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "tools/mtf_commands.h"
#include "tools/mtf_flags.h"

ABSL_FLAG(mtf::tools::Allowance, seconds, {},
          "time limit in seconds; 0: the default, 60 to verify and 20 to "
          "calibrate");

namespace mtf::tools {
namespace {

constexpr double kSecondsToCheck = 60;

std::string Account(const ReshardProof& proof) {
  std::string text = absl::StrFormat("%s: %d of %d pairs of layouts proved",
                                     Plural(proof.dimensions, "dimension"),
                                     proof.proved, proof.pairs);
  if (proof.too_large > 0) {
    absl::StrAppend(&text, ", ", proof.too_large, " left out as too large");
  }
  if (proof.not_reached > 0) {
    absl::StrAppend(&text, ", ", proof.not_reached,
                    " not reached in the time given");
  }
  return text;
}

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

absl::Status Verify(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mtf verify takes flags only, not ", Quoted(arguments[0]),
        DetailLine("help", "give the mesh as --mesh=data:2,model:3")));
  }
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, MeshFromFlags());
  double left = absl::GetFlag(FLAGS_seconds).seconds;
  if (left == 0) left = kSecondsToCheck;
  // One process simulates all shards of a value; more would not fit.
  constexpr int64_t kMostRanks = 1 << 16;
  if (mesh.num_devices() > kMostRanks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mesh ", Quoted(mesh.ToString()), " has ", mesh.num_devices(),
        " ranks, more than the ", kMostRanks, " that one process can simulate",
        DetailLine("help",
                   "verify a smaller mesh with the same axes: their sizes "
                   "hardly affect what a reshard does")));
  }

  std::cout << "mesh " << mesh.ToString() << ", "
            << Plural(mesh.num_devices(), "rank")
            << ": every reshard between two layouts of a tensor, over real "
               "data\n";
  const bool terminal = isatty(STDERR_FILENO) != 0;
  bool complete = true, too_large = false;
  const auto begin_rows = std::chrono::steady_clock::now();
  MTF_ASSIGN_OR_RETURN(const RowProof rows, ProveRowPlans(mesh, left / 4));
  left -= SecondsSince(begin_rows);
  for (int dimensions = 1; dimensions <= 3; ++dimensions) {
    ProveOptions options;
    // Each number of dimensions gets a third of the remaining time, the last
    // one all of it.
    options.seconds = dimensions == 3 ? left : left / 2;
    if (terminal) {
      options.progress = [&](int64_t done, int64_t pairs) {
        std::cerr << "\r" << dimensions << " dimensions: " << done << " of "
                  << pairs << (done == pairs ? "\n" : "") << std::flush;
      };
    }
    const auto begin = std::chrono::steady_clock::now();
    MTF_ASSIGN_OR_RETURN(const ReshardProof proof,
                         ProveReshards(mesh, dimensions, options));
    left -= SecondsSince(begin);
    left = std::max(left, 0.0);
    complete = complete && proof.complete();
    too_large = too_large || proof.too_large > 0;
    std::cout << "  " << Account(proof) << std::endl;
  }
  std::cout << "  rows moved along a dimension: " << rows.proved << " of "
            << Plural(rows.transfers, "transfer") << " proved\n";
  complete = complete && rows.complete();
  std::cout
      << "Sizes of 1 to 13, each pair with the least padding and with all "
         "dimensions padded for every axis; sums included.\n"
      << (complete ? "Complete: no reshard of up to three dimensions and no "
                     "halo on this mesh can misplace an element.\n"
                   : "Not complete: the rest was not verified.\n");
  if (!complete) {
    std::cout << "help: "
              << (too_large ? "verify a smaller mesh with the same axes"
                            : "give more time with --seconds")
              << "\n";
  }
  std::cout << std::flush;
  return absl::OkStatus();
}

}  // namespace

Command VerifyCommand() {
  return {"verify",
          "",
          "proves the reshards of a mesh by running them over data",
          {"mesh", "seconds"},
          &Verify};
}

}  // namespace mtf::tools
