// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_BLOCK_PROGRAM_H_
#define BACKENDS_CPU_BLOCK_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cpu/block_prefetch.h"
#include "backends/cpu/function_chains.h"
#include "backends/cpu/vector_functions.h"
#include "backends/index_space.h"
#include "mtf/map_expression.h"

namespace mtf::cpu {

// A map expression compiled for evaluation in blocks: registers of kBlock
// elements that fit into the first-level cache, and one vector loop per step or
// chain of steps (function_chains.h).
// Elements are numbered in the row-major order of an index space. The
// dimensions of operands are matched by name, in any order; an operand is
// broadcast along dimensions that it lacks.
//
// Every step rounds to its dtype, so a fused map is bitwise equal to its maps.
class BlockProgram {
 public:
  static constexpr int64_t kBlock = 512;

  // If `rounds_result` is false, the caller rounds the result to dtype(), as
  // storing it does.
  BlockProgram(const MapExpression& expression,
               absl::Span<const BoundValue> operands,
               absl::Span<const SpaceDimension> space,
               bool rounds_result = true);

  int64_t elements() const { return elements_; }
  DType dtype() const { return dtypes_.back(); }
  // Whether the result is in float registers (every float dtype and bool).
  bool is_float() const { return !IsInteger(dtype()); }
  // The operands whose product is the result, if it is one of f32 operands that
  // are read in place.
  std::optional<std::array<int, 2>> FactorsInPlace() const;
  // Operands x and y if the result is x - y, x is an f32 operand that is read
  // in place, and y an f32 operand of `columns` elements, the same for all
  // rows.
  std::optional<std::array<int, 2>> DifferenceFromRow(int64_t columns) const;
  // Whether the result is operand 0, of f32 and read in place.
  bool IsOperandInPlace() const {
    return root_.back() == 0 && dtype() == kFloat32 && sources_[0].direct;
  }
  // Adds the operands that blocks read in memory order, and the steps of
  // `blocks` blocks.
  void AddTo(BlockPrefetch& prefetch, int64_t blocks = 1) const;

  // The registers of one thread in one run. The constructor reads operands that
  // are constant over the whole space. `prefetch`, if not null, takes a step
  // after each one of the expression.
  class Evaluator {
   public:
    explicit Evaluator(const BlockProgram& program,
                       BlockPrefetch* prefetch = nullptr);

    // Operand `i` is at `data` from now on.
    void MoveOperand(int i, const void* data) {
      operand_data_[i] = data;
      phases_[i] = -1;
    }
    // Element `begin` of an f32 operand.
    const float* OperandAt(int i, int64_t begin) const {
      return static_cast<const float*>(operand_data_[i]) + begin;
    }
    // Takes the steps of the prefetch for a block that the caller computes.
    void SkipBlock() {
      if (prefetch_ == nullptr) return;
      for (int64_t i = program_.prefetch_steps(); i > 0; --i) {
        prefetch_->Step();
      }
    }
    // Reads operands that are constant over the whole space again. Those that
    // have no memory yet are left out.
    void ReadConstants();

    // Evaluates elements [begin, begin + count), at most kBlock. The result,
    // rounded up to a multiple of kLanes, is readable until the next call. It
    // may be written to `out`, which if not null has room for it.
    const float* Floats(int64_t begin, int64_t count, float* out = nullptr);
    const int64_t* Ints(int64_t begin, int64_t count);
    // Evaluates elements and writes them to `result`, the memory of all
    // elements.
    void Store(int64_t begin, int64_t count, void* result);

   private:
    struct Free {
      void operator()(void* p) const;
    };
    const void* Run(int64_t begin, int64_t count, float* out);
    FloatArgument FloatOf(int value) const;
    IntArgument IntOf(int value) const;
    void Step(int value, int64_t count, void* to);
    void StepOfChain(int value, int64_t count, float* to);

    const BlockProgram& program_;
    BlockPrefetch* prefetch_;
    std::unique_ptr<std::byte, Free> memory_;
    std::vector<const void*> operand_data_;
    // By operand with a period: where in it its register begins; -1: unknown.
    std::vector<int64_t> phases_;
    // By value: its register, or the memory of an operand read in place.
    std::vector<void*> data_of_;
  };

 private:
  // The strides of an operand along the space: one loop per dimension,
  // outermost first, with neighbouring dimensions merged where possible.
  struct Loop {
    int64_t extent, stride;
  };
  struct Source {
    const void* data = nullptr;
    std::vector<Loop> loops;
    bool direct = false;  // contiguous floats, read in place
    // The elements after which those of the operand repeat, if blocks consist
    // of whole periods: its register is the same for many blocks. 0: none.
    int64_t period = 0;
  };
  // A register: a block, or kLanes equal elements for a uniform value.
  struct Register {
    bool is_float = true;
    bool uniform = false;
    int64_t offset = -1;  // bytes into the evaluator's memory
  };

  Source Locate(const BoundValue& operand,
                absl::Span<const SpaceDimension> space) const;
  void Resolve();
  void FindChains();
  void Allocate();
  // The roots that a step, or the chain that ends with it, reads.
  std::vector<int> ArgumentsOf(int value) const;
  // Reads from an operand at `from`.
  void Read(int value, const void* from, int64_t begin, int64_t count,
            void* to) const;
  void FillIota(int value, int64_t begin, int64_t count, void* to) const;
  int64_t prefetch_steps() const {
    return prefetches_ ? static_cast<int64_t>(order_.size()) : 0;
  }
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
  std::vector<Register> registers_;
  std::vector<int> order_;  // values computed for each block
  // Steps of which each is read by the next alone, evaluated in one loop.
  struct Chain {
    struct Link {
      ScalarFunction function;
      bool is_left;
      int other;  // root
    };
    int first = -1;  // root
    std::vector<Link> links;
  };
  std::vector<Chain> chains_;  // by value: the chain that ends with it
  // Whether there is a step other than chains of operands that are read where
  // they are. Hardware prefetchers follow such a loop by themselves.
  bool prefetches_ = true;
  std::vector<int> prologue_;  // uniform values, computed once
  int64_t memory_bytes_ = 0;
};

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_BLOCK_PROGRAM_H_
