// SPDX-License-Identifier: Apache-2.0
#ifndef BENCHMARKS_PLAIN_MATMUL_H_
#define BENCHMARKS_PLAIN_MATMUL_H_

#include <omp.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <unordered_map>

#include "mtf/dtype.h"
#include "mtf/host_tensor.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace mtf {

// The wall time of one call.
template <class Body>
double SecondsOf(const Body& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(end - begin).count();
}

// oneDNN's matmul of contiguous matrices, a baseline: row-major [batch, m, k] x
// [batch, k, n] -> [batch, m, n], of float32 or bfloat16. The library divides
// the work among `threads` by OpenMP.
class PlainMatmul {
 public:
  PlainMatmul(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k,
              int threads)
      : threads_(threads),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_) {
    omp_set_num_threads(threads_);
    using Tag = dnnl::memory::format_tag;
    const auto type = dtype == kBFloat16 ? dnnl::memory::data_type::bf16
                                         : dnnl::memory::data_type::f32;
    const auto describe = [&](int64_t rows, int64_t columns) {
      return batch == 1
                 ? dnnl::memory::desc({rows, columns}, type, Tag::ab)
                 : dnnl::memory::desc({batch, rows, columns}, type, Tag::abc);
    };
    const auto x = describe(m, k), y = describe(k, n), z = describe(m, n);
#if DNNL_VERSION_MAJOR >= 3
    primitive_ = dnnl::matmul({engine_, x, y, z});
#else
    primitive_ = dnnl::matmul({dnnl::matmul::desc(x, y, z), engine_});
#endif
    arguments_ = {{DNNL_ARG_SRC, Fill({x, engine_}, dtype, batch * m * k)},
                  {DNNL_ARG_WEIGHTS, Fill({y, engine_}, dtype, batch * k * n)},
                  {DNNL_ARG_DST, {z, engine_}}};
  }

  // On the threads of the constructor; then one OpenMP thread is set again, as
  // the device has it.
  void Run() {
    omp_set_num_threads(threads_);
    primitive_.execute(stream_, arguments_);
    omp_set_num_threads(1);
  }

 private:
  static dnnl::memory Fill(dnnl::memory memory, DType dtype, int64_t count) {
    std::minstd_rand random(1);
    for (int64_t i = 0; i < count; ++i) {
      StoreElement(memory.get_data_handle(), dtype, i,
                   static_cast<double>(random() % 4096) / 2048 - 1);
    }
    return memory;
  }

  const int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace mtf

#endif  // BENCHMARKS_PLAIN_MATMUL_H_
