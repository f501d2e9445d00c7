// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_LOWERING_ALLOCATIONS_H_
#define TESTS_LOWERING_ALLOCATIONS_H_

#include <cstdint>

namespace mtf::testing {

// How often this thread has called operator new, which this binary replaces by
// one that counts; -1 under a sanitizer, which brings its own.
int64_t Allocations();

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_ALLOCATIONS_H_
