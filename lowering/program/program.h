// SPDX-License-Identifier: Apache-2.0
//
// The lowered program: one list of instructions that every rank runs, over
// values that know their global shape and their layout. Passes rewrite it,
// print_program and parse_program turn it into text and back, a backend runs
// it.
#ifndef LOWERING_PROGRAM_PROGRAM_H_
#define LOWERING_PROGRAM_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "layouts/reshard_path.h"
#include "layouts/tensor_layout.h"
#include "lowering/program/einsum_plan.h"
#include "mtf/emitter.h"
#include "mtf/graph.h"
#include "mtf/map_expression.h"
#include "mtf/status.h"

namespace mtf {

// What an instruction does. Operands and results are given by place; the
// attributes it uses are named in parentheses and stand in Instruction.
enum class Opcode : uint8_t {
  kInput,          // () -> value fed by name (symbol)
  kReadVariable,   // () -> value at the start of the step (symbol)
  kWriteVariable,  // (value) -> same value; state at the end of the step
                   // (symbol)
  kOutput,         // (value) -> nothing; fetched by the caller (symbol)
  kConstant,       // () -> row-major data of the global shape (data)
  kRandom,         // () -> Philox numbers (random_kind, stream, per_step)
  kMap,            // (values...) -> elementwise, broadcast by name (expression)
  kEinsum,         // (x, y) -> product summed over what the result lacks, in
                   // the dtype of both or in f32
  kReduce,         // (values...) -> reduced over what the result lacks, of
                   // expression(values...) over `iteration` (reduce_kind,
                   // expression, iteration, iteration_layout)
  kReshape,        // (value) -> same elements, other dimensions
  kSlice,          // (value) -> [begin, begin + size of the result) (dimension,
                   // begin)
  kPad,            // (value) -> `begin` elements of fill before (dimension,
                   // begin, fill); the rest behind, up to the result's size
  kConcat,         // (values...) -> joined (dimension)
  kGather,         // (table, indices) -> rows (dimension of the table; symbol
                   // is the user's name of the indices)
  kScatterAdd,     // (updates, indices) -> table of sums (dimension, symbol)
  kScan,           // (value[, starts]) -> reduced over the places up to each
                   // along a dimension, in blocks from what `starts` has for
                   // them (dimension, reduce_kind, exclusive, reverse)
  kReduceBlocks,   // (value) -> the blocks of a dimension each reduced to one
                   // place, 16-bit floats in f32 (dimension, reduce_kind)
  kTopK,           // (value[, labels]) -> the places, or the labels, of the
                   // greatest along a dimension, which the one that the value
                   // lacks numbers; of two results, values and places in each
                   // block of the dimension (dimension)
  kMask,           // (value) -> padding of mask_dims set to fill
  kReshard,        // (value) -> same value in the layout of the result
  kWait,           // (values...) -> nothing; the first results of collectives
                   // that run beside, which are done behind it
  kAllReduce,      // (values...) -> each reduced over axes (reduce_kind, axes)
  kAllGather,      // (value) -> dim whole over axes (dim, axes)
  kAllSlice,       // (value) -> dim cut over axes too (dim, axes)
  kReduceScatter,  // (values...) -> each reduced over axes, which then cut
                   // dim, of further operands ScatteredDim (reduce_kind, dim,
                   // axes)
  kAllToAll,       // (value) -> axes move from from_dim to dim
  kCollectivePermute,  // (value) -> shards trade places (axes)
};
absl::string_view OpcodeName(Opcode opcode);
// The kind of a collective; the opcode must be one (kAllReduce and behind).
CollectiveKind CollectiveOf(Opcode opcode);
Opcode OpcodeOf(CollectiveKind kind);
inline bool IsCollective(Opcode opcode) { return opcode >= Opcode::kAllReduce; }

// Why a mesh axis cuts something: the dimension and the rule.
struct Cause {
  int axis = -1;          // of the mesh
  std::string dimension;  // the dimension the rule cuts
  int rule = -1;          // place in Program::rules, or -1
};

// Who made an instruction: the user's operation.
struct Origin {
  std::string operation;  // "layer_0/einsum_1"
  CallSite site;
};

struct ProgramValue {
  std::string name;  // unique; "%" is only printed
  DType dtype = kFloat32;
  Shape shape;          // global, true sizes
  TensorLayout layout;  // one entry per dimension of `shape`
  // Per dimension, places in memory on every rank. Empty until shard_shapes.
  absl::InlinedVector<int64_t, 5> local;
  // Why the unreduced axes are unreduced.
  absl::InlinedVector<Cause, 1> causes;

  int64_t local_elements() const {
    int64_t n = 1;
    for (int64_t extent : local) n *= extent;
    return n;
  }
  int64_t local_bytes() const { return local_elements() * DTypeSize(dtype); }
};

struct Instruction {
  Opcode opcode = Opcode::kMap;
  absl::InlinedVector<int, 4> operands;  // places in Program::values
  absl::InlinedVector<int, 1> results;

  MapExpression expression;
  ReduceKind reduce_kind = ReduceKind::kSum;
  Shape iteration;
  TensorLayout iteration_layout;
  absl::InlinedVector<int64_t, 5> iteration_local;
  std::string dimension;
  int64_t begin = 0;
  bool exclusive = false;
  bool reverse = false;
  double fill = 0;
  std::vector<int> mask_dims;
  std::vector<double> data;
  std::string symbol;
  RandomKind random_kind = RandomKind::kUniform;
  uint32_t stream = 0;
  bool per_step = true;
  int dim = -1;
  int from_dim = -1;
  AxisList axes;
  // Of a collective: the instructions up to its wait may run beside it.
  bool asynchronous = false;
  // Filled in by plan_einsums; einsums of equal shapes share one.
  std::shared_ptr<const EinsumPlan> einsum;

  int origin = -1;                       // place in Program::origins
  absl::InlinedVector<Cause, 1> causes;  // of a reshard or a collective
};

// Buffers begin at multiples of this many bytes in the arena.
inline constexpr int64_t kArenaAlignment = 64;

// Where a value lives, decided by plan_buffers.
struct BufferPlan {
  enum class Storage : uint8_t {
    kNone,      // never in memory
    kArena,     // `offset` bytes into the arena of the step
    kVariable,  // the storage of variable `symbol`
  };
  struct Buffer {
    Storage storage = Storage::kNone;
    int64_t offset = 0;
    std::string symbol;
  };
  std::vector<Buffer> buffers;  // by value
  int64_t arena_bytes = 0;
  // The first instruction that changes a variable in place, or the number of
  // instructions: every instruction that can fail comes before it, so a failed
  // step leaves all variables as they were.
  int commit = 0;
};

// A variable as the program stores it.
struct ProgramVariable {
  std::string name;
  DType dtype = kFloat32;
  Shape shape;
  TensorLayout layout;  // at rest
  // Whose rules lay it out: a parameter, or state of an optimizer, which the
  // text form marks with "[optimizer]".
  RuleSection section = RuleSection::kParameters;
};

struct Program {
  Mesh mesh;
  Grains grains;
  std::vector<LayoutRule> rules;
  std::vector<Origin> origins;
  std::vector<ProgramVariable> variables;
  std::vector<ProgramValue> values;
  std::vector<Instruction> instructions;
  BufferPlan buffers;  // filled in by plan_buffers

  // Adds a value whose name starts with `name` and is unique.
  int AddValue(absl::string_view name, DType dtype, Shape shape,
               TensorLayout layout);
  const ProgramVariable* FindVariable(absl::string_view name) const;
  // The dimension of operand `i` of a reduce_scatter that its result is cut
  // along: the one whose axes grow. -1 where none or several do.
  int ScatteredDim(const Instruction& instruction, int i) const;
  // The origin of an instruction as "operation (file:line)", or "".
  std::string OriginText(const Instruction& instruction) const;

 private:
  absl::flat_hash_map<std::string, int> name_counts_;
};

}  // namespace mtf

#endif  // LOWERING_PROGRAM_PROGRAM_H_
