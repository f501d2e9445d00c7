// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/onednn_convolution.h"

#include <algorithm>

#include "backends/cpu/onednn_call.h"
#include "backends/cpu/scratch.h"

namespace mtf::cpu::onednn {
namespace {

using Computes = ConvolutionSpec::Computes;

// [images, channels, spatial...], with the channels last in memory.
MatrixLayout ImageLayout(int64_t images, int64_t channels,
                         const std::vector<int64_t>& extents) {
  MatrixLayout layout;
  layout.sizes = {images, channels};
  layout.sizes.insert(layout.sizes.end(), extents.begin(), extents.end());
  layout.strides.assign(layout.sizes.size(), 1);
  int64_t stride = channels;
  for (size_t i = layout.sizes.size(); i-- > 2;) {
    layout.strides[i] = stride;
    stride *= layout.sizes[i];
  }
  layout.strides[0] = stride;
  return layout;
}

// [groups if there are several, outputs, inputs, windows...].
MatrixLayout FilterLayout(const ConvolutionSpec& spec) {
  MatrixLayout layout;
  layout.sizes = {spec.groups, spec.outputs, spec.inputs};
  for (const ConvolutionSpec::Spatial& dim : spec.spatial) {
    layout.sizes.push_back(dim.window);
  }
  for (int64_t stride : spec.filter_strides) {
    // A dimension that the filter lacks has one element.
    layout.strides.push_back(std::max<int64_t>(stride, 1));
  }
  if (spec.groups == 1) {
    layout.sizes.erase(layout.sizes.begin());
    layout.strides.erase(layout.strides.begin());
  }
  return layout;
}

// The options of windows, as the library takes them.
struct WindowArguments {
  std::vector<dnnl_dim_t> strides, dilates, before, after;

  explicit WindowArguments(const ConvolutionSpec& spec) {
    for (const ConvolutionSpec::Spatial& dim : spec.spatial) {
      strides.push_back(dim.stride);
      dilates.push_back(dim.dilation - 1);
      before.push_back(dim.before);
      after.push_back(std::max<int64_t>(dim.after, 0));
    }
  }
};

// Describes the primitive `computes` into `out`. Gradients refer to the forward
// primitive `forward`.
dnnl_status_t Describe(Computes computes, const MemoryDesc& input,
                       const MemoryDesc& filter, const MemoryDesc& output,
                       const WindowArguments& windows,
                       dnnl_primitive_attr_t attr,
                       const_dnnl_primitive_desc_t forward,
                       dnnl_primitive_desc_t* out) {
  constexpr auto kDirect = dnnl_convolution_direct;
  const auto *s = windows.strides.data(), *d = windows.dilates.data(),
             *before = windows.before.data(), *after = windows.after.data();
#if DNNL_VERSION_MAJOR >= 3
  switch (computes) {
    case Computes::kOutput:
      return dnnl_convolution_forward_primitive_desc_create(
          out, Engine(), dnnl_forward_training, kDirect, input.get(),
          filter.get(), nullptr, output.get(), s, d, before, after, attr);
    case Computes::kInput:
      return dnnl_convolution_backward_data_primitive_desc_create(
          out, Engine(), kDirect, input.get(), filter.get(), output.get(), s, d,
          before, after, forward, attr);
    case Computes::kFilter:
      break;
  }
  return dnnl_convolution_backward_weights_primitive_desc_create(
      out, Engine(), kDirect, input.get(), filter.get(), nullptr, output.get(),
      s, d, before, after, forward, attr);
#else
  dnnl_convolution_desc_t desc;
  dnnl_status_t status = dnnl_success;
  switch (computes) {
    case Computes::kOutput:
      status = dnnl_dilated_convolution_forward_desc_init(
          &desc, dnnl_forward_training, kDirect, input.get(), filter.get(),
          nullptr, output.get(), s, d, before, after);
      break;
    case Computes::kInput:
      status = dnnl_dilated_convolution_backward_data_desc_init(
          &desc, kDirect, input.get(), filter.get(), output.get(), s, d, before,
          after);
      break;
    case Computes::kFilter:
      status = dnnl_dilated_convolution_backward_weights_desc_init(
          &desc, kDirect, input.get(), filter.get(), nullptr, output.get(), s,
          d, before, after);
      break;
  }
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(out, &desc, attr, Engine(), forward);
#endif
}

// A description that is only needed while others are made.
struct PrimitiveDesc {
  dnnl_primitive_desc_t desc = nullptr;
  ~PrimitiveDesc() {
    if (desc != nullptr) dnnl_primitive_desc_destroy(desc);
  }
};

class ConvolutionCall : public ConvolutionPrimitive {
 public:
  absl::Status Init(const ConvolutionSpec& spec, int64_t images);

  int64_t filter_bytes() const override { return filter_bytes_; }
  void PackFilter(const void* filter, void* packed) override {
    pack_.Run({Scratchpad(pack_), filter, packed});
  }
  void UnpackFilter(const void* packed, void* filter) override {
    pack_.Run({Scratchpad(pack_), packed, filter});
  }
  void Run(void* input, void* packed_filter, void* output) override {
    convolution_.Run({Scratchpad(convolution_), input, packed_filter, output});
  }

 private:
  static void* Scratchpad(const Call& call) {
    return ThreadScratch(ScratchUse::kMatmul, call.scratchpad_bytes());
  }
  // Makes the conversion between the layout of the program and `packed`.
  template <class Desc>
  absl::Status InitPack(const MemoryDesc& filter, const Desc* packed,
                        bool unpacks, dnnl_primitive_attr_t attr);

  Call convolution_, pack_;
  int64_t filter_bytes_ = 0;
};

absl::Status ConvolutionCall::Init(const ConvolutionSpec& spec,
                                   int64_t images) {
  std::vector<int64_t> input_extents, output_extents;
  for (const ConvolutionSpec::Spatial& dim : spec.spatial) {
    input_extents.push_back(dim.input);
    output_extents.push_back(dim.output);
  }
  MemoryDesc input, output, filter, any_filter;
  MTF_RETURN_IF_DNNL_ERROR(input.Init(
      dnnl_f32, ImageLayout(images, spec.groups * spec.inputs, input_extents)));
  MTF_RETURN_IF_DNNL_ERROR(output.Init(
      dnnl_f32,
      ImageLayout(images, spec.groups * spec.outputs, output_extents)));
  const MatrixLayout filter_layout = FilterLayout(spec);
  MTF_RETURN_IF_DNNL_ERROR(filter.Init(dnnl_f32, filter_layout));
  MTF_RETURN_IF_DNNL_ERROR(any_filter.InitAny(dnnl_f32, filter_layout));
  Attributes attributes;
  MTF_RETURN_IF_ERROR(attributes.Init());

  const WindowArguments windows(spec);
  PrimitiveDesc forward;
  if (spec.computes != Computes::kOutput) {
    MTF_RETURN_IF_DNNL_ERROR(Describe(Computes::kOutput, input, any_filter,
                                      output, windows, attributes.attr, nullptr,
                                      &forward.desc));
  }
  dnnl_primitive_desc_t* desc = convolution_.desc();
  MTF_RETURN_IF_DNNL_ERROR(Describe(spec.computes, input, any_filter, output,
                                    windows, attributes.attr, forward.desc,
                                    desc));
  MTF_RETURN_IF_ERROR(convolution_.Init());
  const bool of_filter = spec.computes == Computes::kFilter;
  const bool of_input = spec.computes == Computes::kInput;
  const auto* packed = dnnl_primitive_desc_query_md(
      *desc, of_filter ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
  MTF_RETURN_IF_ERROR(convolution_.AddArgument(
      of_input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, input.get()));
  MTF_RETURN_IF_ERROR(convolution_.AddArgument(
      of_filter ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, packed));
  MTF_RETURN_IF_ERROR(convolution_.AddArgument(
      of_filter || of_input ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST, output.get()));
  filter_bytes_ =
      (static_cast<int64_t>(dnnl_memory_desc_get_size(packed)) + 63) / 64 * 64;
  return InitPack(filter, packed, of_filter, attributes.attr);
}

template <class Desc>
absl::Status ConvolutionCall::InitPack(const MemoryDesc& filter,
                                       const Desc* packed, bool unpacks,
                                       dnnl_primitive_attr_t attr) {
  const Desc* from = unpacks ? packed : filter.get();
  const Desc* to = unpacks ? filter.get() : packed;
  MTF_RETURN_IF_DNNL_ERROR(dnnl_reorder_primitive_desc_create(
      pack_.desc(), from, Engine(), to, Engine(), attr));
  MTF_RETURN_IF_ERROR(pack_.Init());
  MTF_RETURN_IF_ERROR(pack_.AddArgument(DNNL_ARG_FROM, from));
  return pack_.AddArgument(DNNL_ARG_TO, to);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>>
ConvolutionPrimitive::Create(const ConvolutionSpec& spec, int64_t images) {
  auto call = std::make_unique<ConvolutionCall>();
  MTF_RETURN_IF_ERROR(call->Init(spec, images));
  return call;
}

}  // namespace mtf::cpu::onednn
