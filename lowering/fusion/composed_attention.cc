// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/composed_attention.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lowering/fusion/attention_formulas.h"
#include "lowering/fusion/expression_numbering.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

using F = ScalarFunction;
using Kind = ExpressionNumbering::Kind;

// The depth in an expression to which a softmax is searched, through casts and
// dropout.
constexpr int kMaxDepth = 6;

// The names of the dimensions of `a` that `b` has too.
std::vector<std::string> Shared(const Shape& a, const Shape& b) {
  std::vector<std::string> names;
  for (const Dimension& dim : a) {
    if (b.Contains(dim.name)) names.push_back(dim.name);
  }
  return names;
}

// By value: the number of instructions since an exponential, or more than
// kMaxDepth. Rules out most einsums without a search.
std::vector<int> ExponentialDistances(const Program& program) {
  std::vector<int> distance(program.values.size(), kMaxDepth + 1);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.results.size() != 1 ||
        instruction.opcode == Opcode::kEinsum) {
      continue;
    }
    int& result = distance[instruction.results[0]];
    if (HasExpression(instruction)) {
      for (const MapStep& step : ExpressionOf(instruction).steps) {
        if (step.function == F::kExp) result = 0;
      }
    }
    for (int operand : instruction.operands) {
      result = std::min(result, distance[operand] + 1);
    }
  }
  return distance;
}

class ComposedAttentionFinder {
 public:
  explicit ComposedAttentionFinder(const Program& program)
      : program_(program),
        producers_(FindProducers(program)),
        exponential_distance_(ExponentialDistances(program)),
        expressions_(program, producers_) {}

  // Whether instruction `index` is the einsum of weights and values of an
  // attention.
  bool Match(int index, ComposedAttention* found) {
    output_ = index;
    const Instruction& einsum = program_.instructions[index];
    for (int side : {0, 1}) {
      weights_ = einsum.operands[side];
      v_ = einsum.operands[1 - side];
      if (exponential_distance_[weights_] > kMaxDepth) continue;
      softmax_ = FindSoftmax(expressions_.Of(weights_), kMaxDepth);
      if (softmax_ < 0) continue;
      const int scores = ScoresOf(LogitsOf(softmax_));
      if (scores < 0 || !IsAttention(scores)) continue;
      found->scores = scores;
      found->why = Why();
      return true;
    }
    return false;
  }

 private:
  const ProgramValue& Value(int value) const { return program_.values[value]; }
  const ExpressionNumbering::Expression& at(int expression) const {
    return expressions_.at(expression);
  }

  // Finds exp(x - maximum) * (1 / sum) in `expression`, or returns -1.
  int FindSoftmax(int expression, int depth) const {
    const ExpressionNumbering::Expression& t = at(expression);
    if (t.Is(F::kMultiply)) {
      for (int side : {0, 1}) {
        const ExpressionNumbering::Expression &exponentials =
                                                  at(t.arguments[side]),
                                              &inverse =
                                                  at(t.arguments[1 - side]);
        if (exponentials.Is(F::kExp) && inverse.Is(F::kReciprocal) &&
            at(exponentials.arguments[0]).Is(F::kSubtract)) {
          return expression;
        }
      }
    }
    // Between the softmax and the einsum there may be casts and dropout: its
    // factor and its selection.
    const bool is_transparent = t.kind == Kind::kCast || t.Is(F::kMultiply) ||
                                t.Is(F::kSelect) || t.Is(F::kDivide);
    if (!is_transparent || depth == 0) return -1;
    for (int argument : t.arguments) {
      const int found = FindSoftmax(argument, depth - 1);
      if (found >= 0) return found;
    }
    return -1;
  }
  int LogitsOf(int softmax) const {
    const ExpressionNumbering::Expression& t = at(softmax);
    const ExpressionNumbering::Expression& first = at(t.arguments[0]);
    const ExpressionNumbering::Expression& exponentials =
        first.Is(F::kExp) ? first : at(t.arguments[1]);
    return at(exponentials.arguments[0]).arguments[0];
  }

  // The factor of a product with a literal, or -1. Multiplies `scale` by the
  // literal.
  int ScaledBy(int expression, double* scale = nullptr) const {
    const ExpressionNumbering::Expression& t = at(expression);
    if (!t.Is(F::kMultiply)) return -1;
    for (int side : {0, 1}) {
      if (at(t.arguments[side]).kind != Kind::kLiteral) continue;
      if (scale != nullptr) *scale *= expressions_.LiteralOf(t.arguments[side]);
      return t.arguments[1 - side];
    }
    return -1;
  }

  // Whether an expression is an einsum, cast or scaled or not.
  bool IsProduct(int expression) const {
    while (at(expression).kind == Kind::kCast || ScaledBy(expression) >= 0) {
      expression = at(expression).kind == Kind::kCast
                       ? at(expression).arguments[0]
                       : ScaledBy(expression);
    }
    if (at(expression).kind != Kind::kLeaf) return false;
    const int producer = producers_[at(expression).payload];
    return producer >= 0 &&
           program_.instructions[producer].opcode == Opcode::kEinsum;
  }

  // Finds the einsum that computes the logits, through a cast, a scale, an
  // addition, the selection of a mask and instructions that only move data;
  // stores the mask and the added expression, or -1, in `mask_` and `added_`.
  int ScoresOf(int expression) {
    mask_ = added_ = -1;
    scale_ = 1;
    for (int depth = 0; depth <= kMaxDepth; ++depth) {
      const ExpressionNumbering::Expression& t = at(expression);
      if (t.kind == Kind::kCast) {
        expression = t.arguments[0];
      } else if (const int scaled = ScaledBy(expression, &scale_);
                 scaled >= 0) {
        expression = scaled;
      } else if (t.Is(F::kSelect)) {
        mask_ = t.arguments[0];
        expression = t.arguments[1];
      } else if (t.Is(F::kAdd)) {
        const int product_side = IsProduct(t.arguments[0]) ? 0 : 1;
        added_ = t.arguments[1 - product_side];
        expression = t.arguments[product_side];
      } else if (t.kind == Kind::kLeaf) {
        const int producer = producers_[t.payload];
        if (producer < 0) return -1;
        const Instruction& instruction = program_.instructions[producer];
        if (instruction.opcode == Opcode::kEinsum) return producer;
        if (instruction.operands.size() != 1) return -1;
        expression = expressions_.Of(instruction.operands[0]);
      } else {
        return -1;
      }
    }
    return -1;
  }

  // Identifies the tensors. Einsums that share no dimension with their result,
  // as those of a router with its kernel, belong to other kinds of layers.
  bool IsAttention(int scores) {
    scores_ = scores;
    const Instruction& einsum = program_.instructions[scores];
    const Shape& s = Value(einsum.results[0]).shape;
    const Shape& o = Value(program_.instructions[output_].results[0]).shape;
    memory_.clear();
    for (const Dimension& dim : s) {
      const bool summed = Value(weights_).shape.Contains(dim.name) &&
                          Value(v_).shape.Contains(dim.name) &&
                          !o.Contains(dim.name);
      if (summed) memory_ = dim.name;
    }
    if (memory_.empty()) return false;
    const bool second = Value(einsum.operands[1]).shape.Contains(memory_);
    k_ = einsum.operands[second ? 1 : 0];
    q_ = einsum.operands[second ? 0 : 1];
    if (k_ == v_ || !Value(k_).shape.Contains(memory_) ||
        Value(q_).shape.Contains(memory_)) {
      return false;
    }
    d_.clear();
    for (const std::string& name : Shared(Value(q_).shape, Value(k_).shape)) {
      if (!s.Contains(name)) d_ = name;
    }
    length_.clear();
    bool batched = false;
    for (const Dimension& dim : s) {
      const bool in_k = Value(k_).shape.Contains(dim.name);
      batched = batched || (in_k && Value(q_).shape.Contains(dim.name));
      if (!in_k) length_ = dim.name;
    }
    return batched && !d_.empty() && !length_.empty();
  }

  // "the layout shards length over model" if it does, else "".
  std::string ShardingReason(int value, const std::string& name) const {
    const ProgramValue& v = Value(value);
    const int dim = v.shape.Find(name);
    if (dim < 0 || v.layout.dims[dim].empty()) return "";
    return absl::StrCat("the layout shards ", name, " over ",
                        program_.mesh.AxisNames(v.layout.dims[dim]));
  }

  AttentionProblem Problem() const {
    const ProgramValue &q = Value(q_), &k = Value(k_);
    AttentionProblem problem;
    problem.dtype = q.dtype;
    problem.length = q.shape.SizeOf(length_);
    problem.memory = k.shape.SizeOf(memory_);
    problem.d = q.shape.SizeOf(d_);
    problem.scale = static_cast<float>(scale_);
    return problem;
  }

  // Whether an expression contains random numbers, as dropout does.
  bool HasRandom(int expression, int depth) const {
    const ExpressionNumbering::Expression& t = at(expression);
    if (t.kind == Kind::kLeaf) {
      const int producer = producers_[t.payload];
      return producer >= 0 &&
             program_.instructions[producer].opcode == Opcode::kRandom;
    }
    return depth > 0 && std::any_of(t.arguments.begin(), t.arguments.end(),
                                    [&](int argument) {
                                      return HasRandom(argument, depth - 1);
                                    });
  }

  // The first reason for which the attention is not fused, in the order of
  // FindComposedAttention.
  std::string Why() {
    const int s = program_.instructions[scores_].results[0];
    const Shape& values = Value(v_).shape;
    const Dimension d_v = values[values.rank() - 1];
    for (const auto& [value, name] : {std::pair<int, std::string>{s, length_},
                                      {s, memory_},
                                      {q_, d_},
                                      {k_, d_},
                                      {v_, memory_},
                                      {v_, d_v.name}}) {
      const std::string sharded = ShardingReason(value, name);
      if (!sharded.empty()) return sharded;
    }
    const absl::Status supported = CheckFusedAttention(Problem());
    if (!supported.ok()) return std::string(supported.message());
    if (HasRandom(expressions_.Of(weights_), kMaxDepth)) {
      return "its weights have dropout";
    }
    for (int i = scores_ + 1; i < output_; ++i) {
      const Instruction& instruction = program_.instructions[i];
      const bool may_be_inside =
          HasExpression(instruction) || IsNoOp(program_, instruction);
      if (!may_be_inside) {
        return absl::StrCat("another instruction, ",
                            OpcodeName(instruction.opcode),
                            ", runs between its scores and its output");
      }
    }
    for (const auto& [value, d] :
         {std::pair<int, std::string>{q_, d_},
          {k_, d_},
          {v_, Value(s).shape.Contains(d_v.name) ? d_ : d_v.name}}) {
      const Shape& shape = Value(value).shape;
      if (shape.rank() > 4 || shape[shape.rank() - 1].name != d) {
        return absl::StrCat("its tensors have more than four dimensions, or ",
                            d, " is not the last");
      }
    }
    const int64_t d_kv = Value(q_).shape.SizeOf(d_);
    if (d_v.size != d_kv) {
      return absl::StrCat("its values are not as wide as its keys: ", d_v.name,
                          " is ", d_v.size, ", ", d_, " is ", d_kv);
    }
    if (added_ >= 0 ||
        (mask_ >= 0 &&
         mask_ != internal::CausalVisibility(expressions_, length_, memory_))) {
      return "its mask or bias is not a tensor of batch, "
             "heads, length and memory that is computed before its scores, or "
             "has a gradient";
    }
    return "other instructions read its intermediate values, or fused kernels "
           "do not support its form";
  }

  const Program& program_;
  const std::vector<int> producers_;
  const std::vector<int> exponential_distance_;
  ExpressionNumbering expressions_;
  // Of the candidate: instructions, values and expressions.
  int output_ = -1, scores_ = -1;
  int weights_ = -1, q_ = -1, k_ = -1, v_ = -1;
  int softmax_ = -1, mask_ = -1, added_ = -1;
  double scale_ = 1;  // of the scores
  std::string length_, memory_, d_;
};

}  // namespace

std::vector<ComposedAttention> FindComposedAttention(
    const Program& program, const std::vector<AttentionGroup>& fused) {
  std::vector<bool> is_member(program.instructions.size(), false);
  for (const AttentionGroup& group : fused) {
    for (const auto* members : {&group.forward, &group.backward}) {
      for (int member : *members) is_member[member] = true;
    }
  }
  std::vector<ComposedAttention> composed;
  ComposedAttentionFinder attention_finder(program);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].opcode != Opcode::kEinsum || is_member[i])
      continue;
    ComposedAttention found;
    if (!attention_finder.Match(static_cast<int>(i), &found)) continue;
    // The gradient also reads the weights: report each scores only once, for
    // the output, their first reader.
    if (is_member[found.scores]) continue;
    is_member[found.scores] = true;
    composed.push_back(std::move(found));
  }
  return composed;
}

}  // namespace mtf
