// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_MAP_H_
#define BACKENDS_CPU_MAP_H_

#include <memory>

#include "absl/types/span.h"
#include "backends/backend.h"
#include "mtf/map_expression.h"

namespace mtf::cpu {

// Prepares an elementwise function of operands, which are broadcast by name to
// the result. The result may share memory with an operand that has the same
// dimensions in the same order and a dtype of the same size.
std::unique_ptr<Kernel> PrepareMap(const MapExpression& expression,
                                   absl::Span<const BoundValue> operands,
                                   const BoundValue& result);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_MAP_H_
