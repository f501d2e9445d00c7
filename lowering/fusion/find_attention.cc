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

// Whole: every rank has all of it, without padding.
bool IsWhole(const ProgramValue& value, const std::string& name) {
  return LocalExtentOf(value, name) == value.shape.SizeOf(name);
}

// Looks for one attention at a time.
class Finder {
 public:
  Finder(const Program& program, const std::vector<bool>& taken,
         const std::function<bool(const AttentionProblem&)>& accepts)
      : program_(program),
        taken_(taken),
        accepts_(accepts),
        producers_(FindProducers(program)),
        readers_(program),
        terms_(program, producers_) {}

  // The attention whose scores instruction `place` makes.
  std::optional<AttentionGroup> At(int place) {
    for (bool traded : {false, true}) {
      AttentionGroup group;
      if (!MatchScores(place, traded, &group)) continue;
      if (!MatchForward(place, &group)) continue;
      if (!IsAccepted(group)) continue;
      return group;
    }
    return std::nullopt;
  }

 private:
  const ProgramValue& Value(int value) const { return program_.values[value]; }

  // scores = einsum(q, k) sum{d}, and what is what by the dimensions.
  bool MatchScores(int place, bool traded, AttentionGroup* group) {
    const Instruction& einsum = program_.instructions[place];
    group->q = einsum.operands[traded ? 1 : 0];
    group->k = einsum.operands[traded ? 0 : 1];
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
      if (!IsWhole(s, name)) return false;
    }
    if (!IsWhole(q, names_.d)) return false;
    AttentionProblem& p = group->problem;
    p.dtype = q.dtype;
    p.batch = LocalExtentOf(s, names_.batch);
    p.heads = LocalExtentOf(s, names_.heads);
    p.length = LocalExtentOf(s, names_.length);
    p.memory = LocalExtentOf(s, names_.memory);
    p.d = LocalExtentOf(q, names_.d);
    // Replicas must not differ in a bit.
    p.reproducible = program_.mesh.num_devices() > 1;
    return ReadStrides(group->q, names_.length, &p.q) &&
           ReadStrides(group->k, names_.memory, &p.k);
  }

  // The strides of a value of batch, heads, `length` and d, which is innermost;
  // false where it is something else.
  bool ReadStrides(int value, const std::string& length, Strides* strides) {
    const ProgramValue& v = Value(value);
    int rank = 2;
    for (const std::string& name : {names_.batch, names_.heads}) {
      if (name.empty()) continue;
      ++rank;
      if (!v.shape.Contains(name)) return false;
    }
    if (v.shape.rank() != rank || !v.shape.Contains(length) ||
        v.shape[rank - 1].name != names_.d || v.dtype != Value(scores_).dtype) {
      return false;
    }
    *strides = {StrideOf(v, names_.batch), StrideOf(v, names_.heads),
                StrideOf(v, length)};
    // What is missing has one place.
    if (names_.batch.empty()) strides->batch = v.local_elements();
    if (names_.heads.empty()) strides->heads = v.local_elements();
    return true;
  }

  // The only einsum among the readers of `value` with `other` as its other
  // operand (-1: any), or -1.
  int EinsumOf(int value, int other, std::vector<int>* candidates = nullptr) {
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
  int Partner(int place, int value) const {
    const Instruction& einsum = program_.instructions[place];
    return einsum.operands[einsum.operands[0] == value ? 1 : 0];
  }

  // The weights come soon behind the scores: some maps and reductions.
  bool MatchForward(int place, AttentionGroup* group) {
    const DType narrow = Value(scores_).dtype;
    const int scores = terms_.Of(scores_);
    const int end = static_cast<int>(program_.instructions.size());
    for (int i = place + 1; i < end; ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (IsNoOp(program_, instruction)) continue;
      if (instruction.opcode != Opcode::kMap &&
          instruction.opcode != Opcode::kReduce) {
        break;
      }
      const int term = terms_.Of(instruction.results[0]);
      const std::optional<ScoreChanges> changes =
          internal::ReadChanges(terms_, term, scores, narrow);
      if (!changes.has_value()) continue;
      const SoftmaxFormulas softmax =
          internal::SoftmaxOf(terms_, scores, narrow, names_.memory, *changes);
      if (term != softmax.weights) continue;
      group->weights = instruction.results[0];
      if (MatchOutput(place, softmax, *changes, group)) return true;
    }
    return false;
  }

  bool MatchOutput(int place, const SoftmaxFormulas& softmax,
                   const ScoreChanges& changes, AttentionGroup* group) {
    AttentionProblem& p = group->problem;
    p.scale = changes.scale < 0
                  ? 1
                  : static_cast<float>(terms_.LiteralOf(changes.scale));
    std::vector<int> candidates;
    EinsumOf(group->weights, -1, &candidates);
    for (int output : candidates) {
      group->v = Partner(output, group->weights);
      group->o = program_.instructions[output].results[0];
      if (!ReadStrides(group->v, names_.memory, &p.v) ||
          !ReadStrides(group->o, names_.length, &p.o)) {
        continue;
      }
      if (!Collect(place, output, &group->forward)) continue;
      if (!internal::MatchMasks(program_, producers_, names_, changes, terms_,
                                group)) {
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

  bool MatchBackward(const SoftmaxFormulas& softmax,
                     const ScoreChanges& changes, AttentionGroup* group) {
    // d_v = einsum(weights, d_o) sum{length}.
    std::vector<int> candidates;
    EinsumOf(group->weights, -1, &candidates);
    for (int place_v : candidates) {
      group->d_v = program_.instructions[place_v].results[0];
      group->d_o = Partner(place_v, group->weights);
      Strides strides;
      if (group->d_v == group->o ||
          !ReadStrides(group->d_o, names_.length, &strides) ||
          strides != group->problem.o ||
          !ReadStrides(group->d_v, names_.memory, &strides) ||
          strides != group->problem.v) {
        continue;
      }
      const int place_w = EinsumOf(group->d_o, group->v);
      if (place_w < 0) continue;
      const int d_weights = program_.instructions[place_w].results[0];
      if (Value(d_weights).shape.rank() != Value(scores_).shape.rank())
        continue;
      const int d_scores = internal::SoftmaxGradientOf(
          terms_, softmax, terms_.Of(d_weights), Value(scores_).dtype,
          names_.memory, changes);
      // d_q = einsum(d_scores, k), d_k = einsum(d_scores, q).
      for (int place_q : readers_[group->k]) {
        const Instruction& einsum_q = program_.instructions[place_q];
        if (einsum_q.opcode != Opcode::kEinsum) continue;
        const int gradient = Partner(place_q, group->k);
        if (gradient == group->q || terms_.Of(gradient) != d_scores) continue;
        const int place_k = EinsumOf(gradient, group->q);
        if (place_k < 0) continue;
        group->d_q = einsum_q.results[0];
        group->d_k = program_.instructions[place_k].results[0];
        if (!ReadStrides(group->d_q, names_.length, &strides) ||
            strides != group->problem.q ||
            !ReadStrides(group->d_k, names_.memory, &strides) ||
            strides != group->problem.k) {
          continue;
        }
        const auto [first, last] =
            std::minmax({place_v, place_w, place_q, place_k});
        if (!Collect(first, last, &group->backward)) continue;
        if (ResultsStay(*group)) return true;
      }
    }
    return false;
  }

  // The instructions from `first` to `last` that run; false where one of them
  // is taken or of another kind.
  bool Collect(int first, int last, std::vector<int>* members) {
    members->clear();
    if (last < first) return false;
    for (int i = first; i <= last; ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (IsNoOp(program_, instruction)) continue;
      const bool may = instruction.opcode == Opcode::kMap ||
                       instruction.opcode == Opcode::kReduce ||
                       instruction.opcode == Opcode::kEinsum;
      if (!may || taken_[i]) return false;
      members->push_back(i);
    }
    return true;
  }

  // Who else reads what the members make, but for `result`.
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

  // Nobody outside reads what the gradient makes, but for its three results.
  bool ResultsStay(const AttentionGroup& group) {
    for (int member : group.backward) {
      const int value = program_.instructions[member].results[0];
      if (value == group.d_q || value == group.d_k || value == group.d_v) {
        continue;
      }
      if (!OutsideReaders({member}, -1).empty()) {
        for (int reader : OutsideReaders({member}, -1)) {
          if (!std::binary_search(group.backward.begin(), group.backward.end(),
                                  reader)) {
            return false;
          }
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
  const std::vector<bool>& taken_;
  const std::function<bool(const AttentionProblem&)>& accepts_;
  const std::vector<int> producers_;
  const ReaderLists readers_;
  ExpressionNumbering terms_;
  int scores_ = -1;
  internal::AttentionNames names_;
};

}  // namespace

std::vector<AttentionGroup> FindAttention(
    const Program& program,
    const std::function<bool(const AttentionProblem&)>& accepts) {
  std::vector<AttentionGroup> groups;
  std::vector<bool> taken(program.instructions.size(), false);
  Finder finder(program, taken, accepts);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].opcode != Opcode::kEinsum || taken[i]) continue;
    std::optional<AttentionGroup> group = finder.At(static_cast<int>(i));
    if (!group.has_value()) continue;
    for (int member : group->forward) taken[member] = true;
    for (int member : group->backward) taken[member] = true;
    groups.push_back(*std::move(group));
  }
  return groups;
}

bool IsInsideOfKernel(const Program& program, int value) {
  const std::vector<BufferPlan::Buffer>& buffers = program.buffers.buffers;
  return buffers.size() == program.values.size() &&
         buffers[value].storage == BufferPlan::Storage::kNone;
}

std::vector<AttentionGroup> FindPlannedAttention(const Program& program) {
  const auto& all = program.instructions;
  const bool any =
      std::any_of(all.begin(), all.end(), [&](const Instruction& instruction) {
        return instruction.opcode == Opcode::kEinsum &&
               IsInsideOfKernel(program, instruction.results[0]);
      });
  if (!any) return {};
  std::vector<AttentionGroup> groups = FindAttention(program);
  std::erase_if(groups, [&](const AttentionGroup& group) {
    return !IsInsideOfKernel(program, group.scores);
  });
  return groups;
}

}  // namespace mtf
