// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/attention_group.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/fusion/attention_mask.h"
#include "backends/cuda/fusion/group_dataflow.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

struct Copy {
  void* to;
  const void* from;
  int64_t bytes;
};

// The kernels for a mask: its bias before the call, and the rows without a
// visible position after it.
struct MaskKernels {
  std::optional<Launch> bias, masked_rows;
};

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(Runtime& runtime, std::unique_ptr<PreparedAttention> call,
                  const PreparedAttention::Buffers& buffers, MaskKernels masks,
                  std::vector<Copy> copies)
      : runtime_(runtime),
        call_(std::move(call)),
        buffers_(buffers),
        masks_(std::move(masks)),
        copies_(std::move(copies)) {}

  void Run(StepContext&) override {
    if (masks_.bias.has_value()) masks_.bias->Enqueue(runtime_);
    call_->Run(buffers_);
    if (masks_.masked_rows.has_value()) masks_.masked_rows->Enqueue(runtime_);
    for (const Copy& copy : copies_) {
      runtime_.CopyOnDevice(copy.to, copy.from, copy.bytes);
    }
  }

 private:
  Runtime& runtime_;
  std::unique_ptr<PreparedAttention> call_;
  PreparedAttention::Buffers buffers_;
  MaskKernels masks_;
  std::vector<Copy> copies_;  // run last
};

struct Range {
  const char* begin;
  int64_t bytes;
};
Range RangeOf(const BoundValue& value) {
  return {static_cast<const char*>(value.data), BytesOf(value)};
}
bool RangesOverlap(const Range& x, const Range& y) {
  return x.begin < y.begin + y.bytes && y.begin < x.begin + x.bytes;
}

// Assigns memory to results: their own or, if it overlaps an operand of the
// kernel, scratch memory that is copied to their own afterwards.
class Results {
 public:
  explicit Results(std::vector<Range> reads) : reads_(std::move(reads)) {}

  void Add(const BoundValue& result, void** address) {
    *address = result.data;
    for (const Range& read : reads_) {
      if (!RangesOverlap(read, RangeOf(result))) continue;
      moved_.push_back({&result, address, bytes_});
      bytes_ += (BytesOf(result) + 255) / 256 * 256;
      return;
    }
  }
  // Adds memory whose contents are not used afterwards.
  void AddScratch(int64_t bytes, void** address) {
    moved_.push_back({nullptr, address, bytes_});
    bytes_ += bytes;
  }
  absl::Status Finish(Scratch& scratch, std::vector<Copy>* copies) {
    if (moved_.empty()) return absl::OkStatus();
    MTF_ASSIGN_OR_RETURN(void* memory, scratch.Reserve(bytes_));
    for (const Moved& moved : moved_) {
      *moved.address = static_cast<char*>(memory) + moved.offset;
      if (moved.result == nullptr) continue;
      copies->push_back(
          {moved.result->data, *moved.address, BytesOf(*moved.result)});
    }
    return absl::OkStatus();
  }

 private:
  struct Moved {
    const BoundValue* result;
    void** address;
    int64_t offset;
  };
  std::vector<Range> reads_;
  std::vector<Moved> moved_;
  int64_t bytes_ = 0;
};

absl::StatusOr<MaskKernels> PrepareMasks(
    Runtime& runtime, const AttentionGroup& group, const BoundValue* visible,
    const BoundValue* added, char* kept,
    const PreparedAttention::Buffers& buffers) {
  int* const first_seen =
      reinterpret_cast<int*>(kept + group.first_seen_offset());
  MaskKernels masks;
  MTF_ASSIGN_OR_RETURN(
      masks.bias,
      PrepareAttentionBias(runtime, group, visible, added,
                           reinterpret_cast<float*>(kept + group.bias_offset()),
                           first_seen));
  MTF_ASSIGN_OR_RETURN(
      masks.masked_rows,
      PrepareMaskedRows(runtime, group.problem, first_seen, buffers.o,
                        static_cast<float*>(buffers.stats)));
  return masks;
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
    Runtime& runtime, Scratch& scratch, const AttentionGroup& group,
    bool backward, absl::Span<const Binding> members, BindValue bind) {
  const auto find = [&](int value) { return FindValue(members, value); };
  const BoundValue *q = find(group.q), *k = find(group.k), *v = find(group.v),
                   *weights = find(group.weights);
  PreparedAttention::Buffers buffers;
  buffers.q = q->data;
  buffers.k = k->data;
  buffers.v = v->data;
  char* kept = static_cast<char*>(weights->data);
  const Range all_kept = {kept, group.kept_bytes()};
  std::vector<Copy> copies;
  MaskKernels masks;
  AttentionProblem problem = group.problem;
  if (problem.bias.given) buffers.bias = kept + group.bias_offset();
  if (!backward) {
    const BoundValue* o = find(group.o);
    Results results({RangeOf(*q), RangeOf(*k), RangeOf(*v)});
    results.Add(*o, &buffers.o);
    if (group.backward.empty()) {
      results.AddScratch(problem.batch * problem.heads * problem.length * 4,
                         &buffers.stats);
    }
    MTF_RETURN_IF_ERROR(results.Finish(scratch, &copies));
    if (!group.backward.empty()) {
      for (const BoundValue* value : {q, k, v, o}) {
        if (RangesOverlap(all_kept, RangeOf(*value))) {
          return absl::InternalError(
              "the buffers were not planned with the device's groups");
        }
      }
      buffers.stats = kept;
    }
    if (problem.bias.given) {
      MTF_ASSIGN_OR_RETURN(
          masks, PrepareMasks(runtime, group, find(group.visible.value),
                              find(group.added.value), kept, buffers));
    }
  } else {
    problem = group.BackwardProblem();
    const BoundValue *d_o = find(group.d_o), *d_q = find(group.d_q),
                     *d_k = find(group.d_k), *d_v = find(group.d_v);
    const BoundValue o = bind(group.o);
    buffers.o = o.data;
    buffers.stats = kept;
    buffers.d_o = d_o->data;
    Results results({RangeOf(*q), RangeOf(*k), RangeOf(*v), RangeOf(o),
                     RangeOf(*d_o), all_kept});
    results.Add(*d_q, &buffers.d_q);
    results.Add(*d_k, &buffers.d_k);
    results.Add(*d_v, &buffers.d_v);
    MTF_RETURN_IF_ERROR(results.Finish(scratch, &copies));
  }
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<PreparedAttention> call,
                       runtime.PrepareAttention(problem));
  return std::make_unique<AttentionKernel>(runtime, std::move(call), buffers,
                                           std::move(masks), std::move(copies));
}

}  // namespace

std::vector<AttentionGroup> FindAttentionFor(Runtime& runtime,
                                             const Program& program) {
  return FindAttention(program, [&](const AttentionProblem& problem) {
    const absl::Status status = runtime.PrepareAttention(problem).status();
    // Out of memory for the kernel's workspace: the group stays fused, because
    // composed attention needs even more. PrepareAttentionGroup returns the
    // error.
    return status.ok() || absl::IsResourceExhausted(status);
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareAttentionGroup(
    Runtime& runtime, Scratch& scratch, absl::Span<const Binding> members,
    BindValue bind) {
  std::vector<int> indices;
  for (const Binding& member : members) indices.push_back(member.index);
  for (const AttentionGroup& group :
       FindAttentionFor(runtime, *members[0].program)) {
    if (indices == group.forward || indices == group.backward) {
      return Prepare(runtime, scratch, group, indices == group.backward,
                     members, bind);
    }
  }
  // Attention cannot fall back to single members: they have no memory.
  return absl::InternalError(
      "internal error: attention group not found in the program");
}

}  // namespace mtf::cuda
