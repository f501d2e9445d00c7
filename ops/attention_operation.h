// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_ATTENTION_OPERATION_H_
#define OPS_ATTENTION_OPERATION_H_

#include <memory>
#include <source_location>

#include "mtf/attention.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::internal {

// Adds an attention operation to the graph of `operands`, which have been
// checked. `output` is the shape of the output.
AttentionResults<Tensor> AddAttention(const AttentionOperands<Tensor>& operands,
                                      const AttentionSpec& spec,
                                      const Shape& output,
                                      std::source_location location);

}  // namespace mtf::internal

#endif  // OPS_ATTENTION_OPERATION_H_
