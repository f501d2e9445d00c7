// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_BACKENDS_GARBAGE_RUN_WITH_GARBAGE_H_
#define TESTS_BACKENDS_GARBAGE_RUN_WITH_GARBAGE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/communicator.h"
#include "lowering/program/program.h"
#include "mtf/host_tensor.h"
#include "tests/backends/garbage.h"

namespace mtf::testing {

using Values = std::map<std::string, HostTensor>;

struct GarbageRun {
  std::vector<Values> outputs;  // by rank: the fetches of all programs
  int groups = 0;               // that rank 0 ran as one kernel
};

// Runs programs of one graph, one after the other, on a GarbageDevice per rank.
absl::StatusOr<GarbageRun> RunWithGarbage(
    LocalRanks& ranks, absl::Span<const Program* const> programs,
    const Values& feeds, const std::string& device, Garbage garbage);

// Runs twice with different garbage and fails the calling test if an output of
// some rank differs by a bit, or from that of another rank. Over several
// numbers, every pair of garbage. Returns the number of groups.
int ExpectIndependentOfGarbage(LocalRanks& ranks,
                               absl::Span<const Program* const> programs,
                               const Values& feeds, const std::string& device,
                               uint64_t number);

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_GARBAGE_RUN_WITH_GARBAGE_H_
