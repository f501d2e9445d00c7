// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/matmul/convolution.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "backends/cuda/kernels/strided_copy.h"
#include "backends/cuda/matmul/einsum.h"
#include "backends/group_values.h"
#include "lowering/program/convolution_spec.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

int64_t AlignedBytes(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// The call of the library, and the copy of its filter, if any.
class LibraryConvolution : public Kernel {
 public:
  LibraryConvolution(std::unique_ptr<PreparedConvolution> call,
                     const PreparedConvolution::Buffers& buffers,
                     std::unique_ptr<Kernel> before,
                     std::unique_ptr<Kernel> after)
      : call_(std::move(call)),
        buffers_(buffers),
        before_(std::move(before)),
        after_(std::move(after)) {}

  void Run(StepContext& context) override {
    if (before_ != nullptr) before_->Run(context);
    call_->Run(buffers_);
    if (after_ != nullptr) after_->Run(context);
  }

 private:
  std::unique_ptr<PreparedConvolution> call_;
  PreparedConvolution::Buffers buffers_;
  std::unique_ptr<Kernel> before_, after_;
};

// From the filter in the program to [groups, outputs, windows..., inputs].
StridedCopy ToLibraryOrder(const ConvolutionSpec& spec) {
  StridedCopy copy;
  copy.from_dtype = copy.to_dtype = spec.dtype;
  const auto& strides = spec.filter_strides;
  copy.loops = {{spec.groups, strides[0], 0}, {spec.outputs, strides[1], 0}};
  for (size_t i = 0; i < spec.spatial.size(); ++i) {
    copy.loops.push_back({spec.spatial[i].window, strides[3 + i], 0});
  }
  copy.loops.push_back({spec.inputs, strides[2], 0});
  int64_t stride = 1;
  for (auto loop = copy.loops.rbegin(); loop != copy.loops.rend(); ++loop) {
    loop->to = stride;
    stride *= loop->extent;
  }
  return copy;
}

bool ChangesOrder(const StridedCopy& copy) {
  for (const StridedCopy::Loop& loop : copy.loops) {
    if (loop.extent > 1 && loop.from != loop.to) return true;
  }
  return false;
}

StridedCopy Reversed(StridedCopy copy) {
  for (StridedCopy::Loop& loop : copy.loops) std::swap(loop.from, loop.to);
  return copy;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareConvolution(
    Runtime& runtime, Scratch& scratch, const FusedGroup& group,
    absl::Span<const Binding> members) {
  std::optional<ConvolutionSpec> spec =
      FindConvolution(*members[0].program, group.members);
  if (!spec.has_value()) {
    return absl::InternalError("the group is not a convolution");
  }
  spec->tf32 = spec->dtype == kFloat32 && Tf32IsAllowed();
  absl::StatusOr<std::unique_ptr<PreparedConvolution>> call =
      runtime.PrepareConvolution(*spec);
  if (absl::IsUnimplemented(call.status())) {
    return absl::UnimplementedError(absl::StrCat(
        "the library of this GPU has no kernel for the convolution ",
        spec->ToString(), ": ", call.status().message(),
        "\n  help     MTF_CUDA_CONVOLUTIONS=0 computes windows and einsums"));
  }
  MTF_RETURN_IF_ERROR(call.status());
  PreparedConvolution::Buffers buffers = {
      .input = AddressOf(spec->input, members),
      .filter = AddressOf(spec->filter, members),
      .output = AddressOf(spec->output, members)};
  const StridedCopy copy = ToLibraryOrder(*spec);
  const int64_t filter_bytes =
      ChangesOrder(copy)
          ? AlignedBytes(spec->FilterElements() * DTypeSize(spec->dtype))
          : 0;
  MTF_ASSIGN_OR_RETURN(
      void* const memory,
      scratch.Reserve(filter_bytes + (*call)->workspace_bytes()));
  buffers.workspace = static_cast<char*>(memory) + filter_bytes;
  std::unique_ptr<Kernel> before, after;
  if (filter_bytes > 0) {
    void* const filter = std::exchange(buffers.filter, memory);
    if (spec->computes == ConvolutionSpec::Computes::kFilter) {
      MTF_ASSIGN_OR_RETURN(
          after, PrepareStridedCopy(runtime, Reversed(copy), memory, filter));
    } else {
      MTF_ASSIGN_OR_RETURN(before,
                           PrepareStridedCopy(runtime, copy, filter, memory));
    }
  }
  return std::make_unique<LibraryConvolution>(
      *std::move(call), buffers, std::move(before), std::move(after));
}

}  // namespace mtf::cuda
