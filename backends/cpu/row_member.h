// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_ROW_MEMBER_H_
#define BACKENDS_CPU_ROW_MEMBER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cpu/block_prefetch.h"
#include "backends/cpu/block_program.h"

namespace mtf::cpu {

// The most rows, and elements, that members compute at a time.
inline constexpr int64_t kRowBlock = BlockProgram::kBlock;

// The rows and columns of a row group (lowering/passes/fuse_rows.h).
struct RowSpace {
  int64_t rows = 1, columns = 1;
  std::string row, column;  // one dimension of each

  // The space of the first reduction of rows among `members`.
  static RowSpace Of(absl::Span<const Binding> members);
};

// A member of a row group: a map or a reduction over some rows at a time.
class RowMember {
 public:
  enum class Kind {
    kMap,        // of all elements, or of a number for each row
    kColumnMap,  // the same for all rows
    kReduce,     // a number for each row
    kRowSum,     // a sum over the rows
  };

  // `operands` are those of the binding, some of them moved.
  RowMember(const Binding& binding, absl::Span<const BoundValue> operands,
            const RowSpace& space);

  Kind kind() const { return kind_; }
  // The elements of the result that belong to one row; 0 for a sum over rows.
  int64_t row_elements() const { return row_elements_; }
  DType dtype() const { return dtype_; }
  // The operands of a map that subtracts a row from each row.
  const std::optional<std::array<int, 2>>& difference() const {
    return difference_;
  }
  // Whether a sum over rows is one of operand 0, or of squares of an operand.
  bool sums_operand() const {
    return kind_ == Kind::kRowSum && program_.IsOperandInPlace();
  }
  bool sums_squares() const {
    return factors_.has_value() && (*factors_)[0] == (*factors_)[1];
  }
  // Of a sum of products of operand `i` and another: the other.
  std::optional<int> OtherFactor(int i) const {
    if (!factors_.has_value() || sums_squares()) return std::nullopt;
    return (*factors_)[(*factors_)[0] == i ? 1 : 0];
  }
  // Adds what the member reads and writes for each element, and the steps of
  // `blocks` blocks, if it works on all elements.
  void AddTo(BlockPrefetch& prefetch, int64_t blocks) const;

  // The state of one thread in one run.
  class Runner {
   public:
    Runner(const RowMember& member, BlockPrefetch* prefetch)
        : member_(member),
          evaluator_(member.program_, member.is_wide_ ? prefetch : nullptr),
          result_(member.result_) {}

    BlockProgram::Evaluator& evaluator() { return evaluator_; }
    // The result is at `data` from now on.
    void MoveResult(void* data) { result_ = data; }
    // Computes the results of rows [first, first + rows), at most kRowBlock. A
    // sum over rows adds them to the floats at its result.
    void Run(int64_t first, int64_t rows);

   private:
    template <class Registers>
    void Reduce(int64_t first, int64_t rows);
    void AddRows(int64_t first, int64_t rows);
    void AddBlockOfRows(int64_t begin, int64_t rows, int64_t columns,
                        float* sums);

    const RowMember& member_;
    BlockProgram::Evaluator evaluator_;
    void* result_;
  };

 private:
  Kind kind_ = Kind::kMap;
  ReduceKind reduce_ = ReduceKind::kSum;
  int64_t columns_ = 1, row_elements_ = 0;
  bool is_wide_ = false;  // computes something for each element
  DType dtype_ = kFloat32;
  void* result_ = nullptr;
  BlockProgram program_;
  // The operands whose products a sum over rows adds, if it reads them in
  // place.
  std::optional<std::array<int, 2>> factors_;
  std::optional<std::array<int, 2>> difference_;
};

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_ROW_MEMBER_H_
