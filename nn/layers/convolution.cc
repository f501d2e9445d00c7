// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/convolution.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "ops/constant.h"
#include "ops/convolution.h"
#include "ops/elementwise.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

// Checks that channels divide by the groups.
absl::Status CheckGroups(const Dimension& dim, int64_t groups) {
  if (groups >= 1 && dim.size % groups == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      ".groups is ", groups, ", which does not divide dimension \"", dim.name,
      "\" of size ", dim.size));
}

// Checks that `x` lacks the dimension `name`, which is `what`.
absl::Status CheckFree(Tensor x, const std::string& name,
                       const std::string& what) {
  if (!x.shape().Contains(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", x.name(), "\" has the dimension \"", name, "\", the name of ", what,
      DescribeInputs({x}), "\n  help     Rename() that dimension"));
}

std::string WindowName(const std::string& spatial) {
  return absl::StrCat("kernel_", spatial);
}
std::string InputName(const Dimension& in) {
  return absl::StrCat(in.name, "_in");
}
std::string GroupInputName(const Dimension& in) {
  return absl::StrCat(in.name, "_in_group");
}
std::string GroupOutputName(const Dimension& out) {
  return absl::StrCat(out.name, "_out_of_group");
}

// Checks that the dimensions of the kernel have names of their own.
absl::Status CheckNames(Tensor x, const Shape& kernel, const Dimension& in,
                        const Dimension& out, int64_t groups) {
  for (const Dimension& dim : kernel) {
    const std::string what =
        absl::StrCat("the windows of the kernel along \"", dim.name, "\"");
    MTF_RETURN_IF_ERROR(CheckFree(x, WindowName(dim.name), what));
    if (out.name == WindowName(dim.name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dimension \"", out.name, "\" of the output has the name of ", what,
          DescribeInputs({x}), "\n  help     give the output another name"));
    }
    if (in.name == dim.name) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", in.name,
                       "\" cannot be both the input channels and a dimension "
                       "of the kernel, [",
                       kernel.ToString(), "]", DescribeInputs({x}),
                       "\n  help     give the kernel spatial dimensions only"));
    }
    if (dim.size < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the kernel has ", dim.size, " elements along \"", dim.name, "\"",
          DescribeInputs({x}), "\n  help     give it 1 or more"));
    }
  }
  if (groups > 1) {
    MTF_RETURN_IF_ERROR(
        CheckFree(x, GroupInputName(in), "the input channels of a group"));
    return CheckFree(x, GroupOutputName(out), "the output channels of a group");
  }
  if (in.name != out.name) return absl::OkStatus();
  return CheckFree(x, InputName(in), "the input channels of the kernel");
}

absl::Status Check(Tensor x, const Shape& kernel, const Dimension& in,
                   const Dimension& out, const ConvolutionOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "a convolution"));
  MTF_RETURN_IF_ERROR(kernel.Validate());
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, in));
  MTF_RETURN_IF_ERROR(CheckGroups(in, options.groups));
  MTF_RETURN_IF_ERROR(CheckGroups(out, options.groups));
  MTF_RETURN_IF_ERROR(CheckNames(x, kernel, in, out, options.groups));
  if (options.init_scale != ConvolutionOptions().init_scale) {
    MTF_RETURN_IF_ERROR(internal::CheckUnused(".init_scale", options.init));
  }
  for (const auto& [name, window] : options.windows) {
    if (kernel.Contains(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(".windows has \"", name, "\", but the kernel is over [",
                     kernel.ToString(), "]"));
  }
  if (out.name == in.name || !x.shape().Contains(out.name)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "dimension \"", out.name, "\" of the output is already in \"", x.name(),
      "\"", DescribeInputs({x}), "\n  help     give the output another name"));
}

absl::Status CheckUngrouped(const ConvolutionOptions& options,
                            absl::string_view kind) {
  if (options.groups == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      ".groups is ", options.groups, ", but a ", kind, " has no groups"));
}

Tensor FailWith(const absl::Status& status, absl::string_view kind, Tensor x,
                const Dimension& in, const Dimension& out,
                const ConvolutionOptions& options,
                std::source_location location) {
  Shape shape = x.shape().Without(in.name);
  if (!shape.Contains(out.name)) shape = shape.With(out);
  return x.graph().Fail(status, internal::DescribeLayer(kind, options.name),
                        location, shape, x.dtype());
}

// What the layers of this file pass to the operations.
struct FilterWindows {
  std::vector<SpatialDimension> spatial;
  Shape windows;  // of the kernel: [kernel_height, kernel_width]
};

FilterWindows WindowsOf(const Shape& kernel,
                        const ConvolutionOptions& options) {
  FilterWindows shape;
  for (const Dimension& dim : kernel) {
    const auto own = options.windows.find(dim.name);
    const std::string window = WindowName(dim.name);
    shape.spatial.push_back(
        {dim.name, window,
         own == options.windows.end() ? options.window : own->second});
    // Values beyond the ends are 0.
    shape.spatial.back().options.fill = 0;
    shape.windows = shape.windows.With({window, dim.size});
  }
  return shape;
}

KernelOptions InitialWeights(const FilterWindows& shape,
                             const ConvolutionOptions& options) {
  return {.scale = options.init_scale,
          .init = options.init,
          .window = shape.windows.num_elements()};
}

// A bias [out]. Created before the product, so that the product can add it as
// an epilogue.
Tensor MakeBias(Graph& graph, const Dimension& out,
                const ConvolutionOptions& options, DType dtype) {
  if (!options.bias) return {};
  return Parameter(graph, "bias", Zeros(graph, kFloat32, {out}), dtype);
}

Tensor Finish(Tensor y, Tensor bias, const ConvolutionOptions& options) {
  if (bias.valid()) y = y + bias;
  return options.activation == nullptr ? y : options.activation(y);
}

// `x` and the name of its input channels, which must differ from that of the
// output.
Tensor RenameInput(Tensor x, Dimension& in, const Dimension& out) {
  x = internal::To(ActivationDType(x), x);
  if (in.name != out.name) return x;
  const std::string inner = InputName(in);
  x = Rename(x, in.name, inner);
  in.name = inner;
  return x;
}

}  // namespace

Tensor Convolution(Tensor x, const Shape& kernel, const Dimension& in,
                   const Dimension& out, const ConvolutionOptions& options,
                   std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status status = Check(x, kernel, in, out, options);
  if (!status.ok()) {
    return FailWith(status, "convolution", x, in, out, options, location);
  }
  Dimension input = in;
  x = RenameInput(x, input, out);
  const FilterWindows shape = WindowsOf(kernel, options);
  Shape output = {out};
  if (options.groups > 1) {
    // [in] -> [groups, in of a group]
    const Dimension groups{out.name, options.groups};
    const Dimension of_group{GroupInputName(in), in.size / options.groups};
    x = SplitDimension(x, input.name, {groups, of_group});
    input = of_group;
    output = {groups, {GroupOutputName(out), out.size / options.groups}};
  }
  const Tensor weights =
      Kernel(graph, "kernel", internal::Join(shape.windows, {input}), output,
             x.dtype(), InitialWeights(shape, options));
  const Tensor bias = MakeBias(graph, out, options, x.dtype());
  Tensor y = mtf::Convolution(x, weights, shape.spatial, {input}, location);
  if (options.groups > 1) {
    y = MergeDimensions(y, {output[0].name, output[1].name}, out.name);
    y = Transpose(y, y.shape().Without(out.name).With(out));
  }
  return Finish(y, bias, options);
}

Tensor SeparableConvolution(Tensor x, const Shape& kernel, const Dimension& in,
                            const Dimension& out,
                            const ConvolutionOptions& options,
                            std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  absl::Status status = Check(x, kernel, in, out, options);
  if (status.ok()) status = CheckUngrouped(options, "separable convolution");
  if (!status.ok()) {
    return FailWith(status, "separable_convolution", x, in, out, options,
                    location);
  }
  x = internal::To(ActivationDType(x), x);
  const FilterWindows shape = WindowsOf(kernel, options);
  const Tensor weights = Kernel(graph, "kernel", shape.windows, {in}, x.dtype(),
                                InitialWeights(shape, options));
  x = mtf::Convolution(x, weights, shape.spatial, {}, location);
  return Dense(x, {in}, {out},
               {.bias = options.bias,
                .activation = options.activation,
                .init_scale = options.init_scale,
                .init = options.init});
}

Tensor TransposedConvolution(Tensor x, const Shape& kernel, const Dimension& in,
                             const Dimension& out, const Shape& sizes,
                             const ConvolutionOptions& options,
                             std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  absl::Status status = Check(x, kernel, in, out, options);
  if (status.ok()) status = CheckUngrouped(options, "transposed convolution");
  if (!status.ok()) {
    return FailWith(status, "transposed_convolution", x, in, out, options,
                    location);
  }
  Dimension input = in;
  x = RenameInput(x, input, out);
  const FilterWindows shape = WindowsOf(kernel, options);
  const Tensor weights =
      Kernel(graph, "kernel", internal::Join(shape.windows, {input}), {out},
             x.dtype(), InitialWeights(shape, options));
  const Tensor bias = MakeBias(graph, out, options, x.dtype());
  const Tensor y = mtf::TransposedConvolution(x, weights, shape.spatial,
                                              {input}, sizes, location);
  return Finish(y, bias, options);
}

}  // namespace mtf::nn
