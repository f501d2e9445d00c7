// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_READER_LISTS_H_
#define LOWERING_PROGRAM_READER_LISTS_H_

#include <cstddef>
#include <numeric>
#include <vector>

#include "absl/types/span.h"
#include "lowering/program/program.h"

namespace mtf {

// For each value, the instructions that read it, in ascending order without
// duplicates. Stored in two arrays, because a large model has too many values
// for a vector each.
class ReaderLists {
 public:
  explicit ReaderLists(const Program& program)
      : begins_(program.values.size() + 1, 0) {
    for (const Instruction& instruction : program.instructions) {
      for (int operand : instruction.operands) ++begins_[operand + 1];
    }
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    readers_.resize(begins_.back());
    ends_.assign(begins_.begin(), begins_.end() - 1);
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const int reader = static_cast<int>(i);
      for (int operand : program.instructions[i].operands) {
        int& end = ends_[operand];
        const bool twice =
            end > begins_[operand] && readers_[end - 1] == reader;
        if (!twice) readers_[end++] = reader;
      }
    }
  }

  absl::Span<const int> operator[](int value) const {
    return absl::MakeConstSpan(readers_.data() + begins_[value],
                               ends_[value] - begins_[value]);
  }

 private:
  std::vector<int> begins_, ends_;  // by value: indices in readers_
  std::vector<int> readers_;
};

}  // namespace mtf

#endif  // LOWERING_PROGRAM_READER_LISTS_H_
