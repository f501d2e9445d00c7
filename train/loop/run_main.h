// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_RUN_MAIN_H_
#define TRAIN_LOOP_RUN_MAIN_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtf::train {

// The main() of a program that may run as one of many ranks: parses the flags,
// calls `body`, prints its error once for all ranks and returns the exit code.
//
//   int main(int argc, char** argv) {
//     return mtf::train::RunMain(argc, argv, "Trains a model.", &Train);
//   }
//
// A body that returns EndOfProgram() has succeeded. Exceptions from `body`,
// such as std::bad_alloc, become errors as in CatchExceptions. At the end ranks
// wait for each other and report the first error by rank. If a rank fails while
// others wait for it in a collective, it ends the job after some seconds.
int RunMain(int argc, char** argv, absl::string_view usage,
            const std::function<absl::Status()>& body);

// The error with which the body of a program ends it successfully before its
// work is done, as StartSession does under --explain. RunMain returns 0 for it.
absl::Status EndOfProgram();

// Prints a line to standard output, in the process of rank 0 only.
void Say(absl::string_view line);

// Flushes standard output; kDataLoss if it cannot be written, so that a run
// without output does not count as a success.
absl::Status FlushOutput();

// The exit code of a Status, from sysexits.h where it defines one:
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
//   70  all others: internal errors
int ExitCode(absl::StatusCode code);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_RUN_MAIN_H_
