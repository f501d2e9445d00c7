// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_MAP_H_
#define BACKENDS_CPU_MAP_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cpu/block_program.h"
#include "mtf/map_expression.h"

namespace mtf::cpu {

// A map that computes a block of consecutive elements at a time.
class BlockMap {
 public:
  static constexpr int64_t kBlock = BlockProgram::kBlock;

  BlockMap(const MapExpression& expression,
           absl::Span<const BoundValue> operands, const BoundValue& result);

  int64_t elements() const { return program_.elements(); }
  // Adds what a block reads and writes, and its steps.
  void AddTo(BlockPrefetch& prefetch) const;

  // The state of one thread in one run. The constructor reads operands of one
  // element.
  class Runner {
   public:
    explicit Runner(const BlockMap& map, BlockPrefetch* prefetch = nullptr)
        : evaluator_(map.program_, prefetch), result_(map.result_) {}
    // Writes elements [begin, begin + count), at most kBlock.
    void Run(int64_t begin, int64_t count) {
      evaluator_.Store(begin, count, result_);
    }

   private:
    BlockProgram::Evaluator evaluator_;
    void* result_;
  };

 private:
  BlockProgram program_;
  void* result_;
};

// Whether a map only moves the elements of its operand, or copies them.
bool IsTranspose(const MapExpression& expression,
                 absl::Span<const BoundValue> operands,
                 const BoundValue& result);

// Prepares an elementwise function of operands, which are broadcast by name to
// the result. The result may share memory with an operand that has the same
// dimensions in the same order and a dtype of the same size.
std::unique_ptr<Kernel> PrepareMap(const MapExpression& expression,
                                   absl::Span<const BoundValue> operands,
                                   const BoundValue& result);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_MAP_H_
