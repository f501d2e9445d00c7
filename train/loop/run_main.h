// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_RUN_MAIN_H_
#define TRAIN_LOOP_RUN_MAIN_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtf::train {

// The main() of a program that may be one rank of many: reads the flags, calls
// `body`, prints its error once for all ranks and returns the exit code.
//
//   int main(int argc, char** argv) {
//     return mtf::train::RunMain(argc, argv, "Trains a model.", &Train);
//   }
//
// What `body` throws, for want of memory or threads, is an error as of
// CatchExceptions. Ranks wait for each other at the end and report the first
// error by rank. A rank that fails while the others cannot come to the end,
// because they wait for it, gives up after a few seconds and takes the job
// down.
int RunMain(int argc, char** argv, absl::string_view usage,
            const std::function<absl::Status()>& body);

// Prints a line to standard output, in the process of rank 0 only.
void Say(absl::string_view line);

// Whether everything printed so far is out; kDataLoss where it cannot be. What
// nobody can read is no success.
absl::Status FlushOutput();

// The exit code for a Status, after sysexits.h where it has one:
//
//   0   kOk
//   2   kInvalidArgument, kAlreadyExists
//   65  kOutOfRange
//   66  kNotFound
//   69  kUnimplemented
//   71  kResourceExhausted
//   73  kPermissionDenied
//   74  kDataLoss
//   75  kUnavailable, kAborted, kDeadlineExceeded
//   78  kFailedPrecondition
//   70  any other: what is no fault of the user
int ExitCode(absl::StatusCode code);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_RUN_MAIN_H_
