// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/matmul/einsum.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/kernels/strided_copy.h"
#include "backends/cuda/matmul/choose_matmul.h"
#include "backends/environment_switch.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

// The largest power of two up to 16 that divides all the addresses.
int AlignmentOf(std::initializer_list<const void*> addresses) {
  uintptr_t bits = 16;
  for (const void* address : addresses) {
    bits |= reinterpret_cast<uintptr_t>(address);
  }
  return static_cast<int>(bits & -bits);
}

class MatmulKernel : public Kernel {
 public:
  void Run(StepContext& context) override {
    for (const std::unique_ptr<Kernel>& pack : packs) pack->Run(context);
    for (const auto& [matmul, buffers] : calls) matmul->Run(buffers);
    if (unpack != nullptr) unpack->Run(context);
  }

  std::vector<std::unique_ptr<Kernel>> packs;
  std::vector<std::unique_ptr<PreparedMatmul>> matmuls;
  std::vector<std::pair<PreparedMatmul*, PreparedMatmul::Buffers>> calls;
  std::unique_ptr<Kernel> unpack;
};

const char* Advance(const void* data, int64_t elements, DType dtype) {
  return static_cast<const char*>(data) + elements * DTypeSize(dtype);
}
char* Advance(void* data, int64_t elements, DType dtype) {
  return static_cast<char*>(data) + elements * DTypeSize(dtype);
}

}  // namespace

bool Tf32IsAllowed() { return EnvironmentSwitch("MTF_CUDA_TF32", false); }

absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmul(
    Runtime& runtime, Scratch& scratch, const EinsumPlan& plan,
    const BoundValue& x, const BoundValue& y, const BoundValue& z,
    const MatmulFinish& finish) {
  const void* x_data = plan.swapped ? y.data : x.data;
  const void* y_data = plan.swapped ? x.data : y.data;
  void* z_data = z.data;
  MatmulCalls chosen =
      ChooseMatmul(plan, x.dtype(), z.dtype(),
                   AlignmentOf({x_data, y_data, z_data, finish.addend,
                                finish.bias, finish.gelu_input}));
  const bool finishes = finish.epilogue != MatmulProblem::Epilogue::kNone ||
                        finish.addend != nullptr;
  if (finishes && (chosen.calls.size() != 1 || chosen.unpack_z.has_value())) {
    return absl::UnimplementedError(
        "a matmul of several calls supports no epilogue");
  }

  // Packed operands are stored one after the other.
  const DType sum = chosen.problems[0].result_dtype;
  int64_t bytes = 0;
  const auto reserve = [&](const std::optional<StridedCopy>& copy,
                           DType dtype) {
    const int64_t at = bytes;
    if (copy.has_value()) {
      bytes += (copy->elements() * DTypeSize(dtype) + 255) / 256 * 256;
    }
    return at;
  };
  const int64_t x_at = reserve(chosen.pack_x, x.dtype());
  const int64_t y_at = reserve(chosen.pack_y, x.dtype());
  const int64_t z_at = reserve(chosen.unpack_z, sum);
  char* packed = nullptr;
  if (bytes > 0) {
    MTF_ASSIGN_OR_RETURN(void* reserved, scratch.Reserve(bytes));
    packed = static_cast<char*>(reserved);
  }

  auto kernel = std::make_unique<MatmulKernel>();
  const auto pack = [&](const std::optional<StridedCopy>& copy, int64_t at,
                        const void** data) -> absl::Status {
    if (!copy.has_value()) return absl::OkStatus();
    MTF_ASSIGN_OR_RETURN(
        std::unique_ptr<Kernel> kernel_of_copy,
        PrepareStridedCopy(runtime, *copy, *data, packed + at));
    kernel->packs.push_back(std::move(kernel_of_copy));
    *data = packed + at;
    return absl::OkStatus();
  };
  MTF_RETURN_IF_ERROR(pack(chosen.pack_x, x_at, &x_data));
  MTF_RETURN_IF_ERROR(pack(chosen.pack_y, y_at, &y_data));
  if (chosen.unpack_z.has_value()) {
    z_data = packed + z_at;
    MTF_ASSIGN_OR_RETURN(
        kernel->unpack,
        PrepareStridedCopy(runtime, *chosen.unpack_z, z_data, z.data));
  }

  for (MatmulProblem& problem : chosen.problems) {
    problem.epilogue = finish.epilogue;
    problem.stores_gelu_input = finish.stores_gelu_input;
    if (finish.addend != nullptr) problem.beta = 1;
    problem.tf32 = problem.dtype == kFloat32 && Tf32IsAllowed();
    MTF_ASSIGN_OR_RETURN(std::unique_ptr<PreparedMatmul> matmul,
                         runtime.PrepareMatmul(problem));
    kernel->matmuls.push_back(std::move(matmul));
  }
  for (const MatmulCalls::Call& call : chosen.calls) {
    PreparedMatmul::Buffers buffers;
    buffers.x = Advance(x_data, call.x, x.dtype());
    buffers.y = Advance(y_data, call.y, x.dtype());
    buffers.z = Advance(z_data, call.z, sum);
    buffers.addend = finish.addend;
    buffers.bias = finish.bias;
    buffers.gelu_input = finish.gelu_input;
    kernel->calls.push_back({kernel->matmuls[call.problem].get(), buffers});
  }
  return kernel;
}

}  // namespace mtf::cuda
