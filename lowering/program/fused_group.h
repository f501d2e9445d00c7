// SPDX-License-Identifier: Apache-2.0
//
// Instructions that a device runs as one kernel. The fusion passes write them
// into a program (lowering/passes/fuse_*.h, batch_maps.h); memory plans,
// estimates, explanations and devices read them.
#ifndef LOWERING_PROGRAM_FUSED_GROUP_H_
#define LOWERING_PROGRAM_FUSED_GROUP_H_

#include <cstddef>
#include <variant>
#include <vector>

namespace mtf {

struct Program;

// Windows and the einsum that multiplies them with a filter or with a gradient,
// or an einsum whose products are folded: one convolution, or the gradient of
// its filter or its input (convolution_spec.h). Padding may be part of it.
struct ConvolutionGroup {};

// Windows and the reduction of each, along one or several dimensions, or the
// gradient of one: the share of each element of a window, folded (pool_spec.h).
// Padding and the maps of a result may be part of it.
struct PoolGroup {};

// An einsum and the maps that a matmul applies before it writes: a sum with a
// bias and another tensor, then GELU; or a product with the derivative of GELU.
// Or a scatter_add and a sum of its result with another tensor.
struct EpilogueGroup {
  int bias = -1, addend = -1;  // values; -1 if absent
  // Whether the matmul adds to the memory of the addend, where the memory plan
  // gives it to the result. There is no other epilogue then.
  bool accumulates = false;
  bool gelu = false;
  int gelu_gradient = -1;  // value: the input of the GELU; -1 if absent
};

// Maps and reductions over the same rows.
struct RowGroup {};

// A sum and the einsum that reads the same operand and sums it as well.
struct BiasGradientGroup {
  int summed = -1;  // value: the operand of both
};

// Maps. Those of one section have results of one shape and may read each
// other's results.
struct MapGroup {
  std::vector<std::vector<int>> sections;  // instructions, ascending
};

// The order of the alternatives is that of the passes.
using GroupKind = std::variant<ConvolutionGroup, PoolGroup, EpilogueGroup,
                               RowGroup, BiasGradientGroup, MapGroup>;

// A group runs at its first member: everything that its members read is
// computed before that, or by an earlier member.
struct FusedGroup {
  std::vector<int> members;  // instructions, ascending
  GroupKind kind;

  template <class Kind>
  const Kind* Find() const {
    return std::get_if<Kind>(&kind);
  }
  // Whether memory is planned for the group as one kernel: its inputs are alive
  // until the last member, its results from the first member on. Otherwise a
  // device may run the members one by one.
  bool is_planned() const { return Find<MapGroup>() == nullptr; }
};

// Adds groups to those of a program, in the order of their first members.
void AddGroups(std::vector<FusedGroup> groups, Program& program);

// By instruction: the index of its group in Program::groups, or -1.
std::vector<int> FindGroups(const Program& program);

// By value: whether a planned group computes it for its own members only. Such
// values have no memory.
std::vector<bool> FindInternalValues(const Program& program);

// By value, the instruction that computes it, or -1 if it exists before the
// step. A no-op computes nothing: its result exists as soon as its operand
// does.
std::vector<int> FindComputedAt(const Program& program);

// Whether the kernel of a group may write `result` to the memory of an operand
// with the same elements: in a row group if it has an element for each one of
// the rows, which are read before they are written, and as the sum of a
// scatter_add or of a matmul that accumulates.
bool MayOverwrite(const Program& program, const FusedGroup& group, int result);

// Removes the groups that the pass which writes `Kind`, and later ones, wrote.
// A pass begins with it, so that running it again changes nothing.
template <class Kind>
void EraseGroupsFrom(std::vector<FusedGroup>& groups) {
  const size_t first = GroupKind(Kind()).index();
  std::erase_if(groups, [first](const FusedGroup& group) {
    return group.kind.index() >= first;
  });
}

}  // namespace mtf

#endif  // LOWERING_PROGRAM_FUSED_GROUP_H_
