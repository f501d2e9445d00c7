// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/windows/convolution.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cpu/onednn_convolution.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/threads.h"
#include "backends/group_values.h"
#include "lowering/program/convolution_spec.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf::cpu {
namespace {

using Computes = ConvolutionSpec::Computes;

// A call of the library should take at least as many operations, about 100
// microseconds.
constexpr int64_t kLeastFlops = 4 << 20;
// The most calls whose gradients of a filter are added up, and bytes of these.
constexpr int64_t kMostSums = 8, kMostSumBytes = 32 << 20;
constexpr int64_t kSumGrain = 16384;  // elements per thread

// The largest divisor of `count` up to `most`.
int64_t DivisorUpTo(int64_t count, int64_t most) {
  int64_t divisor = std::clamp<int64_t>(most, 1, count);
  while (count % divisor != 0) --divisor;
  return divisor;
}

class ConvolutionKernel : public Kernel {
 public:
  absl::Status Init(const ConvolutionSpec& spec, void* input, void* filter,
                    void* output) {
    computes_ = spec.computes;
    filter_ = filter;
    const int64_t images = ImagesPerCall(spec);
    calls_ = spec.batch / images;
    int64_t input_elements = images * spec.groups * spec.inputs;
    int64_t output_elements = images * spec.groups * spec.outputs;
    for (const ConvolutionSpec::Spatial& dim : spec.spatial) {
      input_elements *= dim.input;
      output_elements *= dim.output;
    }
    input_ = {static_cast<float*>(input), input_elements};
    output_ = {static_cast<float*>(output), output_elements};
    const int64_t threads = calls_ > 1 ? NumThreads() : 1;
    for (int64_t i = 0; i < threads; ++i) {
      MTF_ASSIGN_OR_RETURN(auto primitive,
                           onednn::ConvolutionPrimitive::Create(spec, images));
      primitives_.push_back(std::move(primitive));
    }
    filter_bytes_ = primitives_[0]->filter_bytes();
    return absl::OkStatus();
  }

  void Run(StepContext&) override {
    const bool sums = computes_ == Computes::kFilter;
    char* filters = static_cast<char*>(ThreadScratch(
        ScratchUse::kKernel, filter_bytes_ * (sums ? calls_ : 1)));
    if (!sums) primitives_[0]->PackFilter(filter_, filters);
    ParallelFor(calls_, 1, [&](int64_t begin, int64_t end) {
      const auto thread = static_cast<size_t>(ThreadIndex());
      MTF_CHECK(thread < primitives_.size()) << thread;
      for (int64_t i = begin; i < end; ++i) {
        primitives_[thread]->Run(input_.At(i),
                                 filters + (sums ? filter_bytes_ * i : 0),
                                 output_.At(i));
      }
    });
    if (!sums) return;
    AddUp(reinterpret_cast<float*>(filters));
    primitives_[0]->UnpackFilter(filters, filter_);
  }

 private:
  // The images of one call.
  struct Images {
    float* data = nullptr;
    int64_t elements = 0;
    float* At(int64_t call) const { return data + call * elements; }
  };

  static int64_t ImagesPerCall(const ConvolutionSpec& spec) {
    const int64_t flops = std::max<int64_t>(spec.flops() / spec.batch, 1);
    if (spec.computes != Computes::kFilter) {
      return DivisorUpTo(spec.batch, kLeastFlops / flops);
    }
    int64_t bytes = 4 * spec.groups * spec.inputs * spec.outputs;
    for (const ConvolutionSpec::Spatial& dim : spec.spatial) {
      bytes *= dim.window;
    }
    const int64_t most = std::min(
        {kMostSums, kMostSumBytes / bytes, spec.flops() / kLeastFlops});
    return spec.batch / DivisorUpTo(spec.batch, most);
  }

  // Adds all filters to the first.
  void AddUp(float* filters) const {
    const int64_t elements =
        filter_bytes_ / static_cast<int64_t>(sizeof(float));
    ParallelFor(elements, kSumGrain, [&](int64_t begin, int64_t end) {
      for (int64_t call = 1; call < calls_; ++call) {
        const float* from = filters + call * elements;
        for (int64_t i = begin; i < end; ++i) filters[i] += from[i];
      }
    });
  }

  Computes computes_ = Computes::kOutput;
  Images input_, output_;
  void* filter_ = nullptr;
  int64_t calls_ = 0, filter_bytes_ = 0;
  // By thread: a primitive has memory objects of its own.
  std::vector<std::unique_ptr<onednn::ConvolutionPrimitive>> primitives_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareConvolution(
    const FusedGroup& group, absl::Span<const Binding> members) {
  const std::optional<ConvolutionSpec> spec =
      FindConvolution(*members[0].program, group.members);
  if (!spec.has_value()) {
    return absl::InternalError("the group is not a convolution");
  }
  if (spec->dtype != kFloat32) {
    return absl::UnimplementedError(absl::StrCat(
        "the CPU device has no convolution of ", DTypeName(spec->dtype),
        "\n  help     lower the program for this device: it runs the windows "
        "and the einsum of the group \"convolution\""));
  }
  auto kernel = std::make_unique<ConvolutionKernel>();
  MTF_RETURN_IF_ERROR(kernel->Init(*spec, AddressOf(spec->input, members),
                                   AddressOf(spec->filter, members),
                                   AddressOf(spec->output, members)));
  return kernel;
}

}  // namespace mtf::cpu
