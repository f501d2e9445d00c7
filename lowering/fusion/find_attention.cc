// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/find_attention.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "lowering/fusion/attention_formulas.h"
#include "lowering/fusion/attention_masks.h"
#include "lowering/fusion/expression_numbering.h"
#include "lowering/program/is_no_op.h"
#include "lowering/program/reader_lists.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

using internal::LocalExtentOf;
using internal::ScoreChanges;
using internal::SoftmaxFormulas;
using internal::StrideOf;
using Strides = AttentionProblem::Strides;

// Whether every rank has all elements along a dimension, without padding.
bool IsUnsharded(const ProgramValue& value, const std::string& name) {
  return LocalExtentOf(value, name) == value.shape.SizeOf(name);
}

// Matches one attention at a time, from its scores.
class AttentionFinder {
 public:
  AttentionFinder(const Program& program, const std::vector<bool>& is_grouped,
                  const std::function<bool(const AttentionProblem&)>& accepts)
      : program_(program),
        is_grouped_(is_grouped),
        accepts_(accepts),
        producers_(FindProducers(program)),
        readers_(program),
        expressions_(program, producers_) {}

  // The attention whose scores `scores_einsum` computes.
  std::optional<AttentionGroup> MatchAt(int scores_einsum) {
    for (bool swapped : {false, true}) {
      AttentionGroup group;
      if (!MatchScores(scores_einsum, swapped, &group)) continue;
      if (!MatchForward(scores_einsum, &group)) continue;
      if (!IsAccepted(group)) continue;
      return group;
    }
    return std::nullopt;
  }

 private:
  const ProgramValue& Value(int value) const { return program_.values[value]; }

  // Matches scores = einsum(q, k) sum{d} and identifies the dimensions.
  bool MatchScores(int scores_einsum, bool swapped, AttentionGroup* group) {
    const Instruction& einsum = program_.instructions[scores_einsum];
    group->q = einsum.operands[swapped ? 1 : 0];
    group->k = einsum.operands[swapped ? 0 : 1];
    group->scores = scores_ = einsum.results[0];
    const ProgramValue &q = Value(group->q), &k = Value(group->k),
                       &s = Value(scores_);
    if (q.dtype != kBFloat16 && q.dtype != kFloat16) return false;
    const int rank = s.shape.rank();
    if (rank < 2 || rank > 4) return false;
    names_ = {};
    names_.length = s.shape[rank - 2].name;
    names_.memory = s.shape[rank - 1].name;
    if (rank >= 3) names_.heads = s.shape[rank - 3].name;
    if (rank >= 4) names_.batch = s.shape[0].name;
    if (q.shape.Contains(names_.memory) || k.shape.Contains(names_.length)) {
      return false;
    }
    for (const Dimension& dim : q.shape) {
      if (!s.shape.Contains(dim.name)) {
        if (!names_.d.empty()) return false;
        names_.d = dim.name;
      }
    }
    if (names_.d.empty()) return false;
    for (const std::string& name : {names_.length, names_.memory}) {
      if (!IsUnsharded(s, name)) return false;
    }
    if (!IsUnsharded(q, names_.d)) return false;
    AttentionProblem& p = group->problem;
    p.dtype = q.dtype;
    p.batch = LocalExtentOf(s, names_.batch);
    p.heads = LocalExtentOf(s, names_.heads);
    p.length = LocalExtentOf(s, names_.length);
    p.memory = LocalExtentOf(s, names_.memory);
    p.d = LocalExtentOf(q, names_.d);
    // Replicas must be bitwise equal.
    p.reproducible = program_.mesh.num_devices() > 1;
    return ReadStrides(group->q, names_.length, names_.d, &p.q) &&
           ReadStrides(group->k, names_.memory, names_.d, &p.k);
  }

  // Reads the strides of a value of batch, heads, `length` and `d`, where `d`
  // is innermost. Returns false for any other value.
  bool ReadStrides(int value, const std::string& length, const std::string& d,
                   Strides* strides) {
    const ProgramValue& v = Value(value);
    int rank = 2;
    for (const std::string& name : {names_.batch, names_.heads}) {
      if (name.empty()) continue;
      ++rank;
      if (!v.shape.Contains(name)) return false;
    }
    if (v.shape.rank() != rank || !v.shape.Contains(length) ||
        v.shape[rank - 1].name != d || v.dtype != Value(scores_).dtype) {
      return false;
    }
    *strides = {StrideOf(v, names_.batch), StrideOf(v, names_.heads),
                StrideOf(v, length)};
    // A missing dimension has extent 1.
    if (names_.batch.empty()) strides->batch = v.local_elements();
    if (names_.heads.empty()) strides->heads = v.local_elements();
    return true;
  }

  // The last einsum among the readers of `value` whose other operand is `other`
  // (-1: any), or -1; all of them are added to `candidates`.
  int EinsumReaderOf(int value, int other,
                     std::vector<int>* candidates = nullptr) {
    int found = -1;
    for (int reader : readers_[value]) {
      const Instruction& instruction = program_.instructions[reader];
      if (instruction.opcode != Opcode::kEinsum) continue;
      const bool first = instruction.operands[0] == value;
      const int partner = instruction.operands[first ? 1 : 0];
      if (other >= 0 && partner != other) continue;
      if (candidates != nullptr) candidates->push_back(reader);
      found = reader;
    }
    return found;
  }
  int OtherOperand(int index, int value) const {
    const Instruction& einsum = program_.instructions[index];
    return einsum.operands[einsum.operands[0] == value ? 1 : 0];
  }

  // Matches the softmax: the weights follow the scores after a few maps and
  // reductions.
  bool MatchForward(int scores_einsum, AttentionGroup* group) {
    const DType narrow = Value(scores_).dtype;
    const int scores = expressions_.Of(scores_);
    const int end = static_cast<int>(program_.instructions.size());
    for (int i = scores_einsum + 1; i < end; ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (IsNoOp(program_, instruction)) continue;
      if (!HasExpression(instruction)) break;
      const int expression = expressions_.Of(instruction.results[0]);
      const std::optional<ScoreChanges> changes =
          internal::MatchScoreChanges(expressions_, expression, scores, narrow);
      if (!changes.has_value()) continue;
      const SoftmaxFormulas softmax = internal::SoftmaxOf(
          expressions_, scores, narrow, names_.memory, *changes);
      if (expression != softmax.weights) continue;
      group->weights = instruction.results[0];
      if (MatchOutput(scores_einsum, softmax, *changes, group)) return true;
    }
    return false;
  }

  // Identifies the last dimension of the values, which has `d` elements on
  // every rank, as that of the keys.
  bool MatchValues(int value, int64_t d) {
    const ProgramValue& v = Value(value);
    if (v.shape.rank() == 0) return false;
    names_.d_v = v.shape[v.shape.rank() - 1].name;
    return IsUnsharded(v, names_.d_v) && LocalExtentOf(v, names_.d_v) == d;
  }

  // Matches output = einsum(weights, v) sum{memory}, and the gradient if values
  // of the forward pass have other readers.
  bool MatchOutput(int scores_einsum, const SoftmaxFormulas& softmax,
                   const ScoreChanges& changes, AttentionGroup* group) {
    AttentionProblem& p = group->problem;
    p.scale = changes.scale < 0
                  ? 1
                  : static_cast<float>(expressions_.LiteralOf(changes.scale));
    std::vector<int> candidates;
    EinsumReaderOf(group->weights, -1, &candidates);
    for (int output : candidates) {
      group->v = OtherOperand(output, group->weights);
      group->o = program_.instructions[output].results[0];
      if (!MatchValues(group->v, p.d) ||
          !ReadStrides(group->v, names_.memory, names_.d_v, &p.v) ||
          !ReadStrides(group->o, names_.length, names_.d_v, &p.o)) {
        continue;
      }
      if (!Collect(scores_einsum, output, &group->forward)) continue;
      if (!internal::MatchMasks(program_, producers_, names_, changes,
                                expressions_, group)) {
        continue;
      }
      group->backward.clear();
      const std::set<int> outside = OutsideReaders(group->forward, group->o);
      if (outside.empty()) return true;
      if (MatchBackward(softmax, changes, group) &&
          std::includes(group->backward.begin(), group->backward.end(),
                        outside.begin(), outside.end())) {
        return true;
      }
    }
    return false;
  }

  // Matches the gradient: d_v, then the gradient of the scores, then d_q and
  // d_k.
  bool MatchBackward(const SoftmaxFormulas& softmax,
                     const ScoreChanges& changes, AttentionGroup* group) {
    // d_v = einsum(weights, d_o) sum{length}.
    std::vector<int> candidates;
    EinsumReaderOf(group->weights, -1, &candidates);
    for (int einsum_v : candidates) {
      group->d_v = program_.instructions[einsum_v].results[0];
      group->d_o = OtherOperand(einsum_v, group->weights);
      Strides strides;
      if (group->d_v == group->o ||
          !ReadStrides(group->d_o, names_.length, names_.d_v, &strides) ||
          strides != group->problem.o ||
          !ReadStrides(group->d_v, names_.memory, names_.d_v, &strides) ||
          strides != group->problem.v) {
        continue;
      }
      const int einsum_w = EinsumReaderOf(group->d_o, group->v);
      if (einsum_w < 0) continue;
      const int d_weights = program_.instructions[einsum_w].results[0];
      if (Value(d_weights).shape.rank() != Value(scores_).shape.rank())
        continue;
      const int d_scores = internal::SoftmaxGradientOf(
          expressions_, softmax, expressions_.Of(d_weights),
          Value(scores_).dtype, names_.memory, changes);
      // d_q = einsum(d_scores, k), d_k = einsum(d_scores, q).
      for (int einsum_q : readers_[group->k]) {
        const Instruction& reader = program_.instructions[einsum_q];
        if (reader.opcode != Opcode::kEinsum) continue;
        const int gradient = OtherOperand(einsum_q, group->k);
        if (gradient == group->q || expressions_.Of(gradient) != d_scores)
          continue;
        const int einsum_k = EinsumReaderOf(gradient, group->q);
        if (einsum_k < 0) continue;
        group->d_q = reader.results[0];
        group->d_k = program_.instructions[einsum_k].results[0];
        if (!ReadStrides(group->d_q, names_.length, names_.d, &strides) ||
            strides != group->problem.q ||
            !ReadStrides(group->d_k, names_.memory, names_.d, &strides) ||
            strides != group->problem.k) {
          continue;
        }
        const auto [first, last] =
            std::minmax({einsum_v, einsum_w, einsum_q, einsum_k});
        if (!Collect(first, last, &group->backward)) continue;
        if (IsBackwardClosed(*group)) return true;
      }
    }
    return false;
  }

  // Collects the instructions from `first` to `last` that run. Returns false if
  // one is in a group or cannot be a member.
  bool Collect(int first, int last, std::vector<int>* members) {
    members->clear();
    if (last < first) return false;
    for (int i = first; i <= last; ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (IsNoOp(program_, instruction)) continue;
      const bool may_be_inside =
          HasExpression(instruction) || instruction.opcode == Opcode::kEinsum;
      if (!may_be_inside || is_grouped_[i]) return false;
      members->push_back(i);
    }
    return true;
  }

  // The instructions outside `members` that read their values, other than
  // `result`.
  std::set<int> OutsideReaders(const std::vector<int>& members, int result) {
    std::set<int> outside;
    for (int member : members) {
      for (int value : program_.instructions[member].results) {
        if (value == result) continue;
        for (int reader : readers_[value]) {
          if (!std::binary_search(members.begin(), members.end(), reader)) {
            outside.insert(reader);
          }
        }
      }
    }
    return outside;
  }

  // Whether only members read the values of the gradient, except its three
  // results.
  bool IsBackwardClosed(const AttentionGroup& group) {
    for (int member : group.backward) {
      const int value = program_.instructions[member].results[0];
      if (value == group.d_q || value == group.d_k || value == group.d_v) {
        continue;
      }
      for (int reader : readers_[value]) {
        if (!std::binary_search(group.backward.begin(), group.backward.end(),
                                reader)) {
          return false;
        }
      }
    }
    return true;
  }

  bool IsAccepted(const AttentionGroup& group) {
    const auto accepts = [&](const AttentionProblem& problem) {
      return CheckFusedAttention(problem).ok() &&
             (!accepts_ || accepts_(problem));
    };
    return accepts(group.problem) &&
           (group.backward.empty() || accepts(group.BackwardProblem()));
  }

  const Program& program_;
  const std::vector<bool>& is_grouped_;
  const std::function<bool(const AttentionProblem&)>& accepts_;
  const std::vector<int> producers_;
  const ReaderLists readers_;
  ExpressionNumbering expressions_;
  int scores_ = -1;
  internal::AttentionNames names_;
};

}  // namespace

std::vector<AttentionGroup> FindAttention(
    const Program& program,
    const std::function<bool(const AttentionProblem&)>& accepts) {
  std::vector<AttentionGroup> groups;
  std::vector<bool> is_grouped(program.instructions.size(), false);
  AttentionFinder attention_finder(program, is_grouped, accepts);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].opcode != Opcode::kEinsum || is_grouped[i])
      continue;
    std::optional<AttentionGroup> group =
        attention_finder.MatchAt(static_cast<int>(i));
    if (!group.has_value()) continue;
    for (int member : group->forward) is_grouped[member] = true;
    for (int member : group->backward) is_grouped[member] = true;
    groups.push_back(*std::move(group));
  }
  return groups;
}

bool IsInternalToKernel(const Program& program, int value) {
  const std::vector<BufferPlan::Buffer>& buffers = program.buffers.buffers;
  return buffers.size() == program.values.size() &&
         buffers[value].storage == BufferPlan::Storage::kNone;
}

std::vector<AttentionGroup> FindPlannedAttention(const Program& program) {
  const auto& all = program.instructions;
  const bool any =
      std::any_of(all.begin(), all.end(), [&](const Instruction& instruction) {
        return instruction.opcode == Opcode::kEinsum &&
               IsInternalToKernel(program, instruction.results[0]);
      });
  if (!any) return {};
  std::vector<AttentionGroup> groups = FindAttention(program);
  std::erase_if(groups, [&](const AttentionGroup& group) {
    return !IsInternalToKernel(program, group.scores);
  });
  return groups;
}

}  // namespace mtf
