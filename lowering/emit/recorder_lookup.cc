// SPDX-License-Identifier: Apache-2.0
//
// Recorder: gather and scatter_add.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "layouts/reshard_path.h"
#include "lowering/emit/lookup_layouts.h"
#include "lowering/emit/recorder.h"
#include "lowering/program/spare_grains.h"

namespace mtf {
namespace {

int64_t ReshardBytes(const Grains& grains, const Shape& shape, DType dtype,
                     const TensorLayout& from, const TensorLayout& to) {
  return PathBytes(grains, shape, from, PlanReshard(grains, shape, from, to),
                   static_cast<int>(DTypeSize(dtype)));
}

}  // namespace

int64_t Recorder::DemandBytes(Value value, const TensorLayout& target) const {
  for (int reshard : reshards_[value.id]) {
    if (program_.values[reshard].layout == target) return 0;
  }
  return ReshardBytes(program_.grains, at(value).shape, at(value).dtype,
                      at(value).layout, target);
}

bool Recorder::CheckLookup(const LookupShapes& shapes) {
  const Shape* table[] = {&shapes.table};
  const Shape* rows[] = {&shapes.indices, &shapes.rows};
  return CheckUnion(table) && CheckUnion(rows);
}

LookupLayouts Recorder::ChooseLookup(const LookupShapes& shapes, Value operand,
                                     Value indices, bool adds_rows) {
  LookupLayouts rules{RuleLayout(shapes.table), RuleLayout(shapes.indices),
                      RuleLayout(shapes.rows)};
  const std::vector<LookupLayouts> possible = PossibleLookups(shapes, rules);
  if (possible.size() == 1) return rules;
  // The result has the sizes of the graph, and so has what is emitted later.
  SpareGrains spare(program_);
  for (const auto& other : operation_->graph().operations()) {
    spare.Add(program_.grains, other->shape());
  }
  // By the axes that leave the operands without the elements of other devices.
  const auto unreduced_by = [&](const LookupLayouts& layouts) {
    if (!adds_rows) {
      return SetOf(layouts.table.dims[shapes.table.Find(shapes.dimension)]);
    }
    AxisSet summed = 0;
    for (int i = 0; i < shapes.rows.rank(); ++i) {
      if (!shapes.table.Contains(shapes.rows[i].name)) {
        summed |= SetOf(layouts.rows.dims[i]);
      }
    }
    return summed;
  };
  const DType dtype = at(operand).dtype;
  int64_t fewest = std::numeric_limits<int64_t>::max();
  LookupLayouts best = rules;
  for (const LookupLayouts& layouts : possible) {
    if (!spare.Allows(program_.grains, shapes.table, layouts.table, shapes.rows,
                      layouts.rows)) {
      continue;
    }
    TensorLayout result = adds_rows ? layouts.table : layouts.rows;
    result.unreduced = unreduced_by(layouts);
    const int64_t bytes =
        DemandBytes(operand, adds_rows ? layouts.rows : layouts.table) +
        DemandBytes(indices, layouts.indices) +
        ReshardBytes(program_.grains, adds_rows ? shapes.table : shapes.rows,
                     dtype, result, adds_rows ? rules.table : rules.rows);
    if (bytes >= fewest) continue;
    fewest = bytes;
    best = layouts;
  }
  AllowLayout(shapes.table, best.table, program_.grains);
  AllowLayout(shapes.rows, best.rows, program_.grains);
  return best;
}

Value Recorder::Gather(Value table, Value indices, const std::string& dimension,
                       const Shape& shape) {
  const LookupShapes shapes{dimension, at(table).shape, at(indices).shape,
                            shape};
  const DType dtype = at(table).dtype;
  if (!CheckLookup(shapes)) {
    return Append({}, dtype, shape, TensorLayout::Replicated(shape.rank()));
  }
  const LookupLayouts layouts = ChooseLookup(shapes, table, indices, false);
  Instruction instruction(Opcode::kGather,
                          GatherAttributes{dimension, InputName(1, indices)});
  instruction.operands = {Demand(table.id, layouts.table),
                          Demand(indices.id, layouts.indices)};
  // Each device looks up the rows that it holds and writes zeros for the
  // others.
  return AppendLookup(std::move(instruction), dtype, shapes.table,
                      layouts.table, shapes.table.Without(dimension), shape,
                      layouts.rows);
}

Value Recorder::ScatterAdd(Value updates, Value indices,
                           const std::string& dimension, const Shape& shape) {
  const LookupShapes shapes{dimension, shape, at(indices).shape,
                            at(updates).shape};
  const DType dtype = at(updates).dtype;
  if (!CheckLookup(shapes)) {
    return Append({}, dtype, shape, TensorLayout::Replicated(shape.rank()));
  }
  const LookupLayouts layouts = ChooseLookup(shapes, updates, indices, true);
  Instruction instruction(Opcode::kScatterAdd,
                          GatherAttributes{dimension, InputName(1, indices)});
  instruction.operands = {Demand(updates.id, layouts.rows),
                          Demand(indices.id, layouts.indices)};
  return AppendLookup(std::move(instruction), dtype, shapes.rows, layouts.rows,
                      shape, shape, layouts.table);
}

Value Recorder::AppendLookup(Instruction&& instruction, DType dtype,
                             const Shape& operand,
                             const TensorLayout& operand_layout,
                             const Shape& kept, const Shape& shape,
                             TensorLayout layout) {
  absl::InlinedVector<Cause, 1> causes;
  const bool by_rules = layout == RuleLayout(shape);
  LeaveUnreduced(operand, operand_layout, kept, ReduceKind::kSum, layout,
                 causes);
  const Value result =
      Append(std::move(instruction), dtype, shape, std::move(layout));
  program_.values[result.id].causes = std::move(causes);
  return by_rules ? result : Value{DemandRules(result)};
}

}  // namespace mtf
