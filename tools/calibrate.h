// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_CALIBRATE_H_
#define TOOLS_CALIBRATE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf {

struct CalibrateOptions {
  std::string name = "this_host";
  // About how long it may take. Less time measures fewer points, not others.
  double seconds = 20;
  // Ranks as threads of this process: 0 takes the allowed cores, at least 2.
  // Under an MPI launcher its ranks count, and this must be 0.
  int ranks = 0;
  // Called on rank 0 before each measurement with one line without a newline,
  // "all_reduce over 2, 1 MiB".
  std::function<void(absl::string_view)> progress = {};
};

// Measures this host and returns the text of its machine file
// (docs/machines.md): products in f32 and bf16 by size on the CPU device, with
// the threads of one rank, while the other ranks do the same; copies by size;
// and every collective by size between the ranks.
//
//   MTF_ASSIGN_OR_RETURN(const std::string text, CalibrateThisHost());
//   MTF_ASSIGN_OR_RETURN(const std::string path,
//                        Machine::UserPath("this_host"));
//
// Under an MPI launcher all ranks call it and all return the same text. Times
// are medians. kInvalidArgument for options out of range; errors of the
// communicator.
absl::StatusOr<std::string> CalibrateThisHost(
    const CalibrateOptions& options = {});

}  // namespace mtf

#endif  // TOOLS_CALIBRATE_H_
