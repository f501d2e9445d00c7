// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/attention/attention_gradients.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/block_memory.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/vector_functions.h"

namespace mtf::cpu {
namespace {

// The dimensions of `dims` that `tensor` has.
std::vector<int> DimensionsOf(const AttentionTensor& tensor,
                              const std::vector<int>& dims) {
  std::vector<int> present;
  for (const int dim : dims) {
    if (tensor.outer[dim] != 0) present.push_back(dim);
  }
  return present;
}

void WriteZeros(const AttentionTensor& tensor, int64_t offset, int64_t rows,
                int64_t columns) {
  const std::vector<float> zeros(columns, 0.0f);
  for (int64_t i = 0; i < rows; ++i) {
    WriteFloats(tensor.dtype, zeros.data(), columns, tensor.data,
                offset + i * tensor.length, tensor.memory);
  }
}

}  // namespace

void WriteRows(const AttentionTensor& tensor, int64_t offset,
               int64_t row_stride, int64_t rows, int64_t depth, float scale,
               const float* sums) {
  std::vector<float> scaled(depth);
  const int64_t columns = std::max<int64_t>(depth, 1);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < depth; ++j)
      scaled[j] = sums[i * columns + j] * scale;
    WriteFloats(tensor.dtype, scaled.data(), depth, tensor.data,
                offset + i * row_stride, tensor.depth);
  }
}

KeyGradient::KeyGradient(const AttentionBlocks& blocks,
                         const AttentionTensor& tensor,
                         const std::vector<int>& serial, int64_t depth,
                         int64_t keys)
    : tensor_(tensor),
      dims_(DimensionsOf(tensor, serial)),
      depth_(depth),
      keys_(keys),
      matrices_(blocks.Count(dims_)),
      matrix_(keys * std::max<int64_t>(depth, 1)) {}

void KeyGradient::Write(const AttentionBlocks& blocks, OuterIndex index,
                        int64_t first_key, float scale,
                        const float* sums) const {
  const int64_t count =
      std::clamp<int64_t>(blocks.attention().memory - first_key, 0, keys_);
  for (int64_t i = 0; i < matrices_; ++i) {
    blocks.Decode(i, dims_, index);
    WriteRows(tensor_,
              blocks.OffsetOf(tensor_, index) + first_key * tensor_.memory,
              tensor_.memory, count, depth_, scale, sums + i * matrix_);
  }
}

BiasGradient::BiasGradient(const AttentionBlocks& blocks,
                           const std::vector<int>& serial, int64_t keys) {
  const AttentionTensor& tensor = blocks.attention().d_bias;
  given_ = tensor.given();
  if (!given_) return;
  dims_ = DimensionsOf(tensor, serial);
  const bool is_summed =
      std::any_of(serial.begin(), serial.end(),
                  [&](int dim) { return blocks.IsSummed(tensor, dim); });
  has_all_dims_ = !is_summed && tensor.length != 0 && tensor.memory != 0;
  if (has_all_dims_) return;
  matrices_ = blocks.Count(dims_);
  rows_ = tensor.length != 0 ? blocks.attention().length : 1;
  columns_ = tensor.memory != 0 ? keys : 1;
}

void BiasGradient::Add(const AttentionBlocks& blocks, const BlockPosition& at,
                       int64_t first_key, const float* d_logits,
                       float* sums) const {
  if (!given_) return;
  const AttentionTensor& tensor = blocks.attention().d_bias;
  const int64_t queries = blocks.ValidQueries(at.query);
  const int64_t keys = blocks.ValidKeys(at.key);
  if (has_all_dims_) {
    const int64_t offset = blocks.OffsetOf(tensor, at.outer) +
                           at.query * tensor.length + at.key * tensor.memory;
    for (int64_t i = 0; i < queries; ++i) {
      WriteFloats(tensor.dtype, d_logits + i * blocks.keys(), keys, tensor.data,
                  offset + i * tensor.length, tensor.memory);
    }
    return;
  }
  sums += blocks.Encode(dims_, at.outer) * rows_ * columns_;
  if (rows_ > 1) sums += at.query * columns_;
  if (columns_ > 1) sums += at.key - first_key;
  for (int64_t i = 0; i < queries; ++i) {
    const float* from = d_logits + i * blocks.keys();
    float* to = sums + (rows_ > 1 ? i * columns_ : 0);
    if (columns_ > 1) {
      AccumulateFloats(ReduceKind::kSum, from, to, keys);
    } else {
      *to += ReduceFloats(ReduceKind::kSum, from, keys);
    }
  }
}

void BiasGradient::Skip(const AttentionBlocks& blocks,
                        const BlockPosition& at) const {
  if (!has_all_dims_) return;
  const AttentionTensor& tensor = blocks.attention().d_bias;
  WriteZeros(tensor,
             blocks.OffsetOf(tensor, at.outer) + at.query * tensor.length +
                 at.key * tensor.memory,
             blocks.ValidQueries(at.query), blocks.ValidKeys(at.key));
}

void BiasGradient::Write(const AttentionBlocks& blocks, OuterIndex index,
                         int64_t first_key, const float* sums) const {
  if (!given_ || has_all_dims_) return;
  const AttentionTensor& tensor = blocks.attention().d_bias;
  const int64_t count =
      tensor.memory == 0
          ? 1
          : std::clamp<int64_t>(blocks.attention().memory - first_key, 0,
                                columns_);
  for (int64_t i = 0; i < matrices_; ++i) {
    blocks.Decode(i, dims_, index);
    const int64_t offset =
        blocks.OffsetOf(tensor, index) + first_key * tensor.memory;
    for (int64_t row = 0; row < rows_; ++row) {
      WriteFloats(tensor.dtype, sums + (i * rows_ + row) * columns_, count,
                  tensor.data, offset + row * tensor.length, tensor.memory);
    }
  }
}

void FindDelta(const AttentionBlocks& blocks, std::vector<float>& delta) {
  const CpuAttention& attention = blocks.attention();
  const AttentionTensor& d_logsumexp = attention.d_logsumexp;
  const int64_t length = attention.length, depth = attention.depth_v;
  const int64_t rows = blocks.Count(blocks.all_outer()) * length;
  delta.resize(rows);
  constexpr int64_t kGrain = 1 << 14;  // elements
  const auto find_rows = [&](int64_t begin, int64_t end) {
    OuterIndex index(blocks.all_outer().size());
    std::vector<float> x(depth), y(depth);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t query = row % length;
      blocks.Decode(row / length, blocks.all_outer(), index);
      const auto offset_of = [&](const AttentionTensor& tensor) {
        return blocks.OffsetOf(tensor, index) + query * tensor.length;
      };
      const auto read = [&](const AttentionTensor& tensor, float* to) {
        ReadFloats(tensor.dtype, tensor.data, offset_of(tensor), tensor.depth,
                   depth, to);
      };
      read(attention.output, x.data());
      read(attention.d_output, y.data());
      for (int64_t j = 0; j < depth; ++j) x[j] *= y[j];
      delta[row] = ReduceFloats(ReduceKind::kSum, x.data(), depth);
      if (d_logsumexp.given()) {
        delta[row] -=
            static_cast<const float*>(d_logsumexp.data)[offset_of(d_logsumexp)];
      }
    }
  };
  ParallelFor(rows, kGrain / blocks.depth_v() + 1, find_rows);
}

void WriteExtraLogitGradient(const AttentionBlocks& blocks,
                             const float* delta) {
  const CpuAttention& attention = blocks.attention();
  const AttentionTensor& extra = attention.extra_logit;
  const AttentionTensor& result = attention.d_extra_logit;
  const AttentionTensor& logsumexp = attention.logsumexp;
  const std::vector<int> dims = DimensionsOf(result, blocks.all_outer());
  const int64_t columns = result.length != 0 ? attention.length : 1;
  std::vector<double> sums(blocks.Count(dims) * columns);
  OuterIndex index(blocks.all_outer().size());
  for (int64_t i = 0; i < blocks.Count(blocks.all_outer()); ++i) {
    blocks.Decode(i, blocks.all_outer(), index);
    double* row = sums.data() + blocks.Encode(dims, index) * columns;
    const float* lse = static_cast<const float*>(logsumexp.data) +
                       blocks.OffsetOf(logsumexp, index);
    const int64_t offset = blocks.OffsetOf(extra, index);
    for (int64_t j = 0; j < attention.length; ++j) {
      float logit = 0;
      ReadFloats(extra.dtype, extra.data, offset + j * extra.length, 1, 1,
                 &logit);
      if (logit == kMinusInfinity) continue;
      row[columns > 1 ? j : 0] -= std::exp(logit - lse[j * logsumexp.length]) *
                                  delta[i * attention.length + j];
    }
  }
  for (int64_t i = 0; i < blocks.Count(dims); ++i) {
    blocks.Decode(i, dims, index);
    const std::vector<float> row(sums.begin() + i * columns,
                                 sums.begin() + (i + 1) * columns);
    WriteFloats(result.dtype, row.data(), columns, result.data,
                blocks.OffsetOf(result, index), result.length);
  }
}

}  // namespace mtf::cpu
