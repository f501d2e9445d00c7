// SPDX-License-Identifier: Apache-2.0
// matmul f32 batch 16 m 128 n 128 k 32 x 256+32768 y t/256+32768 z 128+131072
// matmul f32 batch 16 m 128 n 32 k 128 x 128+131072 y 256+32768 z 256+32768
// matmul f32 batch 16 m 128 n 32 k 128 x t/128+131072 y 256+32768 z 256+32768
// matmul f32 m 1024 n 256 k 2048 x t/1024 y 256 z 256
// matmul f32 m 2048 n 1024 k 256 x 256 y 1024 z 1024
// matmul f32 m 2048 n 1024 k 256 x 256 y t/256 z 1024
// matmul f32 m 2048 n 256 k 1024 x 1024 y 256 z 256 beta 1
// matmul f32 m 2048 n 256 k 1024 x 1024 y t/1024 z 256
// matmul f32 m 2048 n 256 k 256 x 256 y 256 z 256
// matmul f32 m 2048 n 256 k 256 x 256 y 256 z 256 beta 1
// matmul f32 m 2048 n 256 k 256 x 256 y t/256 z 256
// matmul f32 m 2048 n 256 k 256 x 256 y t/256 z 256 beta 1
// matmul f32 m 256 n 1024 k 2048 x t/256 y 1024 z 1024
// matmul f32 m 256 n 256 k 2048 x t/256 y 256 z 256

// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
allocate_lists(const int* __restrict__ x0,
    int* __restrict__ y0,
    int* __restrict__ y1,
    int* __restrict__ y2,
    int* __restrict__ y3) {
  const int lane = threadIdx.x % 32;
  for (Index first = (Index)blockIdx.x * 256; first < 256; first += (Index)gridDim.x * 256) {
    const Index d = first + threadIdx.x;
    const int length = d < 256 ? x0[d] : 0;
    int end = length;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const int before = __shfl_up_sync(0xffffffffu, end, by);
      if (lane >= by) end += before;
    }
    int base = 0;
    if (lane == 31) base = atomicAdd(y0, end);
    base = __shfl_sync(0xffffffffu, base, 31);
    if (d < 256) {
      y1[d] = base + end - length;
      y2[d] = length;
      if (length > 64) y3[atomicAdd(y0 + 1, 1)] = d;
    }
  }
}


// after basic

typedef i64 Index;
extern "C" __global__ void __launch_bounds__(256)
copy_blocks(const Pack<u32, 4>* __restrict__ x0,
    Pack<u32, 4>* __restrict__ y0,
    i64 n0,
    i64 n1,
    i64 n2,
    i64 n3,
    i64 n4,
    i64 n5,
    i64 n6,
    i64 n7) {
  for (Index unit = blockIdx.x; unit < n0; unit += gridDim.x) {
    const Index row = unit / n2, o = row / n3, b = row % n3;
    const Index first = unit % n2 * 1024;
    const Index last = first + 1024 < n1 ? first + 1024 : n1;
    const Pack<u32, 4>* from = x0 + o * n4 + b * n5;
    Pack<u32, 4>* to = y0 + o * n6 + b * n7;
    for (Index i = first + threadIdx.x; i < last; i += blockDim.x) to[i] = from[i];
  }
}


// after basic

typedef i64 Index;
extern "C" __global__ void __launch_bounds__(256)
copy_blocks(const u32* __restrict__ x0,
    u32* __restrict__ y0,
    i64 n0,
    i64 n1,
    i64 n2,
    i64 n3,
    i64 n4,
    i64 n5,
    i64 n6,
    i64 n7) {
  for (Index unit = blockIdx.x; unit < n0; unit += gridDim.x) {
    const Index row = unit / n2, o = row / n3, b = row % n3;
    const Index first = unit % n2 * 1024;
    const Index last = first + 1024 < n1 ? first + 1024 : n1;
    const u32* from = x0 + o * n4 + b * n5;
    u32* to = y0 + o * n6 + b * n7;
    for (Index i = first + threadIdx.x; i < last; i += blockDim.x) to[i] = from[i];
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
count_rows(int* __restrict__ y0,
    const int* __restrict__ x0,
    u64* __restrict__ y1) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 2048; i += (Index)gridDim.x * 256) {
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
      } else if (row < 0 || row >= 256) {
        row = -1;
      }
    }
    if (row >= 0) atomicAdd(y0 + ((Index)(0) * 256 + (Index)row), 1);
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
fill_lists(const int* __restrict__ x0,
    int* __restrict__ y0,
    int* __restrict__ y1,
    const int* __restrict__ x1) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 2048; i += (Index)gridDim.x * 256) {
    i64 row = -1;
    if (true) {
      const i64 index = Rounded<i64>(Value(x1[i])).v;
      row = index;
      if (index < 0 || index >= 256) {
        row = -1;
      } else if (row < 0 || row >= 256) {
        row = -1;
      }
    }
    if (row >= 0) {
      const Index d = ((Index)(0) * 256 + (Index)row);
      y1[x0[d] + atomicAdd(y0 + d, -1) - 1] = i;
    }
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
gather(const int* __restrict__ x0,
    u64* __restrict__ y0,
    const float* __restrict__ x1,
    float* __restrict__ y1) {
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 131072; n += (Index)gridDim.x * 256) {
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
      } else if (row < 0 || row >= 256) {
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
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* x0,
    float* y0) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 1; i += (Index)gridDim.x * 256) {
    const float p0 = x0[0];
    const F a0 = Value(p0);
    const F t0 = F(2048.0f);
    const F t1 = RowDivide(a0, t0);
    Put(y0[i], t1);
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
  for (Index first = (Index)blockIdx.x * 1024 + threadIdx.x; first < 524288; first += (Index)gridDim.x * 1024) {
    Pack<float, 4> p0[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 524288) break;
      const Index i = n * 4;
      p0[s] = *(const Pack<float, 4>*)(x0 + i);
    }
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 524288) break;
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
  for (Index first = (Index)blockIdx.x * 512 + threadIdx.x; first < 524288; first += (Index)gridDim.x * 512) {
    Pack<float, 4> p0[2];
    Pack<float, 4> p1[2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Index n = first + s * 256;
      if (n >= 524288) break;
      const Index i = n * 4;
      p0[s] = *(const Pack<float, 4>*)(x0 + i);
      p1[s] = *(const Pack<float, 4>*)(x1 + i);
    }
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Index n = first + s * 256;
      if (n >= 524288) break;
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
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
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
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 16384; n += (Index)gridDim.x * 256) {
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
map(int* __restrict__ y0) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 1; i += (Index)gridDim.x * 256) {
    const I t0 = I(0LL);
    Put(y0[i], t0);
  }
}


// after basic

template <class T>
__device__ inline auto RowAdd(T x, T y) {
  return x + y;
}
template <class T>
__device__ inline auto RowPow(T x, T y) {
  return Pow(x, y);
}
template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
}
template <class T>
__device__ inline auto RowDivide(T x, T y) {
  return x / y;
}
template <class T>
__device__ inline auto RowRsqrt(T x) {
  return 1.0 / Sqrt(x);
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map_batch(const i64* __restrict__ x0) {
  int low = 0, high = 1;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (x0[(i64)middle * 7] <= (i64)blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const i64* section = x0 + (i64)low * 7;
  const i64 elements = section[2];
  const i64* at = section + 3;
  const i64 block = (i64)blockIdx.x - section[0];
  switch (section[1]) {
    case 0: {
      const int* in0 = (const int*)at[0];
      float* out1 = (float*)at[1];
      float* out2 = (float*)at[2];
      int* out3 = (int*)at[3];
      const i64 first = block * 4096;
#pragma unroll
      for (int share = 0; share < 4; ++share) {
        const i64 e = first + ((i64)share * 256 + threadIdx.x) * 4;
        if (e + 4 <= elements) {
          const Pack<int, 4> pack0 = *(const Pack<int, 4>*)(in0 + e);
          Pack<float, 4> to1;
          Pack<float, 4> to2;
          Pack<int, 4> to3;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const I x0 = Value(pack0.at[j]);
            const F s0_0 = Rounded<float>(x0);
            const F s0_1 = F(1.0f);
            const F s0_2 = RowAdd(s0_0, s0_1);
            const F m0 = s0_2;
            (void)m0;
            const F s1_0 = F(0.899999976f);
            const F s1_1 = RowPow(s1_0, m0);
            const F s1_2 = F(1.0f);
            const F s1_3 = RowSubtract(s1_2, s1_1);
            const F s1_4 = F(0.00300000003f);
            const F s1_5 = RowDivide(s1_4, s1_3);
            const F m1 = s1_5;
            Put(to1.at[j], m1);
            const F s2_0 = F(0.999000013f);
            const F s2_1 = RowPow(s2_0, m0);
            const F s2_2 = F(1.0f);
            const F s2_3 = RowSubtract(s2_2, s2_1);
            const F s2_4 = RowRsqrt(s2_3);
            const F m2 = s2_4;
            Put(to2.at[j], m2);
            const I s3_0 = I(1LL);
            const I s3_1 = Rounded<int>(RowAdd(x0, s3_0));
            const I m3 = s3_1;
            Put(to3.at[j], m3);
          }
          Store((Pack<float, 4>*)(out1 + e), to1);
          Store((Pack<float, 4>*)(out2 + e), to2);
          Store((Pack<int, 4>*)(out3 + e), to3);
        } else {
          for (int j = 0; e + j < elements; ++j) {
            const I x0 = Value(in0[e + j]);
            const F s0_0 = Rounded<float>(x0);
            const F s0_1 = F(1.0f);
            const F s0_2 = RowAdd(s0_0, s0_1);
            const F m0 = s0_2;
            (void)m0;
            const F s1_0 = F(0.899999976f);
            const F s1_1 = RowPow(s1_0, m0);
            const F s1_2 = F(1.0f);
            const F s1_3 = RowSubtract(s1_2, s1_1);
            const F s1_4 = F(0.00300000003f);
            const F s1_5 = RowDivide(s1_4, s1_3);
            const F m1 = s1_5;
            Put(out1[e + j], m1);
            const F s2_0 = F(0.999000013f);
            const F s2_1 = RowPow(s2_0, m0);
            const F s2_2 = F(1.0f);
            const F s2_3 = RowSubtract(s2_2, s2_1);
            const F s2_4 = RowRsqrt(s2_3);
            const F m2 = s2_4;
            Put(out2[e + j], m2);
            const I s3_0 = I(1LL);
            const I s3_1 = Rounded<int>(RowAdd(x0, s3_0));
            const I m3 = s3_1;
            Put(out3[e + j], m3);
          }
        }
      }
      break;
    }
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
__device__ inline auto RowSquare(T x) {
  return x * x;
}
template <class T>
__device__ inline auto RowSqrt(T x) {
  return Sqrt(x);
}
template <class T>
__device__ inline auto RowDivide(T x, T y) {
  return x / y;
}
template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map_batch(const i64* __restrict__ x0) {
  int low = 0, high = 14;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (x0[(i64)middle * 26] <= (i64)blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const i64* section = x0 + (i64)low * 26;
  const i64 elements = section[2];
  const i64* at = section + 3;
  const i64 block = (i64)blockIdx.x - section[0];
  switch (section[1]) {
    case 0: {
      const float* in0 = (const float*)at[0];
      const float* in1 = (const float*)at[1];
      const float* in2 = (const float*)at[2];
      const float* in3 = (const float*)at[3];
      const float* in4 = (const float*)at[4];
      const F x4 = Value(*in4);
      const float* in5 = (const float*)at[5];
      const F x5 = Value(*in5);
      float* out0 = (float*)at[6];
      float* out1 = (float*)at[7];
      float* out2 = (float*)at[8];
      const i64 first = block * 2048;
#pragma unroll
      for (int share = 0; share < 2; ++share) {
        const i64 e = first + ((i64)share * 256 + threadIdx.x) * 4;
        if (e + 4 <= elements) {
          const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + e);
          const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + e);
          const Pack<float, 4> pack2 = *(const Pack<float, 4>*)(in2 + e);
          const Pack<float, 4> pack3 = *(const Pack<float, 4>*)(in3 + e);
          Pack<float, 4> to0;
          Pack<float, 4> to1;
          Pack<float, 4> to2;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const F x0 = Value(pack0.at[j]);
            const F x1 = Value(pack1.at[j]);
            const F x2 = Value(pack2.at[j]);
            const F x3 = Value(pack3.at[j]);
            const F s0_0 = F(0.100000001f);
            const F s0_1 = RowMultiply(s0_0, x1);
            const F s0_2 = F(0.899999976f);
            const F s0_3 = RowMultiply(s0_2, x0);
            const F s0_4 = RowAdd(s0_3, s0_1);
            const F m0 = s0_4;
            Put(to0.at[j], m0);
            const F s1_0 = RowSquare(x1);
            const F s1_1 = F(0.00100000005f);
            const F s1_2 = RowMultiply(s1_1, s1_0);
            const F s1_3 = F(0.999000013f);
            const F s1_4 = RowMultiply(s1_3, x2);
            const F s1_5 = RowAdd(s1_4, s1_2);
            const F m1 = s1_5;
            Put(to1.at[j], m1);
            const F s2_0 = RowSqrt(m1);
            const F s2_1 = RowMultiply(s2_0, x5);
            const F s2_2 = F(9.99999994e-09f);
            const F s2_3 = RowAdd(s2_1, s2_2);
            const F s2_4 = RowMultiply(x4, m0);
            const F s2_5 = RowDivide(s2_4, s2_3);
            const F s2_6 = F(0.00300000003f);
            const F s2_7 = F(0.00999999978f);
            const F s2_8 = RowMultiply(s2_7, s2_6);
            const F s2_9 = F(1.0f);
            const F s2_10 = RowSubtract(s2_9, s2_8);
            const F s2_11 = RowMultiply(x3, s2_10);
            const F s2_12 = RowSubtract(s2_11, s2_5);
            const F m2 = s2_12;
            Put(to2.at[j], m2);
          }
          Store((Pack<float, 4>*)(out0 + e), to0);
          Store((Pack<float, 4>*)(out1 + e), to1);
          Store((Pack<float, 4>*)(out2 + e), to2);
        } else {
          for (int j = 0; e + j < elements; ++j) {
            const F x0 = Value(in0[e + j]);
            const F x1 = Value(in1[e + j]);
            const F x2 = Value(in2[e + j]);
            const F x3 = Value(in3[e + j]);
            const F s0_0 = F(0.100000001f);
            const F s0_1 = RowMultiply(s0_0, x1);
            const F s0_2 = F(0.899999976f);
            const F s0_3 = RowMultiply(s0_2, x0);
            const F s0_4 = RowAdd(s0_3, s0_1);
            const F m0 = s0_4;
            Put(out0[e + j], m0);
            const F s1_0 = RowSquare(x1);
            const F s1_1 = F(0.00100000005f);
            const F s1_2 = RowMultiply(s1_1, s1_0);
            const F s1_3 = F(0.999000013f);
            const F s1_4 = RowMultiply(s1_3, x2);
            const F s1_5 = RowAdd(s1_4, s1_2);
            const F m1 = s1_5;
            Put(out1[e + j], m1);
            const F s2_0 = RowSqrt(m1);
            const F s2_1 = RowMultiply(s2_0, x5);
            const F s2_2 = F(9.99999994e-09f);
            const F s2_3 = RowAdd(s2_1, s2_2);
            const F s2_4 = RowMultiply(x4, m0);
            const F s2_5 = RowDivide(s2_4, s2_3);
            const F s2_6 = F(0.00300000003f);
            const F s2_7 = F(0.00999999978f);
            const F s2_8 = RowMultiply(s2_7, s2_6);
            const F s2_9 = F(1.0f);
            const F s2_10 = RowSubtract(s2_9, s2_8);
            const F s2_11 = RowMultiply(x3, s2_10);
            const F s2_12 = RowSubtract(s2_11, s2_5);
            const F m2 = s2_12;
            Put(out2[e + j], m2);
          }
        }
      }
      break;
    }
    case 1: {
      const float* in0 = (const float*)at[0];
      const float* in1 = (const float*)at[1];
      const float* in2 = (const float*)at[2];
      const float* in3 = (const float*)at[3];
      const float* in4 = (const float*)at[4];
      const F x4 = Value(*in4);
      const float* in5 = (const float*)at[5];
      const F x5 = Value(*in5);
      const float* in6 = (const float*)at[6];
      const float* in7 = (const float*)at[7];
      const float* in8 = (const float*)at[8];
      const float* in9 = (const float*)at[9];
      float* out0 = (float*)at[10];
      float* out1 = (float*)at[11];
      float* out2 = (float*)at[12];
      float* out3 = (float*)at[13];
      float* out4 = (float*)at[14];
      float* out5 = (float*)at[15];
      const i64 first = block * 1024;
#pragma unroll
      for (int share = 0; share < 1; ++share) {
        const i64 e = first + ((i64)share * 256 + threadIdx.x) * 4;
        if (e + 4 <= elements) {
          const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + e);
          const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + e);
          const Pack<float, 4> pack2 = *(const Pack<float, 4>*)(in2 + e);
          const Pack<float, 4> pack3 = *(const Pack<float, 4>*)(in3 + e);
          const Pack<float, 4> pack6 = *(const Pack<float, 4>*)(in6 + e);
          const Pack<float, 4> pack7 = *(const Pack<float, 4>*)(in7 + e);
          const Pack<float, 4> pack8 = *(const Pack<float, 4>*)(in8 + e);
          const Pack<float, 4> pack9 = *(const Pack<float, 4>*)(in9 + e);
          Pack<float, 4> to0;
          Pack<float, 4> to1;
          Pack<float, 4> to2;
          Pack<float, 4> to3;
          Pack<float, 4> to4;
          Pack<float, 4> to5;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const F x0 = Value(pack0.at[j]);
            const F x1 = Value(pack1.at[j]);
            const F x2 = Value(pack2.at[j]);
            const F x3 = Value(pack3.at[j]);
            const F x6 = Value(pack6.at[j]);
            const F x7 = Value(pack7.at[j]);
            const F x8 = Value(pack8.at[j]);
            const F x9 = Value(pack9.at[j]);
            const F s0_0 = F(0.100000001f);
            const F s0_1 = RowMultiply(s0_0, x1);
            const F s0_2 = F(0.899999976f);
            const F s0_3 = RowMultiply(s0_2, x0);
            const F s0_4 = RowAdd(s0_3, s0_1);
            const F m0 = s0_4;
            Put(to0.at[j], m0);
            const F s1_0 = RowSquare(x1);
            const F s1_1 = F(0.00100000005f);
            const F s1_2 = RowMultiply(s1_1, s1_0);
            const F s1_3 = F(0.999000013f);
            const F s1_4 = RowMultiply(s1_3, x2);
            const F s1_5 = RowAdd(s1_4, s1_2);
            const F m1 = s1_5;
            Put(to1.at[j], m1);
            const F s2_0 = RowSqrt(m1);
            const F s2_1 = RowMultiply(s2_0, x5);
            const F s2_2 = F(9.99999994e-09f);
            const F s2_3 = RowAdd(s2_1, s2_2);
            const F s2_4 = RowMultiply(x4, m0);
            const F s2_5 = RowDivide(s2_4, s2_3);
            const F s2_6 = F(0.00300000003f);
            const F s2_7 = F(0.00999999978f);
            const F s2_8 = RowMultiply(s2_7, s2_6);
            const F s2_9 = F(1.0f);
            const F s2_10 = RowSubtract(s2_9, s2_8);
            const F s2_11 = RowMultiply(x3, s2_10);
            const F s2_12 = RowSubtract(s2_11, s2_5);
            const F m2 = s2_12;
            Put(to2.at[j], m2);
            const F s3_0 = F(0.100000001f);
            const F s3_1 = RowMultiply(s3_0, x7);
            const F s3_2 = F(0.899999976f);
            const F s3_3 = RowMultiply(s3_2, x6);
            const F s3_4 = RowAdd(s3_3, s3_1);
            const F m3 = s3_4;
            Put(to3.at[j], m3);
            const F s4_0 = RowSquare(x7);
            const F s4_1 = F(0.00100000005f);
            const F s4_2 = RowMultiply(s4_1, s4_0);
            const F s4_3 = F(0.999000013f);
            const F s4_4 = RowMultiply(s4_3, x8);
            const F s4_5 = RowAdd(s4_4, s4_2);
            const F m4 = s4_5;
            Put(to4.at[j], m4);
            const F s5_0 = RowSqrt(m4);
            const F s5_1 = RowMultiply(s5_0, x5);
            const F s5_2 = F(9.99999994e-09f);
            const F s5_3 = RowAdd(s5_1, s5_2);
            const F s5_4 = RowMultiply(x4, m3);
            const F s5_5 = RowDivide(s5_4, s5_3);
            const F s5_6 = F(0.00300000003f);
            const F s5_7 = F(0.00999999978f);
            const F s5_8 = RowMultiply(s5_7, s5_6);
            const F s5_9 = F(1.0f);
            const F s5_10 = RowSubtract(s5_9, s5_8);
            const F s5_11 = RowMultiply(x9, s5_10);
            const F s5_12 = RowSubtract(s5_11, s5_5);
            const F m5 = s5_12;
            Put(to5.at[j], m5);
          }
          Store((Pack<float, 4>*)(out0 + e), to0);
          Store((Pack<float, 4>*)(out1 + e), to1);
          Store((Pack<float, 4>*)(out2 + e), to2);
          Store((Pack<float, 4>*)(out3 + e), to3);
          Store((Pack<float, 4>*)(out4 + e), to4);
          Store((Pack<float, 4>*)(out5 + e), to5);
        } else {
          for (int j = 0; e + j < elements; ++j) {
            const F x0 = Value(in0[e + j]);
            const F x1 = Value(in1[e + j]);
            const F x2 = Value(in2[e + j]);
            const F x3 = Value(in3[e + j]);
            const F x6 = Value(in6[e + j]);
            const F x7 = Value(in7[e + j]);
            const F x8 = Value(in8[e + j]);
            const F x9 = Value(in9[e + j]);
            const F s0_0 = F(0.100000001f);
            const F s0_1 = RowMultiply(s0_0, x1);
            const F s0_2 = F(0.899999976f);
            const F s0_3 = RowMultiply(s0_2, x0);
            const F s0_4 = RowAdd(s0_3, s0_1);
            const F m0 = s0_4;
            Put(out0[e + j], m0);
            const F s1_0 = RowSquare(x1);
            const F s1_1 = F(0.00100000005f);
            const F s1_2 = RowMultiply(s1_1, s1_0);
            const F s1_3 = F(0.999000013f);
            const F s1_4 = RowMultiply(s1_3, x2);
            const F s1_5 = RowAdd(s1_4, s1_2);
            const F m1 = s1_5;
            Put(out1[e + j], m1);
            const F s2_0 = RowSqrt(m1);
            const F s2_1 = RowMultiply(s2_0, x5);
            const F s2_2 = F(9.99999994e-09f);
            const F s2_3 = RowAdd(s2_1, s2_2);
            const F s2_4 = RowMultiply(x4, m0);
            const F s2_5 = RowDivide(s2_4, s2_3);
            const F s2_6 = F(0.00300000003f);
            const F s2_7 = F(0.00999999978f);
            const F s2_8 = RowMultiply(s2_7, s2_6);
            const F s2_9 = F(1.0f);
            const F s2_10 = RowSubtract(s2_9, s2_8);
            const F s2_11 = RowMultiply(x3, s2_10);
            const F s2_12 = RowSubtract(s2_11, s2_5);
            const F m2 = s2_12;
            Put(out2[e + j], m2);
            const F s3_0 = F(0.100000001f);
            const F s3_1 = RowMultiply(s3_0, x7);
            const F s3_2 = F(0.899999976f);
            const F s3_3 = RowMultiply(s3_2, x6);
            const F s3_4 = RowAdd(s3_3, s3_1);
            const F m3 = s3_4;
            Put(out3[e + j], m3);
            const F s4_0 = RowSquare(x7);
            const F s4_1 = F(0.00100000005f);
            const F s4_2 = RowMultiply(s4_1, s4_0);
            const F s4_3 = F(0.999000013f);
            const F s4_4 = RowMultiply(s4_3, x8);
            const F s4_5 = RowAdd(s4_4, s4_2);
            const F m4 = s4_5;
            Put(out4[e + j], m4);
            const F s5_0 = RowSqrt(m4);
            const F s5_1 = RowMultiply(s5_0, x5);
            const F s5_2 = F(9.99999994e-09f);
            const F s5_3 = RowAdd(s5_1, s5_2);
            const F s5_4 = RowMultiply(x4, m3);
            const F s5_5 = RowDivide(s5_4, s5_3);
            const F s5_6 = F(0.00300000003f);
            const F s5_7 = F(0.00999999978f);
            const F s5_8 = RowMultiply(s5_7, s5_6);
            const F s5_9 = F(1.0f);
            const F s5_10 = RowSubtract(s5_9, s5_8);
            const F s5_11 = RowMultiply(x9, s5_10);
            const F s5_12 = RowSubtract(s5_11, s5_5);
            const F m5 = s5_12;
            Put(out5[e + j], m5);
          }
        }
      }
      break;
    }
    case 2: {
      const float* in0 = (const float*)at[0];
      const float* in1 = (const float*)at[1];
      const float* in2 = (const float*)at[2];
      const float* in3 = (const float*)at[3];
      const float* in4 = (const float*)at[4];
      const F x4 = Value(*in4);
      const float* in5 = (const float*)at[5];
      const F x5 = Value(*in5);
      const float* in6 = (const float*)at[6];
      const float* in7 = (const float*)at[7];
      const float* in8 = (const float*)at[8];
      const float* in9 = (const float*)at[9];
      const float* in10 = (const float*)at[10];
      const float* in11 = (const float*)at[11];
      const float* in12 = (const float*)at[12];
      const float* in13 = (const float*)at[13];
      float* out0 = (float*)at[14];
      float* out1 = (float*)at[15];
      float* out2 = (float*)at[16];
      float* out3 = (float*)at[17];
      float* out4 = (float*)at[18];
      float* out5 = (float*)at[19];
      float* out6 = (float*)at[20];
      float* out7 = (float*)at[21];
      float* out8 = (float*)at[22];
      const i64 first = block * 1024;
#pragma unroll
      for (int share = 0; share < 1; ++share) {
        const i64 e = first + ((i64)share * 256 + threadIdx.x) * 4;
        if (e + 4 <= elements) {
          const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + e);
          const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + e);
          const Pack<float, 4> pack2 = *(const Pack<float, 4>*)(in2 + e);
          const Pack<float, 4> pack3 = *(const Pack<float, 4>*)(in3 + e);
          const Pack<float, 4> pack6 = *(const Pack<float, 4>*)(in6 + e);
          const Pack<float, 4> pack7 = *(const Pack<float, 4>*)(in7 + e);
          const Pack<float, 4> pack8 = *(const Pack<float, 4>*)(in8 + e);
          const Pack<float, 4> pack9 = *(const Pack<float, 4>*)(in9 + e);
          const Pack<float, 4> pack10 = *(const Pack<float, 4>*)(in10 + e);
          const Pack<float, 4> pack11 = *(const Pack<float, 4>*)(in11 + e);
          const Pack<float, 4> pack12 = *(const Pack<float, 4>*)(in12 + e);
          const Pack<float, 4> pack13 = *(const Pack<float, 4>*)(in13 + e);
          Pack<float, 4> to0;
          Pack<float, 4> to1;
          Pack<float, 4> to2;
          Pack<float, 4> to3;
          Pack<float, 4> to4;
          Pack<float, 4> to5;
          Pack<float, 4> to6;
          Pack<float, 4> to7;
          Pack<float, 4> to8;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const F x0 = Value(pack0.at[j]);
            const F x1 = Value(pack1.at[j]);
            const F x2 = Value(pack2.at[j]);
            const F x3 = Value(pack3.at[j]);
            const F x6 = Value(pack6.at[j]);
            const F x7 = Value(pack7.at[j]);
            const F x8 = Value(pack8.at[j]);
            const F x9 = Value(pack9.at[j]);
            const F x10 = Value(pack10.at[j]);
            const F x11 = Value(pack11.at[j]);
            const F x12 = Value(pack12.at[j]);
            const F x13 = Value(pack13.at[j]);
            const F s0_0 = F(0.100000001f);
            const F s0_1 = RowMultiply(s0_0, x1);
            const F s0_2 = F(0.899999976f);
            const F s0_3 = RowMultiply(s0_2, x0);
            const F s0_4 = RowAdd(s0_3, s0_1);
            const F m0 = s0_4;
            Put(to0.at[j], m0);
            const F s1_0 = RowSquare(x1);
            const F s1_1 = F(0.00100000005f);
            const F s1_2 = RowMultiply(s1_1, s1_0);
            const F s1_3 = F(0.999000013f);
            const F s1_4 = RowMultiply(s1_3, x2);
            const F s1_5 = RowAdd(s1_4, s1_2);
            const F m1 = s1_5;
            Put(to1.at[j], m1);
            const F s2_0 = RowSqrt(m1);
            const F s2_1 = RowMultiply(s2_0, x5);
            const F s2_2 = F(9.99999994e-09f);
            const F s2_3 = RowAdd(s2_1, s2_2);
            const F s2_4 = RowMultiply(x4, m0);
            const F s2_5 = RowDivide(s2_4, s2_3);
            const F s2_6 = F(0.00300000003f);
            const F s2_7 = F(0.00999999978f);
            const F s2_8 = RowMultiply(s2_7, s2_6);
            const F s2_9 = F(1.0f);
            const F s2_10 = RowSubtract(s2_9, s2_8);
            const F s2_11 = RowMultiply(x3, s2_10);
            const F s2_12 = RowSubtract(s2_11, s2_5);
            const F m2 = s2_12;
            Put(to2.at[j], m2);
            const F s3_0 = F(0.100000001f);
            const F s3_1 = RowMultiply(s3_0, x7);
            const F s3_2 = F(0.899999976f);
            const F s3_3 = RowMultiply(s3_2, x6);
            const F s3_4 = RowAdd(s3_3, s3_1);
            const F m3 = s3_4;
            Put(to3.at[j], m3);
            const F s4_0 = RowSquare(x7);
            const F s4_1 = F(0.00100000005f);
            const F s4_2 = RowMultiply(s4_1, s4_0);
            const F s4_3 = F(0.999000013f);
            const F s4_4 = RowMultiply(s4_3, x8);
            const F s4_5 = RowAdd(s4_4, s4_2);
            const F m4 = s4_5;
            Put(to4.at[j], m4);
            const F s5_0 = RowSqrt(m4);
            const F s5_1 = RowMultiply(s5_0, x5);
            const F s5_2 = F(9.99999994e-09f);
            const F s5_3 = RowAdd(s5_1, s5_2);
            const F s5_4 = RowMultiply(x4, m3);
            const F s5_5 = RowDivide(s5_4, s5_3);
            const F s5_6 = F(0.00300000003f);
            const F s5_7 = F(0.00999999978f);
            const F s5_8 = RowMultiply(s5_7, s5_6);
            const F s5_9 = F(1.0f);
            const F s5_10 = RowSubtract(s5_9, s5_8);
            const F s5_11 = RowMultiply(x9, s5_10);
            const F s5_12 = RowSubtract(s5_11, s5_5);
            const F m5 = s5_12;
            Put(to5.at[j], m5);
            const F s6_0 = F(0.100000001f);
            const F s6_1 = RowMultiply(s6_0, x11);
            const F s6_2 = F(0.899999976f);
            const F s6_3 = RowMultiply(s6_2, x10);
            const F s6_4 = RowAdd(s6_3, s6_1);
            const F m6 = s6_4;
            Put(to6.at[j], m6);
            const F s7_0 = RowSquare(x11);
            const F s7_1 = F(0.00100000005f);
            const F s7_2 = RowMultiply(s7_1, s7_0);
            const F s7_3 = F(0.999000013f);
            const F s7_4 = RowMultiply(s7_3, x12);
            const F s7_5 = RowAdd(s7_4, s7_2);
            const F m7 = s7_5;
            Put(to7.at[j], m7);
            const F s8_0 = RowSqrt(m7);
            const F s8_1 = RowMultiply(s8_0, x5);
            const F s8_2 = F(9.99999994e-09f);
            const F s8_3 = RowAdd(s8_1, s8_2);
            const F s8_4 = RowMultiply(x4, m6);
            const F s8_5 = RowDivide(s8_4, s8_3);
            const F s8_6 = F(0.00300000003f);
            const F s8_7 = F(0.00999999978f);
            const F s8_8 = RowMultiply(s8_7, s8_6);
            const F s8_9 = F(1.0f);
            const F s8_10 = RowSubtract(s8_9, s8_8);
            const F s8_11 = RowMultiply(x13, s8_10);
            const F s8_12 = RowSubtract(s8_11, s8_5);
            const F m8 = s8_12;
            Put(to8.at[j], m8);
          }
          Store((Pack<float, 4>*)(out0 + e), to0);
          Store((Pack<float, 4>*)(out1 + e), to1);
          Store((Pack<float, 4>*)(out2 + e), to2);
          Store((Pack<float, 4>*)(out3 + e), to3);
          Store((Pack<float, 4>*)(out4 + e), to4);
          Store((Pack<float, 4>*)(out5 + e), to5);
          Store((Pack<float, 4>*)(out6 + e), to6);
          Store((Pack<float, 4>*)(out7 + e), to7);
          Store((Pack<float, 4>*)(out8 + e), to8);
        } else {
          for (int j = 0; e + j < elements; ++j) {
            const F x0 = Value(in0[e + j]);
            const F x1 = Value(in1[e + j]);
            const F x2 = Value(in2[e + j]);
            const F x3 = Value(in3[e + j]);
            const F x6 = Value(in6[e + j]);
            const F x7 = Value(in7[e + j]);
            const F x8 = Value(in8[e + j]);
            const F x9 = Value(in9[e + j]);
            const F x10 = Value(in10[e + j]);
            const F x11 = Value(in11[e + j]);
            const F x12 = Value(in12[e + j]);
            const F x13 = Value(in13[e + j]);
            const F s0_0 = F(0.100000001f);
            const F s0_1 = RowMultiply(s0_0, x1);
            const F s0_2 = F(0.899999976f);
            const F s0_3 = RowMultiply(s0_2, x0);
            const F s0_4 = RowAdd(s0_3, s0_1);
            const F m0 = s0_4;
            Put(out0[e + j], m0);
            const F s1_0 = RowSquare(x1);
            const F s1_1 = F(0.00100000005f);
            const F s1_2 = RowMultiply(s1_1, s1_0);
            const F s1_3 = F(0.999000013f);
            const F s1_4 = RowMultiply(s1_3, x2);
            const F s1_5 = RowAdd(s1_4, s1_2);
            const F m1 = s1_5;
            Put(out1[e + j], m1);
            const F s2_0 = RowSqrt(m1);
            const F s2_1 = RowMultiply(s2_0, x5);
            const F s2_2 = F(9.99999994e-09f);
            const F s2_3 = RowAdd(s2_1, s2_2);
            const F s2_4 = RowMultiply(x4, m0);
            const F s2_5 = RowDivide(s2_4, s2_3);
            const F s2_6 = F(0.00300000003f);
            const F s2_7 = F(0.00999999978f);
            const F s2_8 = RowMultiply(s2_7, s2_6);
            const F s2_9 = F(1.0f);
            const F s2_10 = RowSubtract(s2_9, s2_8);
            const F s2_11 = RowMultiply(x3, s2_10);
            const F s2_12 = RowSubtract(s2_11, s2_5);
            const F m2 = s2_12;
            Put(out2[e + j], m2);
            const F s3_0 = F(0.100000001f);
            const F s3_1 = RowMultiply(s3_0, x7);
            const F s3_2 = F(0.899999976f);
            const F s3_3 = RowMultiply(s3_2, x6);
            const F s3_4 = RowAdd(s3_3, s3_1);
            const F m3 = s3_4;
            Put(out3[e + j], m3);
            const F s4_0 = RowSquare(x7);
            const F s4_1 = F(0.00100000005f);
            const F s4_2 = RowMultiply(s4_1, s4_0);
            const F s4_3 = F(0.999000013f);
            const F s4_4 = RowMultiply(s4_3, x8);
            const F s4_5 = RowAdd(s4_4, s4_2);
            const F m4 = s4_5;
            Put(out4[e + j], m4);
            const F s5_0 = RowSqrt(m4);
            const F s5_1 = RowMultiply(s5_0, x5);
            const F s5_2 = F(9.99999994e-09f);
            const F s5_3 = RowAdd(s5_1, s5_2);
            const F s5_4 = RowMultiply(x4, m3);
            const F s5_5 = RowDivide(s5_4, s5_3);
            const F s5_6 = F(0.00300000003f);
            const F s5_7 = F(0.00999999978f);
            const F s5_8 = RowMultiply(s5_7, s5_6);
            const F s5_9 = F(1.0f);
            const F s5_10 = RowSubtract(s5_9, s5_8);
            const F s5_11 = RowMultiply(x9, s5_10);
            const F s5_12 = RowSubtract(s5_11, s5_5);
            const F m5 = s5_12;
            Put(out5[e + j], m5);
            const F s6_0 = F(0.100000001f);
            const F s6_1 = RowMultiply(s6_0, x11);
            const F s6_2 = F(0.899999976f);
            const F s6_3 = RowMultiply(s6_2, x10);
            const F s6_4 = RowAdd(s6_3, s6_1);
            const F m6 = s6_4;
            Put(out6[e + j], m6);
            const F s7_0 = RowSquare(x11);
            const F s7_1 = F(0.00100000005f);
            const F s7_2 = RowMultiply(s7_1, s7_0);
            const F s7_3 = F(0.999000013f);
            const F s7_4 = RowMultiply(s7_3, x12);
            const F s7_5 = RowAdd(s7_4, s7_2);
            const F m7 = s7_5;
            Put(out7[e + j], m7);
            const F s8_0 = RowSqrt(m7);
            const F s8_1 = RowMultiply(s8_0, x5);
            const F s8_2 = F(9.99999994e-09f);
            const F s8_3 = RowAdd(s8_1, s8_2);
            const F s8_4 = RowMultiply(x4, m6);
            const F s8_5 = RowDivide(s8_4, s8_3);
            const F s8_6 = F(0.00300000003f);
            const F s8_7 = F(0.00999999978f);
            const F s8_8 = RowMultiply(s8_7, s8_6);
            const F s8_9 = F(1.0f);
            const F s8_10 = RowSubtract(s8_9, s8_8);
            const F s8_11 = RowMultiply(x13, s8_10);
            const F s8_12 = RowSubtract(s8_11, s8_5);
            const F m8 = s8_12;
            Put(out8[e + j], m8);
          }
        }
      }
      break;
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
map_batch(const i64* __restrict__ x0) {
  int low = 0, high = 2;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (x0[(i64)middle * 5] <= (i64)blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const i64* section = x0 + (i64)low * 5;
  const i64 elements = section[2];
  const i64* at = section + 3;
  const i64 block = (i64)blockIdx.x - section[0];
  switch (section[1]) {
    case 0: {
      const float* in0 = (const float*)at[0];
      float* out0 = (float*)at[1];
      const i64 first = block * 4096;
#pragma unroll
      for (int share = 0; share < 4; ++share) {
        const i64 e = first + ((i64)share * 256 + threadIdx.x) * 4;
        if (e + 4 <= elements) {
          const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + e);
          Pack<float, 4> to0;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const F x0 = Value(pack0.at[j]);
            const F s0_0 = F(0.03125f);
            const F s0_1 = RowMultiply(x0, s0_0);
            const F m0 = s0_1;
            Put(to0.at[j], m0);
          }
          Store((Pack<float, 4>*)(out0 + e), to0);
        } else {
          for (int j = 0; e + j < elements; ++j) {
            const F x0 = Value(in0[e + j]);
            const F s0_0 = F(0.03125f);
            const F s0_1 = RowMultiply(x0, s0_0);
            const F m0 = s0_1;
            Put(out0[e + j], m0);
          }
        }
      }
      break;
    }
    case 1: {
      float* out0 = (float*)at[0];
      float* out1 = (float*)at[1];
      const i64 first = block * 4096;
#pragma unroll
      for (int share = 0; share < 4; ++share) {
        const i64 e = first + ((i64)share * 256 + threadIdx.x) * 4;
        if (e + 4 <= elements) {
          Pack<float, 4> to0;
          Pack<float, 4> to1;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const F s0_0 = F(1.0f);
            const F m0 = s0_0;
            Put(to0.at[j], m0);
            const F s1_0 = F(0.0f);
            const F m1 = s1_0;
            Put(to1.at[j], m1);
          }
          Store((Pack<float, 4>*)(out0 + e), to0);
          Store((Pack<float, 4>*)(out1 + e), to1);
        } else {
          for (int j = 0; e + j < elements; ++j) {
            const F s0_0 = F(1.0f);
            const F m0 = s0_0;
            Put(out0[e + j], m0);
            const F s1_0 = F(0.0f);
            const F m1 = s1_0;
            Put(out1[e + j], m1);
          }
        }
      }
      break;
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
map_batch(const i64* __restrict__ x0) {
  int low = 0, high = 2;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (x0[(i64)middle * 5] <= (i64)blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const i64* section = x0 + (i64)low * 5;
  const i64 elements = section[2];
  const i64* at = section + 3;
  const i64 block = (i64)blockIdx.x - section[0];
  switch (section[1]) {
    case 0: {
      const float* in0 = (const float*)at[0];
      float* out0 = (float*)at[1];
      const i64 first = block * 4096;
#pragma unroll
      for (int share = 0; share < 4; ++share) {
        const i64 e = first + ((i64)share * 256 + threadIdx.x) * 4;
        if (e + 4 <= elements) {
          const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + e);
          Pack<float, 4> to0;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const F x0 = Value(pack0.at[j]);
            const F s0_0 = F(0.0625f);
            const F s0_1 = RowMultiply(x0, s0_0);
            const F m0 = s0_1;
            Put(to0.at[j], m0);
          }
          Store((Pack<float, 4>*)(out0 + e), to0);
        } else {
          for (int j = 0; e + j < elements; ++j) {
            const F x0 = Value(in0[e + j]);
            const F s0_0 = F(0.0625f);
            const F s0_1 = RowMultiply(x0, s0_0);
            const F m0 = s0_1;
            Put(out0[e + j], m0);
          }
        }
      }
      break;
    }
    case 1: {
      float* out0 = (float*)at[0];
      float* out1 = (float*)at[1];
      const i64 first = block * 4096;
#pragma unroll
      for (int share = 0; share < 4; ++share) {
        const i64 e = first + ((i64)share * 256 + threadIdx.x) * 4;
        if (e + 4 <= elements) {
          Pack<float, 4> to0;
          Pack<float, 4> to1;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const F s0_0 = F(1.0f);
            const F m0 = s0_0;
            Put(to0.at[j], m0);
            const F s1_0 = F(0.0f);
            const F m1 = s1_0;
            Put(to1.at[j], m1);
          }
          Store((Pack<float, 4>*)(out0 + e), to0);
          Store((Pack<float, 4>*)(out1 + e), to1);
        } else {
          for (int j = 0; e + j < elements; ++j) {
            const F s0_0 = F(1.0f);
            const F m0 = s0_0;
            Put(out0[e + j], m0);
            const F s1_0 = F(0.0f);
            const F m1 = s1_0;
            Put(out1[e + j], m1);
          }
        }
      }
      break;
    }
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map_batch(const i64* __restrict__ x0) {
  int low = 0, high = 14;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (x0[(i64)middle * 9] <= (i64)blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const i64* section = x0 + (i64)low * 9;
  const i64 elements = section[2];
  const i64* at = section + 3;
  const i64 block = (i64)blockIdx.x - section[0];
  switch (section[1]) {
    case 0: {
      float* out0 = (float*)at[0];
      float* out1 = (float*)at[1];
      const i64 first = block * 4096;
#pragma unroll
      for (int share = 0; share < 4; ++share) {
        const i64 e = first + ((i64)share * 256 + threadIdx.x) * 4;
        if (e + 4 <= elements) {
          Pack<float, 4> to0;
          Pack<float, 4> to1;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const F s0_0 = F(0.0f);
            const F m0 = s0_0;
            Put(to0.at[j], m0);
            const F s1_0 = F(0.0f);
            const F m1 = s1_0;
            Put(to1.at[j], m1);
          }
          Store((Pack<float, 4>*)(out0 + e), to0);
          Store((Pack<float, 4>*)(out1 + e), to1);
        } else {
          for (int j = 0; e + j < elements; ++j) {
            const F s0_0 = F(0.0f);
            const F m0 = s0_0;
            Put(out0[e + j], m0);
            const F s1_0 = F(0.0f);
            const F m1 = s1_0;
            Put(out1[e + j], m1);
          }
        }
      }
      break;
    }
    case 1: {
      float* out0 = (float*)at[0];
      float* out1 = (float*)at[1];
      float* out2 = (float*)at[2];
      float* out3 = (float*)at[3];
      const i64 first = block * 4096;
#pragma unroll
      for (int share = 0; share < 4; ++share) {
        const i64 e = first + ((i64)share * 256 + threadIdx.x) * 4;
        if (e + 4 <= elements) {
          Pack<float, 4> to0;
          Pack<float, 4> to1;
          Pack<float, 4> to2;
          Pack<float, 4> to3;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const F s0_0 = F(0.0f);
            const F m0 = s0_0;
            Put(to0.at[j], m0);
            const F s1_0 = F(0.0f);
            const F m1 = s1_0;
            Put(to1.at[j], m1);
            const F s2_0 = F(0.0f);
            const F m2 = s2_0;
            Put(to2.at[j], m2);
            const F s3_0 = F(0.0f);
            const F m3 = s3_0;
            Put(to3.at[j], m3);
          }
          Store((Pack<float, 4>*)(out0 + e), to0);
          Store((Pack<float, 4>*)(out1 + e), to1);
          Store((Pack<float, 4>*)(out2 + e), to2);
          Store((Pack<float, 4>*)(out3 + e), to3);
        } else {
          for (int j = 0; e + j < elements; ++j) {
            const F s0_0 = F(0.0f);
            const F m0 = s0_0;
            Put(out0[e + j], m0);
            const F s1_0 = F(0.0f);
            const F m1 = s1_0;
            Put(out1[e + j], m1);
            const F s2_0 = F(0.0f);
            const F m2 = s2_0;
            Put(out2[e + j], m2);
            const F s3_0 = F(0.0f);
            const F m3 = s3_0;
            Put(out3[e + j], m3);
          }
        }
      }
      break;
    }
    case 2: {
      float* out0 = (float*)at[0];
      float* out1 = (float*)at[1];
      float* out2 = (float*)at[2];
      float* out3 = (float*)at[3];
      float* out4 = (float*)at[4];
      float* out5 = (float*)at[5];
      const i64 first = block * 4096;
#pragma unroll
      for (int share = 0; share < 4; ++share) {
        const i64 e = first + ((i64)share * 256 + threadIdx.x) * 4;
        if (e + 4 <= elements) {
          Pack<float, 4> to0;
          Pack<float, 4> to1;
          Pack<float, 4> to2;
          Pack<float, 4> to3;
          Pack<float, 4> to4;
          Pack<float, 4> to5;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const F s0_0 = F(0.0f);
            const F m0 = s0_0;
            Put(to0.at[j], m0);
            const F s1_0 = F(0.0f);
            const F m1 = s1_0;
            Put(to1.at[j], m1);
            const F s2_0 = F(0.0f);
            const F m2 = s2_0;
            Put(to2.at[j], m2);
            const F s3_0 = F(0.0f);
            const F m3 = s3_0;
            Put(to3.at[j], m3);
            const F s4_0 = F(0.0f);
            const F m4 = s4_0;
            Put(to4.at[j], m4);
            const F s5_0 = F(0.0f);
            const F m5 = s5_0;
            Put(to5.at[j], m5);
          }
          Store((Pack<float, 4>*)(out0 + e), to0);
          Store((Pack<float, 4>*)(out1 + e), to1);
          Store((Pack<float, 4>*)(out2 + e), to2);
          Store((Pack<float, 4>*)(out3 + e), to3);
          Store((Pack<float, 4>*)(out4 + e), to4);
          Store((Pack<float, 4>*)(out5 + e), to5);
        } else {
          for (int j = 0; e + j < elements; ++j) {
            const F s0_0 = F(0.0f);
            const F m0 = s0_0;
            Put(out0[e + j], m0);
            const F s1_0 = F(0.0f);
            const F m1 = s1_0;
            Put(out1[e + j], m1);
            const F s2_0 = F(0.0f);
            const F m2 = s2_0;
            Put(out2[e + j], m2);
            const F s3_0 = F(0.0f);
            const F m3 = s3_0;
            Put(out3[e + j], m3);
            const F s4_0 = F(0.0f);
            const F m4 = s4_0;
            Put(out4[e + j], m4);
            const F s5_0 = F(0.0f);
            const F m5 = s5_0;
            Put(out5[e + j], m5);
          }
        }
      }
      break;
    }
  }
}


// after basic

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map_batch(const i64* __restrict__ x0) {
  int low = 0, high = 1;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (x0[(i64)middle * 5] <= (i64)blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const i64* section = x0 + (i64)low * 5;
  const i64 elements = section[2];
  const i64* at = section + 3;
  const i64 block = (i64)blockIdx.x - section[0];
  switch (section[1]) {
    case 0: {
      float* out0 = (float*)at[0];
      float* out1 = (float*)at[1];
      const i64 first = block * 4096;
#pragma unroll
      for (int share = 0; share < 4; ++share) {
        const i64 e = first + ((i64)share * 256 + threadIdx.x) * 4;
        if (e + 4 <= elements) {
          Pack<float, 4> to0;
          Pack<float, 4> to1;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const F s0_0 = F(1.0f);
            const F m0 = s0_0;
            Put(to0.at[j], m0);
            const F s1_0 = F(0.0f);
            const F m1 = s1_0;
            Put(to1.at[j], m1);
          }
          Store((Pack<float, 4>*)(out0 + e), to0);
          Store((Pack<float, 4>*)(out1 + e), to1);
        } else {
          for (int j = 0; e + j < elements; ++j) {
            const F s0_0 = F(1.0f);
            const F m0 = s0_0;
            Put(out0[e + j], m0);
            const F s1_0 = F(0.0f);
            const F m1 = s1_0;
            Put(out1[e + j], m1);
          }
        }
      }
      break;
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
    const int* __restrict__ x3) {
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 2048; i += (Index)gridDim.x * 256) {
    i64 row = -1;
    if (true) {
      const i64 index = Rounded<i64>(Value(x3[i])).v;
      row = index;
      if (index < 0 || index >= 256) {
        row = -1;
      } else if (row < 0 || row >= 256) {
        row = -1;
      }
    }
    if (row >= 0) {
      const Index d = ((Index)(0) * 256 + (Index)row);
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
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 262144; i += (Index)gridDim.x * 256) {
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
  for (Index i = (Index)blockIdx.x * 256 + threadIdx.x; i < 65536; i += (Index)gridDim.x * 256) {
    const u64 element = (u64)(n0 + i);
    const Words words = PhiloxAt(x0[0], (u32)n1, 0u, element);
    Put(y0[i], Normal(words));
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
  __shared__ double shared[32];
  for (Index unit = blockIdx.x; unit < 1; unit += gridDim.x) {
    const Index part = unit % 1, o = unit / 1;
    const Index end = part == 0 ? 512 : (part + 1) * 512;
    double total = 0.0;
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
    for (Index n = part * 512 + threadIdx.x; n < end;) {
      float run = 0.0;
      if (n + 256 < end) {
#pragma unroll 4
        for (int k = 0; k < 2; ++k, n += 256) add(n, run);
      } else {
        for (; n < end; n += 256) add(n, run);
      }
      total = Sum::Of(total, (double)run);
    }
    total = AcrossBlock<Sum, 256>(total, shared);
    if (threadIdx.x == 0) Put(y0[0], Register(total));
  }
}


// after basic, reduce
template <class T>
__device__ inline auto RowAdd(T x, T y) {
  return x + y;
}
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
          const float* in7,
          float* out9,
          float* partial) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  const int lane = threadIdx.x % 32;
  for (i64 stripe = (i64)blockIdx.x * 4 + threadIdx.x / 32; stripe < 256; stripe += (i64)gridDim.x * 4) {
    float sum1[2][4] = {};
    float sum3[2][4] = {};
    const i64 end = stripe == 255 ? 2048 : (stripe + 1) * 8;
    for (i64 row = stripe * 8; row < end; ++row) {
      const i64 row0 = row / 128 % 16;
      (void)row0;
      const i64 row1 = row / 1 % 128;
      (void)row1;
      const F x3 = Value(in3[row0 * 128LL + row1 * 1LL]);
      const F x5 = Value(in5[row0 * 128LL + row1 * 1LL]);
      const F x6 = Value(in6[row0 * 128LL + row1 * 1LL]);
      F kx0[2][4];
      F kx1[2][4];
      F kx2[2][4];
      F kx4[2][4];
      F km0[2][4];
      F km2[2][4];
      double total4 = 0.0;
      #pragma unroll
      for (int share = 0; share < 2; ++share) {
        const int pack = lane + share * 32;
        if (pack >= 64) continue;
        const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
        const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
        const Pack<float, 4> pack2 = *(const Pack<float, 4>*)(in2 + (0) + (i64)pack * 4);
        const Pack<float, 4> pack4 = *(const Pack<float, 4>*)(in4 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
        float run4 = 0.0;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int column = pack * 4 + j;
          (void)column;
          const F x0 = Value(pack0.at[j]);
          kx0[share][j] = x0;
          const F x1 = Value(pack1.at[j]);
          kx1[share][j] = x1;
          const F x2 = Value(pack2.at[j]);
          kx2[share][j] = x2;
          const F x4 = Value(pack4.at[j]);
          kx4[share][j] = x4;
          const F s0_0 = RowAdd(x0, x1);
          const F m0 = s0_0;
          km0[share][j] = m0;
          const F s2_0 = RowMultiply(m0, x2);
          const F m2 = s2_0;
          km2[share][j] = m2;
          const F s4_0 = RowSubtract(x4, x5);
          const F s4_1 = RowMultiply(m2, s4_0);
          run4 = Sum::Of(run4, Plain(s4_1));
          const F s1_0 = RowIdentity(m0);
          sum1[share][j] = Sum::Of(sum1[share][j], Plain(s1_0));
          const F s3_0 = RowSubtract(x4, x5);
          const F s3_1 = RowMultiply(s3_0, x3);
          const F s3_2 = RowMultiply(m0, s3_1);
          sum3[share][j] = Sum::Of(sum3[share][j], Plain(s3_2));
        }
        total4 = Sum::Of(total4, (double)run4);
      }
      total4 = AcrossBlock<Sum, 32>(total4, shared_double);
      const F m4 = Rounded<float>(Register(total4));
      const F s5_0 = F(-0.5f);
      const F s5_1 = RowMultiply(s5_0, m4);
      const F s5_2 = RowMultiply(s5_1, x3);
      const F s5_3 = RowDivide(s5_2, x6);
      const F s5_4 = F(256.0f);
      const F s5_5 = RowDivide(s5_3, s5_4);
      const F m5 = s5_5;
      F km6[2][4];
      double total7 = 0.0;
      #pragma unroll
      for (int share = 0; share < 2; ++share) {
        const int pack = lane + share * 32;
        if (pack >= 64) continue;
        float run7 = 0.0;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int column = pack * 4 + j;
          (void)column;
          const F x4 = kx4[share][j];
          const F m2 = km2[share][j];
          const F s6_0 = RowSubtract(x4, x5);
          const F s6_1 = RowIdentity(m5);
          const F s6_2 = F(2.0f);
          const F s6_3 = RowMultiply(s6_2, s6_1);
          const F s6_4 = RowMultiply(s6_3, s6_0);
          const F s6_5 = RowMultiply(m2, x3);
          const F s6_6 = RowAdd(s6_5, s6_4);
          const F m6 = s6_6;
          km6[share][j] = m6;
          const F s7_0 = RowNegate(m6);
          run7 = Sum::Of(run7, Plain(s7_0));
        }
        total7 = Sum::Of(total7, (double)run7);
      }
      total7 = AcrossBlock<Sum, 32>(total7, shared_double);
      const F m7 = Rounded<float>(Register(total7));
      const F s8_0 = F(256.0f);
      const F s8_1 = RowDivide(m7, s8_0);
      const F m8 = s8_1;
      #pragma unroll
      for (int share = 0; share < 2; ++share) {
        const int pack = lane + share * 32;
        if (pack >= 64) continue;
        const Pack<float, 4> pack7 = *(const Pack<float, 4>*)(in7 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
        Pack<float, 4> to9;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int column = pack * 4 + j;
          (void)column;
          const F x7 = Value(pack7.at[j]);
          const F m6 = km6[share][j];
          const F s9_0 = RowIdentity(m8);
          const F s9_1 = RowAdd(x7, m6);
          const F s9_2 = RowAdd(s9_1, s9_0);
          const F m9 = s9_2;
          Put(to9.at[j], m9);
        }
        Store((Pack<float, 4>*)(out9 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4), to9);
      }
    }
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      Pack<float, 4> to1;
      #pragma unroll
      for (int j = 0; j < 4; ++j) to1.at[j] = sum1[share][j];
      Store((Pack<float, 4>*)(partial + (0 + stripe) * 256 + (i64)pack * 4), to1);
      Pack<float, 4> to3;
      #pragma unroll
      for (int j = 0; j < 4; ++j) to3.at[j] = sum3[share][j];
      Store((Pack<float, 4>*)(partial + (256 + stripe) * 256 + (i64)pack * 4), to3);
    }
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
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 16384; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 1024 % 16;
    (void)row0;
    const i64 row1 = row / 128 % 8;
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
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 131072LL + row1 * 16384LL + row2 * 128LL) + (i64)pack * 4);
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
      Store((Pack<float, 4>*)(out3 + (row0 * 131072LL + row1 * 16384LL + row2 * 128LL) + (i64)pack * 4), to3);
      Store((Pack<float, 4>*)(out6 + (row0 * 131072LL + row1 * 16384LL + row2 * 128LL) + (i64)pack * 4), to6);
    }
    if (lane == 0) Put(out4[row0 * 1024LL + row1 * 128LL + row2 * 1LL], m4);
    if (lane == 0) Put(out5[row0 * 1024LL + row1 * 128LL + row2 * 1LL], m5);
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
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 2048; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 128 % 16;
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
__device__ inline auto RowEqual(T x, T y) {
  return Equal(x, y);
}
template <class T>
__device__ inline auto RowExp(T x) {
  return Exp(x);
}
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
template <class T>
__device__ inline auto RowNegate(T x) {
  return -x;
}
template <class T>
__device__ inline auto RowAdd(T x, T y) {
  return x + y;
}
extern "C" __global__ void __launch_bounds__(128)
row_group(const float* in0,
          const int* in1,
          float* out6,
          float* out7,
          float* out9) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  const int lane = threadIdx.x % 32;
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 2048; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 128 % 16;
    (void)row0;
    const i64 row1 = row / 1 % 128;
    (void)row1;
    const I x1 = Value(in1[row0 * 128LL + row1 * 1LL]);
    F kx0[2][4];
    float total0 = -kInfinity;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
      float run0 = -kInfinity;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        kx0[share][j] = x0;
        const F s0_0 = RowIdentity(x0);
        run0 = Max::Of(run0, Plain(s0_0));
      }
      total0 = Max::Of(total0, (float)run0);
    }
    total0 = AcrossBlock<Max, 32>(total0, shared_float);
    const F m0 = Rounded<float>(Register(total0));
    const F s1_0 = F(-3.40282347e+38f);
    const F s1_1 = RowMaximum(m0, s1_0);
    const F m1 = s1_1;
    F km2[2][4];
    bool km3[2][4];
    F km4[2][4];
    double total5 = 0.0;
    double total6 = 0.0;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      float run5 = 0.0;
      float run6 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x0 = kx0[share][j];
        const F s2_0 = RowSubtract(x0, m1);
        const F m2 = s2_0;
        km2[share][j] = m2;
        const I s3_0 = Rounded<int>(I(0LL + column));
        const bool s3_1 = RowEqual(x1, s3_0);
        const bool m3 = s3_1;
        km3[share][j] = m3;
        const F s4_0 = RowExp(m2);
        const F m4 = s4_0;
        km4[share][j] = m4;
        const F s5_0 = RowIdentity(m4);
        run5 = Sum::Of(run5, Plain(s5_0));
        const F s6_0 = F(0.0f);
        const F s6_1 = Select(m3, m2, s6_0);
        run6 = Sum::Of(run6, Plain(s6_1));
      }
      total5 = Sum::Of(total5, (double)run5);
      total6 = Sum::Of(total6, (double)run6);
    }
    total5 = AcrossBlock<Sum, 32>(total5, shared_double);
    const F m5 = Rounded<float>(Register(total5));
    total6 = AcrossBlock<Sum, 32>(total6, shared_double);
    const F m6 = Rounded<float>(Register(total6));
    const F s7_0 = F(0.5f);
    const F s7_1 = RowMaximum(m5, s7_0);
    const F m7 = s7_1;
    const F s8_0 = F(1.0f);
    const F s8_1 = F(2048.0f);
    const F s8_2 = RowDivide(s8_0, s8_1);
    const F s8_3 = RowDivide(s8_2, m7);
    const F s8_4 = F(0.5f);
    const F s8_5 = RowMultiply(s8_4, s8_3);
    const F s8_6 = F(0.5f);
    const bool s8_7 = RowLess(m5, s8_6);
    const F s8_8 = F(0.0f);
    const F s8_9 = Select(s8_7, s8_8, s8_5);
    const F s8_10 = F(0.5f);
    const bool s8_11 = RowGreater(m5, s8_10);
    const F s8_12 = Select(s8_11, s8_3, s8_9);
    const F m8 = s8_12;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      Pack<float, 4> to9;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const bool m3 = km3[share][j];
        const F m4 = km4[share][j];
        const F s9_0 = F(1.0f);
        const F s9_1 = F(2048.0f);
        const F s9_2 = RowDivide(s9_0, s9_1);
        const F s9_3 = RowNegate(s9_2);
        const F s9_4 = F(0.0f);
        const F s9_5 = Select(m3, s9_3, s9_4);
        const F s9_6 = RowIdentity(m8);
        const F s9_7 = RowMultiply(s9_6, m4);
        const F s9_8 = RowAdd(s9_7, s9_5);
        const F m9 = s9_8;
        Put(to9.at[j], m9);
      }
      Store((Pack<float, 4>*)(out9 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4), to9);
    }
    if (lane == 0) Put(out6[row0 * 128LL + row1 * 1LL], m6);
    if (lane == 0) Put(out7[row0 * 128LL + row1 * 1LL], m7);
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
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 16384; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 1024 % 16;
    (void)row0;
    const i64 row1 = row / 128 % 8;
    (void)row1;
    const i64 row2 = row / 1 % 128;
    (void)row2;
    const F x2 = Value(in2[row0 * 1024LL + row1 * 128LL + row2 * 1LL]);
    const F x3 = Value(in3[row0 * 1024LL + row1 * 128LL + row2 * 1LL]);
    F kx0[1][4];
    F kx1[1][4];
    double total0 = 0.0;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 32) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 131072LL + row1 * 16384LL + row2 * 128LL) + (i64)pack * 4);
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 131072LL + row1 * 16384LL + row2 * 128LL) + (i64)pack * 4);
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
      Store((Pack<float, 4>*)(out2 + (row0 * 131072LL + row1 * 16384LL + row2 * 128LL) + (i64)pack * 4), to2);
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
  for (i64 stripe = (i64)blockIdx.x * 4 + threadIdx.x / 32; stripe < 256; stripe += (i64)gridDim.x * 4) {
    float sum0[2][4] = {};
    float sum2[2][4] = {};
    const i64 end = stripe == 255 ? 2048 : (stripe + 1) * 8;
    for (i64 row = stripe * 8; row < end; ++row) {
      const i64 row0 = row / 128 % 16;
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
      Store((Pack<float, 4>*)(partial + (256 + stripe) * 256 + (i64)pack * 4), to2);
    }
  }
}


// after basic, combine

typedef int Index;
extern "C" __global__ void __launch_bounds__(1024)
row_sums(const float* __restrict__ x0,
    float* __restrict__ y0,
    float* __restrict__ y1) {
  __shared__ double shared[32][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (Index unit = blockIdx.x; unit < 16; unit += gridDim.x) {
    const Index sum = unit / 8, c = unit % 8 * 32 + lane;
    double total = 0.0;
    if (c < 256) {
#pragma unroll 8
      for (Index stripe = warp; stripe < 256; stripe += 32) {
        total = Sum::Of(total, (double)x0[(sum * 256 + stripe) * 256 + c]);
      }
    }
    shared[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && c < 256) {
      for (int w = 1; w < 32; ++w) total = Sum::Of(total, shared[w][lane]);
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
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 16384; n += (Index)gridDim.x * 256) {
    const Index d = n / 64, c = n % 64 * 4;
    const int start = x0[d], length = x1[d];
    if (length > 64) continue;
    const Index m = d / 256, row = d % 256;
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
    const Index m = d / 256, row = d % 256;
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

