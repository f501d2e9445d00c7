// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/attention.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "backends/cuda/kernels/attention_bias.h"
#include "lowering/program/fused_attention.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// The call of the library, and the launches before and after it.
class AttentionKernel : public Kernel {
 public:
  AttentionKernel(Runtime& runtime, std::unique_ptr<PreparedAttention> call,
                  const PreparedAttention::Buffers& buffers,
                  std::vector<Launch> before, std::vector<Launch> after)
      : runtime_(runtime),
        call_(std::move(call)),
        buffers_(buffers),
        before_(std::move(before)),
        after_(std::move(after)) {}

  void Run(StepContext&) override {
    for (Launch& launch : before_) launch.Enqueue(runtime_);
    call_->Run(buffers_);
    for (Launch& launch : after_) launch.Enqueue(runtime_);
  }

 private:
  Runtime& runtime_;
  std::unique_ptr<PreparedAttention> call_;
  PreparedAttention::Buffers buffers_;
  std::vector<Launch> before_, after_;
};

PreparedAttention::Buffers BuffersOf(const Binding& binding,
                                     const AttentionAttributes::Positions& at,
                                     bool backward) {
  const auto operand = [&](int position) {
    return binding.operands[position].data;
  };
  const auto result = [&](int position) {
    return binding.results[position].data;
  };
  PreparedAttention::Buffers buffers;
  buffers.q = operand(at.operands.q);
  buffers.k = operand(at.operands.k);
  buffers.v = operand(at.operands.v);
  if (!backward) {
    buffers.o = result(0);
    buffers.stats = result(1);
    return buffers;
  }
  buffers.o = operand(at.results.output);
  buffers.stats = operand(at.results.logsumexp);
  buffers.d_o = operand(at.gradients.output);
  buffers.d_q = result(at.of.q);
  buffers.d_k = result(at.of.k);
  buffers.d_v = result(at.of.v);
  return buffers;
}

// A mask or a bias of the binding, or none.
AttentionMask MaskOf(const Binding& binding, int position) {
  if (position < 0) return {};
  const Instruction& instruction = binding.instruction();
  return {&binding.operands[position],
          LogitStridesOf(*binding.program, instruction,
                         instruction.operands[position])};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareAttention(
    Runtime& runtime, Scratch& scratch, const Binding& binding) {
  const AttentionProblem problem =
      AttentionProblemOf(*binding.program, binding.instruction());
  const AttentionAttributes::Positions at =
      binding.instruction().Get<AttentionAttributes>().PositionsIn(
          problem.backward);
  PreparedAttention::Buffers buffers = BuffersOf(binding, at, problem.backward);
  std::vector<Launch> before, after;
  if (problem.bias.given) {
    const int64_t bias_bytes = Aligned(problem.BiasElements() * 4);
    const int64_t first_seen_bytes = Aligned(problem.BiasRows() * 4);
    const int64_t rows = problem.batch * problem.heads * problem.length;
    MTF_ASSIGN_OR_RETURN(void* const memory,
                         scratch.Reserve(bias_bytes + first_seen_bytes +
                                         (problem.backward ? rows * 4 : 0)));
    char* const bytes = static_cast<char*>(memory);
    float* const bias = static_cast<float*>(memory);
    int* const first_seen = reinterpret_cast<int*>(bytes + bias_bytes);
    buffers.bias = bias;
    MTF_ASSIGN_OR_RETURN(before.emplace_back(),
                         PrepareAttentionBias(runtime, problem,
                                              MaskOf(binding, at.operands.mask),
                                              MaskOf(binding, at.operands.bias),
                                              bias, first_seen));
    if (problem.backward) {
      float* const stats =
          reinterpret_cast<float*>(bytes + bias_bytes + first_seen_bytes);
      MTF_ASSIGN_OR_RETURN(
          before.emplace_back(),
          PrepareRowStats(runtime, rows,
                          static_cast<const float*>(buffers.stats), stats));
      buffers.stats = stats;
    } else {
      MTF_ASSIGN_OR_RETURN(
          after.emplace_back(),
          PrepareMaskedRows(runtime, problem, first_seen, buffers.o,
                            static_cast<float*>(buffers.stats)));
    }
  }
  absl::StatusOr<std::unique_ptr<PreparedAttention>> call =
      runtime.PrepareAttention(problem);
  if (absl::IsUnimplemented(call.status())) {
    return absl::UnimplementedError(absl::StrCat(
        "the library of this GPU has no kernel for the attention ",
        problem.ToString(), ": ", call.status().message(),
        "\n  help     MTF_CUDA_ATTENTION=0 composes attention of einsums"));
  }
  MTF_RETURN_IF_ERROR(call.status());
  return std::make_unique<AttentionKernel>(runtime, *std::move(call), buffers,
                                           std::move(before), std::move(after));
}

}  // namespace mtf::cuda
