// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/attention_blocks.h"
#include "backends/cpu/attention/attention_gradients.h"
#include "backends/cpu/attention/attention_rows.h"
#include "backends/cpu/block_memory.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/vector_functions.h"
#include "mtf/status.h"

namespace mtf::cpu {
namespace {

// A logsumexp for which all weights are 0.
constexpr float kHiddenRow = std::numeric_limits<float>::infinity();

// Tasks are at least this many if there are as many blocks of keys, so that
// threads have something to share. A constant, because the order of sums
// depends on it.
constexpr int64_t kLeastTasks = 8;

// The number of accumulators of a task for each gradient.
struct SumCounts {
  int64_t d_q = 0, d_k = 0, d_v = 0, d_bias = 0;
};

// The memory of a task.
struct BackwardScratch {
  BackwardScratch(const AttentionBlocks& blocks, const SumCounts& counts,
                  void* data) {
    ScratchRanges ranges(data);
    const int64_t size = blocks.compute_bytes();
    const int64_t rows = blocks.query_blocks() * blocks.queries();
    queries = ranges.Take<char>(rows * blocks.depth_kv() * size);
    d_output = ranges.Take<char>(rows * blocks.depth_v() * size);
    keys = ranges.Take(blocks.keys() * blocks.depth_kv() * size);
    values = ranges.Take(blocks.keys() * blocks.depth_v() * size);
    logits = ranges.TakeFloats(blocks.logits());
    d_weights = ranges.TakeFloats(blocks.logits());
    const auto take_block_if = [&](bool needed) {
      return needed ? ranges.TakeFloats(blocks.logits()) : nullptr;
    };
    slopes = take_block_if(blocks.has_cap());
    dropout = take_block_if(blocks.has_dropout());
    d_logits = take_block_if(blocks.attention().d_bias.given());
    if (blocks.rounds()) {
      rounded_weights = ranges.Take<BFloat16>(blocks.logits() * 2);
      rounded_d_logits = ranges.Take<BFloat16>(blocks.logits() * 2);
    }
    logsumexp = ranges.TakeFloats(rows);
    delta = ranges.TakeFloats(rows);
    visible_keys = ranges.Take<ColumnRange>(rows * sizeof(ColumnRange));
    all_visible =
        ranges.Take<ColumnRange>(blocks.query_blocks() * sizeof(ColumnRange));
    visible = ranges.Take<ColumnRange>(blocks.queries() * sizeof(ColumnRange));
    d_q = ranges.TakeFloats(counts.d_q);
    d_k = ranges.TakeFloats(counts.d_k);
    d_v = ranges.TakeFloats(counts.d_v);
    d_bias = ranges.TakeFloats(counts.d_bias);
    bytes = ranges.bytes();
  }

  // Of all queries.
  char *queries, *d_output;
  float *logsumexp, *delta;
  ColumnRange *visible_keys, *all_visible;
  // Of a block.
  void *keys, *values;
  float *logits, *d_weights, *slopes, *dropout, *d_logits;
  BFloat16 *rounded_weights = nullptr, *rounded_d_logits = nullptr;
  ColumnRange* visible;
  float *d_q, *d_k, *d_v, *d_bias;  // accumulators
  int64_t bytes;
};

// A task owns the gradients of a range of blocks of keys, for one index of the
// dimensions that all gradients have. It is serial over the other dimensions,
// over which some gradient is a sum, and over blocks of keys and queries:
//
//   for each index of the other dimensions
//     for each block of keys of the task
//       for each block of queries that sees it
//         weights, d_logits  from q, k, v, d_output
//         d_v += weights^T d_output
//         d_k += d_logits^T q
//         d_q += d_logits k
//
// d_q is a sum over tasks too if several share the keys: each has a part of its
// own, and these are added at the end.
class AttentionGradientKernel : public Kernel {
 public:
  AttentionGradientKernel(const CpuAttention& attention, DType compute);
  absl::Status Init();
  void Run(StepContext& context) override;

 private:
  // With the rows that complete the last block.
  int64_t PaddedLength() const {
    return blocks_.query_blocks() * blocks_.queries();
  }
  // The accumulators for d_q of one outer index.
  int64_t QuerySums() const { return PaddedLength() * blocks_.depth_kv(); }
  // Those of task `task`, in the scratch memory or in a part.
  float* QuerySumsOf(int64_t task, const OuterIndex& index,
                     const BackwardScratch& scratch);

  void RunTask(int64_t task, const StepContext& context,
               const BackwardScratch& scratch);
  void LoadQueries(const OuterIndex& index,
                   const BackwardScratch& scratch) const;
  void RunKeys(BlockPosition at, const StepContext& context, float* d_q,
               int64_t first_key, const BackwardScratch& scratch) const;
  void RunBlock(const BlockPosition& at, const StepContext& context,
                const BackwardScratch& scratch) const;
  void WriteQueries(const OuterIndex& index, int64_t first, int64_t count,
                    const float* sums) const;
  void AddQueryParts();

  const AttentionBlocks blocks_;
  const CpuAttention& attention_;
  std::vector<int> parallel_, serial_;  // outer dimensions
  int64_t key_ranges_ = 1;              // tasks that share the keys
  int64_t range_keys_ = 0;
  KeyGradient d_k_, d_v_;
  BiasGradient d_bias_;
  SumCounts counts_;
  BlockProduct logits_product_, d_weights_product_;
  BlockProduct d_q_product_, d_k_product_, d_v_product_;
  std::vector<float> delta_;      // [outer..., length]
  std::vector<float> d_q_parts_;  // [key_ranges, outer..., QuerySums()]
};

AttentionGradientKernel::AttentionGradientKernel(const CpuAttention& attention,
                                                 DType compute)
    : blocks_(attention, compute), attention_(blocks_.attention()) {
  for (const int dim : blocks_.all_outer()) {
    const bool is_summed = blocks_.IsSummed(attention_.d_k, dim) ||
                           blocks_.IsSummed(attention_.d_v, dim) ||
                           blocks_.IsSummed(attention_.d_bias, dim);
    (is_summed ? serial_ : parallel_).push_back(dim);
  }
  // A gradient of a bias without keys is a sum over all of them.
  if (!attention_.d_bias.given() || attention_.d_bias.memory != 0) {
    const int64_t tasks = std::max<int64_t>(blocks_.Count(parallel_), 1);
    key_ranges_ = std::clamp<int64_t>(
        kLeastTasks / tasks, 1, std::max<int64_t>(blocks_.key_blocks(), 1));
  }
  range_keys_ =
      (blocks_.key_blocks() + key_ranges_ - 1) / key_ranges_ * blocks_.keys();
  d_k_ = KeyGradient(blocks_, attention_.d_k, serial_, attention_.depth_kv,
                     range_keys_);
  d_v_ = KeyGradient(blocks_, attention_.d_v, serial_, attention_.depth_v,
                     range_keys_);
  d_bias_ = BiasGradient(blocks_, serial_, range_keys_);
  counts_ = {key_ranges_ == 1 ? QuerySums() : 0, d_k_.sums(), d_v_.sums(),
             d_bias_.sums()};
}

absl::Status AttentionGradientKernel::Init() {
  if (blocks_.query_blocks() == 0 || blocks_.key_blocks() == 0) {
    return absl::OkStatus();
  }
  const DType compute = blocks_.compute();
  const int64_t queries = blocks_.queries(), keys = blocks_.keys();
  const int64_t depth_kv = blocks_.depth_kv(), depth_v = blocks_.depth_v();
  MTF_ASSIGN_OR_RETURN(logits_product_,
                       BlockProduct::Create(compute, queries, keys, depth_kv,
                                            {.y_transposed = true}));
  MTF_ASSIGN_OR_RETURN(d_weights_product_,
                       BlockProduct::Create(compute, queries, keys, depth_v,
                                            {.y_transposed = true}));
  MTF_ASSIGN_OR_RETURN(d_q_product_,
                       BlockProduct::Create(compute, queries, depth_kv, keys,
                                            {.accumulate = true}));
  const BlockProduct::Options transposed = {.x_transposed = true,
                                            .accumulate = true};
  MTF_ASSIGN_OR_RETURN(
      d_k_product_,
      BlockProduct::Create(compute, keys, depth_kv, queries, transposed));
  MTF_ASSIGN_OR_RETURN(
      d_v_product_,
      BlockProduct::Create(compute, keys, depth_v, queries, transposed));
  return absl::OkStatus();
}

void AttentionGradientKernel::Run(StepContext& context) {
  FindDelta(blocks_, delta_);
  if (attention_.d_extra_logit.given())
    WriteExtraLogitGradient(blocks_, delta_.data());
  if (key_ranges_ > 1) {
    d_q_parts_.resize(key_ranges_ * blocks_.Count(blocks_.all_outer()) *
                      QuerySums());
  }
  const int64_t bytes = BackwardScratch(blocks_, counts_, nullptr).bytes;
  ParallelFor(blocks_.Count(parallel_) * key_ranges_, 1,
              [&](int64_t begin, int64_t end) {
                const BackwardScratch scratch(
                    blocks_, counts_,
                    ThreadScratch(ScratchUse::kKernel, bytes));
                for (int64_t task = begin; task < end; ++task) {
                  RunTask(task, context, scratch);
                }
              });
  if (key_ranges_ > 1) AddQueryParts();
  // Kernels of other layers need memory of this size, too.
  delta_ = std::vector<float>();
  d_q_parts_ = std::vector<float>();
}

float* AttentionGradientKernel::QuerySumsOf(int64_t task,
                                            const OuterIndex& index,
                                            const BackwardScratch& scratch) {
  if (key_ranges_ == 1) return scratch.d_q;
  const int64_t part = task % key_ranges_ * blocks_.Count(blocks_.all_outer()) +
                       blocks_.Encode(blocks_.all_outer(), index);
  return d_q_parts_.data() + part * QuerySums();
}

void AttentionGradientKernel::RunTask(int64_t task, const StepContext& context,
                                      const BackwardScratch& scratch) {
  const int64_t first_key = task % key_ranges_ * range_keys_;
  const int64_t end_key = std::min(first_key + range_keys_, attention_.memory);
  OuterIndex index(blocks_.all_outer().size());
  blocks_.Decode(task / key_ranges_, parallel_, index);
  std::fill_n(scratch.d_k, counts_.d_k, 0.0f);
  std::fill_n(scratch.d_v, counts_.d_v, 0.0f);
  std::fill_n(scratch.d_bias, counts_.d_bias, 0.0f);
  for (int64_t i = 0; i < blocks_.Count(serial_); ++i) {
    blocks_.Decode(i, serial_, index);
    float* d_q = QuerySumsOf(task, index, scratch);
    std::fill_n(d_q, QuerySums(), 0.0f);
    LoadQueries(index, scratch);
    for (int64_t key = first_key; key < end_key; key += blocks_.keys()) {
      RunKeys({index, 0, key}, context, d_q, first_key, scratch);
    }
    if (key_ranges_ == 1) WriteQueries(index, 0, attention_.length, d_q);
  }
  const float scale = static_cast<float>(attention_.spec.scale);
  d_k_.Write(blocks_, index, first_key, scale, scratch.d_k);
  d_v_.Write(blocks_, index, first_key, 1, scratch.d_v);
  d_bias_.Write(blocks_, index, first_key, scratch.d_bias);
}

// Loads what all blocks of keys need of the queries of one outer index.
void AttentionGradientKernel::LoadQueries(
    const OuterIndex& index, const BackwardScratch& scratch) const {
  const int64_t queries = blocks_.queries();
  const int64_t bytes = queries * blocks_.compute_bytes();
  for (int64_t b = 0; b < blocks_.query_blocks(); ++b) {
    const int64_t first = b * queries;
    blocks_.PackQueries(attention_.q, attention_.depth_kv, index, first,
                        scratch.queries + b * bytes * blocks_.depth_kv());
    blocks_.PackQueries(attention_.d_output, attention_.depth_v, index, first,
                        scratch.d_output + b * bytes * blocks_.depth_v());
    scratch.all_visible[b] =
        blocks_.FindVisibleKeys(index, first, scratch.visible_keys + first);
  }
  const AttentionTensor& logsumexp = attention_.logsumexp;
  const int64_t outer = blocks_.Encode(blocks_.all_outer(), index);
  std::copy_n(delta_.data() + outer * attention_.length, attention_.length,
              scratch.delta);
  ReadFloats(kFloat32, logsumexp.data, blocks_.OffsetOf(logsumexp, index),
             logsumexp.length, attention_.length, scratch.logsumexp);
  // The weights of a row without a key are 0, whatever its logits are.
  for (int64_t i = 0; i < attention_.length; ++i) {
    float& lse = scratch.logsumexp[i];
    if (lse == kMinusInfinity) lse = kHiddenRow;
  }
  const int64_t padding = PaddedLength() - attention_.length;
  std::fill_n(scratch.delta + attention_.length, padding, 0.0f);
  std::fill_n(scratch.logsumexp + attention_.length, padding, kHiddenRow);
}

// All queries for one block of keys.
void AttentionGradientKernel::RunKeys(BlockPosition at,
                                      const StepContext& context, float* d_q,
                                      int64_t first_key,
                                      const BackwardScratch& scratch) const {
  const int64_t queries = blocks_.queries();
  const int64_t bytes = queries * blocks_.compute_bytes();
  const int64_t depth_kv = blocks_.depth_kv(), depth_v = blocks_.depth_v();
  const int64_t key_in_range = at.key - first_key;
  float* d_k =
      d_k_.SumsOf(blocks_, at.outer, scratch.d_k) + key_in_range * depth_kv;
  float* d_v =
      d_v_.SumsOf(blocks_, at.outer, scratch.d_v) + key_in_range * depth_v;
  blocks_.PackKeys(attention_.k, attention_.depth_kv, at.outer, at.key,
                   scratch.keys);
  blocks_.PackKeys(attention_.v, attention_.depth_v, at.outer, at.key,
                   scratch.values);
  for (int64_t b = 0; b < blocks_.query_blocks(); ++b) {
    at.query = b * queries;
    const ColumnRange& all = scratch.all_visible[b];
    if (all.end <= at.key || all.begin >= at.key + blocks_.keys()) {
      d_bias_.Skip(blocks_, at);
      continue;
    }
    const char* q = scratch.queries + b * bytes * depth_kv;
    const char* d_output = scratch.d_output + b * bytes * depth_v;
    logits_product_.Run(q, scratch.keys, scratch.logits);
    d_weights_product_.Run(d_output, scratch.values, scratch.d_weights);
    RunBlock(at, context, scratch);
    const void* weights = scratch.logits;
    const void* d_logits = scratch.d_weights;
    if (blocks_.rounds()) {
      weights = scratch.rounded_weights;
      d_logits = scratch.rounded_d_logits;
    }
    d_v_product_.Run(weights, d_output, d_v);
    d_k_product_.Run(d_logits, q, d_k);
    d_q_product_.Run(d_logits, scratch.keys, d_q + at.query * depth_kv);
    d_bias_.Add(blocks_, at, first_key, scratch.d_logits, scratch.d_bias);
  }
}

// From the products to the weights and the gradients of the logits.
void AttentionGradientKernel::RunBlock(const BlockPosition& at,
                                       const StepContext& context,
                                       const BackwardScratch& scratch) const {
  blocks_.ClipToBlock(scratch.visible_keys + at.query, at.key, scratch.visible);
  const LogitBlock block =
      blocks_.Complete(at, scratch.visible, context, scratch.logits,
                       scratch.slopes, scratch.dropout);
  SoftmaxBackward(block,
                  {scratch.logsumexp + at.query, scratch.delta + at.query,
                   scratch.d_weights, scratch.slopes, scratch.rounded_weights,
                   scratch.rounded_d_logits, scratch.d_logits});
}

void AttentionGradientKernel::WriteQueries(const OuterIndex& index,
                                           int64_t first, int64_t count,
                                           const float* sums) const {
  const AttentionTensor &d_q = attention_.d_q, &before = attention_.d_q_before;
  const int64_t offset = blocks_.OffsetOf(d_q, index) + first * d_q.length;
  const auto scale = static_cast<float>(attention_.spec.scale);
  const int64_t depth = attention_.depth_kv;
  if (!before.given()) {
    return WriteRows(d_q, offset, d_q.length, count, depth, scale, sums);
  }
  std::vector<float> row(depth);
  for (int64_t i = 0; i < count; ++i) {
    ReadFloats(before.dtype, before.data,
               blocks_.OffsetOf(before, index) + (first + i) * before.length,
               before.depth, depth, row.data());
    const float* from = sums + i * blocks_.depth_kv();
    for (int64_t j = 0; j < depth; ++j) row[j] += scale * from[j];
    WriteFloats(d_q.dtype, row.data(), depth, d_q.data, offset + i * d_q.length,
                d_q.depth);
  }
}

void AttentionGradientKernel::AddQueryParts() {
  const int64_t blocks = blocks_.query_blocks();
  const int64_t size = blocks_.queries() * blocks_.depth_kv();
  const int64_t count = blocks_.Count(blocks_.all_outer()) * blocks;
  ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
    OuterIndex index(blocks_.all_outer().size());
    for (int64_t i = begin; i < end; ++i) {
      float* sums = d_q_parts_.data() + i * size;
      for (int64_t part = 1; part < key_ranges_; ++part) {
        AccumulateFloats(ReduceKind::kSum, sums + part * count * size, sums,
                         size);
      }
      blocks_.Decode(i / blocks, blocks_.all_outer(), index);
      const int64_t first = i % blocks * blocks_.queries();
      WriteQueries(index, first, blocks_.ValidQueries(first), sums);
    }
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareAttentionGradient(
    const CpuAttention& attention) {
  if (attention.q.dtype == kBFloat16) {
    auto kernel =
        std::make_unique<AttentionGradientKernel>(attention, kBFloat16);
    const absl::Status status = kernel->Init();
    if (status.ok()) return kernel;
    if (!absl::IsUnimplemented(status)) return status;
  }
  auto kernel = std::make_unique<AttentionGradientKernel>(attention, kFloat32);
  MTF_RETURN_IF_ERROR(kernel->Init());
  return kernel;
}

}  // namespace mtf::cpu
