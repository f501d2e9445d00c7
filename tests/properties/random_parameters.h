// SPDX-License-Identifier: Apache-2.0
//
// Parameters of random programs, and how a step changes them.
#ifndef TESTS_PROPERTIES_RANDOM_PARAMETERS_H_
#define TESTS_PROPERTIES_RANDOM_PARAMETERS_H_

#include <string>
#include <vector>

#include "mtf/graph.h"

namespace mtf::testing {

// A variable of bf16, and its master copy.
Tensor NarrowVariable(Graph& graph, const std::string& name, Tensor initial);

// Adds a step against `gradient` to `updates`, as optimizers make it.
void Descend(Tensor variable, Tensor gradient, std::vector<Tensor>& updates);

}  // namespace mtf::testing

#endif  // TESTS_PROPERTIES_RANDOM_PARAMETERS_H_
