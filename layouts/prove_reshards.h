// SPDX-License-Identifier: Apache-2.0
//
// Proves by exhaustion that reshards move every element to its place: on a
// mesh of the user's own, between all layouts, over real data.
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

// Runs `path` on the shards of all ranks of a value of `shape` and checks what
// every rank holds after every step: element e is a sum of parts that no other
// choice of elements or of summands gives. Also that the path ends in `target`,
// that no step takes more memory than the larger of its ends, and that it sends
// no more than PlanNaiveReshard. kInternal, with the path, where any is not so.
//
// Takes time and memory by the places of all ranks together, so it is for
// small shapes.
absl::Status ProveReshard(const Grains& grains, const Shape& shape,
                          const TensorLayout& source,
                          const TensorLayout& target,
                          const std::vector<ReshardStep>& path);

// What was proved of tensors of one number of dimensions.
struct ReshardProof {
  int dimensions = 0;
  int64_t pairs = 0;        // of layouts there are
  int64_t proved = 0;       // each with two paddings, and two sizes
  int64_t too_large = 0;    // left out: more than `most_places`
  int64_t not_reached = 0;  // left out: no time was left

  bool complete() const { return proved == pairs; }
};

struct ProveOptions {
  // Time for all; beyond it the rest is left out, and counted.
  double seconds = 60;
  // Places of all ranks together that one simulated value may take.
  int64_t most_places = int64_t{1} << 22;
  // Called now and then with the pairs done, and their number.
  std::function<void(int64_t done, int64_t pairs)> progress = {};
};

// Proves PlanReshard for every pair of layouts of a value of `dimensions` (1 to
// 3) dimensions on the mesh: from each, summands included, to each that has
// nothing unreduced that the first has not. Sizes go from 1 to 13, so most do
// not divide. Every pair is checked once with the least padding and once with
// every dimension padded for all axes. Pairs are taken in an order that is
// spread over all of them, so that a part is a sample. Axes of one device are
// left out, as rules leave them out. kInternal where a reshard is wrong.
absl::StatusOr<ReshardProof> ProveReshards(const Mesh& given, int dimensions,
                                           const ProveOptions& options = {});

}  // namespace mtf

#endif  // LAYOUTS_PROVE_RESHARDS_H_
