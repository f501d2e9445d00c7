// SPDX-License-Identifier: Apache-2.0
#include "ops/stop_gradient.h"

#include <memory>
#include <vector>

#include "mtf/graph.h"

namespace mtf {
namespace {

class StopGradientOp : public Operation {
 public:
  explicit StopGradientOp(Tensor x) : Operation({x}, x.shape(), x.dtype()) {}
  absl::string_view kind() const override { return "stop_gradient"; }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }
  EmittedValues Emit(Emitter&, absl::Span<const Value> inputs) const override {
    return inputs[0];
  }
};

}  // namespace

Tensor StopGradient(Tensor x, std::source_location location) {
  if (!x.valid()) return {};
  return x.graph().Add(std::make_unique<StopGradientOp>(x), location);
}

}  // namespace mtf
