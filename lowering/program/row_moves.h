// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_ROW_MOVES_H_
#define LOWERING_PROGRAM_ROW_MOVES_H_

#include <cstdint>
#include <vector>

#include "layouts/row_plan.h"
#include "lowering/program/program.h"

namespace mtf {

// The transfer that take_rows and place_rows are part of.
RowTransfer RowTransferOf(const Grains& grains,
                          const RowsAttributes& attributes);

// The collective that a round of `plan` is, over `axes`. With `adds` the
// messages go back.
CollectiveAttributes PermutationOf(const RowPlan::Round& round,
                                   const AxisList& axes, bool adds);

// The position, in the shapes of all operands and of the result, of the
// dimension whose rows a take_rows or place_rows moves. -1: there is none.
int RowDimOf(const Program& program, const Instruction& instruction);

// A copy of `count` rows from row `from` of an operand to row `to` of the
// result, both in the memory of one rank.
struct RowMove {
  int operand = 0;
  int64_t from = 0, to = 0, count = 0;
};

// What a take_rows or place_rows does on `rank` of the mesh. Of place_rows that
// adds, several moves may end at one row, which is their sum in this order.
std::vector<RowMove> RowMovesOf(const Program& program,
                                const Instruction& instruction, int64_t rank);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_ROW_MOVES_H_
