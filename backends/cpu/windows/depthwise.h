// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_WINDOWS_DEPTHWISE_H_
#define BACKENDS_CPU_WINDOWS_DEPTHWISE_H_

#include <memory>

#include "backends/backend.h"
#include "lowering/program/convolution_spec.h"

namespace mtf::cpu {

// Whether PrepareDepthwise takes a convolution: one or two spatial dimensions,
// at least kLanes channels that are neighbours in the filter, each with a
// filter of its own, and for the gradient of the input strides of 1. These are
// bound by memory, and faster than in oneDNN 2.6.
bool IsDepthwise(const ConvolutionSpec& spec);

// Prepares a depthwise convolution, or one of its gradients, of values at the
// given addresses. The order of sums depends on extents alone.
std::unique_ptr<Kernel> PrepareDepthwise(const ConvolutionSpec& spec,
                                         void* input, void* filter,
                                         void* output);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_WINDOWS_DEPTHWISE_H_
