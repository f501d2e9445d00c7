// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/device.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/kernel_list.h"
#include "backends/cuda/communicators/connection.h"
#include "backends/cuda/fusion/map_batch.h"
#include "backends/cuda/fusion/matmul_group.h"
#include "backends/cuda/fusion/row_group.h"
#include "backends/cuda/kernels/attention.h"
#include "backends/cuda/kernels/dynamic_slice.h"
#include "backends/cuda/kernels/gather.h"
#include "backends/cuda/kernels/map.h"
#include "backends/cuda/kernels/movement.h"
#include "backends/cuda/kernels/random.h"
#include "backends/cuda/kernels/reduce.h"
#include "backends/cuda/kernels/rows.h"
#include "backends/cuda/kernels/scan.h"
#include "backends/cuda/kernels/scatter_add.h"
#include "backends/cuda/kernels/step_state.h"
#include "backends/cuda/kernels/top_k.h"
#include "backends/cuda/kernels/zero.h"
#include "backends/cuda/matmul/convolution.h"
#include "backends/cuda/matmul/einsum.h"
#include "backends/cuda/scratch.h"
#include "backends/environment_switch.h"
#include "backends/index_space.h"
#include "lowering/fusion/device_fusion.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Runs work on the second stream of the runtime.
class AsyncStream : public AsyncRunner {
 public:
  AsyncStream(Runtime& runtime, std::unique_ptr<AsyncWork> work)
      : runtime_(runtime), work_(std::move(work)) {}
  absl::Status Run(const std::function<absl::Status()>& work) override {
    runtime_.EnterAsync(*work_);
    const absl::Status status = CatchExceptions(work);
    runtime_.LeaveAsync(*work_);
    return status;
  }
  void Wait() override { runtime_.WaitForAsync(*work_); }

 private:
  Runtime& runtime_;
  std::unique_ptr<AsyncWork> work_;
};

// Copies a variable between device and host memory.
class HostCopyKernel : public Kernel {
 public:
  HostCopyKernel(Runtime& runtime, void* to, const void* from, int64_t bytes)
      : runtime_(runtime), to_(to), from_(from), bytes_(bytes) {}
  void Run(StepContext&) override { runtime_.CopyWithHost(to_, from_, bytes_); }

 private:
  Runtime& runtime_;
  void* const to_;
  const void* const from_;
  const int64_t bytes_;
};

// A Device over a Runtime: dispatches instructions and groups to the kernels of
// the other folders.
class CudaDevice : public Device {
 public:
  CudaDevice(std::string name, std::shared_ptr<Runtime> runtime)
      : name_(std::move(name)),
        runtime_(std::move(runtime)),
        scratch_(*runtime_),
        step_state_(*runtime_) {}

  absl::string_view name() const override { return name_; }
  void EnterThread() override { runtime_->EnterThread(); }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    return runtime_->Allocate(bytes);
  }
  void Free(void* data) override { runtime_->Free(data); }
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override {
    return runtime_->AllocateHost(bytes);
  }
  void FreeHost(void* data) override { runtime_->FreeHost(data); }
  absl::Status CopyToDevice(void* to, const void* from,
                            int64_t bytes) override {
    runtime_->CopyToDevice(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes) override {
    runtime_->CopyToHost(to, from, bytes);
    return runtime_->Synchronize();
  }

  KernelOr Prepare(const Binding& binding) override {
    const Instruction& instruction = binding.instruction();
    Runtime& runtime = *runtime_;
    switch (instruction.opcode) {
      case Opcode::kConstant:
        return PrepareConstant(runtime, binding);
      case Opcode::kRandom:
        return PrepareRandom(runtime, step_state_, binding);
      case Opcode::kMap:
        return PrepareMap(runtime, ExpressionOf(instruction), binding.operands,
                          binding.results[0]);
      case Opcode::kEinsum:
        return PrepareEinsum(binding);
      case Opcode::kReduce:
        return PrepareReduce(runtime, scratch_, ReductionOf(instruction),
                             ExpressionOf(instruction), binding.operands,
                             IterationOf(binding), binding.results[0]);
      case Opcode::kReshape:
        return PrepareReshape(runtime, binding);
      case Opcode::kSlice:
        return PrepareSlice(runtime, binding);
      case Opcode::kPad:
        return PreparePad(runtime, binding);
      case Opcode::kConcat:
        return PrepareConcat(runtime, binding);
      case Opcode::kTakeRows:
      case Opcode::kPlaceRows:
        return PrepareRows(runtime, binding);
      case Opcode::kWindows:
        return PrepareWindows(runtime, binding);
      case Opcode::kFoldWindows:
        return PrepareFoldWindows(runtime, binding);
      case Opcode::kGather:
        return PrepareGather(runtime, step_state_, binding);
      case Opcode::kScatterAdd:
        return PrepareScatterAdd(runtime, scratch_, step_state_, binding);
      case Opcode::kCheckIndex:
        return PrepareCheckIndex(runtime, step_state_, binding);
      case Opcode::kDynamicSlice:
        return PrepareDynamicSlice(runtime, binding);
      case Opcode::kUpdateSlice:
        return PrepareUpdateSlice(runtime, binding);
      case Opcode::kScan:
        return PrepareScan(runtime, binding);
      case Opcode::kReduceBlocks:
        return PrepareReduceBlocks(runtime, binding);
      case Opcode::kTopK:
        return PrepareTopK(runtime, scratch_, binding);
      case Opcode::kAttention:
      case Opcode::kAttentionGradient:
        return PrepareAttention(runtime, scratch_, binding);
      case Opcode::kMask:
        return PrepareMask(runtime, binding);
      case Opcode::kAllSlice:
        return PrepareAllSlice(runtime, binding);
      default:
        break;
    }
    return absl::UnimplementedError(
        absl::StrCat("device \"", name_, "\" has no kernel for ",
                     OpcodeName(instruction.opcode)));
  }

  std::unique_ptr<Kernel> PrepareCopy(void* to, const void* from,
                                      const BlockCopy& copy) override {
    KernelOr kernel = PrepareBlockCopy(*runtime_, to, from, copy);
    if (kernel.ok()) return *std::move(kernel);
    // PrepareCopy cannot return an error: the step fails with it.
    if (failure_.ok()) failure_ = kernel.status();
    return std::make_unique<LaunchSequence>(*runtime_, std::vector<Launch>());
  }

  std::unique_ptr<Kernel> PrepareHostCopy(void* to, const void* from,
                                          int64_t bytes) override {
    return std::make_unique<HostCopyKernel>(*runtime_, to, from, bytes);
  }

  AttentionSupport attention() const override {
    static const bool is_enabled =
        EnvironmentSwitch("MTF_CUDA_ATTENTION", true);
    return is_enabled && runtime_->has_attention()
               ? AttentionSupport::kFusedKernels
               : AttentionSupport::kNone;
  }

  FusionCapabilities fusion() const override {
    static const bool is_enabled =
        EnvironmentSwitch("MTF_CUDA_CONVOLUTIONS", true);
    return CudaFusion(is_enabled && runtime_->has_convolutions());
  }
  KernelOr PrepareGroup(const FusedGroup& group,
                        absl::Span<const Binding> members) override {
    if (group.Find<ConvolutionGroup>() != nullptr) {
      return PrepareConvolution(*runtime_, scratch_, group, members);
    }
    if (group.Find<RowGroup>() != nullptr) {
      return PrepareRowGroup(*runtime_, scratch_, members);
    }
    if (const auto* maps = group.Find<MapGroup>()) {
      return PrepareMapBatch(*runtime_, *maps, members);
    }
    if (const auto* gradient = group.Find<BiasGradientGroup>()) {
      return PrepareBiasGradient(*runtime_, scratch_, *gradient, members);
    }
    KernelOr kernel = PrepareEpilogue(*runtime_, scratch_,
                                      *group.Find<EpilogueGroup>(), members);
    if (!kernel.ok() || *kernel != nullptr) return kernel;
    return PrepareSeparately(members);
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      Communicator& host) override {
    MTF_ASSIGN_OR_RETURN(std::unique_ptr<Connection> connection,
                         cuda::Connect(runtime_, host));
    connection_ = connection.get();
    return connection;
  }

  absl::Status BeginStep(const StepContext& context) override {
    MTF_RETURN_IF_ERROR(failure_);
    step_state_.BeginStep(context);
    return absl::OkStatus();
  }
  absl::Status Finish(StepContext& context) override {
    if (connection_ != nullptr) {
      MTF_RETURN_IF_ERROR(connection_->Synchronize());
    }
    return step_state_.Finish(context);
  }

  std::unique_ptr<AsyncRunner> PrepareAsyncRunner() override {
    std::unique_ptr<AsyncWork> work = runtime_->NewAsyncWork();
    if (work == nullptr) return nullptr;
    return std::make_unique<AsyncStream>(*runtime_, std::move(work));
  }

  void EnterRange(const char* name) override { runtime_->PushRange(name); }
  void LeaveRange() override { runtime_->PopRange(); }

  bool replays() const override { return connection_ != nullptr; }
  absl::Status RunOrReplay(const std::function<absl::Status()>& work,
                           std::unique_ptr<Replay>& replay) override {
    return connection_ == nullptr ? work()
                                  : connection_->RunOrReplay(work, replay);
  }

 private:
  // Called if the library does not support the epilogue of an einsum. Prepares
  // a kernel for each member. A member whose result has no memory writes to
  // that of the next stored result, which has the same elements and which the
  // maps in between update in place.
  KernelOr PrepareSeparately(absl::Span<const Binding> members) {
    std::vector<Binding> own(members.begin(), members.end());
    for (size_t i = own.size() - 1; i-- > 0;) {
      void*& data = own[i].results[0].data;
      if (data != nullptr) continue;
      data = own[i + 1].results[0].data;
      for (BoundValue& operand : own[i + 1].operands) {
        if (operand.data == nullptr) operand.data = data;
      }
    }
    auto kernels = std::make_unique<KernelList>();
    for (const Binding& member : own) {
      MTF_RETURN_IF_ERROR(kernels->Add(Prepare(member)));
    }
    return kernels;
  }

  KernelOr PrepareEinsum(const Binding& binding) {
    const EinsumPlan& plan =
        *binding.instruction().Get<EinsumAttributes>().plan;
    const BoundValue &x = binding.operands[0], &y = binding.operands[1];
    const BoundValue& z = binding.results[0];
    EinsumKind kind = KindOfEinsum(plan, z.dtype());
    if (kind == EinsumKind::kMatmul) {
      KernelOr kernel = PrepareMatmul(*runtime_, scratch_, plan, x, y, z);
      if (!absl::IsUnimplemented(kernel.status())) return kernel;
      kind = EinsumKind::kReduce;
    }
    if (kind == EinsumKind::kZero) {
      return std::make_unique<ZeroKernel>(*runtime_, z);
    }
    if (kind == EinsumKind::kProduct) {
      return PrepareMap(
          *runtime_,
          MapExpression::Single(ScalarFunction::kMultiply, z.dtype(), 2),
          binding.operands, z);
    }
    // Products of 16-bit floats are exact in float32.
    const DType wide = IsFloat(z.dtype()) ? kFloat32 : z.dtype();
    return PrepareReduce(
        *runtime_, scratch_, ReduceKind::kSum,
        MapExpression::Single(ScalarFunction::kMultiply, wide, 2),
        binding.operands, UnionOf({&z, &x, &y}), z);
  }

  std::string name_;
  std::shared_ptr<Runtime> runtime_;
  Scratch scratch_;
  StepState step_state_;
  absl::Status failure_;              // of PrepareCopy, which returns no Status
  Connection* connection_ = nullptr;  // outlives every step
};

}  // namespace

std::unique_ptr<Device> CreateDeviceOver(std::shared_ptr<Runtime> runtime,
                                         std::string name) {
  return std::make_unique<CudaDevice>(std::move(name), std::move(runtime));
}

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(
    const DeviceOptions& options) {
  MTF_ASSIGN_OR_RETURN(std::shared_ptr<Runtime> runtime,
                       OpenGpu(options.local_rank));
  runtime->EnterThread();
  return CreateDeviceOver(std::move(runtime), "cuda");
}

bool HasGpu() {
  static const bool has = OpenGpu(0).ok();
  return has;
}

absl::StatusOr<std::unique_ptr<Device>> CreateEmulatedDevice(
    const DeviceOptions&) {
  MTF_ASSIGN_OR_RETURN(std::shared_ptr<Runtime> runtime, OpenEmulatedGpu());
  return CreateDeviceOver(std::move(runtime), "cuda_emulated");
}

}  // namespace mtf::cuda
