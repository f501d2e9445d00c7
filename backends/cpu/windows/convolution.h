// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_WINDOWS_CONVOLUTION_H_
#define BACKENDS_CPU_WINDOWS_CONVOLUTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"

namespace mtf::cpu {

// Prepares the members of a ConvolutionGroup as calls of oneDNN's convolution,
// or of its gradients, on a few images each, which the threads divide. The
// gradient of a filter is a sum over calls in a fixed order, so results do not
// depend on the number of threads.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareConvolution(
    const FusedGroup& group, absl::Span<const Binding> members);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_WINDOWS_CONVOLUTION_H_
