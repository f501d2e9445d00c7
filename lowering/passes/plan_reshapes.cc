// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/plan_reshapes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "lowering/passes/reshape_choice.h"
#include "lowering/program/reader_lists.h"
#include "lowering/program/readers.h"
#include "lowering/program/reshape_layout.h"
#include "lowering/program/spare_grains.h"

namespace mtf {
namespace {

using Causes = absl::InlinedVector<Cause, 1>;

// Whether a reshape does more than rename dimensions.
bool MergesOrSplits(const Program& program, const Instruction& reshape) {
  const Shape &before = program.values[reshape.operands[0]].shape,
              &after = program.values[reshape.results[0]].shape;
  for (const ReshapeGroup& group : GroupReshape(before, after)) {
    const int most = std::max(group.before_end - group.before_begin,
                              group.after_end - group.after_begin);
    if (most > 1) return true;
  }
  return false;
}

void AddCauses(const Causes& added, Causes& causes) {
  for (const Cause& cause : added) {
    const bool known =
        std::any_of(causes.begin(), causes.end(), [&](const Cause& each) {
          return each.axis == cause.axis && each.dimension == cause.dimension;
        });
    if (!known) causes.push_back(cause);
  }
}

class ReshapePlanner {
 public:
  explicit ReshapePlanner(Program& program)
      : program_(program),
        spare_(program),
        readers_(program),
        producers_(FindProducers(program)),
        dead_(program.instructions.size(), false),
        added_(program.instructions.size()) {}

  void Run() {
    const int count = static_cast<int>(program_.instructions.size());
    for (int i = 0; i < count; ++i) {
      const Instruction& reshape = program_.instructions[i];
      if (reshape.opcode == Opcode::kReshape &&
          MergesOrSplits(program_, reshape)) {
        Plan(i);
      }
    }
    Rewrite();
  }

 private:
  // The reshards around a reshape.
  struct Neighbours {
    int before = -1;  // the instruction of which only it reads the result
    std::vector<int> after;      // that read its result
    bool read_directly = false;  // by other instructions
  };

  Neighbours NeighboursOf(int reshape) const {
    const Instruction& instruction = program_.instructions[reshape];
    Neighbours neighbours;
    const int operand = instruction.operands[0];
    // A reshard that this pass has added is left as it is.
    const bool added = operand >= static_cast<int>(producers_.size());
    if (!added && producers_[operand] >= 0 && readers_[operand].size() == 1) {
      const int producer = producers_[operand];
      if (program_.instructions[producer].opcode == Opcode::kReshard) {
        neighbours.before = producer;
      }
    }
    for (int reader : readers_[instruction.results[0]]) {
      const Instruction& reading = program_.instructions[reader];
      if (reading.opcode == Opcode::kReshard) {
        // The recorder writes some reshards that nobody reads.
        if (!readers_[reading.results[0]].empty()) {
          neighbours.after.push_back(reader);
        }
      } else {
        neighbours.read_directly = true;
      }
    }
    return neighbours;
  }

  ReshapeLayouts Choose(const ReshapeProblem& problem,
                        const ReshapeLayouts& current) {
    const Mesh& mesh = program_.mesh;
    std::string key =
        absl::StrCat(problem.element_size, " ",
                     LayoutText(mesh, problem.before, problem.source), ">",
                     LayoutText(mesh, problem.before, current.before), ">",
                     LayoutText(mesh, problem.after, current.after));
    for (const TensorLayout& target : problem.targets) {
      absl::StrAppend(&key, ">", LayoutText(mesh, problem.after, target));
    }
    const auto [known, is_new] = choices_.try_emplace(std::move(key));
    if (is_new) {
      known->second =
          ChooseReshapeLayouts(program_.grains, spare_, problem, current);
    }
    return known->second;
  }

  void Plan(int index) {
    Instruction& reshape = program_.instructions[index];
    const Neighbours neighbours = NeighboursOf(index);
    if (neighbours.before < 0 && neighbours.after.empty()) return;
    const int operand = reshape.operands[0], result = reshape.results[0];
    const int source =
        neighbours.before < 0
            ? operand
            : program_.instructions[neighbours.before].operands[0];
    const ReshapeLayouts current{program_.values[operand].layout,
                                 program_.values[result].layout};
    ReshapeProblem problem{
        program_.values[operand].shape,
        program_.values[result].shape,
        program_.values[source].layout,
        {},
        static_cast<int>(DTypeSize(program_.values[operand].dtype))};
    const auto add_target = [&](const TensorLayout& target) {
      auto& targets = problem.targets;
      if (std::find(targets.begin(), targets.end(), target) == targets.end()) {
        targets.push_back(target);
      }
    };
    Causes causes;
    if (neighbours.before >= 0) {
      AddCauses(program_.instructions[neighbours.before].causes, causes);
    }
    for (int reshard : neighbours.after) {
      const Instruction& reading = program_.instructions[reshard];
      add_target(program_.values[reading.results[0]].layout);
      AddCauses(reading.causes, causes);
    }
    if (neighbours.read_directly) add_target(current.after);
    const ReshapeLayouts chosen = Choose(problem, current);
    if (chosen.before == current.before && chosen.after == current.after) {
      return;
    }
    AllowLayout(problem.before, chosen.before, program_.grains);
    AllowLayout(problem.after, chosen.after, program_.grains);
    ReshardOperand(index, neighbours.before, source, chosen.before, causes);
    program_.values[result].layout = chosen.after;
    CarryCauses(reshape.operands[0], result);
    ReshardResult(index, neighbours, current.after, causes);
  }

  // Gives `to` the causes of `from` for the axes along which `to` is unreduced.
  void CarryCauses(int from, int to) {
    Causes causes;
    for (const Cause& cause : program_.values[from].causes) {
      if (program_.values[to].layout.unreduced >> cause.axis & 1) {
        causes.push_back(cause);
      }
    }
    program_.values[to].causes = std::move(causes);
  }

  Instruction Reshard(int from, int to, int origin, Causes causes) const {
    Instruction reshard(Opcode::kReshard);
    reshard.operands = {from};
    reshard.results = {to};
    reshard.origin = origin;
    reshard.causes = std::move(causes);
    return reshard;
  }

  // Makes the reshape read `source` in `layout`, through the reshard `before`
  // if there is one already.
  void ReshardOperand(int index, int before, int source,
                      const TensorLayout& layout, const Causes& causes) {
    Instruction& reshape = program_.instructions[index];
    const ProgramValue from = program_.values[source];
    if (layout == from.layout) {
      if (before >= 0) dead_[before] = true;
      reshape.operands = {source};
    } else if (before >= 0) {
      Instruction& reshard = program_.instructions[before];
      reshard.causes = causes;
      program_.values[reshard.results[0]].layout = layout;
      CarryCauses(source, reshard.results[0]);
    } else {
      const int value =
          program_.AddValue(from.name, from.dtype, from.shape, layout);
      CarryCauses(source, value);
      added_[index].push_back(Reshard(source, value, reshape.origin, causes));
      program_.instructions[index].operands = {value};
    }
  }

  // Gives every reader of the reshape the layout that it had before.
  void ReshardResult(int index, const Neighbours& neighbours,
                     const TensorLayout& previous, const Causes& causes) {
    const int result = program_.instructions[index].results[0];
    const TensorLayout layout = program_.values[result].layout;
    int direct = result;  // what other instructions than reshards read
    if (neighbours.read_directly && layout != previous) {
      const ProgramValue from = program_.values[result];
      direct = program_.AddValue(from.name, from.dtype, from.shape, previous);
      added_[index + 1].push_back(
          Reshard(result, direct, program_.instructions[index].origin, causes));
    }
    for (int reader : readers_[result]) {
      Instruction& reading = program_.instructions[reader];
      if (reading.opcode != Opcode::kReshard) {
        std::replace(reading.operands.begin(), reading.operands.end(), result,
                     direct);
        continue;
      }
      const int resharded = reading.results[0];
      if (program_.values[resharded].layout == layout) {
        dead_[reader] = true;
        for (int next : readers_[resharded]) {
          Instruction& last = program_.instructions[next];
          std::replace(last.operands.begin(), last.operands.end(), resharded,
                       result);
        }
      } else if (readers_[resharded].empty()) {
        dead_[reader] = true;
      } else {
        AddCauses(causes, reading.causes);
      }
    }
  }

  void Rewrite() {
    std::vector<Instruction> before = std::move(program_.instructions);
    program_.instructions.clear();
    program_.instructions.reserve(before.size() + 8);
    for (size_t i = 0; i < before.size(); ++i) {
      for (Instruction& reshard : added_[i]) {
        program_.instructions.push_back(std::move(reshard));
      }
      if (!dead_[i]) program_.instructions.push_back(std::move(before[i]));
    }
  }

  Program& program_;
  const SpareGrains spare_;
  const ReaderLists readers_;
  const std::vector<int> producers_;
  std::vector<bool> dead_;                       // by instruction
  std::vector<std::vector<Instruction>> added_;  // before each instruction
  absl::flat_hash_map<std::string, ReshapeLayouts> choices_;
};

}  // namespace

absl::Status PlanReshapes(Program& program) {
  const bool any =
      std::any_of(program.instructions.begin(), program.instructions.end(),
                  [&](const Instruction& instruction) {
                    return instruction.opcode == Opcode::kReshape &&
                           MergesOrSplits(program, instruction);
                  });
  if (any) ReshapePlanner(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
