// SPDX-License-Identifier: Apache-2.0
//
// Recorder: operations along one dimension, scan and top_k. If the dimension is
// sharded, each device works within its blocks (the finest shards that the
// rules of the program allow, independent of the layout), and only a few
// numbers per block are sent.
#include <algorithm>
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

// Sends the greatest elements of each block with their indices and ranks those:
//
//   %v, %p = top_k(%x) expert        [batch, expert:4/model, k:2], both
//   %v.all = all_gather(%v) expert over{model}, %p.all likewise
//   %v.row = reshape(%v.all)                    [batch, expert:8], %p.row too
//   %y = top_k(%v.row, %p.row) expert           [batch, k:2]
//
// Of equal elements, the one with the lower index comes first within a block
// and earlier blocks come first, so the order of labels is that of the indices.
Value Recorder::TopK(Value value, const std::string& dimension,
                     const Dimension& k) {
  value = InThisModule(value);
  const auto top_k = [&](int operand) {
    Instruction instruction(Opcode::kTopK, TopKAttributes{dimension});
    instruction.operands = {operand};
    return instruction;
  };
  const DType dtype = at(value).dtype;
  const Shape shape = at(value).shape;
  const std::string dims[] = {dimension};
  const int dim = shape.Find(dimension);
  const auto append = [&](Instruction instruction, const Shape& result,
                          Value operand) {
    // `k` is replicated; the other dimensions keep their sharding.
    TensorLayout layout;
    for (const Dimension& each : result) {
      const int dim_index = each.name == k.name ? -1 : shape.Find(each.name);
      layout.dims.push_back(dim_index < 0 ? AxisList()
                                          : at(operand).layout.dims[dim_index]);
    }
    const DType result_dtype =
        result.Contains(dimension) ? dtype : DType{kInt32};
    return Append(std::move(instruction), result_dtype, result,
                  std::move(layout));
  };
  const Shape ranked = shape.Without(dimension).With(k);
  const int64_t blocks = program_.grains.GrainOf(dimension);
  const int64_t extent = program_.grains.ExtentOf(dimension, shape[dim].size);
  const int64_t best = std::min(k.size, extent / blocks);
  const bool in_blocks =
      !at(value).layout.dims[dim].empty() &&
      blocks * best * (DTypeSize(dtype) + DTypeSize(kInt32)) <
          extent * DTypeSize(dtype);
  if (!in_blocks) {
    value = Unshard(value, dims);
    return append(top_k(value.id), ranked, value);
  }
  value = {Demand(value.id, at(value).layout.Reduced())};
  const Shape row = shape.Without(dimension);
  const Shape candidates = row.With({dimension, blocks}).With({k.name, best});
  const Value values = append(top_k(value.id), candidates, value);
  const int ranking = static_cast<int>(program_.instructions.size()) - 1;
  const Value labels = AddResult(ranking, kInt32, candidates);
  const Shape line = row.With({dimension, blocks * best});
  Instruction last = top_k(Reshape(Unshard(values, dims), line).id);
  last.operands.push_back(Reshape(Unshard(labels, dims), line).id);
  TensorLayout layout = program_.values[last.operands[0]].layout;
  layout.dims.back() = {};
  return Append(std::move(last), kInt32, ranked, std::move(layout));
}

}  // namespace mtf
