// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/reduce_in_order.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

#include <algorithm>
#include <type_traits>

#include "backends/communicators/copy_bytes.h"
#include "mtf/half.h"

namespace mtf {
namespace {

// Intermediate results are kept in blocks that fit into the first-level cache.
constexpr int64_t kBlock = 1024;

void Widen(const BFloat16* in, float* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = ToFloat(in[i]);
}

void Narrow(const float* __restrict in, BFloat16* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = ToBFloat16(in[i]);
}

// GCC does not vectorize conversions of halves, so use intrinsics.
void Widen(const Float16* in, float* __restrict out, int64_t n) {
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const __m128i half =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(half));
  }
#endif
  for (; i < n; ++i) out[i] = ToFloat(in[i]);
}

void Narrow(const float* __restrict in, Float16* out, int64_t n) {
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const __m128i half =
        _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), half);
  }
#endif
  for (; i < n; ++i) out[i] = ToFloat16(in[i]);
}

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;  // wraps, where T would be undefined
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};
// `a != a` is true only for NaN.
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return (a > b) | (a != a) ? a : b;
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return (a < b) | (a != a) ? a : b;
  }
};
struct Or {
  uint8_t operator()(uint8_t a, uint8_t b) const { return a | b; }
};
struct And {
  uint8_t operator()(uint8_t a, uint8_t b) const { return a & b; }
};

// Reduces at least two sources. 16-bit floats are reduced as `Wide`, float.
template <class T, class Wide, class Op>
void Reduce(absl::Span<const void* const> sources, void* out, int64_t count) {
  constexpr Op op;
  alignas(64) Wide sum[kBlock];
  alignas(64) [[maybe_unused]] Wide next[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const auto source = [&](size_t s) {
      return static_cast<const T*>(sources[s]) + begin;
    };
    T* to = static_cast<T*>(out) + begin;
    if constexpr (std::is_same_v<T, Wide>) {
      const T* left = source(0);
      for (size_t s = 1; s + 1 < sources.size(); ++s) {
        const T* right = source(s);
        for (int64_t i = 0; i < n; ++i) sum[i] = op(left[i], right[i]);
        left = sum;
      }
      const T* right = source(sources.size() - 1);
      // `to` may be a source, but then at the same index.
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = op(left[i], right[i]);
    } else {
      Widen(source(0), sum, n);
      for (size_t s = 1; s < sources.size(); ++s) {
        Widen(source(s), next, n);
        for (int64_t i = 0; i < n; ++i) sum[i] = op(sum[i], next[i]);
      }
      Narrow(sum, to, n);
    }
  }
}

template <class T, class Wide>
void ReduceAs(ReduceKind kind, absl::Span<const void* const> sources, void* out,
              int64_t count) {
  switch (kind) {
    case ReduceKind::kSum:
      return Reduce<T, Wide, Sum>(sources, out, count);
    case ReduceKind::kMax:
      return Reduce<T, Wide, Max>(sources, out, count);
    case ReduceKind::kMin:
      return Reduce<T, Wide, Min>(sources, out, count);
  }
}

}  // namespace

void ReduceInOrder(DType dtype, ReduceKind kind,
                   absl::Span<const void* const> sources, void* out,
                   int64_t count) {
  if (sources.size() == 1) {
    if (out != sources[0]) CopyBytes(out, sources[0], count * DTypeSize(dtype));
    return;
  }
  switch (dtype) {
    case kFloat32:
      return ReduceAs<float, float>(kind, sources, out, count);
    case kBFloat16:
      return ReduceAs<BFloat16, float>(kind, sources, out, count);
    case kFloat16:
      return ReduceAs<Float16, float>(kind, sources, out, count);
    case kInt32:
      return ReduceAs<int32_t, int32_t>(kind, sources, out, count);
    case kInt64:
      return ReduceAs<int64_t, int64_t>(kind, sources, out, count);
    case kBool:
      return kind == ReduceKind::kMin
                 ? Reduce<uint8_t, uint8_t, And>(sources, out, count)
                 : Reduce<uint8_t, uint8_t, Or>(sources, out, count);
  }
}

}  // namespace mtf
