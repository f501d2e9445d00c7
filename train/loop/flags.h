// SPDX-License-Identifier: Apache-2.0
//
// The flags that every training program has, and StartSession, which applies
// them.
#ifndef TRAIN_LOOP_FLAGS_H_
#define TRAIN_LOOP_FLAGS_H_

#include <memory>
#include <string>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "mtf/graph.h"
#include "train/loop/flag_types.h"
#include "train/session/session.h"

ABSL_DECLARE_FLAG(mtf::train::Size, steps);
ABSL_DECLARE_FLAG(mtf::train::Rate, learning_rate);
ABSL_DECLARE_FLAG(mtf::train::Seed, seed);
ABSL_DECLARE_FLAG(mtf::train::ModelPrecision, precision);
ABSL_DECLARE_FLAG(std::string, text);
ABSL_DECLARE_FLAG(std::string, log_json);

namespace mtf::train {

// Creates the session described by --mesh_shape, --layout, --layout_file,
// --strict_layout, --backend and --seed, initializes its variables and prints a
// summary on rank 0.
//
// `request` is the request of a training step. --dump_program writes its
// lowered program. With --explain or --dry_run the cost of the step is printed
// instead (planning/explain/explain.h, for --machine) and the result is null:
// the program should exit.
absl::StatusOr<std::unique_ptr<Session>> StartSession(
    const Graph& graph, const RunRequest& request);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_FLAGS_H_
