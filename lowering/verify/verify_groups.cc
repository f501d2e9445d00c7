// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_groups.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "lowering/program/convolution_spec.h"
#include "lowering/program/pool_spec.h"
#include "lowering/program/print_program.h"
#include "mtf/status.h"

namespace mtf::internal {
namespace {

bool SameElements(const ProgramValue& x, const ProgramValue& y) {
  return x.shape == y.shape && x.local == y.local;
}

class GroupVerifier {
 public:
  explicit GroupVerifier(const Program& program)
      : program_(program),
        computed_at_(FindComputedAt(program)),
        is_internal_(FindInternalValues(program)),
        is_grouped_(program.instructions.size(), false) {}

  absl::Status Run(int* bad) {
    int previous = -1;
    for (const FusedGroup& group : program_.groups) {
      *bad = group.members.empty() ? -1 : group.members.front();
      if (group.members.size() < 2) {
        return Wrong(group, "a group has at least two members");
      }
      if (group.members.front() < previous) {
        return Wrong(group, "groups are in the order of their first members");
      }
      previous = group.members.front();
      MTF_RETURN_IF_ERROR(CheckMembers(group));
      MTF_RETURN_IF_ERROR(CheckKind(group));
    }
    *bad = -1;
    return absl::OkStatus();
  }

 private:
  const Instruction& At(int index) const {
    return program_.instructions[index];
  }
  const ProgramValue& ResultOf(int index) const {
    return program_.values[At(index).results[0]];
  }
  std::string NameOf(int member) const {
    return absl::StrCat("%", ResultOf(member).name);
  }
  template <class... Text>
  absl::Status Wrong(const FusedGroup& group, const Text&... what) const {
    return absl::InternalError(
        absl::StrCat(what..., group.members.empty() ? "" : "\n  group    ",
                     group.members.empty() ? "" : PrintGroup(program_, group)));
  }

  // Whether the group can run at its first member.
  absl::Status CheckMembers(const FusedGroup& group) {
    for (int member : group.members) {
      if (is_grouped_[member]) {
        return Wrong(group, NameOf(member), " is in a group already");
      }
      is_grouped_[member] = true;
      for (int operand : At(member).operands) {
        const int from = computed_at_[operand];
        const bool is_member = absl::c_binary_search(group.members, from) &&
                               absl::c_linear_search(At(from).results, operand);
        if (from < group.members.front() || is_member) continue;
        return Wrong(group, NameOf(member), " reads %",
                     program_.values[operand].name,
                     ", which is computed after the first member and by no "
                     "member");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckKind(const FusedGroup& group) const {
    if (group.Find<ConvolutionGroup>() != nullptr) {
      return CheckConvolution(group);
    }
    if (group.Find<PoolGroup>() != nullptr) return CheckPool(group);
    if (const auto* epilogue = group.Find<EpilogueGroup>()) {
      return CheckEpilogue(group, *epilogue);
    }
    if (const auto* gradient = group.Find<BiasGradientGroup>()) {
      return CheckBiasGradient(group, *gradient);
    }
    if (const auto* maps = group.Find<MapGroup>()) {
      return CheckSections(group, *maps);
    }
    return CheckRows(group);
  }

  // One kernel computes the result of the last member and no other.
  absl::Status CheckConvolution(const FusedGroup& group) const {
    if (!FindConvolution(program_, group.members).has_value()) {
      return Wrong(group, "the members are not one convolution");
    }
    for (int member : group.members) {
      if (member == group.members.back() ||
          is_internal_[At(member).results[0]]) {
        continue;
      }
      return Wrong(group, NameOf(member),
                   " is read outside of the convolution");
    }
    return absl::OkStatus();
  }

  // One kernel computes the reductions with their maps, or the last member of a
  // gradient, and no other.
  absl::Status CheckPool(const FusedGroup& group) const {
    std::vector<int> computed = {group.members.back()};
    if (const auto pool = FindPool(program_, group.members)) {
      for (const PoolSpec::Stage& stage : pool->stages) {
        computed.push_back(stage.reduce);
        computed.push_back(stage.map);
      }
    } else if (!FindPoolGradient(program_, group.members).has_value()) {
      return Wrong(group, "the members are not one pooling");
    }
    for (int member : group.members) {
      if (absl::c_linear_search(computed, member) ||
          is_internal_[At(member).results[0]]) {
        continue;
      }
      return Wrong(group, NameOf(member), " is read outside of the pooling");
    }
    return absl::OkStatus();
  }

  // Every reduction is over the same elements, and the result of every member
  // has some of their dimensions.
  absl::Status CheckRows(const FusedGroup& group) const {
    const ReduceAttributes* rows = nullptr;
    for (int member : group.members) {
      if (!HasExpression(At(member))) {
        return Wrong(group, "a group of rows has maps and reductions");
      }
      const auto* reduce = At(member).Find<ReduceAttributes>();
      if (reduce == nullptr) continue;
      if (rows == nullptr) rows = reduce;
      if (!(rows->iteration == reduce->iteration) ||
          rows->iteration_local != reduce->iteration_local) {
        return Wrong(group, "the reductions are over different rows");
      }
    }
    if (rows == nullptr) return Wrong(group, "no member reduces");
    for (int member : group.members) {
      for (const Dimension& dim : ResultOf(member).shape) {
        if (rows->iteration.Contains(dim.name)) continue;
        return Wrong(group, NameOf(member), " has ", dim.name,
                     ", the rows do not");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckEpilogue(const FusedGroup& group,
                             const EpilogueGroup& epilogue) const {
    const ProgramValue& product = ResultOf(group.members[0]);
    absl::flat_hash_set<int> read;  // by the maps
    for (int member : group.members) {
      const bool is_first = member == group.members[0];
      const Opcode opcode = At(member).opcode;
      const bool can_have_epilogue =
          opcode == Opcode::kEinsum || opcode == Opcode::kScatterAdd;
      if (is_first ? !can_have_epilogue : opcode != Opcode::kMap) {
        return Wrong(group,
                     "an epilogue is an einsum or a scatter_add, then maps");
      }
      if (!SameElements(ResultOf(member), product) ||
          ResultOf(member).dtype != product.dtype) {
        return Wrong(group, NameOf(member),
                     " differs from the product in shape or dtype");
      }
      if (is_first) continue;
      read.insert(At(member).operands.begin(), At(member).operands.end());
    }
    if (epilogue.accumulates &&
        (epilogue.bias >= 0 || epilogue.gelu || epilogue.gelu_gradient >= 0 ||
         At(group.members[0]).opcode != Opcode::kEinsum)) {
      return Wrong(group, "an einsum that accumulates has no other epilogue");
    }
    for (int value : {epilogue.bias, epilogue.addend, epilogue.gelu_gradient}) {
      if (value < 0) continue;
      const ProgramValue& input = program_.values[value];
      const bool fits = value == epilogue.bias
                            ? input.shape.rank() <= product.shape.rank()
                            : SameElements(input, product);
      if (read.contains(value) && fits && input.dtype == product.dtype)
        continue;
      return Wrong(group, "the epilogue does not read %", input.name,
                   " in the order of the elements of the product");
    }
    return absl::OkStatus();
  }

  absl::Status CheckBiasGradient(const FusedGroup& group,
                                 const BiasGradientGroup& gradient) const {
    int sums = 0, einsums = 0;
    for (int member : group.members) {
      sums += At(member).opcode == Opcode::kReduce;
      einsums += At(member).opcode == Opcode::kEinsum;
      if (absl::c_linear_search(At(member).operands, gradient.summed)) continue;
      return Wrong(group, NameOf(member), " does not read %",
                   program_.values[gradient.summed].name);
    }
    if (sums == 1 && einsums == 1 && group.members.size() == 2) {
      return absl::OkStatus();
    }
    return Wrong(group, "a bias gradient is one sum and one einsum");
  }

  // The members of a section have the same elements, or one each.
  absl::Status CheckSections(const FusedGroup& group,
                             const MapGroup& maps) const {
    std::vector<int> members;
    for (const std::vector<int>& section : maps.sections) {
      for (int member : section) {
        for (int operand : At(member).operands) {
          const int producer = computed_at_[operand];
          if (absl::c_binary_search(group.members, producer) &&
              absl::c_find(section, producer) == section.end()) {
            return Wrong(group, NameOf(member), " reads another section");
          }
        }
        const ProgramValue &result = ResultOf(member),
                           &first = ResultOf(section[0]);
        if (At(member).opcode != Opcode::kMap) {
          return Wrong(group, NameOf(member), " is not a map");
        }
        if (!SameElements(result, first) &&
            (result.local_elements() != 1 || first.local_elements() != 1)) {
          return Wrong(group, NameOf(member),
                       " has another shape than its section");
        }
        members.push_back(member);
      }
    }
    absl::c_sort(members);
    if (members == group.members) return absl::OkStatus();
    return Wrong(group, "the sections are not those of the members");
  }

  const Program& program_;
  const std::vector<int> computed_at_;   // by value
  const std::vector<bool> is_internal_;  // by value
  std::vector<bool> is_grouped_;         // by instruction
};

}  // namespace

absl::Status VerifyGroups(const Program& program, int* bad) {
  *bad = -1;
  if (program.groups.empty()) return absl::OkStatus();
  return GroupVerifier(program).Run(bad);
}

}  // namespace mtf::internal
