// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_PROPERTIES_RANDOM_OPERATIONS_H_
#define TESTS_PROPERTIES_RANDOM_OPERATIONS_H_

#include "tests/properties/random_graph.h"

namespace mtf::testing {

// Draws an operation of any kind and keeps what it gives, or nothing where the
// operands drawn do not fit it. Values stay of order one; functions with jumps
// are of exact values only.
void AddRandomOperation(RandomGraph& random);

}  // namespace mtf::testing

#endif  // TESTS_PROPERTIES_RANDOM_OPERATIONS_H_
