// SPDX-License-Identifier: Apache-2.0
//
// The flags of training programs, and StartSession, which applies those of the
// session.
#ifndef TRAIN_LOOP_FLAGS_H_
#define TRAIN_LOOP_FLAGS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "mtf/graph.h"
#include "train/loop/flag_types.h"
#include "train/session/session.h"

// A program has the flags of StartSession if it calls it, and each of the
// following if it reads it with absl::GetFlag: a flag that it does not read is
// an unknown flag. (This needs the static libraries of the default build.)
ABSL_DECLARE_FLAG(mtf::train::Size, steps);
ABSL_DECLARE_FLAG(mtf::train::Rate, learning_rate);
ABSL_DECLARE_FLAG(mtf::train::ModelPrecision, precision);
ABSL_DECLARE_FLAG(std::string, text);
ABSL_DECLARE_FLAG(std::string, log_json);
// A flag of StartSession that programs read too, for their data.
ABSL_DECLARE_FLAG(mtf::train::Seed, seed);

namespace mtf::train {

// Creates the session described by --mesh_shape, --layout, --layout_file,
// --strict_layout, --backend and --seed, initializes its variables and prints a
// summary on rank 0.
//
//   MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
//                        train::StartSession(graph, request));
//
// `request` is the request of a training step. --dump_program writes its
// lowered program. With --explain or --dry_run its cost is printed instead
// (planning/explain/explain.h, for --machine), with --search the fastest
// layouts (train/loop/search_text.h), and the result is EndOfProgram(), with
// which RunMain ends the program successfully.
absl::StatusOr<std::unique_ptr<Session>> StartSession(
    const Graph& graph, const RunRequest& request);

// A request of a program and the name by which --explain_request selects it.
struct NamedRequest {
  std::string name;
  RunRequest request;
};

// As above, for a program with several requests, each of which can be
// explained: --explain, --search and --dump_program take the request named by
// --explain_request, by default the first.
//
//   train::StartSession(
//       graph, {{"train", {.fetches = {loss}, .updates = {step}}},
//               {"sample", {.fetches = {logits}}}})
//
// `initialize` is passed to Session::Initialize. kInvalidArgument for an
// --explain_request without a request, and for a flag that has no effect
// without another that is missing.
absl::StatusOr<std::unique_ptr<Session>> StartSession(
    const Graph& graph, const std::vector<NamedRequest>& requests,
    const InitializeOptions& initialize = {});

}  // namespace mtf::train

#endif  // TRAIN_LOOP_FLAGS_H_
