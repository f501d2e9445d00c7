// SPDX-License-Identifier: Apache-2.0
//
// What the attention kernel and its gradient share: the division into blocks of
// queries and of keys, and how a block of logits comes about.
#ifndef BACKENDS_CPU_ATTENTION_ATTENTION_BLOCKS_H_
#define BACKENDS_CPU_ATTENTION_ATTENTION_BLOCKS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/attention_rows.h"
#include "backends/cpu/onednn.h"

namespace mtf::cpu {

// z = x y, or z += x y, of dense m by k and k by n matrices that fit into the
// cache. z is float.
class BlockProduct {
 public:
  struct Options {
    bool x_transposed = false;  // stored as k by m
    bool y_transposed = false;  // stored as n by k
    bool accumulate = false;
  };

  // kUnimplemented as Matmul::Create.
  static absl::StatusOr<BlockProduct> Create(DType dtype, int64_t m, int64_t n,
                                             int64_t k, const Options& options);

  // Runs on the calling thread, one of those that NumThreads() counted when the
  // product was created.
  void Run(const void* x, const void* y, float* z) const;

 private:
  int64_t m_ = 0, n_ = 0, k_ = 0;
  Options options_;
  // By thread, because each has memory of its own. Empty: Sgemm.
  std::vector<std::unique_ptr<onednn::Primitive>> primitives_;
};

// Hands out consecutive ranges of memory, each aligned to 64 bytes. Without
// memory it only counts bytes.
class ScratchRanges {
 public:
  explicit ScratchRanges(void* data) : data_(static_cast<char*>(data)) {}

  template <class T = void>
  T* Take(int64_t bytes) {
    char* range = data_ == nullptr ? nullptr : data_ + bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return reinterpret_cast<T*>(range);
  }
  float* TakeFloats(int64_t count) { return Take<float>(count * 4); }
  int64_t bytes() const { return bytes_; }

 private:
  char* data_;
  int64_t bytes_ = 0;
};

// An index of each outer dimension.
using OuterIndex = std::vector<int64_t>;

// A block of logits by its first query and key.
struct BlockPosition {
  const OuterIndex& outer;
  int64_t query = 0, key = 0;
};

// The division of an attention into blocks of equal size, and the steps that
// produce one. All methods but the constructor may run on several threads.
class AttentionBlocks {
 public:
  // `compute` is kFloat32 or kBFloat16.
  AttentionBlocks(const CpuAttention& attention, DType compute);

  const CpuAttention& attention() const { return attention_; }
  DType compute() const { return compute_; }
  bool rounds() const { return compute_ == kBFloat16; }
  int64_t compute_bytes() const { return rounds() ? 2 : 4; }

  // Rows of a block; all blocks have the same size, and the last one may be
  // incomplete.
  int64_t queries() const { return queries_; }
  int64_t keys() const { return keys_; }  // a multiple of kAttentionLanes
  int64_t query_blocks() const { return query_blocks_; }
  int64_t key_blocks() const { return key_blocks_; }
  // Columns of packed blocks, at least 1.
  int64_t depth_kv() const { return PackedDepth(attention_.depth_kv); }
  int64_t depth_v() const { return PackedDepth(attention_.depth_v); }
  int64_t logits() const { return queries_ * keys_; }
  int64_t ValidQueries(int64_t first) const;
  int64_t ValidKeys(int64_t first) const;

  // The number of indices of the dimensions `dims`, and the `flat`-th one in
  // row-major order, which is written to the elements `dims` of `index`.
  int64_t Count(const std::vector<int>& dims) const;
  void Decode(int64_t flat, const std::vector<int>& dims,
              OuterIndex& index) const;
  // The inverse of Decode.
  int64_t Encode(const std::vector<int>& dims, const OuterIndex& index) const;
  const std::vector<int>& all_outer() const { return all_outer_; }
  // True if the gradient `tensor` is a sum over outer dimension `dim`.
  bool IsSummed(const AttentionTensor& tensor, int dim) const {
    return tensor.given() && tensor.outer[dim] == 0 &&
           attention_.outer[dim].extent != 1;
  }
  static int64_t OffsetOf(const AttentionTensor& tensor,
                          const OuterIndex& index);

  // Copies a block of the rows of queries or of keys to a dense matrix of the
  // compute dtype. `depth` is depth_kv or depth_v of the attention. Rows beyond
  // the valid ones are 0.
  void PackQueries(const AttentionTensor& tensor, int64_t depth,
                   const OuterIndex& index, int64_t first, void* to) const;
  void PackKeys(const AttentionTensor& tensor, int64_t depth,
                const OuterIndex& index, int64_t first, void* to) const;

  // The keys that each of the queries() from `first` sees as far as positions
  // tell; none for a row beyond the valid ones. Returns a range that contains
  // all of them.
  ColumnRange FindVisibleKeys(const OuterIndex& index, int64_t first,
                              ColumnRange* by_query) const;
  // Restricts the ranges of FindVisibleKeys to the block of keys from `key`.
  void ClipToBlock(const ColumnRange* by_query, int64_t key,
                   ColumnRange* visible) const;

  // Completes a block of products q k: applies the cap, the bias, the mask and,
  // here or as LogitBlock::scale, the scale. Writes the derivatives of the cap
  // to `slopes` unless it is null, and the factors of dropout to `dropout`.
  LogitBlock Complete(const BlockPosition& at, const ColumnRange* visible,
                      const StepContext& context, float* logits, float* slopes,
                      float* dropout) const;
  bool has_dropout() const { return attention_.spec.dropout > 0; }
  bool has_cap() const { return attention_.spec.soft_cap > 0; }

 private:
  struct PackShape {
    int64_t rows = 0, depth = 0;  // valid
    int64_t packed_rows = 0;
    int64_t row_stride = 0;
  };
  static int64_t PackedDepth(int64_t depth) {
    return std::max<int64_t>(depth, 1);
  }
  void Pack(const AttentionTensor& tensor, int64_t offset,
            const PackShape& shape, void* to) const;
  void AddBias(const BlockPosition& at, const ColumnRange* visible,
               float* logits) const;
  void ApplyMask(const BlockPosition& at, const ColumnRange* visible,
                 float* logits) const;
  void FillDropout(const BlockPosition& at, const ColumnRange* visible,
                   const StepContext& context, float* factors) const;

  CpuAttention attention_;
  DType compute_;
  std::vector<int> all_outer_;
  int64_t queries_ = 0, keys_ = 0, query_blocks_ = 0, key_blocks_ = 0;
};

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_ATTENTION_ATTENTION_BLOCKS_H_
