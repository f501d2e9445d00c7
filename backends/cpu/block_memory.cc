// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/block_memory.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/vector_functions.h"
#include "mtf/check.h"
#include "mtf/half.h"

namespace mtf::cpu {
namespace {

// A bool in memory: a byte, but distinct from integer types.
struct Bool {
  uint8_t byte;
};

inline float ToRegister(float x) { return x; }
inline float ToRegister(BFloat16 x) { return ToFloat(x); }
inline float ToRegister(Float16 x) { return ToFloat(x); }
inline float ToRegister(Bool x) { return x.byte != 0 ? 1.0f : 0.0f; }
inline int64_t ToRegister(int32_t x) { return x; }
inline int64_t ToRegister(int64_t x) { return x; }

template <class T>
T FromRegister(float x);
template <>
inline float FromRegister(float x) {
  return x;
}
template <>
inline BFloat16 FromRegister(float x) {
  return ToBFloat16(x);
}
template <>
inline Float16 FromRegister(float x) {
  return ToFloat16(x);
}
template <>
inline Bool FromRegister(float x) {
  return {static_cast<uint8_t>(x != 0)};
}

template <class T, class Register>
void ReadAs(const void* from, int64_t offset, int64_t stride, int64_t count,
            Register* to) {
  const T* data = static_cast<const T*>(from) + offset;
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = ToRegister(data[i]);
  } else if (stride == 0) {
    std::fill(to, to + count, static_cast<Register>(ToRegister(*data)));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = ToRegister(data[i * stride]);
  }
}

template <class T>
void WriteAs(const float* from, int64_t count, void* to, int64_t offset,
             int64_t stride) {
  T* data = static_cast<T*>(to) + offset;
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) data[i] = FromRegister<T>(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      data[i * stride] = FromRegister<T>(from[i]);
    }
  }
}

template <class T>
void WriteIntsAs(const int64_t* from, int64_t count, void* to, int64_t offset,
                 int64_t stride) {
  T* data = static_cast<T*>(to) + offset;
  for (int64_t i = 0; i < count; ++i) {
    data[i * stride] = static_cast<T>(from[i]);
  }
}

template <class T>
int64_t Saturate(float x) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(x)) return 0;
  // The largest integer is not a float; its successor is, so compare with that.
  if (x >= -static_cast<float>(Limits::min())) return Limits::max();
  if (x <= static_cast<float>(Limits::min())) return Limits::min();
  return static_cast<int64_t>(x);
}

}  // namespace

void ReadFloats(DType dtype, const void* from, int64_t offset, int64_t stride,
                int64_t count, float* to) {
  if (count == 0) return;  // the pointers may be null
  switch (dtype) {
    case kFloat32:
      if (stride == 1) {
        std::memcpy(to, static_cast<const float*>(from) + offset,
                    count * sizeof(float));
        return;
      }
      return ReadAs<float>(from, offset, stride, count, to);
    case kBFloat16:
      return ReadAs<BFloat16>(from, offset, stride, count, to);
    case kFloat16:
      return ReadAs<Float16>(from, offset, stride, count, to);
    case kBool:
      return ReadAs<Bool>(from, offset, stride, count, to);
    default:
      break;
  }
  MTF_CHECK(false) << DTypeName(dtype) << " is not kept as floats";
}

void ReadInts(DType dtype, const void* from, int64_t offset, int64_t stride,
              int64_t count, int64_t* to) {
  if (dtype == kInt32) {
    ReadAs<int32_t>(from, offset, stride, count, to);
  } else {
    MTF_CHECK(dtype == kInt64) << DTypeName(dtype);
    ReadAs<int64_t>(from, offset, stride, count, to);
  }
}

void WriteFloats(DType dtype, const float* from, int64_t count, void* to,
                 int64_t offset, int64_t stride) {
  if (count == 0) return;
  switch (dtype) {
    case kFloat32:
      if (stride == 1) {
        std::memcpy(static_cast<float*>(to) + offset, from,
                    count * sizeof(float));
        return;
      }
      return WriteAs<float>(from, count, to, offset, stride);
    case kBFloat16:
      if (stride == 1) {
        FloatsToBFloats(from, static_cast<BFloat16*>(to) + offset, count);
        return;
      }
      return WriteAs<BFloat16>(from, count, to, offset, stride);
    case kFloat16:
      return WriteAs<Float16>(from, count, to, offset, stride);
    case kBool:
      return WriteAs<Bool>(from, count, to, offset, stride);
    default:
      break;
  }
  MTF_CHECK(false) << DTypeName(dtype) << " is not kept as floats";
}

void WriteInts(DType dtype, const int64_t* from, int64_t count, void* to,
               int64_t offset, int64_t stride) {
  if (dtype == kInt32) {
    WriteIntsAs<int32_t>(from, count, to, offset, stride);
  } else {
    MTF_CHECK(dtype == kInt64) << DTypeName(dtype);
    WriteIntsAs<int64_t>(from, count, to, offset, stride);
  }
}

void RoundFloats(DType dtype, const float* x, int64_t count, float* z) {
  switch (dtype) {
    case kBFloat16:
      return RoundToBFloats(x, z, count);
    case kFloat16:
      for (int64_t i = 0; i < count; ++i) z[i] = ToFloat(ToFloat16(x[i]));
      return;
    case kBool:
      for (int64_t i = 0; i < count; ++i) z[i] = x[i] != 0 ? 1.0f : 0.0f;
      return;
    default:
      if (x != z) std::memcpy(z, x, count * sizeof(float));
      return;
  }
}

void FloatsToInts(DType dtype, const float* x, int64_t count, int64_t* z) {
  for (int64_t i = 0; i < count; ++i) {
    z[i] = dtype == kInt32 ? Saturate<int32_t>(x[i]) : Saturate<int64_t>(x[i]);
  }
}

void IntsToFloats(DType dtype, const int64_t* x, int64_t count, float* z) {
  if (dtype == kBool) {
    for (int64_t i = 0; i < count; ++i) z[i] = x[i] != 0 ? 1.0f : 0.0f;
    return;
  }
  for (int64_t i = 0; i < count; ++i) z[i] = static_cast<float>(x[i]);
  RoundFloats(dtype, z, count, z);
}

void IntsToInts(DType dtype, const int64_t* x, int64_t count, int64_t* z) {
  if (dtype != kInt32) {
    if (x != z) std::memcpy(z, x, count * sizeof(int64_t));
    return;
  }
  for (int64_t i = 0; i < count; ++i) z[i] = static_cast<int32_t>(x[i]);
}

}  // namespace mtf::cpu
