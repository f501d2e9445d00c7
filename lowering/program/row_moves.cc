// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/row_moves.h"

#include <algorithm>

namespace mtf {
namespace {

// The moves between the rows of a source and the line.
void AddOwnMoves(const std::vector<RowRun>& runs, bool adds,
                 std::vector<RowMove>& moves) {
  for (const RowRun& run : runs) {
    moves.push_back(adds ? RowMove{0, run.line, run.row, run.count}
                         : RowMove{run.source, run.row, run.line, run.count});
  }
}

// The moves that form a message.
void AddTakenMoves(const std::vector<RowRun>& runs, bool adds,
                   std::vector<RowMove>& moves) {
  int64_t next = 0;
  for (const RowRun& run : runs) {
    moves.push_back(adds ? RowMove{0, run.line, next, run.count}
                         : RowMove{run.source, run.row, next, run.count});
    next += run.count;
  }
}

// The moves out of a message, which is operand `operand`.
void AddReceivedMoves(const std::vector<RowRun>& runs, bool adds, int operand,
                      std::vector<RowMove>& moves) {
  int64_t next = 0;
  for (const RowRun& run : runs) {
    moves.push_back({operand, next, adds ? run.row : run.line, run.count});
    next += run.count;
  }
}

}  // namespace

RowTransfer RowTransferOf(const Grains& grains,
                          const RowsAttributes& attributes) {
  RowTransfer transfer;
  transfer.ranks = grains.mesh().SizeOf(attributes.axes);
  const auto extent_of = [&](int64_t size) {
    return transfer.ranks == 1
               ? size
               : grains.ExtentOf(attributes.dimension, size) / transfer.ranks;
  };
  for (size_t k = 0; k < attributes.sizes.size(); ++k) {
    const int64_t size = attributes.sizes[k];
    transfer.sources.push_back({size, extent_of(size), attributes.offsets[k],
                                attributes.replicated[k]});
  }
  transfer.wrap = attributes.wrap;
  transfer.windows = attributes.windows;
  transfer.extent = extent_of(attributes.windows);
  transfer.stride = attributes.stride;
  transfer.span = attributes.span;
  return transfer;
}

CollectiveAttributes PermutationOf(const RowPlan::Round& round,
                                   const AxisList& axes, bool adds) {
  CollectiveAttributes permute;
  permute.axes = axes;
  const auto ranks = static_cast<int64_t>(round.permutation.size());
  if (round.shift != 0) {
    permute.shift = adds ? ranks - round.shift : round.shift;
    return permute;
  }
  permute.sources = round.permutation;
  if (adds) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      permute.sources[round.permutation[rank]] = rank;
    }
  }
  return permute;
}

int RowDimOf(const Program& program, const Instruction& instruction) {
  const auto& rows = instruction.Get<RowsAttributes>();
  const ProgramValue& operand = program.values[instruction.operands[0]];
  for (int id : {instruction.results[0], instruction.operands[0]}) {
    const int dim = program.values[id].shape.Find(rows.dimension);
    if (dim >= 0) return dim;
  }
  // Both have the rows of several ranks in its place.
  const Shape& shape = program.values[instruction.results[0]].shape;
  for (int i = 0; i < std::min(shape.rank(), operand.shape.rank()); ++i) {
    if (!(shape[i] == operand.shape[i])) return i;
  }
  const auto& dims = operand.layout.dims;
  const auto found = std::find(dims.begin(), dims.end(), rows.axes);
  return found == dims.end() ? -1 : static_cast<int>(found - dims.begin());
}

std::vector<RowMove> RowMovesOf(const Program& program,
                                const Instruction& instruction, int64_t rank) {
  const auto& attributes = instruction.Get<RowsAttributes>();
  const bool adds = attributes.adds;
  const RowPlan plan(RowTransferOf(program.grains, attributes));
  const int64_t me = program.mesh.Coordinate(rank, attributes.axes);
  std::vector<RowMove> moves;
  // The runs of the message that this rank sends or receives in a round. What
  // a rank needs of another one goes from the holder to it, or with `adds` from
  // it to the holder.
  const auto runs_of = [&](const RowPlan::Round& round, bool needs) {
    const int64_t other = needs ? round.senders[me] : round.receivers[me];
    if (other < 0) return std::vector<RowRun>();
    return needs ? plan.Runs(me, other) : plan.Runs(other, me);
  };
  if (instruction.opcode == Opcode::kTakeRows) {
    AddTakenMoves(runs_of(plan.rounds()[attributes.round], adds), adds, moves);
    return moves;
  }
  AddOwnMoves(plan.Runs(me, me), adds, moves);
  int operand = adds ? 1 : static_cast<int>(attributes.sizes.size());
  for (const RowPlan::Round& round : plan.rounds()) {
    AddReceivedMoves(runs_of(round, !adds), adds, operand++, moves);
  }
  return moves;
}

}  // namespace mtf
