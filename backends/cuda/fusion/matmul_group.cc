// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/matmul_group.h"

#include "absl/status/status.h"
#include "backends/cuda/fusion/group_dataflow.h"
#include "backends/cuda/matmul/einsum.h"

namespace mtf::cuda {
namespace {

using Epilogue = MatmulProblem::Epilogue;

Epilogue EpilogueOf(const EpilogueGroup& group) {
  if (group.gelu_gradient >= 0) return Epilogue::kGeluSlope;
  if (group.bias < 0) return group.gelu ? Epilogue::kGelu : Epilogue::kNone;
  return group.gelu ? Epilogue::kBiasGelu : Epilogue::kBias;
}

// Null if the library does not support the matmul.
absl::StatusOr<std::unique_ptr<Kernel>> Prepare(Runtime& runtime,
                                                Scratch& scratch,
                                                const Binding& einsum,
                                                const BoundValue& z,
                                                const MatmulFinish& finish) {
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = PrepareMatmul(
      runtime, scratch, *einsum.instruction().Get<EinsumAttributes>().plan,
      einsum.operands[0], einsum.operands[1], z, finish);
  if (absl::IsUnimplemented(kernel.status())) return std::unique_ptr<Kernel>();
  return kernel;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareEpilogue(
    Runtime& runtime, Scratch& scratch, const EpilogueGroup& epilogue,
    absl::Span<const Binding> members) {
  const auto address_of = [&](int value) -> void* {
    return value < 0 ? nullptr : FindValue(members, value)->data;
  };
  MatmulFinish finish;
  finish.epilogue = EpilogueOf(epilogue);
  finish.addend = address_of(epilogue.addend);
  finish.bias = address_of(epilogue.bias);
  finish.gelu_input = address_of(epilogue.gelu_gradient);
  if (epilogue.gelu) {
    // The input of GELU is stored if others read it.
    finish.gelu_input = members[members.size() - 2].results[0].data;
    finish.stores_gelu_input = finish.gelu_input != nullptr;
  }
  return Prepare(runtime, scratch, members[0], members.back().results[0],
                 finish);
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareBiasGradient(
    Runtime& runtime, Scratch& scratch, const BiasGradientGroup& gradient,
    absl::Span<const Binding> members) {
  const bool einsum_first = members[0].instruction().opcode == Opcode::kEinsum;
  const Binding& einsum = members[einsum_first ? 0 : 1];
  const Binding& sum = members[einsum_first ? 1 : 0];
  const Instruction& product = einsum.instruction();
  const bool is_first = product.operands[0] == gradient.summed;
  const bool swapped = product.Get<EinsumAttributes>().plan->swapped;
  MatmulFinish finish;
  finish.epilogue =
      is_first != swapped ? Epilogue::kSumsOfX : Epilogue::kSumsOfY;
  finish.bias = sum.results[0].data;
  return Prepare(runtime, scratch, einsum, einsum.results[0], finish);
}

}  // namespace mtf::cuda
