// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_FUSION_CAPABILITIES_H_
#define LOWERING_FUSION_FUSION_CAPABILITIES_H_

namespace mtf {

// What a device runs as one kernel, as far as the memory plan depends on it.
struct FusionCapabilities {
  // Groups of row operations, the gradient of GELU in a matmul and bias
  // gradients.
  bool groups = false;
};

}  // namespace mtf

#endif  // LOWERING_FUSION_FUSION_CAPABILITIES_H_
