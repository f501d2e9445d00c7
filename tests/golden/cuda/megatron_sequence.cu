// SPDX-License-Identifier: Apache-2.0
// matmul f32 batch 16 m 128 n 128 k 32 x 64+8192 y t/64+8192 z 128+32768
// matmul f32 batch 16 m 128 n 32 k 128 x 128+32768 y 64+8192 z 64+8192
// matmul f32 batch 16 m 128 n 32 k 128 x t/128+32768 y 64+8192 z 64+8192
// matmul f32 m 2048 n 256 k 256 x 256 y 256 z 256
// matmul f32 m 2048 n 256 k 256 x 256 y t/256 z 256
// matmul f32 m 2048 n 256 k 64 x 64 y 256 z 256
// matmul f32 m 2048 n 256 k 64 x 64 y t/64 z 256
// matmul f32 m 2048 n 256 k 64 x 64 y t/64 z 256 beta 1
// matmul f32 m 2048 n 64 k 256 x 256 y 64 z 64
// matmul f32 m 2048 n 64 k 256 x 256 y t/256 z 64
// matmul f32 m 256 n 256 k 2048 x t/256 y 256 z 256
// matmul f32 m 256 n 64 k 2048 x t/256 y 64 z 64
// matmul f32 m 64 n 256 k 2048 x t/64 y 256 z 256

// after basic

constexpr int kPlaces = 4;
typedef Pack<u32, 4> Element;
struct Pointers {
  const Element* in[kPlaces];
  Element* out[kPlaces];
};

template <int n>
__device__ inline void Move(const Pointers& p, i64 packs, i64 i) {
#pragma unroll
  for (int q = 0; q < kPlaces; ++q) {
    const Element word = p.in[q][i];
#pragma unroll
    for (int to = 0; to < kPlaces; ++to) p.out[to][q * packs + i] = word;
  }
}
extern "C" __global__ void all_gather(const Element* in0, Element* out0, const Element* in1, Element* out1, const Element* in2, Element* out2, const Element* in3, Element* out3, i64 count) {
  const Pointers p = {{in0, in1, in2, in3}, {out0, out1, out2, out3}};
  const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  const i64 stride = (i64)gridDim.x * blockDim.x;
  for (i64 i = first; i < count / 1; i += stride) Move<1>(p, count / 1, i);
}


// after basic, reduce

typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
combine(const double* __restrict__ x0,
    float* __restrict__ y0) {
  const int lane = threadIdx.x % 32;
  for (Index first = (Index)blockIdx.x * 8; first < 256; first += (Index)gridDim.x * 8) {
    const Index i = first + threadIdx.x / 32;
    double total = 0.0;
    if (i < 256) {
#pragma unroll 4
      for (Index part = lane; part < 4; part += 32) {
        total = Sum::Of(total, x0[part * 256 + i]);
      }
    }
    total = AcrossLanes<Sum, 32>(total);
    if (lane == 0 && i < 256) {
      const Index o = i / 256, c = i % 256;
      Put(y0[c], Register(total));
    }
  }
}


// after basic

template <class T>
__device__ inline auto RowIdentity(T x) {
  return x;
}
template <class T>
__device__ inline auto RowAdd(T x, T y) {
  return x + y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* x0,
    const float* x1,
    const float* x2,
    float* y0) {
  for (Index first = (Index)blockIdx.x * 512 + threadIdx.x; first < 32768; first += (Index)gridDim.x * 512) {
    Pack<float, 4> p0[2];
    Pack<float, 4> p1[2];
    float p2[2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Index n = first + s * 256;
      if (n >= 32768) break;
      const Index i = n * 4;
      const Index i_0 = i / 256;
      p0[s] = *(const Pack<float, 4>*)(x0 + i);
      p1[s] = *(const Pack<float, 4>*)(x1 + i);
      p2[s] = x2[i_0];
    }
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Index n = first + s * 256;
      if (n >= 32768) break;
      const Index i = n * 4;
      const Index i_0 = i / 256;
      Pack<float, 4> q;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const F a0 = Value(p0[s].at[j]);
        const F a1 = Value(p1[s].at[j]);
        const F a2 = Value(p2[s]);
        const F t0 = RowIdentity(a2);
        const F t1 = RowAdd(a0, a1);
        const F t2 = RowAdd(t1, t0);
        Put(q.at[j], t2);
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
map(const float* x0,
    float* y0) {
  for (Index n = (Index)blockIdx.x * 256 + threadIdx.x; n < 512; n += (Index)gridDim.x * 256) {
    const Index i = n * 4;
    const Pack<float, 4> p0 = *(const Pack<float, 4>*)(x0 + i);
    Pack<float, 4> q;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const F a0 = Value(p0.at[j]);
      const F t0 = F(-3.40282347e+38f);
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
    const float* __restrict__ x1,
    float* __restrict__ y0) {
  for (Index first = (Index)blockIdx.x * 512 + threadIdx.x; first < 32768; first += (Index)gridDim.x * 512) {
    Pack<float, 4> p0[2];
    Pack<float, 4> p1[2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Index n = first + s * 256;
      if (n >= 32768) break;
      const Index i = n * 4;
      const Index i_1 = i % 256;
      p0[s] = *(const Pack<float, 4>*)(x0 + i);
      p1[s] = *(const Pack<float, 4>*)(x1 + i_1);
    }
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Index n = first + s * 256;
      if (n >= 32768) break;
      const Index i = n * 4;
      const Index i_1 = i % 256;
      Pack<float, 4> q;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const F a0 = Value(p0[s].at[j]);
        const F a1 = Value(p1[s].at[j]);
        const F t0 = RowMultiply(a0, a1);
        Put(q.at[j], t0);
      }
      *(Pack<float, 4>*)(y0 + i) = q;
    }
  }
}


// after basic

template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
map(const float* x0,
    const float* x1,
    float* y0) {
  for (Index first = (Index)blockIdx.x * 1024 + threadIdx.x; first < 32768; first += (Index)gridDim.x * 1024) {
    Pack<float, 4> p0[4];
    float p1[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 32768) break;
      const Index i = n * 4;
      const Index i_0 = i / 64;
      p0[s] = *(const Pack<float, 4>*)(x0 + i);
      p1[s] = x1[i_0];
    }
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const Index n = first + s * 256;
      if (n >= 32768) break;
      const Index i = n * 4;
      const Index i_0 = i / 64;
      Pack<float, 4> q;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const F a0 = Value(p0[s].at[j]);
        const F a1 = Value(p1[s]);
        const F t0 = RowSubtract(a0, a1);
        Put(q.at[j], t0);
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
  int low = 0, high = 13;
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
    case 2: {
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
  int low = 0, high = 1;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (x0[(i64)middle * 12] <= (i64)blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const i64* section = x0 + (i64)low * 12;
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
    double* __restrict__ y0) {
  __shared__ double shared[8][128];
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
  for (Index unit = blockIdx.x; unit < 8; unit += gridDim.x) {
    const Index tile = unit % 2, part = unit / 2 % 4, o = unit / 8;
    const Index c = (tile * 32 + lane) * 4;
    const Index end = part == 3 ? 512 : (part + 1) * 128;
    double total[4];
    for (int j = 0; j < 4; ++j) total[j] = 0.0;
    if (c < 256) {
      const auto add = [&](Index r, float (&run)[4]) {
        const Pack<float, 4> p0 = *(const Pack<float, 4>*)(x0 + r * 256 + c);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const F a0 = Value(p0.at[j]);
          const F t0 = RowIdentity(a0);
          run[j] = Sum::Of(run[j], Plain(t0));
        }
      };
      for (Index r = part * 128 + group; r < end;) {
        float run[4];
        for (int j = 0; j < 4; ++j) run[j] = 0.0;
        if (r + 120 < end) {
#pragma unroll 4
          for (int k = 0; k < 16; ++k, r += 8) add(r, run);
        } else {
          for (; r < end; r += 8) add(r, run);
        }
        for (int j = 0; j < 4; ++j) total[j] = Sum::Of(total[j], (double)run[j]);
      }
    }
    for (int j = 0; j < 4; ++j) shared[group][j * 32 + lane] = total[j];
    __syncthreads();
    for (int k = threadIdx.x; k < 128; k += 256) {
      const Index c = (tile * 32 + k % 32) * 4 + k / 32;
      if (c < 256) {
        double all = shared[0][k];
        for (int g = 1; g < 8; ++g) all = Sum::Of(all, shared[g][k]);
        y0[(part * 1 + o) * 256 + c] = all;
      }
    }
    __syncthreads();
  }
}


// after basic, reduce

template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
}
template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
}
typedef int Index;
extern "C" __global__ void __launch_bounds__(256)
reduce(const float* __restrict__ x0,
    const float* __restrict__ x1,
    const float* __restrict__ x2,
    const float* __restrict__ x3,
    double* __restrict__ y0) {
  __shared__ double shared[8][128];
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
  for (Index unit = blockIdx.x; unit < 8; unit += gridDim.x) {
    const Index tile = unit % 2, part = unit / 2 % 4, o = unit / 8;
    const Index c = (tile * 32 + lane) * 4;
    const Index end = part == 3 ? 512 : (part + 1) * 128;
    double total[4];
    for (int j = 0; j < 4; ++j) total[j] = 0.0;
    if (c < 256) {
      const auto add = [&](Index r, float (&run)[4]) {
        const Pack<float, 4> p0 = *(const Pack<float, 4>*)(x0 + r * 256 + c);
        const float p1 = x1[r];
        const Pack<float, 4> p2 = *(const Pack<float, 4>*)(x2 + r * 256 + c);
        const float p3 = x3[r];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const F a0 = Value(p0.at[j]);
          const F a1 = Value(p1);
          const F a2 = Value(p2.at[j]);
          const F a3 = Value(p3);
          const F t0 = RowSubtract(a2, a3);
          const F t1 = RowMultiply(t0, a1);
          const F t2 = RowMultiply(a0, t1);
          run[j] = Sum::Of(run[j], Plain(t2));
        }
      };
      for (Index r = part * 128 + group; r < end;) {
        float run[4];
        for (int j = 0; j < 4; ++j) run[j] = 0.0;
        if (r + 120 < end) {
#pragma unroll 4
          for (int k = 0; k < 16; ++k, r += 8) add(r, run);
        } else {
          for (; r < end; r += 8) add(r, run);
        }
        for (int j = 0; j < 4; ++j) total[j] = Sum::Of(total[j], (double)run[j]);
      }
    }
    for (int j = 0; j < 4; ++j) shared[group][j * 32 + lane] = total[j];
    __syncthreads();
    for (int k = threadIdx.x; k < 128; k += 256) {
      const Index c = (tile * 32 + k % 32) * 4 + k / 32;
      if (c < 256) {
        double all = shared[0][k];
        for (int g = 1; g < 8; ++g) all = Sum::Of(all, shared[g][k]);
        y0[(part * 1 + o) * 256 + c] = all;
      }
    }
    __syncthreads();
  }
}


// after basic

constexpr int kPlaces = 4;
typedef float Element;
struct Pointers {
  const Element* in[kPlaces];
  Element* out[kPlaces];
};

template <int n>
__device__ inline Pack<Element, n>& At(Element* p, i64 i) {
  return ((Pack<Element, n>*)p)[i];
}
template <int n>
__device__ inline const Pack<Element, n>& At(const Element* p, i64 i) {
  return ((const Pack<Element, n>*)p)[i];
}
// In the order of places, rounded once.
template <int n>
__device__ inline Pack<Element, n> Combined(const Pointers& p, i64 i) {
  F total[n];
  const Pack<Element, n> first = At<n>(p.in[0], i);
  for (int j = 0; j < n; ++j) total[j] = Value(first.at[j]);
#pragma unroll
  for (int q = 1; q < kPlaces; ++q) {
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
#pragma unroll
  for (int q = 0; q < kPlaces; ++q) {
    At<n>(p.out[q], i) = Combined<n>(p, q * packs + i);
  }
}
extern "C" __global__ void reduce_scatter(const Element* in0, Element* out0, const Element* in1, Element* out1, const Element* in2, Element* out2, const Element* in3, Element* out3, i64 count) {
  const Pointers p = {{in0, in1, in2, in3}, {out0, out1, out2, out3}};
  const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  const i64 stride = (i64)gridDim.x * blockDim.x;
  for (i64 i = first; i < count / 4; i += stride) Move<4>(p, count / 4, i);
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
    const i64 row0 = row / 32 % 16;
    (void)row0;
    const i64 row1 = row / 1 % 32;
    (void)row1;
    F kx0[2][4];
    F kx1[2][4];
    F km0[2][4];
    double total1 = 0.0;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4);
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4);
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
      Store((Pack<float, 4>*)(out0 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4), to0);
      Store((Pack<float, 4>*)(out7 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4), to7);
    }
    if (lane == 0) Put(out2[row0 * 32LL + row1 * 1LL], m2);
    if (lane == 0) Put(out5[row0 * 32LL + row1 * 1LL], m5);
    if (lane == 0) Put(out6[row0 * 32LL + row1 * 1LL], m6);
  }
}


// after basic, reduce
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
row_group(const int* in0,
          const float* in1,
          Bool* out0,
          float* out1,
          float* out2,
          float* out3) {
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
    const I x0 = Value(in0[row0 * 128LL + row1 * 1LL]);
    F kx1[1][4];
    bool km0[1][4];
    F km1[1][4];
    double total2 = 0.0;
    double total3 = 0.0;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 16) continue;
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 8192LL + row1 * 64LL) + (i64)pack * 4);
      float run2 = 0.0;
      float run3 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x1 = Value(pack1.at[j]);
        kx1[share][j] = x1;
        const I s0_0 = Rounded<int>(I(0LL + column));
        const bool s0_1 = RowEqual(x0, s0_0);
        const bool m0 = s0_1;
        km0[share][j] = m0;
        const F s1_0 = RowExp(x1);
        const F m1 = s1_0;
        km1[share][j] = m1;
        const F s2_0 = RowIdentity(m1);
        run2 = Sum::Of(run2, Plain(s2_0));
        const F s3_0 = F(0.0f);
        const F s3_1 = Select(m0, x1, s3_0);
        run3 = Sum::Of(run3, Plain(s3_1));
      }
      total2 = Sum::Of(total2, (double)run2);
      total3 = Sum::Of(total3, (double)run3);
    }
    total2 = AcrossBlock<Sum, 32>(total2, shared_double);
    const F m2 = Rounded<float>(Register(total2));
    total3 = AcrossBlock<Sum, 32>(total3, shared_double);
    const F m3 = Rounded<float>(Register(total3));
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 16) continue;
      Pack<Bool, 4> to0;
      Pack<float, 4> to1;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const bool m0 = km0[share][j];
        const F m1 = km1[share][j];
        Put(to0.at[j], m0);
        Put(to1.at[j], m1);
      }
      Store((Pack<Bool, 4>*)(out0 + (row0 * 8192LL + row1 * 64LL) + (i64)pack * 4), to0);
      Store((Pack<float, 4>*)(out1 + (row0 * 8192LL + row1 * 64LL) + (i64)pack * 4), to1);
    }
    if (lane == 0) Put(out2[row0 * 128LL + row1 * 1LL], m2);
    if (lane == 0) Put(out3[row0 * 128LL + row1 * 1LL], m3);
  }
}


// after basic, reduce
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
row_group(const int* in0,
          const float* in1,
          Bool* out0,
          float* out1,
          float* out2,
          float* out3) {
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
    const I x0 = Value(in0[row0 * 128LL + row1 * 1LL]);
    F kx1[1][4];
    bool km0[1][4];
    F km1[1][4];
    double total2 = 0.0;
    double total3 = 0.0;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 16) continue;
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 8192LL + row1 * 64LL) + (i64)pack * 4);
      float run2 = 0.0;
      float run3 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x1 = Value(pack1.at[j]);
        kx1[share][j] = x1;
        const I s0_0 = Rounded<int>(I(128LL + column));
        const bool s0_1 = RowEqual(x0, s0_0);
        const bool m0 = s0_1;
        km0[share][j] = m0;
        const F s1_0 = RowExp(x1);
        const F m1 = s1_0;
        km1[share][j] = m1;
        const F s2_0 = RowIdentity(m1);
        run2 = Sum::Of(run2, Plain(s2_0));
        const F s3_0 = F(0.0f);
        const F s3_1 = Select(m0, x1, s3_0);
        run3 = Sum::Of(run3, Plain(s3_1));
      }
      total2 = Sum::Of(total2, (double)run2);
      total3 = Sum::Of(total3, (double)run3);
    }
    total2 = AcrossBlock<Sum, 32>(total2, shared_double);
    const F m2 = Rounded<float>(Register(total2));
    total3 = AcrossBlock<Sum, 32>(total3, shared_double);
    const F m3 = Rounded<float>(Register(total3));
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 16) continue;
      Pack<Bool, 4> to0;
      Pack<float, 4> to1;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const bool m0 = km0[share][j];
        const F m1 = km1[share][j];
        Put(to0.at[j], m0);
        Put(to1.at[j], m1);
      }
      Store((Pack<Bool, 4>*)(out0 + (row0 * 8192LL + row1 * 64LL) + (i64)pack * 4), to0);
      Store((Pack<float, 4>*)(out1 + (row0 * 8192LL + row1 * 64LL) + (i64)pack * 4), to1);
    }
    if (lane == 0) Put(out2[row0 * 128LL + row1 * 1LL], m2);
    if (lane == 0) Put(out3[row0 * 128LL + row1 * 1LL], m3);
  }
}


// after basic, reduce
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
row_group(const int* in0,
          const float* in1,
          Bool* out0,
          float* out1,
          float* out2,
          float* out3) {
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
    const I x0 = Value(in0[row0 * 128LL + row1 * 1LL]);
    F kx1[1][4];
    bool km0[1][4];
    F km1[1][4];
    double total2 = 0.0;
    double total3 = 0.0;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 16) continue;
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 8192LL + row1 * 64LL) + (i64)pack * 4);
      float run2 = 0.0;
      float run3 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x1 = Value(pack1.at[j]);
        kx1[share][j] = x1;
        const I s0_0 = Rounded<int>(I(192LL + column));
        const bool s0_1 = RowEqual(x0, s0_0);
        const bool m0 = s0_1;
        km0[share][j] = m0;
        const F s1_0 = RowExp(x1);
        const F m1 = s1_0;
        km1[share][j] = m1;
        const F s2_0 = RowIdentity(m1);
        run2 = Sum::Of(run2, Plain(s2_0));
        const F s3_0 = F(0.0f);
        const F s3_1 = Select(m0, x1, s3_0);
        run3 = Sum::Of(run3, Plain(s3_1));
      }
      total2 = Sum::Of(total2, (double)run2);
      total3 = Sum::Of(total3, (double)run3);
    }
    total2 = AcrossBlock<Sum, 32>(total2, shared_double);
    const F m2 = Rounded<float>(Register(total2));
    total3 = AcrossBlock<Sum, 32>(total3, shared_double);
    const F m3 = Rounded<float>(Register(total3));
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 16) continue;
      Pack<Bool, 4> to0;
      Pack<float, 4> to1;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const bool m0 = km0[share][j];
        const F m1 = km1[share][j];
        Put(to0.at[j], m0);
        Put(to1.at[j], m1);
      }
      Store((Pack<Bool, 4>*)(out0 + (row0 * 8192LL + row1 * 64LL) + (i64)pack * 4), to0);
      Store((Pack<float, 4>*)(out1 + (row0 * 8192LL + row1 * 64LL) + (i64)pack * 4), to1);
    }
    if (lane == 0) Put(out2[row0 * 128LL + row1 * 1LL], m2);
    if (lane == 0) Put(out3[row0 * 128LL + row1 * 1LL], m3);
  }
}


// after basic, reduce
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
row_group(const int* in0,
          const float* in1,
          Bool* out0,
          float* out1,
          float* out2,
          float* out3) {
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
    const I x0 = Value(in0[row0 * 128LL + row1 * 1LL]);
    F kx1[1][4];
    bool km0[1][4];
    F km1[1][4];
    double total2 = 0.0;
    double total3 = 0.0;
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 16) continue;
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 8192LL + row1 * 64LL) + (i64)pack * 4);
      float run2 = 0.0;
      float run3 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x1 = Value(pack1.at[j]);
        kx1[share][j] = x1;
        const I s0_0 = Rounded<int>(I(64LL + column));
        const bool s0_1 = RowEqual(x0, s0_0);
        const bool m0 = s0_1;
        km0[share][j] = m0;
        const F s1_0 = RowExp(x1);
        const F m1 = s1_0;
        km1[share][j] = m1;
        const F s2_0 = RowIdentity(m1);
        run2 = Sum::Of(run2, Plain(s2_0));
        const F s3_0 = F(0.0f);
        const F s3_1 = Select(m0, x1, s3_0);
        run3 = Sum::Of(run3, Plain(s3_1));
      }
      total2 = Sum::Of(total2, (double)run2);
      total3 = Sum::Of(total3, (double)run3);
    }
    total2 = AcrossBlock<Sum, 32>(total2, shared_double);
    const F m2 = Rounded<float>(Register(total2));
    total3 = AcrossBlock<Sum, 32>(total3, shared_double);
    const F m3 = Rounded<float>(Register(total3));
    #pragma unroll
    for (int share = 0; share < 1; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 16) continue;
      Pack<Bool, 4> to0;
      Pack<float, 4> to1;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const bool m0 = km0[share][j];
        const F m1 = km1[share][j];
        Put(to0.at[j], m0);
        Put(to1.at[j], m1);
      }
      Store((Pack<Bool, 4>*)(out0 + (row0 * 8192LL + row1 * 64LL) + (i64)pack * 4), to0);
      Store((Pack<float, 4>*)(out1 + (row0 * 8192LL + row1 * 64LL) + (i64)pack * 4), to1);
    }
    if (lane == 0) Put(out2[row0 * 128LL + row1 * 1LL], m2);
    if (lane == 0) Put(out3[row0 * 128LL + row1 * 1LL], m3);
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
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 512; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 32 % 16;
    (void)row0;
    const i64 row1 = row / 1 % 32;
    (void)row1;
    F kx0[2][4];
    double total0 = 0.0;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4);
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
      Store((Pack<float, 4>*)(out6 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4), to6);
    }
    if (lane == 0) Put(out1[row0 * 32LL + row1 * 1LL], m1);
    if (lane == 0) Put(out4[row0 * 32LL + row1 * 1LL], m4);
    if (lane == 0) Put(out5[row0 * 32LL + row1 * 1LL], m5);
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
  for (i64 stripe = (i64)blockIdx.x * 4 + threadIdx.x / 32; stripe < 64; stripe += (i64)gridDim.x * 4) {
    float sum0[2][4] = {};
    float sum2[2][4] = {};
    const i64 end = stripe == 63 ? 512 : (stripe + 1) * 8;
    for (i64 row = stripe * 8; row < end; ++row) {
      const i64 row0 = row / 32 % 16;
      (void)row0;
      const i64 row1 = row / 1 % 32;
      (void)row1;
      const F x2 = Value(in2[row0 * 32LL + row1 * 1LL]);
      const F x4 = Value(in4[row0 * 32LL + row1 * 1LL]);
      const F x5 = Value(in5[row0 * 32LL + row1 * 1LL]);
      F kx0[2][4];
      F kx1[2][4];
      F kx3[2][4];
      F km1[2][4];
      double total3 = 0.0;
      #pragma unroll
      for (int share = 0; share < 2; ++share) {
        const int pack = lane + share * 32;
        if (pack >= 64) continue;
        const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4);
        const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (0) + (i64)pack * 4);
        const Pack<float, 4> pack3 = *(const Pack<float, 4>*)(in3 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4);
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
        const Pack<float, 4> pack6 = *(const Pack<float, 4>*)(in6 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4);
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
        Store((Pack<float, 4>*)(out8 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4), to8);
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
      Store((Pack<float, 4>*)(partial + (64 + stripe) * 256 + (i64)pack * 4), to2);
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
          float* out5,
          float* out7,
          float* partial) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  const int lane = threadIdx.x % 32;
  for (i64 stripe = (i64)blockIdx.x * 4 + threadIdx.x / 32; stripe < 64; stripe += (i64)gridDim.x * 4) {
    float sum0[2][4] = {};
    float sum2[2][4] = {};
    const i64 end = stripe == 63 ? 512 : (stripe + 1) * 8;
    for (i64 row = stripe * 8; row < end; ++row) {
      const i64 row0 = row / 32 % 16;
      (void)row0;
      const i64 row1 = row / 1 % 32;
      (void)row1;
      const F x2 = Value(in2[row0 * 32LL + row1 * 1LL]);
      const F x4 = Value(in4[row0 * 32LL + row1 * 1LL]);
      const F x5 = Value(in5[row0 * 32LL + row1 * 1LL]);
      F kx0[2][4];
      F kx1[2][4];
      F kx3[2][4];
      F km1[2][4];
      double total3 = 0.0;
      #pragma unroll
      for (int share = 0; share < 2; ++share) {
        const int pack = lane + share * 32;
        if (pack >= 64) continue;
        const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4);
        const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (0) + (i64)pack * 4);
        const Pack<float, 4> pack3 = *(const Pack<float, 4>*)(in3 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4);
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
        Pack<float, 4> to5;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int column = pack * 4 + j;
          (void)column;
          const F m5 = km5[share][j];
          Put(to5.at[j], m5);
        }
        Store((Pack<float, 4>*)(out5 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4), to5);
      }
      if (lane == 0) Put(out7[row0 * 32LL + row1 * 1LL], m7);
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
      Store((Pack<float, 4>*)(partial + (64 + stripe) * 256 + (i64)pack * 4), to2);
    }
  }
}


// after basic, reduce
template <class T>
__device__ inline auto RowSubtract(T x, T y) {
  return x - y;
}
template <class T>
__device__ inline auto RowMultiply(T x, T y) {
  return x * y;
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
          float* out5) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  const int lane = threadIdx.x % 32;
  for (i64 row = (i64)blockIdx.x * 4 + threadIdx.x / 32; row < 512; row += (i64)gridDim.x * 4) {
    const i64 row0 = row / 32 % 16;
    (void)row0;
    const i64 row1 = row / 1 % 32;
    (void)row1;
    const F x2 = Value(in2[row0 * 32LL + row1 * 1LL]);
    const F x3 = Value(in3[row0 * 32LL + row1 * 1LL]);
    const F x4 = Value(in4[row0 * 32LL + row1 * 1LL]);
    F kx0[2][4];
    F kx1[2][4];
    double total0 = 0.0;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      const Pack<float, 4> pack0 = *(const Pack<float, 4>*)(in0 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4);
      const Pack<float, 4> pack1 = *(const Pack<float, 4>*)(in1 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4);
      float run0 = 0.0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        kx0[share][j] = x0;
        const F x1 = Value(pack1.at[j]);
        kx1[share][j] = x1;
        const F s0_0 = RowSubtract(x1, x2);
        const F s0_1 = RowMultiply(x0, s0_0);
        run0 = Sum::Of(run0, Plain(s0_1));
      }
      total0 = Sum::Of(total0, (double)run0);
    }
    total0 = AcrossBlock<Sum, 32>(total0, shared_double);
    const F m0 = Rounded<float>(Register(total0));
    const F s1_0 = F(-0.5f);
    const F s1_1 = RowMultiply(s1_0, m0);
    const F s1_2 = RowMultiply(s1_1, x4);
    const F s1_3 = RowDivide(s1_2, x3);
    const F s1_4 = F(256.0f);
    const F s1_5 = RowDivide(s1_3, s1_4);
    const F m1 = s1_5;
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
        const F x1 = kx1[share][j];
        const F s2_0 = RowSubtract(x1, x2);
        const F s2_1 = RowIdentity(m1);
        const F s2_2 = F(2.0f);
        const F s2_3 = RowMultiply(s2_2, s2_1);
        const F s2_4 = RowMultiply(s2_3, s2_0);
        const F s2_5 = RowMultiply(x0, x4);
        const F s2_6 = RowAdd(s2_5, s2_4);
        const F m2 = s2_6;
        km2[share][j] = m2;
        const F s3_0 = RowNegate(m2);
        run3 = Sum::Of(run3, Plain(s3_0));
      }
      total3 = Sum::Of(total3, (double)run3);
    }
    total3 = AcrossBlock<Sum, 32>(total3, shared_double);
    const F m3 = Rounded<float>(Register(total3));
    const F s4_0 = F(256.0f);
    const F s4_1 = RowDivide(m3, s4_0);
    const F m4 = s4_1;
    #pragma unroll
    for (int share = 0; share < 2; ++share) {
      const int pack = lane + share * 32;
      if (pack >= 64) continue;
      const Pack<float, 4> pack5 = *(const Pack<float, 4>*)(in5 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4);
      Pack<float, 4> to5;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = pack * 4 + j;
        (void)column;
        const F x5 = Value(pack5.at[j]);
        const F m2 = km2[share][j];
        const F s5_0 = RowIdentity(m4);
        const F s5_1 = RowAdd(x5, m2);
        const F s5_2 = RowAdd(s5_1, s5_0);
        const F m5 = s5_2;
        Put(to5.at[j], m5);
      }
      Store((Pack<float, 4>*)(out5 + (row0 * 8192LL + row1 * 256LL) + (i64)pack * 4), to5);
    }
  }
}


// alone
typedef int Index;
typedef struct alignas(16) { unsigned long long at[2]; } From;
typedef From To;
__device__ inline void Store(To& to, From from) { to = from; }
extern "C" __global__ void __launch_bounds__(256) strided_copy(
    const From* __restrict__ from, To* __restrict__ to) {
  for (Index i = (Index)blockIdx.x * blockDim.x + threadIdx.x; i < 32768; i += (Index)gridDim.x * blockDim.x) {
    Index rest = i, from_at = 0, to_at = 0;
    from_at += (rest % 2048) * 1;
    to_at += (rest % 2048) * 1;
    rest /= 2048;
    from_at += rest * 8192;
    to_at += rest * 2048;
    Store(to[to_at], from[from_at]);
  }
}

