// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_PADDING_FILLS_H_
#define LOWERING_PASSES_PADDING_FILLS_H_

#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "lowering/program/program.h"

namespace mtf {

// What the padding of each value holds, dimension by dimension, followed
// through a program whose values have their extents on one device.
class PaddingFills {
 public:
  // The program is to outlive it, and may get more values.
  explicit PaddingFills(const Program& program) : program_(program) {}

  // Tells what the padding of the results holds; that of the operands must be
  // known.
  void Follow(const Instruction& instruction);

  // Whether dimension `dim` of a value has padding.
  bool IsPadded(int value, int dim) const;
  // Whether the padding of a value along `dim` surely holds `number`
  // everywhere.
  bool Holds(int value, int dim, double number) const;

 private:
  // One number everywhere along a dimension, or nothing that can be relied on.
  // Dimensions without padding hold anything.
  using Fill = std::optional<double>;
  using Fills = absl::InlinedVector<Fill, 5>;

  Fill FillOf(int value, absl::string_view name) const;
  Fills MaskedFills(const Instruction& mask) const;
  Fill EvaluateFill(const Instruction& map, absl::string_view name) const;
  Fills ResultFills(const Instruction& instruction, size_t place) const;
  void CarryThroughReshape(const Instruction& instruction,
                           const ProgramValue& result, Fills& fills) const;

  const Program& program_;
  std::vector<Fills> fills_;  // by value
};

}  // namespace mtf

#endif  // LOWERING_PASSES_PADDING_FILLS_H_
