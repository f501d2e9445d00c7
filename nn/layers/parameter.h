// SPDX-License-Identifier: Apache-2.0
//
// Parameters of layers, in the dtypes of the PrecisionScope. For authors of
// layers; docs/writing_layers.md shows one.
#ifndef NN_LAYERS_PARAMETER_H_
#define NN_LAYERS_PARAMETER_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/layers/initializers.h"

namespace mtf::nn {

// The dtype in which a layer with the input `x` computes and returns its
// result: the activation dtype of the PrecisionScope, by default the dtype of
// `x`. f32 if `x` is empty.
//
//   x = Cast(x, nn::ActivationDType(x));
DType ActivationDType(Tensor x);

// Creates a parameter, a trainable variable "<scope>/<name>" with the shape of
// `initial_value`. Returns its value at the beginning of the step, cast to
// `dtype`, the dtype of its use.
//
//   Tensor scale =
//       nn::Parameter(graph, "scale", Ones(graph, kFloat32, {d_model}),
//       kFloat32);
//
// For Gradients() and Apply(), take the variable itself, VariableInfo::read of
// graph.variables(): the result may be a cast of it.
//
// The variable is stored in Precision::parameters, its master copy in
// Precision::master, and its gradient is computed in Precision::gradients;
// `initial_value` is a float that is rounded to these, best an f32. A layout
// shards the parameter by the names of its dimensions, as any tensor.
//
// Records kInvalidArgument in the graph if `dtype` or the dtype of
// `initial_value` is not a float, and the errors of Variable().
Tensor Parameter(
    Graph& graph, absl::string_view name, Tensor initial_value, DType dtype,
    std::source_location location = std::source_location::current());

struct KernelOptions {
  // Initial values are normal with variance scale / fan_in, where fan_in is the
  // number of elements of `reduced`: 1 after LeCun et al., 1998; 2 for Relu
  // (He et al., 2015).
  double scale = 1;
  // Used instead of `scale` if not null.
  Initializer init = nullptr;
  // Dimensions with a kernel of its own for each element, such as experts. They
  // come first in the shape.
  Shape each = {};
  int64_t window = 1;  // KernelShape::window
};

// Creates a Parameter [each..., reduced..., output...] with random initial
// values: the kernel of a linear layer from the dimensions `reduced` to
// `output`. Two layers have different values; a seed, the scope and the order
// of the calls in it determine them, whatever the layout.
//
//   Tensor kernel =
//       nn::Kernel(graph, "kernel", {d_model}, {d_ff}, x.dtype());
//   Tensor h = Einsum({x, kernel}, {batch, length, d_ff});
//
// Records kInvalidArgument in the graph if a name occurs twice in the shape
// (Rename() one side of `x`), if `options.scale` is negative or not finite, if
// both scale and init are given, if the result of `init` is not f32 in this
// shape, and for the errors of Parameter().
Tensor Kernel(Graph& graph, absl::string_view name, const Shape& reduced,
              const Shape& output, DType dtype, KernelOptions options = {},
              std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_PARAMETER_H_
