// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/attention_blocks.h"
#include "backends/cpu/attention/attention_rows.h"
#include "backends/cpu/block_memory.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/threads.h"
#include "mtf/status.h"

namespace mtf::cpu {
namespace {

// A part of a second-level cache.
constexpr int64_t kMaxKeptBytes = 1 << 20;

// The memory of one thread.
struct ForwardScratch {
  ForwardScratch(const AttentionBlocks& blocks, void* data) {
    ScratchRanges ranges(data);
    const int64_t size = blocks.compute_bytes();
    queries = ranges.Take(blocks.queries() * blocks.depth_kv() * size);
    key_bytes = blocks.keys() * blocks.depth_kv() * size;
    value_bytes = blocks.keys() * blocks.depth_v() * size;
    keeps_keys =
        (key_bytes + value_bytes) * blocks.key_blocks() <= kMaxKeptBytes;
    const int64_t kept = keeps_keys ? blocks.key_blocks() : 1;
    keys = ranges.Take<char>(kept * key_bytes);
    values = ranges.Take<char>(kept * value_bytes);
    is_packed = ranges.Take<char>(kept);
    logits = ranges.TakeFloats(blocks.logits());
    dropout = ranges.TakeFloats(blocks.has_dropout() ? blocks.logits() : 0);
    weights =
        blocks.rounds() ? ranges.Take<BFloat16>(blocks.logits() * 2) : nullptr;
    output = ranges.TakeFloats(blocks.queries() * blocks.depth_v());
    softmax.max = ranges.TakeFloats(blocks.queries());
    softmax.sum = ranges.TakeFloats(blocks.queries());
    softmax.correction = ranges.TakeFloats(blocks.queries());
    const int64_t range_bytes = blocks.queries() * sizeof(ColumnRange);
    visible_keys = ranges.Take<ColumnRange>(range_bytes);
    visible = ranges.Take<ColumnRange>(range_bytes);
    bytes = ranges.bytes();
  }

  void ForgetKeys(const AttentionBlocks& blocks) {
    std::memset(is_packed, 0, keeps_keys ? blocks.key_blocks() : 1);
  }

  // Keys and values of one outer index are packed once if they fit into the
  // cache, and otherwise block by block for every block of queries.
  bool keeps_keys;
  int64_t kept_outer = -1;         // the outer index whose keys are packed
  int64_t key_bytes, value_bytes;  // of a block
  char *keys, *values;
  char* is_packed;  // by block
  void* queries;
  float *logits, *dropout;
  BFloat16* weights;
  float* output;  // sums of weighted values
  RunningSoftmax softmax;
  ColumnRange *visible_keys, *visible;
  int64_t bytes;
};

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const CpuAttention& attention, DType compute)
      : blocks_(attention, compute) {}

  absl::Status Init() {
    if (blocks_.query_blocks() == 0 || blocks_.key_blocks() == 0) {
      return absl::OkStatus();
    }
    const DType compute = blocks_.compute();
    MTF_ASSIGN_OR_RETURN(
        logits_product_,
        BlockProduct::Create(compute, blocks_.queries(), blocks_.keys(),
                             blocks_.depth_kv(), {.y_transposed = true}));
    MTF_ASSIGN_OR_RETURN(
        output_product_,
        BlockProduct::Create(compute, blocks_.queries(), blocks_.depth_v(),
                             blocks_.keys(), {.accumulate = true}));
    return absl::OkStatus();
  }

  void Run(StepContext& context) override {
    const int64_t tasks =
        blocks_.Count(blocks_.all_outer()) * blocks_.query_blocks();
    const int64_t bytes = ForwardScratch(blocks_, nullptr).bytes;
    const int64_t task_products = blocks_.queries() *
                                  blocks_.attention().memory *
                                  (blocks_.depth_kv() + blocks_.depth_v());
    constexpr int64_t kGrain = 1 << 16;  // some microseconds
    ParallelFor(tasks, kGrain / std::max<int64_t>(task_products, 1) + 1,
                [&](int64_t begin, int64_t end) {
                  ForwardScratch scratch(
                      blocks_, ThreadScratch(ScratchUse::kKernel, bytes));
                  OuterIndex index(blocks_.all_outer().size());
                  for (int64_t task = begin; task < end; ++task) {
                    const int64_t outer = task / blocks_.query_blocks();
                    blocks_.Decode(outer, blocks_.all_outer(), index);
                    if (std::exchange(scratch.kept_outer, outer) != outer) {
                      scratch.ForgetKeys(blocks_);
                    }
                    const int64_t first =
                        task % blocks_.query_blocks() * blocks_.queries();
                    RunQueries({index, first}, context, scratch);
                  }
                });
  }

 private:
  // All keys for one block of queries.
  void RunQueries(BlockPosition at, const StepContext& context,
                  ForwardScratch& scratch) const {
    const CpuAttention& attention = blocks_.attention();
    const int64_t keys = blocks_.keys();
    blocks_.PackQueries(attention.q, attention.depth_kv, at.outer, at.query,
                        scratch.queries);
    Start(at, scratch);
    const ColumnRange all =
        blocks_.FindVisibleKeys(at.outer, at.query, scratch.visible_keys);
    for (at.key = all.begin / keys * keys; at.key < all.end; at.key += keys) {
      blocks_.ClipToBlock(scratch.visible_keys, at.key, scratch.visible);
      const auto [packed_keys, packed_values] = PackKeys(at, scratch);
      logits_product_.Run(scratch.queries, packed_keys, scratch.logits);
      const LogitBlock block =
          blocks_.Complete(at, scratch.visible, context, scratch.logits,
                           /*slopes=*/nullptr, scratch.dropout);
      SoftmaxForward(block, scratch.softmax, scratch.weights);
      Correct(scratch);
      const void* weights = scratch.logits;
      if (blocks_.rounds()) weights = scratch.weights;
      output_product_.Run(weights, packed_values, scratch.output);
    }
    Finish(at, scratch);
  }

  std::pair<const void*, const void*> PackKeys(const BlockPosition& at,
                                               ForwardScratch& scratch) const {
    const CpuAttention& attention = blocks_.attention();
    const int64_t block = scratch.keeps_keys ? at.key / blocks_.keys() : 0;
    char* keys = scratch.keys + block * scratch.key_bytes;
    char* values = scratch.values + block * scratch.value_bytes;
    if (!scratch.keeps_keys || scratch.is_packed[block] == 0) {
      blocks_.PackKeys(attention.k, attention.depth_kv, at.outer, at.key, keys);
      blocks_.PackKeys(attention.v, attention.depth_v, at.outer, at.key,
                       values);
      scratch.is_packed[block] = 1;
    }
    return {keys, values};
  }

  // An extra logit is the first of a row, with the value 0. The keys of earlier
  // steps are one logit, whose value is the output for them.
  void Start(const BlockPosition& at, ForwardScratch& scratch) const {
    const AttentionTensor& extra = blocks_.attention().extra_logit;
    const int64_t count = blocks_.queries();
    const int64_t valid = blocks_.ValidQueries(at.query);
    std::memset(scratch.output, 0, count * blocks_.depth_v() * sizeof(float));
    std::fill_n(scratch.softmax.max, count, kMinusInfinity);
    std::fill_n(scratch.softmax.sum, count, 0.0f);
    const AttentionTensor& output = blocks_.attention().output_before;
    const AttentionTensor& first =
        output.given() ? blocks_.attention().logsumexp_before : extra;
    if (!first.given()) return;
    ReadFloats(first.dtype, first.data,
               blocks_.OffsetOf(first, at.outer) + at.query * first.length,
               first.length, valid, scratch.softmax.max);
    for (int64_t i = 0; i < valid; ++i) {
      scratch.softmax.sum[i] = scratch.softmax.max[i] == kMinusInfinity ? 0 : 1;
    }
    if (!output.given()) return;
    for (int64_t i = 0; i < valid; ++i) {
      ReadFloats(
          output.dtype, output.data,
          blocks_.OffsetOf(output, at.outer) + (at.query + i) * output.length,
          output.depth, blocks_.attention().depth_v,
          scratch.output + i * blocks_.depth_v());
    }
  }

  void Correct(ForwardScratch& scratch) const {
    const int64_t columns = blocks_.depth_v();
    for (int64_t i = 0; i < blocks_.queries(); ++i) {
      const float correction = scratch.softmax.correction[i];
      if (correction == 1) continue;
      float* row = scratch.output + i * columns;
      for (int64_t j = 0; j < columns; ++j) row[j] *= correction;
    }
  }

  void Finish(const BlockPosition& at, ForwardScratch& scratch) const {
    const CpuAttention& attention = blocks_.attention();
    const AttentionTensor& output = attention.output;
    const AttentionTensor& logsumexp = attention.logsumexp;
    const int64_t columns = blocks_.depth_v();
    for (int64_t i = 0; i < blocks_.ValidQueries(at.query); ++i) {
      const float max = scratch.softmax.max[i], sum = scratch.softmax.sum[i];
      float* row = scratch.output + i * columns;
      // A row without a key is 0 already.
      const float factor = sum == 0 ? 0 : 1 / sum;
      for (int64_t j = 0; j < columns; ++j) row[j] *= factor;
      const int64_t at_row =
          blocks_.OffsetOf(output, at.outer) + (at.query + i) * output.length;
      WriteFloats(output.dtype, row, attention.depth_v, output.data, at_row,
                  output.depth);
      if (!logsumexp.given()) continue;
      static_cast<float*>(
          logsumexp.data)[blocks_.OffsetOf(logsumexp, at.outer) +
                          (at.query + i) * logsumexp.length] =
          sum == 0 ? kMinusInfinity : max + std::log(sum);
    }
  }

  AttentionBlocks blocks_;
  BlockProduct logits_product_, output_product_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareAttention(
    const CpuAttention& attention) {
  if (attention.q.dtype == kBFloat16) {
    auto kernel = std::make_unique<AttentionKernel>(attention, kBFloat16);
    const absl::Status status = kernel->Init();
    if (status.ok()) return kernel;
    if (!absl::IsUnimplemented(status)) return status;
  }
  auto kernel = std::make_unique<AttentionKernel>(attention, kFloat32);
  MTF_RETURN_IF_ERROR(kernel->Init());
  return kernel;
}

}  // namespace mtf::cpu
