// SPDX-License-Identifier: Apache-2.0
//
// The operations attention and attention_gradient. Each has a decomposition,
// the operations of ComposedAttention and of its gradients; those of one
// attention are in one graph, so that a composed gradient reads the weights of
// the composed attention and does not compute them again.
#include "ops/attention_operation.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/check.h"
#include "ops/checks.h"
#include "ops/composed_attention.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/stop_gradient.h"

namespace mtf::internal {
namespace {

// Which optional operands an attention has. The first inputs of both operations
// are q, k, v and those that are given, in the order of AttentionOperands.
struct GivenOperands {
  bool mask = false, bias = false, offset = false, extra_logit = false;

  explicit GivenOperands(const AttentionOperands<Tensor>& operands)
      : mask(operands.mask.valid()),
        bias(operands.bias.valid()),
        offset(operands.offset.valid()),
        extra_logit(operands.extra_logit.valid()) {}

  friend bool operator==(const GivenOperands&, const GivenOperands&) = default;

  int count() const { return 3 + mask + bias + offset + extra_logit; }

  template <class T>
  AttentionOperands<T> OperandsOf(absl::Span<const T> inputs) const {
    AttentionOperands<T> operands = {inputs[0], inputs[1], inputs[2]};
    size_t next = 3;
    if (mask) operands.mask = inputs[next++];
    if (bias) operands.bias = inputs[next++];
    if (offset) operands.offset = inputs[next++];
    if (extra_logit) operands.extra_logit = inputs[next++];
    return operands;
  }
};

std::vector<Tensor> InputsOf(const AttentionOperands<Tensor>& operands) {
  std::vector<Tensor> inputs = {operands.q, operands.k, operands.v};
  for (const Tensor& optional :
       {operands.mask, operands.bias, operands.offset, operands.extra_logit}) {
    if (optional.valid()) inputs.push_back(optional);
  }
  return inputs;
}

// Stands for an input in the graph of a decomposition.
class PlaceholderOp : public Operation {
 public:
  PlaceholderOp(Shape shape, DType dtype)
      : Operation({}, std::move(shape), dtype) {}
  absl::string_view kind() const override { return "placeholder"; }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }
  EmittedValues Emit(Emitter&, absl::Span<const Value>) const override {
    MTF_CHECK(false) << "a placeholder has the value of an input";
    return {};
  }
};

// The graph of the decompositions of an attention and of its gradients.
struct ComposedGraph {
  Graph graph;
  AttentionOperands<Tensor> operands;
  AttentionResults<Tensor> results;

  Tensor Placeholder(const Tensor& input) {
    if (!input.valid()) return {};
    return graph.Add(
        std::make_unique<PlaceholderOp>(input.shape(), input.dtype()),
        std::source_location(), input.name());
  }
  int size() const { return static_cast<int>(graph.operations().size()); }
};

std::string AttributesText(const AttentionSpec& spec,
                           const GivenOperands& given) {
  std::string text =
      absl::StrCat(spec.length, " ", spec.memory_length, " ", spec.d_kv, " ",
                   spec.d_v, " scale=", NumberText(spec.scale));
  const auto add = [&](bool is_set, const auto&... parts) {
    if (is_set) absl::StrAppend(&text, " ", parts...);
  };
  add(spec.soft_cap > 0, "soft_cap=", NumberText(spec.soft_cap));
  add(spec.causal, "causal");
  add(spec.window > 0, "window=", spec.window);
  add(spec.dropout > 0, "dropout=", NumberText(spec.dropout),
      " stream=", spec.stream);
  add(given.mask, "mask");
  add(given.bias, "bias");
  add(given.offset, "offset");
  add(given.extra_logit, "extra_logit");
  return text;
}

// What attention and attention_gradient have in common.
class AttentionBase : public Operation {
 public:
  AttentionBase(std::vector<Tensor> inputs, std::vector<ResultType> results,
                AttentionSpec spec, const GivenOperands& given,
                std::shared_ptr<ComposedGraph> composed)
      : Operation(std::move(inputs), std::move(results)),
        spec_(std::move(spec)),
        given_(given),
        composed_(std::move(composed)) {}

  std::string attributes() const override {
    return AttributesText(spec_, given_);
  }
  bool SameAttributes(const Operation& other) const override {
    const auto& attention = dynamic_cast<const AttentionBase&>(other);
    AttentionSpec spec = attention.spec_;
    spec.stream = spec_.stream;
    return spec == spec_ && attention.given_ == given_;
  }
  absl::Status CheckEmit(const Emitter& emitter,
                         uint32_t read_results) const override {
    return emitter.CheckAttention(Signature(read_results));
  }
  const Decomposition* decomposition() const override {
    return &decomposition_;
  }

 protected:
  virtual AttentionSignature Signature(uint32_t /*read_results*/) const {
    AttentionSignature signature;
    signature.spec = spec_;
    signature.q = input(0).shape();
    signature.k = input(1).shape();
    signature.v = input(2).shape();
    signature.output = shape();
    signature.dtype = input(0).dtype();
    signature.offset = given_.offset;
    signature.extra_logit = given_.extra_logit;
    return signature;
  }

  // The logits have both lengths; the keys are gathered if they must be.
  AxisConflict Conflict() const {
    return {{spec_.memory_length}, {spec_.length}};
  }
  AttentionOperands<Tensor> operands() const {
    return given_.OperandsOf<Tensor>(inputs());
  }

  const AttentionSpec spec_;
  const GivenOperands given_;
  const std::shared_ptr<ComposedGraph> composed_;
  Decomposition decomposition_;
};

// Inputs: those of the attention, its two results, the gradient of the output
// and, perhaps, that of the logsumexp. Results: the gradients of q, k, v and,
// if they are given, of the bias and the extra logit.
class AttentionGradientOp : public AttentionBase {
 public:
  AttentionGradientOp(std::vector<Tensor> inputs,
                      std::vector<ResultType> results,
                      const AttentionSpec& spec, const GivenOperands& given,
                      std::shared_ptr<ComposedGraph> composed)
      : AttentionBase(std::move(inputs), std::move(results), spec, given,
                      std::move(composed)) {}

  absl::string_view kind() const override { return "attention_gradient"; }
  absl::string_view ResultName(int index) const override {
    static constexpr absl::string_view kNames[] = {"q", "k", "v"};
    if (index < 3) return kNames[index];
    return index == 3 && given_.bias ? "bias" : "extra_logit";
  }

  void Decompose() {
    ComposedGraph& composed = *composed_;
    const AxisConflictScope conflict(composed.graph, Conflict());
    decomposition_.graph = &composed.graph;
    decomposition_.begin = composed.size();
    decomposition_.inputs = InputsOf(composed.operands);
    decomposition_.inputs.push_back(composed.results.output);
    decomposition_.inputs.push_back(composed.results.logsumexp);
    AttentionResults<Tensor> gradients;
    gradients.output = composed.Placeholder(input(given_.count() + 2));
    decomposition_.inputs.push_back(gradients.output);
    if (has_logsumexp_gradient()) {
      gradients.logsumexp = composed.Placeholder(input(given_.count() + 3));
      decomposition_.inputs.push_back(gradients.logsumexp);
    }
    decomposition_.results =
        ResultsOf<std::vector<Tensor>>(ComposedAttentionGradients(
            composed.operands, composed.results, gradients));
    decomposition_.end = composed.size();
  }

  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override;

  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    const Value* results = &inputs[given_.count()];
    return ResultsOf<EmittedValues>(emitter.AttentionGradient(
        spec_, given_.OperandsOf<Value>(inputs), {results[0], results[1]},
        {results[2], has_logsumexp_gradient() ? results[3] : Value()}));
  }

 protected:
  AttentionSignature Signature(uint32_t read_results) const override {
    AttentionSignature signature = AttentionBase::Signature(read_results);
    signature.output = input(given_.count()).shape();
    signature.is_gradient = true;
    signature.logsumexp_gradient = has_logsumexp_gradient();
    constexpr int kOfBias = 3;
    signature.bias_gradient = given_.bias && (read_results >> kOfBias & 1) != 0;
    return signature;
  }

 private:
  bool has_logsumexp_gradient() const {
    return static_cast<int>(inputs().size()) == given_.count() + 4;
  }
  template <class List, class T>
  List ResultsOf(const AttentionGradients<T>& gradients) const {
    List results = {gradients.q, gradients.k, gradients.v};
    if (given_.bias) results.push_back(gradients.bias);
    if (given_.extra_logit) results.push_back(gradients.extra_logit);
    return results;
  }
};

// Differentiates the gradient of a composed attention. That computes the
// results of the attention from the operands, so they have no gradient here.
std::vector<Tensor> AttentionGradientOp::Gradient(
    absl::Span<const Tensor> of_results) const {
  const AxisConflictScope conflict(graph(), Conflict());
  // Copies that nothing else depends on: an operand may be computed from
  // another, through which no gradient may flow here.
  std::vector<Tensor> copies;
  for (const Tensor& each : inputs()) copies.push_back(StopGradient(each));
  const AttentionOperands<Tensor> operands = given_.OperandsOf<Tensor>(copies);
  const Tensor* results = &copies[given_.count()];
  const AttentionResults<Tensor> composed = ComposedAttention(
      spec_, operands, results[0].shape(), std::source_location::current());
  const std::vector<Tensor> gradients =
      ResultsOf<std::vector<Tensor>>(ComposedAttentionGradients(
          operands, composed,
          {results[2], has_logsumexp_gradient() ? results[3] : Tensor()}));
  std::vector<Tensor> sums(copies.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!of_results[i].valid()) continue;
    const std::vector<Tensor> terms = Gradients(
        gradients[i], copies, Cast(of_results[i], gradients[i].dtype()));
    for (size_t j = 0; j < sums.size(); ++j) {
      if (!terms[j].valid()) continue;
      sums[j] = sums[j].valid() ? sums[j] + terms[j] : terms[j];
    }
  }
  return sums;
}

class AttentionOp : public AttentionBase {
 public:
  AttentionOp(const AttentionOperands<Tensor>& operands,
              const AttentionSpec& spec, const Shape& output, Shape rows)
      : AttentionBase(
            InputsOf(operands),
            {{output, operands.v.dtype()}, {std::move(rows), kFloat32}}, spec,
            GivenOperands(operands), std::make_shared<ComposedGraph>()) {}

  absl::string_view kind() const override { return "attention"; }
  absl::string_view ResultName(int) const override { return "logsumexp"; }

  void Decompose() {
    ComposedGraph& composed = *composed_;
    const AxisConflictScope conflict(composed.graph, Conflict());
    const CallSiteScope site(composed.graph, call_site());
    const SectionScope in_section(composed.graph, section());
    const AttentionOperands<Tensor> outer = operands();
    composed.operands = {composed.Placeholder(outer.q),
                         composed.Placeholder(outer.k),
                         composed.Placeholder(outer.v),
                         composed.Placeholder(outer.mask),
                         composed.Placeholder(outer.bias),
                         composed.Placeholder(outer.offset),
                         composed.Placeholder(outer.extra_logit)};
    const size_t slash = name().rfind('/');
    if (slash == std::string::npos) {
      Compose();
    } else {
      const Scope scope(composed.graph, name().substr(0, slash));
      Compose();
    }
    decomposition_ = {&composed.graph,
                      InputsOf(composed.operands),
                      {composed.results.output, composed.results.logsumexp},
                      0,
                      composed.size()};
  }

  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    std::vector<Tensor> inputs = this->inputs();
    inputs.push_back(result(0));
    inputs.push_back(result(1));
    inputs.push_back(of_results[0].valid() ? InOrderOf(of_results[0], shape())
                                           : Zeros(graph(), dtype(), shape()));
    if (of_results[1].valid()) {
      inputs.push_back(InOrderOf(of_results[1], shape(1)));
    }
    const AttentionOperands<Tensor> outer = operands();
    std::vector<ResultType> types;
    for (const Tensor& x :
         {outer.q, outer.k, outer.v, outer.bias, outer.extra_logit}) {
      if (x.valid()) types.push_back({x.shape(), x.dtype()});
    }
    auto owned = std::make_unique<AttentionGradientOp>(
        std::move(inputs), std::move(types), spec_, given_, composed_);
    AttentionGradientOp* gradient = owned.get();
    if (!graph().Add(std::move(owned), {}).valid() || !graph().status().ok()) {
      return {};
    }
    gradient->Decompose();
    // In the order of the inputs; masks and offsets have no gradients.
    std::vector<Tensor> gradients = {gradient->result(0), gradient->result(1),
                                     gradient->result(2)};
    int next = 3;
    if (given_.mask) gradients.emplace_back();
    if (given_.bias) gradients.push_back(gradient->result(next++));
    if (given_.offset) gradients.emplace_back();
    if (given_.extra_logit) gradients.push_back(gradient->result(next));
    return gradients;
  }

  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    const AttentionResults<Value> results =
        emitter.Attention(spec_, given_.OperandsOf<Value>(inputs), shape());
    return {results.output, results.logsumexp};
  }

 private:
  void Compose() {
    composed_->results =
        ComposedAttention(spec_, composed_->operands, shape(), {});
  }
};

// Whether `x`, a mask or a bias, has both lengths. Such a tensor cannot be
// sharded over the axis of a ring twice.
bool HasBothLengths(const Tensor& x, const AttentionSpec& spec) {
  return x.valid() && x.shape().Contains(spec.length) &&
         x.shape().Contains(spec.memory_length);
}

}  // namespace

AttentionResults<Tensor> AddAttention(const AttentionOperands<Tensor>& operands,
                                      const AttentionSpec& spec,
                                      const Shape& output,
                                      std::source_location location) {
  Graph& graph = operands.q.graph();
  const Shape rows = LogitShape(operands.q.shape(), operands.k.shape(), spec)
                         .Without(spec.memory_length);
  auto owned = std::make_unique<AttentionOp>(operands, spec, output, rows);
  AttentionOp* attention = owned.get();
  // Where a layout asks for a ring, the keys are gathered instead.
  std::optional<AxisConflictScope> no_ring;
  if (HasBothLengths(operands.mask, spec) ||
      HasBothLengths(operands.bias, spec)) {
    no_ring.emplace(graph, AxisConflict{.yielding = {spec.memory_length},
                                        .sharded = {spec.length}});
  }
  const Tensor result = graph.Add(std::move(owned), location);
  if (!graph.status().ok()) {
    return {result, graph.Fail(graph.status(), "attention", location, rows)};
  }
  attention->Decompose();
  return {result, attention->result(1)};
}

}  // namespace mtf::internal
