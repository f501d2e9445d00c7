// SPDX-License-Identifier: Apache-2.0
#include "tests/lowering/allocations.h"

#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

namespace mtf::testing {
int64_t Allocations() { return -1; }
}  // namespace mtf::testing

#else

namespace {
thread_local int64_t allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace mtf::testing {
int64_t Allocations() { return allocations; }
}  // namespace mtf::testing

#endif
