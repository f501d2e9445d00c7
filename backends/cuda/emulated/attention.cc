// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/emulated/libraries.h"
#include "mtf/host_tensor.h"

namespace mtf::cuda {
namespace {

using Strides = AttentionProblem::Strides;
using Buffers = PreparedAttention::Buffers;

// Converts one head of a batch to [rows, d] doubles, and back.
std::vector<double> LoadHead(const AttentionProblem& p, const void* data,
                             const Strides& strides, int64_t base,
                             int64_t rows) {
  std::vector<double> head(rows * p.d);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < p.d; ++j) {
      head[i * p.d + j] =
          LoadElement(data, p.dtype, base + i * strides.length + j);
    }
  }
  return head;
}

void StoreHead(const AttentionProblem& p, const std::vector<double>& head,
               void* data, const Strides& strides, int64_t base, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < p.d; ++j) {
      StoreElement(data, p.dtype, base + i * strides.length + j,
                   head[i * p.d + j]);
    }
  }
}

double Dot(const double* x, const double* y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

class EmulatedAttention : public PreparedAttention {
 public:
  EmulatedAttention(const AttentionProblem& problem, EnqueueWork enqueue)
      : problem_(problem), enqueue_(std::move(enqueue)) {}

  void Run(const Buffers& buffers) override {
    enqueue_([problem = problem_, buffers] {
      for (int64_t b = 0; b < problem.batch; ++b) {
        for (int64_t h = 0; h < problem.heads; ++h) {
          problem.backward ? Backward(problem, buffers, b, h)
                           : Forward(problem, buffers, b, h);
        }
      }
    });
  }

 private:
  static int64_t Base(const Strides& strides, int64_t b, int64_t h) {
    return b * strides.batch + h * strides.heads;
  }
  // The number of memory positions that position i sees.
  static int64_t Seen(const AttentionProblem& p, int64_t i) {
    return p.causal ? std::min(p.memory, i + 1) : p.memory;
  }

  // The bias of row i, or null.
  static const float* BiasOf(const AttentionProblem& p, const Buffers& buffers,
                             int64_t b, int64_t h, int64_t i) {
    if (!p.bias.given) return nullptr;
    int64_t row = p.bias.batch ? b : 0;
    if (p.bias.heads) row = row * p.heads + h;
    if (p.bias.length) row = row * p.length + i;
    return static_cast<const float*>(buffers.bias) + row * p.memory;
  }

  static void Forward(const AttentionProblem& p, const Buffers& buffers,
                      int64_t b, int64_t h) {
    const auto q = LoadHead(p, buffers.q, p.q, Base(p.q, b, h), p.length);
    const auto k = LoadHead(p, buffers.k, p.k, Base(p.k, b, h), p.memory);
    const auto v = LoadHead(p, buffers.v, p.v, Base(p.v, b, h), p.memory);
    std::vector<double> o(p.length * p.d, 0), row(p.memory);
    for (int64_t i = 0; i < p.length; ++i) {
      const int64_t seen = Seen(p, i);
      const float* bias = BiasOf(p, buffers, b, h, i);
      double most = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t j = 0; j < seen; ++j) {
        row[j] = p.scale * Dot(&q[i * p.d], &k[j * p.d], p.d);
        if (bias != nullptr) row[j] += bias[j];
        most = std::max(most, row[j]);
      }
      for (int64_t j = 0; j < seen; ++j) sum += std::exp(row[j] - most);
      const double log_sum = most + std::log(sum);
      for (int64_t j = 0; j < seen; ++j) {
        const double weight = std::exp(row[j] - log_sum);
        for (int64_t c = 0; c < p.d; ++c) {
          o[i * p.d + c] += weight * v[j * p.d + c];
        }
      }
      if (buffers.stats != nullptr) {
        static_cast<float*>(buffers.stats)[(b * p.heads + h) * p.length + i] =
            static_cast<float>(log_sum);
      }
    }
    StoreHead(p, o, buffers.o, p.o, Base(p.o, b, h), p.length);
  }

  static void Backward(const AttentionProblem& p, const Buffers& buffers,
                       int64_t b, int64_t h) {
    const auto q = LoadHead(p, buffers.q, p.q, Base(p.q, b, h), p.length);
    const auto k = LoadHead(p, buffers.k, p.k, Base(p.k, b, h), p.memory);
    const auto v = LoadHead(p, buffers.v, p.v, Base(p.v, b, h), p.memory);
    const auto o = LoadHead(p, buffers.o, p.o, Base(p.o, b, h), p.length);
    const auto d_o = LoadHead(p, buffers.d_o, p.o, Base(p.o, b, h), p.length);
    std::vector<double> d_q(p.length * p.d, 0), d_k(p.memory * p.d, 0),
        d_v(p.memory * p.d, 0);
    const float* stats =
        static_cast<const float*>(buffers.stats) + (b * p.heads + h) * p.length;
    for (int64_t i = 0; i < p.length; ++i) {
      const double* slope = &d_o[i * p.d];
      const double mean = Dot(slope, &o[i * p.d], p.d);
      const float* bias = BiasOf(p, buffers, b, h, i);
      for (int64_t j = 0; j < Seen(p, i); ++j) {
        const double score = p.scale * Dot(&q[i * p.d], &k[j * p.d], p.d) +
                             (bias == nullptr ? 0 : bias[j]);
        const double weight = std::exp(score - stats[i]);
        const double d_score =
            p.scale * weight * (Dot(slope, &v[j * p.d], p.d) - mean);
        for (int64_t c = 0; c < p.d; ++c) {
          d_v[j * p.d + c] += weight * slope[c];
          d_q[i * p.d + c] += d_score * k[j * p.d + c];
          d_k[j * p.d + c] += d_score * q[i * p.d + c];
        }
      }
    }
    StoreHead(p, d_q, buffers.d_q, p.q, Base(p.q, b, h), p.length);
    StoreHead(p, d_k, buffers.d_k, p.k, Base(p.k, b, h), p.memory);
    StoreHead(p, d_v, buffers.d_v, p.v, Base(p.v, b, h), p.memory);
  }

  AttentionProblem problem_;
  EnqueueWork enqueue_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedAttention>> PrepareEmulatedAttention(
    const AttentionProblem& problem, EnqueueWork enqueue) {
  if (problem.dtype != kBFloat16 && problem.dtype != kFloat16) {
    return absl::UnimplementedError(
        "fused attention supports 16-bit floats only, as in cuDNN");
  }
  return std::make_unique<EmulatedAttention>(problem, std::move(enqueue));
}

}  // namespace mtf::cuda
