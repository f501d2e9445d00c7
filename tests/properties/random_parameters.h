// SPDX-License-Identifier: Apache-2.0
//
// Parameters of random programs, and their updates.
#ifndef TESTS_PROPERTIES_RANDOM_PARAMETERS_H_
#define TESTS_PROPERTIES_RANDOM_PARAMETERS_H_

#include <string>
#include <vector>

#include "mtf/graph.h"

namespace mtf::testing {

// A bf16 variable with a master copy.
Tensor NarrowVariable(Graph& graph, const std::string& name, Tensor initial);

// Adds a gradient step to `updates`, as an optimizer does.
void Descend(Tensor variable, Tensor gradient, std::vector<Tensor>& updates);

}  // namespace mtf::testing

#endif  // TESTS_PROPERTIES_RANDOM_PARAMETERS_H_
