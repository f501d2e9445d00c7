// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_PROPERTIES_RANDOM_OPERATIONS_H_
#define TESTS_PROPERTIES_RANDOM_OPERATIONS_H_

#include "tests/properties/random_graph.h"

namespace mtf::testing {

// Adds a random operation of random operands, or nothing if the operands do not
// fit. Values are of order one; functions with jumps are applied only to exact
// values.
void AddRandomOperation(RandomGraph& random);

// The rankings, samples, parts, statistics and order of random_selection.cc.
void AddRandomSelection(RandomGraph& random);

// `x` with random rows along a random dimension replaced by a function of
// others. May return `x` itself.
Tensor WithRandomRows(RandomGraph& random, Tensor x);

}  // namespace mtf::testing

#endif  // TESTS_PROPERTIES_RANDOM_OPERATIONS_H_
