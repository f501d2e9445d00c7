// SPDX-License-Identifier: Apache-2.0


typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
reduce_blocks(const float* __restrict__ x0,
    float* __restrict__ y0,
    i64 n0) {
  __shared__ float shared[256];
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
  for (Index unit = blockIdx.x; unit < 1920; unit += gridDim.x) {
    const Index b = unit / 1920 % 1, o = unit / 1920, c = unit % 1920 * 32 + lane;
    const Index begin = b * 8, left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 8 ? left : 8;
    const Index part = (count + 7) / 8, from = part * group;
    const Index end = from + part < count ? from + part : count;
    float total = kInfinity;
    if (c < 61440) {
#pragma unroll 4
      for (Index q = from; q < end; ++q) total = Min::Of(total, Plain(Value(x0[(o * 8 + begin + q) * 61440 + c])));
    }
    shared[threadIdx.x] = total;
    __syncthreads();
    if (group == 0 && c < 61440) {
      float all = kInfinity;
      for (int g = 0; g < 8; ++g) all = Min::Of(all, shared[g * 32 + lane]);
      Put(y0[(o * 1 + b) * 61440 + c], Register(all));
    }
    __syncthreads();
  }
}



typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
reduce_blocks(const float* __restrict__ x0,
    float* __restrict__ y0,
    i64 n0) {
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
  for (Index first = (Index)blockIdx.x * 8; first < 8; first += (Index)gridDim.x * 8) {
    const Index unit = first + group;
    const bool here = unit < 8;
    const Index b = unit % 1, o = unit / 1, c = 0;
    const Index begin = b * 501, left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 501 ? left : 501;
    float total = 0.0f;
    if (here) {
#pragma unroll 4
      for (Index q = lane; q < count; q += 32) total = Sum::Of(total, Plain(Value(x0[(o * 501 + begin + q) * 1 + c])));
    }
    total = AcrossLanes<Sum, 32>(total);
    if (here && lane == 0) Put(y0[unit], Register(total));
  }
}



typedef int Index;
extern "C" __global__ void __launch_bounds__(1024)
scan(const float* __restrict__ x0,
    float* __restrict__ y0,
    i64 n0) {
  __shared__ float shared[1024];
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
  for (Index unit = blockIdx.x; unit < 16; unit += gridDim.x) {
    const Index b = unit / 2 % 1, o = unit / 2, c = unit % 2 * 32 + lane;
    const Index begin = b * 1024, left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 1024 ? left : 1024;
    const Index part = (count + 31) / 32, from = part * group;
    const Index end = from + part < count ? from + part : count;
    float total = 0.0f;
    if (c < 60) {
#pragma unroll 4
      for (Index q = from; q < end; ++q) total = Sum::Of(total, Plain(Value(x0[(o * 1024 + begin + q) * 60 + c])));
    }
    shared[threadIdx.x] = total;
    __syncthreads();
    if (c < 60) {
      float running = 0.0f;
      for (int g = 0; g < group; ++g) running = Sum::Of(running, shared[g * 32 + lane]);
#pragma unroll 4
      for (Index q = from; q < end; ++q) {
        const float before = running;
        running = Sum::Of(running, Plain(Value(x0[(o * 1024 + begin + q) * 60 + c])));
        Put(y0[(o * 1024 + begin + q) * 60 + c], Register(before));
      }
      for (Index q = count + group; q < 1024; q += 32) Put(y0[(o * 1024 + begin + q) * 60 + c], Register((float)0));
    }
    __syncthreads();
  }
}



typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
scan(const BF16* __restrict__ x0,
    BF16* __restrict__ y0,
    i64 n0) {
  const int lane = threadIdx.x % 256, group = threadIdx.x / 256;
  __shared__ float tiles[1280];
  float* tile = tiles + group * 1280;
  __shared__ float shared[32];
  for (Index first = (Index)blockIdx.x * 1; first < 8; first += (Index)gridDim.x * 1) {
    const Index unit = first + group;
    const bool here = unit < 8;
    const Index b = unit % 1, o = unit / 1, c = 0;
    const Index begin = b * 2000, left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 2000 ? left : 2000;
    float carry = -kInfinity;
    if (here) carry = -kInfinity;
    for (Index p = 0; p < 2000; p += 1280) {
#pragma unroll
      for (int j = 0; j < 5; ++j) tile[j * 256 + lane] = here && p + j * 256 + lane < count ? Plain(Value(x0[(o * 2000 + begin + count - 1 - (p + j * 256 + lane)) * 1 + c])) : -kInfinity;
      __syncthreads();
      float own[5], total = -kInfinity;
#pragma unroll
      for (int j = 0; j < 5; ++j) {
        own[j] = tile[lane * 5 + j];
        total = Max::Of(total, own[j]);
      }
      // The sums of the lanes before.
#pragma unroll
      for (int by = 1; by < 32; by *= 2) {
        const float left = __shfl_up_sync(0xffffffffu, total, by);
        if (lane % 32 >= by) total = Max::Of(left, total);
      }
      float before = __shfl_up_sync(0xffffffffu, total, 1);
      if (lane % 32 == 0) before = -kInfinity;
      if (lane % 32 == 31) shared[lane / 32] = total;
      __syncthreads();
      float all = -kInfinity, warps = -kInfinity;
      for (int w = 0; w < 8; ++w) {
        if (w == lane / 32) warps = all;
        all = Max::Of(all, shared[w]);
      }
      before = Max::Of(warps, before);
      float running = Max::Of(carry, before);
#pragma unroll
      for (int j = 0; j < 5; ++j) {
        running = Max::Of(running, own[j]);
        tile[lane * 5 + j] = running;
      }
      carry = Max::Of(carry, all);
      __syncthreads();
#pragma unroll
      for (int j = 0; j < 5; ++j) if (here && p + j * 256 + lane < count) Put(y0[(o * 2000 + begin + count - 1 - (p + j * 256 + lane)) * 1 + c], Register(tile[j * 256 + lane]));
      __syncthreads();
    }
    if (here) {
      for (Index q = count + lane; q < 2000; q += 256) Put(y0[(o * 2000 + begin + q) * 1 + c], Register((float)0));
    }
  }
}



typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
scan(const float* __restrict__ x0,
    const float* __restrict__ x1,
    float* __restrict__ y0,
    i64 n0) {
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
  __shared__ float tiles[1280];
  float* tile = tiles + group * 160;
  for (Index first = (Index)blockIdx.x * 8; first < 8; first += (Index)gridDim.x * 8) {
    const Index unit = first + group;
    const bool here = unit < 8;
    const Index b = unit % 1, o = unit / 1, c = 0;
    const Index begin = b * 501, left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 501 ? left : 501;
    float carry = 0.0f;
    if (here) carry = Plain(Value(x1[(o * 1 + b) * 1 + c]));
    for (Index p = 0; p < 501; p += 160) {
#pragma unroll
      for (int j = 0; j < 5; ++j) tile[j * 32 + lane] = here && p + j * 32 + lane < count ? Plain(Value(x0[(o * 501 + begin + p + j * 32 + lane) * 1 + c])) : 0.0f;
      __syncwarp();
      float own[5], total = 0.0f;
#pragma unroll
      for (int j = 0; j < 5; ++j) {
        own[j] = tile[lane * 5 + j];
        total = Sum::Of(total, own[j]);
      }
      // The sums of the lanes before.
#pragma unroll
      for (int by = 1; by < 32; by *= 2) {
        const float left = __shfl_up_sync(0xffffffffu, total, by);
        if (lane % 32 >= by) total = Sum::Of(left, total);
      }
      float before = __shfl_up_sync(0xffffffffu, total, 1);
      if (lane % 32 == 0) before = 0.0f;
      const float all = __shfl_sync(0xffffffffu, total, 31);
      float running = Sum::Of(carry, before);
#pragma unroll
      for (int j = 0; j < 5; ++j) {
        running = Sum::Of(running, own[j]);
        tile[lane * 5 + j] = running;
      }
      carry = Sum::Of(carry, all);
      __syncwarp();
#pragma unroll
      for (int j = 0; j < 5; ++j) if (here && p + j * 32 + lane < count) Put(y0[(o * 501 + begin + p + j * 32 + lane) * 1 + c], Register(tile[j * 32 + lane]));
      __syncwarp();
    }
    if (here) {
      for (Index q = count + lane; q < 501; q += 32) Put(y0[(o * 501 + begin + q) * 1 + c], Register((float)0));
    }
  }
}



typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
scan(const int* __restrict__ x0,
    int* __restrict__ y0,
    i64 n0) {
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
  __shared__ i64 tiles[1280];
  i64* tile = tiles + group * 160;
  for (Index first = (Index)blockIdx.x * 8; first < 8; first += (Index)gridDim.x * 8) {
    const Index unit = first + group;
    const bool here = unit < 8;
    const Index b = unit % 1, o = unit / 1, c = 0;
    const Index begin = b * 64, left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 64 ? left : 64;
    i64 carry = 0LL;
    if (here) carry = 0LL;
    for (Index p = 0; p < 64; p += 160) {
#pragma unroll
      for (int j = 0; j < 5; ++j) tile[j * 32 + lane] = here && p + j * 32 + lane < count ? Plain(Value(x0[(o * 64 + begin + p + j * 32 + lane) * 1 + c])) : 0LL;
      __syncwarp();
      i64 own[5], total = 0LL;
#pragma unroll
      for (int j = 0; j < 5; ++j) {
        own[j] = tile[lane * 5 + j];
        total = Sum::Of(total, own[j]);
      }
      // The sums of the lanes before.
#pragma unroll
      for (int by = 1; by < 32; by *= 2) {
        const i64 left = __shfl_up_sync(0xffffffffu, total, by);
        if (lane % 32 >= by) total = Sum::Of(left, total);
      }
      i64 before = __shfl_up_sync(0xffffffffu, total, 1);
      if (lane % 32 == 0) before = 0LL;
      const i64 all = __shfl_sync(0xffffffffu, total, 31);
      i64 running = Sum::Of(carry, before);
#pragma unroll
      for (int j = 0; j < 5; ++j) {
        running = Sum::Of(running, own[j]);
        tile[lane * 5 + j] = running;
      }
      carry = Sum::Of(carry, all);
      __syncwarp();
#pragma unroll
      for (int j = 0; j < 5; ++j) if (here && p + j * 32 + lane < count) Put(y0[(o * 64 + begin + p + j * 32 + lane) * 1 + c], Register(tile[j * 32 + lane]));
      __syncwarp();
    }
    if (here) {
      for (Index q = count + lane; q < 64; q += 32) Put(y0[(o * 64 + begin + q) * 1 + c], Register((i64)0));
    }
  }
}




struct Key {
  u64 value;
  u32 order;
};
#define kNone Key{0, 0}
#define kAll Key{0xffffffffffffffffULL, 0xffffffffu}
#define kDigits 12
__device__ inline Key KeyOf(I x, i64 place) {
  return {(u64)x.v ^ 0x8000000000000000ULL, 0xfffffffeu - (u32)place};
}
__device__ inline i64 PlaceOf(Key x) { return 0xfffffffeu - x.order; }
__device__ inline bool Above(Key x, Key y) {
  return x.value > y.value || (x.value == y.value && x.order > y.order);
}
__device__ inline Key FromLane(Key x, int lane) {
  return {__shfl_xor_sync(0xffffffffu, x.value, lane),
          __shfl_xor_sync(0xffffffffu, x.order, lane)};
}
// Digits of 8 bits, the greatest first.
__device__ inline int DigitOf(Key x, int d) {
  return d < 8 ? (int)(x.value >> (56 - 8 * d) & 255)
               : (int)(x.order >> (88 - 8 * d) & 255);
}
__device__ inline bool SameAbove(Key x, Key y, int d) {
  if (d == 0) return true;
  if (d < 8) return (x.value ^ y.value) >> (64 - 8 * d) == 0;
  return x.value == y.value &&
         (d == 8 || (x.order ^ y.order) >> (96 - 8 * d) == 0);
}
__device__ inline Key WithDigit(Key x, int d, int digit) {
  if (d < 8) return {x.value | (u64)digit << (56 - 8 * d), x.order};
  return {x.value, x.order | (u32)digit << (88 - 8 * d)};
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
top_k(const i64* __restrict__ x0,
    int* __restrict__ y0,
    i64 n0,
    i64 n1) {
  __shared__ Key sorted[32];
  __shared__ int bins[256];
  __shared__ int chosen[2], filled;
  for (Index unit = blockIdx.x; unit < 8; unit += gridDim.x) {
    const Index b = unit % 1, o = unit / 1, c = unit / 1 % 1, begin = b * 64;
    const Index left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 64 ? left : 64;
    const Index base = (o * 64 + begin) * 1 + c;
    Key least = kNone;
    int want = 30, wanted = want;
    for (int d = 0; d < kDigits && want > 0; ++d) {
      bins[threadIdx.x] = 0;
      __syncthreads();
      for (Index q = threadIdx.x; q < count; q += 256) {
        const Key key = KeyOf(Value(x0[base + q * 1]), q);
        if (SameAbove(key, least, d)) atomicAdd(bins + DigitOf(key, d), 1);
      }
      __syncthreads();
      int above = 0, all = 0;
#pragma unroll 8
      for (int t = 255; t >= 0; --t) {
        if (t == (int)threadIdx.x) above = all;
        all += bins[t];
      }
      // A line may have fewer than are asked for.
      if (d == 0 && all < want) want = wanted = all;
      if (above < want && above + bins[threadIdx.x] >= want) {
        chosen[0] = threadIdx.x;
        chosen[1] = above;
      }
      __syncthreads();
      if (want > 0) {
        least = WithDigit(least, d, chosen[0]);
        want -= chosen[1];
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) filled = 0;
    for (int n = threadIdx.x; n < 32; n += 256) sorted[n] = kNone;
    __syncthreads();
    for (Index q = threadIdx.x; wanted > 0 && q < count; q += 256) {
      const Key key = KeyOf(Value(x0[base + q * 1]), q);
      if (!Above(least, key)) sorted[atomicAdd(&filled, 1)] = key;
    }
    __syncthreads();
    // A bitonic sort, the greatest first.
    for (int run = 2; run <= 32; run *= 2) {
      for (int by = run / 2; by > 0; by /= 2) {
        for (int n = threadIdx.x; n < 16; n += 256) {
          const int x = n / by * 2 * by + n % by, y = x + by;
          const bool down = (x & run) == 0;
          if (Above(sorted[y], sorted[x]) == down) {
            const Key other = sorted[x];
            sorted[x] = sorted[y];
            sorted[y] = other;
          }
        }
        __syncthreads();
      }
    }
    for (int r = threadIdx.x; r < 30; r += 256) {
      const Index to = unit * 30 + r;
      const bool found = Above(sorted[r], kNone);
      const Index q = found ? (Index)PlaceOf(sorted[r]) : 0;
      y0[to] = found ? (int)(n1 + begin + q) : -1;
    }
    __syncthreads();
  }
}




struct Key {
  u64 value;
  u32 order;
};
#define kNone Key{0, 0}
#define kAll Key{0xffffffffffffffffULL, 0xffffffffu}
#define kDigits 12
__device__ inline Key KeyOf(I x, i64 place) {
  return {(u64)x.v ^ 0x8000000000000000ULL, 0xfffffffeu - (u32)place};
}
__device__ inline i64 PlaceOf(Key x) { return 0xfffffffeu - x.order; }
__device__ inline bool Above(Key x, Key y) {
  return x.value > y.value || (x.value == y.value && x.order > y.order);
}
__device__ inline Key FromLane(Key x, int lane) {
  return {__shfl_xor_sync(0xffffffffu, x.value, lane),
          __shfl_xor_sync(0xffffffffu, x.order, lane)};
}
// Digits of 8 bits, the greatest first.
__device__ inline int DigitOf(Key x, int d) {
  return d < 8 ? (int)(x.value >> (56 - 8 * d) & 255)
               : (int)(x.order >> (88 - 8 * d) & 255);
}
__device__ inline bool SameAbove(Key x, Key y, int d) {
  if (d == 0) return true;
  if (d < 8) return (x.value ^ y.value) >> (64 - 8 * d) == 0;
  return x.value == y.value &&
         (d == 8 || (x.order ^ y.order) >> (96 - 8 * d) == 0);
}
__device__ inline Key WithDigit(Key x, int d, int digit) {
  if (d < 8) return {x.value | (u64)digit << (56 - 8 * d), x.order};
  return {x.value, x.order | (u32)digit << (88 - 8 * d)};
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
top_k(const i64* __restrict__ x0,
    int* __restrict__ y0,
    i64 n0,
    i64 n1) {
  const int lane = threadIdx.x % 32;
  for (Index first = (Index)blockIdx.x * 8; first < 8; first += (Index)gridDim.x * 8) {
    const Index unit = first + threadIdx.x / 32;
    const bool here = unit < 8;
    const Index b = unit % 1, o = unit / 1, c = unit / 1 % 1, begin = b * 64;
    const Index left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 64 ? left : 64;
    const Index base = (o * 64 + begin) * 1 + c;
    Key last = kAll;
    for (int r = 0; r < 2; ++r) {
      Key best = kNone;
      if (here) {
#pragma unroll 4
        for (Index q = lane; q < count; q += 32) {
          const Key key = KeyOf(Value(x0[base + q * 1]), q);
          if (Above(last, key) && Above(key, best)) best = key;
        }
      }
#pragma unroll
      for (int by = 16; by > 0; by /= 2) {
        const Key other = FromLane(best, by);
        if (Above(other, best)) best = other;
      }
      last = best;
      if (here && lane == 0) {
        const Index to = unit * 2 + r;
        const bool found = Above(best, kNone);
        const Index q = found ? (Index)PlaceOf(best) : 0;
        y0[to] = found ? (int)(n1 + begin + q) : -1;
      }
    }
  }
}




typedef u64 Key;
#define kNone 0ULL
#define kAll 0xffffffffffffffffULL
#define kDigits 8
__device__ inline u32 BitsOf(F x) {
  if (x.v != x.v) return 0xff800001u;
  const u32 bits = x.v == 0.0f ? 0u : __float_as_uint(x.v);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline u32 BitsOf(I x) { return (u32)(u64)x.v ^ 0x80000000u; }
template <class R>
__device__ inline Key KeyOf(R x, i64 place) {
  return (u64)BitsOf(x) << 32 | (0xfffffffeu - (u32)place);
}
__device__ inline i64 PlaceOf(Key x) { return 0xfffffffeu - (u32)x; }
__device__ inline bool Above(Key x, Key y) { return x > y; }
__device__ inline Key FromLane(Key x, int lane) {
  return __shfl_xor_sync(0xffffffffu, x, lane);
}
// Digits of 8 bits, the greatest first.
__device__ inline int DigitOf(Key x, int d) { return (int)(x >> (56 - 8 * d) & 255); }
__device__ inline bool SameAbove(Key x, Key y, int d) {
  return d == 0 || (x ^ y) >> (64 - 8 * d) == 0;
}
__device__ inline Key WithDigit(Key x, int d, int digit) {
  return x | (u64)digit << (56 - 8 * d);
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
top_k(const BF16* __restrict__ x0,
    int* __restrict__ y0,
    i64 n0,
    i64 n1) {
  __shared__ Key shared[8];
  const int lane = threadIdx.x % 256;
  for (Index first = (Index)blockIdx.x * 1; first < 8; first += (Index)gridDim.x * 1) {
    const Index unit = first + threadIdx.x / 256;
    const bool here = unit < 8;
    const Index b = unit % 1, o = unit / 1, c = unit / 1 % 1, begin = b * 2000;
    const Index left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 2000 ? left : 2000;
    const Index base = (o * 2000 + begin) * 1 + c;
    Key last = kAll;
    for (int r = 0; r < 2; ++r) {
      Key best = kNone;
      if (here) {
#pragma unroll 4
        for (Index q = lane; q < count; q += 256) {
          const Key key = KeyOf(Value(x0[base + q * 1]), q);
          if (Above(last, key) && Above(key, best)) best = key;
        }
      }
#pragma unroll
      for (int by = 16; by > 0; by /= 2) {
        const Key other = FromLane(best, by);
        if (Above(other, best)) best = other;
      }
      if (lane % 32 == 0) shared[lane / 32] = best;
      __syncthreads();
      for (int w = 0; w < 8; ++w) {
        if (Above(shared[w], best)) best = shared[w];
      }
      __syncthreads();
      last = best;
      if (here && lane == 0) {
        const Index to = unit * 2 + r;
        const bool found = Above(best, kNone);
        const Index q = found ? (Index)PlaceOf(best) : 0;
        y0[to] = found ? (int)(n1 + begin + q) : -1;
      }
    }
  }
}




typedef u64 Key;
#define kNone 0ULL
#define kAll 0xffffffffffffffffULL
#define kDigits 8
__device__ inline u32 BitsOf(F x) {
  if (x.v != x.v) return 0xff800001u;
  const u32 bits = x.v == 0.0f ? 0u : __float_as_uint(x.v);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline u32 BitsOf(I x) { return (u32)(u64)x.v ^ 0x80000000u; }
template <class R>
__device__ inline Key KeyOf(R x, i64 place) {
  return (u64)BitsOf(x) << 32 | (0xfffffffeu - (u32)place);
}
__device__ inline i64 PlaceOf(Key x) { return 0xfffffffeu - (u32)x; }
__device__ inline bool Above(Key x, Key y) { return x > y; }
__device__ inline Key FromLane(Key x, int lane) {
  return __shfl_xor_sync(0xffffffffu, x, lane);
}
// Digits of 8 bits, the greatest first.
__device__ inline int DigitOf(Key x, int d) { return (int)(x >> (56 - 8 * d) & 255); }
__device__ inline bool SameAbove(Key x, Key y, int d) {
  return d == 0 || (x ^ y) >> (64 - 8 * d) == 0;
}
__device__ inline Key WithDigit(Key x, int d, int digit) {
  return x | (u64)digit << (56 - 8 * d);
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
top_k(const F16* __restrict__ x0,
    int* __restrict__ y0,
    i64 n0,
    i64 n1) {
  __shared__ Key sorted[64];
  __shared__ int bins[256];
  __shared__ int chosen[2], filled;
  for (Index unit = blockIdx.x; unit < 8; unit += gridDim.x) {
    const Index b = unit % 1, o = unit / 1, c = unit / 1 % 1, begin = b * 50000;
    const Index left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 50000 ? left : 50000;
    const Index base = (o * 50000 + begin) * 1 + c;
    Key least = kNone;
    int want = 40, wanted = want;
    for (int d = 0; d < kDigits && want > 0; ++d) {
      bins[threadIdx.x] = 0;
      __syncthreads();
      for (Index q = threadIdx.x; q < count; q += 256) {
        const Key key = KeyOf(Value(x0[base + q * 1]), q);
        if (SameAbove(key, least, d)) atomicAdd(bins + DigitOf(key, d), 1);
      }
      __syncthreads();
      int above = 0, all = 0;
#pragma unroll 8
      for (int t = 255; t >= 0; --t) {
        if (t == (int)threadIdx.x) above = all;
        all += bins[t];
      }
      // A line may have fewer than are asked for.
      if (d == 0 && all < want) want = wanted = all;
      if (above < want && above + bins[threadIdx.x] >= want) {
        chosen[0] = threadIdx.x;
        chosen[1] = above;
      }
      __syncthreads();
      if (want > 0) {
        least = WithDigit(least, d, chosen[0]);
        want -= chosen[1];
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) filled = 0;
    for (int n = threadIdx.x; n < 64; n += 256) sorted[n] = kNone;
    __syncthreads();
    for (Index q = threadIdx.x; wanted > 0 && q < count; q += 256) {
      const Key key = KeyOf(Value(x0[base + q * 1]), q);
      if (!Above(least, key)) sorted[atomicAdd(&filled, 1)] = key;
    }
    __syncthreads();
    // A bitonic sort, the greatest first.
    for (int run = 2; run <= 64; run *= 2) {
      for (int by = run / 2; by > 0; by /= 2) {
        for (int n = threadIdx.x; n < 32; n += 256) {
          const int x = n / by * 2 * by + n % by, y = x + by;
          const bool down = (x & run) == 0;
          if (Above(sorted[y], sorted[x]) == down) {
            const Key other = sorted[x];
            sorted[x] = sorted[y];
            sorted[y] = other;
          }
        }
        __syncthreads();
      }
    }
    for (int r = threadIdx.x; r < 40; r += 256) {
      const Index to = unit * 40 + r;
      const bool found = Above(sorted[r], kNone);
      const Index q = found ? (Index)PlaceOf(sorted[r]) : 0;
      y0[to] = found ? (int)(n1 + begin + q) : -1;
    }
    __syncthreads();
  }
}




typedef u64 Key;
#define kNone 0ULL
#define kAll 0xffffffffffffffffULL
#define kDigits 8
__device__ inline u32 BitsOf(F x) {
  if (x.v != x.v) return 0xff800001u;
  const u32 bits = x.v == 0.0f ? 0u : __float_as_uint(x.v);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline u32 BitsOf(I x) { return (u32)(u64)x.v ^ 0x80000000u; }
template <class R>
__device__ inline Key KeyOf(R x, i64 place) {
  return (u64)BitsOf(x) << 32 | (0xfffffffeu - (u32)place);
}
__device__ inline i64 PlaceOf(Key x) { return 0xfffffffeu - (u32)x; }
__device__ inline bool Above(Key x, Key y) { return x > y; }
__device__ inline Key FromLane(Key x, int lane) {
  return __shfl_xor_sync(0xffffffffu, x, lane);
}
// Digits of 8 bits, the greatest first.
__device__ inline int DigitOf(Key x, int d) { return (int)(x >> (56 - 8 * d) & 255); }
__device__ inline bool SameAbove(Key x, Key y, int d) {
  return d == 0 || (x ^ y) >> (64 - 8 * d) == 0;
}
__device__ inline Key WithDigit(Key x, int d, int digit) {
  return x | (u64)digit << (56 - 8 * d);
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
top_k(const F16* __restrict__ x0,
    int* __restrict__ y0,
    i64 n0,
    i64 n1,
    Key* __restrict__ y1) {
  Key* sorted = y1 + (i64)blockIdx.x * 16384;
  __shared__ int bins[256];
  __shared__ int chosen[2], filled;
  for (Index unit = blockIdx.x; unit < 8; unit += gridDim.x) {
    const Index b = unit % 1, o = unit / 1, c = unit / 1 % 1, begin = b * 50000;
    const Index left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 50000 ? left : 50000;
    const Index base = (o * 50000 + begin) * 1 + c;
    Key least = kNone;
    int want = 9000, wanted = want;
    for (int d = 0; d < kDigits && want > 0; ++d) {
      bins[threadIdx.x] = 0;
      __syncthreads();
      for (Index q = threadIdx.x; q < count; q += 256) {
        const Key key = KeyOf(Value(x0[base + q * 1]), q);
        if (SameAbove(key, least, d)) atomicAdd(bins + DigitOf(key, d), 1);
      }
      __syncthreads();
      int above = 0, all = 0;
#pragma unroll 8
      for (int t = 255; t >= 0; --t) {
        if (t == (int)threadIdx.x) above = all;
        all += bins[t];
      }
      // A line may have fewer than are asked for.
      if (d == 0 && all < want) want = wanted = all;
      if (above < want && above + bins[threadIdx.x] >= want) {
        chosen[0] = threadIdx.x;
        chosen[1] = above;
      }
      __syncthreads();
      if (want > 0) {
        least = WithDigit(least, d, chosen[0]);
        want -= chosen[1];
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) filled = 0;
    for (int n = threadIdx.x; n < 16384; n += 256) sorted[n] = kNone;
    __syncthreads();
    for (Index q = threadIdx.x; wanted > 0 && q < count; q += 256) {
      const Key key = KeyOf(Value(x0[base + q * 1]), q);
      if (!Above(least, key)) sorted[atomicAdd(&filled, 1)] = key;
    }
    __syncthreads();
    // A bitonic sort, the greatest first.
    for (int run = 2; run <= 16384; run *= 2) {
      for (int by = run / 2; by > 0; by /= 2) {
        for (int n = threadIdx.x; n < 8192; n += 256) {
          const int x = n / by * 2 * by + n % by, y = x + by;
          const bool down = (x & run) == 0;
          if (Above(sorted[y], sorted[x]) == down) {
            const Key other = sorted[x];
            sorted[x] = sorted[y];
            sorted[y] = other;
          }
        }
        __syncthreads();
      }
    }
    for (int r = threadIdx.x; r < 9000; r += 256) {
      const Index to = unit * 9000 + r;
      const bool found = Above(sorted[r], kNone);
      const Index q = found ? (Index)PlaceOf(sorted[r]) : 0;
      y0[to] = found ? (int)(n1 + begin + q) : -1;
    }
    __syncthreads();
  }
}




typedef u64 Key;
#define kNone 0ULL
#define kAll 0xffffffffffffffffULL
#define kDigits 8
__device__ inline u32 BitsOf(F x) {
  if (x.v != x.v) return 0xff800001u;
  const u32 bits = x.v == 0.0f ? 0u : __float_as_uint(x.v);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline u32 BitsOf(I x) { return (u32)(u64)x.v ^ 0x80000000u; }
template <class R>
__device__ inline Key KeyOf(R x, i64 place) {
  return (u64)BitsOf(x) << 32 | (0xfffffffeu - (u32)place);
}
__device__ inline i64 PlaceOf(Key x) { return 0xfffffffeu - (u32)x; }
__device__ inline bool Above(Key x, Key y) { return x > y; }
__device__ inline Key FromLane(Key x, int lane) {
  return __shfl_xor_sync(0xffffffffu, x, lane);
}
// Digits of 8 bits, the greatest first.
__device__ inline int DigitOf(Key x, int d) { return (int)(x >> (56 - 8 * d) & 255); }
__device__ inline bool SameAbove(Key x, Key y, int d) {
  return d == 0 || (x ^ y) >> (64 - 8 * d) == 0;
}
__device__ inline Key WithDigit(Key x, int d, int digit) {
  return x | (u64)digit << (56 - 8 * d);
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
top_k(const float* __restrict__ x0,
    const int* __restrict__ x1,
    int* __restrict__ y0,
    i64 n0,
    i64 n1) {
  const int lane = threadIdx.x % 32;
  for (Index first = (Index)blockIdx.x * 8; first < 8; first += (Index)gridDim.x * 8) {
    const Index unit = first + threadIdx.x / 32;
    const bool here = unit < 8;
    const Index b = unit % 1, o = unit / 1, c = unit / 1 % 1, begin = b * 6;
    const Index left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 6 ? left : 6;
    const Index base = (o * 6 + begin) * 1 + c;
    Key last = kAll;
    for (int r = 0; r < 3; ++r) {
      Key best = kNone;
      if (here) {
#pragma unroll 4
        for (Index q = lane; q < count; q += 32) {
          if (x1[base + q * 1] < 0) continue;
          const Key key = KeyOf(Value(x0[base + q * 1]), q);
          if (Above(last, key) && Above(key, best)) best = key;
        }
      }
#pragma unroll
      for (int by = 16; by > 0; by /= 2) {
        const Key other = FromLane(best, by);
        if (Above(other, best)) best = other;
      }
      last = best;
      if (here && lane == 0) {
        const Index to = unit * 3 + r;
        const bool found = Above(best, kNone);
        const Index q = found ? (Index)PlaceOf(best) : 0;
        y0[to] = found ? x1[base + q * 1] : -1;
      }
    }
  }
}




typedef u64 Key;
#define kNone 0ULL
#define kAll 0xffffffffffffffffULL
#define kDigits 8
__device__ inline u32 BitsOf(F x) {
  if (x.v != x.v) return 0xff800001u;
  const u32 bits = x.v == 0.0f ? 0u : __float_as_uint(x.v);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline u32 BitsOf(I x) { return (u32)(u64)x.v ^ 0x80000000u; }
template <class R>
__device__ inline Key KeyOf(R x, i64 place) {
  return (u64)BitsOf(x) << 32 | (0xfffffffeu - (u32)place);
}
__device__ inline i64 PlaceOf(Key x) { return 0xfffffffeu - (u32)x; }
__device__ inline bool Above(Key x, Key y) { return x > y; }
__device__ inline Key FromLane(Key x, int lane) {
  return __shfl_xor_sync(0xffffffffu, x, lane);
}
// Digits of 8 bits, the greatest first.
__device__ inline int DigitOf(Key x, int d) { return (int)(x >> (56 - 8 * d) & 255); }
__device__ inline bool SameAbove(Key x, Key y, int d) {
  return d == 0 || (x ^ y) >> (64 - 8 * d) == 0;
}
__device__ inline Key WithDigit(Key x, int d, int digit) {
  return x | (u64)digit << (56 - 8 * d);
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
top_k(const float* __restrict__ x0,
    int* __restrict__ y0,
    float* __restrict__ y1,
    i64 n0,
    i64 n1) {
  const int lane = threadIdx.x % 32;
  for (Index first = (Index)blockIdx.x * 8; first < 8; first += (Index)gridDim.x * 8) {
    const Index unit = first + threadIdx.x / 32;
    const bool here = unit < 8;
    const Index b = unit % 1, o = unit / 1, c = unit / 1 % 1, begin = b * 501;
    const Index left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 501 ? left : 501;
    const Index base = (o * 501 + begin) * 1 + c;
    Key last = kAll;
    for (int r = 0; r < 3; ++r) {
      Key best = kNone;
      if (here) {
#pragma unroll 4
        for (Index q = lane; q < count; q += 32) {
          const Key key = KeyOf(Value(x0[base + q * 1]), q);
          if (Above(last, key) && Above(key, best)) best = key;
        }
      }
#pragma unroll
      for (int by = 16; by > 0; by /= 2) {
        const Key other = FromLane(best, by);
        if (Above(other, best)) best = other;
      }
      last = best;
      if (here && lane == 0) {
        const Index to = unit * 3 + r;
        const bool found = Above(best, kNone);
        const Index q = found ? (Index)PlaceOf(best) : 0;
        y0[to] = found ? (int)(n1 + begin + q) : -1;
        if (found) {
          y1[to] = x0[base + q * 1];
        } else {
          Put(y1[to], false);
        }
      }
    }
  }
}




typedef u64 Key;
#define kNone 0ULL
#define kAll 0xffffffffffffffffULL
#define kDigits 8
__device__ inline u32 BitsOf(F x) {
  if (x.v != x.v) return 0xff800001u;
  const u32 bits = x.v == 0.0f ? 0u : __float_as_uint(x.v);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline u32 BitsOf(I x) { return (u32)(u64)x.v ^ 0x80000000u; }
template <class R>
__device__ inline Key KeyOf(R x, i64 place) {
  return (u64)BitsOf(x) << 32 | (0xfffffffeu - (u32)place);
}
__device__ inline i64 PlaceOf(Key x) { return 0xfffffffeu - (u32)x; }
__device__ inline bool Above(Key x, Key y) { return x > y; }
__device__ inline Key FromLane(Key x, int lane) {
  return __shfl_xor_sync(0xffffffffu, x, lane);
}
// Digits of 8 bits, the greatest first.
__device__ inline int DigitOf(Key x, int d) { return (int)(x >> (56 - 8 * d) & 255); }
__device__ inline bool SameAbove(Key x, Key y, int d) {
  return d == 0 || (x ^ y) >> (64 - 8 * d) == 0;
}
__device__ inline Key WithDigit(Key x, int d, int digit) {
  return x | (u64)digit << (56 - 8 * d);
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
top_k(const float* __restrict__ x0,
    int* __restrict__ y0,
    i64 n0,
    i64 n1) {
  const int lane = threadIdx.x % 1;
  for (Index first = (Index)blockIdx.x * 256; first < 480; first += (Index)gridDim.x * 256) {
    const Index unit = first + threadIdx.x / 1;
    const bool here = unit < 480;
    const Index b = unit % 1, o = unit / 60, c = unit / 1 % 60, begin = b * 1024;
    const Index left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 1024 ? left : 1024;
    const Index base = (o * 1024 + begin) * 60 + c;
    Key last = kAll;
    for (int r = 0; r < 2; ++r) {
      Key best = kNone;
      if (here) {
#pragma unroll 4
        for (Index q = lane; q < count; q += 1) {
          const Key key = KeyOf(Value(x0[base + q * 60]), q);
          if (Above(last, key) && Above(key, best)) best = key;
        }
      }
      last = best;
      if (here && lane == 0) {
        const Index to = unit * 2 + r;
        const bool found = Above(best, kNone);
        const Index q = found ? (Index)PlaceOf(best) : 0;
        y0[to] = found ? (int)(n1 + begin + q) : -1;
      }
    }
  }
}




typedef u64 Key;
#define kNone 0ULL
#define kAll 0xffffffffffffffffULL
#define kDigits 8
__device__ inline u32 BitsOf(F x) {
  if (x.v != x.v) return 0xff800001u;
  const u32 bits = x.v == 0.0f ? 0u : __float_as_uint(x.v);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline u32 BitsOf(I x) { return (u32)(u64)x.v ^ 0x80000000u; }
template <class R>
__device__ inline Key KeyOf(R x, i64 place) {
  return (u64)BitsOf(x) << 32 | (0xfffffffeu - (u32)place);
}
__device__ inline i64 PlaceOf(Key x) { return 0xfffffffeu - (u32)x; }
__device__ inline bool Above(Key x, Key y) { return x > y; }
__device__ inline Key FromLane(Key x, int lane) {
  return __shfl_xor_sync(0xffffffffu, x, lane);
}
// Digits of 8 bits, the greatest first.
__device__ inline int DigitOf(Key x, int d) { return (int)(x >> (56 - 8 * d) & 255); }
__device__ inline bool SameAbove(Key x, Key y, int d) {
  return d == 0 || (x ^ y) >> (64 - 8 * d) == 0;
}
__device__ inline Key WithDigit(Key x, int d, int digit) {
  return x | (u64)digit << (56 - 8 * d);
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
top_k(const float* __restrict__ x0,
    int* __restrict__ y0,
    i64 n0,
    i64 n1) {
  const int lane = threadIdx.x % 32;
  for (Index first = (Index)blockIdx.x * 8; first < 8192; first += (Index)gridDim.x * 8) {
    const Index unit = first + threadIdx.x / 32;
    const bool here = unit < 8192;
    const Index b = unit % 1, o = unit / 1, c = unit / 1 % 1, begin = b * 60;
    const Index left = (Index)n0 - begin;
    const Index count = left < 0 ? 0 : left < 60 ? left : 60;
    const Index base = (o * 60 + begin) * 1 + c;
    Key last = kAll;
    for (int r = 0; r < 2; ++r) {
      Key best = kNone;
      if (here) {
#pragma unroll 4
        for (Index q = lane; q < count; q += 32) {
          const Key key = KeyOf(Value(x0[base + q * 1]), q);
          if (Above(last, key) && Above(key, best)) best = key;
        }
      }
#pragma unroll
      for (int by = 16; by > 0; by /= 2) {
        const Key other = FromLane(best, by);
        if (Above(other, best)) best = other;
      }
      last = best;
      if (here && lane == 0) {
        const Index to = unit * 2 + r;
        const bool found = Above(best, kNone);
        const Index q = found ? (Index)PlaceOf(best) : 0;
        y0[to] = found ? (int)(n1 + begin + q) : -1;
      }
    }
  }
}

