// SPDX-License-Identifier: Apache-2.0
#include "lowering/recorder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lowering/reshape_layout.h"
#include "mtf/check.h"

namespace mtf {
namespace {

RuleSection SectionOf(const VariableInfo& variable) {
  return variable.kind == VariableKind::kParameter ? RuleSection::kParameters
                                                   : RuleSection::kOptimizer;
}

// The value that changes nothing when it is summed, or compared, with others.
bool IsIdentityMap(const MapExpression& expression) {
  return expression.steps.size() == 1 &&
         expression.steps[0].function == ScalarFunction::kIdentity;
}

}  // namespace

Recorder::Recorder(const LayoutBinding& binding, Program& program)
    : binding_(binding), program_(program) {}

void Recorder::Begin(const Operation& operation) {
  operation_ = &operation;
  name_ = operation.name();
  section_ = operation.section() == LayoutSection::kOptimizer
                 ? RuleSection::kOptimizer
                 : RuleSection::kDefault;
  origin_ = static_cast<int>(program_.origins.size());
  program_.origins.push_back({operation.name(), operation.call_site()});
}

void Recorder::BeginFetch(const Operation& operation) {
  Begin(operation);
  section_ = RuleSection::kDefault;
}

TensorLayout Recorder::RuleLayout(const Shape& shape) {
  return RuleLayout(shape, section_);
}

TensorLayout Recorder::RuleLayout(const Shape& shape, RuleSection section) {
  TensorLayout layout;
  layout.dims.reserve(shape.rank());
  for (const Dimension& dim : shape) {
    layout.dims.push_back(binding_.rules.AxesOf(section, dim.name));
  }
  const Shape* shapes[] = {&shape};
  if (!layout.IsLegal() && CheckUnion(shapes)) {
    // Only another section than the present one can clash unseen.
    const RuleSection present = std::exchange(section_, section);
    CheckUnion(shapes);
    section_ = present;
  }
  return layout;
}

std::string Recorder::InputName(size_t i, Value value) const {
  const bool known = operation_ != nullptr && i < operation_->inputs().size();
  return known ? operation_->inputs()[i].name() : at(value).name;
}

bool Recorder::CheckUnion(absl::Span<const Shape* const> shapes) {
  const Dimension* owner[kMaxMeshAxes] = {};
  for (const Shape* shape : shapes) {
    for (const Dimension& dim : *shape) {
      for (int axis : binding_.rules.AxesOf(section_, dim.name)) {
        if (owner[axis] == nullptr) owner[axis] = &dim;
        if (owner[axis]->name == dim.name) continue;
        if (!status_.ok()) return false;
        const std::string& axis_name = binding_.mesh.axes()[axis].name;
        const LayoutRule* first =
            binding_.rules.RuleOf(section_, owner[axis]->name);
        const LayoutRule* second = binding_.rules.RuleOf(section_, dim.name);
        std::string text = absl::StrCat(
            "dimensions \"", owner[axis]->name, "\" and \"", dim.name,
            "\" of one operation are both cut over mesh axis \"", axis_name,
            "\" (", program_.origins[origin_].operation, ", ",
            program_.origins[origin_].site.ToString(), ")");
        for (const Shape* each : shapes) {
          absl::StrAppend(&text, "\n  shape    [", each->ToString(), "]");
        }
        for (const LayoutRule* rule : {first, second}) {
          if (rule == nullptr) continue;
          absl::StrAppend(&text, "\n  rule     ", rule->ToString(), "   (",
                          rule->origin, ")");
        }
        absl::StrAppend(&text, "\n  mesh     ", binding_.mesh.ToString(),
                        "\n  help     give one of them another axis, or drop "
                        "one of the two rules");
        status_ = absl::InvalidArgumentError(text);
        return false;
      }
    }
  }
  return true;
}

Value Recorder::Append(Instruction instruction, DType dtype, const Shape& shape,
                       TensorLayout layout, absl::string_view suffix) {
  const int result = program_.AddValue(absl::StrCat(name_, suffix), dtype,
                                       shape, std::move(layout));
  reshards_.resize(program_.values.size());
  made_by_.resize(program_.values.size(), -1);
  made_by_[result] = origin_;
  instruction.results.push_back(result);
  instruction.origin = origin_;
  program_.instructions.push_back(std::move(instruction));
  return {result};
}

int Recorder::FindRule(const Cause& cause) {
  const auto place_of = [this](const LayoutRule& rule) {
    for (size_t i = 0; i < program_.rules.size(); ++i) {
      const LayoutRule& known = program_.rules[i];
      if (known.section == rule.section && known.dimension == rule.dimension) {
        return static_cast<int>(i);
      }
    }
    program_.rules.push_back(rule);
    return static_cast<int>(program_.rules.size()) - 1;
  };
  const auto cuts = [&](RuleSection section, absl::string_view dimension) {
    return binding_.rules.AxesOf(section, dimension).Contains(cause.axis);
  };
  for (RuleSection section : {section_, RuleSection::kParameters,
                              RuleSection::kOptimizer, RuleSection::kDefault}) {
    const LayoutRule* rule = binding_.rules.RuleOf(section, cause.dimension);
    if (rule != nullptr && cuts(section, cause.dimension)) {
      return place_of(*rule);
    }
  }
  // A renamed dimension is cut by the rule of the name it came from.
  for (const LayoutRule& rule : binding_.rules.rules()) {
    if (binding_.grains.Tied(rule.dimension, cause.dimension) &&
        cuts(rule.section, rule.dimension)) {
      return place_of(rule);
    }
  }
  return -1;
}

int Recorder::Demand(int value, const TensorLayout& target) {
  if (program_.values[value].layout == target) return value;
  // A sum is reduced once: whoever comes later starts from what came out.
  int source = value;
  for (int reshard : reshards_[value]) {
    if (program_.values[reshard].layout == target) return reshard;
    if (program_.values[value].layout.unreduced != 0 &&
        program_.values[reshard].layout.unreduced == 0 && source == value) {
      source = reshard;
    }
  }
  if (source != value) return Demand(source, target);

  Instruction reshard;
  reshard.opcode = Opcode::kReshard;
  reshard.operands = {value};
  const ProgramValue from = program_.values[value];  // values will move
  reshard.reduce_kind = from.layout.reduction;
  for (const Cause& cause : from.causes) {
    if ((target.unreduced >> cause.axis & 1) == 0) {
      reshard.causes.push_back(cause);
    }
  }
  for (int i = 0; i < from.shape.rank(); ++i) {
    const AxisList& before = from.layout.dims[i];
    const AxisList& after = target.dims[i];
    if (before == after) continue;
    for (const AxisList* axes : {&before, &after}) {
      for (int axis : *axes) {
        const Cause cause{axis, from.shape[i].name, -1};
        bool known = false;
        for (const Cause& other : reshard.causes) {
          known = known ||
                  (other.axis == axis && other.dimension == cause.dimension);
        }
        if (!known) reshard.causes.push_back(cause);
      }
    }
  }
  for (Cause& cause : reshard.causes) {
    if (cause.rule < 0) cause.rule = FindRule(cause);
  }

  const int result =
      program_.AddValue(from.name, from.dtype, from.shape, target);
  for (const Cause& cause : from.causes) {
    if (target.unreduced >> cause.axis & 1) {
      program_.values[result].causes.push_back(cause);
    }
  }
  reshards_.resize(program_.values.size());
  reshards_[value].push_back(result);
  made_by_.resize(program_.values.size(), -1);
  made_by_[result] = made_by_[value];
  reshard.results = {result};
  // A sum is explained by whoever left it pending, a gather by its reader.
  reshard.origin = from.layout.unreduced != 0 ? made_by_[value] : origin_;
  program_.instructions.push_back(std::move(reshard));
  return result;
}

void Recorder::LeaveUnreduced(const Shape& operand,
                              const TensorLayout& operand_layout,
                              const Shape& kept, ReduceKind kind,
                              TensorLayout& layout,
                              absl::InlinedVector<Cause, 1>& causes) {
  for (int i = 0; i < operand.rank(); ++i) {
    if (kept.Contains(operand[i].name)) continue;
    for (int axis : operand_layout.dims[i]) {
      if (layout.unreduced >> axis & 1) continue;
      layout.unreduced |= AxisSet{1} << axis;
      layout.reduction = kind;
      Cause cause{axis, operand[i].name, -1};
      cause.rule = FindRule(cause);
      causes.push_back(cause);
    }
  }
}

Value Recorder::Input(const std::string& name, DType dtype,
                      const Shape& shape) {
  Instruction instruction;
  instruction.opcode = Opcode::kInput;
  instruction.symbol = name;
  return Append(std::move(instruction), dtype, shape, RuleLayout(shape));
}

int Recorder::AddVariable(const VariableInfo& variable) {
  const auto [place, added] = variables_.try_emplace(
      variable.id, static_cast<int>(program_.variables.size()));
  if (added) {
    program_.variables.push_back(
        {variable.name, variable.dtype, variable.shape,
         RuleLayout(variable.shape, SectionOf(variable)), SectionOf(variable)});
  }
  return place->second;
}

Value Recorder::ReadVariable(const VariableInfo& variable) {
  const int place = AddVariable(variable);
  Instruction instruction;
  instruction.opcode = Opcode::kReadVariable;
  instruction.symbol = variable.name;
  return Append(std::move(instruction), variable.dtype, variable.shape,
                program_.variables[place].layout);
}

Value Recorder::WriteVariable(const VariableInfo& variable, Value value) {
  const auto [write, first] = writes_.try_emplace(variable.id, origin_);
  if (!first && status_.ok()) {
    const Origin &before = program_.origins[write->second],
                 &now = program_.origins[origin_];
    status_ = absl::InvalidArgumentError(absl::StrCat(
        "variable \"", variable.name, "\" is assigned twice in one step (",
        now.operation, ", ", now.site.ToString(), ")\n  before   ",
        before.operation, ", ", before.site.ToString(),
        "\n  help     assign it once, or in two steps"));
  }
  const int place = AddVariable(variable);
  // The order of dimensions of the variable is that of its storage.
  if (!(at(value).shape == variable.shape)) {
    value =
        Map(MapExpression::Single(ScalarFunction::kIdentity, variable.dtype, 1),
            {value}, variable.shape);
  }
  const TensorLayout layout = program_.variables[place].layout;
  Instruction instruction;
  instruction.opcode = Opcode::kWriteVariable;
  instruction.symbol = variable.name;
  instruction.operands = {Demand(value.id, layout)};
  return Append(std::move(instruction), variable.dtype, variable.shape, layout);
}

Value Recorder::Constant(std::vector<double> data, DType dtype,
                         const Shape& shape) {
  Instruction instruction;
  instruction.opcode = Opcode::kConstant;
  instruction.data = std::move(data);
  return Append(std::move(instruction), dtype, shape, RuleLayout(shape));
}

Value Recorder::Random(RandomKind kind, uint32_t stream, bool per_step,
                       DType dtype, const Shape& shape) {
  Instruction instruction;
  instruction.opcode = Opcode::kRandom;
  instruction.random_kind = kind;
  instruction.stream = stream;
  instruction.per_step = per_step;
  return Append(std::move(instruction), dtype, shape, RuleLayout(shape));
}

Value Recorder::Map(const MapExpression& expression,
                    absl::Span<const Value> operands, const Shape& shape) {
  Instruction instruction;
  instruction.opcode = Opcode::kMap;
  instruction.expression = expression;
  if (operands.size() == 1 && IsIdentityMap(expression) &&
      at(operands[0]).shape == shape &&
      at(operands[0]).dtype == expression.result_dtype()) {
    return operands[0];
  }
  TensorLayout layout = RuleLayout(shape);
  for (const Value& operand : operands) {
    instruction.operands.push_back(DemandRules(operand));
  }
  return Append(std::move(instruction), expression.result_dtype(), shape,
                std::move(layout));
}

Shape Recorder::KeptBy(absl::Span<const Value> operands, size_t next,
                       const Shape& product, const Shape& shape) const {
  Shape kept;
  for (const Dimension& dim : product) {
    bool needed = shape.Contains(dim.name);
    for (size_t i = next; i < operands.size() && !needed; ++i) {
      needed = at(operands[i]).shape.Contains(dim.name);
    }
    if (needed) kept = kept.With(dim);
  }
  return kept;
}

Value Recorder::CastTo(DType dtype, Value value) {
  if (at(value).dtype == dtype) return value;
  const Shape shape = at(value).shape;  // values will move
  return Map(MapExpression::Single(ScalarFunction::kCast, dtype, 1), {value},
             shape);
}

Value Recorder::Einsum(absl::Span<const Value> operands, const Shape& shape,
                       DType dtype) {
  std::vector<const Shape*> shapes;
  for (const Value& operand : operands) shapes.push_back(&at(operand).shape);
  // Copied: values move while instructions are appended.
  std::vector<Shape> copies;
  for (const Shape* each : shapes) copies.push_back(*each);
  for (size_t i = 0; i < copies.size(); ++i) shapes[i] = &copies[i];
  if (!CheckUnion(shapes)) {
    return Append({}, dtype, shape, TensorLayout::Replicated(shape.rank()));
  }
  // Sums on the way to the result are as wide as it is.
  absl::InlinedVector<Value, 4> wide(operands.begin(), operands.end());
  if (operands.size() != 2) {
    for (Value& operand : wide) operand = CastTo(dtype, operand);
    operands = wide;
  }
  if (operands.size() == 1) {
    return Reduce(ReduceKind::kSum, operands[0], shape);
  }
  // More than two operands meet left to right; a dimension is summed as soon
  // as nobody further right needs it.
  Value product = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    if (i + 1 == operands.size()) {
      return BinaryEinsum(product, operands[i], shape, dtype);
    }
    Shape both = at(product).shape;
    for (const Dimension& dim : at(operands[i]).shape) {
      if (!both.Contains(dim.name)) both = both.With(dim);
    }
    product = BinaryEinsum(product, operands[i],
                           KeptBy(operands, i + 1, both, shape), dtype);
  }
  return product;
}

Value Recorder::BinaryEinsum(Value x, Value y, const Shape& shape,
                             DType dtype) {
  // What only one operand has and the result lacks is summed before they meet.
  const Shape x_shape = at(x).shape, y_shape = at(y).shape;
  Value operands[2] = {x, y};
  bool contracts = false;
  for (int side = 0; side < 2; ++side) {
    const Shape& mine = side == 0 ? x_shape : y_shape;
    const Shape& other = side == 0 ? y_shape : x_shape;
    Shape kept;
    for (const Dimension& dim : mine) {
      if (shape.Contains(dim.name) || other.Contains(dim.name)) {
        kept = kept.With(dim);
      }
      contracts =
          contracts || (other.Contains(dim.name) && !shape.Contains(dim.name));
    }
    if (kept.rank() < mine.rank()) {
      operands[side] =
          Reduce(ReduceKind::kSum, CastTo(dtype, operands[side]), kept);
    }
  }
  if (!contracts || at(operands[0]).dtype != at(operands[1]).dtype) {
    for (Value& operand : operands) operand = CastTo(dtype, operand);
  }
  if (!contracts) {
    return Map(MapExpression::Single(ScalarFunction::kMultiply, dtype, 2),
               operands, shape);
  }
  Instruction instruction;
  instruction.opcode = Opcode::kEinsum;
  TensorLayout layout = RuleLayout(shape);
  absl::InlinedVector<Cause, 1> causes;
  for (const Value& operand : operands) {
    const int id = DemandRules(operand);
    instruction.operands.push_back(id);
    LeaveUnreduced(program_.values[id].shape, program_.values[id].layout, shape,
                   ReduceKind::kSum, layout, causes);
  }
  const Value result =
      Append(std::move(instruction), dtype, shape, std::move(layout));
  program_.values[result.id].causes = std::move(causes);
  return result;
}

Value Recorder::Reduce(ReduceKind kind, Value value, const Shape& shape) {
  const Shape operand = at(value).shape;
  const DType dtype = at(value).dtype;
  if (operand.SameDimensions(shape)) {
    return Map(MapExpression::Single(ScalarFunction::kIdentity, dtype, 1),
               {value}, shape);
  }
  Instruction instruction;
  instruction.opcode = Opcode::kReduce;
  instruction.reduce_kind = kind;
  instruction.expression =
      MapExpression::Single(ScalarFunction::kIdentity, dtype, 1);
  instruction.iteration = operand;
  instruction.iteration_layout = RuleLayout(operand);
  const int id = Demand(value.id, instruction.iteration_layout);
  instruction.operands = {id};
  TensorLayout layout = RuleLayout(shape);
  absl::InlinedVector<Cause, 1> causes;
  LeaveUnreduced(operand, instruction.iteration_layout, shape, kind, layout,
                 causes);
  const Value result =
      Append(std::move(instruction), dtype, shape, std::move(layout));
  program_.values[result.id].causes = std::move(causes);
  return result;
}

Value Recorder::Reshape(Value value, const Shape& shape) {
  // The cuts are those of the operand, but a clash of rules is one anywhere.
  const Shape* shapes[] = {&shape};
  CheckUnion(shapes);
  const ReshapeLayouts layouts = LineUpReshape(
      binding_.grains, at(value).shape, at(value).layout.Reduced(), shape);
  Instruction instruction;
  instruction.opcode = Opcode::kReshape;
  instruction.operands = {Demand(value.id, layouts.before)};
  return Append(std::move(instruction), at(value).dtype, shape, layouts.after);
}

Value Recorder::Whole(Value value, absl::Span<const std::string> dimensions) {
  TensorLayout layout = at(value).layout.Reduced();
  for (const std::string& dimension : dimensions) {
    const int i = at(value).shape.Find(dimension);
    if (i >= 0) layout.dims[i] = {};
  }
  return {Demand(value.id, layout)};
}

Value Recorder::Slice(Value value, const std::string& dimension, int64_t begin,
                      int64_t size) {
  const std::string dims[] = {dimension};
  value = Whole(value, dims);
  Instruction instruction;
  instruction.opcode = Opcode::kSlice;
  instruction.operands = {value.id};
  instruction.dimension = dimension;
  instruction.begin = begin;
  const Shape shape = at(value).shape.Resized(dimension, size);
  return Append(std::move(instruction), at(value).dtype, shape,
                TensorLayout(at(value).layout));
}

Value Recorder::Pad(Value value, const std::string& dimension, int64_t before,
                    int64_t after, double fill) {
  const std::string dims[] = {dimension};
  value = Whole(value, dims);
  Instruction instruction;
  instruction.opcode = Opcode::kPad;
  instruction.operands = {value.id};
  instruction.dimension = dimension;
  instruction.begin = before;
  instruction.fill = fill;
  const Shape shape = at(value).shape.Resized(
      dimension, before + at(value).shape.SizeOf(dimension) + after);
  return Append(std::move(instruction), at(value).dtype, shape,
                TensorLayout(at(value).layout));
}

Value Recorder::Concat(absl::Span<const Value> values,
                       const std::string& dimension) {
  Instruction instruction;
  instruction.opcode = Opcode::kConcat;
  instruction.dimension = dimension;
  int64_t size = 0;
  Shape shape;
  TensorLayout layout;
  const Shape order = at(values[0]).shape;
  for (Value value : values) {
    size += at(value).shape.SizeOf(dimension);
    // All in the order of the first.
    Shape aligned;
    for (const Dimension& dim : order) {
      aligned = aligned.With({dim.name, at(value).shape.SizeOf(dim.name)});
    }
    if (!(at(value).shape == aligned)) {
      value = Map(
          MapExpression::Single(ScalarFunction::kIdentity, at(value).dtype, 1),
          {value}, aligned);
    }
    layout = RuleLayout(aligned);
    layout.dims[aligned.Find(dimension)] = {};
    instruction.operands.push_back(Demand(value.id, layout));
  }
  shape = order.Resized(dimension, size);
  return Append(std::move(instruction), at(values[0]).dtype, shape, layout);
}

Value Recorder::Gather(Value table, Value indices, const std::string& dimension,
                       const Shape& shape) {
  const Shape table_shape = at(table).shape, indices_shape = at(indices).shape;
  const Shape* shapes[] = {&table_shape, &indices_shape};
  CheckUnion(shapes);
  Instruction instruction;
  instruction.opcode = Opcode::kGather;
  instruction.dimension = dimension;
  instruction.symbol = InputName(1, indices);
  const int rows = DemandRules(table);
  instruction.operands = {rows, DemandRules(indices)};
  TensorLayout layout = RuleLayout(shape);
  absl::InlinedVector<Cause, 1> causes;
  // Each device finds the rows it holds and leaves zeros for the others.
  LeaveUnreduced(table_shape, program_.values[rows].layout,
                 table_shape.Without(dimension), ReduceKind::kSum, layout,
                 causes);
  const Value result =
      Append(std::move(instruction), at(table).dtype, shape, std::move(layout));
  program_.values[result.id].causes = std::move(causes);
  return result;
}

Value Recorder::ScatterAdd(Value updates, Value indices,
                           const std::string& dimension, const Shape& shape) {
  const Shape updates_shape = at(updates).shape;
  const Shape* shapes[] = {&updates_shape, &shape};
  CheckUnion(shapes);
  Instruction instruction;
  instruction.opcode = Opcode::kScatterAdd;
  instruction.dimension = dimension;
  instruction.symbol = InputName(1, indices);
  const int added = DemandRules(updates);
  instruction.operands = {added, DemandRules(indices)};
  TensorLayout layout = RuleLayout(shape);
  absl::InlinedVector<Cause, 1> causes;
  LeaveUnreduced(updates_shape, program_.values[added].layout, shape,
                 ReduceKind::kSum, layout, causes);
  const Value result = Append(std::move(instruction), at(updates).dtype, shape,
                              std::move(layout));
  program_.values[result.id].causes = std::move(causes);
  return result;
}

void Recorder::Output(Value value, const std::string& name, bool as_shards) {
  Instruction instruction;
  instruction.opcode = Opcode::kOutput;
  instruction.symbol = name;
  const TensorLayout layout =
      as_shards ? at(value).layout.Reduced()
                : TensorLayout::Replicated(at(value).shape.rank());
  instruction.operands = {Demand(value.id, layout)};
  instruction.origin = origin_;
  program_.instructions.push_back(std::move(instruction));
}

}  // namespace mtf
