// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_INSTRUCTION_H_
#define LOWERING_PROGRAM_INSTRUCTION_H_

#include <string>
#include <utility>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "lowering/program/attributes.h"
#include "lowering/program/opcodes.h"
#include "mtf/check.h"

namespace mtf {

// Why a layout uses a mesh axis: the dimension and the rule that shards it.
struct Cause {
  int axis = -1;          // of the mesh
  std::string dimension;  // that the rule shards
  int rule = -1;          // index in Program::rules, or -1
};

// One instruction of a program: an opcode, the attributes that belong to it,
// and values as indices into Program::values.
//
//   Instruction slice(Opcode::kSlice, SliceAttributes{"length", 4});
//   slice.operands = {x};
//   slice.results = {y};
//   if (slice.Get<SliceAttributes>().begin == 0) ...
struct Instruction {
  // A map without an expression.
  Instruction() = default;
  // With default attributes.
  explicit Instruction(Opcode opcode);
  // `attributes` is the struct that belongs to `opcode`.
  Instruction(Opcode opcode, InstructionAttributes attributes)
      : opcode(opcode), attributes(std::move(attributes)) {
    MTF_CHECK(HasItsAttributes()) << OpcodeName(opcode);
  }

  // The attributes, which must be a T.
  template <typename T>
  const T& Get() const {
    const T* found = Find<T>();
    MTF_CHECK(found != nullptr)
        << OpcodeName(opcode) << " does not have these attributes";
    return *found;
  }
  template <typename T>
  T& Get() {
    return const_cast<T&>(static_cast<const Instruction*>(this)->Get<T>());
  }
  // The attributes if they are a T, or null.
  template <typename T>
  const T* Find() const {
    return std::get_if<T>(&attributes);
  }
  template <typename T>
  T* Find() {
    return std::get_if<T>(&attributes);
  }
  // False only in a broken program: the attributes are of another opcode.
  bool HasItsAttributes() const {
    return attributes.index() == InfoOf(opcode).attributes;
  }

  Opcode opcode = Opcode::kMap;
  absl::InlinedVector<int, 4> operands;
  absl::InlinedVector<int, 1> results;
  InstructionAttributes attributes;

  int origin = -1;                       // index in Program::origins, or -1
  absl::InlinedVector<Cause, 1> causes;  // of a reshard or a collective
};

// Queries for code that treats several kinds of instructions alike. A query
// about an attribute that the instruction does not have fails a check.

// A collective that overlaps the instructions up to its wait.
bool IsAsynchronous(const Instruction& instruction);
// The dimension that a slice, pad, concat, take_rows, place_rows, windows,
// fold_windows, gather, scatter_add, check_index, dynamic_slice, update_slice,
// scan, reduce_blocks or top_k works along.
const std::string& DimensionOf(const Instruction& instruction);
// A map or a reduce.
bool HasExpression(const Instruction& instruction);
// What a map or a reduce computes for each element.
const MapExpression& ExpressionOf(const Instruction& instruction);
MapExpression& ExpressionOf(Instruction& instruction);
// How a reduce, scan, reduce_blocks, all_reduce or reduce_scatter combines
// elements.
ReduceKind ReductionOf(const Instruction& instruction);
// What a pad, a place_rows or a mask writes.
double FillOf(const Instruction& instruction);

// A map that only casts: one step.
bool IsCast(const Instruction& instruction);
// To the user the result is the same tensor as the only operand: moved, in
// another layout, with its padding filled or in another dtype.
bool PreservesValue(const Instruction& instruction);
// A map of one operand, or an instruction that only moves its elements (not a
// mask, which fills padding).
bool IsUnaryMapOrMove(const Instruction& instruction);
// Every device can produce any shard of the result without communication, so
// the layout of the result may be changed: an input, a constant, random
// numbers, or a map without operands.
bool CanProduceAnyShard(const Instruction& instruction);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_INSTRUCTION_H_
