// SPDX-License-Identifier: Apache-2.0
#include "backends/reference/device_kernels.h"
#include "mtf/sliced_rows.h"

namespace mtf::reference {
namespace {

// Where the rows of a dynamic_slice or update_slice are in this rank's shard of
// the value.
class RowFinder {
 public:
  RowFinder(const BoundValue& value, const BoundValue& rows,
            const BoundValue& index, const std::string& dimension)
      : value_(value),
        rows_(rows),
        index_frame_(index),
        index_(index),
        along_(FindDim(value, dimension)),
        dim_(FindRowsDimension(value.value->shape, rows.value->shape,
                               dimension)) {}

  const Frame& rows() const { return rows_; }

  // The offset in the value of the element `at` of the rows, or -1 if this rank
  // does not hold it or `at` is padding of the rows or of the index.
  int64_t OffsetOf(const Coordinates& at) const {
    if (dim_ >= 0 && at[dim_] >= rows_.dims[dim_].valid) return -1;
    const Coordinates index_at = index_frame_.From(rows_, at);
    if (!index_frame_.IsValid(index_at)) return -1;
    const auto first =
        static_cast<int64_t>(Load(index_, index_frame_.Offset(index_at)));
    const int64_t row =
        first + (dim_ < 0 ? 0 : at[dim_]) - value_.dims[along_].offset;
    if (row < 0 || row >= value_.dims[along_].valid) return -1;
    Coordinates there = value_.From(rows_, at);
    there[along_] = row;
    return value_.Offset(there);
  }

 private:
  Frame value_, rows_, index_frame_;
  BoundValue index_;
  int along_;  // the dimension of the rows in the value
  int dim_;    // and in the rows, or -1
};

}  // namespace

Body MakeCheckIndex(const Binding& binding) {
  const BoundValue index = binding.operands[0], result = binding.results[0];
  const int64_t limit =
      binding.instruction().Get<CheckIndexAttributes>().limit();
  const int64_t instruction = binding.index;
  return [=](StepContext& context) {
    const Frame frame(index);
    ForEach(frame.Extents(), [&](const Coordinates& at) {
      Number checked = 0;
      if (frame.IsValid(at)) {
        const Number given = Load(index, frame.Offset(at));
        if (given >= 0 && given < limit) {
          checked = given;
        } else {
          context.Report(instruction, frame.GlobalIndex(at),
                         static_cast<int64_t>(given));
        }
      }
      Store(result, frame.Offset(at), checked);
    });
  };
}

Body MakeDynamicSlice(const Binding& binding) {
  const BoundValue value = binding.operands[0], result = binding.results[0];
  const RowFinder finder(value, result, binding.operands[1],
                         DimensionOf(binding.instruction()));
  return [=](StepContext&) {
    ForEach(finder.rows().Extents(), [&](const Coordinates& at) {
      const int64_t from = finder.OffsetOf(at);
      Store(result, finder.rows().Offset(at), from < 0 ? 0 : Load(value, from));
    });
  };
}

Body MakeUpdateSlice(const Binding& binding) {
  const BoundValue value = binding.operands[0], update = binding.operands[1],
                   result = binding.results[0];
  const RowFinder finder(value, update, binding.operands[2],
                         DimensionOf(binding.instruction()));
  return [=](StepContext&) {
    if (value.data != result.data) {
      for (int64_t i = 0; i < result.elements(); ++i) {
        Store(result, i, Load(value, i));
      }
    }
    ForEach(finder.rows().Extents(), [&](const Coordinates& at) {
      const int64_t to = finder.OffsetOf(at);
      if (to >= 0) Store(result, to, Load(update, finder.rows().Offset(at)));
    });
  };
}

}  // namespace mtf::reference
