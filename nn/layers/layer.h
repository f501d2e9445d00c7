// SPDX-License-Identifier: Apache-2.0
//
// What the layers of this folder have in common. Not for users.
#ifndef NN_LAYERS_LAYER_H_
#define NN_LAYERS_LAYER_H_

#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mtf/dimension.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn::internal {

// While alive, all that is made in `graph` has the line `location`, unless an
// outer layer has set one, and a name under "<name>/". The second layer of a
// name in a scope is "<name>_1", so that two may stand side by side.
class LayerScope {
 public:
  LayerScope(Graph& graph, absl::string_view name,
             std::source_location location);

 private:
  CallSiteScope call_site_;
  Scope scope_;
};

// How errors call a layer: "dense", or "dense \"query\"" when it has a name of
// its own.
std::string Called(absl::string_view kind, absl::string_view name);

// `x` has `dim`, in this size; else a status in the words of the call.
absl::Status CheckDimension(Tensor x, const Dimension& dim);

// `x` is of a float, or of an integer, dtype.
absl::Status CheckFloat(Tensor x, absl::string_view what);
absl::Status CheckInteger(Tensor x, absl::string_view what);

// `dim` was given: `option` is what the user should have written, ".heads".
absl::Status CheckGiven(const Dimension& dim, absl::string_view option);

// The last dimension of `x`, which is not one of `others`.
absl::StatusOr<Dimension> ModelDimension(Tensor x, const Shape& others = {});

// The dimensions of `a`, then those of `b`.
Shape Join(const Shape& a, const Shape& b);

// The second names that dimensions have inside of a layer, where a layout may
// cut them in another way than outside. See SecondName in ops/reshape.h.
class NamesInside {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  NamesInside() = default;
  // Takes those of the pairs {first, second} of which one of `tensors` has the
  // first name and none the second.
  NamesInside(const Pairs& names, const std::vector<Tensor>& tensors);

  Tensor Enter(Tensor x) const;
  Dimension Enter(Dimension dim) const;
  Tensor Leave(Tensor x) const;

 private:
  Pairs names_;
};

// What `length` is called in a block: "block_length".
std::string InBlock(absl::string_view length);

// What a layer computes in that is given `x`.
DType ActivationDType(Tensor x);

// A new parameter of the dtypes of the present precision, cast to `dtype` for
// its use. `initial_value` is f32.
Tensor Parameter(Graph& graph, absl::string_view name, Tensor initial_value,
                 DType dtype);

// A new parameter [reduced..., output...], cast to `dtype`: normal with
// variance scale / fan_in, where fan_in is the number of elements of `reduced`.
Tensor Kernel(Graph& graph, absl::string_view name, const Shape& reduced,
              const Shape& output, double scale, DType dtype);

// `x` in `dtype`, which costs nothing where it has it already.
Tensor To(DType dtype, Tensor x);

// The maximum of the f32 `x` over what `output` leaves out, through which no
// gradient flows, and finite where every element is -infinity, so that x - max
// is no NaN: what to subtract before an exponential.
Tensor SafeMax(Tensor x, const Shape& output);

}  // namespace mtf::nn::internal

#endif  // NN_LAYERS_LAYER_H_
