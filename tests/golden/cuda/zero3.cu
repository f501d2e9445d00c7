// SPDX-License-Identifier: Apache-2.0
// matmul f32 batch 8 m 128 n 128 k 32 x 256+32 y t/256+32 z 128+16384
// matmul f32 batch 8 m 128 n 32 k 128 x 128+16384 y 256+32 z 256+32
// matmul f32 batch 8 m 128 n 32 k 128 x t/128+16384 y 256+32 z 256+32
// matmul f32 m 1024 n 256 k 512 x t/1024 y 256 z 256
// matmul f32 m 256 n 1024 k 512 x t/256 y 1024 z 1024
// matmul f32 m 256 n 256 k 512 x t/256 y 256 z 256
// matmul f32 m 512 n 1024 k 256 x 256 y 1024 z 1024
// matmul f32 m 512 n 1024 k 256 x 256 y t/256 z 1024
// matmul f32 m 512 n 256 k 1024 x 1024 y 256 z 256 beta 1
// matmul f32 m 512 n 256 k 1024 x 1024 y t/1024 z 256
// matmul f32 m 512 n 256 k 256 x 256 y 256 z 256
// matmul f32 m 512 n 256 k 256 x 256 y 256 z 256 beta 1
// matmul f32 m 512 n 256 k 256 x 256 y t/256 z 256

// after basic

template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* x0,
    float* y0) {
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
map(const float* x0,
    float* y0) {
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
map(const float* x0,
    float* y0) {
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
__device__ inline auto RowDivide(T x, T y) {
  return x / y;
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
          float* out7,
          float* partial) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  const int lane = threadIdx.x % 32;
  for (i64 stripe = (i64)blockIdx.x * 4 + threadIdx.x / 32; stripe < 64; stripe += (i64)gridDim.x * 4) {
    float sum1[2][4] = {};
    const i64 end = stripe == 63 ? 512 : (stripe + 1) * 8;
    for (i64 row = stripe * 8; row < end; ++row) {
      const i64 row0 = row / 128 % 4;
      (void)row0;
      const i64 row1 = row / 1 % 128;
      (void)row1;
      const F x2 = Value(in2[row0 * 128LL + row1 * 1LL]);
      const F x4 = Value(in4[row0 * 128LL + row1 * 1LL]);
      const F x5 = Value(in5[row0 * 128LL + row1 * 1LL]);
      F kx0[2][4];
      F kx1[2][4];
      F kx3[2][4];
      F km0[2][4];
      double total2 = 0.0;
      #pragma unroll
      for (int share = 0; share < 2; ++share) {
        const int pack = lane + share * 32;
        if (pack >= 64) continue;
        const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
        const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (0) + (i64)pack * 4);
        const Pack<float, 4> pack3 = *(const Pack<float, 4>*)(in3 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
        float run2 = 0.0;
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
          const F s0_0 = RowMultiply(x0, x1);
          const F m0 = s0_0;
          km0[share][j] = m0;
          const F s2_0 = RowSubtract(x3, x4);
          const F s2_1 = RowMultiply(m0, s2_0);
          run2 = Sum::Of(run2, Plain(s2_1));
          const F s1_0 = RowSubtract(x3, x4);
          const F s1_1 = RowMultiply(s1_0, x2);
          const F s1_2 = RowMultiply(x0, s1_1);
          sum1[share][j] = Sum::Of(sum1[share][j], Plain(s1_2));
        }
        total2 = Sum::Of(total2, (double)run2);
      }
      total2 = AcrossBlock<Sum, 32>(total2, shared_double);
      const F m2 = Rounded<float>(Register(total2));
      const F s3_0 = F(-0.5f);
      const F s3_1 = RowMultiply(s3_0, m2);
      const F s3_2 = RowMultiply(s3_1, x2);
      const F s3_3 = RowDivide(s3_2, x5);
      const F s3_4 = F(256.0f);
      const F s3_5 = RowDivide(s3_3, s3_4);
      const F m3 = s3_5;
      F km4[2][4];
      double total5 = 0.0;
      #pragma unroll
      for (int share = 0; share < 2; ++share) {
        const int pack = lane + share * 32;
        if (pack >= 64) continue;
        float run5 = 0.0;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int column = pack * 4 + j;
          (void)column;
          const F x3 = kx3[share][j];
          const F m0 = km0[share][j];
          const F s4_0 = RowSubtract(x3, x4);
          const F s4_1 = RowIdentity(m3);
          const F s4_2 = F(2.0f);
          const F s4_3 = RowMultiply(s4_2, s4_1);
          const F s4_4 = RowMultiply(s4_3, s4_0);
          const F s4_5 = RowMultiply(m0, x2);
          const F s4_6 = RowAdd(s4_5, s4_4);
          const F m4 = s4_6;
          km4[share][j] = m4;
          const F s5_0 = RowNegate(m4);
          run5 = Sum::Of(run5, Plain(s5_0));
        }
        total5 = Sum::Of(total5, (double)run5);
      }
      total5 = AcrossBlock<Sum, 32>(total5, shared_double);
      const F m5 = Rounded<float>(Register(total5));
      const F s6_0 = F(256.0f);
      const F s6_1 = RowDivide(m5, s6_0);
      const F m6 = s6_1;
      #pragma unroll
      for (int share = 0; share < 2; ++share) {
        const int pack = lane + share * 32;
        if (pack >= 64) continue;
        const Pack<float, 4> pack6 = *(const Pack<float, 4>*)(in6 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4);
        Pack<float, 4> to7;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int column = pack * 4 + j;
          (void)column;
          const F x6 = Value(pack6.at[j]);
          const F m4 = km4[share][j];
          const F s7_0 = RowIdentity(m6);
          const F s7_1 = RowAdd(x6, m4);
          const F s7_2 = RowAdd(s7_1, s7_0);
          const F m7 = s7_2;
          Put(to7.at[j], m7);
        }
        Store((Pack<float, 4>*)(out7 + (row0 * 32768LL + row1 * 256LL) + (i64)pack * 4), to7);
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
    }
  }
}


// after basic, combine

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
row_sums(const float* __restrict__ x0,
    float* __restrict__ y0) {
  __shared__ double shared[8][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (Index unit = blockIdx.x; unit < 8; unit += gridDim.x) {
    const Index sum = unit / 8, c = unit % 8 * 32 + lane;
    double total = 0.0;
    if (c < 256) {
#pragma unroll 8
      for (Index stripe = warp; stripe < 64; stripe += 8) {
        total = Sum::Of(total, (double)x0[(sum * 64 + stripe) * 256 + c]);
      }
    }
    shared[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && c < 256) {
      for (int w = 1; w < 8; ++w) total = Sum::Of(total, shared[w][lane]);
      if (sum == 0) Put(y0[c], Register(total));
    }
    __syncthreads();
  }
}

