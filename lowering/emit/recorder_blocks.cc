// SPDX-License-Identifier: Apache-2.0
//
// Recorder: operations along one dimension, scan and top_k. If the dimension is
// sharded, each device works within its blocks (the finest shards that the
// rules of the program allow, independent of the layout), and only a few
// numbers per block are sent.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "lowering/emit/recorder.h"

namespace mtf {

// Sends the total of each block and scans each block from the totals before it:
//
//   %t = reduce_blocks(%x) sum length           [batch, length:8/model]
//   %t.all = all_gather(%t) length over{model}
//   %s = scan(%t.all) sum length exclusive
//   %s.shard = all_slice(%s) length over{model}
//   %y = scan(%x, %s.shard) sum length
Value Recorder::Scan(ReduceKind kind, Value value, const std::string& dimension,
                     bool exclusive, bool reverse) {
  value = InThisModule(value);
  const auto scan = [&](int operand, bool without) {
    Instruction instruction(Opcode::kScan,
                            ScanAttributes{kind, dimension, without, reverse});
    instruction.operands = {operand};
    return instruction;
  };
  const DType dtype = at(value).dtype;
  const Shape shape = at(value).shape;
  const DType total_dtype = IsFloat(dtype) ? kFloat32 : dtype;
  const std::string dims[] = {dimension};
  const int64_t blocks = program_.grains.GrainOf(dimension);
  const int64_t extent =
      program_.grains.ExtentOf(dimension, shape.SizeOf(dimension));
  const bool in_blocks =
      !at(value).layout.dims[shape.Find(dimension)].empty() &&
      blocks * DTypeSize(total_dtype) < extent * DTypeSize(dtype);
  if (!in_blocks) {
    value = Unshard(value, dims);
    return Append(scan(value.id, exclusive), dtype, shape,
                  TensorLayout(at(value).layout));
  }
  value = {Demand(value.id, at(value).layout.Reduced())};
  const TensorLayout layout = at(value).layout;
  Instruction reduce(Opcode::kReduceBlocks,
                     ReduceBlocksAttributes{kind, dimension});
  reduce.operands = {value.id};
  const Shape block_shape = shape.Resized(dimension, blocks);
  const Value totals = Unshard(
      Append(std::move(reduce), total_dtype, block_shape, TensorLayout(layout)),
      dims);
  const Value starts = Append(scan(totals.id, true), total_dtype, block_shape,
                              TensorLayout(at(totals).layout));
  Instruction last = scan(value.id, exclusive);
  last.operands.push_back(Demand(starts.id, layout));
  return Append(std::move(last), dtype, shape, TensorLayout(layout));
}

// Sends the greatest (or least) elements of each block with their indices and
// ranks those:
//
//   %v, %p = top_k(%x) expert        [batch, expert:4/model, k:2], both
//   %v.all = all_gather(%v) expert over{model}, %p.all likewise
//   %v.row = reshape(%v.all)                    [batch, expert:8], %p.row too
//   %y, %i = top_k(%v.row, %p.row) expert       [batch, k:2], both
//
// Of equal elements, the one with the lower index comes first within a block
// and earlier blocks come first, so the order of labels is that of the indices.
RankedValues Recorder::TopK(Value value, const std::string& dimension,
                            const Dimension& k, bool least) {
  value = InThisModule(value);
  const DType dtype = at(value).dtype;
  // Appends a ranking in which `k` is replicated and the other dimensions keep
  // their sharding.
  const auto rank = [&](std::initializer_list<int> operands,
                        const Shape& result, bool with_values) {
    Instruction instruction(Opcode::kTopK, TopKAttributes{dimension, least});
    instruction.operands = operands;
    const ProgramValue& ranked = program_.values[*operands.begin()];
    TensorLayout layout;
    for (const Dimension& each : result) {
      const int dim = ranked.shape.Find(each.name);
      layout.dims.push_back(dim < 0 ? AxisList() : ranked.layout.dims[dim]);
    }
    const Value first =
        Append(std::move(instruction), with_values ? dtype : DType{kInt32},
               result, std::move(layout));
    if (!with_values) return RankedValues{{}, first};
    const int index = static_cast<int>(program_.instructions.size()) - 1;
    return RankedValues{first, AddResult(index, kInt32, result)};
  };
  const bool reads_values = (read_results_ & 1) != 0;
  const Shape shape = at(value).shape;
  const std::string dims[] = {dimension};
  const int dim = shape.Find(dimension);
  const Shape row = shape.Without(dimension);
  const int64_t blocks = program_.grains.GrainOf(dimension);
  const int64_t extent = program_.grains.ExtentOf(dimension, shape[dim].size);
  const int64_t best = std::min(k.size, extent / blocks);
  const bool in_blocks =
      !at(value).layout.dims[dim].empty() &&
      blocks * best * (DTypeSize(dtype) + DTypeSize(kInt32)) <
          extent * DTypeSize(dtype);
  if (!in_blocks) {
    return rank({Unshard(value, dims).id}, row.With(k), reads_values);
  }
  const RankedValues each = rank(
      {Demand(value.id, at(value).layout.Reduced())},
      row.With({dimension, blocks}).With({k.name, best}), /*with_values=*/true);
  const Shape line = row.With({dimension, blocks * best});
  const Value values = Reshape(Unshard(each.values, dims), line);
  const Value labels = Reshape(Unshard(each.indices, dims), line);
  return rank({values.id, labels.id}, row.With(k), reads_values);
}

}  // namespace mtf
