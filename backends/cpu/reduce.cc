// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/reduce.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/reduce_registers.h"
#include "backends/cpu/rounding.h"
#include "backends/cpu/row_sums.h"
#include "backends/cpu/threads.h"
#include "backends/index_space.h"

namespace mtf::cpu {
namespace {

constexpr int64_t kBlock = BlockProgram::kBlock;
// A long reduction is split into chunks for threads: at most kUnits for the
// kernel, each of at least kUnitElements elements.
constexpr int64_t kUnits = 64;
constexpr int64_t kUnitElements = 32768;

// Maps i to the offset in the result of the i-th element along some of its
// dimensions.
class ResultOffsets {
 public:
  void Add(int64_t extent, int64_t stride) {
    if (extent == 1) return;
    if (!loops_.empty() && loops_.back().second == stride * extent) {
      loops_.back() = {loops_.back().first * extent, stride};
    } else {
      loops_.push_back({extent, stride});
    }
  }
  int64_t operator()(int64_t i) const {
    int64_t offset = 0;
    for (auto loop = loops_.rbegin(); loop != loops_.rend(); ++loop) {
      offset += i % loop->first * loop->second;
      i /= loop->first;
    }
    return offset;
  }
  // The stride between neighbours, or 0 if it is not constant.
  int64_t stride() const {
    return loops_.empty() ? 1 : loops_.size() == 1 ? loops_[0].second : 0;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> loops_;  // extent, stride
};

// The index space in memory order, as kept outer dimensions, reduced dimensions
// and kept inner dimensions, so that both row-wise and column-wise reductions
// read memory sequentially.
struct ReduceOrder {
  std::vector<SpaceDimension> space;
  int64_t outer = 1, reduced = 1, inner = 1;
  ResultOffsets outer_offsets, inner_offsets;
};

ReduceOrder OrderSpace(absl::Span<const BoundValue> operands,
                       absl::Span<const SpaceDimension> space,
                       const BoundValue& result) {
  const Shape& kept = result.value->shape;
  const auto [sorted, first_inner] = OrderByMemory(operands, space, kept);
  ReduceOrder order;
  const auto keep = [&](const SpaceDimension& dim, int64_t* count,
                        ResultOffsets* offsets) {
    order.space.push_back(dim);
    const int i = kept.Find(dim.name);
    if (i < 0) return;  // a reduced dimension of size 1
    *count *= dim.extent;
    offsets->Add(dim.extent, result.stride(i));
  };
  for (size_t i = 0; i < first_inner; ++i) {
    if (kept.Contains(sorted[i].name)) {
      keep(sorted[i], &order.outer, &order.outer_offsets);
    }
  }
  for (size_t i = 0; i < first_inner; ++i) {
    if (kept.Contains(sorted[i].name)) continue;
    order.space.push_back(sorted[i]);
    order.reduced *= sorted[i].extent;
  }
  for (size_t i = first_inner; i < sorted.size(); ++i) {
    keep(sorted[i], &order.inner, &order.inner_offsets);
  }
  return order;
}

template <class Registers>
class ReduceKernel : public Kernel {
 public:
  using Register = typename Registers::Register;
  using Sum = typename Registers::Sum;

  ReduceKernel(ReduceKind kind, BlockProgram program, ReduceOrder order,
               const BoundValue& result)
      : kind_(kind),
        program_(std::move(program)),
        order_(std::move(order)),
        result_(result.data),
        dtype_(result.dtype()),
        identity_(Registers::IdentityOf(kind, result.dtype())) {
    tile_ = std::min(order_.inner, kBlock);
    tiles_ = tile_ == 0 ? 0 : CeilDivide(order_.inner, tile_);
    const int64_t results = order_.outer * tiles_;
    // A chunk is a multiple of a block, or of a group of rows.
    const int64_t step = order_.inner == 1 ? kBlock : kRowsInFloat;
    const int64_t max_chunks = order_.reduced * tile_ / kUnitElements;
    chunks_ =
        results == 0 ? 1 : std::min(CeilDivide(kUnits, results), max_chunks);
    chunks_ = std::max<int64_t>(chunks_, 1);
    chunk_size_ = CeilDivide(CeilDivide(order_.reduced, chunks_), step) * step;
    stripe_ = chunk_size_;
    if (order_.outer == 1 && order_.inner > 1) {
      stripe_ = StripeRows(order_.reduced);
      if (chunks_ > 1) chunk_size_ = stripe_;
    }
    chunks_ = chunk_size_ == 0 ? 1 : CeilDivide(order_.reduced, chunk_size_);
    if (chunks_ > 1) partial_.resize(chunks_ * order_.outer * order_.inner);
  }

  void Run(StepContext&) override {
    if (order_.outer == 0 || order_.inner == 0) return;
    if (order_.inner == 1 && 2 * order_.reduced <= kBlock) {
      RunShortRows();
    } else {
      RunChunks();
    }
  }

 private:
  // Evaluates several rows per block.
  void RunShortRows() {
    const int64_t reduced = order_.reduced;
    const int64_t rows = kBlock / std::max<int64_t>(reduced, 1);
    const int64_t grain = std::max<int64_t>(kUnitElements / kBlock, 1);
    ParallelFor(
        CeilDivide(order_.outer, rows), grain, [&](int64_t b, int64_t e) {
          BlockProgram::Evaluator evaluator(program_);
          Sum sums[kBlock];
          for (int64_t first = b * rows;
               first < std::min(e * rows, order_.outer); first += rows) {
            const int64_t count = std::min(rows, order_.outer - first);
            if (reduced == 0) {
              std::fill(sums, sums + count, identity_);
            } else {
              const Register* x = Registers::Evaluate(
                  evaluator, first * reduced, count * reduced);
              ReduceShortRows(x, count, sums);
            }
            StoreRows(sums, first, count);
          }
        });
  }

  // Reduces `count` contiguous rows.
  void ReduceShortRows(const Register* x, int64_t count, Sum* sums) const {
    switch (order_.reduced) {
      case 2:
        return ReduceFew<2>(x, count, sums);
      case 3:
        return ReduceFew<3>(x, count, sums);
      case 4:
        return ReduceFew<4>(x, count, sums);
      default:
        break;
    }
    for (int64_t i = 0; i < count; ++i) {
      sums[i] =
          Registers::Reduce(kind_, x + i * order_.reduced, order_.reduced);
    }
  }

  // Rows such as windows, of so few elements that a call for each would cost
  // more than the row. The instruction for an extreme ignores some NaN, and
  // infinities differ from themselves by NaN, so rows with any are rare and
  // reduced by a call.
  template <int kReduced>
  void ReduceFew(const Register* x, int64_t count, Sum* sums) const {
    const auto extremes = [&](auto combine) {
      for (int64_t i = 0; i < count; ++i) {
        Register extreme = x[i * kReduced], sum = extreme - extreme;
        for (int j = 1; j < kReduced; ++j) {
          const Register next = x[i * kReduced + j];
          extreme = combine(extreme, next);
          sum += next - next;
        }
        sums[i] = sum == 0
                      ? extreme
                      : Registers::Reduce(kind_, x + i * kReduced, kReduced);
      }
    };
    if (kind_ == ReduceKind::kMax) {
      return extremes([](Register a, Register b) { return b > a ? b : a; });
    }
    if (kind_ == ReduceKind::kMin) {
      return extremes([](Register a, Register b) { return b < a ? b : a; });
    }
    for (int64_t i = 0; i < count; ++i) {
      Sum sum = x[i * kReduced];
      for (int j = 1; j < kReduced; ++j) sum += x[i * kReduced + j];
      sums[i] = sum;
    }
  }

  // Stores results [first, first + count) if the inner extent is 1.
  void StoreRows(const Sum* sums, int64_t first, int64_t count) const {
    const int64_t stride = order_.outer_offsets.stride();
    if (stride != 0) {
      Registers::Store(dtype_, sums, count, result_, first * stride, stride);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      Registers::Store(dtype_, sums + i, 1, result_,
                       order_.outer_offsets(first + i), 1);
    }
  }

  // A unit of work is one chunk of the reduction of one tile of results.
  void RunChunks() {
    const int64_t units = order_.outer * tiles_ * chunks_;
    const int64_t elements = std::max<int64_t>(chunk_size_ * tile_, 1);
    const int64_t grain = CeilDivide(kUnitElements, elements);
    ParallelFor(units, grain, [&](int64_t begin, int64_t end) {
      BlockProgram::Evaluator evaluator(program_);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t chunk = unit % chunks_;
        const int64_t tile = unit / chunks_ % tiles_;
        const int64_t outer = unit / chunks_ / tiles_;
        const int64_t column = tile * tile_;
        const int64_t width = std::min(tile_, order_.inner - column);
        Sum sums[kBlock];
        std::fill(sums, sums + width, identity_);
        ReduceUnit(evaluator, outer, chunk, column, width, sums);
        if (chunks_ == 1) {
          StoreTile(sums, outer, column, width);
        } else {
          std::copy(sums, sums + width,
                    partial_.begin() +
                        (chunk * order_.outer + outer) * order_.inner + column);
        }
      }
    });
    if (chunks_ > 1) CombineChunks();
  }

  void ReduceUnit(BlockProgram::Evaluator& evaluator, int64_t outer,
                  int64_t chunk, int64_t column, int64_t width, Sum* sums) {
    const int64_t inner = order_.inner;
    const int64_t begin = chunk * chunk_size_;
    const int64_t end = std::min(begin + chunk_size_, order_.reduced);
    const int64_t base = outer * order_.reduced * inner + column;
    if (inner == 1) {
      for (int64_t r = begin; r < end; r += kBlock) {
        const int64_t count = std::min(kBlock, end - r);
        const Register* x = Registers::Evaluate(evaluator, base + r, count);
        sums[0] = Combine(kind_, sums[0], Registers::Reduce(kind_, x, count));
      }
      return;
    }
    for (int64_t r = begin; r < end; r += stripe_) {
      AddStripe(evaluator, base, r, std::min(r + stripe_, end), width, sums);
    }
  }

  // Reduces rows [begin, end) to `sums`.
  void AddStripe(BlockProgram::Evaluator& evaluator, int64_t base,
                 int64_t begin, int64_t end, int64_t width, Sum* sums) {
    const int64_t inner = order_.inner;
    // Full rows are contiguous only if the tile has the width of a row.
    const int64_t rows = width == inner ? kBlock / inner : 1;
    Sum stripe[kBlock];
    Register block[kBlock];
    std::fill(stripe, stripe + width, identity_);
    for (int64_t group = begin; group < end; group += kRowsInFloat) {
      const int64_t group_end = std::min(group + kRowsInFloat, end);
      std::fill(block, block + width, static_cast<Register>(identity_));
      for (int64_t r = group; r < group_end; r += rows) {
        const int64_t count = std::min(rows, group_end - r);
        const Register* x =
            Registers::Evaluate(evaluator, base + r * inner, count * width);
        for (int64_t i = 0; i < count; ++i) {
          Registers::Accumulate(kind_, x + i * width, block, width);
        }
      }
      for (int64_t i = 0; i < width; ++i) {
        stripe[i] = Combine(kind_, stripe[i], static_cast<Sum>(block[i]));
      }
    }
    for (int64_t i = 0; i < width; ++i) {
      sums[i] = Combine(kind_, sums[i], stripe[i]);
    }
  }

  void StoreTile(const Sum* sums, int64_t outer, int64_t column,
                 int64_t width) const {
    const int64_t base = order_.outer_offsets(outer);
    const int64_t stride = order_.inner_offsets.stride();
    if (stride != 0) {
      Registers::Store(dtype_, sums, width, result_, base + column * stride,
                       stride);
      return;
    }
    for (int64_t i = 0; i < width; ++i) {
      Registers::Store(dtype_, sums + i, 1, result_,
                       base + order_.inner_offsets(column + i), 1);
    }
  }

  void CombineChunks() {
    const int64_t results = order_.outer * order_.inner;
    ParallelFor(order_.outer * tiles_, kUnits, [&](int64_t b, int64_t e) {
      for (int64_t unit = b; unit < e; ++unit) {
        const int64_t outer = unit / tiles_;
        const int64_t column = unit % tiles_ * tile_;
        const int64_t width = std::min(tile_, order_.inner - column);
        const Sum* from = partial_.data() + outer * order_.inner + column;
        Sum sums[kBlock];
        std::copy(from, from + width, sums);
        for (int64_t chunk = 1; chunk < chunks_; ++chunk) {
          for (int64_t i = 0; i < width; ++i) {
            sums[i] = Combine(kind_, sums[i], from[chunk * results + i]);
          }
        }
        StoreTile(sums, outer, column, width);
      }
    });
  }

  ReduceKind kind_;
  BlockProgram program_;
  ReduceOrder order_;
  void* result_;
  DType dtype_;
  Sum identity_;
  int64_t tile_ = 1, tiles_ = 1;         // columns per tile, tiles per row
  int64_t chunk_size_ = 1, chunks_ = 1;  // reduced elements per chunk, chunks
  int64_t stripe_ = 1;  // rows that are added before they are added to others
  std::vector<Sum> partial_;  // [chunks, outer, inner]
};

}  // namespace

std::unique_ptr<Kernel> PrepareReduce(ReduceKind kind,
                                      const MapExpression& expression,
                                      absl::Span<const BoundValue> operands,
                                      absl::Span<const SpaceDimension> space,
                                      const BoundValue& result) {
  ReduceOrder order = OrderSpace(operands, space, result);
  BlockProgram program(expression, operands, order.space);
  if (program.is_float()) {
    return std::make_unique<ReduceKernel<FloatRegisters>>(
        kind, std::move(program), std::move(order), result);
  }
  return std::make_unique<ReduceKernel<IntRegisters>>(kind, std::move(program),
                                                      std::move(order), result);
}

}  // namespace mtf::cpu
