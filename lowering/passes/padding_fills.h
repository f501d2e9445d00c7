// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_PADDING_FILLS_H_
#define LOWERING_PASSES_PADDING_FILLS_H_

#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "lowering/program/program.h"

namespace mtf {

// Tracks what the padding of each value contains, per dimension, through a
// program whose values have their per-device extents.
class PaddingFills {
 public:
  // `program` must outlive this object; values may be added to it.
  explicit PaddingFills(const Program& program) : program_(program) {}

  // Determines what the padding of the results contains. Every instruction that
  // produces an operand must have been propagated before.
  void Propagate(const Instruction& instruction);

  // Whether dimension `dim` of a value has padding.
  bool IsPadded(int value, int dim) const;
  // Whether the padding of a value along `dim` is known to contain `number` in
  // every element.
  bool PaddingIs(int value, int dim, double number) const;
  // Whether the padding of a value along `dim` may contain anything.
  bool PaddingIsUnknown(int value, int dim) const;
  // Whether an update_slice leaves the padding along the dimension called
  // `name` as it is in its first operand. Otherwise that of its second operand
  // replaces some of it.
  bool KeepsPadding(const Instruction& update, absl::string_view name) const;

 private:
  // The number that all padding elements along a dimension contain, or nullopt
  // if unknown. Arbitrary for dimensions without padding.
  using Fill = std::optional<double>;
  using Fills = absl::InlinedVector<Fill, 5>;

  Fill FillOf(int value, absl::string_view name) const;
  Fills MaskedFills(const Instruction& mask) const;
  Fill EvaluateFill(const Instruction& map, absl::string_view name) const;
  Fill MovedFill(const Instruction& instruction, absl::string_view name) const;
  Fill RowsFill(const Instruction& instruction, absl::string_view name) const;
  Fill ScannedFill(const Instruction& instruction,
                   absl::string_view name) const;
  Fill FillAlong(const Instruction& instruction, int result, int i) const;
  Fills ResultFills(const Instruction& instruction, size_t index) const;
  void FillSlicedRows(const Instruction& slice, const Shape& result,
                      Fills& fills) const;
  void DropReplacedFills(const Instruction& update, const Shape& result,
                         Fills& fills) const;
  void CarryThroughReshape(const Instruction& instruction,
                           const ProgramValue& result, Fills& fills) const;
  void CarryThroughOnes(int operand, const ProgramValue& result,
                        Fills& fills) const;

  const Program& program_;
  std::vector<Fills> fills_;  // by value
};

}  // namespace mtf

#endif  // LOWERING_PASSES_PADDING_FILLS_H_
