// SPDX-License-Identifier: Apache-2.0

// after basic, reduce, kept
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
extern "C" __global__ void __launch_bounds__(512)
row_group(const BF16* in0,
          const int* in1,
          float* out7,
          float* out8,
          BF16* out10) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  Pack<BF16, 1>* const kept0 = (Pack<BF16, 1>*)(kept + 0);
  const int lane = threadIdx.x % 512;
  for (i64 row = (i64)blockIdx.x * 1 + threadIdx.x / 512; row < 64; row += (i64)gridDim.x * 1) {
    const i64 row0 = row / 1 % 64;
    (void)row0;
    const I x1 = Value(in1[row0 * 1LL]);
    for (int pack = lane; pack < 50257; pack += 512) {
      Fetch(kept0 + pack, (const Pack<BF16, 1>*)(in0 + (row0 * 50257LL) + (i64)pack * 1));
    }
    AwaitFetched();
    float total1 = -kInfinity;
    for (int pack = lane; pack < 50257; pack += 512) {
      const Pack<BF16, 1> pack0 = kept0[pack];
      float run1 = -kInfinity;
      #pragma unroll
      for (int j = 0; j < 1; ++j) {
        const int column = pack * 1 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        const F s0_0 = x0;
        const F m0 = s0_0;
        const F s1_0 = RowIdentity(m0);
        run1 = Max::Of(run1, Plain(s1_0));
      }
      total1 = Max::Of(total1, (float)run1);
    }
    total1 = AcrossBlock<Max, 512>(total1, shared_float);
    const F m1 = Rounded<float>(Register(total1));
    const F s2_0 = F(-3.40282347e+38f);
    const F s2_1 = RowMaximum(m1, s2_0);
    const F m2 = s2_1;
    double total6 = 0.0;
    double total7 = 0.0;
    for (int pack = lane; pack < 50257; pack += 512) {
      const Pack<BF16, 1> pack0 = kept0[pack];
      float run6 = 0.0;
      float run7 = 0.0;
      #pragma unroll
      for (int j = 0; j < 1; ++j) {
        const int column = pack * 1 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        const F s0_0 = x0;
        const F m0 = s0_0;
        const F s3_0 = RowSubtract(m0, m2);
        const F m3 = s3_0;
        const I s4_0 = Rounded<int>(I(0LL + column));
        const bool s4_1 = RowEqual(x1, s4_0);
        const bool m4 = s4_1;
        const F s5_0 = RowExp(m3);
        const F m5 = s5_0;
        const F s6_0 = RowIdentity(m5);
        run6 = Sum::Of(run6, Plain(s6_0));
        const F s7_0 = F(0.0f);
        const F s7_1 = Select(m4, m3, s7_0);
        run7 = Sum::Of(run7, Plain(s7_1));
      }
      total6 = Sum::Of(total6, (double)run6);
      total7 = Sum::Of(total7, (double)run7);
    }
    total6 = AcrossBlock<Sum, 512>(total6, shared_double);
    const F m6 = Rounded<float>(Register(total6));
    total7 = AcrossBlock<Sum, 512>(total7, shared_double);
    const F m7 = Rounded<float>(Register(total7));
    const F s8_0 = F(0.5f);
    const F s8_1 = RowMaximum(m6, s8_0);
    const F m8 = s8_1;
    const F s9_0 = F(1.0f);
    const F s9_1 = F(64.0f);
    const F s9_2 = RowDivide(s9_0, s9_1);
    const F s9_3 = RowDivide(s9_2, m8);
    const F s9_4 = F(0.5f);
    const F s9_5 = RowMultiply(s9_4, s9_3);
    const F s9_6 = F(0.5f);
    const bool s9_7 = RowLess(m6, s9_6);
    const F s9_8 = F(0.0f);
    const F s9_9 = Select(s9_7, s9_8, s9_5);
    const F s9_10 = F(0.5f);
    const bool s9_11 = RowGreater(m6, s9_10);
    const F s9_12 = Select(s9_11, s9_3, s9_9);
    const F m9 = s9_12;
    for (int pack = lane; pack < 50257; pack += 512) {
      const Pack<BF16, 1> pack0 = kept0[pack];
      Pack<BF16, 1> to10;
      #pragma unroll
      for (int j = 0; j < 1; ++j) {
        const int column = pack * 1 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        const F s0_0 = x0;
        const F m0 = s0_0;
        const F s3_0 = RowSubtract(m0, m2);
        const F m3 = s3_0;
        const I s4_0 = Rounded<int>(I(0LL + column));
        const bool s4_1 = RowEqual(x1, s4_0);
        const bool m4 = s4_1;
        const F s5_0 = RowExp(m3);
        const F m5 = s5_0;
        const F s10_0 = F(1.0f);
        const F s10_1 = F(64.0f);
        const F s10_2 = RowDivide(s10_0, s10_1);
        const F s10_3 = RowNegate(s10_2);
        const F s10_4 = F(0.0f);
        const F s10_5 = Select(m4, s10_3, s10_4);
        const F s10_6 = RowIdentity(m9);
        const F s10_7 = RowMultiply(s10_6, m5);
        const F s10_8 = RowAdd(s10_7, s10_5);
        const F s10_9 = Rounded<BF16>(s10_8);
        const F m10 = s10_9;
        Put(to10.at[j], m10);
      }
      Store((Pack<BF16, 1>*)(out10 + (row0 * 50257LL) + (i64)pack * 1), to10);
    }
    if (lane == 0) Put(out7[row0 * 1LL], m7);
    if (lane == 0) Put(out8[row0 * 1LL], m8);
  }
}


// after basic, reduce, kept
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
extern "C" __global__ void __launch_bounds__(512)
row_group(const BF16* in0,
          const int* in1,
          float* out7,
          float* out8,
          BF16* out10) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  Pack<BF16, 8>* const kept0 = (Pack<BF16, 8>*)(kept + 0);
  const int lane = threadIdx.x % 512;
  for (i64 row = (i64)blockIdx.x * 1 + threadIdx.x / 512; row < 64; row += (i64)gridDim.x * 1) {
    const i64 row0 = row / 1 % 64;
    (void)row0;
    const I x1 = Value(in1[row0 * 1LL]);
    for (int pack = lane; pack < 6288; pack += 512) {
      Fetch(kept0 + pack, (const Pack<BF16, 8>*)(in0 + (row0 * 50304LL) + (i64)pack * 8));
    }
    AwaitFetched();
    float total1 = -kInfinity;
    for (int pack = lane; pack < 6288; pack += 512) {
      const Pack<BF16, 8> pack0 = kept0[pack];
      float run1 = -kInfinity;
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int column = pack * 8 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        const F s0_0 = x0;
        const F m0 = s0_0;
        const F s1_0 = RowIdentity(m0);
        run1 = Max::Of(run1, Plain(s1_0));
      }
      total1 = Max::Of(total1, (float)run1);
    }
    total1 = AcrossBlock<Max, 512>(total1, shared_float);
    const F m1 = Rounded<float>(Register(total1));
    const F s2_0 = F(-3.40282347e+38f);
    const F s2_1 = RowMaximum(m1, s2_0);
    const F m2 = s2_1;
    double total6 = 0.0;
    double total7 = 0.0;
    for (int pack = lane; pack < 6288; pack += 512) {
      const Pack<BF16, 8> pack0 = kept0[pack];
      float run6 = 0.0;
      float run7 = 0.0;
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int column = pack * 8 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        const F s0_0 = x0;
        const F m0 = s0_0;
        const F s3_0 = RowSubtract(m0, m2);
        const F m3 = s3_0;
        const I s4_0 = Rounded<int>(I(0LL + column));
        const bool s4_1 = RowEqual(x1, s4_0);
        const bool m4 = s4_1;
        const F s5_0 = RowExp(m3);
        const F m5 = s5_0;
        const F s6_0 = RowIdentity(m5);
        run6 = Sum::Of(run6, Plain(s6_0));
        const F s7_0 = F(0.0f);
        const F s7_1 = Select(m4, m3, s7_0);
        run7 = Sum::Of(run7, Plain(s7_1));
      }
      total6 = Sum::Of(total6, (double)run6);
      total7 = Sum::Of(total7, (double)run7);
    }
    total6 = AcrossBlock<Sum, 512>(total6, shared_double);
    const F m6 = Rounded<float>(Register(total6));
    total7 = AcrossBlock<Sum, 512>(total7, shared_double);
    const F m7 = Rounded<float>(Register(total7));
    const F s8_0 = F(0.5f);
    const F s8_1 = RowMaximum(m6, s8_0);
    const F m8 = s8_1;
    const F s9_0 = F(1.0f);
    const F s9_1 = F(64.0f);
    const F s9_2 = RowDivide(s9_0, s9_1);
    const F s9_3 = RowDivide(s9_2, m8);
    const F s9_4 = F(0.5f);
    const F s9_5 = RowMultiply(s9_4, s9_3);
    const F s9_6 = F(0.5f);
    const bool s9_7 = RowLess(m6, s9_6);
    const F s9_8 = F(0.0f);
    const F s9_9 = Select(s9_7, s9_8, s9_5);
    const F s9_10 = F(0.5f);
    const bool s9_11 = RowGreater(m6, s9_10);
    const F s9_12 = Select(s9_11, s9_3, s9_9);
    const F m9 = s9_12;
    for (int pack = lane; pack < 6288; pack += 512) {
      const Pack<BF16, 8> pack0 = kept0[pack];
      Pack<BF16, 8> to10;
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int column = pack * 8 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        const F s0_0 = x0;
        const F m0 = s0_0;
        const F s3_0 = RowSubtract(m0, m2);
        const F m3 = s3_0;
        const I s4_0 = Rounded<int>(I(0LL + column));
        const bool s4_1 = RowEqual(x1, s4_0);
        const bool m4 = s4_1;
        const F s5_0 = RowExp(m3);
        const F m5 = s5_0;
        const F s10_0 = F(1.0f);
        const F s10_1 = F(64.0f);
        const F s10_2 = RowDivide(s10_0, s10_1);
        const F s10_3 = RowNegate(s10_2);
        const F s10_4 = F(0.0f);
        const F s10_5 = Select(m4, s10_3, s10_4);
        const F s10_6 = RowIdentity(m9);
        const F s10_7 = RowMultiply(s10_6, m5);
        const F s10_8 = RowAdd(s10_7, s10_5);
        const F s10_9 = Rounded<BF16>(s10_8);
        const F m10 = s10_9;
        Put(to10.at[j], m10);
      }
      Store((Pack<BF16, 8>*)(out10 + (row0 * 50304LL) + (i64)pack * 8), to10);
    }
    if (lane == 0) Put(out7[row0 * 1LL], m7);
    if (lane == 0) Put(out8[row0 * 1LL], m8);
  }
}


// after basic, reduce, kept
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
extern "C" __global__ void __launch_bounds__(1024)
row_group(const BF16* in0,
          const int* in1,
          float* out6,
          float* out7,
          BF16* out9) {
  __shared__ double shared_double[32];
  __shared__ float shared_float[32];
  __shared__ i64 shared_i64[32];
  (void)shared_double, (void)shared_float, (void)shared_i64;
  Pack<BF16, 8>* const kept0 = (Pack<BF16, 8>*)(kept + 0);
  const int lane = threadIdx.x % 1024;
  for (i64 row = (i64)blockIdx.x * 1 + threadIdx.x / 1024; row < 64; row += (i64)gridDim.x * 1) {
    const i64 row0 = row / 1 % 64;
    (void)row0;
    const I x1 = Value(in1[row0 * 1LL]);
    for (int pack = lane; pack < 14336; pack += 1024) {
      Fetch(kept0 + pack, (const Pack<BF16, 8>*)(in0 + (row0 * 128256LL) + (i64)pack * 8));
    }
    AwaitFetched();
    float total0 = -kInfinity;
    for (int pack = lane; pack < 16032; pack += 1024) {
      const Pack<BF16, 8> pack0 = pack < 14336 ? kept0[pack] : *(const Pack<BF16, 8>*)(in0 + (row0 * 128256LL) + (i64)pack * 8);
      float run0 = -kInfinity;
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int column = pack * 8 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        const F s0_0 = x0;
        run0 = Max::Of(run0, Plain(s0_0));
      }
      total0 = Max::Of(total0, (float)run0);
    }
    total0 = AcrossBlock<Max, 1024>(total0, shared_float);
    const F m0 = Rounded<float>(Register(total0));
    const F s1_0 = F(-3.40282347e+38f);
    const F s1_1 = RowMaximum(m0, s1_0);
    const F m1 = s1_1;
    double total5 = 0.0;
    double total6 = 0.0;
    for (int pack = lane; pack < 16032; pack += 1024) {
      const Pack<BF16, 8> pack0 = pack < 14336 ? kept0[pack] : *(const Pack<BF16, 8>*)(in0 + (row0 * 128256LL) + (i64)pack * 8);
      float run5 = 0.0;
      float run6 = 0.0;
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int column = pack * 8 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        const F s2_0 = x0;
        const F s2_1 = RowSubtract(s2_0, m1);
        const F m2 = s2_1;
        const I s3_0 = Rounded<int>(I(0LL + column));
        const bool s3_1 = RowEqual(x1, s3_0);
        const bool m3 = s3_1;
        const F s4_0 = RowExp(m2);
        const F m4 = s4_0;
        const F s5_0 = RowIdentity(m4);
        run5 = Sum::Of(run5, Plain(s5_0));
        const F s6_0 = F(0.0f);
        const F s6_1 = Select(m3, m2, s6_0);
        run6 = Sum::Of(run6, Plain(s6_1));
      }
      total5 = Sum::Of(total5, (double)run5);
      total6 = Sum::Of(total6, (double)run6);
    }
    total5 = AcrossBlock<Sum, 1024>(total5, shared_double);
    const F m5 = Rounded<float>(Register(total5));
    total6 = AcrossBlock<Sum, 1024>(total6, shared_double);
    const F m6 = Rounded<float>(Register(total6));
    const F s7_0 = F(0.5f);
    const F s7_1 = RowMaximum(m5, s7_0);
    const F m7 = s7_1;
    const F s8_0 = F(1.0f);
    const F s8_1 = F(64.0f);
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
    for (int pack = lane; pack < 16032; pack += 1024) {
      const Pack<BF16, 8> pack0 = pack < 14336 ? kept0[pack] : *(const Pack<BF16, 8>*)(in0 + (row0 * 128256LL) + (i64)pack * 8);
      Pack<BF16, 8> to9;
      #pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int column = pack * 8 + j;
        (void)column;
        const F x0 = Value(pack0.at[j]);
        const F s2_0 = x0;
        const F s2_1 = RowSubtract(s2_0, m1);
        const F m2 = s2_1;
        const I s3_0 = Rounded<int>(I(0LL + column));
        const bool s3_1 = RowEqual(x1, s3_0);
        const bool m3 = s3_1;
        const F s4_0 = RowExp(m2);
        const F m4 = s4_0;
        const F s9_0 = F(1.0f);
        const F s9_1 = F(64.0f);
        const F s9_2 = RowDivide(s9_0, s9_1);
        const F s9_3 = RowNegate(s9_2);
        const F s9_4 = F(0.0f);
        const F s9_5 = Select(m3, s9_3, s9_4);
        const F s9_6 = RowIdentity(m8);
        const F s9_7 = RowMultiply(s9_6, m4);
        const F s9_8 = RowAdd(s9_7, s9_5);
        const F s9_9 = Rounded<BF16>(s9_8);
        const F m9 = s9_9;
        Put(to9.at[j], m9);
      }
      Store((Pack<BF16, 8>*)(out9 + (row0 * 128256LL) + (i64)pack * 8), to9);
    }
    if (lane == 0) Put(out6[row0 * 1LL], m6);
    if (lane == 0) Put(out7[row0 * 1LL], m7);
  }
}

