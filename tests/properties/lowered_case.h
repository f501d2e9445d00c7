// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_PROPERTIES_LOWERED_CASE_H_
#define TESTS_PROPERTIES_LOWERED_CASE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "backends/communicator.h"
#include "lowering/lower.h"
#include "tests/properties/random_case.h"

namespace mtf::testing {

// A random program under a random mesh and layout, determined by the seed.
struct LoweredCase {
  RandomProgram program;
  Mesh mesh;
  std::string layout;
  LayoutBinding binding;
  Program initialize;
  Program step;  // fetches program.fetches and program.exact

  // Reads the variables.
  absl::StatusOr<Program> LowerReads() const;
  // The mesh, the layout, the graph and the lowered step.
  std::string Describe() const;
};

using MakeProgram = RandomProgram (*)(uint64_t seed);

// Lowers a program under random rules, without those that clash, on a random
// mesh or the given one. `attention` is that of LowerOptions.
absl::StatusOr<LoweredCase> LowerRandomCase(
    uint64_t seed, MakeProgram make = MakeRandomProgram,
    const std::string& mesh = "",
    AttentionSupport attention = AttentionSupport::kNone);

// The ranks of a mesh. Cases share their threads and communicators, which are
// expensive.
LocalRanks& RanksOf(const Mesh& mesh);

}  // namespace mtf::testing

#endif  // TESTS_PROPERTIES_LOWERED_CASE_H_
