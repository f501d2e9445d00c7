// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_MAP_H_
#define BACKENDS_CUDA_KERNELS_MAP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "mtf/map_expression.h"

namespace mtf::cuda {

// An elementwise function of operands, broadcast by name to the result, as one
// kernel. Uses accesses of 16 bytes where alignment allows, and tiles of shared
// memory for operands whose dimensions are in another order than the result's.
// The result may share memory with an operand of the same dimensions in the
// same order and a dtype of the same size.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMap(
    Runtime& runtime, const MapExpression& expression,
    absl::Span<const BoundValue> operands, const BoundValue& result);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_MAP_H_
