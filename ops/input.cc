// SPDX-License-Identifier: Apache-2.0
#include "ops/input.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/checks.h"

namespace mtf {
namespace {

class InputOp : public Operation {
 public:
  InputOp(std::string feed, DType dtype, Shape shape)
      : Operation({}, std::move(shape), dtype), feed_(std::move(feed)) {}
  absl::string_view kind() const override { return "input"; }
  // The feed name is an attribute only if a scope makes it differ from the name
  // of the operation.
  std::string attributes() const override {
    return name() == feed_ ? "" : feed_;
  }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }
  EmittedValues Emit(Emitter& emitter, absl::Span<const Value>) const override {
    return emitter.Input(feed_, dtype(), shape());
  }

 private:
  const std::string feed_;
};

}  // namespace

Tensor Input(Graph& graph, absl::string_view name, DType dtype, Shape shape,
             std::source_location location) {
  const absl::Status status = internal::CheckName(name);
  if (!status.ok()) return graph.Fail(status, "input", location, shape, dtype);
  return graph.AddInput(
      std::make_unique<InputOp>(std::string(name), dtype, std::move(shape)),
      name, location);
}

}  // namespace mtf
