// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_LOWERING_GPU_FUSION_H_
#define TESTS_LOWERING_GPU_FUSION_H_

#include <limits>

#include "lowering/fusion/fusion_capabilities.h"

namespace mtf::testing {

// What a GPU fuses.
inline FusionCapabilities GpuFusion() {
  return {.rows = {.members = 48,
                   .columns = int64_t{1} << 30,
                   .row_sums = 4,
                   .summed_columns = 8192},
          .epilogues = {.bias = true,
                        .addend = true,
                        .gelu_bytes = 2,
                        .bias_gradient = true},
          .maps = {.members = std::numeric_limits<int>::max(),
                   .several_shapes = true}};
}

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_GPU_FUSION_H_
