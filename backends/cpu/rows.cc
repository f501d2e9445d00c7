// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/rows.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cpu/block_memory.h"
#include "backends/cpu/strided_copy.h"
#include "backends/cpu/threads.h"
#include "lowering/program/row_moves.h"
#include "mtf/host_tensor.h"

namespace mtf::cpu {
namespace {

// Bytes that are worth a thread.
constexpr int64_t kRowGrainBytes = 64 << 10;

// Dense memory relative to one dimension: `outer` blocks of `rows` rows of
// `inner` elements.
struct RowView {
  std::byte* data;
  int64_t outer = 1, rows = 1, inner = 1;
  RowView(const BoundValue& value, int dim)
      : data(static_cast<std::byte*>(value.data)) {
    for (int i = 0; i < static_cast<int>(value.dims.size()); ++i) {
      int64_t& count = i < dim ? outer : i == dim ? rows : inner;
      count *= value.dims[i].extent;
    }
  }
};

// Copies rows, and fills those that no move ends at.
class CopyRowsKernel : public Kernel {
 public:
  CopyRowsKernel(const Binding& binding, int dim, std::vector<RowMove> moves)
      : to_(binding.results[0], dim),
        size_(DTypeSize(binding.results[0].dtype())) {
    for (const BoundValue& operand : binding.operands) {
      from_.emplace_back(operand, dim);
    }
    const auto& rows = binding.instruction().Get<RowsAttributes>();
    StoreElement(fill_.data(), binding.results[0].dtype(), 0, rows.fill);
    std::sort(moves.begin(), moves.end(),
              [](const RowMove& a, const RowMove& b) { return a.to < b.to; });
    // What a message does not have is never read.
    const int64_t valid =
        rows.round < 0 ? binding.results[0].dims[dim].valid : 0;
    int64_t at = 0;
    const auto fill_to = [&](int64_t end, int operand) {
      if (at < end) AddSegment({operand, 0, at, end - at});
      at = std::max(at, end);
    };
    for (const RowMove& move : moves) {
      fill_to(std::min(move.to, valid), kFill);
      fill_to(move.to, kZero);
      AddSegment(move);
      at = move.to + move.count;
    }
    fill_to(valid, kFill);
    fill_to(to_.rows, kZero);
  }

  void Run(StepContext&) override {
    const auto segments = static_cast<int64_t>(segments_.size());
    const int64_t bytes = to_.outer * to_.rows * to_.inner * size_;
    if (bytes == 0) return;
    const int64_t tasks = to_.outer * segments;
    const int64_t grain = kRowGrainBytes * tasks / bytes + 1;
    ParallelFor(tasks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        RunSegment(task / segments, segments_[task % segments]);
      }
    });
  }

 private:
  static constexpr int kFill = -1, kZero = -2;  // instead of an operand

  // In parts that several threads can copy.
  void AddSegment(RowMove move) {
    const int64_t row_bytes = to_.inner * size_;
    const int64_t most =
        std::max<int64_t>(1, kRowGrainBytes / std::max<int64_t>(row_bytes, 1));
    while (move.count > 0) {
      RowMove part = move;
      part.count = std::min(most, move.count);
      segments_.push_back(part);
      move.from += part.count;
      move.to += part.count;
      move.count -= part.count;
    }
  }

  void RunSegment(int64_t outer, const RowMove& move) const {
    const int64_t row_bytes = to_.inner * size_;
    std::byte* to = to_.data + (outer * to_.rows + move.to) * row_bytes;
    const int64_t bytes = move.count * row_bytes;
    if (move.operand >= 0) {
      const RowView& from = from_[move.operand];
      std::memcpy(to, from.data + (outer * from.rows + move.from) * row_bytes,
                  bytes);
    } else if (move.operand == kZero || fill_ == Element{}) {
      std::memset(to, 0, bytes);
    } else {
      for (int64_t i = 0; i < bytes; i += size_) {
        std::memcpy(to + i, fill_.data(), size_);
      }
    }
  }

  using Element = std::array<std::byte, 8>;
  const RowView to_;
  const int64_t size_;
  std::vector<RowView> from_;
  Element fill_{};
  std::vector<RowMove> segments_;
};

// Elements [begin, begin + count) of a row, added up by `visit`, which calls
// its argument as add(data, offset, stride) for each row to add: element i is
// at offset + i * stride. Sums of 16-bit floats are taken in f32.
template <class T, class Read, class Write, class Visit>
void AddUp(DType dtype, int64_t inner, void* to, int64_t offset,
           const Read& read, const Write& write, const Visit& visit) {
  constexpr int64_t kBuffer = 256;
  T sums[kBuffer], buffer[kBuffer];
  for (int64_t begin = 0; begin < inner; begin += kBuffer) {
    const int64_t count = std::min(kBuffer, inner - begin);
    std::fill(sums, sums + count, T{0});
    visit([&](const void* data, int64_t first, int64_t stride) {
      read(dtype, data, first + begin * stride, stride, count, buffer);
      for (int64_t i = 0; i < count; ++i) {
        if constexpr (std::is_same_v<T, int64_t>) {
          sums[i] = static_cast<int64_t>(static_cast<uint64_t>(sums[i]) +
                                         static_cast<uint64_t>(buffer[i]));
        } else {
          sums[i] += buffer[i];
        }
      }
    });
    write(dtype, sums, count, to, offset + begin, 1);
  }
}

template <class Visit>
void AddUpRow(DType dtype, int64_t inner, void* to, int64_t offset,
              const Visit& visit) {
  if (IsFloat(dtype)) {
    AddUp<float>(dtype, inner, to, offset, ReadFloats, WriteFloats, visit);
  } else {
    AddUp<int64_t>(dtype, inner, to, offset, ReadInts, WriteInts, visit);
  }
}

// Calls body(outer, row) for all rows of `view`.
template <class Body>
void ForEachRow(const RowView& view, int64_t element_size, const Body& body) {
  const int64_t bytes = std::max<int64_t>(view.inner * element_size, 1);
  ParallelFor(view.outer * view.rows, kRowGrainBytes / bytes + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  body(row / view.rows, row % view.rows);
                }
              });
}

class AddRowsKernel : public Kernel {
 public:
  AddRowsKernel(const Binding& binding, int dim, std::vector<RowMove> moves)
      : dtype_(binding.results[0].dtype()),
        to_(binding.results[0], dim),
        moves_(std::move(moves)) {
    for (const BoundValue& operand : binding.operands) {
      from_.emplace_back(operand, dim);
    }
  }

  void Run(StepContext&) override {
    ForEachRow(to_, DTypeSize(dtype_), [&](int64_t outer, int64_t row) {
      AddUpRow(dtype_, to_.inner, to_.data,
               (outer * to_.rows + row) * to_.inner, [&](const auto& add) {
                 for (const RowMove& move : moves_) {
                   const int64_t at = row - move.to;
                   if (at < 0 || at >= move.count) continue;
                   const RowView& from = from_[move.operand];
                   add(from.data,
                       (outer * from.rows + move.from + at) * to_.inner, 1);
                 }
               });
    });
  }

 private:
  const DType dtype_;
  const RowView to_;
  std::vector<RowView> from_;
  const std::vector<RowMove> moves_;
};

class FoldKernel : public Kernel {
 public:
  explicit FoldKernel(const Binding& binding)
      : windows_(binding.instruction().Get<WindowAttributes>()),
        dtype_(binding.results[0].dtype()),
        dim_(binding.results[0].value->shape.Find(windows_.line)),
        from_(binding.operands[0], dim_),
        to_(binding.results[0], dim_),
        valid_(binding.results[0].dims[dim_].valid),
        windows_here_(binding.operands[0].dims[dim_].valid),
        window_(binding.operands[0].dims.back()) {}

  void Run(StepContext&) override {
    ForEachRow(to_, DTypeSize(dtype_), [&](int64_t outer, int64_t row) {
      AddUpRow(dtype_, to_.inner, to_.data,
               (outer * to_.rows + row) * to_.inner, [&](const auto& add) {
                 if (row >= valid_) return;
                 for (int64_t w = 0; w < window_.valid; ++w) {
                   const int64_t first = row - w * windows_.dilation;
                   if (first < 0) break;
                   const int64_t i = first / windows_.stride;
                   if (first % windows_.stride != 0 || i >= windows_here_) {
                     continue;
                   }
                   add(from_.data, (outer * from_.rows + i) * from_.inner + w,
                       window_.extent);
                 }
               });
    });
  }

 private:
  const WindowAttributes windows_;
  const DType dtype_;
  const int dim_;
  const RowView from_, to_;
  const int64_t valid_;         // rows of the result
  const int64_t windows_here_;  // of this rank
  const ShardedDimension window_;
};

class WindowsKernel : public Kernel {
 public:
  explicit WindowsKernel(const Binding& binding)
      : from_(binding.operands[0].data),
        to_(binding.results[0].data),
        copy_(CopyOf(binding)) {
    const BoundValue& result = binding.results[0];
    const int dim = result.value->shape.Find(
        binding.instruction().Get<WindowAttributes>().dimension);
    const auto is_padded = [&](const ShardedDimension& each) {
      return each.valid != each.extent;
    };
    if (is_padded(result.dims[dim]) || is_padded(result.dims.back())) {
      cleared_bytes_ = result.elements() * DTypeSize(result.dtype());
    }
  }

  void Run(StepContext&) override {
    if (cleared_bytes_ > 0) std::memset(to_, 0, cleared_bytes_);
    copy_.Run(from_, to_);
  }

 private:
  // Element [..., i, ..., w] comes from i * stride + w * dilation.
  static StridedCopy CopyOf(const Binding& binding) {
    const auto& windows = binding.instruction().Get<WindowAttributes>();
    const BoundValue &line = binding.operands[0], &result = binding.results[0];
    const int dim = result.value->shape.Find(windows.dimension);
    const int last = result.value->shape.rank() - 1;
    std::vector<StridedCopy::Loop> loops;
    for (int i = 0; i < last; ++i) {
      const ShardedDimension& each = result.dims[i];
      loops.push_back(
          {i == dim ? each.valid : each.extent,
           i == dim ? line.stride(i) * windows.stride : line.stride(i),
           result.stride(i)});
    }
    loops.push_back(
        {result.dims[last].valid, line.stride(dim) * windows.dilation, 1});
    return StridedCopy(static_cast<int>(DTypeSize(result.dtype())),
                       std::move(loops));
  }

  const void* from_;
  void* to_;
  int64_t cleared_bytes_ = 0;
  StridedCopy copy_;
};

}  // namespace

std::unique_ptr<Kernel> PrepareRows(const Binding& binding) {
  std::vector<RowMove> moves =
      RowMovesOf(*binding.program, binding.instruction(), binding.rank);
  const int dim = RowDimOf(*binding.program, binding.instruction());
  const auto& rows = binding.instruction().Get<RowsAttributes>();
  if (rows.adds && rows.round < 0) {
    return std::make_unique<AddRowsKernel>(binding, dim, std::move(moves));
  }
  return std::make_unique<CopyRowsKernel>(binding, dim, std::move(moves));
}

std::unique_ptr<Kernel> PrepareWindows(const Binding& binding) {
  return std::make_unique<WindowsKernel>(binding);
}

std::unique_ptr<Kernel> PrepareFoldWindows(const Binding& binding) {
  return std::make_unique<FoldKernel>(binding);
}

}  // namespace mtf::cpu
