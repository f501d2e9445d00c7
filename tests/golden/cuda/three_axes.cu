// SPDX-License-Identifier: Apache-2.0
// matmul f32 batch 8 m 128 n 32 k 64 x t/128+32768 y 128+8192 z 128+16384
// matmul f32 batch 8 m 64 n 128 k 32 x 128+8192 y t/128+16384 z 128+32768
// matmul f32 batch 8 m 64 n 32 k 128 x 128+32768 y 128+16384 z 128+8192
// matmul f32 m 1024 n 128 k 256 x 256 y 128 z 128
// matmul f32 m 1024 n 256 k 128 x 128 y t/128 z 256
// matmul f32 m 1024 n 256 k 128 x 128 y t/128 z 256 beta 1
// matmul f32 m 128 n 256 k 512 x t/128 y 256 z 256
// matmul f32 m 256 n 128 k 1024 x t/256 y 128 z 128
// matmul f32 m 256 n 128 k 512 x t/256 y 128 z 128
// matmul f32 m 256 n 512 k 512 x t/256 y 512 z 512
// matmul f32 m 512 n 128 k 256 x 256 y 128 z 128
// matmul f32 m 512 n 128 k 256 x 256 y t/256 z 128
// matmul f32 m 512 n 256 k 128 x 128 y 256 z 256
// matmul f32 m 512 n 256 k 128 x 128 y t/128 z 256
// matmul f32 m 512 n 256 k 512 x 512 y 256 z 256
// matmul f32 m 512 n 256 k 512 x 512 y t/512 z 256
// matmul f32 m 512 n 256 k 512 x t/512 y 256 z 256
// matmul f32 m 512 n 512 k 256 x 256 y 512 z 512
// matmul f32 m 512 n 512 k 256 x 256 y t/256 z 512

// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
count_rows(int* __restrict__ y0,
    const int* __restrict__ x0,
    i64 n0,
    i64 n1,
    u64* __restrict__ y1) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 512; i += (Index)gridDim.x * 256) {
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
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 512; i += (Index)gridDim.x * 256) {
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
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 512; i += (Index)gridDim.x * 256) {
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
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 512; i += (Index)gridDim.x * 256) {
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
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 32768; n += (Index)gridDim.x * 256) {
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
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 32768; n += (Index)gridDim.x * 256) {
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
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 128; n += (Index)gridDim.x * 256) {
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
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 8192; n += (Index)gridDim.x * 256) {
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
  for (Index first = (Index)blockIdx.x * 1024 + threadIdx.x; first < 65536; first += (Index)gridDim.x * 1024) {
    Pack<float, 4> p0[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 65536) break;
      const Index i = n * 4;
      p0[s] = *(const Pack<float, 4>*)(x0 + i);
    }
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 65536) break;
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
__device__ inline auto RowMaximum(T x, T y) {
  return Maximum(x, y);
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* __restrict__ x0,
    float* __restrict__ y0) {
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 128; n += (Index)gridDim.x * 256) {
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
template <class T>
__device__ inline auto RowAdd(T x, T y) {
  return x + y;
}
template <class T>
__device__ inline auto RowTanh(T x) {
  return Tanh(x);
}
template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
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
        const F t0 = F(0.0447149985f);
        const F t1 = RowMultiply(t0, a1);
        const F t2 = RowMultiply(t1, a1);
        const F t3 = RowMultiply(t2, a1);
        const F t4 = RowAdd(a1, t3);
        const F t5 = F(0.797884583f);
        const F t6 = RowMultiply(t5, t4);
        const F t7 = RowTanh(t6);
        const F t8 = F(0.134145007f);
        const F t9 = RowMultiply(t8, a1);
        const F t10 = RowMultiply(t9, a1);
        const F t11 = F(1.0f);
        const F t12 = RowAdd(t11, t10);
        const F t13 = RowMultiply(t7, t7);
        const F t14 = F(1.0f);
        const F t15 = RowSubtract(t14, t13);
        const F t16 = F(0.5f);
        const F t17 = RowMultiply(t16, a1);
        const F t18 = RowMultiply(t17, t15);
        const F t19 = F(0.797884583f);
        const F t20 = RowMultiply(t18, t19);
        const F t21 = RowMultiply(t20, t12);
        const F t22 = F(1.0f);
        const F t23 = RowAdd(t22, t7);
        const F t24 = F(0.5f);
        const F t25 = RowMultiply(t24, t23);
        const F t26 = RowAdd(t25, t21);
        const F t27 = RowMultiply(a0, t26);
        Put(q.at[j], t27);
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
map(const float* x0,
    float* y0) {
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 16384; n += (Index)gridDim.x * 256) {
    const Index i = n * 4;
    const Pack<float, 4> p0 = *(const Pack<float, 4>*)(x0 + i);
    Pack<float, 4> q;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const F a0 = Value(p0.at[j]);
      const F t0 = F(0.176776692f);
      const F t1 = RowMultiply(a0, t0);
      Put(q.at[j], t1);
    }
    *(Pack<float, 4>*)(y0 + i) = q;
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
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 512; i += (Index)gridDim.x * 256) {
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
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 512; i += (Index)gridDim.x * 256) {
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
  for (Index first = (Index)blockIdx.x * 8; first < 512; first += (Index)gridDim.x * 8) {
    const Index o = first + threadIdx.x / 32;
    float total = -kInfinity;
    if (o < 512) {
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
    if (lane == 0 && o < 512) Put(y0[o], Register(total));
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
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 512; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 64 % 8;
    (void)row0;
    const i64 row1 = row / 1 % 64;
    (void)row1;
    F kx0[2][4];
    F kx1[2][4];
    F km0[2][4];
    double total1 = 0.0;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 16384LL + row1 * 256LL) + (i64)pack * 4);
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 16384LL + row1 * 256LL) + (i64)pack * 4);
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
      Store((Pack<float, 4>*)(out0 + (row0 * 16384LL + row1 * 256LL) + (i64)pack * 4), to0);
      Store((Pack<float, 4>*)(out7 + (row0 * 16384LL + row1 * 256LL) + (i64)pack * 4), to7);
    }
    if (lane == 0) Put(out2[row0 * 64LL + row1 * 1LL], m2);
    if (lane == 0) Put(out5[row0 * 64LL + row1 * 1LL], m5);
    if (lane == 0) Put(out6[row0 * 64LL + row1 * 1LL], m6);
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
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 2048; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 256 % 8;
    (void)row0;
    const i64 row1 = row / 64 % 4;
    (void)row1;
    const i64 row2 = row / 1 % 64;
    (void)row2;
    F kx0[1][4];
    F km0[1][4];
    float total1 = -kInfinity;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 32768LL + row1 * 8192LL + row2 * 128LL) + (i64)pack * 4);
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
      Store((Pack<float, 4>*)(out3 + (row0 * 32768LL + row1 * 8192LL + row2 * 128LL) + (i64)pack * 4), to3);
      Store((Pack<float, 4>*)(out6 + (row0 * 32768LL + row1 * 8192LL + row2 * 128LL) + (i64)pack * 4), to6);
    }
    if (lane == 0) Put(out4[row0 * 256LL + row1 * 64LL + row2 * 1LL], m4);
    if (lane == 0) Put(out5[row0 * 256LL + row1 * 64LL + row2 * 1LL], m5);
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
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 2048; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 256 % 8;
    (void)row0;
    const i64 row1 = row / 64 % 4;
    (void)row1;
    const i64 row2 = row / 1 % 64;
    (void)row2;
    F kx0[1][4];
    F km0[1][4];
    float total1 = -kInfinity;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 32768LL + row1 * 8192LL + row2 * 128LL) + (i64)pack * 4);
      float run1 = -kInfinity;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        kx0[share][j] = x0;
        const I s0_0 = Rounded<int>(I(0LL + column));
        const I s0_1 = Rounded<int>(I(64LL + row2));
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
      Store((Pack<float, 4>*)(out3 + (row0 * 32768LL + row1 * 8192LL + row2 * 128LL) + (i64)pack * 4), to3);
      Store((Pack<float, 4>*)(out6 + (row0 * 32768LL + row1 * 8192LL + row2 * 128LL) + (i64)pack * 4), to6);
    }
    if (lane == 0) Put(out4[row0 * 256LL + row1 * 64LL + row2 * 1LL], m4);
    if (lane == 0) Put(out5[row0 * 256LL + row1 * 64LL + row2 * 1LL], m5);
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
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 512; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 64 % 8;
    (void)row0;
    const i64 row1 = row / 1 % 64;
    (void)row1;
    const F x0 = Value(in0[row0 * 64LL + row1 * 1LL]);
    const I x2 = Value(in2[row0 * 64LL + row1 * 1LL]);
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
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 8192LL + row1 * 128LL) + (i64)pack * 4);
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
      Store((Pack<Bool, 4>*)(out2 + (row0 * 8192LL + row1 * 128LL) + (i64)pack * 4), to2);
      Store((Pack<float, 4>*)(out3 + (row0 * 8192LL + row1 * 128LL) + (i64)pack * 4), to3);
    }
    if (lane == 0) Put(out4[row0 * 64LL + row1 * 1LL], m4);
    if (lane == 0) Put(out5[row0 * 64LL + row1 * 1LL], m5);
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
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 512; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 64 % 8;
    (void)row0;
    const i64 row1 = row / 1 % 64;
    (void)row1;
    const F x0 = Value(in0[row0 * 64LL + row1 * 1LL]);
    const I x2 = Value(in2[row0 * 64LL + row1 * 1LL]);
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
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 8192LL + row1 * 128LL) + (i64)pack * 4);
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
      Store((Pack<Bool, 4>*)(out2 + (row0 * 8192LL + row1 * 128LL) + (i64)pack * 4), to2);
      Store((Pack<float, 4>*)(out3 + (row0 * 8192LL + row1 * 128LL) + (i64)pack * 4), to3);
    }
    if (lane == 0) Put(out4[row0 * 64LL + row1 * 1LL], m4);
    if (lane == 0) Put(out5[row0 * 64LL + row1 * 1LL], m5);
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
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 2048; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 256 % 8;
    (void)row0;
    const i64 row1 = row / 64 % 4;
    (void)row1;
    const i64 row2 = row / 1 % 64;
    (void)row2;
    const F x2 = Value(in2[row0 * 256LL + row1 * 64LL + row2 * 1LL]);
    const F x3 = Value(in3[row0 * 256LL + row1 * 64LL + row2 * 1LL]);
    F kx0[1][4];
    F kx1[1][4];
    double total0 = 0.0;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 32768LL + row1 * 8192LL + row2 * 128LL) + (i64)pack * 4);
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 32768LL + row1 * 8192LL + row2 * 128LL) + (i64)pack * 4);
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
      Store((Pack<float, 4>*)(out2 + (row0 * 32768LL + row1 * 8192LL + row2 * 128LL) + (i64)pack * 4), to2);
    }
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
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 2048; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 256 % 8;
    (void)row0;
    const i64 row1 = row / 64 % 4;
    (void)row1;
    const i64 row2 = row / 1 % 64;
    (void)row2;
    const F x2 = Value(in2[row0 * 256LL + row1 * 64LL + row2 * 1LL]);
    const F x3 = Value(in3[row0 * 256LL + row1 * 64LL + row2 * 1LL]);
    F kx0[1][4];
    F kx1[1][4];
    double total0 = 0.0;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 32768LL + row1 * 8192LL + row2 * 128LL) + (i64)pack * 4);
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 32768LL + row1 * 8192LL + row2 * 128LL) + (i64)pack * 4);
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
        const I s2_5 = Rounded<int>(I(64LL + row2));
        const bool s2_6 = RowGreaterEqual(s2_5, s2_4);
        const F s2_7 = F(0.0f);
        const F s2_8 = Select(s2_6, s2_3, s2_7);
        const F m2 = s2_8;
        Put(to2.at[j], m2);
      }
      Store((Pack<float, 4>*)(out2 + (row0 * 32768LL + row1 * 8192LL + row2 * 128LL) + (i64)pack * 4), to2);
    }
  }
}

