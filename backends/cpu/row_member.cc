// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/row_member.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/reduce_registers.h"
#include "backends/cpu/row_sums.h"
#include "backends/cpu/vector_functions.h"
#include "backends/index_space.h"

namespace mtf::cpu {
namespace {

// Whether a reduction gives one number per row: then its result has the
// outermost dimension of what it reduces.
bool ReducesColumns(const Binding& reduce) {
  const Shape& result = reduce.results[0].value->shape;
  return result[0].name ==
         reduce.instruction().Get<ReduceAttributes>().iteration[0].name;
}

std::vector<SpaceDimension> SpaceOfMember(const Binding& member) {
  return member.instruction().Find<ReduceAttributes>() != nullptr
             ? IterationOf(member)
             : SpaceOf(member.results[0]);
}

}  // namespace

RowSpace RowSpace::Of(absl::Span<const Binding> members) {
  // The first reduction of each row; without one, the first sum over rows.
  const Binding* first = nullptr;
  for (const Binding& member : members) {
    if (member.instruction().Find<ReduceAttributes>() == nullptr) continue;
    if (first == nullptr) first = &member;
    if (!ReducesColumns(member)) continue;
    first = &member;
    break;
  }
  RowSpace space;
  if (first == nullptr) return space;
  const Shape& iteration =
      first->instruction().Get<ReduceAttributes>().iteration;
  const int rank = iteration.rank();
  const int kept = first->results[0].value->shape.rank();
  const int rows = ReducesColumns(*first) ? kept : rank - kept;
  for (int i = 0; i < rank; ++i) {
    (i < rows ? space.rows : space.columns) *= first->iteration[i].extent;
  }
  space.row = iteration[0].name;
  space.column = iteration[rank - 1].name;
  return space;
}

RowMember::RowMember(const Binding& binding,
                     absl::Span<const BoundValue> operands,
                     const RowSpace& space)
    : columns_(space.columns),
      dtype_(binding.results[0].dtype()),
      result_(binding.results[0].data),
      program_(ExpressionOf(binding.instruction()), operands,
               SpaceOfMember(binding),
               binding.instruction().opcode == Opcode::kReduce) {
  if (const auto* reduce = binding.instruction().Find<ReduceAttributes>()) {
    const bool sums_rows = !ReducesColumns(binding);
    kind_ = sums_rows ? Kind::kRowSum : Kind::kReduce;
    reduce_ = reduce->kind;
    row_elements_ = sums_rows ? 0 : 1;
    is_wide_ = true;
    if (sums_rows) factors_ = program_.FactorsInPlace();
    return;
  }
  const Shape& shape = binding.results[0].value->shape;
  const bool has_columns = shape.Contains(space.column);
  const bool has_rows = shape.Contains(space.row);
  kind_ = has_rows ? Kind::kMap : Kind::kColumnMap;
  row_elements_ = has_columns ? columns_ : 1;
  is_wide_ = has_columns && has_rows;
  if (is_wide_) difference_ = program_.DifferenceFromRow(columns_);
}

void RowMember::AddTo(BlockPrefetch& prefetch, int64_t blocks) const {
  if (!is_wide_) return;
  program_.AddTo(prefetch, blocks);
  if (kind_ == Kind::kMap && result_ != nullptr) {
    prefetch.AddTensor(result_, DTypeSize(dtype_));
  }
}

void RowMember::Runner::Run(int64_t first, int64_t rows) {
  if (member_.kind_ == Kind::kRowSum) return AddRows(first, rows);
  if (member_.kind_ == Kind::kReduce) {
    return member_.program_.is_float() ? Reduce<FloatRegisters>(first, rows)
                                       : Reduce<IntRegisters>(first, rows);
  }
  const int64_t end = (first + rows) * member_.row_elements_;
  for (int64_t at = first * member_.row_elements_; at < end; at += kRowBlock) {
    evaluator_.Store(at, std::min(kRowBlock, end - at), result_);
  }
}

// Reduces each row in blocks, in the order of columns.
template <class Registers>
void RowMember::Runner::Reduce(int64_t first, int64_t rows) {
  const ReduceKind kind = member_.reduce_;
  const int64_t columns = member_.columns_;
  typename Registers::Sum sums[kRowBlock];
  std::fill(sums, sums + rows, Registers::IdentityOf(kind, member_.dtype_));
  const int64_t rows_at_once = std::max<int64_t>(1, kRowBlock / columns);
  for (int64_t row = 0; row < rows; row += rows_at_once) {
    const int64_t count = std::min(rows_at_once, rows - row);
    const int64_t end = (first + row + count) * columns;
    for (int64_t at = (first + row) * columns; at < end; at += kRowBlock) {
      const int64_t elements = std::min(kRowBlock, end - at);
      const auto* x = Registers::Evaluate(evaluator_, at, elements);
      const int64_t width = std::min(columns, elements);
      for (int64_t i = 0; i < count; ++i) {
        sums[row + i] = Combine(kind, sums[row + i],
                                Registers::Reduce(kind, x + i * width, width));
      }
    }
  }
  Registers::Store(member_.dtype_, sums, rows, result_, first, 1);
}

// Adds rows of elements from `begin` on.
void RowMember::Runner::AddBlockOfRows(int64_t begin, int64_t rows,
                                       int64_t columns, float* sums) {
  if (member_.factors_.has_value()) {
    const auto [x, y] = *member_.factors_;
    const float* const left = evaluator_.OperandAt(x, begin);
    const float* const right = evaluator_.OperandAt(y, begin);
    evaluator_.SkipBlock();
    return AddRowsOfProducts(left, right, rows, columns, sums);
  }
  AddRowsOfFloats(evaluator_.Floats(begin, rows * columns), rows, columns,
                  sums);
}

void RowMember::Runner::AddRows(int64_t first, int64_t rows) {
  const int64_t columns = member_.columns_;
  float* const sums = static_cast<float*>(result_);
  const int64_t rows_at_once = std::max<int64_t>(1, kRowBlock / columns);
  for (int64_t row = 0; row < rows; row += rows_at_once) {
    const int64_t count = std::min(rows_at_once, rows - row);
    const int64_t begin = (first + row) * columns;
    for (int64_t at = 0; at < count * columns; at += kRowBlock) {
      const int64_t elements = std::min(kRowBlock, count * columns - at);
      AddBlockOfRows(begin + at, count, std::min(columns, elements),
                     sums + (count == 1 ? at : 0));
    }
  }
}

}  // namespace mtf::cpu
