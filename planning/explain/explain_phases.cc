// SPDX-License-Identifier: Apache-2.0
//
// PhasesOf: divides a step into the forward pass, the backward pass and the
// update.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "planning/explain/explain_parts.h"

namespace mtf::internal {
namespace {

// Whether Gradients() made `operation`: "layer_0/einsum_grad",
// "layer_0/einsum_grad_1".
bool IsGradient(absl::string_view operation) {
  while (!operation.empty() && absl::ascii_isdigit(operation.back())) {
    operation.remove_suffix(1);
  }
  return absl::EndsWith(absl::StripSuffix(operation, "_"), "_grad");
}

// By instruction: computes a gradient, or is a collective on one. A collective
// may be named after another value that it reduces together with gradients. A
// cast of a gradient does not count, because it may be for the update only.
std::vector<bool> GradientInstructions(const Program& program) {
  std::vector<bool> is_gradient_origin;
  is_gradient_origin.reserve(program.origins.size());
  for (const Origin& origin : program.origins) {
    is_gradient_origin.push_back(IsGradient(origin.operation));
  }
  std::vector<bool> is_gradient(program.instructions.size());
  std::vector<bool> holds_gradient(program.values.size());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const bool is_collective = IsCollective(instruction.opcode);
    const bool keeps_value = PreservesValue(instruction);
    bool holds =
        instruction.origin >= 0 && is_gradient_origin[instruction.origin];
    is_gradient[i] = holds && !keeps_value;
    if (is_collective || keeps_value) {
      for (int operand : instruction.operands) {
        holds = holds || holds_gradient[operand];
      }
    }
    is_gradient[i] = is_gradient[i] || (is_collective && holds);
    for (int result : instruction.results) holds_gradient[result] = holds;
  }
  return is_gradient;
}

}  // namespace

std::vector<StepPhase> PhasesOf(const Program& program) {
  const size_t count = program.instructions.size();
  std::vector<StepPhase> phases(count, StepPhase::kForward);
  const std::vector<bool> is_gradient = GradientInstructions(program);
  const size_t first_gradient =
      std::find(is_gradient.begin(), is_gradient.end(), true) -
      is_gradient.begin();
  if (first_gradient == count) return phases;
  // By value: whether an update reads it, and whether anything else does. Walks
  // backwards, so that the readers of a value come before its producer.
  std::vector<bool> in_update(program.values.size());
  std::vector<bool> elsewhere(program.values.size());
  for (size_t i = count; i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.opcode == Opcode::kWait) continue;
    bool is_update = instruction.opcode == Opcode::kWriteVariable;
    bool is_other = is_gradient[i] || instruction.opcode == Opcode::kOutput;
    for (int result : instruction.results) {
      is_update = is_update || in_update[result];
      is_other = is_other || elsewhere[result];
    }
    if (is_update && !is_other) {
      phases[i] = StepPhase::kUpdate;
    } else if (i >= first_gradient) {
      phases[i] = StepPhase::kBackward;
    }
    for (int operand : instruction.operands) {
      (phases[i] == StepPhase::kUpdate ? in_update : elsewhere)[operand] = true;
    }
  }
  return phases;
}

}  // namespace mtf::internal
