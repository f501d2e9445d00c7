// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "absl/types/span.h"
#include "backends/reference/device_kernels.h"

namespace mtf::reference {
namespace {

// Copies all elements including padding.
Body CopyAll(const BoundValue& from, const BoundValue& to) {
  return [=](StepContext&) {
    for (int64_t i = 0; i < to.elements(); ++i) Store(to, i, Load(from, i));
  };
}

// What a rename preserves: size, extent and offset of every dimension that has
// more than one element.
std::vector<std::array<int64_t, 3>> Skeleton(const BoundValue& value) {
  std::vector<std::array<int64_t, 3>> skeleton;
  for (int i = 0; i < value.value->shape.rank(); ++i) {
    const int64_t size = value.value->shape[i].size;
    const ShardedDimension& dim = value.dims[i];
    if (size == 1 && dim.extent == 1) continue;
    skeleton.push_back({size, dim.extent, dim.offset});
  }
  return skeleton;
}

// Writes `before` elements of `fill`, then the concatenation of `values` along
// `dimension`, then `fill`. Only valid elements move along `dimension`.
Body Join(absl::Span<const BoundValue> values, const BoundValue& result,
          const std::string& dimension, int64_t before, double fill) {
  struct Input {
    BoundValue value;
    Frame frame;
    int dim;  // that of `dimension`
  };
  std::vector<Input> inputs;
  for (const BoundValue& value : values) {
    inputs.push_back({value, Frame(value), FindDim(value, dimension)});
  }
  const Frame frame(result);
  const int dim = FindDim(result, dimension);
  return [=](StepContext&) {
    ForEach(frame.Extents(), [&](const Coordinates& at) {
      Number x = 0;
      if (at[dim] < frame.dims[dim].valid) {
        x = fill;
        int64_t element = frame.dims[dim].offset + at[dim] - before;
        for (const auto& [value, from, d] : inputs) {
          const int64_t size = from.shape[d].size;
          if (element >= 0 && element < size) {
            Coordinates there = from.From(frame, at);
            there[d] = element - from.dims[d].offset;
            const bool here = there[d] >= 0 && there[d] < from.dims[d].valid;
            x = here ? Load(value, from.Offset(there)) : 0;
          }
          element -= size;
        }
      }
      Store(result, frame.Offset(at), x);
    });
  };
}

// Reads the valid indices of a gather or scatter_add. Returns the local row, or
// -1 if this rank does not hold it; reports indices outside the global
// dimension `rows`.
class IndexReader {
 public:
  IndexReader(const Binding& binding, const BoundValue& indices,
              const Dimension& rows, const ShardedDimension& shard)
      : instruction_(binding.index),
        indices_(indices),
        frame_(indices),
        rows_(rows),
        shard_(shard) {}

  int64_t RowAt(const Coordinates& at, StepContext& context) const {
    if (!frame_.IsValid(at)) return -1;
    const auto index = static_cast<int64_t>(Load(indices_, frame_.Offset(at)));
    if (index < 0 || index >= rows_.size) {
      context.Report(instruction_, frame_.GlobalIndex(at), index);
      return -1;
    }
    const int64_t row = index - shard_.offset;
    return row >= 0 && row < shard_.valid ? row : -1;
  }
  // Checks indices even if rows have no elements.
  void CheckAll(StepContext& context) const {
    ForEach(frame_.Extents(),
            [&](const Coordinates& at) { RowAt(at, context); });
  }
  const Frame& frame() const { return frame_; }

 private:
  int64_t instruction_;
  BoundValue indices_;
  Frame frame_;
  Dimension rows_;
  ShardedDimension shard_;
};

}  // namespace

Body MakeReshape(const Binding& binding) {
  const BoundValue x = binding.operands[0], result = binding.results[0];
  if (Skeleton(x) == Skeleton(result)) {
    return CopyAll(x, result);
  }
  return [=](StepContext&) {
    const Frame from(x), to(result);
    ForEach(to.Extents(), [&](const Coordinates& at) {
      Number value = 0;
      if (to.IsValid(at)) {
        int64_t index = to.GlobalIndex(at);
        Coordinates there(from.dims.size());
        bool here = true;
        for (int i = from.shape.rank() - 1; i >= 0; --i) {
          there[i] = index % from.shape[i].size - from.dims[i].offset;
          index /= from.shape[i].size;
          here = here && there[i] >= 0;
        }
        if (here && from.IsValid(there)) value = Load(x, from.Offset(there));
      }
      Store(result, to.Offset(at), value);
    });
  };
}

Body MakeSlice(const Binding& binding) {
  const auto& slice = binding.instruction().Get<SliceAttributes>();
  return Join(binding.operands, binding.results[0], slice.dimension,
              -slice.begin, 0);
}

Body MakePad(const Binding& binding) {
  const auto& pad = binding.instruction().Get<PadAttributes>();
  return Join(binding.operands, binding.results[0], pad.dimension, pad.before,
              pad.fill);
}

Body MakeConcat(const Binding& binding) {
  return Join(binding.operands, binding.results[0],
              DimensionOf(binding.instruction()), 0, 0);
}

Body MakeGather(const Binding& binding) {
  const BoundValue table = binding.operands[0], result = binding.results[0];
  const int dim = FindDim(table, DimensionOf(binding.instruction()));
  const IndexReader indices(binding, binding.operands[1],
                            table.value->shape[dim], table.dims[dim]);
  return [=](StepContext& context) {
    const Frame from(table), to(result);
    if (result.elements() == 0) indices.CheckAll(context);
    ForEach(to.Extents(), [&](const Coordinates& at) {
      const int64_t row = indices.RowAt(indices.frame().From(to, at), context);
      Coordinates there = from.From(to, at);
      there[dim] = row;
      Store(result, to.Offset(at),
            row < 0 ? 0 : Load(table, from.Offset(there)));
    });
  };
}

Body MakeScatterAdd(const Binding& binding) {
  const BoundValue updates = binding.operands[0], result = binding.results[0];
  const int dim = FindDim(result, DimensionOf(binding.instruction()));
  const IndexReader indices(binding, binding.operands[1],
                            result.value->shape[dim], result.dims[dim]);
  return [=](StepContext& context) {
    const Frame from(updates), to(result);
    std::vector<Number> sums(result.elements(), 0);
    if (updates.elements() == 0) indices.CheckAll(context);
    ForEach(from.Extents(), [&](const Coordinates& at) {
      const int64_t row =
          indices.RowAt(indices.frame().From(from, at), context);
      if (row < 0) return;
      Coordinates there = to.From(from, at);
      there[dim] = row;
      Number& sum = sums[to.Offset(there)];
      sum = Sum(result.dtype(), sum, Load(updates, from.Offset(at)));
    });
    for (size_t i = 0; i < sums.size(); ++i) {
      Store(result, static_cast<int64_t>(i), sums[i]);
    }
  };
}

Body MakeMask(const Binding& binding) {
  const BoundValue x = binding.operands[0], result = binding.results[0];
  const auto mask = binding.instruction().Get<MaskAttributes>();
  return [=](StepContext&) {
    const Frame frame(result);
    ForEach(frame.Extents(), [&](const Coordinates& at) {
      bool keep = true;
      for (int dim : mask.dims) keep = keep && at[dim] < frame.dims[dim].valid;
      const int64_t offset = frame.Offset(at);
      Store(result, offset, keep ? Load(x, offset) : mask.fill);
    });
  };
}

Body MakeAllSlice(const Binding& binding) {
  const BoundValue x = binding.operands[0], result = binding.results[0];
  const auto& slice = binding.instruction().Get<CollectiveAttributes>();
  const int dim = slice.dim;
  const int64_t begin =
      binding.program->mesh.Coordinate(binding.rank, slice.axes) *
      result.dims[dim].extent;
  return [=](StepContext&) {
    const Frame from(x), to(result);
    ForEach(to.Extents(), [&](const Coordinates& at) {
      Coordinates there = at;
      there[dim] += begin;
      Store(result, to.Offset(at), Load(x, from.Offset(there)));
    });
  };
}

}  // namespace mtf::reference
