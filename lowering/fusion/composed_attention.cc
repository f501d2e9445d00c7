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

// How deep in a formula a softmax is looked for: behind casts and dropout.
constexpr int kDeepest = 6;

// The names of `a` that are in `b` too.
std::vector<std::string> Shared(const Shape& a, const Shape& b) {
  std::vector<std::string> names;
  for (const Dimension& dim : a) {
    if (b.Contains(dim.name)) names.push_back(dim.name);
  }
  return names;
}

// By value: how many instructions it is from an exponential, at most kDeepest,
// or more; most einsums read nothing that is near one.
std::vector<int> FromExponentials(const Program& program) {
  std::vector<int> from(program.values.size(), kDeepest + 1);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.results.size() != 1 ||
        instruction.opcode == Opcode::kEinsum) {
      continue;
    }
    int& mine = from[instruction.results[0]];
    if (HasExpression(instruction)) {
      for (const MapStep& step : ExpressionOf(instruction).steps) {
        if (step.function == F::kExp) mine = 0;
      }
    }
    for (int operand : instruction.operands) {
      mine = std::min(mine, from[operand] + 1);
    }
  }
  return from;
}

class Finder {
 public:
  explicit Finder(const Program& program)
      : program_(program),
        producers_(FindProducers(program)),
        from_exponentials_(FromExponentials(program)),
        terms_(program, producers_) {}

  // Whether instruction `place` is the einsum of weights and values of an
  // attention.
  bool Match(int place, ComposedAttention* found) {
    output_ = place;
    const Instruction& einsum = program_.instructions[place];
    for (int side : {0, 1}) {
      weights_ = einsum.operands[side];
      v_ = einsum.operands[1 - side];
      if (from_exponentials_[weights_] > kDeepest) continue;
      softmax_ = FindSoftmax(terms_.Of(weights_), kDeepest);
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
  const ExpressionNumbering::Term& at(int term) const {
    return terms_.at(term);
  }

  // exp(x - most) * (1 / sum) within `term`, or -1.
  int FindSoftmax(int term, int depth) const {
    const ExpressionNumbering::Term& t = at(term);
    if (t.Is(F::kMultiply)) {
      for (int side : {0, 1}) {
        const ExpressionNumbering::Term &powers = at(t.arguments[side]),
                                        &inverse = at(t.arguments[1 - side]);
        if (powers.Is(F::kExp) && inverse.Is(F::kReciprocal) &&
            at(powers.arguments[0]).Is(F::kSubtract)) {
          return term;
        }
      }
    }
    // A weight is read off by casts, dropout's factor and its choice alone.
    const bool passes = t.kind == Kind::kCast || t.Is(F::kMultiply) ||
                        t.Is(F::kSelect) || t.Is(F::kDivide);
    if (!passes || depth == 0) return -1;
    for (int argument : t.arguments) {
      const int found = FindSoftmax(argument, depth - 1);
      if (found >= 0) return found;
    }
    return -1;
  }
  int LogitsOf(int softmax) const {
    const ExpressionNumbering::Term& t = at(softmax);
    const ExpressionNumbering::Term& first = at(t.arguments[0]);
    const ExpressionNumbering::Term& powers =
        first.Is(F::kExp) ? first : at(t.arguments[1]);
    return at(powers.arguments[0]).arguments[0];
  }

  // What is scaled by a number, or -1.
  int ScaledBy(int term, double* scale = nullptr) const {
    const ExpressionNumbering::Term& t = at(term);
    if (!t.Is(F::kMultiply)) return -1;
    for (int side : {0, 1}) {
      if (at(t.arguments[side]).kind != Kind::kLiteral) continue;
      if (scale != nullptr) *scale *= terms_.LiteralOf(t.arguments[side]);
      return t.arguments[1 - side];
    }
    return -1;
  }

  // An einsum, or casts of one, scaled or not.
  bool IsProduct(int term) const {
    while (at(term).kind == Kind::kCast || ScaledBy(term) >= 0) {
      term =
          at(term).kind == Kind::kCast ? at(term).arguments[0] : ScaledBy(term);
    }
    if (at(term).kind != Kind::kLeaf) return false;
    const int producer = producers_[at(term).payload];
    return producer >= 0 &&
           program_.instructions[producer].opcode == Opcode::kEinsum;
  }

  // The einsum that makes the logits, through a cast, a scale, what is added,
  // the choice of a mask and what only moves; the mask and what is added, or
  // -1, are left in `mask_` and `added_`.
  int ScoresOf(int term) {
    mask_ = added_ = -1;
    scale_ = 1;
    for (int depth = 0; depth <= kDeepest; ++depth) {
      const ExpressionNumbering::Term& t = at(term);
      if (t.kind == Kind::kCast) {
        term = t.arguments[0];
      } else if (const int scaled = ScaledBy(term, &scale_); scaled >= 0) {
        term = scaled;
      } else if (t.Is(F::kSelect)) {
        mask_ = t.arguments[0];
        term = t.arguments[1];
      } else if (t.Is(F::kAdd)) {
        const int which = IsProduct(t.arguments[0]) ? 0 : 1;
        added_ = t.arguments[1 - which];
        term = t.arguments[which];
      } else if (t.kind == Kind::kLeaf) {
        const int producer = producers_[t.payload];
        if (producer < 0) return -1;
        const Instruction& maker = program_.instructions[producer];
        if (maker.opcode == Opcode::kEinsum) return producer;
        if (maker.operands.size() != 1) return -1;
        term = terms_.Of(maker.operands[0]);
      } else {
        return -1;
      }
    }
    return -1;
  }

  // Which tensor is which. Products that share no dimension with their result,
  // as those of a router with its kernel, are of another kind of layer.
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

  // "the layout cuts length over model", or "".
  std::string CutOf(int value, const std::string& name) const {
    const ProgramValue& v = Value(value);
    const int dim = v.shape.Find(name);
    if (dim < 0 || v.layout.dims[dim].empty()) return "";
    return absl::StrCat("the layout cuts ", name, " over ",
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

  bool HasRandom(int term, int depth) const {
    const ExpressionNumbering::Term& t = at(term);
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

  std::string Why() {
    const int s = program_.instructions[scores_].results[0];
    for (const auto& [value, name] : {std::pair<int, std::string>{s, length_},
                                      {s, memory_},
                                      {q_, d_},
                                      {k_, d_},
                                      {v_, memory_}}) {
      const std::string cut = CutOf(value, name);
      if (!cut.empty()) return cut;
    }
    const absl::Status taken = CheckFusedAttention(Problem());
    if (!taken.ok()) return std::string(taken.message());
    if (HasRandom(terms_.Of(weights_), kDeepest)) {
      return "its weights have dropout";
    }
    for (int i = scores_ + 1; i < output_; ++i) {
      const Instruction& instruction = program_.instructions[i];
      const bool may = instruction.opcode == Opcode::kMap ||
                       instruction.opcode == Opcode::kReduce ||
                       IsNoOp(program_, instruction);
      if (!may) {
        return absl::StrCat("another instruction, ",
                            OpcodeName(instruction.opcode),
                            ", runs between its scores and its output");
      }
    }
    for (int value : {q_, k_, v_}) {
      const Shape& shape = Value(value).shape;
      if (shape.rank() > 4 || shape[shape.rank() - 1].name != d_) {
        return absl::StrCat("its tensors are not [batch, heads, length, ", d_,
                            "], of which the last is innermost");
      }
    }
    if (added_ >= 0 ||
        (mask_ >= 0 && mask_ != internal::Sees(terms_, length_, memory_))) {
      return "its mask, or what is added to its scores, is no tensor of batch, "
             "heads, length and memory that is there before them, or its "
             "gradient is asked for";
    }
    return "others read what it makes inside, or it is none of the forms that "
           "fused kernels have";
  }

  const Program& program_;
  const std::vector<int> producers_;
  const std::vector<int> from_exponentials_;
  ExpressionNumbering terms_;
  // Of the one that is looked at: instructions, values and terms.
  int output_ = -1, scores_ = -1;
  int weights_ = -1, q_ = -1, k_ = -1, v_ = -1;
  int softmax_ = -1, mask_ = -1, added_ = -1;
  double scale_ = 1;  // of the scores
  std::string length_, memory_, d_;
};

}  // namespace

std::vector<ComposedAttention> FindComposedAttention(
    const Program& program, const std::vector<AttentionGroup>& fused) {
  std::vector<bool> known(program.instructions.size(), false);
  for (const AttentionGroup& group : fused) {
    for (const auto* members : {&group.forward, &group.backward}) {
      for (int member : *members) known[member] = true;
    }
  }
  std::vector<ComposedAttention> composed;
  Finder finder(program);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].opcode != Opcode::kEinsum || known[i]) continue;
    ComposedAttention found;
    if (!finder.Match(static_cast<int>(i), &found)) continue;
    // The gradient reads the weights too: the output is their first reader.
    if (known[found.scores]) continue;
    known[found.scores] = true;
    composed.push_back(std::move(found));
  }
  return composed;
}

}  // namespace mtf
