// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_BACKENDS_CONFORMANCE_ATTENTION_CASES_H_
#define TESTS_BACKENDS_CONFORMANCE_ATTENTION_CASES_H_

#include <string>
#include <vector>

#include "tests/backends/conformance/device_case.h"

namespace mtf::testing {

// An attention on one shard: which operands it has, and the dimensions that
// they have of "batch", "heads", "groups", "length" and "memory".
struct AttentionCase {
  std::string name;
  DType dtype = kFloat32;
  AttentionSpec spec = {.length = "length",
                        .memory_length = "memory",
                        .d_kv = "d_kv",
                        .d_v = "d_v",
                        .scale = 0.3};
  // Global sizes, and the shard of the batch and of the length.
  int64_t batch = 2, heads = 2, groups = 1, length = 5, memory = 7;
  int64_t d_kv = 4, d_v = 4;
  ShardedDimension of_batch = {3, 0, 2}, of_length = {6, 0, 5};
  bool grouped = false;  // keys and values lack "groups"
  // The dimensions of the optional operands, separated by blanks; "none": not
  // given.
  std::string mask = "none", bias = "none", offset = "none";
  std::string extra_logit = "none";
  bool logsumexp_gradient = false;
};

// Cases for every dtype and every option.
std::vector<AttentionCase> AttentionCases();

// The forward or the backward instruction of a case. The operands of the
// backward one are those that the reference device computes.
DeviceCase MakeAttentionCase(const AttentionCase& made, bool gradient);

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_CONFORMANCE_ATTENTION_CASES_H_
