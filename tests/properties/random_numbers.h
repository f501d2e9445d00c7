// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_PROPERTIES_RANDOM_NUMBERS_H_
#define TESTS_PROPERTIES_RANDOM_NUMBERS_H_

#include <map>
#include <random>
#include <string>

#include "mtf/graph.h"
#include "mtf/host_tensor.h"

namespace mtf::testing {

// A chain of elementwise functions over numbers of all magnitudes and dtypes,
// with casts, comparisons and literals that no dtype represents, reduced from
// `shape` to `output`. All steps round, but equally under any layout. Adds its
// inputs to `feeds`. Not for the oracle, which does not round.
Tensor MakeRandomNumbers(std::mt19937_64& random, Graph& graph,
                         const Shape& shape, const Shape& output,
                         std::map<std::string, HostTensor>* feeds);

}  // namespace mtf::testing

#endif  // TESTS_PROPERTIES_RANDOM_NUMBERS_H_
