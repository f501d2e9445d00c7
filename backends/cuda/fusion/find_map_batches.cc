// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/find_map_batches.h"

#include <optional>

#include "absl/container/flat_hash_map.h"
#include "lowering/program/is_no_op.h"
#include "mtf/check.h"
#include "mtf/map_expression.h"

namespace mtf::cuda {
namespace {

// Whether a map can run as one loop over flat memory: each operand has the
// dimensions of the result or is a single number, and no step is an iota.
bool IsFlat(const Program& program, const Instruction& map) {
  const ProgramValue& result = program.values[map.results[0]];
  for (int operand : map.operands) {
    const ProgramValue& value = program.values[operand];
    if (value.local_elements() == 1) continue;
    if (!(value.shape == result.shape) || value.local != result.local) {
      return false;
    }
  }
  for (const MapStep& step : ExpressionOf(map).steps) {
    if (step.function == ScalarFunction::kIota) return false;
  }
  return true;
}

// A batch under construction.
class Batch {
 public:
  explicit Batch(const Program& program) : program_(program) {}

  const std::vector<int>& maps() const { return maps_; }
  const std::vector<std::vector<int>>& sections() const { return sections_; }

  // Adds a map; returns false and changes nothing if it does not fit this
  // batch.
  bool Add(int index) {
    const Instruction& map = program_.instructions[index];
    const ProgramValue& result = program_.values[map.results[0]];
    const bool number = result.local_elements() == 1;
    if (!maps_.empty() && number != numbers_) return false;
    // The section whose results it reads, if any.
    int section = -1;
    for (int operand : map.operands) {
      const auto made = section_of_.find(operand);
      if (made == section_of_.end()) continue;
      const bool same_element =
          program_.values[operand].local_elements() == result.local_elements();
      if (!same_element || (section >= 0 && section != made->second))
        return false;
      section = made->second;
    }
    if (section < 0) section = SectionLike(result);
    numbers_ = number;
    sections_[section].push_back(static_cast<int>(maps_.size()));
    section_of_[map.results[0]] = section;
    maps_.push_back(index);
    return true;
  }

 private:
  // The last section if its results have the dimensions of `result`, otherwise
  // a new one: neighbouring maps are more likely to share operands.
  int SectionLike(const ProgramValue& result) {
    if (!sections_.empty()) {
      const int first = maps_[sections_.back().front()];
      const ProgramValue& other =
          program_.values[program_.instructions[first].results[0]];
      if (other.shape == result.shape && other.local == result.local) {
        return static_cast<int>(sections_.size()) - 1;
      }
    }
    sections_.emplace_back();
    return static_cast<int>(sections_.size()) - 1;
  }

  const Program& program_;
  std::vector<int> maps_;                     // instructions
  std::vector<std::vector<int>> sections_;    // indices in maps_
  absl::flat_hash_map<int, int> section_of_;  // by value
  bool numbers_ = false;                      // every result is one number
};

}  // namespace

std::vector<std::vector<int>> FindMapBatches(const Program& program,
                                             const std::vector<bool>& taken) {
  std::vector<std::vector<int>> batches;
  std::optional<Batch> batch;
  const auto close = [&] {
    if (batch.has_value() && batch->maps().size() >= 2) {
      batches.push_back(batch->maps());
    }
    batch.reset();
  };
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const int index = static_cast<int>(i);
    if (instruction.opcode == Opcode::kMap && !taken[i] &&
        IsFlat(program, instruction)) {
      if (batch.has_value() && batch->Add(index)) continue;
      close();
      batch.emplace(program);
      batch->Add(index);
    } else if (taken[i] || !IsNoOp(program, instruction)) {
      close();
    }
  }
  close();
  return batches;
}

std::vector<std::vector<int>> SectionsOf(const Program& program,
                                         const std::vector<int>& batch) {
  Batch sections(program);
  for (int index : batch) MTF_CHECK(sections.Add(index));
  return sections.sections();
}

}  // namespace mtf::cuda
