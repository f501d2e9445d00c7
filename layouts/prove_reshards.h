// SPDX-License-Identifier: Apache-2.0
//
// Proves by exhaustion, on a mesh of the user's choice, that reshards between
// all layouts move every element to the right position.
#ifndef LAYOUTS_PROVE_RESHARDS_H_
#define LAYOUTS_PROVE_RESHARDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "layouts/mesh.h"
#include "layouts/reshard_path.h"
#include "layouts/tensor_layout.h"
#include "mtf/shape.h"

namespace mtf {

// Simulates `path` on the shards of all ranks and checks them after every step.
// The elements have values such that no other choice of elements or of summands
// gives the same sum. Also checks that the path ends in `target`, that no step
// takes more memory than the larger of its ends, and that it sends no more
// bytes than PlanNaiveReshard. Returns kInternal, with the path, if a check
// fails.
//
// Time and memory are proportional to the shard elements of all ranks together,
// so shapes should be small.
absl::Status ProveReshard(const Grains& grains, const Shape& shape,
                          const TensorLayout& source,
                          const TensorLayout& target,
                          const std::vector<ReshardStep>& path);

// The result of ProveReshards.
struct ReshardProof {
  int dimensions = 0;
  int64_t pairs = 0;        // pairs of layouts that exist
  int64_t proved = 0;       // each with two paddings and two sizes
  int64_t too_large = 0;    // skipped: more than `most_elements`
  int64_t not_reached = 0;  // skipped: out of time

  bool complete() const { return proved == pairs; }
};

struct ProveOptions {
  // Time limit. Pairs that are not reached are counted.
  double seconds = 60;
  // Limit on the shard elements of all ranks together of a simulated value.
  int64_t most_elements = int64_t{1} << 22;
  // Progress callback, with the number of pairs done and of all pairs.
  std::function<void(int64_t done, int64_t pairs)> progress = {};
};

// Proves PlanReshard for every pair of layouts of a value with 1 to 3
// `dimensions` on `mesh`: every source layout, with and without unreduced axes,
// and every target layout whose unreduced axes are unreduced in the source.
// Sizes are 1 to 13, most of which do not divide. Every pair is proved with the
// least padding and with every dimension padded for all axes. The order of
// pairs is spread out, so that an incomplete proof is a sample. Axes of size 1
// are ignored, as in ResolvedRules. Returns kInternal if a reshard is wrong.
absl::StatusOr<ReshardProof> ProveReshards(const Mesh& mesh, int dimensions,
                                           const ProveOptions& options = {});

}  // namespace mtf

#endif  // LAYOUTS_PROVE_RESHARDS_H_
