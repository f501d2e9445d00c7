// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_PRINT_GRAPH_H_
#define MTF_PRINT_GRAPH_H_

#include <string>

#include "mtf/graph.h"

namespace mtf {

// The graph as text, one operation per line:
//
//   %x : f32[batch:8, io:4] = input
//   %w : f32[io:4, hidden:16] = variable
//   %einsum : f32[batch:8, hidden:16] = einsum(%x, %w)
std::string PrintGraph(const Graph& graph);

}  // namespace mtf

#endif  // MTF_PRINT_GRAPH_H_
