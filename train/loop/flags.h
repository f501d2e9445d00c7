// SPDX-License-Identifier: Apache-2.0
//
// The flags that every training program has, and what most of them do.
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

// Makes the session that --mesh_shape, --layout, --layout_file,
// --strict_layout, --backend and --seed describe, with its variables
// initialized, and says so on rank 0.
//
// `request` is what a step will ask for; --dump_program writes how it is
// lowered. With --explain or --dry_run what the step costs is told instead
// (planning/explain/explain.h, on --machine) and no session comes back (null):
// the program is to end.
absl::StatusOr<std::unique_ptr<Session>> StartSession(
    const Graph& graph, const RunRequest& request);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_FLAGS_H_
