// SPDX-License-Identifier: Apache-2.0
//
// Ranks that run different programs compute nonsense, or wait for each other
// for ever. So all ranks of a job compare what they are about to run before
// they run it, and say where they differ.
#ifndef TRAIN_SESSION_PLAN_CHECK_H_
#define TRAIN_SESSION_PLAN_CHECK_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "backends/communicator.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "lowering/program/program.h"
#include "mtf/host_tensor.h"

namespace mtf::train {

// One thing that all ranks must have in common, under the name by which the
// user knows it.
struct PlanField {
  std::string name;   // "--layout", "MTF_COLLECTIVE_TIMEOUT", "the program"
  std::string value;  // of several lines the first that differs is told
};

// OK if all ranks bring the same fields. Otherwise kFailedPrecondition, the
// same on every rank, which names for each field that differs the ranks and
// their values:
//
//   rank 3 has --layout "zero3", ranks 0-2 have "megatron"
//     also     rank 3 has --seed "1", ranks 0-2 have "0"
//     help     start every rank with the same flags, environment and files
//
// Collective. One small message where all agree, whatever the size of the
// fields; a few dozen where they do not.
absl::Status CheckSamePlan(Communicator& communicator,
                           const std::vector<PlanField>& fields);

// What a process was started with: the name of the program's file and its
// build, every flag, except those that only rank 0 heeds (--log_json,
// --dump_program, --explain_file), the environment variables MTF_* and
// OMP_NUM_THREADS, and the version of the library.
std::vector<PlanField> FieldsOfProcess();

// The files of data that flags of this process name (--text, --tokens, a
// --machine and a --budget that are files), each as "file t.txt (--text)" with
// its size and a checksum of its contents, so that another file under the same
// path is found. Of a file above 64 MiB the checksum is that of 1024 pieces of
// 64 KiB, evenly spread, the last at its end. Files that cannot be read, and
// what is no plain file, are left to whoever opens them. Layout files are not
// among them, nor are flagfiles: what they say is compared rule by rule in
// FieldsOfSession and flag by flag in FieldsOfProcess, and comments may differ.
std::vector<PlanField> FieldsOfInputFiles();

// What a session runs on: mesh, rules with their budget, and the rest as given.
std::vector<PlanField> FieldsOfSession(const Mesh& mesh,
                                       const LayoutRules& rules, bool strict,
                                       const std::string& backend,
                                       uint32_t seed);

// A lowered program as text, with its layouts, dtypes and places in memory.
std::vector<PlanField> FieldsOfProgram(const Program& program);

// The contents of feeds, as checksums.
std::vector<PlanField> FieldsOfFeeds(
    const std::map<std::string, HostTensor>& feeds);

}  // namespace mtf::train

#endif  // TRAIN_SESSION_PLAN_CHECK_H_
