// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_FUSION_CAPABILITIES_H_
#define LOWERING_FUSION_FUSION_CAPABILITIES_H_

#include <cstdint>

namespace mtf {

// What a device runs as one kernel. The fusion passes write no other groups.
// The default is a device that runs every instruction by itself.
struct FusionCapabilities {
  // Kernels that take each row through maps and reductions (fuse_rows.h).
  struct Rows {
    int members = 0;  // at most; 0: no such kernels
    int64_t columns = 0;
    // Sums over the rows themselves, and the columns that they may have.
    int row_sums = 0;
    int64_t summed_columns = 0;
    // Whether there are kernels of maps and sums over the rows alone, without a
    // reduction of each row, as for the statistics of a batch norm.
    bool only_row_sums = false;
    bool operator==(const Rows&) const = default;
  };
  // What a matmul or a scatter_add does before it writes its result
  // (fuse_epilogues.h, fuse_bias_gradients.h).
  struct Epilogues {
    bool bias = false;
    bool addend = false;  // another tensor, such as a residual or a gradient
    // GELU and its gradient, for floats of at most this size. Libraries compute
    // its tanh to the precision of 16-bit floats.
    int64_t gelu_bytes = 0;
    bool bias_gradient = false;  // the sum of an operand
    // Whether a matmul adds to the memory of an addend that nothing else reads,
    // as in the sum of two gradients.
    bool accumulates = false;
    // Whether a scatter_add adds to an addend, instead of to zeros.
    bool scatter_addend = false;
    bool operator==(const Epilogues&) const = default;
  };
  // Kernels for several maps (batch_maps.h).
  struct Maps {
    int members = 0;  // at most; 0: no such kernels
    // Whether operands may be broadcast or transposed, and steps may be iotas.
    // Otherwise the elements of operands and result are in the same order.
    bool any_order = false;
    bool operator==(const Maps&) const = default;
  };

  // Convolutions of f32 images with their channels last, and their gradients
  // (fuse_convolutions.h).
  bool convolutions = false;
  // The same of bf16 and of f16, with sums in f32.
  bool convolutions_of_16_bits = false;
  // Poolings of f32 and their gradients (fuse_pools.h).
  bool pools = false;
  Rows rows = {};
  Epilogues epilogues = {};
  Maps maps = {};

  bool operator==(const FusionCapabilities&) const = default;
};

}  // namespace mtf

#endif  // LOWERING_FUSION_FUSION_CAPABILITIES_H_
