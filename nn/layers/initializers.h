// SPDX-License-Identifier: Apache-2.0
//
// Initial values of kernels, for the option `init` of nn::Kernel, nn::Dense and
// nn::Embedding.
//
//   x = nn::Dense(x, {d_model}, {d_ff},
//                 {.activation = Relu, .init = nn::He()});
//
// All are random as RandomNormal() is: a seed, the scope and the order of the
// calls in it determine them, whatever the layout.
#ifndef NN_LAYERS_INITIALIZERS_H_
#define NN_LAYERS_INITIALIZERS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn {

// The dimensions of the kernel of a linear layer: those with a kernel of its
// own for each element, such as experts, those that the layer sums over, and
// those of its result.
struct KernelShape {
  Shape each, fan_in, fan_out;
  // Of a convolution: the elements of its windows, which are dimensions of
  // fan_in. Each element of the input is in as many windows.
  int64_t window = 1;

  // [each..., fan_in..., fan_out...]
  Shape Joined() const;
};

// Returns the initial values of a kernel, f32 [each..., fan_in..., fan_out...].
// A table of embeddings is a kernel from its vocabulary to the model dimension.
// Values must not depend on the step (RandomOptions::per_step).
using Initializer =
    std::function<Tensor(Graph& graph, const KernelShape& kernel)>;

// The number of elements by which a variance is divided: of fan_in, of fan_out
// times the window, or the mean of both.
enum class Fan { kIn, kOut, kAverage };

// kTruncatedNormal is a normal distribution without its values beyond two
// standard deviations; kUniform is symmetric.
enum class Distribution { kNormal, kTruncatedNormal, kUniform };

struct VarianceScalingOptions {
  double scale = 1;
  Fan fan = Fan::kIn;
  Distribution distribution = Distribution::kNormal;
};

// Random values of mean 0 and variance scale / fan. Records kInvalidArgument in
// the graph if `scale` is negative or not finite in f32.
Initializer VarianceScaling(VarianceScalingOptions options = {});

// The usual members of the family, by name:
//
//   LeCun    1 / fan_in                      LeCun et al., 1998; the default
//   He       2 / fan_in                      He et al., 2015, for Relu
//   Glorot   1 / mean of fan_in and fan_out  Glorot and Bengio, 2010
//
Initializer LeCun(Distribution distribution = Distribution::kNormal);
Initializer He(Distribution distribution = Distribution::kNormal);
Initializer Glorot(Distribution distribution = Distribution::kUniform);

// A random matrix with orthonormal rows or columns, whichever are fewer, times
// `gain` (Saxe et al., 2014): the orthogonal factor of the polar decomposition
// of a normal matrix, by the iteration of Newton and Schulz. Each device
// computes all of it, so that layouts have the same bits. Records
// kInvalidArgument in the graph if `gain` is negative or not finite in f32.
Initializer Orthogonal(double gain = 1);

// All elements are `value`.
Initializer ConstantValue(double value);

namespace internal {

// The values of `init` for the parameter `name`. Records kInvalidArgument in
// the graph if they are not f32 in the shape of `kernel`.
Tensor InitialValue(Graph& graph, const Initializer& init,
                    const KernelShape& kernel, absl::string_view name);

// An error if `init` is given: `option`, which is given too, has no effect.
absl::Status CheckUnused(absl::string_view option, const Initializer& init);

}  // namespace internal
}  // namespace mtf::nn

#endif  // NN_LAYERS_INITIALIZERS_H_
