// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/one_hot.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/properties/random_case.h"

namespace mtf::testing {
namespace {

// Draws the parts of one attention.
class AttentionMaker {
 public:
  // In a ring no operand has both lengths: both are sharded over one axis.
  AttentionMaker(uint64_t seed, bool in_ring, RandomProgram& program)
      : in_ring_(in_ring),
        random_(seed),
        program_(program),
        graph_(*program.graph) {
    for (const char* name : {"batch", "heads", "groups"}) {
      if (Chance(0.7)) outer_.push_back({name, Size()});
    }
    length_ = {"length", Size()};
    if (in_ring && Chance(0.5)) length_.size += 9;
    memory_ = {"memory", Chance(in_ring ? 0.7 : 0.3) ? length_.size : Size()};
    d_kv_ = {"d_kv", Size()};
    d_v_ = Chance(0.5) ? d_kv_ : Dimension{"d_v", Size()};
  }

  void Make() {
    AttentionSpec spec = {
        .length = "length",
        .memory_length = "memory",
        .d_kv = "d_kv",
        .d_v = d_v_.name,
        .scale = 1 / std::sqrt(static_cast<double>(d_kv_.size))};
    spec.causal = Chance(in_ring_ ? 0.7 : 0.5);
    if (Chance(in_ring_ ? 0.2 : 0.3))
      spec.window = static_cast<int64_t>(1 + random_() % 6);
    if (Chance(0.2)) spec.soft_cap = 1.5;
    if (Chance(0.3)) spec.dropout = 0.3;
    std::vector<Dimension> all = outer_;
    all.push_back(length_);
    std::vector<Dimension> logits = in_ring_ && Chance(0.7) ? outer_ : all;
    if (!in_ring_ || logits.size() == outer_.size()) logits.push_back(memory_);
    std::vector<Dimension> q = all;
    q.push_back(d_kv_);
    AttentionOperands<Tensor> operands;
    operands.q = Float("q", q);
    operands.k = Float("k", Memory(d_kv_));
    operands.v = Float("v", Memory(d_v_));
    if (Chance(0.3)) operands.bias = Float("bias", Subset(logits));
    if (Chance(0.3)) operands.extra_logit = Float("extra", Subset(all));
    if (Chance(0.3)) operands.mask = Mask(Subset(logits));
    if (Chance(in_ring_ ? 0.2 : 0.3)) operands.offset = Offset(Subset(outer_));
    const AttentionResults<Tensor> y = Attention(operands, spec);
    // The logsumexp of a row without keys is infinite.
    const bool has_keys =
        !operands.mask.valid() && spec.window == 0 && !operands.offset.valid();
    Tensor loss = ReduceSum(y.output * Weights("weights", y.output), {});
    if (has_keys && Chance(0.5)) {
      program_.fetches.push_back(y.logsumexp);
      loss =
          loss + ReduceSum(y.logsumexp * Weights("of_rows", y.logsumexp), {});
    }
    program_.fetches.push_back(y.output);
    const std::vector<Tensor> gradients = Gradients(loss, parameters_);
    for (const Tensor& gradient : gradients) {
      if (gradient.valid()) program_.fetches.push_back(gradient);
    }
    // Gradients of gradients, which a ring composes.
    if (in_ring_ && has_keys && Chance(0.1)) {
      for (const Tensor& second : Gradients(
               ReduceSum(gradients[0] * Weights("of_q", gradients[0]), {}),
               parameters_)) {
        if (second.valid()) program_.fetches.push_back(second);
      }
    }
    program_.updates = {Assign(parameters_[0], parameters_[0] * 0.5)};
  }

 private:
  int64_t Size() { return 1 + static_cast<int64_t>(random_() % 9); }
  bool Chance(double p) {
    return static_cast<double>(random_() % 100) < 100 * p;
  }

  // In a random order.
  Shape Shuffled(std::vector<Dimension> dims) {
    std::shuffle(dims.begin(), dims.end(), random_);
    return Shape(std::move(dims));
  }
  std::vector<Dimension> Subset(const std::vector<Dimension>& dims) {
    std::vector<Dimension> subset;
    for (const Dimension& dim : dims) {
      if (Chance(0.6)) subset.push_back(dim);
    }
    return subset;
  }
  // The dimensions of keys or values: they may lack some that q has.
  std::vector<Dimension> Memory(const Dimension& depth) {
    std::vector<Dimension> dims = Subset(outer_);
    dims.push_back(memory_);
    dims.push_back(depth);
    return dims;
  }

  Tensor Float(const std::string& name, const std::vector<Dimension>& dims) {
    const Tensor x = Variable(
        graph_, name,
        RandomUniform(graph_, Shuffled(dims), -1.5, 1.5, {.per_step = false}));
    parameters_.push_back(x);
    return x;
  }
  Tensor Fed(const std::string& name, DType dtype, const Shape& shape,
             double low, double high) {
    std::vector<double> numbers(shape.num_elements());
    for (double& number : numbers) {
      number = low + std::floor((high - low) *
                                static_cast<double>(random_() % 1000) / 1000);
    }
    program_.feeds[name] = HostTensor::FromDoubles(shape, dtype, numbers);
    return Input(graph_, name, dtype, shape);
  }
  Tensor Mask(const std::vector<Dimension>& dims) {
    const Tensor x = Fed("mask", kInt32, Shuffled(dims), 0, 4);
    return Greater(x, 0);
  }
  Tensor Offset(const std::vector<Dimension>& dims) {
    return Fed("offset", kInt32, Shuffled(dims), -2, 4);
  }
  Tensor Weights(const std::string& name, Tensor like) {
    return Fed(name, kFloat32, like.shape(), -2, 3);
  }

  const bool in_ring_;
  std::mt19937_64 random_;
  RandomProgram& program_;
  Graph& graph_;
  std::vector<Dimension> outer_;
  Dimension length_, memory_, d_kv_, d_v_;
  std::vector<Tensor> parameters_;
};

}  // namespace

RandomProgram MakeRandomAttention(uint64_t seed) {
  RandomProgram program;
  program.graph = std::make_unique<Graph>();
  AttentionMaker(seed, /*in_ring=*/false, program).Make();
  return program;
}

RandomProgram MakeRandomRing(uint64_t seed) {
  RandomProgram program;
  program.graph = std::make_unique<Graph>();
  program.sharded_alike = {"length", "memory"};
  AttentionMaker(seed, /*in_ring=*/true, program).Make();
  return program;
}

}  // namespace mtf::testing
