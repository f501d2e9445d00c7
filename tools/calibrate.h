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
  // Approximate duration. A shorter one measures fewer of the same points.
  double seconds = 20;
  // Number of ranks, as threads of this process; 0 takes the allowed cores, at
  // least 2. Must be 0 under an MPI launcher, which sets the number of ranks.
  int ranks = 0;
  // Called on rank 0 before each measurement with one line without a newline,
  // "all_reduce over 2, 1 MiB".
  std::function<void(absl::string_view)> progress = {};
};

// Measures this host and returns the text of its machine file
// (docs/machines.md): matrix products of several sizes in f32 and bf16 on the
// CPU device, with all ranks working concurrently; copies of several sizes; and
// every collective between the ranks, in several sizes.
//
//   MTF_ASSIGN_OR_RETURN(const std::string text, CalibrateThisHost());
//   MTF_ASSIGN_OR_RETURN(const std::string path,
//                        Machine::UserPath("this_host"));
//
// Under an MPI launcher all ranks must call it; all return the same text. Times
// are medians. Returns kInvalidArgument if an option is out of range, and the
// errors of the communicator.
absl::StatusOr<std::string> CalibrateThisHost(
    const CalibrateOptions& options = {});

}  // namespace mtf

#endif  // TOOLS_CALIBRATE_H_
