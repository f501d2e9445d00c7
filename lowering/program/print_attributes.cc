// SPDX-License-Identifier: Apache-2.0
//
// parse_attributes.cc reads what this prints, struct by struct in the same
// order.
#include "lowering/program/print_attributes.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace mtf::internal {
namespace {

absl::string_view ReduceKindName(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "sum";
    case ReduceKind::kMax:
      return "max";
    case ReduceKind::kMin:
      return "min";
  }
  return "?";
}

class AttributesPrinter {
 public:
  AttributesPrinter(const Program& program, const VariableMarks& marks,
                    const Instruction& instruction)
      : program_(program), marks_(marks), instruction_(instruction) {}

  std::string operator()(const MapAttributes& map) const {
    return absl::StrCat(" ", map.expression.ToString());
  }

  std::string operator()(const NoAttributes&) const { return ""; }

  std::string operator()(const NameAttributes& named) const {
    const absl::string_view mark = MarkOf(named.name);
    return absl::StrCat(" ", NameText(named.name),
                        mark.empty() ? "" : absl::StrCat(" [", mark, "]"));
  }

  std::string operator()(const ConstantAttributes& constant) const {
    return absl::StrCat(" {",
                        absl::StrJoin(constant.elements, ", ",
                                      [](std::string* out, double value) {
                                        out->append(NumberText(value));
                                      }),
                        "}");
  }

  std::string operator()(const RandomAttributes& random) const {
    return absl::StrCat(
        random.kind == RandomKind::kUniform ? " uniform" : " normal",
        " stream ", random.stream, random.per_step ? " per_step" : "");
  }

  std::string operator()(const EinsumAttributes& einsum) const {
    std::string text = SummedDimensions();
    if (einsum.plan != nullptr) {
      absl::StrAppend(&text, " by{", einsum.plan->ToString(), "}");
    }
    return text;
  }

  // A reduction of its operand in its own layout is not spelled out.
  std::string operator()(const ReduceAttributes& reduce) const {
    std::string text = absl::StrCat(" ", ReduceKindName(reduce.kind));
    const std::string expression = reduce.expression.ToString();
    const ProgramValue* operand =
        instruction_.operands.empty()
            ? nullptr
            : &program_.values[instruction_.operands[0]];
    const bool is_plain = expression == "identity" && operand != nullptr &&
                          operand->shape == reduce.iteration &&
                          operand->layout.dims == reduce.iteration_layout.dims;
    if (!is_plain) {
      absl::StrAppend(
          &text, " ", expression, " over ",
          DimensionsText(program_, reduce.iteration, reduce.iteration_layout,
                         reduce.iteration_local));
    }
    return text;
  }

  std::string operator()(const SliceAttributes& slice) const {
    return absl::StrCat(" ", slice.dimension, " begin ", slice.begin);
  }

  std::string operator()(const PadAttributes& pad) const {
    return absl::StrCat(" ", pad.dimension, " before ", pad.before, " fill ",
                        NumberText(pad.fill));
  }

  std::string operator()(const ConcatAttributes& concat) const {
    return absl::StrCat(" ", concat.dimension);
  }

  std::string operator()(const RowsAttributes& rows) const {
    std::string text = absl::StrCat(" ", rows.dimension, " from{");
    for (size_t k = 0; k < rows.sizes.size(); ++k) {
      absl::StrAppend(&text, k > 0 ? ", " : "", rows.sizes[k], " at ",
                      rows.offsets[k], rows.replicated[k] ? " replicated" : "");
    }
    absl::StrAppend(&text, "} to ", rows.windows);
    const auto add = [&](bool is_set, const auto&... parts) {
      if (is_set) absl::StrAppend(&text, " ", parts...);
    };
    add(rows.stride != 1, "stride ", rows.stride);
    add(rows.span != 1, "span ", rows.span);
    add(rows.wrap, "wrap");
    add(rows.adds, "adds");
    add(rows.fill != 0, "fill ", NumberText(rows.fill));
    add(rows.round >= 0, "round ", rows.round);
    add(!rows.axes.empty(), Over(rows.axes));
    return text;
  }

  std::string operator()(const WindowAttributes& windows) const {
    std::string text = absl::StrCat(" ", windows.dimension, ", ",
                                    windows.window, " of ", windows.line);
    if (windows.stride != 1) absl::StrAppend(&text, " stride ", windows.stride);
    if (windows.dilation != 1) {
      absl::StrAppend(&text, " dilation ", windows.dilation);
    }
    return text;
  }

  std::string operator()(const GatherAttributes& gather) const {
    return absl::StrCat(" ", gather.dimension);
  }

  std::string operator()(const CheckIndexAttributes& check) const {
    return absl::StrCat(" ", check.rows, " of ", check.dimension, ":",
                        check.size);
  }

  std::string operator()(const DynamicSliceAttributes& slice) const {
    return absl::StrCat(" ", slice.dimension);
  }

  std::string operator()(const ScanAttributes& scan) const {
    return absl::StrCat(" ", ReduceKindName(scan.kind), " ", scan.dimension,
                        scan.exclusive ? " exclusive" : "",
                        scan.reverse ? " reverse" : "");
  }

  std::string operator()(const ReduceBlocksAttributes& blocks) const {
    return absl::StrCat(" ", ReduceKindName(blocks.kind), " ",
                        blocks.dimension);
  }

  std::string operator()(const TopKAttributes& top_k) const {
    return absl::StrCat(" ", top_k.dimension, top_k.least ? " least" : "");
  }

  std::string operator()(const AttentionAttributes& attention) const {
    const AttentionSpec& spec = attention.spec;
    std::string text = absl::StrCat(
        " ", spec.length, " to ", spec.memory_length, " over ", spec.d_kv,
        " values ", spec.d_v, " scale ", NumberText(spec.scale));
    const auto add = [&](bool is_set, const auto&... parts) {
      if (is_set) absl::StrAppend(&text, " ", parts...);
    };
    add(spec.soft_cap > 0, "soft_cap ", NumberText(spec.soft_cap));
    add(spec.causal, "causal");
    add(spec.window > 0, "window ", spec.window);
    add(spec.dropout > 0, "dropout ", NumberText(spec.dropout), " stream ",
        spec.stream);
    add(attention.mask, "mask");
    add(attention.bias, "bias");
    add(attention.offset, "offset");
    add(attention.extra_logit, "extra_logit");
    add(attention.logsumexp_gradient, "logsumexp_gradient");
    add(attention.bias_gradient, "bias_gradient");
    add(attention.extra_logit_gradient, "extra_logit_gradient");
    add(attention.ring, "ring ", attention.shift);
    add(attention.striped, "striped");
    add(attention.continues, "continues");
    return text;
  }

  std::string operator()(const MaskAttributes& mask) const {
    std::string text;
    for (int dim : mask.dims) {
      absl::StrAppend(&text, text.empty() ? " " : ", ", DimensionName(0, dim));
    }
    return absl::StrCat(text, " fill ", NumberText(mask.fill));
  }

  std::string operator()(const CollectiveAttributes& collective) const {
    return absl::StrCat(" ", CollectiveText(collective),
                        collective.asynchronous ? " asynchronous" : "");
  }

 private:
  absl::string_view MarkOf(absl::string_view name) const {
    if (instruction_.opcode != Opcode::kReadVariable &&
        instruction_.opcode != Opcode::kWriteVariable) {
      return "";
    }
    const auto mark = marks_.find(name);
    return mark == marks_.end() ? absl::string_view() : mark->second;
  }

  // Dimension `dim` of operand `i`, "?" if it does not exist.
  absl::string_view DimensionName(size_t i, int dim) const {
    if (i >= instruction_.operands.size()) return "?";
    const Shape& shape = program_.values[instruction_.operands[i]].shape;
    if (dim < 0 || dim >= shape.rank()) return "?";
    return shape[dim].name;
  }

  std::string SummedDimensions() const {
    if (instruction_.results.empty()) return "";
    std::vector<absl::string_view> summed;
    const Shape& kept = program_.values[instruction_.results[0]].shape;
    for (int operand : instruction_.operands) {
      for (const Dimension& dim : program_.values[operand].shape) {
        if (!kept.Contains(dim.name) &&
            std::find(summed.begin(), summed.end(), dim.name) == summed.end()) {
          summed.push_back(dim.name);
        }
      }
    }
    return absl::StrCat(" sum{", absl::StrJoin(summed, ", "), "}");
  }

  std::string CollectiveText(const CollectiveAttributes& collective) const {
    const std::string over = Over(collective.axes);
    switch (instruction_.opcode) {
      case Opcode::kAllReduce:
        return absl::StrCat(ReduceKindName(collective.reduction), " ", over);
      case Opcode::kReduceScatter:
        return absl::StrCat(ReduceKindName(collective.reduction), " ",
                            ScatteredDimensions(collective), " ", over);
      case Opcode::kAllToAll:
        if (collective.stripes != CollectiveAttributes::Stripes::kNone) {
          return absl::StrCat(
              DimensionName(0, collective.dim),
              collective.stripes == CollectiveAttributes::Stripes::kForm
                  ? " into stripes "
                  : " from stripes ",
              over);
        }
        return absl::StrCat(DimensionName(0, collective.from_dim), " to ",
                            DimensionName(0, collective.dim), " ", over);
      case Opcode::kCollectivePermute:
        if (!collective.sources.empty()) {
          return absl::StrCat("from{", absl::StrJoin(collective.sources, ", "),
                              "} ", over);
        }
        return collective.shift == 0
                   ? over
                   : absl::StrCat("shift ", collective.shift, " ", over);
      default:  // all_gather, all_slice
        return absl::StrCat(DimensionName(0, collective.dim), " ", over);
    }
  }

  std::string ScatteredDimensions(
      const CollectiveAttributes& collective) const {
    std::vector<absl::string_view> names;
    const size_t count =
        std::min(instruction_.operands.size(), instruction_.results.size());
    for (size_t i = 0; i < count; ++i) {
      const int dim =
          i == 0 ? collective.dim
                 : program_.ScatteredDim(instruction_, static_cast<int>(i));
      names.push_back(DimensionName(i, dim));
    }
    return absl::StrJoin(names, ", ");
  }

  std::string Over(const AxisList& axes) const {
    for (int axis : axes) {
      if (axis < 0 || axis >= program_.mesh.num_axes()) return "over{?}";
    }
    return absl::StrCat("over{", program_.mesh.AxisNames(axes, ", "), "}");
  }

  const Program& program_;
  const VariableMarks& marks_;
  const Instruction& instruction_;
};

}  // namespace

std::string NameText(absl::string_view name) {
  bool plain = !name.empty();
  for (char c : name) {
    plain = plain && (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                      absl::StrContains("_-./", c));
  }
  if (plain) return std::string(name);
  return absl::StrCat(
      "\"", absl::StrReplaceAll(absl::CEscape(name), {{" ", "\\040"}}), "\"");
}

std::string DimensionsText(const Program& program, const Shape& shape,
                           const TensorLayout& layout,
                           const absl::InlinedVector<int64_t, 5>& local) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", shape[i].name, ":",
                    shape[i].size);
    const size_t index = static_cast<size_t>(i);
    if (index < layout.dims.size() && !layout.dims[i].empty()) {
      absl::StrAppend(&text, "/", program.mesh.AxisNames(layout.dims[i], "+"));
    }
    if (index < local.size() && local[i] != shape[i].size) {
      absl::StrAppend(&text, "=", local[i]);
    }
  }
  text += "]";
  if (layout.unreduced != 0) {
    absl::StrAppend(&text, " unreduced{",
                    program.mesh.AxisNames(ListOf(layout.unreduced), ", "),
                    "}");
    if (layout.reduction != ReduceKind::kSum) {
      absl::StrAppend(&text, " ", ReduceKindName(layout.reduction));
    }
  }
  return text;
}

std::string AttributesText(const Program& program, const VariableMarks& marks,
                           const Instruction& instruction) {
  return std::visit(AttributesPrinter(program, marks, instruction),
                    instruction.attributes);
}

}  // namespace mtf::internal
