// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_PROPERTIES_RANDOM_CASE_H_
#define TESTS_PROPERTIES_RANDOM_CASE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "mtf/graph.h"
#include "mtf/host_tensor.h"

namespace mtf::testing {

// A valid program over few names, drawn from a seed: inputs, variables, a
// chain of operations, gradients (sometimes second order) and an update. Values
// stay of order one, and functions with jumps see only what float and double
// agree on to the last bit, so that any difference is a defect.
//
// Beside them are numbers of all magnitudes in all dtypes, with literals that
// no dtype holds, casts and comparisons. Those round as they may, but under
// every layout alike: nothing in them depends on the order of a sum.
struct RandomProgram {
  std::unique_ptr<Graph> graph;
  std::map<std::string, HostTensor> feeds;
  std::vector<Tensor> fetches;  // near to what the oracle computes
  std::vector<Tensor> exact;    // the same as on one device
  std::vector<Tensor> updates;
};

RandomProgram MakeRandomProgram(uint64_t seed);

// A mesh of at most `most_devices` devices and at most three axes.
Mesh MakeRandomMesh(std::mt19937_64& random, int most_devices);

// Rules for names of `graph` over axes of `mesh`, several axes per dimension
// and scoped sections among them. Not every set is legal for the graph.
LayoutRules MakeRandomRules(std::mt19937_64& random, const Graph& graph,
                            const Mesh& mesh);
// The same without rule `drop`.
LayoutRules WithoutRule(const LayoutRules& rules, int drop);

}  // namespace mtf::testing

#endif  // TESTS_PROPERTIES_RANDOM_CASE_H_
