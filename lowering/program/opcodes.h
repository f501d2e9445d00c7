// SPDX-License-Identifier: Apache-2.0
//
// The instructions of a lowered program, and all facts about them that do not
// depend on operands: one row per opcode. A pass, a device or a tool that needs
// a fact about an opcode reads it here and does not switch over opcodes.
#ifndef LOWERING_PROGRAM_OPCODES_H_
#define LOWERING_PROGRAM_OPCODES_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "layouts/reshard_path.h"
#include "lowering/program/attributes.h"

namespace mtf {

// What an instruction does: (operands) -> results. Dimensions of operands and
// results meet by name.
enum class Opcode : uint8_t {
  kInput,          // () -> value that the caller feeds
  kReadVariable,   // () -> value at the start of the step
  kWriteVariable,  // (value) -> the same value, which the variable has after
                   // the step
  kCopyToDevice,   // (value in host memory) -> the same value in device memory
  kCopyToHost,     // (value) -> the same value in the host memory of the
                   // variable that it is written to
  kOutput,         // (value) -> nothing; returned to the caller
  kConstant,       // () -> elements that the program states
  kRandom,         // () -> random numbers
  kMap,            // (values...) -> elementwise, broadcast by name
  kEinsum,         // (x, y) -> product summed over the dimensions that the
                   // result lacks, in their dtype or in f32
  kReduce,         // (values...) -> an elementwise expression, reduced over the
                   // dimensions that the result lacks
  kReshape,        // (value) -> the same elements in other dimensions
  kSlice,          // (value) -> a range of one dimension
  kPad,            // (value) -> with fill before and after, along one dimension
  kConcat,         // (values...) -> joined along one dimension
  kTakeRows,       // (values...) -> rows of one dimension to send
  kPlaceRows,      // (values...) -> rows of one dimension, held and received,
                   // at their positions
  kWindows,        // (value) -> windows along one dimension
  kFoldWindows,    // (windows) -> the sum of their elements along a dimension
  kGather,         // (table, indices) -> rows of the table
  kScatterAdd,     // (updates, indices) -> table of sums
  kCheckIndex,     // (index) -> the same index, of rows of a dimension; 0 for
                   // one that is out of range
  kDynamicSlice,   // (value, index) -> rows of one dimension
  kUpdateSlice,    // (value, update, index) -> the value with some rows of one
                   // dimension replaced
  kScan,           // (value[, starts]) -> reduced over the elements up to each
                   // one along a dimension; `starts` has the initial value of
                   // each block
  kReduceBlocks,   // (value) -> each block of a dimension reduced to one
                   // element, 16-bit floats in f32
  kTopK,           // (value[, labels]) -> the greatest or least elements along
                   // a dimension and their indices, or labels; or the indices
                   // alone. A dimension that the operand lacks counts them. If
                   // the results have the dimension: those of each block of it
  kAttention,      // (q, k, v, ...) -> output and logsumexp of attention
                   // (AttentionAttributes lists the operands)
  kAttentionGradient,  // (q, k, v, ..., output, logsumexp, gradient of the
                       // output[, of the logsumexp]) -> gradients of q, k, v
                       // and perhaps of the bias and the extra logit
  kDepend,             // (value, others...) -> the same value, for readers that
                       // run after the others are computed
  kMask,               // (value) -> padding of some dimensions set to a fill
  kReshard,            // (value) -> the same value in the layout of the result
  kWait,               // (values...) -> nothing; ends asynchronous collectives,
                       // which are given by their first results
  kAllReduce,          // (values...) -> each reduced over mesh axes
  kAllGather,          // (value) -> a dimension without some of its mesh axes
  kAllSlice,           // (value) -> a dimension sharded over more mesh axes
  kReduceScatter,      // (values...) -> each reduced over mesh axes, which then
                       // shard a dimension of it (Program::ScatteredDim)
  kAllToAll,  // (value) -> mesh axes moved from one dimension to another, or
              // the rows of a dimension put into stripes or back
  kCollectivePermute,  // (value) -> shards in another order of the ranks
};

// How many operands or results an instruction has.
struct ValueCount {
  static constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();
  size_t least = 1;
  size_t most = 1;

  constexpr bool Allows(size_t count) const {
    return least <= count && count <= most;
  }
};

struct OpcodeInfo {
  Opcode opcode;
  absl::string_view name;  // in the text form
  size_t attributes;       // kAttributesIndex of its struct
  ValueCount operands = {};
  ValueCount results = {};

  // Reads and writes corresponding elements of values of one shape, up to
  // broadcasting.
  bool elementwise = false;
  // A loop over elements that a fusing device runs in one kernel with the loops
  // before and after it: elementwise instructions, reductions, random numbers.
  bool loop_fusible = false;
  // Every element of the result that is not padding is an element of the only
  // operand.
  bool only_moves = false;
  // To the user the result is the same tensor as the first operand: moved, in
  // another layout or with its padding filled. See also PreservesValue.
  bool preserves_value = false;
  // The result may share the memory of the first operand. See IsView.
  bool may_be_view = false;
  // May overwrite an operand of the same shape with the result, because each
  // element is read before it is written.
  bool in_place = false;
  // If so, result i may overwrite only operand i.
  bool in_place_by_position = false;
  // The result is in memory before the first instruction of the step runs.
  bool before_step = false;
  // Every device can produce any shard of the result without communication. See
  // CanProduceAnyShard.
  bool any_shard = false;
  // Can fail on its data: an index may be out of range.
  bool can_fail = false;
  // Visible after the step, so it stays in the program though nothing reads it.
  bool has_effect = false;
  // One step of a reshard (CollectiveKind).
  bool collective = false;
  // Sends data between ranks, which all must run it.
  bool communicates = false;
  // Reduces over mesh axes; further values may join the same call.
  bool reduces_axes = false;
};

namespace internal {

inline constexpr ValueCount kNoValues = {0, 0};
inline constexpr ValueCount kOneOrTwo = {1, 2};
inline constexpr ValueCount kTwoValues = {2, 2};
inline constexpr ValueCount kThreeValues = {3, 3};
inline constexpr ValueCount kAnyNumber = {0, ValueCount::kUnlimited};
inline constexpr ValueCount kOneOrMore = {1, ValueCount::kUnlimited};

// In the order of the enum. An operand or result count that is left out is 1.
inline constexpr OpcodeInfo kOpcodes[] = {
    {.opcode = Opcode::kInput,
     .name = "input",
     .attributes = kAttributesIndex<NameAttributes>,
     .operands = kNoValues,
     .before_step = true,
     .any_shard = true},
    {.opcode = Opcode::kReadVariable,
     .name = "read_variable",
     .attributes = kAttributesIndex<NameAttributes>,
     .operands = kNoValues,
     .before_step = true},
    {.opcode = Opcode::kWriteVariable,
     .name = "write_variable",
     .attributes = kAttributesIndex<NameAttributes>,
     .may_be_view = true,
     .has_effect = true},
    {.opcode = Opcode::kCopyToDevice,
     .name = "copy_to_device",
     .attributes = kAttributesIndex<NoAttributes>,
     .only_moves = true,
     .preserves_value = true},
    {.opcode = Opcode::kCopyToHost,
     .name = "copy_to_host",
     .attributes = kAttributesIndex<NoAttributes>,
     .only_moves = true,
     .preserves_value = true},
    {.opcode = Opcode::kOutput,
     .name = "output",
     .attributes = kAttributesIndex<NameAttributes>,
     .results = kNoValues,
     .has_effect = true},
    {.opcode = Opcode::kConstant,
     .name = "constant",
     .attributes = kAttributesIndex<ConstantAttributes>,
     .operands = kNoValues,
     .any_shard = true},
    {.opcode = Opcode::kRandom,
     .name = "random",
     .attributes = kAttributesIndex<RandomAttributes>,
     .operands = kNoValues,
     .loop_fusible = true,
     .any_shard = true},
    {.opcode = Opcode::kMap,
     .name = "map",
     .attributes = kAttributesIndex<MapAttributes>,
     .operands = kAnyNumber,
     .elementwise = true,
     .loop_fusible = true,
     .in_place = true},
    {.opcode = Opcode::kEinsum,
     .name = "einsum",
     .attributes = kAttributesIndex<EinsumAttributes>,
     .operands = kTwoValues},
    {.opcode = Opcode::kReduce,
     .name = "reduce",
     .attributes = kAttributesIndex<ReduceAttributes>,
     .operands = kAnyNumber,
     .loop_fusible = true},
    {.opcode = Opcode::kReshape,
     .name = "reshape",
     .attributes = kAttributesIndex<NoAttributes>,
     .only_moves = true,
     .preserves_value = true,
     .may_be_view = true},
    {.opcode = Opcode::kSlice,
     .name = "slice",
     .attributes = kAttributesIndex<SliceAttributes>,
     .only_moves = true},
    {.opcode = Opcode::kPad,
     .name = "pad",
     .attributes = kAttributesIndex<PadAttributes>},
    {.opcode = Opcode::kConcat,
     .name = "concat",
     .attributes = kAttributesIndex<ConcatAttributes>,
     .operands = kOneOrMore},
    {.opcode = Opcode::kTakeRows,
     .name = "take_rows",
     .attributes = kAttributesIndex<RowsAttributes>,
     .operands = kOneOrMore},
    {.opcode = Opcode::kPlaceRows,
     .name = "place_rows",
     .attributes = kAttributesIndex<RowsAttributes>,
     .operands = kOneOrMore},
    {.opcode = Opcode::kWindows,
     .name = "windows",
     .attributes = kAttributesIndex<WindowAttributes>},
    {.opcode = Opcode::kFoldWindows,
     .name = "fold_windows",
     .attributes = kAttributesIndex<WindowAttributes>},
    {.opcode = Opcode::kGather,
     .name = "gather",
     .attributes = kAttributesIndex<GatherAttributes>,
     .operands = kTwoValues,
     .can_fail = true},
    {.opcode = Opcode::kScatterAdd,
     .name = "scatter_add",
     .attributes = kAttributesIndex<GatherAttributes>,
     .operands = kTwoValues,
     .can_fail = true},
    {.opcode = Opcode::kCheckIndex,
     .name = "check_index",
     .attributes = kAttributesIndex<CheckIndexAttributes>,
     .can_fail = true},
    {.opcode = Opcode::kDynamicSlice,
     .name = "dynamic_slice",
     .attributes = kAttributesIndex<DynamicSliceAttributes>,
     .operands = kTwoValues},
    {.opcode = Opcode::kUpdateSlice,
     .name = "update_slice",
     .attributes = kAttributesIndex<DynamicSliceAttributes>,
     .operands = kThreeValues,
     .in_place = true,
     .in_place_by_position = true},
    {.opcode = Opcode::kScan,
     .name = "scan",
     .attributes = kAttributesIndex<ScanAttributes>,
     .operands = kOneOrTwo},
    {.opcode = Opcode::kReduceBlocks,
     .name = "reduce_blocks",
     .attributes = kAttributesIndex<ReduceBlocksAttributes>},
    {.opcode = Opcode::kTopK,
     .name = "top_k",
     .attributes = kAttributesIndex<TopKAttributes>,
     .operands = kOneOrTwo,
     .results = kOneOrTwo},
    {.opcode = Opcode::kAttention,
     .name = "attention",
     .attributes = kAttributesIndex<AttentionAttributes>,
     .operands = {3, 9},
     .results = kTwoValues},
    {.opcode = Opcode::kAttentionGradient,
     .name = "attention_gradient",
     .attributes = kAttributesIndex<AttentionAttributes>,
     .operands = {6, 12},
     .results = {3, 5}},
    {.opcode = Opcode::kDepend,
     .name = "depend",
     .attributes = kAttributesIndex<NoAttributes>,
     .operands = kOneOrMore,
     .preserves_value = true,
     .may_be_view = true},
    {.opcode = Opcode::kMask,
     .name = "mask",
     .attributes = kAttributesIndex<MaskAttributes>,
     .elementwise = true,
     .loop_fusible = true,
     .only_moves = true,
     .preserves_value = true,
     .in_place = true},
    {.opcode = Opcode::kReshard,
     .name = "reshard",
     .attributes = kAttributesIndex<NoAttributes>,
     .preserves_value = true},
    {.opcode = Opcode::kWait,
     .name = "wait",
     .attributes = kAttributesIndex<NoAttributes>,
     .operands = kOneOrMore,
     .results = kNoValues},
    {.opcode = Opcode::kAllReduce,
     .name = "all_reduce",
     .attributes = kAttributesIndex<CollectiveAttributes>,
     .operands = kOneOrMore,
     .results = kOneOrMore,
     .in_place = true,
     .in_place_by_position = true,
     .collective = true,
     .communicates = true,
     .reduces_axes = true},
    {.opcode = Opcode::kAllGather,
     .name = "all_gather",
     .attributes = kAttributesIndex<CollectiveAttributes>,
     .only_moves = true,
     .preserves_value = true,
     .collective = true,
     .communicates = true},
    {.opcode = Opcode::kAllSlice,
     .name = "all_slice",
     .attributes = kAttributesIndex<CollectiveAttributes>,
     .only_moves = true,
     .preserves_value = true,
     .collective = true},
    {.opcode = Opcode::kReduceScatter,
     .name = "reduce_scatter",
     .attributes = kAttributesIndex<CollectiveAttributes>,
     .operands = kOneOrMore,
     .results = kOneOrMore,
     .collective = true,
     .communicates = true,
     .reduces_axes = true},
    {.opcode = Opcode::kAllToAll,
     .name = "all_to_all",
     .attributes = kAttributesIndex<CollectiveAttributes>,
     .only_moves = true,
     .preserves_value = true,
     .collective = true,
     .communicates = true},
    {.opcode = Opcode::kCollectivePermute,
     .name = "collective_permute",
     .attributes = kAttributesIndex<CollectiveAttributes>,
     .only_moves = true,
     .preserves_value = true,
     .collective = true,
     .communicates = true},
};

constexpr bool OpcodesAreInEnumOrder() {
  for (size_t i = 0; i < std::size(kOpcodes); ++i) {
    if (kOpcodes[i].opcode != static_cast<Opcode>(i)) return false;
  }
  return kOpcodes[std::size(kOpcodes) - 1].opcode == Opcode::kCollectivePermute;
}
static_assert(OpcodesAreInEnumOrder(),
              "kOpcodes has one row per opcode, in the order of the enum");

}  // namespace internal

inline constexpr int kNumOpcodes =
    static_cast<int>(std::size(internal::kOpcodes));

inline constexpr const OpcodeInfo& InfoOf(Opcode opcode) {
  return internal::kOpcodes[static_cast<size_t>(opcode)];
}
inline absl::string_view OpcodeName(Opcode opcode) {
  return InfoOf(opcode).name;
}
// The opcode of that name in program texts, or nullopt.
std::optional<Opcode> FindOpcode(absl::string_view name);

// The error of an instruction with `count` operands, or "" if that number is
// allowed: "gather takes 2 operands, not 1".
std::string WrongOperandCount(Opcode opcode, size_t count);

// Facts of the table as sentences; OpcodeInfo says what each means.
inline bool IsElementwise(Opcode opcode) { return InfoOf(opcode).elementwise; }
inline bool IsLoopFusible(Opcode opcode) { return InfoOf(opcode).loop_fusible; }
inline bool OnlyMoves(Opcode opcode) { return InfoOf(opcode).only_moves; }
inline bool CanWorkInPlace(Opcode opcode) { return InfoOf(opcode).in_place; }
// Whether result `result` may overwrite operand `operand`.
inline bool MayOverwrite(Opcode opcode, size_t operand, size_t result) {
  return CanWorkInPlace(opcode) &&
         (!InfoOf(opcode).in_place_by_position || operand == result);
}
// Each device finds the rows of a table that it has and leaves zeros for the
// others, so that all summands of an element but one are 0.
inline bool LooksUpRows(Opcode opcode) {
  return opcode == Opcode::kGather || opcode == Opcode::kDynamicSlice;
}
// Between the memory of the device and that of the host.
inline bool CopiesToOrFromHost(Opcode opcode) {
  return opcode == Opcode::kCopyToDevice || opcode == Opcode::kCopyToHost;
}
inline bool ExistsBeforeStep(Opcode opcode) {
  return InfoOf(opcode).before_step;
}
inline bool CanFail(Opcode opcode) { return InfoOf(opcode).can_fail; }
inline bool HasEffect(Opcode opcode) { return InfoOf(opcode).has_effect; }
inline bool IsCollective(Opcode opcode) { return InfoOf(opcode).collective; }
inline bool Communicates(Opcode opcode) { return InfoOf(opcode).communicates; }
inline bool ReducesAxes(Opcode opcode) { return InfoOf(opcode).reduces_axes; }
// Takes no operands.
inline bool IsSource(Opcode opcode) {
  return InfoOf(opcode).operands.most == 0;
}

// The kind of a collective; checks that the opcode is one.
CollectiveKind CollectiveOf(Opcode opcode);
Opcode OpcodeOf(CollectiveKind kind);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_OPCODES_H_
