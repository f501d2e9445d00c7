// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_LOWERING_GPU_FUSION_H_
#define TESTS_LOWERING_GPU_FUSION_H_

#include "lowering/fusion/fusion_capabilities.h"
#include "planning/machine/machine.h"

namespace mtf::testing {

// What a GPU fuses.
inline FusionCapabilities GpuFusion() {
  return Machine::Load("h100_nvlink_ib")->fusion();
}

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_GPU_FUSION_H_
