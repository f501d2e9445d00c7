// SPDX-License-Identifier: Apache-2.0
#include "lowering/emit/recorder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"

namespace mtf {

Recorder::Recorder(const LayoutBinding& binding, AttentionSupport attention,
                   Program& program)
    : binding_(binding), attention_(attention), program_(program) {}

void Recorder::UseRulesOf(const Operation& operation, const Operation& outer) {
  const std::tuple<RuleSection, int, int> before = {section_, module_,
                                                    conflict_};
  section_ = operation.section() == LayoutSection::kOptimizer
                 ? RuleSection::kOptimizer
                 : RuleSection::kDefault;
  module_ = binding_.rules.ModuleOf(outer.scope());
  scope_name_ = outer.graph().scopes()[outer.scope()];
  UseConflict(operation.axis_conflict());
  const auto now = std::tie(section_, module_, conflict_);
  if (current_layouts_ == nullptr || before != now) {
    current_layouts_ = &rule_layouts_[now];
  }
}

void Recorder::UseConflict(const AxisConflict* conflict) {
  yielding_.clear();
  conflict_ = 0;
  if (conflict == nullptr) return;
  AxisSet taken = 0;
  for (const std::string& dimension : conflict->sharded) {
    taken |= SetOf(AxesOf(dimension));
  }
  std::string key;
  std::vector<YieldingDimension> yielding;
  for (const std::string& dimension : conflict->yielding) {
    const AxisList& axes = AxesOf(dimension);
    if ((SetOf(axes) & taken) == 0) continue;
    AxisList rest;
    absl::StrAppend(&key, dimension, ":");
    for (int axis : axes) {
      if ((taken >> axis & 1) != 0) continue;
      rest.push_back(axis);
      absl::StrAppend(&key, axis, "+");
    }
    yielding.push_back({dimension, rest});
  }
  if (yielding.empty()) return;
  yielding_ = std::move(yielding);
  conflict_ =
      conflicts_.try_emplace(key, static_cast<int>(conflicts_.size()) + 1)
          .first->second;
}

void Recorder::Begin(const Operation& operation, const Operation& outer,
                     uint32_t read_results) {
  UseRulesOf(operation, outer);
  operation_ = &operation;
  read_results_ = read_results;
  name_ = operation.name();
  origin_ = static_cast<int>(program_.origins.size());
  program_.origins.push_back({operation.name(), operation.call_site()});
  module_of_origin_.push_back(module_);
  conflict_of_origin_.push_back(conflict_);
}

void Recorder::BeginFetch(const Operation& operation) {
  Begin(operation, operation);
  section_ = RuleSection::kDefault;
  module_ = module_of_origin_.back() = 0;
  UseConflict(nullptr);
  conflict_of_origin_.back() = 0;
  current_layouts_ = &rule_layouts_[{section_, module_, conflict_}];
}

const AxisList& Recorder::AxesOf(const std::string& dimension) const {
  for (const YieldingDimension& yielding : yielding_) {
    if (yielding.name == dimension) return yielding.axes;
  }
  return binding_.rules.AxesOf(section_, dimension, module_);
}

const TensorLayout& Recorder::RuleLayout(const Shape& shape) {
  const TensorLayout& layout =
      current_layouts_->Get(shape, [this](const Shape& each) {
        TensorLayout by_rules;
        by_rules.dims.reserve(each.rank());
        for (const Dimension& dim : each) {
          by_rules.dims.push_back(AxesOf(dim.name));
        }
        return by_rules;
      });
  const Shape* shapes[] = {&shape};
  if (!layout.IsLegal()) CheckUnion(shapes);
  return layout;
}

std::string Recorder::InputName(size_t i, Value value) const {
  const bool known = operation_ != nullptr && i < operation_->inputs().size();
  return known ? operation_->inputs()[i].name() : at(value).name;
}

std::string Recorder::WaysOut(absl::Span<const Shape* const> shapes,
                              const Dimension& first,
                              const Dimension& second) const {
  std::vector<bool> used(binding_.mesh.axes().size(), false);
  for (const Shape* shape : shapes) {
    for (const Dimension& dim : *shape) {
      for (int axis : AxesOf(dim.name)) {
        used[axis] = true;
      }
    }
  }
  std::vector<std::string> unused;
  for (size_t axis = 0; axis < used.size(); ++axis) {
    const MeshAxis& mesh_axis = binding_.mesh.axes()[axis];
    if (!used[axis] && mesh_axis.size > 1) {
      unused.push_back(Quoted(mesh_axis.name));
    }
  }
  // The section of variables that has one of the rules, which a section for the
  // scope would not override.
  std::string section;
  for (const Dimension* dim : {&first, &second}) {
    const LayoutRule* rule =
        binding_.rules.RuleOf(section_, dim->name, module_);
    if (rule != nullptr && (rule->section == RuleSection::kParameters ||
                            rule->section == RuleSection::kOptimizer)) {
      section = std::string(RuleSectionName(rule->section));
    }
  }
  return DetailLine(
      "help",
      absl::StrCat(
          "drop one of the two rules, give one of the dimensions another axis",
          unused.empty()
              ? ""
              : absl::StrCat(" (free here: ", absl::StrJoin(unused, ", "), ")"),
          !section.empty()
              ? absl::StrCat(", or replicate one of them in the section [",
                             section, "] of the layout")
          : scope_name_.empty()
              ? absl::StrCat(", or Rename() ", Quoted(first.name), " or ",
                             Quoted(second.name),
                             " before this operation, to a name with other "
                             "rules")
              : absl::StrCat(
                    ", or replicate one of them here, in a section [in ",
                    scope_name_, "] of the layout")));
}

bool Recorder::CheckUnion(absl::Span<const Shape* const> shapes) {
  const Dimension* owner[kMaxMeshAxes] = {};
  for (const Shape* shape : shapes) {
    for (const Dimension& dim : *shape) {
      for (int axis : AxesOf(dim.name)) {
        if (owner[axis] == nullptr) owner[axis] = &dim;
        if (owner[axis]->name == dim.name) continue;
        if (!status_.ok()) return false;
        const std::string& axis_name = binding_.mesh.axes()[axis].name;
        const LayoutRule* first =
            binding_.rules.RuleOf(section_, owner[axis]->name, module_);
        const LayoutRule* second =
            binding_.rules.RuleOf(section_, dim.name, module_);
        std::string text = absl::StrCat(
            "dimensions \"", owner[axis]->name, "\" and \"", dim.name,
            "\" of one operation are both sharded over mesh axis \"", axis_name,
            "\" (", program_.origins[origin_].operation, ", ",
            program_.origins[origin_].site.ToString(), ")");
        for (const Shape* each : shapes) {
          absl::StrAppend(&text, "\n  shape    [", each->ToString(), "]");
        }
        for (const LayoutRule* rule : {first, second}) {
          if (rule == nullptr) continue;
          absl::StrAppend(&text, "\n  rule     ", rule->TextWithSection(),
                          "   (", rule->origin, ")");
        }
        absl::StrAppend(&text, "\n  mesh     ", binding_.mesh.ToString());
        // A section for a misspelt scope may be meant to prevent this.
        for (const std::string& notice : binding_.rules.scope_notices()) {
          absl::StrAppend(&text, "\n  note     ", notice);
        }
        text += WaysOut(shapes, *owner[axis], dim);
        status_ = absl::InvalidArgumentError(text);
        return false;
      }
    }
  }
  return true;
}

Value Recorder::AddFirstResult(DType dtype, const Shape& shape,
                               TensorLayout layout, absl::string_view name) {
  const int result = program_.AddValue(name, dtype, shape, std::move(layout));
  reshards_.emplace_back();
  origin_of_value_.push_back(origin_);
  Instruction& instruction = program_.instructions.back();
  instruction.results.push_back(result);
  instruction.origin = origin_;
  return {result};
}

Value Recorder::AddResult(int instruction, DType dtype, const Shape& shape) {
  const int first = program_.instructions[instruction].results[0];
  const int result = program_.AddValue(
      name_, dtype, shape, TensorLayout(program_.values[first].layout));
  reshards_.emplace_back();
  origin_of_value_.push_back(origin_);
  program_.instructions[instruction].results.push_back(result);
  return {result};
}

int Recorder::FindRule(const Cause& cause, int module) {
  const auto index_of = [this](const LayoutRule& rule) {
    for (size_t i = 0; i < program_.rules.size(); ++i) {
      if (program_.rules[i].Rules(rule)) return static_cast<int>(i);
    }
    program_.rules.push_back(rule);
    return static_cast<int>(program_.rules.size()) - 1;
  };
  for (RuleSection section : {section_, RuleSection::kParameters,
                              RuleSection::kOptimizer, RuleSection::kDefault}) {
    for (int each : {module_, module, 0}) {
      if (binding_.rules.AxesOf(section, cause.dimension, each)
              .Contains(cause.axis)) {
        return index_of(*binding_.rules.RuleOf(section, cause.dimension, each));
      }
    }
  }
  // A renamed dimension is sharded by the rule of its original name.
  const std::string& axis = binding_.mesh.axes()[cause.axis].name;
  for (const LayoutRule& rule : binding_.rules.rules()) {
    if (binding_.grains.Tied(rule.dimension, cause.dimension) &&
        std::find(rule.axes.begin(), rule.axes.end(), axis) !=
            rule.axes.end()) {
      return index_of(rule);
    }
  }
  return -1;
}

int Recorder::Demand(int value, const TensorLayout& target) {
  if (program_.values[value].layout == target) return value;
  if (const auto slice = gathered_.find(value); slice != gathered_.end()) {
    return Demand(slice->second, target);
  }
  // An unreduced value is reduced once; later reshards start from the result.
  int source = value;
  for (int reshard : reshards_[value]) {
    if (program_.values[reshard].layout == target) return reshard;
    if (program_.values[value].layout.unreduced != 0 &&
        program_.values[reshard].layout.unreduced == 0 && source == value) {
      source = reshard;
    }
  }
  if (source != value) return Demand(source, target);

  Instruction reshard(Opcode::kReshard);
  reshard.operands = {value};
  const ProgramValue from = program_.values[value];  // AddValue may reallocate
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
  const int module = module_of_origin_[origin_of_value_[value]];
  for (Cause& cause : reshard.causes) {
    if (cause.rule < 0) cause.rule = FindRule(cause, module);
  }

  const int result =
      program_.AddValue(from.name, from.dtype, from.shape, target);
  for (const Cause& cause : from.causes) {
    if (target.unreduced >> cause.axis & 1) {
      program_.values[result].causes.push_back(cause);
    }
  }
  reshards_.emplace_back();
  reshards_[value].push_back(result);
  origin_of_value_.push_back(origin_of_value_[value]);
  reshard.results = {result};
  // A reduction is attributed to the operation that left the value unreduced, a
  // gather to the operation that reads it.
  reshard.origin =
      from.layout.unreduced != 0 ? origin_of_value_[value] : origin_;
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

}  // namespace mtf
