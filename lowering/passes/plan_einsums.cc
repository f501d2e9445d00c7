// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/plan_einsums.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace mtf {
namespace {

std::vector<StridedDimension> StridesOf(const ProgramValue& value) {
  std::vector<StridedDimension> dims(value.shape.rank());
  int64_t stride = 1;
  for (int i = value.shape.rank() - 1; i >= 0; --i) {
    dims[i] = {value.shape[i].name, value.local[i], stride};
    stride *= value.local[i];
  }
  return dims;
}

}  // namespace

absl::Status PlanEinsums(Program& program) {
  // Layers repeat, and so do their einsums: one plan per distinct key.
  absl::flat_hash_map<std::string, std::shared_ptr<const EinsumPlan>> plans;
  std::string key;
  for (Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kEinsum) continue;
    const ProgramValue& x = program.values[instruction.operands[0]];
    const ProgramValue& y = program.values[instruction.operands[1]];
    const ProgramValue& z = program.values[instruction.results[0]];
    // The key: names and per-device extents of both operands and the result.
    key.clear();
    for (const ProgramValue* value : {&x, &y, &z}) {
      for (int i = 0; i < value->shape.rank(); ++i) {
        const int64_t extent = value->local[i];
        key.append(value->shape[i].name).push_back(':');
        key.append(reinterpret_cast<const char*>(&extent), sizeof(extent));
      }
      key.push_back(';');
    }
    const auto [plan, inserted] = plans.try_emplace(key);
    if (inserted) {
      plan->second = std::make_shared<const EinsumPlan>(
          PlanEinsum(StridesOf(x), StridesOf(y), StridesOf(z)));
    }
    instruction.Get<EinsumAttributes>().plan = plan->second;
  }
  return absl::OkStatus();
}

}  // namespace mtf
