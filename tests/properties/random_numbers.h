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
// with literals that no dtype holds, casts and comparisons, reduced from
// `shape` to `output`. Everything rounds, but in one way: any layout gives what
// one device does. Adds what it is to be fed to `feeds`. Not for the oracle,
// which does not round.
Tensor MakeRandomNumbers(std::mt19937_64& random, Graph& graph,
                         const Shape& shape, const Shape& output,
                         std::map<std::string, HostTensor>* feeds);

}  // namespace mtf::testing

#endif  // TESTS_PROPERTIES_RANDOM_NUMBERS_H_
