// SPDX-License-Identifier: Apache-2.0
//
// Ranks sign in before each step and each other call of a Session that they
// make together, so that a rank that makes another call than the others is
// noticed before its collectives meet those of another step. Collectives
// between GPUs cannot compare themselves.
#ifndef TRAIN_SESSION_SIGN_IN_H_
#define TRAIN_SESSION_SIGN_IN_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "backends/communicator.h"
#include "lowering/lower.h"

namespace mtf::train {

// What all ranks do next, in two parts for the message.
struct JointCall {
  std::string action;   // "step 5"
  std::string subject;  // "request "loss" (program 1a2b, train.cc:41)", or ""
};

// Waits until all ranks have signed in, and returns OK if they will all make
// the same call. Otherwise one error, the same on every rank:
//
//   ABORTED rank 1 is at step 5 of request "loss" (program 1a2b, train.cc:41),
//   where ranks 0, 2 are at step 6
//
// or, if a rank has ended, kAborted, and if it is late, kDeadlineExceeded, with
// its name. `fingerprint` is that of the call, equal in every process (see
// StableHash). Collective over `job`, the communicator of all ranks.
absl::Status SignIn(Communicator& job, uint64_t fingerprint,
                    absl::FunctionRef<JointCall()> call);
// As above, for calls without a subject.
absl::Status SignIn(Communicator& job, absl::string_view action);

// FNV-1a. Unlike absl::Hash it is the same in every process.
uint64_t StableHash(absl::string_view text, uint64_t hash = 0xcbf29ce484222325);

// "request "loss, accuracy" (program 1a2b, train.cc:41)": the names of the
// first fetches or updates, four digits of the hash of the program, and the
// line of the first. Without `program` the hash is omitted.
std::string RequestText(const Targets& targets, uint64_t program);

}  // namespace mtf::train

#endif  // TRAIN_SESSION_SIGN_IN_H_
