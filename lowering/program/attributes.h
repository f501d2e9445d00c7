// SPDX-License-Identifier: Apache-2.0
//
// What an instruction says beyond its operands and results: one struct per kind
// of instruction. opcodes.h states which opcode has which struct.
//
// A struct is printed by print_attributes.cc, parsed by parse_attributes.cc and
// verified by verify_shapes.cc. Each visits the variant with one overload per
// struct, so a new struct without an overload does not compile.
#ifndef LOWERING_PROGRAM_ATTRIBUTES_H_
#define LOWERING_PROGRAM_ATTRIBUTES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "layouts/mesh.h"
#include "layouts/tensor_layout.h"
#include "lowering/program/einsum_plan.h"
#include "mtf/attention.h"
#include "mtf/emitter.h"
#include "mtf/map_expression.h"
#include "mtf/shape.h"

namespace mtf {

// Of an instruction that says nothing more: reshape, reshard, wait.
struct NoAttributes {};

// The name of an input, output or variable.
struct NameAttributes {
  std::string name;
};

struct ConstantAttributes {
  std::vector<double> elements;  // row-major, of the global shape
};

// Philox4x32-10 numbers; the counter is the global index of an element.
struct RandomAttributes {
  RandomKind kind = RandomKind::kUniform;
  uint32_t stream = 0;
  bool per_step = true;  // new numbers in every step
};

struct MapAttributes {
  MapExpression expression;
};

struct EinsumAttributes {
  // Set by plan_einsums; einsums of equal shapes share one plan.
  std::shared_ptr<const EinsumPlan> plan;
};

// Evaluates `expression` at every element of the iteration space and reduces
// over the dimensions that the result lacks.
struct ReduceAttributes {
  ReduceKind kind = ReduceKind::kSum;
  MapExpression expression;
  Shape iteration;                // global sizes
  TensorLayout iteration_layout;  // one entry per dimension of `iteration`
  // Extents on every rank. Empty until shard_shapes.
  absl::InlinedVector<int64_t, 5> iteration_local;
};

// Elements [begin, begin + size in the result) of `dimension`.
struct SliceAttributes {
  std::string dimension;
  int64_t begin = 0;
};

// `before` elements of `fill`, the operand, then `fill` up to the result's
// size.
struct PadAttributes {
  std::string dimension;
  int64_t before = 0;
  double fill = 0;
};

struct ConcatAttributes {
  std::string dimension;
};

// Of take_rows and place_rows, which together move rows of one dimension
// between its positions and between ranks (docs/design/0017-halos.md).
//
// The rows of the sources have positions: those of source k begin at
// offsets[k]. Window i of the result covers the positions from i * stride to
// i * stride + span - 1; with a stride and a span of 1, position i is row i of
// the result. Each rank needs the positions of the windows that it holds, and
// holds the rows of its shards of the sources. A RowPlan
// (layouts/row_plan.h) says which rows each rank sends, in rounds.
//
// place_rows: (sources..., one value per round, received) -> the positions
// that this rank needs, `fill` where no source has a row.
// take_rows: (sources...) -> the rows that this rank sends in one round.
//
// `adds` is the transpose, with one source: place_rows: (positions, one value
// per round) -> source, where the rows of several positions and ranks add up;
// take_rows: (positions) -> rows to send.
struct RowsAttributes {
  std::string dimension;         // of the sources and of the windows
  AxisList axes;                 // that shard the windows
  std::vector<int64_t> sizes;    // by source: rows
  std::vector<int64_t> offsets;  // by source: position of the first row
  // By source: whether every rank holds all rows.
  std::vector<bool> replicated;
  int64_t windows = 0;
  int64_t stride = 1, span = 1;
  // The only source repeats at a distance of its size.
  bool wrap = false;
  bool adds = false;
  double fill = 0;
  int round = -1;  // of take_rows
};

// Of windows and fold_windows: element w of window i is element
// i * stride + w * dilation along `line`.
struct WindowAttributes {
  std::string dimension;  // that counts the windows
  std::string window;     // w
  std::string line;       // the dimension of the elements; may be `dimension`
  int64_t stride = 1, dilation = 1;
};

// Of gather and scatter_add.
struct GatherAttributes {
  std::string dimension;     // of the table, looked up by the indices
  std::string indices_name;  // the user's name of the indices, for errors
};

// Of a check that `rows` rows from each index on are within a dimension.
struct CheckIndexAttributes {
  int64_t rows = 1;
  std::string dimension;
  int64_t size = 0;        // of the dimension
  std::string index_name;  // the user's name of the index, for errors

  // Indices are in [0, limit()).
  int64_t limit() const { return size - rows + 1; }
};

// Of dynamic_slice and update_slice.
struct DynamicSliceAttributes {
  std::string dimension;  // of the first operand, whose rows are selected
};

struct ScanAttributes {
  ReduceKind kind = ReduceKind::kSum;
  std::string dimension;
  bool exclusive = false;  // without the element itself
  bool reverse = false;    // from the last element to the first
};

struct ReduceBlocksAttributes {
  ReduceKind kind = ReduceKind::kSum;
  std::string dimension;
};

struct TopKAttributes {
  std::string dimension;  // that is ranked
  bool least = false;     // the least elements first, not the greatest
};

// Of attention and attention_gradient. The operands are q, k, v and the given
// ones of mask, bias, offset and extra_logit; those of attention_gradient
// continue with the output, the logsumexp, the gradient of the output and
// perhaps that of the logsumexp. The results of attention_gradient are the
// gradients of q, k, v and perhaps those of the bias and the extra logit.
struct AttentionAttributes {
  AttentionSpec spec;
  bool mask = false, bias = false, offset = false, extra_logit = false;
  // Of attention_gradient: whether the gradient of the logsumexp is given, and
  // which further gradients are computed.
  bool logsumexp_gradient = false;
  bool bias_gradient = false, extra_logit_gradient = false;
  // Of a step of a ring (recorder_ring.cc): the axes that shard length shard
  // memory_length too. What has memory_length is not this rank's shard but that
  // of the rank `shift` places before it along these axes.
  bool ring = false;
  int64_t shift = 0;
  // Whether the rows of lengths are in stripes (CollectiveAttributes::stripes).
  bool striped = false;
  // Whether operands are the output and the logsumexp of the steps before, or
  // the gradient of the queries. The results are then for the keys of those
  // steps, too.
  bool continues = false;

  template <class T>
  void SetGiven(const AttentionOperands<T>& operands) {
    mask = operands.mask.valid();
    bias = operands.bias.valid();
    offset = operands.offset.valid();
    extra_logit = operands.extra_logit.valid();
  }

  // Positions among the operands and the results; -1: none.
  struct Positions {
    AttentionOperands<int> operands = {0, 1, 2, -1, -1, -1, -1};
    AttentionResults<int> results = {-1, -1}, gradients = {-1, -1};
    AttentionGradients<int> of = {-1, -1, -1, -1, -1};
    // Of the steps before: the results, or the gradient of the queries.
    AttentionResults<int> before = {-1, -1};
    int of_q_before = -1;
    int num_operands = 3, num_results = 2;
  };
  Positions PositionsIn(bool gradient) const;
};

struct MaskAttributes {
  std::vector<int> dims;  // of the operand
  double fill = 0;
};

// Of every collective; ReshardStep (layouts/reshard_path.h) states what each
// does to the layout. Dimensions are indices into the operand's shape.
struct CollectiveAttributes {
  AxisList axes;                            // the group, major to minor
  ReduceKind reduction = ReduceKind::kSum;  // all_reduce, reduce_scatter
  int dim = -1;       // all_gather, all_slice, reduce_scatter, all_to_all (to)
  int from_dim = -1;  // all_to_all
  // Of a collective_permute that changes no layout: shards move to the rank
  // this many places after theirs along the axes, cyclically.
  int64_t shift = 0;
  // Of a collective_permute that changes no layout and is not a shift: by rank
  // of the group, the rank of the group from which it receives. Empty: none.
  std::vector<int64_t> sources = {};
  // Of an all_to_all that changes no layout but the order of the rows of `dim`.
  // In stripes, rank r of n along the axes has the rows r, r + n, r + 2 n...
  enum class Stripes : uint8_t { kNone, kForm, kDissolve };
  Stripes stripes = Stripes::kNone;

  // Whether elements move to other indices, in the same layout.
  bool ReordersShards() const {
    return shift != 0 || !sources.empty() || stripes != Stripes::kNone;
  }
  // Overlaps the instructions up to the wait for its first result.
  bool asynchronous = false;
};

using InstructionAttributes =
    std::variant<MapAttributes, NoAttributes, NameAttributes,
                 ConstantAttributes, RandomAttributes, EinsumAttributes,
                 ReduceAttributes, SliceAttributes, PadAttributes,
                 ConcatAttributes, RowsAttributes, WindowAttributes,
                 GatherAttributes, CheckIndexAttributes, DynamicSliceAttributes,
                 ScanAttributes, ReduceBlocksAttributes, TopKAttributes,
                 AttentionAttributes, MaskAttributes, CollectiveAttributes>;

namespace internal {

template <typename T, size_t index = 0>
constexpr size_t AttributesIndex() {
  using Alternative = std::variant_alternative_t<index, InstructionAttributes>;
  if constexpr (std::is_same_v<T, Alternative>) {
    return index;
  } else {
    return AttributesIndex<T, index + 1>();
  }
}

}  // namespace internal

// The position of T among the alternatives of InstructionAttributes. Does not
// compile for a type that is none of them.
template <typename T>
inline constexpr size_t kAttributesIndex = internal::AttributesIndex<T>();

}  // namespace mtf

#endif  // LOWERING_PROGRAM_ATTRIBUTES_H_
