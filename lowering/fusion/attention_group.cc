// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/attention_group.h"

#include <utility>

namespace mtf {
namespace {

int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

int64_t AttentionGroup::bias_offset() const {
  if (backward.empty()) return 0;
  const int64_t stats = problem.batch * problem.heads * problem.length * 4;
  return problem.bias.given ? Aligned(stats) : stats;
}

int64_t AttentionGroup::first_seen_offset() const {
  return bias_offset() + problem.BiasElements() * 4;
}

int64_t AttentionGroup::kept_bytes() const {
  return first_seen_offset() + problem.BiasRows() * 4;
}

std::vector<FusedGroup> AttentionGroup::FusedGroups() const {
  FusedGroup forward_group;
  forward_group.members = forward;
  forward_group.outputs = {o};
  if (kept_bytes() > 0) {
    forward_group.outputs.push_back(weights);
    forward_group.output_bytes = {{weights, kept_bytes()}};
  }
  if (backward.empty()) return {forward_group};
  FusedGroup backward_group;
  backward_group.members = backward;
  backward_group.outputs = {d_q, d_k, d_v};
  backward_group.extra_inputs = {o};
  return {forward_group, backward_group};
}

AttentionProblem AttentionGroup::BackwardProblem() const {
  AttentionProblem backward_problem = problem;
  backward_problem.backward = true;
  return backward_problem;
}

std::vector<FusedGroup> FusedGroupsOf(
    const std::vector<AttentionGroup>& attention) {
  std::vector<FusedGroup> groups;
  for (const AttentionGroup& one : attention) {
    for (FusedGroup& group : one.FusedGroups()) {
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

}  // namespace mtf
