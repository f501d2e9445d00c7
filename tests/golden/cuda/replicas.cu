// SPDX-License-Identifier: Apache-2.0

// after basic

typedef Pack<BF16, 1> Packed;
extern "C" __global__ void __launch_bounds__(256)
sum_in_order(const Packed* in, Packed* out, i64 block, i64 count) {
  const i64 stride = (i64)gridDim.x * 256;
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < count; i += stride) {
    F total[1];
    Packed next = in[i];
    for (int j = 0; j < 1; ++j) total[j] = Value(next.at[j]);
#pragma unroll 8
    for (int q = 1; q < 8; ++q) {
      next = in[q * block + i];
#pragma unroll
      for (int j = 0; j < 1; ++j) {
        const F x = total[j], y = Value(next.at[j]);
        total[j] = x + y;
      }
    }
    for (int j = 0; j < 1; ++j) Put(next.at[j], total[j]);
    out[i] = next;
  }
}


// after basic

typedef Pack<BF16, 8> Packed;
extern "C" __global__ void __launch_bounds__(256)
sum_in_order(const Packed* in, Packed* out, i64 block, i64 count) {
  const i64 stride = (i64)gridDim.x * 256;
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < count; i += stride) {
    F total[8];
    Packed next = in[i];
    for (int j = 0; j < 8; ++j) total[j] = Value(next.at[j]);
#pragma unroll 8
    for (int q = 1; q < 8; ++q) {
      next = in[q * block + i];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const F x = total[j], y = Value(next.at[j]);
        total[j] = x + y;
      }
    }
    for (int j = 0; j < 8; ++j) Put(next.at[j], total[j]);
    out[i] = next;
  }
}


// after basic

typedef Pack<F16, 1> Packed;
extern "C" __global__ void __launch_bounds__(256)
sum_in_order(const Packed* in, Packed* out, i64 block, i64 count) {
  const i64 stride = (i64)gridDim.x * 256;
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < count; i += stride) {
    F total[1];
    Packed next = in[i];
    for (int j = 0; j < 1; ++j) total[j] = Value(next.at[j]);
#pragma unroll 8
    for (int q = 1; q < 8; ++q) {
      next = in[q * block + i];
#pragma unroll
      for (int j = 0; j < 1; ++j) {
        const F x = total[j], y = Value(next.at[j]);
        total[j] = x + y;
      }
    }
    for (int j = 0; j < 1; ++j) Put(next.at[j], total[j]);
    out[i] = next;
  }
}


// after basic

typedef Pack<F16, 8> Packed;
extern "C" __global__ void __launch_bounds__(256)
sum_in_order(const Packed* in, Packed* out, i64 block, i64 count) {
  const i64 stride = (i64)gridDim.x * 256;
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < count; i += stride) {
    F total[8];
    Packed next = in[i];
    for (int j = 0; j < 8; ++j) total[j] = Value(next.at[j]);
#pragma unroll 8
    for (int q = 1; q < 8; ++q) {
      next = in[q * block + i];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const F x = total[j], y = Value(next.at[j]);
        total[j] = x + y;
      }
    }
    for (int j = 0; j < 8; ++j) Put(next.at[j], total[j]);
    out[i] = next;
  }
}


// after basic

typedef Pack<float, 1> Packed;
extern "C" __global__ void __launch_bounds__(256)
sum_in_order(const Packed* in, Packed* out, i64 block, i64 count) {
  const i64 stride = (i64)gridDim.x * 256;
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < count; i += stride) {
    F total[1];
    Packed next = in[i];
    for (int j = 0; j < 1; ++j) total[j] = Value(next.at[j]);
#pragma unroll 8
    for (int q = 1; q < 3; ++q) {
      next = in[q * block + i];
#pragma unroll
      for (int j = 0; j < 1; ++j) {
        const F x = total[j], y = Value(next.at[j]);
        total[j] = Maximum(x, y);
      }
    }
    for (int j = 0; j < 1; ++j) Put(next.at[j], total[j]);
    out[i] = next;
  }
}


// after basic

typedef Pack<float, 1> Packed;
extern "C" __global__ void __launch_bounds__(256)
sum_in_order(const Packed* in, Packed* out, i64 block, i64 count) {
  const i64 stride = (i64)gridDim.x * 256;
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < count; i += stride) {
    F total[1];
    Packed next = in[i];
    for (int j = 0; j < 1; ++j) total[j] = Value(next.at[j]);
#pragma unroll 8
    for (int q = 1; q < 8; ++q) {
      next = in[q * block + i];
#pragma unroll
      for (int j = 0; j < 1; ++j) {
        const F x = total[j], y = Value(next.at[j]);
        total[j] = x + y;
      }
    }
    for (int j = 0; j < 1; ++j) Put(next.at[j], total[j]);
    out[i] = next;
  }
}


// after basic

typedef Pack<float, 4> Packed;
extern "C" __global__ void __launch_bounds__(256)
sum_in_order(const Packed* in, Packed* out, i64 block, i64 count) {
  const i64 stride = (i64)gridDim.x * 256;
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < count; i += stride) {
    F total[4];
    Packed next = in[i];
    for (int j = 0; j < 4; ++j) total[j] = Value(next.at[j]);
#pragma unroll 8
    for (int q = 1; q < 3; ++q) {
      next = in[q * block + i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const F x = total[j], y = Value(next.at[j]);
        total[j] = Maximum(x, y);
      }
    }
    for (int j = 0; j < 4; ++j) Put(next.at[j], total[j]);
    out[i] = next;
  }
}


// after basic

typedef Pack<float, 4> Packed;
extern "C" __global__ void __launch_bounds__(256)
sum_in_order(const Packed* in, Packed* out, i64 block, i64 count) {
  const i64 stride = (i64)gridDim.x * 256;
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < count; i += stride) {
    F total[4];
    Packed next = in[i];
    for (int j = 0; j < 4; ++j) total[j] = Value(next.at[j]);
#pragma unroll 8
    for (int q = 1; q < 8; ++q) {
      next = in[q * block + i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const F x = total[j], y = Value(next.at[j]);
        total[j] = x + y;
      }
    }
    for (int j = 0; j < 4; ++j) Put(next.at[j], total[j]);
    out[i] = next;
  }
}

