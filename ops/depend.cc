// SPDX-License-Identifier: Apache-2.0
#include "ops/depend.h"

#include <memory>
#include <utility>

#include "mtf/graph.h"
#include "ops/checks.h"

namespace mtf {
namespace {

// The inputs are the value, then what it comes after.
class DependOp : public Operation {
 public:
  explicit DependOp(std::vector<Tensor> inputs)
      : Operation(inputs, inputs[0].shape(), inputs[0].dtype()) {}
  absl::string_view kind() const override { return "depend"; }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    std::vector<Tensor> gradients(inputs().size());
    gradients[0] = of_results[0];
    return gradients;
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.Depend(inputs[0], inputs.subspan(1));
  }
};

}  // namespace

Tensor Depend(Tensor x, std::vector<Tensor> after,
              std::source_location location) {
  std::vector<Tensor> inputs = {x};
  inputs.insert(inputs.end(), after.begin(), after.end());
  Graph* graph = internal::GraphOf(inputs);
  if (graph == nullptr) return {};
  const absl::Status status = internal::CheckInputs(*graph, inputs);
  if (!status.ok()) {
    return graph->Fail(status, "depend", location, x.shape(), x.dtype());
  }
  if (after.empty()) return x;
  return graph->Add(std::make_unique<DependOp>(std::move(inputs)), location);
}

}  // namespace mtf
