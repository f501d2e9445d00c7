// SPDX-License-Identifier: Apache-2.0
//
// Bits for memory whose contents must not change a result: padding, the memory
// around a buffer, scratch memory, and a result before it is written.
#ifndef TESTS_BACKENDS_GARBAGE_H_
#define TESTS_BACKENDS_GARBAGE_H_

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "mtf/dtype.h"
#include "mtf/host_tensor.h"
#include "tests/requirements.h"

namespace mtf::testing {

enum class Garbage {
  kZeros,
  kNans,
  kSignallingNans,
  kInfinities,  // of integers the limits
  kHuge,
  kDenormals,
  kRandomBits
};
inline constexpr Garbage kAllGarbage[] = {
    Garbage::kZeros,      Garbage::kNans, Garbage::kSignallingNans,
    Garbage::kInfinities, Garbage::kHuge, Garbage::kDenormals,
    Garbage::kRandomBits};

inline std::string NameOf(Garbage garbage) {
  switch (garbage) {
    case Garbage::kZeros:
      return "zeros";
    case Garbage::kNans:
      return "NaNs";
    case Garbage::kSignallingNans:
      return "signalling NaNs";
    case Garbage::kInfinities:
      return "infinities";
    case Garbage::kHuge:
      return "huge numbers";
    case Garbage::kDenormals:
      return "denormals";
    case Garbage::kRandomBits:
      return "random bits";
  }
  return "";
}
inline std::ostream& operator<<(std::ostream& out, Garbage garbage) {
  return out << NameOf(garbage);
}

namespace internal {

// The elements of `dtype` at even and at odd indices.
inline std::array<char, 16> GarbagePair(Garbage garbage, DType dtype) {
  std::array<char, 16> pair = {};
  const int64_t size = DTypeSize(dtype);
  const auto set_bits = [&](uint64_t first, uint64_t second) {
    std::memcpy(pair.data(), &first, size);
    std::memcpy(pair.data() + size, &second, size);
  };
  const uint64_t sign = uint64_t{1} << (8 * size - 1);
  const double inf = std::numeric_limits<double>::infinity();
  switch (garbage) {
    case Garbage::kZeros:
    case Garbage::kRandomBits:
      break;
    case Garbage::kNans:  // -1 or true in other dtypes
      set_bits(~uint64_t{0}, ~uint64_t{0});
      break;
    case Garbage::kSignallingNans: {
      const uint64_t bits = dtype == kFloat32   ? 0x7fa00000
                            : dtype == kFloat16 ? 0x7d00
                                                : 0x7fa0;
      set_bits(bits, bits | sign);
      break;
    }
    case Garbage::kInfinities:
      StoreElement(pair.data(), dtype, 0, inf);
      StoreElement(pair.data(), dtype, 1, -inf);
      break;
    case Garbage::kHuge:
      // 5e4 is finite in every float dtype, and too large for a fast sine.
      StoreElement(pair.data(), dtype, 0, 1e30);
      StoreElement(pair.data(), dtype, 1, -5e4);
      break;
    case Garbage::kDenormals:
      set_bits(1, 1 | sign);
      break;
  }
  return pair;
}

}  // namespace internal

// `bytes` bytes of garbage elements of `dtype`; the same for the same seed.
inline std::vector<char> GarbageBytes(Garbage garbage, DType dtype,
                                      int64_t bytes, uint64_t seed) {
  std::vector<char> out(bytes);
  if (garbage == Garbage::kRandomBits) {
    std::mt19937_64 random(seed);
    for (int64_t i = 0; i < bytes; i += 8) {
      const uint64_t bits = random();
      std::memcpy(&out[i], &bits, std::min<int64_t>(8, bytes - i));
    }
    return out;
  }
  const std::array<char, 16> pair = internal::GarbagePair(garbage, dtype);
  const int64_t size = 2 * DTypeSize(dtype);
  for (int64_t i = 0; i < bytes; ++i) out[i] = pair[i % size];
  return out;
}

// 256 KiB of garbage floats, made once.
inline const std::vector<char>& SharedGarbage(Garbage garbage) {
  static const auto& all = *[] {
    auto* made = new std::vector<std::vector<char>>;
    for (Garbage each : kAllGarbage) {
      made->push_back(GarbageBytes(each, kFloat32, 256 << 10, 1));
    }
    return made;
  }();
  return all[static_cast<size_t>(garbage)];
}

namespace internal {

// Fills the stack below the caller's frame.
[[gnu::noinline]] inline void FillStack(Garbage garbage) {
  char below[64 << 10];
  std::memcpy(below, SharedGarbage(garbage).data(), sizeof(below));
  asm volatile("" : : "r"(below) : "memory");  // keeps the stores
}

// Fills what the next calls of malloc for up to `bytes` return, as far as the C
// library can.
inline void FillHeap(Garbage garbage, int64_t bytes) {
#if defined(__GLIBC__)
  if (kSanitized) return;
  // malloc fills memory with the complement of this byte, and free with it; 0
  // leaves memory as it is. A NaN is not one repeated byte that malloc could
  // write, but free can.
  const int fill = garbage == Garbage::kZeros ? 0x00 : 0x7f;
  const bool by_free = garbage == Garbage::kNans;
  mallopt(M_PERTURB, by_free ? 0xff : fill ^ 0xff);
  std::vector<void*> blocks;
  for (int64_t block = 1 << 10; block <= bytes; block *= 2) {
    for (int i = 0; i < 3; ++i) blocks.push_back(std::malloc(block));
  }
  for (void* block : blocks) std::free(block);
  if (by_free) mallopt(M_PERTURB, 0);
#endif
}

}  // namespace internal

// Leaves garbage on the stack and in free memory of the heap, where kernels of
// the calling thread keep intermediate results; in the heap, in blocks of up to
// `bytes`.
inline void FillStackAndHeap(Garbage garbage, int64_t bytes = 64 << 10) {
  internal::FillHeap(garbage, bytes);
  internal::FillStack(garbage);
}

// Makes the heap behave as usual again.
inline void StopFillingHeap() {
#if defined(__GLIBC__)
  if (!kSanitized) mallopt(M_PERTURB, 0);
#endif
}

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_GARBAGE_H_
