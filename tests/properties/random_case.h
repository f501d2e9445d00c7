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
// Some variables are bf16, with a master copy and gradients of f32: after a
// step each is its master, rounded, to the bit.
//
// AsyncRunner them are numbers of all magnitudes in all dtypes, with literals
// that no dtype holds, casts and comparisons. Those round as they may, but
// under every layout alike: nothing in them depends on the order of a sum.
struct RandomProgram {
  std::unique_ptr<Graph> graph;
  std::map<std::string, HostTensor> feeds;
  std::vector<Tensor> fetches;  // near to what the oracle computes
  std::vector<Tensor> exact;    // the same as on one device
  std::vector<Tensor> updates;
  // How near, relative to the largest magnitude of a tensor or to one: by
  // default what float sums of these lengths can lose against double.
  double tolerance = 1e-4;
};

RandomProgram MakeRandomProgram(uint64_t seed);

// A training step of a few layers in mixed precision: parameters and
// activations of bf16, gradients and master copies of f32. The oracle rounds
// where there is a cast and nowhere else, so `tolerance` is that of bf16.
RandomProgram MakeMixedPrecisionStep(uint64_t seed);

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
