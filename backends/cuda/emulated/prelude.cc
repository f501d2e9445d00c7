// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/emulated/prelude.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace mtf::cuda {

absl::string_view EmulationPrelude() {
  // No includes, so a kernel compiles in a few hundredths of a second.
  return R"(#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ __attribute__((section("mtf_shared"))) static
#define __align__(n) alignas(n)
extern "C" {
float sinf(float);
float cosf(float);
float expf(float);
float exp2f(float);
float logf(float);
float log1pf(float);
float sqrtf(float);
float tanhf(float);
float floorf(float);
float powf(float, float);
float fabsf(float);
float fmaxf(float, float);
float fminf(float, float);
double sqrt(double);
void* memcpy(void*, const void*, unsigned long);
}
struct EmulatedDim {
  unsigned x, y, z;
};
static EmulatedDim threadIdx, blockIdx, blockDim = {1, 1, 1},
                                        gridDim = {1, 1, 1};
struct EmulatedCalls {
  void (*sync_threads)();
  unsigned long (*shuffle)(unsigned long, int);
};
static const EmulatedCalls* emulated_calls;
static char* emulated_dynamic_shared;
// Creates the section even if a kernel has no shared memory.
__attribute__((section("mtf_shared"), used)) static char emulated_shared[16];
extern char __start_mtf_shared[] __attribute__((visibility("hidden")));
extern char __stop_mtf_shared[] __attribute__((visibility("hidden")));

static inline void __syncthreads() { emulated_calls->sync_threads(); }
static inline void __syncwarp(unsigned = ~0u) {
  emulated_calls->shuffle(0, threadIdx.x % 32);
}
template <class T>
static inline T EmulatedShuffle(T value, int lane) {
  unsigned long bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = emulated_calls->shuffle(bits, lane);
  memcpy(&value, &bits, sizeof(T));
  return value;
}
// A lane outside the group gives the caller's own value.
static inline int EmulatedLane(int lane, int from, int width) {
  return from / width == lane / width && from >= 0 ? from : lane;
}
template <class T>
static inline T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) {
  const int lane = threadIdx.x % 32;
  return EmulatedShuffle(value, EmulatedLane(lane, lane ^ mask, width));
}
template <class T>
static inline T __shfl_down_sync(unsigned, T value, int by, int width = 32) {
  const int lane = threadIdx.x % 32;
  return EmulatedShuffle(value, EmulatedLane(lane, lane + by, width));
}
template <class T>
static inline T __shfl_up_sync(unsigned, T value, int by, int width = 32) {
  const int lane = threadIdx.x % 32;
  return EmulatedShuffle(value, EmulatedLane(lane, lane - by, width));
}
template <class T>
static inline T __shfl_sync(unsigned, T value, int from, int width = 32) {
  const int lane = threadIdx.x % 32;
  return EmulatedShuffle(value, lane / width * width + from % width);
}

template <class To, class From>
static inline To EmulatedBits(From from) {
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}
static inline float __int_as_float(int x) { return EmulatedBits<float>(x); }
static inline float __uint_as_float(unsigned x) {
  return EmulatedBits<float>(x);
}
static inline int __float_as_int(float x) { return EmulatedBits<int>(x); }
static inline unsigned __float_as_uint(float x) {
  return EmulatedBits<unsigned>(x);
}
static inline float FloatOfHalf(unsigned short x) {
  return (float)EmulatedBits<_Float16>(x);
}
static inline unsigned short HalfOfFloat(float x) {
  return EmulatedBits<unsigned short>((_Float16)x);
}
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fmaf_rn(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dsub_rn(double x, double y) { return x - y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __ddiv_rn(double x, double y) { return x / y; }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline unsigned __umulhi(unsigned x, unsigned y) {
  return (unsigned)((unsigned long)x * y >> 32);
}
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
template <class T>
static inline T min(T x, T y) {
  return y < x ? y : x;
}
template <class T>
static inline T max(T x, T y) {
  return x < y ? y : x;
}
template <class T>
static inline T __ldg(const T* x) {
  return *x;
}
// Threads run one at a time.
template <class T>
static inline T atomicAdd(T* to, T x) {
  const T old = *to;
  *to = old + x;
  return old;
}
template <class T>
static inline T atomicMin(T* to, T x) {
  const T old = *to;
  if (x < old) *to = x;
  return old;
}
template <class T>
static inline T atomicMax(T* to, T x) {
  const T old = *to;
  if (old < x) *to = x;
  return old;
}
static inline void __threadfence() {}

template <int... n>
struct EmulatedIndices {};
template <int n, int... rest>
struct EmulatedCount : EmulatedCount<n - 1, n - 1, rest...> {};
template <int... rest>
struct EmulatedCount<0, rest...> {
  using Indices = EmulatedIndices<rest...>;
};
template <class... P, int... n>
static inline void EmulatedCall(void (*kernel)(P...), void* const* arguments,
                                EmulatedIndices<n...>) {
  kernel(*(P*)arguments[n]...);
}
template <class... P>
static inline void EmulatedCall(void (*kernel)(P...), void* const* arguments) {
  EmulatedCall(kernel, arguments,
               typename EmulatedCount<sizeof...(P)>::Indices());
}
struct EmulatedKernel {
  void (*run_thread)(void* const*);
  void (*run_block)(void* const*);
  unsigned *thread, *block, *block_size, *grid_size;
  const EmulatedCalls** calls;
  char** dynamic_shared;
  char *shared_begin, *shared_end;
};
)";
}

std::string EmulationEpilogue(absl::string_view kernel,
                              absl::string_view entry) {
  return absl::StrCat(
      R"(
static void EmulatedThread(void* const* arguments) {
  EmulatedCall()",
      kernel, R"(, arguments);
}
static void EmulatedBlock(void* const* arguments) {
  for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) {
    EmulatedCall()",
      kernel, R"(, arguments);
  }
}
extern "C" {
EmulatedKernel )",
      entry,
      R"( = {
    EmulatedThread, EmulatedBlock, &threadIdx.x, &blockIdx.x, &blockDim.x,
    &gridDim.x, &emulated_calls, &emulated_dynamic_shared, __start_mtf_shared,
    __stop_mtf_shared};
}
)");
}

bool HasBarriers(absl::string_view text) {
  return absl::StrContains(text, "__sync") || absl::StrContains(text, "__shfl");
}

}  // namespace mtf::cuda
