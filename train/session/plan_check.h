// SPDX-License-Identifier: Apache-2.0
//
// Checks that all ranks of a job run the same program. Ranks with different
// programs would compute wrong results or wait for each other forever, so they
// compare flags, environment, files, layouts and programs beforehand.
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

// A named value that must be equal on all ranks. The name is for the user.
struct PlanField {
  std::string name;  // "--layout", "MTF_COLLECTIVE_TIMEOUT", "the program"
  std::string
      value;  // if it has several lines, the first difference is reported
};

// OK if all ranks pass equal fields. Otherwise kFailedPrecondition, the same on
// every rank, with the ranks and their values for each field that differs:
//
//   rank 3 has --layout "zero3", ranks 0-2 have "megatron"
//     also     rank 3 has --seed "1", ranks 0-2 have "0"
//     help     start every rank with the same flags, environment and files
//
// Collective. Costs one small message if all fields are equal, whatever their
// size, and a few dozen otherwise.
absl::Status CheckSamePlan(Communicator& communicator,
                           const std::vector<PlanField>& fields);

// The fields of a process: the name of the program's file and its build, every
// flag except those used by rank 0 only (--log_json, --dump_program,
// --explain_file), the environment variables MTF_* and OMP_NUM_THREADS, and the
// version of the library.
std::vector<PlanField> FieldsOfProcess();

// The input files named by the flags of this process (--text, --tokens, a
// --machine or --budget that is a file), each as "file t.txt (--text)" with its
// size and a checksum of its contents. For a file above 64 MiB the checksum
// covers 1024 chunks of 64 KiB, evenly spaced, the last at its end. Unreadable
// files and files that are not regular are skipped; opening them reports the
// error. Layout files and flagfiles are not included: FieldsOfSession compares
// their rules, FieldsOfProcess their flags, and their comments may differ.
std::vector<PlanField> FieldsOfInputFiles();

// The fields of a session: mesh, layout rules, budget and options.
std::vector<PlanField> FieldsOfSession(const Mesh& mesh,
                                       const LayoutRules& rules, bool strict,
                                       const std::string& backend,
                                       uint32_t seed);

// The text of a lowered program, with its layouts, dtypes and buffers.
std::vector<PlanField> FieldsOfProgram(const Program& program);

// Checksums of the contents of feeds.
std::vector<PlanField> FieldsOfFeeds(
    const std::map<std::string, HostTensor>& feeds);

}  // namespace mtf::train

#endif  // TRAIN_SESSION_PLAN_CHECK_H_
