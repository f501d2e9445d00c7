// SPDX-License-Identifier: Apache-2.0
//
// The texts that kernels begin with (kernel_text.h).
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "mtf/philox.h"

namespace mtf::cuda {

absl::string_view BasicText() {
  return R"(typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
struct BF16 {
  u16 bits;
};
struct F16 {
  u16 bits;
};
struct Bool {
  unsigned char value;
};
template <class T, int n>
struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Pack {
  T at[n];
};

#define kInfinity __int_as_float(0x7f800000)
#define kNaN __int_as_float(0x7fffffff)
#define kLeast (-9223372036854775807LL - 1)

// Registers. A float operation is rounded by itself, never contracted.
struct F {
  float v;
  F() = default;
  __device__ F(float x) : v(x) {}
  __device__ F(double x) : v((float)x) {}
};
__device__ inline F operator+(F x, F y) { return __fadd_rn(x.v, y.v); }
__device__ inline F operator-(F x, F y) { return __fsub_rn(x.v, y.v); }
__device__ inline F operator*(F x, F y) { return __fmul_rn(x.v, y.v); }
__device__ inline F operator/(F x, F y) { return __fdiv_rn(x.v, y.v); }
__device__ inline F operator-(F x) { return -x.v; }
struct I {
  i64 v;
  I() = default;
  __device__ I(i64 x) : v(x) {}
  __device__ I(int x) : v(x) {}
  __device__ I(double x) : v((i64)x) {}
};
__device__ inline I operator+(I x, I y) { return (i64)((u64)x.v + (u64)y.v); }
__device__ inline I operator-(I x, I y) { return (i64)((u64)x.v - (u64)y.v); }
__device__ inline I operator*(I x, I y) { return (i64)((u64)x.v * (u64)y.v); }
__device__ inline I operator-(I x) { return (i64)(0 - (u64)x.v); }

// Memory to registers.
__device__ inline F Value(float x) { return x; }
__device__ inline F Value(BF16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ inline F Value(F16 x) {
#ifdef __CUDACC__
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  return FloatOfHalf(x.bits);
#endif
}
__device__ inline I Value(int x) { return x; }
__device__ inline I Value(i64 x) { return x; }
__device__ inline bool Value(Bool x) { return x.value != 0; }
__device__ inline F Number(bool x) { return x ? 1.0f : 0.0f; }

// Registers to memory.
__device__ inline void Put(float& to, F x) { to = x.v; }
__device__ inline void Put(BF16& to, F x) {
#ifdef __CUDACC__
  // Pairs are converted at full speed, single numbers at a quarter of it.
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(x.v));
  to.bits = (u16)pair;
#else
  const u32 u = __float_as_uint(x.v);
  const u32 nan = (u >> 16) | 0x40u;
  const u32 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  to.bits = (u16)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
#endif
}
__device__ inline void Put(F16& to, F x) {
#ifdef __CUDACC__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x.v));
#else
  to.bits = HalfOfFloat(x.v);
#endif
}
__device__ inline void Put(i64& to, F x) {
  to = x.v >= 9223372036854775808.0f   ? 9223372036854775807LL
       : x.v > -9223372036854775808.0f ? (i64)x.v
       : x.v == x.v                    ? kLeast
                                       : 0;
}
__device__ inline void Put(int& to, F x) {
  to = x.v >= 2147483648.0f   ? 2147483647
       : x.v > -2147483648.0f ? (int)x.v
       : x.v == x.v           ? -2147483647 - 1
                              : 0;
}
__device__ inline void Put(Bool& to, F x) { to.value = x.v != 0.0f; }
__device__ inline void Put(int& to, I x) { to = (int)(u32)(u64)x.v; }
__device__ inline void Put(i64& to, I x) { to = x.v; }
__device__ inline void Put(Bool& to, I x) { to.value = x.v != 0; }
__device__ inline void Put(float& to, I x) { to = (float)x.v; }
__device__ inline void Put(BF16& to, I x) { Put(to, F((float)x.v)); }
__device__ inline void Put(F16& to, I x) { Put(to, F((float)x.v)); }
__device__ inline void Put(Bool& to, bool x) { to.value = x; }
template <class T>
__device__ inline void Put(T& to, bool x) {
  Put(to, Number(x));
}
template <class T, class R>
__device__ inline auto Rounded(R x) {
  T memory;
  Put(memory, x);
  return Value(memory);
}
#ifdef __CUDACC__
// With a lower half of zero, the pair is the bits of the rounded float.
template <>
__device__ inline auto Rounded<BF16, F>(F x) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x.v), "f"(0.0f));
  return F(__uint_as_float(pair));
}
#endif

// Writes a pack in as few accesses as its size allows: the compiler splits plain
// copies and does not always merge them again.
template <class P>
__device__ inline void Store(P* to, const P& x) {
#ifdef __CUDACC__
  const u32* const w = (const u32*)&x;
  if constexpr (sizeof(P) % 16 == 0) {
#pragma unroll
    for (int i = 0; i < (int)(sizeof(P) / 16); ++i) {
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(
                       __cvta_generic_to_global((char*)to + 16 * i)),
                   "r"(w[4 * i]), "r"(w[4 * i + 1]), "r"(w[4 * i + 2]),
                   "r"(w[4 * i + 3])
                   : "memory");
    }
    return;
  } else if constexpr (sizeof(P) == 8) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(
                     __cvta_generic_to_global(to)),
                 "r"(w[0]), "r"(w[1])
                 : "memory");
    return;
  }
#endif
  *to = x;
}

// The primitives that scalar functions use.
__device__ inline F Sin(F x) { return sinf(x.v); }
__device__ inline F Cos(F x) { return cosf(x.v); }
__device__ inline F Exp(F x) { return expf(x.v); }
__device__ inline F Log(F x) { return logf(x.v); }
__device__ inline F Log1p(F x) { return log1pf(x.v); }
__device__ inline F Sqrt(F x) { return __fsqrt_rn(x.v); }
__device__ inline F Tanh(F x) { return tanhf(x.v); }
__device__ inline F Floor(F x) { return floorf(x.v); }
__device__ inline F Pow(F x, F y) { return powf(x.v, y.v); }
__device__ inline F Abs(F x) { return fabsf(x.v); }
// NaN wins.
__device__ inline F Maximum(F x, F y) {
  return x.v != x.v || y.v != y.v ? x + y : F(x.v > y.v ? x.v : y.v);
}
__device__ inline F Minimum(F x, F y) {
  return x.v != x.v || y.v != y.v ? x + y : F(x.v < y.v ? x.v : y.v);
}
__device__ inline F FloorDivide(F x, F y) { return Floor(x / y); }
__device__ inline F Mod(F x, F y) { return x - Floor(x / y) * y; }
__device__ inline bool Less(F x, F y) { return x.v < y.v; }
__device__ inline bool LessEqual(F x, F y) { return x.v <= y.v; }
__device__ inline bool Greater(F x, F y) { return x.v > y.v; }
__device__ inline bool GreaterEqual(F x, F y) { return x.v >= y.v; }
__device__ inline bool Equal(F x, F y) { return x.v == y.v; }
__device__ inline bool NotEqual(F x, F y) { return x.v != y.v; }
__device__ inline F Select(bool c, F x, F y) { return c ? x.v : y.v; }
__device__ inline F Like(F, double value) { return value; }
// As on the CPU (vector_functions-inl.h).
__device__ inline F GeluDerivative(F x) {
  const F c = Maximum(Minimum(x, 32.0), -32.0);
  const F square = c * c, scaled = 1.5957691216057308 * c;
  const F u = scaled * (1.0 + 0.044715 * square);
  const F e = Exp(-Abs(u)), larger = 1.0 / (1.0 + e), smaller = e * larger;
  const bool positive = Greater(u, 0.0);
  return Select(positive, larger, smaller) *
         (1.0 + scaled * (1.0 + 0.134145 * square) *
                       Select(positive, smaller, larger));
}
__device__ inline I Maximum(I x, I y) { return x.v > y.v ? x : y; }
__device__ inline I Minimum(I x, I y) { return x.v < y.v ? x : y; }
__device__ inline I FloorDivide(I x, I y) {
  if (y.v == 0) return I(0LL);
  if (y.v == -1) return -x;
  const i64 q = x.v / y.v;
  return q - ((x.v % y.v != 0 && (x.v < 0) != (y.v < 0)) ? 1 : 0);
}
__device__ inline I Mod(I x, I y) {
  return y.v == 0 ? x : x - FloorDivide(x, y) * y;
}
__device__ inline bool Less(I x, I y) { return x.v < y.v; }
__device__ inline bool LessEqual(I x, I y) { return x.v <= y.v; }
__device__ inline bool Greater(I x, I y) { return x.v > y.v; }
__device__ inline bool GreaterEqual(I x, I y) { return x.v >= y.v; }
__device__ inline bool Equal(I x, I y) { return x.v == y.v; }
__device__ inline bool NotEqual(I x, I y) { return x.v != y.v; }
__device__ inline I Select(bool c, I x, I y) { return c ? x : y; }
__device__ inline I Like(I, double value) { return value; }
__device__ inline bool Select(bool c, bool x, bool y) { return c ? x : y; }
)";
}

absl::string_view CombineText() {
  return R"(
struct Sum {
  template <class T>
  static __device__ T Of(T x, T y) {
    return x + y;
  }
  static __device__ float Of(float x, float y) { return __fadd_rn(x, y); }
  static __device__ i64 Of(i64 x, i64 y) { return (i64)((u64)x + (u64)y); }
};
struct Max {
  static __device__ float Of(float x, float y) {
#ifdef __CUDACC__
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
    return x;
#else
    return Maximum(F(x), F(y)).v;
#endif
  }
  static __device__ i64 Of(i64 x, i64 y) { return x > y ? x : y; }
};
struct Min {
  static __device__ float Of(float x, float y) {
#ifdef __CUDACC__
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
    return x;
#else
    return Minimum(F(x), F(y)).v;
#endif
  }
  static __device__ i64 Of(i64 x, i64 y) { return x < y ? x : y; }
};
// Conversions between registers and the numbers that are combined.
__device__ inline float Plain(F x) { return x.v; }
__device__ inline i64 Plain(I x) { return x.v; }
__device__ inline float Plain(bool x) { return x ? 1.0f : 0.0f; }
__device__ inline F Register(float x) { return x; }
__device__ inline F Register(double x) { return (float)x; }
__device__ inline I Register(i64 x) { return x; }
)";
}

absl::string_view ReduceText() {
  static const auto& text = *new std::string(absl::StrCat(CombineText(), R"(
template <class Kind, int n, class T>
__device__ inline T AcrossLanes(T x) {
#pragma unroll
  for (int lane = n / 2; lane > 0; lane /= 2) {
    x = Kind::Of(x, __shfl_xor_sync(0xffffffffu, x, lane));
  }
  return x;
}
// All n threads of the block must call it and use `shared` for nothing else until all
// have returned.
template <class Kind, int n, class T>
__device__ inline T AcrossBlock(T x, T (&shared)[32]) {
  x = AcrossLanes<Kind, 32>(x);
  if (n == 32) return x;
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = shared[0];
#pragma unroll
  for (int warp = 1; warp < n / 32; ++warp) x = Kind::Of(x, shared[warp]);
  return x;
}
)"));
  return text;
}

absl::string_view RandomText() {
#define STEP(type, name, value) "  const " #type " " #name " = " #value ";\n"
  return R"(
struct Words {
  u32 at[4];
};
__device__ inline Words PhiloxAt(u32 seed, u32 stream, u32 step, u64 element) {
  u32 c0 = (u32)element, c1 = (u32)(element >> 32), c2 = step, c3 = 0;
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u32 high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const u32 high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ seed;
    c1 = low1;
    c2 = high0 ^ c3 ^ stream;
    c3 = low0;
    seed += 0x9E3779B9u;
    stream += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}
__device__ inline F Uniform(const Words& words) {
  return (float)(words.at[0] >> 8) * (1.0f / 16777216.0f);
}

// Doubles, rounded operation by operation.
struct D {
  double v;
  __device__ explicit D(double x) : v(x) {}
};
__device__ inline D operator+(D x, D y) { return D(__dadd_rn(x.v, y.v)); }
__device__ inline D operator-(D x, D y) { return D(__dsub_rn(x.v, y.v)); }
__device__ inline D operator*(D x, D y) { return D(__dmul_rn(x.v, y.v)); }
__device__ inline D operator/(D x, D y) { return D(__ddiv_rn(x.v, y.v)); }
__device__ inline D operator-(D x) { return D(-x.v); }
__device__ inline bool operator>(D x, D y) { return x.v > y.v; }
__device__ inline D Sqrt(D x) { return D(__dsqrt_rn(x.v)); }
__device__ inline u32 BitWidth(u32 x) { return 32 - __clz(x); }
__device__ inline F Normal(const Words& words) {
  const u32 w0 = words.at[0], w1 = words.at[1];
)" MTF_NORMAL_STEPS(STEP) R"(  return (float)normal.v;
}
)";
#undef STEP
}

absl::string_view KeptText() {
  return R"(
#ifdef __CUDACC__
extern __shared__ __align__(16) char kept[];
template <class P>
__device__ inline void Fetch(P* to, const P* from) {
  const u32 at = (u32)__cvta_generic_to_shared(to);
  if constexpr (sizeof(P) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at),
                 "l"(from)
                 : "memory");
  } else if constexpr (sizeof(P) == 8 || sizeof(P) == 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at),
                 "l"(from), "n"(sizeof(P))
                 : "memory");
  } else {
    *to = *from;
  }
}
__device__ inline void AwaitFetched() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
#else
#define kept emulated_dynamic_shared
template <class P>
inline void Fetch(P* to, const P* from) {
  *to = *from;
}
inline void AwaitFetched() {}
#endif
)";
}

}  // namespace mtf::cuda
