// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/attention/attention_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "backends/cpu/block_memory.h"
#include "backends/cpu/rounding.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/vector_functions.h"
#include "lowering/program/ring_rows.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf::cpu {
namespace {

// The largest number of queries and of keys of a block.
constexpr int64_t kMostRows = 256;

// Measured for 512 to 8192 queries: large blocks have faster products, and
// small ones compute fewer logits that are hidden, which matters where much of
// the visible area is near its boundary.
int64_t MaxRowsOf(const CpuAttention& attention) {
  constexpr int64_t kFewRows = 128, kWideArea = 2048;
  int64_t width = attention.memory;
  if (attention.spec.window > 0) {
    width = std::min(width, attention.spec.window);
  } else if (!attention.spec.causal) {
    return kMostRows;
  }
  return width < kWideArea ? kFewRows : kMostRows;
}

// The size of equal blocks of at most `most` elements.
int64_t BlockSize(int64_t count, int64_t most, int64_t multiple) {
  if (count == 0) return multiple;
  const int64_t size = CeilDivide(count, CeilDivide(count, most));
  return CeilDivide(size, multiple) * multiple;
}

}  // namespace

absl::StatusOr<BlockProduct> BlockProduct::Create(DType dtype, int64_t m,
                                                  int64_t n, int64_t k,
                                                  const Options& options) {
  BlockProduct product;
  product.m_ = m;
  product.n_ = n;
  product.k_ = k;
  product.options_ = options;
  // The rule of Matmul::Create, for dense matrices.
  if (dtype == kFloat32 && options.x_transposed) return product;
  MatmulSpec spec;
  spec.dtype = dtype;
  spec.m = {m, options.x_transposed ? 1 : k, 0, n};
  spec.n = {n, 0, options.y_transposed ? k : 1, 1};
  spec.k = {k, options.x_transposed ? m : 1, options.y_transposed ? 1 : n, 0};
  spec.accumulate = options.accumulate;
  spec.wide = true;
  for (int thread = 0; thread < NumThreads(); ++thread) {
    auto primitive =
        onednn::Primitive::Create(spec, onednn::Primitive::Packs::kNone);
    if (dtype == kFloat32 &&
        (!primitive.ok() ||
         !absl::StartsWith((*primitive)->implementation(), "brg"))) {
      return product;
    }
    if (!primitive.ok()) return primitive.status();
    product.primitives_.push_back(*std::move(primitive));
  }
  return product;
}

void BlockProduct::Run(const void* x, const void* y, float* z) const {
  if (!primitives_.empty()) {
    MTF_CHECK_LT(ThreadIndex(), static_cast<int>(primitives_.size()));
    primitives_[ThreadIndex()]->Run(x, y, z);
    return;
  }
  onednn::Sgemm(m_, n_, k_, static_cast<const float*>(x),
                {options_.x_transposed, options_.x_transposed ? m_ : k_},
                static_cast<const float*>(y),
                {options_.y_transposed, options_.y_transposed ? k_ : n_},
                options_.accumulate, z, n_);
}

AttentionBlocks::AttentionBlocks(const CpuAttention& attention, DType compute)
    : attention_(attention),
      compute_(compute),
      queries_(BlockSize(attention.length, MaxRowsOf(attention), 1)),
      keys_(BlockSize(attention.memory, MaxRowsOf(attention), kAttentionLanes)),
      query_blocks_(CeilDivide(attention.length, queries_)),
      key_blocks_(CeilDivide(attention.memory, keys_)) {
  for (size_t i = 0; i < attention.outer.size(); ++i) {
    all_outer_.push_back(static_cast<int>(i));
  }
}

int64_t AttentionBlocks::ValidQueries(int64_t first) const {
  return std::min(queries_, attention_.length - first);
}

int64_t AttentionBlocks::ValidKeys(int64_t first) const {
  return std::min(keys_, attention_.memory - first);
}

int64_t AttentionBlocks::Count(const std::vector<int>& dims) const {
  int64_t count = 1;
  for (const int dim : dims) count *= attention_.outer[dim].extent;
  return count;
}

void AttentionBlocks::Decode(int64_t flat, const std::vector<int>& dims,
                             OuterIndex& index) const {
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    const int64_t extent = attention_.outer[*dim].extent;
    index[*dim] = flat % extent;
    flat /= extent;
  }
}

int64_t AttentionBlocks::Encode(const std::vector<int>& dims,
                                const OuterIndex& index) const {
  int64_t flat = 0;
  for (const int dim : dims) {
    flat = flat * attention_.outer[dim].extent + index[dim];
  }
  return flat;
}

int64_t AttentionBlocks::OffsetOf(const AttentionTensor& tensor,
                                  const OuterIndex& index) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i)
    offset += index[i] * tensor.outer[i];
  return offset;
}

void AttentionBlocks::Pack(const AttentionTensor& tensor, int64_t offset,
                           const PackShape& shape, void* to) const {
  const int64_t size = compute_bytes();
  const int64_t row_bytes = PackedDepth(shape.depth) * size;
  const auto* from = static_cast<const char*>(tensor.data);
  auto* out = static_cast<char*>(to);
  const int64_t rows = shape.depth == 0 ? 0 : shape.rows;
  for (int64_t i = 0; i < rows; ++i, out += row_bytes) {
    const int64_t first = offset + i * shape.row_stride;
    if (tensor.dtype != compute_) {
      ReadFloats(tensor.dtype, tensor.data, first, tensor.depth, shape.depth,
                 reinterpret_cast<float*>(out));
    } else if (tensor.depth == 1) {
      std::memcpy(out, from + first * size, row_bytes);
    } else {
      for (int64_t j = 0; j < shape.depth; ++j) {
        std::memcpy(out + j * size, from + (first + j * tensor.depth) * size,
                    size);
      }
    }
  }
  std::memset(out, 0, (shape.packed_rows - rows) * row_bytes);
}

void AttentionBlocks::PackQueries(const AttentionTensor& tensor, int64_t depth,
                                  const OuterIndex& index, int64_t first,
                                  void* to) const {
  Pack(tensor, OffsetOf(tensor, index) + first * tensor.length,
       {ValidQueries(first), depth, queries_, tensor.length}, to);
}

void AttentionBlocks::PackKeys(const AttentionTensor& tensor, int64_t depth,
                               const OuterIndex& index, int64_t first,
                               void* to) const {
  Pack(tensor, OffsetOf(tensor, index) + first * tensor.memory,
       {ValidKeys(first), depth, keys_, tensor.memory}, to);
}

ColumnRange AttentionBlocks::FindVisibleKeys(const OuterIndex& index,
                                             int64_t first,
                                             ColumnRange* by_query) const {
  const AttentionSpec& spec = attention_.spec;
  const AttentionTensor& offset = attention_.offset;
  const int64_t count = ValidQueries(first);
  const int64_t stride = attention_.position_stride;
  const RingRows keys = {attention_.memory, attention_.memory_offset, stride};
  ColumnRange all = {attention_.memory, 0};
  for (int64_t i = 0; i < queries_; ++i) {
    ColumnRange& range = by_query[i];
    range = {};
    if (i >= count) continue;
    int64_t position = attention_.length_offset + (first + i) * stride;
    if (offset.given()) {
      position += static_cast<const int32_t*>(
          offset.data)[OffsetOf(offset, index) + (first + i) * offset.length];
    }
    const VisibleKeys visible = mtf::FindVisibleKeys(spec, position, keys);
    range = {visible.begin, visible.end};
    if (range.begin >= range.end) {
      range = {};
      continue;
    }
    all.begin = std::min(all.begin, range.begin);
    all.end = std::max(all.end, range.end);
  }
  return all.begin < all.end ? all : ColumnRange();
}

void AttentionBlocks::ClipToBlock(const ColumnRange* by_query, int64_t key,
                                  ColumnRange* visible) const {
  for (int64_t i = 0; i < queries_; ++i) {
    visible[i] = {std::clamp<int64_t>(by_query[i].begin - key, 0, keys_),
                  std::clamp<int64_t>(by_query[i].end - key, 0, keys_)};
  }
}

LogitBlock AttentionBlocks::Complete(const BlockPosition& at,
                                     const ColumnRange* visible,
                                     const StepContext& context, float* logits,
                                     float* slopes, float* dropout) const {
  const AttentionSpec& spec = attention_.spec;
  LogitBlock block = {
      queries_, keys_, logits, visible, static_cast<float>(spec.scale),
      nullptr};
  if (has_cap()) {
    CapLogits(logits, this->logits(), block.scale,
              static_cast<float>(spec.soft_cap), slopes);
    block.scale = 1;
  } else if (attention_.bias.given() || !(block.scale > 0)) {
    ScaleLogits(logits, this->logits(), block.scale);
    block.scale = 1;
  }
  if (attention_.bias.given()) AddBias(at, visible, logits);
  if (attention_.mask.given()) ApplyMask(at, visible, logits);
  if (has_dropout()) {
    FillDropout(at, visible, context, dropout);
    block.dropout = dropout;
  }
  return block;
}

void AttentionBlocks::AddBias(const BlockPosition& at,
                              const ColumnRange* visible, float* logits) const {
  const AttentionTensor& bias = attention_.bias;
  const int64_t start =
      OffsetOf(bias, at.outer) + at.query * bias.length + at.key * bias.memory;
  float row[kMostRows];
  for (int64_t i = 0; i < queries_; ++i) {
    const auto [begin, end] = visible[i];
    if (begin >= end) continue;
    const int64_t first = start + i * bias.length + begin * bias.memory;
    ReadFloats(bias.dtype, bias.data, first, bias.memory, end - begin, row);
    AccumulateFloats(ReduceKind::kSum, row, logits + i * keys_ + begin,
                     end - begin);
  }
}

void AttentionBlocks::ApplyMask(const BlockPosition& at,
                                const ColumnRange* visible,
                                float* logits) const {
  const AttentionTensor& mask = attention_.mask;
  const auto* start = static_cast<const uint8_t*>(mask.data) +
                      OffsetOf(mask, at.outer) + at.query * mask.length +
                      at.key * mask.memory;
  for (int64_t i = 0; i < queries_; ++i) {
    const auto [begin, end] = visible[i];
    const uint8_t* from = start + i * mask.length;
    float* row = logits + i * keys_;
    if (mask.memory == 1) {
      for (int64_t j = begin; j < end; ++j) {
        row[j] = from[j] != 0 ? row[j] : kMinusInfinity;
      }
    } else {
      for (int64_t j = begin; j < end; ++j) {
        row[j] = from[j * mask.memory] != 0 ? row[j] : kMinusInfinity;
      }
    }
  }
}

void AttentionBlocks::FillDropout(const BlockPosition& at,
                                  const ColumnRange* visible,
                                  const StepContext& context,
                                  float* factors) const {
  constexpr int64_t kMask = kAttentionLanes - 1;
  const AttentionSpec& spec = attention_.spec;
  const DropoutStream stream = {
      context.seed, spec.stream, context.step,
      static_cast<uint32_t>(std::ceil(spec.dropout * 0x1p24)),
      static_cast<float>(1 / (1 - spec.dropout))};
  const int64_t row_stride =
      attention_.position_stride * attention_.length_stride;
  const int64_t column_stride =
      attention_.position_stride * attention_.memory_stride;
  int64_t start = attention_.length_offset * attention_.length_stride +
                  attention_.memory_offset * attention_.memory_stride +
                  at.query * row_stride + at.key * column_stride;
  for (size_t i = 0; i < at.outer.size(); ++i) {
    const CpuAttention::Outer& outer = attention_.outer[i];
    start += (outer.offset + at.outer[i]) * outer.global_stride;
  }
  for (int64_t i = 0; i < queries_; ++i) {
    if (visible[i].begin >= visible[i].end) continue;
    const int64_t begin = visible[i].begin & ~kMask;
    const int64_t end = (visible[i].end + kMask) & ~kMask;
    DropoutFactors(
        stream,
        static_cast<uint64_t>(start + i * row_stride + begin * column_stride),
        static_cast<uint64_t>(column_stride), end - begin,
        factors + i * keys_ + begin);
  }
}

}  // namespace mtf::cpu
