// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_BLOCK_PROGRAM_H_
#define BACKENDS_CPU_BLOCK_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cpu/vector_functions.h"
#include "mtf/map_expression.h"

namespace mtf::cpu {

// A dimension of the index space that a block program runs over.
struct SpaceDimension {
  std::string name;
  int64_t extent = 1;
  int64_t offset = 0;  // the global index of the first, for iota
};

// A map expression compiled for evaluation in blocks: registers of kBlock
// elements that stay in the first-level cache, a vector loop per step. Elements
// are numbered in the row-major order of an index space; operands meet it by
// name, in any order of their dimensions, and broadcast over what they lack.
//
// Steps round to their dtype, so a fused map gives the bits of its parts.
class BlockProgram {
 public:
  static constexpr int64_t kBlock = 512;

  // Where `rounds_result` is false the caller rounds to dtype(), which storing
  // does anyway.
  BlockProgram(const MapExpression& expression,
               absl::Span<const BoundValue> operands,
               absl::Span<const SpaceDimension> space,
               bool rounds_result = true);

  int64_t elements() const { return elements_; }
  DType dtype() const { return dtypes_.back(); }
  // Whether the result is in float registers (every float dtype and bool).
  bool is_float() const { return !IsInteger(dtype()); }

  // The registers of one thread in one run. Reads operands that are constant
  // over the whole space when it is made.
  class Evaluator {
   public:
    explicit Evaluator(const BlockProgram& program);

    // Evaluates elements [begin, begin + count), at most kBlock. The result is
    // readable up to a multiple of kLanes until the next call. `out`, where
    // given, has room for that and may become the place of the result.
    const float* Floats(int64_t begin, int64_t count, float* out = nullptr);
    const int64_t* Ints(int64_t begin, int64_t count);

   private:
    struct Free {
      void operator()(void* p) const;
    };
    const void* Run(int64_t begin, int64_t count, float* out);
    FloatArgument FloatOf(int value) const;
    IntArgument IntOf(int value) const;
    void Step(int value, int64_t count, void* to);

    const BlockProgram& program_;
    std::unique_ptr<std::byte, Free> memory_;
    std::vector<void*> where_;  // by value: its register, or memory read as is
  };

 private:
  // How an operand lies along the space: a loop per dimension that does not
  // fold into its neighbour, outermost first.
  struct Loop {
    int64_t extent, stride;
  };
  struct Source {
    const void* data = nullptr;
    std::vector<Loop> loops;
    bool direct = false;  // a float per element in order: read in place
  };
  // A register: a block, or kLanes equal elements for a uniform value.
  struct Place {
    bool is_float = true;
    bool uniform = false;
    int64_t offset = -1;  // bytes into the evaluator's memory
  };

  Source Locate(const BoundValue& operand,
                absl::Span<const SpaceDimension> space) const;
  void Resolve();
  void Allocate();
  void Read(int value, int64_t begin, int64_t count, void* to) const;
  void FillIota(int value, int64_t begin, int64_t count, void* to) const;
  int num_operands() const { return static_cast<int>(sources_.size()); }
  const MapStep& StepOf(int value) const {
    return expression_.steps[value - num_operands()];
  }

  MapExpression expression_;
  std::vector<Source> sources_;
  std::vector<SpaceDimension> space_;
  int64_t elements_ = 1;
  bool rounds_result_;
  // By value: operands first, then the results of steps.
  std::vector<DType> dtypes_;
  std::vector<int> root_;  // the value whose register it shares
  std::vector<Place> places_;
  std::vector<int> order_;     // values to make for each block
  std::vector<int> prologue_;  // uniform values, made once
  int64_t memory_bytes_ = 0;
};

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_BLOCK_PROGRAM_H_
