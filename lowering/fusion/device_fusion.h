// SPDX-License-Identifier: Apache-2.0
//
// What the devices of the library run as one kernel. A device fuses by these
// values, and so do estimates for machines that have it: planning knows no
// device.
#ifndef LOWERING_FUSION_DEVICE_FUSION_H_
#define LOWERING_FUSION_DEVICE_FUSION_H_

#include <cstdint>
#include <limits>

#include "lowering/fusion/fusion_capabilities.h"

namespace mtf {

inline FusionCapabilities CpuFusion() {
  return {.convolutions = true,
          .pools = true,
          // Rows whose values stay in the second-level cache.
          .rows = {.members = 48,
                   .columns = 1 << 17,
                   .row_sums = 8,
                   .summed_columns = 8192,
                   .only_row_sums = true},
          .epilogues = {.accumulates = true, .scatter_addend = true},
          // Members are compared with each other.
          .maps = {.members = 4096, .any_order = true}};
}

// Without cuDNN there are no `convolutions`.
inline FusionCapabilities CudaFusion(bool convolutions = true) {
  return {.convolutions = convolutions,
          .convolutions_of_16_bits = convolutions,
          // A kernel has one parameter per array, at most 512, and counts
          // columns by an int that may exceed them by one loop step. Sums over
          // rows take registers for each of their columns.
          .rows = {.members = 48,
                   .columns = int64_t{1} << 30,
                   .row_sums = 4,
                   .summed_columns = 8192},
          // Epilogues of cuBLASLt.
          .epilogues = {.bias = true,
                        .addend = true,
                        .gelu_bytes = 2,
                        .bias_gradient = true},
          .maps = {.members = std::numeric_limits<int>::max()}};
}

}  // namespace mtf

#endif  // LOWERING_FUSION_DEVICE_FUSION_H_
