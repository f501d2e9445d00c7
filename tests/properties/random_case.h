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

// A valid program over few names, generated from a seed: inputs, variables, a
// chain of operations, gradients (sometimes of second order) and an update.
// Values are of order one, and functions with jumps are applied only to values
// that are equal in float and double, so that any difference is a defect.
//
// Some variables are bf16, with a master copy and gradients in f32: after a
// step each is bitwise equal to its rounded master.
//
// Further values are numbers of all magnitudes in all dtypes, with casts,
// comparisons and literals that no dtype represents. They round, but equally
// under every layout: none depends on the order of a sum.
struct RandomProgram {
  std::unique_ptr<Graph> graph;
  std::map<std::string, HostTensor> feeds;
  std::vector<Tensor> fetches;  // compared with the oracle within `tolerance`
  std::vector<Tensor> exact;    // bitwise equal to one device
  std::vector<Tensor> updates;
  // Dimensions that are sharded over the same axes, or empty.
  std::vector<std::string> sharded_alike;
  // Relative to the largest magnitude of a tensor or to one. The default is the
  // error of float sums of these lengths.
  double tolerance = 1e-4;
};

RandomProgram MakeRandomProgram(uint64_t seed);

// A training step of a few layers in mixed precision: parameters and
// activations in bf16, gradients and master copies in f32. The oracle rounds
// only at casts, so `tolerance` is that of bf16.
RandomProgram MakeMixedPrecisionStep(uint64_t seed);

// One attention with random options, dimensions and orders of dimensions, and
// its gradients.
RandomProgram MakeRandomAttention(uint64_t seed);
// One whose keys are sharded over the axes that shard its queries.
RandomProgram MakeRandomRing(uint64_t seed);

// One mixture of experts with random options, or one of two levels, and its
// gradients. In half of the cases groups and experts share their axes.
RandomProgram MakeRandomExperts(uint64_t seed);

// The same, so that as many seeds in a row have each kind of experts: one, two
// and three choices of tokens, no token left behind, choices of experts, and
// two levels; each with sorted and one-hot dispatch.
inline constexpr int64_t kKindsOfExperts = 12;
RandomProgram MakeExpertsOfEachKind(uint64_t seed);
// A few convolutions, poolings and norms of an image with random options,
// dimensions and orders of dimensions, and their gradients.
RandomProgram MakeRandomConvolution(uint64_t seed);
// Convolutions, poolings and norms of an image with 16 to 64 channels, which
// reach vector loops and fused groups, in f32, bf16 or f16, and their
// gradients. The oracle rounds only at casts, so `tolerance` is that of the
// dtype.
RandomProgram MakeRandomWideConvolution(uint64_t seed);

// A mesh of at most `most_devices` devices and at most three axes.
Mesh MakeRandomMesh(std::mt19937_64& random, int most_devices);

// Random rules for the names of `graph` over the axes of `mesh`, some with
// several axes per dimension or in sections of variables. They may be illegal
// for the graph.
LayoutRules MakeRandomRules(std::mt19937_64& random, const Graph& graph,
                            const Mesh& mesh);
// `rules` with a rule for each of `dimensions` over the same random axes, and
// without the rules of the default section that share an axis with these.
LayoutRules ShardedAlike(std::mt19937_64& random, const LayoutRules& rules,
                         const std::vector<std::string>& dimensions,
                         const Mesh& mesh);
// `rules` without rule `drop`.
LayoutRules WithoutRule(const LayoutRules& rules, int drop);

}  // namespace mtf::testing

#endif  // TESTS_PROPERTIES_RANDOM_CASE_H_
