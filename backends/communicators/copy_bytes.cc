// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/copy_bytes.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstring>

namespace mtf {
namespace {

#ifdef __AVX__

constexpr int64_t kVector = 32;

// Below this size memcpy is fast enough.
constexpr int64_t kSmall = 1024;

template <bool kStream>
void Store(std::byte* to, __m256i value) {
  if constexpr (kStream) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), value);
  } else {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), value);
  }
}

__m256i Load(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

template <bool kStream>
void Copy(std::byte* to, const std::byte* from, int64_t bytes) {
  // Streaming stores must be aligned; ordinary stores are faster if aligned.
  const int64_t misaligned =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kVector);
  const int64_t head = misaligned == 0 ? 0 : kVector - misaligned;
  std::memcpy(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= 4 * kVector; bytes -= 4 * kVector) {
    const __m256i a = Load(from), b = Load(from + kVector),
                  c = Load(from + 2 * kVector), d = Load(from + 3 * kVector);
    Store<kStream>(to, a);
    Store<kStream>(to + kVector, b);
    Store<kStream>(to + 2 * kVector, c);
    Store<kStream>(to + 3 * kVector, d);
    to += 4 * kVector;
    from += 4 * kVector;
  }
  std::memcpy(to, from, bytes);
}

#endif  // __AVX__

}  // namespace

#ifdef __AVX__

void CopyBytes(void* to, const void* from, int64_t bytes) {
  if (bytes >= kSmall) {
    Copy<false>(static_cast<std::byte*>(to),
                static_cast<const std::byte*>(from), bytes);
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

void StreamBytes(void* to, const void* from, int64_t bytes) {
  if (bytes >= kSmall) {
    Copy<true>(static_cast<std::byte*>(to), static_cast<const std::byte*>(from),
               bytes);
    // A release store does not wait for streaming stores; a fence does.
    _mm_sfence();
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

#else

void CopyBytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void StreamBytes(void* to, const void* from, int64_t bytes) {
  CopyBytes(to, from, bytes);
}

#endif  // __AVX__

}  // namespace mtf
