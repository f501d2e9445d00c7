// SPDX-License-Identifier: Apache-2.0
//
// The operands of collectives, derived from the rank, and the expected results
// of reductions, bit for bit.
#ifndef TESTS_BACKENDS_COMMUNICATORS_COLLECTIVE_DATA_H_
#define TESTS_BACKENDS_COMMUNICATORS_COLLECTIVE_DATA_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "backends/communicator.h"
#include "mtf/half.h"

namespace mtf::testing {

inline constexpr ReduceKind kAllReduceKinds[] = {
    ReduceKind::kSum, ReduceKind::kMax, ReduceKind::kMin};

inline uint64_t Mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Writes element `i` of the operand of `rank`: floats whose sums round, so that
// the order of addition matters, and integers that overflow.
inline void PutElement(DType dtype, int64_t rank, int64_t i, char* to) {
  const uint64_t bits = Mix(rank * 1000003 + i);
  const float real = static_cast<float>(static_cast<int64_t>(bits)) * 0x1p-60f;
  switch (dtype) {
    case kFloat32:
      std::memcpy(to, &real, 4);
      return;
    case kBFloat16: {
      const BFloat16 half = ToBFloat16(real);
      std::memcpy(to, &half, 2);
      return;
    }
    case kFloat16: {
      const Float16 half = ToFloat16(real);
      std::memcpy(to, &half, 2);
      return;
    }
    case kInt32:
      std::memcpy(to, &bits, 4);
      return;
    case kInt64:
      std::memcpy(to, &bits, 8);
      return;
    case kBool:
      *to = bits % 3 == 0;
      return;
  }
}

inline std::string MakeData(DType dtype, int64_t rank, int64_t begin,
                            int64_t count) {
  const int64_t size = DTypeSize(dtype);
  std::string data(count * size, '\0');
  for (int64_t i = 0; i < count; ++i) {
    PutElement(dtype, rank, begin + i, &data[i * size]);
  }
  return data;
}

inline std::string MakeBytes(int64_t rank, int64_t salt, int64_t bytes) {
  std::string data(bytes, '\0');
  for (int64_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<char>(Mix(rank * 131 + salt) + i * 7);
  }
  return data;
}

template <class T>
T Combine(ReduceKind kind, T a, T b) {
  if (kind == ReduceKind::kMax) return a < b ? b : a;
  if (kind == ReduceKind::kMin) return b < a ? b : a;
  return static_cast<T>(a + b);
}

// Reduces one element over `ranks` in their order.
inline void ReduceElement(DType dtype, ReduceKind kind,
                          const std::vector<int64_t>& ranks, int64_t i,
                          char* to) {
  float real = 0;
  int64_t integer = 0;
  bool first = true;
  for (int64_t rank : ranks) {
    char bytes[8];
    PutElement(dtype, rank, i, bytes);
    float next = 0;
    int64_t next_integer = 0;
    switch (dtype) {
      case kFloat32:
        std::memcpy(&next, bytes, 4);
        break;
      case kBFloat16: {
        BFloat16 half;
        std::memcpy(&half, bytes, 2);
        next = ToFloat(half);
        break;
      }
      case kFloat16: {
        Float16 half;
        std::memcpy(&half, bytes, 2);
        next = ToFloat(half);
        break;
      }
      case kInt32: {
        int32_t narrow;
        std::memcpy(&narrow, bytes, 4);
        next_integer = narrow;
        break;
      }
      case kInt64:
        std::memcpy(&next_integer, bytes, 8);
        break;
      case kBool:
        next_integer = bytes[0];
        break;
    }
    if (first) {
      real = next;
      integer = next_integer;
    } else if (IsFloat(dtype)) {
      real = Combine(kind, real, next);
    } else if (kind == ReduceKind::kSum) {
      integer = static_cast<int64_t>(static_cast<uint64_t>(integer) +
                                     static_cast<uint64_t>(next_integer));
    } else {
      integer = Combine(kind, integer, next_integer);
    }
    first = false;
  }
  switch (dtype) {
    case kFloat32:
      std::memcpy(to, &real, 4);
      return;
    case kBFloat16: {
      const BFloat16 half = ToBFloat16(real);
      std::memcpy(to, &half, 2);
      return;
    }
    case kFloat16: {
      const Float16 half = ToFloat16(real);
      std::memcpy(to, &half, 2);
      return;
    }
    case kInt32:
      std::memcpy(to, &integer, 4);
      return;
    case kInt64:
      std::memcpy(to, &integer, 8);
      return;
    case kBool:
      *to = integer != 0;
      return;
  }
}

inline std::string ReducedData(DType dtype, ReduceKind kind,
                               const std::vector<int64_t>& ranks, int64_t begin,
                               int64_t count) {
  const int64_t size = DTypeSize(dtype);
  std::string data(count * size, '\0');
  for (int64_t i = 0; i < count; ++i) {
    ReduceElement(dtype, kind, ranks, begin + i, &data[i * size]);
  }
  return data;
}

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_COMMUNICATORS_COLLECTIVE_DATA_H_
