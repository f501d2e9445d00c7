// SPDX-License-Identifier: Apache-2.0
#include "backends/reference/device_kernels.h"
#include "lowering/program/row_moves.h"

namespace mtf::reference {

// Of take_rows and place_rows. The operands and the result have their
// dimensions in one order.
Body MakeRows(const Binding& binding) {
  const std::vector<BoundValue> operands = binding.operands;
  const std::vector<Frame> frames(operands.begin(), operands.end());
  const BoundValue result = binding.results[0];
  const auto rows = binding.instruction().Get<RowsAttributes>();
  const std::vector<RowMove> moves =
      RowMovesOf(*binding.program, binding.instruction(), binding.rank);
  const int dim = RowDimOf(*binding.program, binding.instruction());
  return [=](StepContext&) {
    const Frame to(result);
    ForEach(to.Extents(), [&](const Coordinates& at) {
      const bool is_line = !rows.adds && rows.round < 0;
      Number x = is_line && at[dim] < to.dims[dim].valid ? rows.fill : 0;
      for (const RowMove& move : moves) {
        const int64_t row = at[dim] - move.to;
        if (row < 0 || row >= move.count) continue;
        Coordinates there = at;
        there[dim] = move.from + row;
        const Number y =
            Load(operands[move.operand], frames[move.operand].Offset(there));
        x = rows.adds ? Sum(result.dtype(), x, y) : y;
      }
      Store(result, to.Offset(at), x);
    });
  };
}

Body MakeWindows(const Binding& binding) {
  const BoundValue line = binding.operands[0], result = binding.results[0];
  const auto windows = binding.instruction().Get<WindowAttributes>();
  const int dim = FindDim(line, windows.line);
  return [=](StepContext&) {
    const Frame from(line), to(result);
    const int last = to.shape.rank() - 1;
    ForEach(to.Extents(), [&](const Coordinates& at) {
      Number x = 0;
      if (at[dim] < to.dims[dim].valid && at[last] < to.dims[last].valid) {
        Coordinates there(at.begin(), at.end() - 1);
        there[dim] = at[dim] * windows.stride + at[last] * windows.dilation;
        x = Load(line, from.Offset(there));
      }
      Store(result, to.Offset(at), x);
    });
  };
}

Body MakeFoldWindows(const Binding& binding) {
  const BoundValue in_windows = binding.operands[0],
                   result = binding.results[0];
  const auto windows = binding.instruction().Get<WindowAttributes>();
  const int dim = FindDim(result, windows.line);
  return [=](StepContext&) {
    const Frame from(in_windows), to(result);
    const int last = from.shape.rank() - 1;
    ForEach(to.Extents(), [&](const Coordinates& at) {
      Number x = 0;
      for (int64_t w = 0; w < from.dims[last].valid; ++w) {
        const int64_t first = at[dim] - w * windows.dilation;
        if (at[dim] >= to.dims[dim].valid) break;
        if (first < 0 || first % windows.stride != 0 ||
            first / windows.stride >= from.dims[dim].valid) {
          continue;
        }
        Coordinates there = at;
        there[dim] = first / windows.stride;
        there.push_back(w);
        x = Sum(result.dtype(), x, Load(in_windows, from.Offset(there)));
      }
      Store(result, to.Offset(at), x);
    });
  };
}

}  // namespace mtf::reference
