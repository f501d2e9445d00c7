// SPDX-License-Identifier: Apache-2.0
// matmul f32 batch 8 m 128 n 128 k 32 x 128+16384 y t/128+16384 z 128+65536
// matmul f32 batch 8 m 128 n 32 k 128 x 128+65536 y 128+16384 z 128+16384
// matmul f32 batch 8 m 128 n 32 k 128 x t/128+65536 y 128+16384 z 128+16384
// matmul f32 m 1024 n 128 k 256 x 256 y 128 z 128
// matmul f32 m 1024 n 128 k 256 x 256 y t/256 z 128
// matmul f32 m 1024 n 256 k 128 x 128 y 256 z 256
// matmul f32 m 1024 n 256 k 128 x 128 y t/128 z 256
// matmul f32 m 1024 n 256 k 128 x 128 y t/128 z 256 beta 1
// matmul f32 m 1024 n 256 k 512 x 512 y 256 z 256
// matmul f32 m 1024 n 256 k 512 x 512 y t/512 z 256
// matmul f32 m 1024 n 512 k 256 x 256 y 512 z 512
// matmul f32 m 1024 n 512 k 256 x 256 y t/256 z 512
// matmul f32 m 128 n 256 k 1024 x t/128 y 256 z 256
// matmul f32 m 256 n 128 k 1024 x t/256 y 128 z 128
// matmul f32 m 256 n 512 k 1024 x t/256 y 512 z 512
// matmul f32 m 512 n 256 k 1024 x t/512 y 256 z 256

// after basic

constexpr int kRanks = 2;
typedef float Element;
struct Pointers {
  const Element* in[kRanks];
  Element* out[kRanks];
};

template <int n>
__device__ inline Pack<Element, n>& At(Element* p, i64 i) {
  return ((Pack<Element, n>*)p)[i];
}
template <int n>
__device__ inline const Pack<Element, n>& At(const Element* p, i64 i) {
  return ((const Pack<Element, n>*)p)[i];
}
// In rank order, rounded once.
template <int n>
__device__ inline Pack<Element, n> Combined(const Pointers& p, i64 i) {
  F total[n];
  const Pack<Element, n> first = At<n>(p.in[0], i);
  for (int j = 0; j < n; ++j) total[j] = Value(first.at[j]);
#pragma unroll
  for (int q = 1; q < kRanks; ++q) {
    const Pack<Element, n> next = At<n>(p.in[q], i);
    for (int j = 0; j < n; ++j) {
      const auto x = total[j], y = F(Value(next.at[j]));
      total[j] = Maximum(x, y);
    }
  }
  Pack<Element, n> result;
  for (int j = 0; j < n; ++j) Put(result.at[j], total[j]);
  return result;
}

template <int n>
__device__ inline void Move(const Pointers& p, i64 packs, i64 i) {
  const Pack<Element, n> result = Combined<n>(p, i);
#pragma unroll
  for (int q = 0; q < kRanks; ++q) At<n>(p.out[q], i) = result;
}
extern "C" __global__ void all_reduce(const Element* in0, Element* out0, const Element* in1, Element* out1, i64 count) {
  const Pointers p = {{in0, in1}, {out0, out1}};
  const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  const i64 stride = (i64)gridDim.x * blockDim.x;
  for (i64 i = first; i < count / 4; i += stride) Move<4>(p, count / 4, i);
  for (i64 i = count / 4 * 4 + first; i < count; i += stride) Move<1>(p, count, i);
}


// after basic

constexpr int kRanks = 2;
typedef float Element;
struct Pointers {
  const Element* in[kRanks];
  Element* out[kRanks];
};

template <int n>
__device__ inline Pack<Element, n>& At(Element* p, i64 i) {
  return ((Pack<Element, n>*)p)[i];
}
template <int n>
__device__ inline const Pack<Element, n>& At(const Element* p, i64 i) {
  return ((const Pack<Element, n>*)p)[i];
}
// In rank order, rounded once.
template <int n>
__device__ inline Pack<Element, n> Combined(const Pointers& p, i64 i) {
  F total[n];
  const Pack<Element, n> first = At<n>(p.in[0], i);
  for (int j = 0; j < n; ++j) total[j] = Value(first.at[j]);
#pragma unroll
  for (int q = 1; q < kRanks; ++q) {
    const Pack<Element, n> next = At<n>(p.in[q], i);
    for (int j = 0; j < n; ++j) {
      const auto x = total[j], y = F(Value(next.at[j]));
      total[j] = x + y;
    }
  }
  Pack<Element, n> result;
  for (int j = 0; j < n; ++j) Put(result.at[j], total[j]);
  return result;
}

template <int n>
__device__ inline void Move(const Pointers& p, i64 packs, i64 i) {
  const Pack<Element, n> result = Combined<n>(p, i);
#pragma unroll
  for (int q = 0; q < kRanks; ++q) At<n>(p.out[q], i) = result;
}
extern "C" __global__ void all_reduce(const Element* in0, Element* out0, const Element* in1, Element* out1, i64 count) {
  const Pointers p = {{in0, in1}, {out0, out1}};
  const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  const i64 stride = (i64)gridDim.x * blockDim.x;
  for (i64 i = first; i < count / 4; i += stride) Move<4>(p, count / 4, i);
  for (i64 i = count / 4 * 4 + first; i < count; i += stride) Move<1>(p, count, i);
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
allocate_lists(const int* __restrict__ x0,
    int* __restrict__ y0,
    int* __restrict__ y1,
    int* __restrict__ y2,
    int* __restrict__ y3) {
  const int lane = threadIdx.x % 32;
  for (Index first = (Index)blockIdx.x * 256; first < 128; first += (Index)gridDim.x * 256) {
    const Index d = first + threadIdx.x;
    const int length = d < 128 ? x0[d] : 0;
    int end = length;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const int before = __shfl_up_sync(0xffffffffu, end, by);
      if (lane >= by) end += before;
    }
    int base = 0;
    if (lane == 31) base = atomicAdd(y0, end);
    base = __shfl_sync(0xffffffffu, base, 31);
    if (d < 128) {
      y1[d] = base + end - length;
      y2[d] = length;
      if (length > 64) y3[atomicAdd(y0 + 1, 1)] = d;
    }
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
count_rows(int* __restrict__ y0,
    const int* __restrict__ x0,
    i64 n0,
    i64 n1,
    u64* __restrict__ y1) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 1024; i += (Index)gridDim.x * 256) {
    i64 row = -1;
    if (true) {
      const i64 index = Rounded<i64>(Value(x0[i])).v;
      row = index - n0;
      if (index < 0 || index >= 256) {
        if (true) {
          atomicMin(y1, (u64)i << 32 | (u32)index);
          atomicMin(y1 + 1, (u64)i << 32 | (u32)((u64)index >> 32));
        }
        row = -1;
      } else if (row < 0 || row >= n1) {
        row = -1;
      }
    }
    if (row >= 0) atomicAdd(y0 + ((Index)(0) * 128 + (Index)row), 1);
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
count_rows(int* __restrict__ y0,
    const int* __restrict__ x0,
    i64 n0,
    u64* __restrict__ y1) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 1024; i += (Index)gridDim.x * 256) {
    i64 row = -1;
    if (true) {
      const i64 index = Rounded<i64>(Value(x0[i])).v;
      row = index;
      if (index < 0 || index >= 256) {
        if (true) {
          atomicMin(y1, (u64)i << 32 | (u32)index);
          atomicMin(y1 + 1, (u64)i << 32 | (u32)((u64)index >> 32));
        }
        row = -1;
      } else if (row < 0 || row >= n0) {
        row = -1;
      }
    }
    if (row >= 0) atomicAdd(y0 + ((Index)(0) * 128 + (Index)row), 1);
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
fill_lists(const int* __restrict__ x0,
    int* __restrict__ y0,
    int* __restrict__ y1,
    const int* __restrict__ x1,
    i64 n0) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 1024; i += (Index)gridDim.x * 256) {
    i64 row = -1;
    if (true) {
      const i64 index = Rounded<i64>(Value(x1[i])).v;
      row = index;
      if (index < 0 || index >= 256) {
        row = -1;
      } else if (row < 0 || row >= n0) {
        row = -1;
      }
    }
    if (row >= 0) {
      const Index d = ((Index)(0) * 128 + (Index)row);
      y1[x0[d] + atomicAdd(y0 + d, -1) - 1] = i;
    }
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
fill_lists(const int* __restrict__ x0,
    int* __restrict__ y0,
    int* __restrict__ y1,
    const int* __restrict__ x1,
    i64 n0,
    i64 n1) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 1024; i += (Index)gridDim.x * 256) {
    i64 row = -1;
    if (true) {
      const i64 index = Rounded<i64>(Value(x1[i])).v;
      row = index - n0;
      if (index < 0 || index >= 256) {
        row = -1;
      } else if (row < 0 || row >= n1) {
        row = -1;
      }
    }
    if (row >= 0) {
      const Index d = ((Index)(0) * 128 + (Index)row);
      y1[x0[d] + atomicAdd(y0 + d, -1) - 1] = i;
    }
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
gather(const int* __restrict__ x0,
    i64 n0,
    i64 n1,
    u64* __restrict__ y0,
    const float* __restrict__ x1,
    float* __restrict__ y1) {
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 65536; n += (Index)gridDim.x * 256) {
    const Index i = n / 64, c = n % 64 * 4;
    i64 row = -1;
    if (true) {
      const i64 index = Rounded<i64>(Value(x0[i])).v;
      row = index - n0;
      if (index < 0 || index >= 256) {
        if (c == 0) {
          atomicMin(y0, (u64)i << 32 | (u32)index);
          atomicMin(y0 + 1, (u64)i << 32 | (u32)((u64)index >> 32));
        }
        row = -1;
      } else if (row < 0 || row >= n1) {
        row = -1;
      }
    }
    Pack<float, 4> element = {};
    if (row >= 0) {
      element = *(const Pack<float, 4>*)(x1 + c + (Index)row * 256);
    }
    *(Pack<float, 4>*)(y1 + i * 256 + c) = element;
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
gather(const int* __restrict__ x0,
    i64 n0,
    u64* __restrict__ y0,
    const float* __restrict__ x1,
    float* __restrict__ y1) {
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 65536; n += (Index)gridDim.x * 256) {
    const Index i = n / 64, c = n % 64 * 4;
    i64 row = -1;
    if (true) {
      const i64 index = Rounded<i64>(Value(x0[i])).v;
      row = index;
      if (index < 0 || index >= 256) {
        if (c == 0) {
          atomicMin(y0, (u64)i << 32 | (u32)index);
          atomicMin(y0 + 1, (u64)i << 32 | (u32)((u64)index >> 32));
        }
        row = -1;
      } else if (row < 0 || row >= n0) {
        row = -1;
      }
    }
    Pack<float, 4> element = {};
    if (row >= 0) {
      element = *(const Pack<float, 4>*)(x1 + c + (Index)row * 256);
    }
    *(Pack<float, 4>*)(y1 + i * 256 + c) = element;
  }
}


// after basic

template <class T>
__device__ inline auto RowAdd(T x, T y) {
  return x + y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* x0,
    const float* x1,
    float* y0) {
  for (Index first = (Index)blockIdx.x * 512 + threadIdx.x; first < 65536; first += (Index)gridDim.x * 512) {
    Pack<float, 4> p0[2];
    Pack<float, 4> p1[2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Index n = first + s * 256;
      if (n >= 65536) break;
      const Index i = n * 4;
      p0[s] = *(const Pack<float, 4>*)(x0 + i);
      p1[s] = *(const Pack<float, 4>*)(x1 + i);
    }
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Index n = first + s * 256;
      if (n >= 65536) break;
      const Index i = n * 4;
      Pack<float, 4> q;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const F a0 = Value(p0[s].at[j]);
        const F a1 = Value(p1[s].at[j]);
        const F t0 = RowAdd(a0, a1);
        Put(q.at[j], t0);
      }
      *(Pack<float, 4>*)(y0 + i) = q;
    }
  }
}


// after basic

template <class T>
__device__ inline auto RowDivide(T x, T y) {
  return x / y;
}
template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
template <class T>
__device__ inline auto RowLess(T x, T y) {
  return Less(x, y);
}
template <class T>
__device__ inline auto RowGreater(T x, T y) {
  return Greater(x, y);
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* x0,
    const float* x1,
    float* y0) {
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 256; n += (Index)gridDim.x * 256) {
    const Index i = n * 4;
    const Pack<float, 4> p0 = *(const Pack<float, 4>*)(x0 + i);
    const Pack<float, 4> p1 = *(const Pack<float, 4>*)(x1 + i);
    Pack<float, 4> q;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const F a0 = Value(p0.at[j]);
      const F a1 = Value(p1.at[j]);
      const F t0 = F(1.0f);
      const F t1 = F(2048.0f);
      const F t2 = RowDivide(t0, t1);
      const F t3 = RowDivide(t2, a1);
      const F t4 = F(0.5f);
      const F t5 = RowMultiply(t4, t3);
      const F t6 = F(0.5f);
      const bool t7 = RowLess(a0, t6);
      const F t8 = F(0.0f);
      const F t9 = Select(t7, t8, t5);
      const F t10 = F(0.5f);
      const bool t11 = RowGreater(a0, t10);
      const F t12 = Select(t11, t3, t9);
      Put(q.at[j], t12);
    }
    *(Pack<float, 4>*)(y0 + i) = q;
  }
}


// after basic

template <class T>
__device__ inline auto RowDivide(T x, T y) {
  return x / y;
}
template <class T>
__device__ inline auto RowNegate(T x) {
  return -x;
}
template <class T>
__device__ inline auto RowIdentity(T x) {
  return x;
}
template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
template <class T>
__device__ inline auto RowAdd(T x, T y) {
  return x + y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* x0,
    const float* x1,
    const Bool* x2,
    float* y0) {
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 16384; n += (Index)gridDim.x * 256) {
    const Index i = n * 8;
    const Index i_0 = i / 128;
    const Pack<float, 8> p0 = *(const Pack<float, 8>*)(x0 + i);
    const float p1 = x1[i_0];
    const Pack<Bool, 8> p2 = *(const Pack<Bool, 8>*)(x2 + i);
    Pack<float, 8> q;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const F a0 = Value(p0.at[j]);
      const F a1 = Value(p1);
      const bool a2 = Value(p2.at[j]);
      const F t0 = F(1.0f);
      const F t1 = F(2048.0f);
      const F t2 = RowDivide(t0, t1);
      const F t3 = RowNegate(t2);
      const F t4 = F(0.0f);
      const F t5 = Select(a2, t3, t4);
      const F t6 = RowIdentity(a1);
      const F t7 = RowMultiply(t6, a0);
      const F t8 = RowAdd(t7, t5);
      Put(q.at[j], t8);
    }
    *(Pack<float, 8>*)(y0 + i) = q;
  }
}


// after basic

template <class T>
__device__ inline auto RowGelu(T x) {
  return 0.5 * x * (1.0 + Tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* __restrict__ x0,
    float* __restrict__ y0) {
  for (Index first = (Index)blockIdx.x * 1024 + threadIdx.x; first < 131072; first += (Index)gridDim.x * 1024) {
    Pack<float, 4> p0[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 131072) break;
      const Index i = n * 4;
      p0[s] = *(const Pack<float, 4>*)(x0 + i);
    }
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 131072) break;
      const Index i = n * 4;
      Pack<float, 4> q;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const F a0 = Value(p0[s].at[j]);
        const F t0 = RowGelu(a0);
        Put(q.at[j], t0);
      }
      *(Pack<float, 4>*)(y0 + i) = q;
    }
  }
}


// after basic

template <class T>
__device__ inline auto RowGeluDerivative(T x) {
  return GeluDerivative(x);
}
template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* x0,
    const float* x1,
    float* y0) {
  for (Index first = (Index)blockIdx.x * 512 + threadIdx.x; first < 131072; first += (Index)gridDim.x * 512) {
    Pack<float, 4> p0[2];
    Pack<float, 4> p1[2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Index n = first + s * 256;
      if (n >= 131072) break;
      const Index i = n * 4;
      p0[s] = *(const Pack<float, 4>*)(x0 + i);
      p1[s] = *(const Pack<float, 4>*)(x1 + i);
    }
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Index n = first + s * 256;
      if (n >= 131072) break;
      const Index i = n * 4;
      Pack<float, 4> q;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const F a0 = Value(p0[s].at[j]);
        const F a1 = Value(p1[s].at[j]);
        const F t0 = RowGeluDerivative(a1);
        const F t1 = RowMultiply(a0, t0);
        Put(q.at[j], t1);
      }
      *(Pack<float, 4>*)(y0 + i) = q;
    }
  }
}


// after basic

template <class T>
__device__ inline auto RowMaximum(T x, T y) {
  return Maximum(x, y);
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* __restrict__ x0,
    float* __restrict__ y0) {
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 256; n += (Index)gridDim.x * 256) {
    const Index i = n * 4;
    const Pack<float, 4> p0 = *(const Pack<float, 4>*)(x0 + i);
    Pack<float, 4> q;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const F a0 = Value(p0.at[j]);
      const F t0 = F(0.5f);
      const F t1 = RowMaximum(a0, t0);
      Put(q.at[j], t1);
    }
    *(Pack<float, 4>*)(y0 + i) = q;
  }
}


// after basic

template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* __restrict__ x0,
    float* __restrict__ y0) {
  for (Index first = (Index)blockIdx.x * 1024 + threadIdx.x; first < 32768; first += (Index)gridDim.x * 1024) {
    Pack<float, 4> p0[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 32768) break;
      const Index i = n * 4;
      p0[s] = *(const Pack<float, 4>*)(x0 + i);
    }
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 32768) break;
      const Index i = n * 4;
      Pack<float, 4> q;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const F a0 = Value(p0[s].at[j]);
        const F t0 = F(0.03125f);
        const F t1 = RowMultiply(a0, t0);
        Put(q.at[j], t1);
      }
      *(Pack<float, 4>*)(y0 + i) = q;
    }
  }
}


// after basic

template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* __restrict__ x0,
    float* __restrict__ y0) {
  for (Index first = (Index)blockIdx.x * 1024 + threadIdx.x; first < 32768; first += (Index)gridDim.x * 1024) {
    Pack<float, 4> p0[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 32768) break;
      const Index i = n * 4;
      p0[s] = *(const Pack<float, 4>*)(x0 + i);
    }
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 32768) break;
      const Index i = n * 4;
      Pack<float, 4> q;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const F a0 = Value(p0[s].at[j]);
        const F t0 = F(0.0625f);
        const F t1 = RowMultiply(a0, t0);
        Put(q.at[j], t1);
      }
      *(Pack<float, 4>*)(y0 + i) = q;
    }
  }
}


// after basic

template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* __restrict__ x0,
    float* __restrict__ y0) {
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 8192; n += (Index)gridDim.x * 256) {
    const Index i = n * 4;
    const Pack<float, 4> p0 = *(const Pack<float, 4>*)(x0 + i);
    Pack<float, 4> q;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const F a0 = Value(p0.at[j]);
      const F t0 = F(0.0625f);
      const F t1 = RowMultiply(a0, t0);
      Put(q.at[j], t1);
    }
    *(Pack<float, 4>*)(y0 + i) = q;
  }
}


// after basic

template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* x0,
    float* y0) {
  for (Index first = (Index)blockIdx.x * 1024 + threadIdx.x; first < 32768; first += (Index)gridDim.x * 1024) {
    Pack<float, 4> p0[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 32768) break;
      const Index i = n * 4;
      p0[s] = *(const Pack<float, 4>*)(x0 + i);
    }
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 32768) break;
      const Index i = n * 4;
      Pack<float, 4> q;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const F a0 = Value(p0[s].at[j]);
        const F t0 = F(0.176776692f);
        const F t1 = RowMultiply(a0, t0);
        Put(q.at[j], t1);
      }
      *(Pack<float, 4>*)(y0 + i) = q;
    }
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
order_lists(const int* __restrict__ x0,
    const int* __restrict__ x1,
    const int* __restrict__ x2,
    int* __restrict__ y0,
    const int* __restrict__ x3,
    i64 n0) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 1024; i += (Index)gridDim.x * 256) {
    i64 row = -1;
    if (true) {
      const i64 index = Rounded<i64>(Value(x3[i])).v;
      row = index;
      if (index < 0 || index >= 256) {
        row = -1;
      } else if (row < 0 || row >= n0) {
        row = -1;
      }
    }
    if (row >= 0) {
      const Index d = ((Index)(0) * 128 + (Index)row);
      const int start = x0[d], length = x1[d];
      int before = 0;
      for (int k = 0; k < length; ++k) before += x2[start + k] < i;
      y0[start + before] = i;
    }
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
order_lists(const int* __restrict__ x0,
    const int* __restrict__ x1,
    const int* __restrict__ x2,
    int* __restrict__ y0,
    const int* __restrict__ x3,
    i64 n0,
    i64 n1) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 1024; i += (Index)gridDim.x * 256) {
    i64 row = -1;
    if (true) {
      const i64 index = Rounded<i64>(Value(x3[i])).v;
      row = index - n0;
      if (index < 0 || index >= 256) {
        row = -1;
      } else if (row < 0 || row >= n1) {
        row = -1;
      }
    }
    if (row >= 0) {
      const Index d = ((Index)(0) * 128 + (Index)row);
      const int start = x0[d], length = x1[d];
      int before = 0;
      for (int k = 0; k < length; ++k) before += x2[start + k] < i;
      y0[start + before] = i;
    }
  }
}


// after basic, random

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
random(const u32* __restrict__ x0,
    float* __restrict__ y0,
    i64 n0,
    i64 n1) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 131072; i += (Index)gridDim.x * 256) {
    const Index i_1 = i % 512;
    const Index i_0 = i / 512;
    const u64 element = (u64)(n0 + i_0 * 1024 + i_1);
    const Words words = PhiloxAt(x0[0], (u32)n1, 0u, element);
    Put(y0[i], Normal(words));
  }
}


// after basic, random

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
random(const u32* __restrict__ x0,
    float* __restrict__ y0,
    i64 n0,
    i64 n1) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 131072; i += (Index)gridDim.x * 256) {
    const u64 element = (u64)(n0 + i);
    const Words words = PhiloxAt(x0[0], (u32)n1, 0u, element);
    Put(y0[i], Normal(words));
  }
}


// after basic, random

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
random(const u32* __restrict__ x0,
    float* __restrict__ y0,
    i64 n0,
    i64 n1) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 32768; i += (Index)gridDim.x * 256) {
    const Index i_1 = i % 128;
    const Index i_0 = i / 128;
    const u64 element = (u64)(n0 + i_0 * 256 + i_1);
    const Words words = PhiloxAt(x0[0], (u32)n1, 0u, element);
    Put(y0[i], Normal(words));
  }
}


// after basic, random

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
random(const u32* __restrict__ x0,
    float* __restrict__ y0,
    i64 n0,
    i64 n1) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 32768; i += (Index)gridDim.x * 256) {
    const u64 element = (u64)(n0 + i);
    const Words words = PhiloxAt(x0[0], (u32)n1, 0u, element);
    Put(y0[i], Normal(words));
  }
}


// after basic, reduce

template <class T>
__device__ inline auto RowIdentity(T x) {
  return x;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
reduce(const float* __restrict__ x0,
    float* __restrict__ y0) {
  const int lane = threadIdx.x % 32;
  for (Index first = (Index)blockIdx.x * 8; first < 1024; first += (Index)gridDim.x * 8) {
    const Index o = first + threadIdx.x / 32;
    float total = -kInfinity;
    if (o < 1024) {
      const auto add = [&](Index n, float& run) {
        const Index r = n * 4;
        const Pack<float, 4> p0 = *(const Pack<float, 4>*)(x0 + o * 128 + r);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const F a0 = Value(p0.at[j]);
          const F t0 = RowIdentity(a0);
          run = Max::Of(run, Plain(t0));
        }
      };
      for (Index n = lane; n < 32;) {
        float run = -kInfinity;
        if (n + 0 < 32) {
#pragma unroll 4
          for (int k = 0; k < 1; ++k, n += 32) add(n, run);
        } else {
          for (; n < 32; n += 32) add(n, run);
        }
        total = Max::Of(total, (float)run);
      }
    }
    total = AcrossLanes<Max, 32>(total);
    if (lane == 0 && o < 1024) Put(y0[o], Register(total));
  }
}


// after basic, reduce

template <class T>
__device__ inline auto RowLog(T x) {
  return Log(x);
}
template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
reduce(const float* __restrict__ x0,
    const float* __restrict__ x1,
    float* __restrict__ y0) {
  const int lane = threadIdx.x % 32;
  for (Index first = (Index)blockIdx.x * 8; first < 1; first += (Index)gridDim.x * 8) {
    const Index o = first + threadIdx.x / 32;
    double total = 0.0;
    if (o < 1) {
      const auto add = [&](Index n, float& run) {
        const Index r = n * 4;
        const Pack<float, 4> p0 = *(const Pack<float, 4>*)(x0 + r);
        const Pack<float, 4> p1 = *(const Pack<float, 4>*)(x1 + r);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const F a0 = Value(p0.at[j]);
          const F a1 = Value(p1.at[j]);
          const F t0 = RowLog(a1);
          const F t1 = RowSubtract(t0, a0);
          run = Sum::Of(run, Plain(t1));
        }
      };
      for (Index n = lane; n < 256;) {
        float run = 0.0;
        if (n + 224 < 256) {
#pragma unroll 4
          for (int k = 0; k < 8; ++k, n += 32) add(n, run);
        } else {
          for (; n < 256; n += 32) add(n, run);
        }
        total = Sum::Of(total, (double)run);
      }
    }
    total = AcrossLanes<Sum, 32>(total);
    if (lane == 0 && o < 1) Put(y0[0], Register(total));
  }
}


// after basic, reduce
template <class T>
__device__ inline auto RowAdd(T x, T y) {
  return x + y;
}
template <class T>
__device__ inline auto RowIdentity(T x) {
  return x;
}
template <class T>
__device__ inline auto RowDivide(T x, T y) {
  return x / y;
}
template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
}
template <class T>
__device__ inline auto RowSquare(T x) {
  return x * x;
}
template <class T>
__device__ inline auto RowRsqrt(T x) {
  return 1.0 / Sqrt(x);
}
template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
extern "C" __global__ void __launch_bounds__(128)
row_group(const float* in0,
          const float* in1,
          const float* in2,
          const float* in3,
          float* out0,
          float* out2,
          float* out5,
          float* out6,
          float* out7) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  const int lane = threadIdx.x % 32;
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 1024; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 128 % 8;
    (void)row0;
    const i64 row1 = row / 1 % 128;
    (void)row1;
    F kx0[2][4];
    F kx1[2][4];
    F km0[2][4];
    double total1 = 0.0;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
      float run1 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        kx0[share][j] = x0;
        const F x1 = Value(pack1.at[j]);
        kx1[share][j] = x1;
        const F s0_0 = RowAdd(x0, x1);
        const F m0 = s0_0;
        km0[share][j] = m0;
        const F s1_0 = RowIdentity(m0);
        run1 = Sum::Of(run1, Plain(s1_0));
      }
      total1 = Sum::Of(total1, (double)run1);
    }
    total1 = AcrossBlock<Sum, 32>(total1, shared_double);
    const F m1 = Rounded<float>(Register(total1));
    const F s2_0 = F(256.0f);
    const F s2_1 = RowDivide(m1, s2_0);
    const F m2 = s2_1;
    F km3[2][4];
    double total4 = 0.0;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      float run4 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F m0 = km0[share][j];
        const F s3_0 = RowSubtract(m0, m2);
        const F m3 = s3_0;
        km3[share][j] = m3;
        const F s4_0 = RowSquare(m3);
        run4 = Sum::Of(run4, Plain(s4_0));
      }
      total4 = Sum::Of(total4, (double)run4);
    }
    total4 = AcrossBlock<Sum, 32>(total4, shared_double);
    const F m4 = Rounded<float>(Register(total4));
    const F s5_0 = F(256.0f);
    const F s5_1 = RowDivide(m4, s5_0);
    const F s5_2 = F(9.99999975e-06f);
    const F s5_3 = RowAdd(s5_1, s5_2);
    const F m5 = s5_3;
    const F s6_0 = RowRsqrt(m5);
    const F m6 = s6_0;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      const Pack<float, 4> pack2 = *(const Pack<float, 4>*)(in2 + (0) + (i64)pack * 4);
      const Pack<float, 4> pack3 = *(const Pack<float, 4>*)(in3 + (0) + (i64)pack * 4);
      Pack<float, 4> to0;
      Pack<float, 4> to7;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x2 = Value(pack2.at[j]);
        const F x3 = Value(pack3.at[j]);
        const F m0 = km0[share][j];
        const F m3 = km3[share][j];
        const F s7_0 = RowMultiply(m3, m6);
        const F s7_1 = RowMultiply(s7_0, x3);
        const F s7_2 = RowAdd(s7_1, x2);
        const F m7 = s7_2;
        Put(to0.at[j], m0);
        Put(to7.at[j], m7);
      }
      Store((Pack<float, 4>*)(out0 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4), to0);
      Store((Pack<float, 4>*)(out7 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4), to7);
    }
    if (lane == 0) Put(out2[row0 * 128LL + row1 * 1LL], m2);
    if (lane == 0) Put(out5[row0 * 128LL + row1 * 1LL], m5);
    if (lane == 0) Put(out6[row0 * 128LL + row1 * 1LL], m6);
  }
}


// after basic, reduce
template <class T>
__device__ inline auto RowGreaterEqual(T x, T y) {
  return GreaterEqual(x, y);
}
template <class T>
__device__ inline auto RowIdentity(T x) {
  return x;
}
template <class T>
__device__ inline auto RowMaximum(T x, T y) {
  return Maximum(x, y);
}
template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
}
template <class T>
__device__ inline auto RowExp(T x) {
  return Exp(x);
}
template <class T>
__device__ inline auto RowReciprocal(T x) {
  return 1.0 / x;
}
template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
extern "C" __global__ void __launch_bounds__(128)
row_group(const float* in0,
          float* out3,
          float* out4,
          float* out5,
          float* out6) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  const int lane = threadIdx.x % 32;
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 4096; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 512 % 8;
    (void)row0;
    const i64 row1 = row / 128 % 4;
    (void)row1;
    const i64 row2 = row / 1 % 128;
    (void)row2;
    F kx0[1][4];
    F km0[1][4];
    float total1 = -kInfinity;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 65536LL + row1 * 16384LL + row2 * 128LL) + (i64)pack * 4);
      float run1 = -kInfinity;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        kx0[share][j] = x0;
        const I s0_0 = Rounded<int>(I(0LL + column));
        const I s0_1 = Rounded<int>(I(0LL + row2));
        const bool s0_2 = RowGreaterEqual(s0_1, s0_0);
        const F s0_3 = F(-kInfinity);
        const F s0_4 = Select(s0_2, x0, s0_3);
        const F m0 = s0_4;
        km0[share][j] = m0;
        const F s1_0 = RowIdentity(m0);
        run1 = Max::Of(run1, Plain(s1_0));
      }
      total1 = Max::Of(total1, (float)run1);
    }
    total1 = AcrossBlock<Max, 32>(total1, shared_float);
    const F m1 = Rounded<float>(Register(total1));
    const F s2_0 = F(-3.40282347e+38f);
    const F s2_1 = RowMaximum(m1, s2_0);
    const F m2 = s2_1;
    F km3[1][4];
    double total4 = 0.0;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      float run4 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F m0 = km0[share][j];
        const F s3_0 = RowSubtract(m0, m2);
        const F s3_1 = RowExp(s3_0);
        const F m3 = s3_1;
        km3[share][j] = m3;
        const F s4_0 = RowIdentity(m3);
        run4 = Sum::Of(run4, Plain(s4_0));
      }
      total4 = Sum::Of(total4, (double)run4);
    }
    total4 = AcrossBlock<Sum, 32>(total4, shared_double);
    const F m4 = Rounded<float>(Register(total4));
    const F s5_0 = F(0.5f);
    const F s5_1 = RowMaximum(m4, s5_0);
    const F s5_2 = RowReciprocal(s5_1);
    const F m5 = s5_2;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      Pack<float, 4> to3;
      Pack<float, 4> to6;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F m3 = km3[share][j];
        const F s6_0 = RowMultiply(m3, m5);
        const F m6 = s6_0;
        Put(to3.at[j], m3);
        Put(to6.at[j], m6);
      }
      Store((Pack<float, 4>*)(out3 + (row0 * 65536LL + row1 * 16384LL + row2 * 128LL) + (i64)pack * 4), to3);
      Store((Pack<float, 4>*)(out6 + (row0 * 65536LL + row1 * 16384LL + row2 * 128LL) + (i64)pack * 4), to6);
    }
    if (lane == 0) Put(out4[row0 * 512LL + row1 * 128LL + row2 * 1LL], m4);
    if (lane == 0) Put(out5[row0 * 512LL + row1 * 128LL + row2 * 1LL], m5);
  }
}


// after basic, reduce
template <class T>
__device__ inline auto RowIdentity(T x) {
  return x;
}
template <class T>
__device__ inline auto RowDivide(T x, T y) {
  return x / y;
}
template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
}
template <class T>
__device__ inline auto RowSquare(T x) {
  return x * x;
}
template <class T>
__device__ inline auto RowAdd(T x, T y) {
  return x + y;
}
template <class T>
__device__ inline auto RowRsqrt(T x) {
  return 1.0 / Sqrt(x);
}
template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
extern "C" __global__ void __launch_bounds__(128)
row_group(const float* in0,
          const float* in1,
          const float* in2,
          float* out1,
          float* out4,
          float* out5,
          float* out6) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  const int lane = threadIdx.x % 32;
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 1024; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 128 % 8;
    (void)row0;
    const i64 row1 = row / 1 % 128;
    (void)row1;
    F kx0[2][4];
    double total0 = 0.0;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
      float run0 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        kx0[share][j] = x0;
        const F s0_0 = RowIdentity(x0);
        run0 = Sum::Of(run0, Plain(s0_0));
      }
      total0 = Sum::Of(total0, (double)run0);
    }
    total0 = AcrossBlock<Sum, 32>(total0, shared_double);
    const F m0 = Rounded<float>(Register(total0));
    const F s1_0 = F(256.0f);
    const F s1_1 = RowDivide(m0, s1_0);
    const F m1 = s1_1;
    F km2[2][4];
    double total3 = 0.0;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      float run3 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x0 = kx0[share][j];
        const F s2_0 = RowSubtract(x0, m1);
        const F m2 = s2_0;
        km2[share][j] = m2;
        const F s3_0 = RowSquare(m2);
        run3 = Sum::Of(run3, Plain(s3_0));
      }
      total3 = Sum::Of(total3, (double)run3);
    }
    total3 = AcrossBlock<Sum, 32>(total3, shared_double);
    const F m3 = Rounded<float>(Register(total3));
    const F s4_0 = F(256.0f);
    const F s4_1 = RowDivide(m3, s4_0);
    const F s4_2 = F(9.99999975e-06f);
    const F s4_3 = RowAdd(s4_1, s4_2);
    const F m4 = s4_3;
    const F s5_0 = RowRsqrt(m4);
    const F m5 = s5_0;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (0) + (i64)pack * 4);
      const Pack<float, 4> pack2 = *(const Pack<float, 4>*)(in2 + (0) + (i64)pack * 4);
      Pack<float, 4> to6;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x1 = Value(pack1.at[j]);
        const F x2 = Value(pack2.at[j]);
        const F m2 = km2[share][j];
        const F s6_0 = RowMultiply(m2, m5);
        const F s6_1 = RowMultiply(s6_0, x2);
        const F s6_2 = RowAdd(s6_1, x1);
        const F m6 = s6_2;
        Put(to6.at[j], m6);
      }
      Store((Pack<float, 4>*)(out6 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4), to6);
    }
    if (lane == 0) Put(out1[row0 * 128LL + row1 * 1LL], m1);
    if (lane == 0) Put(out4[row0 * 128LL + row1 * 1LL], m4);
    if (lane == 0) Put(out5[row0 * 128LL + row1 * 1LL], m5);
  }
}


// after basic, reduce
template <class T>
__device__ inline auto RowMaximum(T x, T y) {
  return Maximum(x, y);
}
template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
}
template <class T>
__device__ inline auto RowEqual(T x, T y) {
  return Equal(x, y);
}
template <class T>
__device__ inline auto RowExp(T x) {
  return Exp(x);
}
template <class T>
__device__ inline auto RowIdentity(T x) {
  return x;
}
extern "C" __global__ void __launch_bounds__(128)
row_group(const float* in0,
          const float* in1,
          const int* in2,
          Bool* out2,
          float* out3,
          float* out4,
          float* out5) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  const int lane = threadIdx.x % 32;
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 1024; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 128 % 8;
    (void)row0;
    const i64 row1 = row / 1 % 128;
    (void)row1;
    const F x0 = Value(in0[row0 * 128LL + row1 * 1LL]);
    const I x2 = Value(in2[row0 * 128LL + row1 * 1LL]);
    const F s0_0 = F(-3.40282347e+38f);
    const F s0_1 = RowMaximum(x0, s0_0);
    const F m0 = s0_1;
    F kx1[1][4];
    F km1[1][4];
    bool km2[1][4];
    F km3[1][4];
    double total4 = 0.0;
    double total5 = 0.0;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 16384LL + row1 * 128LL) + (i64)pack * 4);
      float run4 = 0.0;
      float run5 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x1 = Value(pack1.at[j]);
        kx1[share][j] = x1;
        const F s1_0 = RowSubtract(x1, m0);
        const F m1 = s1_0;
        km1[share][j] = m1;
        const I s2_0 = Rounded<int>(I(0LL + column));
        const bool s2_1 = RowEqual(x2, s2_0);
        const bool m2 = s2_1;
        km2[share][j] = m2;
        const F s3_0 = RowExp(m1);
        const F m3 = s3_0;
        km3[share][j] = m3;
        const F s4_0 = RowIdentity(m3);
        run4 = Sum::Of(run4, Plain(s4_0));
        const F s5_0 = F(0.0f);
        const F s5_1 = Select(m2, m1, s5_0);
        run5 = Sum::Of(run5, Plain(s5_1));
      }
      total4 = Sum::Of(total4, (double)run4);
      total5 = Sum::Of(total5, (double)run5);
    }
    total4 = AcrossBlock<Sum, 32>(total4, shared_double);
    const F m4 = Rounded<float>(Register(total4));
    total5 = AcrossBlock<Sum, 32>(total5, shared_double);
    const F m5 = Rounded<float>(Register(total5));
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      Pack<Bool, 4> to2;
      Pack<float, 4> to3;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const bool m2 = km2[share][j];
        const F m3 = km3[share][j];
        Put(to2.at[j], m2);
        Put(to3.at[j], m3);
      }
      Store((Pack<Bool, 4>*)(out2 + (row0 * 16384LL + row1 * 128LL) + (i64)pack * 4), to2);
      Store((Pack<float, 4>*)(out3 + (row0 * 16384LL + row1 * 128LL) + (i64)pack * 4), to3);
    }
    if (lane == 0) Put(out4[row0 * 128LL + row1 * 1LL], m4);
    if (lane == 0) Put(out5[row0 * 128LL + row1 * 1LL], m5);
  }
}


// after basic, reduce
template <class T>
__device__ inline auto RowMaximum(T x, T y) {
  return Maximum(x, y);
}
template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
}
template <class T>
__device__ inline auto RowEqual(T x, T y) {
  return Equal(x, y);
}
template <class T>
__device__ inline auto RowExp(T x) {
  return Exp(x);
}
template <class T>
__device__ inline auto RowIdentity(T x) {
  return x;
}
extern "C" __global__ void __launch_bounds__(128)
row_group(const float* in0,
          const float* in1,
          const int* in2,
          Bool* out2,
          float* out3,
          float* out4,
          float* out5) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  const int lane = threadIdx.x % 32;
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 1024; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 128 % 8;
    (void)row0;
    const i64 row1 = row / 1 % 128;
    (void)row1;
    const F x0 = Value(in0[row0 * 128LL + row1 * 1LL]);
    const I x2 = Value(in2[row0 * 128LL + row1 * 1LL]);
    const F s0_0 = F(-3.40282347e+38f);
    const F s0_1 = RowMaximum(x0, s0_0);
    const F m0 = s0_1;
    F kx1[1][4];
    F km1[1][4];
    bool km2[1][4];
    F km3[1][4];
    double total4 = 0.0;
    double total5 = 0.0;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 16384LL + row1 * 128LL) + (i64)pack * 4);
      float run4 = 0.0;
      float run5 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x1 = Value(pack1.at[j]);
        kx1[share][j] = x1;
        const F s1_0 = RowSubtract(x1, m0);
        const F m1 = s1_0;
        km1[share][j] = m1;
        const I s2_0 = Rounded<int>(I(128LL + column));
        const bool s2_1 = RowEqual(x2, s2_0);
        const bool m2 = s2_1;
        km2[share][j] = m2;
        const F s3_0 = RowExp(m1);
        const F m3 = s3_0;
        km3[share][j] = m3;
        const F s4_0 = RowIdentity(m3);
        run4 = Sum::Of(run4, Plain(s4_0));
        const F s5_0 = F(0.0f);
        const F s5_1 = Select(m2, m1, s5_0);
        run5 = Sum::Of(run5, Plain(s5_1));
      }
      total4 = Sum::Of(total4, (double)run4);
      total5 = Sum::Of(total5, (double)run5);
    }
    total4 = AcrossBlock<Sum, 32>(total4, shared_double);
    const F m4 = Rounded<float>(Register(total4));
    total5 = AcrossBlock<Sum, 32>(total5, shared_double);
    const F m5 = Rounded<float>(Register(total5));
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      Pack<Bool, 4> to2;
      Pack<float, 4> to3;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const bool m2 = km2[share][j];
        const F m3 = km3[share][j];
        Put(to2.at[j], m2);
        Put(to3.at[j], m3);
      }
      Store((Pack<Bool, 4>*)(out2 + (row0 * 16384LL + row1 * 128LL) + (i64)pack * 4), to2);
      Store((Pack<float, 4>*)(out3 + (row0 * 16384LL + row1 * 128LL) + (i64)pack * 4), to3);
    }
    if (lane == 0) Put(out4[row0 * 128LL + row1 * 1LL], m4);
    if (lane == 0) Put(out5[row0 * 128LL + row1 * 1LL], m5);
  }
}


// after basic, reduce
template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
template <class T>
__device__ inline auto RowNegate(T x) {
  return -x;
}
template <class T>
__device__ inline auto RowLess(T x, T y) {
  return Less(x, y);
}
template <class T>
__device__ inline auto RowGreater(T x, T y) {
  return Greater(x, y);
}
template <class T>
__device__ inline auto RowIdentity(T x) {
  return x;
}
template <class T>
__device__ inline auto RowAdd(T x, T y) {
  return x + y;
}
template <class T>
__device__ inline auto RowGreaterEqual(T x, T y) {
  return GreaterEqual(x, y);
}
extern "C" __global__ void __launch_bounds__(128)
row_group(const float* in0,
          const float* in1,
          const float* in2,
          const float* in3,
          float* out2) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  const int lane = threadIdx.x % 32;
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 4096; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 512 % 8;
    (void)row0;
    const i64 row1 = row / 128 % 4;
    (void)row1;
    const i64 row2 = row / 1 % 128;
    (void)row2;
    const F x2 = Value(in2[row0 * 512LL + row1 * 128LL + row2 * 1LL]);
    const F x3 = Value(in3[row0 * 512LL + row1 * 128LL + row2 * 1LL]);
    F kx0[1][4];
    F kx1[1][4];
    double total0 = 0.0;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 65536LL + row1 * 16384LL + row2 * 128LL) + (i64)pack * 4);
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 65536LL + row1 * 16384LL + row2 * 128LL) + (i64)pack * 4);
      float run0 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        kx0[share][j] = x0;
        const F x1 = Value(pack1.at[j]);
        kx1[share][j] = x1;
        const F s0_0 = RowMultiply(x0, x1);
        run0 = Sum::Of(run0, Plain(s0_0));
      }
      total0 = Sum::Of(total0, (double)run0);
    }
    total0 = AcrossBlock<Sum, 32>(total0, shared_double);
    const F m0 = Rounded<float>(Register(total0));
    const F s1_0 = RowMultiply(m0, x3);
    const F s1_1 = RowMultiply(s1_0, x3);
    const F s1_2 = RowNegate(s1_1);
    const F s1_3 = F(0.5f);
    const F s1_4 = RowMultiply(s1_3, s1_2);
    const F s1_5 = F(0.5f);
    const bool s1_6 = RowLess(x2, s1_5);
    const F s1_7 = F(0.0f);
    const F s1_8 = Select(s1_6, s1_7, s1_4);
    const F s1_9 = F(0.5f);
    const bool s1_10 = RowGreater(x2, s1_9);
    const F s1_11 = Select(s1_10, s1_2, s1_8);
    const F m1 = s1_11;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      Pack<float, 4> to2;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x0 = kx0[share][j];
        const F x1 = kx1[share][j];
        const F s2_0 = RowIdentity(m1);
        const F s2_1 = RowMultiply(x0, x3);
        const F s2_2 = RowAdd(s2_1, s2_0);
        const F s2_3 = RowMultiply(s2_2, x1);
        const I s2_4 = Rounded<int>(I(0LL + column));
        const I s2_5 = Rounded<int>(I(0LL + row2));
        const bool s2_6 = RowGreaterEqual(s2_5, s2_4);
        const F s2_7 = F(0.0f);
        const F s2_8 = Select(s2_6, s2_3, s2_7);
        const F m2 = s2_8;
        Put(to2.at[j], m2);
      }
      Store((Pack<float, 4>*)(out2 + (row0 * 65536LL + row1 * 16384LL + row2 * 128LL) + (i64)pack * 4), to2);
    }
  }
}


// after basic, reduce
template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
}
template <class T>
__device__ inline auto RowIdentity(T x) {
  return x;
}
template <class T>
__device__ inline auto RowDivide(T x, T y) {
  return x / y;
}
template <class T>
__device__ inline auto RowAdd(T x, T y) {
  return x + y;
}
template <class T>
__device__ inline auto RowNegate(T x) {
  return -x;
}
extern "C" __global__ void __launch_bounds__(128)
row_group(const float* in0,
          const float* in1,
          const float* in2,
          const float* in3,
          const float* in4,
          const float* in5,
          const float* in6,
          float* out8,
          float* partial) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  const int lane = threadIdx.x % 32;
  for (i64 stripe = (i64)blockIdx.x * 4 + threadIdx.x / 32; stripe < 128; stripe += (i64)gridDim.x * 4) {
    float sum0[2][4] = {};
    float sum2[2][4] = {};
    const i64 end = stripe == 127 ? 1024 : (stripe + 1) * 8;
    for (i64 row = stripe * 8; row < end; ++row) {
      const i64 row0 = row / 128 % 8;
      (void)row0;
      const i64 row1 = row / 1 % 128;
      (void)row1;
      const F x2 = Value(in2[row0 * 128LL + row1 * 1LL]);
      const F x4 = Value(in4[row0 * 128LL + row1 * 1LL]);
      const F x5 = Value(in5[row0 * 128LL + row1 * 1LL]);
      F kx0[2][4];
      F kx1[2][4];
      F kx3[2][4];
      F km1[2][4];
      double total3 = 0.0;
      #pragma unroll
      for (int share = 0; share < 2; ++share) {
        const int pack = lane + share * 32;
        if (pack >= 64) continue;
        const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
        const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (0) + (i64)pack * 4);
        const Pack<float, 4> pack3 = *(const Pack<float, 4>*)(in3 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
        float run3 = 0.0;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int column = pack * 4 + j;
          (void)column;
          const F x0 = Value(pack0.at[j]);
          kx0[share][j] = x0;
          const F x1 = Value(pack1.at[j]);
          kx1[share][j] = x1;
          const F x3 = Value(pack3.at[j]);
          kx3[share][j] = x3;
          const F s1_0 = RowMultiply(x0, x1);
          const F m1 = s1_0;
          km1[share][j] = m1;
          const F s3_0 = RowSubtract(x3, x4);
          const F s3_1 = RowMultiply(m1, s3_0);
          run3 = Sum::Of(run3, Plain(s3_1));
          const F s0_0 = RowIdentity(x0);
          sum0[share][j] = Sum::Of(sum0[share][j], Plain(s0_0));
          const F s2_0 = RowSubtract(x3, x4);
          const F s2_1 = RowMultiply(s2_0, x2);
          const F s2_2 = RowMultiply(x0, s2_1);
          sum2[share][j] = Sum::Of(sum2[share][j], Plain(s2_2));
        }
        total3 = Sum::Of(total3, (double)run3);
      }
      total3 = AcrossBlock<Sum, 32>(total3, shared_double);
      const F m3 = Rounded<float>(Register(total3));
      const F s4_0 = F(-0.5f);
      const F s4_1 = RowMultiply(s4_0, m3);
      const F s4_2 = RowMultiply(s4_1, x2);
      const F s4_3 = RowDivide(s4_2, x5);
      const F s4_4 = F(256.0f);
      const F s4_5 = RowDivide(s4_3, s4_4);
      const F m4 = s4_5;
      F km5[2][4];
      double total6 = 0.0;
      #pragma unroll
      for (int share = 0; share < 2; ++share) {
        const int pack = lane + share * 32;
        if (pack >= 64) continue;
        float run6 = 0.0;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int column = pack * 4 + j;
          (void)column;
          const F x3 = kx3[share][j];
          const F m1 = km1[share][j];
          const F s5_0 = RowSubtract(x3, x4);
          const F s5_1 = RowIdentity(m4);
          const F s5_2 = F(2.0f);
          const F s5_3 = RowMultiply(s5_2, s5_1);
          const F s5_4 = RowMultiply(s5_3, s5_0);
          const F s5_5 = RowMultiply(m1, x2);
          const F s5_6 = RowAdd(s5_5, s5_4);
          const F m5 = s5_6;
          km5[share][j] = m5;
          const F s6_0 = RowNegate(m5);
          run6 = Sum::Of(run6, Plain(s6_0));
        }
        total6 = Sum::Of(total6, (double)run6);
      }
      total6 = AcrossBlock<Sum, 32>(total6, shared_double);
      const F m6 = Rounded<float>(Register(total6));
      const F s7_0 = F(256.0f);
      const F s7_1 = RowDivide(m6, s7_0);
      const F m7 = s7_1;
      #pragma unroll
      for (int share = 0; share < 2; ++share) {
        const int pack = lane + share * 32;
        if (pack >= 64) continue;
        const Pack<float, 4> pack6 = *(const Pack<float, 4>*)(in6 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
        Pack<float, 4> to8;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int column = pack * 4 + j;
          (void)column;
          const F x6 = Value(pack6.at[j]);
          const F m5 = km5[share][j];
          const F s8_0 = RowIdentity(m7);
          const F s8_1 = RowAdd(x6, m5);
          const F s8_2 = RowAdd(s8_1, s8_0);
          const F m8 = s8_2;
          Put(to8.at[j], m8);
        }
        Store((Pack<float, 4>*)(out8 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4), to8);
      }
    }
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      Pack<float, 4> to0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) to0.at[j] = sum0[share][j];
      Store((Pack<float, 4>*)(partial + (0 + stripe) * 256 + (i64)pack * 4), to0);
      Pack<float, 4> to2;
      #pragma unroll
      for (int j = 0; j < 4; ++j) to2.at[j] = sum2[share][j];
      Store((Pack<float, 4>*)(partial + (128 + stripe) * 256 + (i64)pack * 4), to2);
    }
  }
}


// after basic, combine

typedef int Index;
extern "C" __global__ void __launch_bounds__(512)
row_sums(const float* __restrict__ x0,
    float* __restrict__ y0,
    float* __restrict__ y1) {
  __shared__ double shared[16][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (Index unit = blockIdx.x; unit < 16; unit += gridDim.x) {
    const Index sum = unit / 8, c = unit % 8 * 32 + lane;
    double total = 0.0;
    if (c < 256) {
#pragma unroll 8
      for (Index stripe = warp; stripe < 128; stripe += 16) {
        total = Sum::Of(total, (double)x0[(sum * 128 + stripe) * 256 + c]);
      }
    }
    shared[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && c < 256) {
      for (int w = 1; w < 16; ++w) total = Sum::Of(total, shared[w][lane]);
      if (sum == 0) Put(y0[c], Register(total));
      if (sum == 1) Put(y1[c], Register(total));
    }
    __syncthreads();
  }
}


// after basic, combine

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
sum_lists(const int* __restrict__ x0,
    const int* __restrict__ x1,
    float* __restrict__ y0,
    const int* __restrict__ x2,
    const float* __restrict__ x3) {
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 8192; n += (Index)gridDim.x * 256) {
    const Index d = n / 64, c = n % 64 * 4;
    const int start = x0[d], length = x1[d];
    if (length > 64) continue;
    const Index m = d / 128, row = d % 128;
    float sum[4] = {};
#pragma unroll 4
    for (int k = 0; k < length; ++k) {
      const Index i = x2[start + k];
      const Pack<float, 4> p = *(const Pack<float, 4>*)(x3 + i * 256 + c);
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[j] = Sum::Of(sum[j], Plain(Value(p.at[j])));
    }
    Pack<float, 4> q;
#pragma unroll
    for (int j = 0; j < 4; ++j) Put(q.at[j], Register(sum[j]));
    *(Pack<float, 4>*)(y0 + (Index)row * 256 + c) = q;
  }
}


// after basic, combine

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
sum_long_lists(const int* __restrict__ x0,
    const int* __restrict__ x1,
    const int* __restrict__ x2,
    const int* __restrict__ x3,
    float* __restrict__ y0,
    const int* __restrict__ x4,
    const float* __restrict__ x5) {
  __shared__ float shared[8][32 * 4];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Index units = (Index)x2[1] * 2;
  for (Index unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const Index d = x3[unit / 2];
    const Index pack = unit % 2 * 32 + lane, c = pack * 4;
    const int start = x0[d], length = x1[d];
    const int part = (length + 7) / 8;
    const int end = part * (warp + 1) < length ? part * (warp + 1) : length;
    const Index m = d / 128, row = d % 128;
    float sum[4] = {};
    if (pack < 64) {
#pragma unroll 4
      for (int k = part * warp; k < end; ++k) {
        const Index i = x4[start + k];
        const Pack<float, 4> p = *(const Pack<float, 4>*)(x5 + i * 256 + c);
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[j] = Sum::Of(sum[j], Plain(Value(p.at[j])));
      }
    }
    for (int j = 0; j < 4; ++j) shared[warp][j * 32 + lane] = sum[j];
    __syncthreads();
    if (warp == 0 && pack < 64) {
      Pack<float, 4> q;
      for (int j = 0; j < 4; ++j) {
        for (int w = 1; w < 8; ++w) sum[j] = Sum::Of(sum[j], shared[w][j * 32 + lane]);
        Put(q.at[j], Register(sum[j]));
      }
      *(Pack<float, 4>*)(y0 + (Index)row * 256 + c) = q;
    }
    __syncthreads();
  }
}

