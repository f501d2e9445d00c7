// SPDX-License-Identifier: Apache-2.0
//
// The lowered program: one list of instructions that every rank runs, over
// values with a global shape and a layout. Passes rewrite it, a backend runs
// it, PrintProgram and ParseProgram convert it to and from text.
#ifndef LOWERING_PROGRAM_PROGRAM_H_
#define LOWERING_PROGRAM_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "layouts/tensor_layout.h"
#include "lowering/program/fused_group.h"
#include "lowering/program/instruction.h"
#include "mtf/graph.h"
#include "mtf/status.h"

namespace mtf {

// The user's operation that an instruction comes from.
struct Origin {
  std::string operation;  // "layer_0/einsum_1"
  CallSite site;
};

// A tensor of the program: the global value, and how it is distributed.
struct ProgramValue {
  std::string name;  // unique; the text form prints it with "%"
  DType dtype = kFloat32;
  Shape shape;          // global, true sizes
  TensorLayout layout;  // one entry per dimension of `shape`
  // Extent of each dimension in memory, the same on every rank and with
  // padding. Empty until shard_shapes.
  absl::InlinedVector<int64_t, 5> local;
  // Why the value is unreduced over its unreduced axes.
  absl::InlinedVector<Cause, 1> causes;

  int64_t local_elements() const {
    int64_t n = 1;
    for (int64_t extent : local) n *= extent;
    return n;
  }
  int64_t local_bytes() const { return local_elements() * DTypeSize(dtype); }
};

// The maximum number of elements of a shard of one value, so that the bytes of
// a program can be added up in 64 bits. No device holds a millionth of this.
inline constexpr int64_t kMaxLocalElements = int64_t{1} << 44;

// Buffers in the arena begin at multiples of this many bytes.
inline constexpr int64_t kArenaAlignment = 64;

// Where values are stored, decided by plan_buffers.
struct BufferPlan {
  enum class Storage : uint8_t {
    kNone,      // not stored
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
  // Index of the first instruction that changes a variable in place, or the
  // number of instructions. Every instruction that can fail comes before it, so
  // a failed step leaves all variables unchanged.
  int commit = 0;
};

// A variable, and the layout in which it is stored between steps.
struct ProgramVariable {
  std::string name;
  DType dtype = kFloat32;
  Shape shape;
  TensorLayout layout;
  // The section of the rules that gives the layout: kParameters; kOptimizer for
  // state of an optimizer; kDefault for state of the computation
  // (VariableKind::kState).
  RuleSection section = RuleSection::kParameters;
  // In host memory between steps, by the section [offload] of the layout. A
  // step reads it by copy_to_device and changes it by copy_to_host.
  bool offloaded = false;
};

// What the text form marks variables with, in brackets: "optimizer", "state",
// or "" for parameters; "offload" follows for offloaded ones. RoleOf says the
// same in words: "optimizer state", "state", "parameter".
absl::string_view VariableMark(RuleSection section);
absl::string_view RoleOf(const ProgramVariable& variable);

// An attention of the program that is composed of einsums, maps and reductions,
// though the device has instructions for others.
struct ComposedAttention {
  Origin origin;
  std::string why;  // "the layout shards memory_length over model"
};

struct Program {
  Mesh mesh;
  Grains grains;
  std::vector<LayoutRule> rules;
  std::vector<Origin> origins;
  std::vector<ProgramVariable> variables;
  std::vector<ProgramValue> values;
  std::vector<Instruction> instructions;
  // Instructions that run as one kernel, disjoint and ordered by their first
  // members. Filled in by the fusion passes.
  std::vector<FusedGroup> groups;
  BufferPlan buffers;  // filled in by plan_buffers
  // What lowering tells the user, and the attentions that the device has no
  // instruction for. Not part of the text form.
  std::vector<std::string> notices;
  std::vector<ComposedAttention> composed_attention;

  // Adds a value and returns its index. Its name is `name`, with a suffix if
  // that is taken.
  int AddValue(absl::string_view name, DType dtype, Shape shape,
               TensorLayout layout);
  bool HasOffloadedVariables() const;
  // Null if there is none.
  const ProgramVariable* FindVariable(absl::string_view name) const;
  // The dimension of operand `i` of a reduce_scatter that its result is sharded
  // along: the one whose mesh axes differ. -1 if none or several do.
  int ScatteredDim(const Instruction& instruction, int i) const;
  // The origin of an instruction as "operation (file:line)", or "".
  std::string OriginText(const Instruction& instruction) const;

 private:
  absl::flat_hash_map<std::string, int> name_counts_;
};

}  // namespace mtf

#endif  // LOWERING_PROGRAM_PROGRAM_H_
