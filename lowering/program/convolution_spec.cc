// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/convolution_spec.h"

#include <algorithm>
#include <string>

#include "absl/strings/string_view.h"

namespace mtf {
namespace {

using Spatial = ConvolutionSpec::Spatial;

// One windowed dimension of a chain, by the names in its values.
struct WindowedDimension {
  std::string input, output, window;
  Spatial extents;
};

// Analyses a chain of instructions; `spec` is valid if Find() returns true.
class ConvolutionFinder {
 public:
  ConvolutionFinder(const Program& program, absl::Span<const int> members)
      : program_(program), members_(members) {}

  bool Find(ConvolutionSpec* spec) {
    if (members_.size() < 2) return false;
    const bool folds = IsProduct(At(0));
    const Instruction& einsum = folds ? At(0) : At(members_.size() - 1);
    if (!IsProduct(einsum) || !IsChain(folds)) return false;
    if (!(folds ? FindFolds() : FindWindows()) || !Complete()) return false;
    spec_.computes = ConvolutionSpec::Computes::kInput;
    if (!folds) {
      // The windows are one operand of the einsum; if the other one has them as
      // well, it is the filter.
      const int windows = ResultOf(members_.size() - 2);
      const int other = einsum.operands[einsum.operands[0] == windows ? 1 : 0];
      if (other == windows) return false;
      const bool is_filter = Value(other).shape.Contains(dims_[0].window);
      spec_.computes = is_filter ? ConvolutionSpec::Computes::kOutput
                                 : ConvolutionSpec::Computes::kFilter;
      spec_.filter = is_filter ? other : einsum.results[0];
      spec_.output = is_filter ? einsum.results[0] : other;
    } else {
      const bool first =
          Value(einsum.operands[0]).shape.Contains(dims_[0].window);
      spec_.filter = einsum.operands[first ? 0 : 1];
      spec_.output = einsum.operands[first ? 1 : 0];
      if (spec_.filter == spec_.output) return false;
    }
    if (!HaveOneFloat() || !FindRoles()) return false;
    *spec = spec_;
    return true;
  }

 private:
  const Instruction& At(size_t i) const {
    return program_.instructions[members_[i]];
  }
  const ProgramValue& Value(int value) const { return program_.values[value]; }
  int ResultOf(size_t i) const { return At(i).results[0]; }

  // Whether each member reads the result of the one before it, and those that
  // are not einsums read nothing else.
  bool IsChain(bool folds) const {
    for (size_t i = 0; i < members_.size(); ++i) {
      const Instruction& member = At(i);
      const bool is_einsum = i == (folds ? 0 : members_.size() - 1);
      const Opcode moves = folds ? Opcode::kFoldWindows : Opcode::kWindows;
      if (!is_einsum && member.opcode != moves &&
          !(member.opcode == Opcode::kPlaceRows && IsZeroPadding(member) &&
            member.Get<RowsAttributes>().adds == folds)) {
        return false;
      }
      if (i == 0) continue;
      if (std::find(member.operands.begin(), member.operands.end(),
                    ResultOf(i - 1)) == member.operands.end()) {
        return false;
      }
    }
    return true;
  }

  // Adds the dimension of a windows or fold_windows. Its line is an input
  // dimension unless a place_rows made it of one, which Complete() replaces.
  bool AddWindows(const Instruction& instruction, int in_windows) {
    const auto& windows = instruction.Get<WindowAttributes>();
    const ProgramValue& value = Value(in_windows);
    WindowedDimension dim{windows.line, windows.dimension, windows.window, {}};
    dim.extents.output = Extent(value, windows.dimension);
    dim.extents.window = Extent(value, windows.window);
    dim.extents.stride = windows.stride;
    dim.extents.dilation = windows.dilation;
    for (const WindowedDimension& other : dims_) {
      if (other.output == dim.output) return false;
    }
    dims_.push_back(std::move(dim));
    return HasNoPadding(value, windows.dimension) && dims_.size() <= 3;
  }

  // Records that `line` is the dimension of `rows` with zeros around it.
  void AddPadding(const RowsAttributes& rows, const std::string& line) {
    padding_.push_back({line, rows.dimension, rows.offsets[0]});
  }

  bool FindWindows() {
    for (size_t i = 0; i + 1 < members_.size(); ++i) {
      const Instruction& member = At(i);
      if (member.opcode == Opcode::kWindows) {
        if (!AddWindows(member, member.results[0])) return false;
        continue;
      }
      const auto& rows = member.Get<RowsAttributes>();
      const int dim = Value(member.operands[0]).shape.Find(rows.dimension);
      if (dim < 0) return false;
      AddPadding(rows, Value(member.results[0]).shape[dim].name);
    }
    spec_.input = At(0).operands[0];
    return !dims_.empty();
  }

  bool FindFolds() {
    for (size_t i = 1; i < members_.size(); ++i) {
      const Instruction& member = At(i);
      if (member.opcode == Opcode::kFoldWindows) {
        if (!AddWindows(member, member.operands[0])) return false;
        continue;
      }
      const auto& rows = member.Get<RowsAttributes>();
      const int dim = Value(member.results[0]).shape.Find(rows.dimension);
      if (dim < 0) return false;
      AddPadding(rows, Value(member.operands[0]).shape[dim].name);
    }
    spec_.input = ResultOf(members_.size() - 1);
    return !dims_.empty();
  }

  // Finds the input dimensions of all windows and sorts them by memory.
  bool Complete() {
    for (const Padding& padding : padding_) {
      const auto dim = std::find_if(dims_.begin(), dims_.end(),
                                    [&](const WindowedDimension& each) {
                                      return each.input == padding.line;
                                    });
      if (dim == dims_.end()) return false;
      dim->input = padding.dimension;
      dim->extents.before = padding.before;
    }
    const ProgramValue& input = Value(spec_.input);
    for (WindowedDimension& dim : dims_) {
      if (!input.shape.Contains(dim.input) || !HasNoPadding(input, dim.input)) {
        return false;
      }
      Spatial& extents = dim.extents;
      extents.input = Extent(input, dim.input);
      const int64_t span = (extents.window - 1) * extents.dilation + 1;
      extents.after = (extents.output - 1) * extents.stride + span -
                      extents.before - extents.input;
      // Libraries take no window of zeros only, and no elements at the end that
      // another window would read.
      if (extents.before < 0 || extents.before >= span ||
          extents.after >= span || extents.after <= -extents.stride ||
          extents.output < 1 || extents.input < 1 || extents.window < 1) {
        return false;
      }
    }
    std::sort(dims_.begin(), dims_.end(),
              [&](const WindowedDimension& a, const WindowedDimension& b) {
                return input.shape.Find(a.input) < input.shape.Find(b.input);
              });
    for (const WindowedDimension& dim : dims_) {
      spec_.spatial.push_back(dim.extents);
    }
    return true;
  }

  bool HaveOneFloat() {
    spec_.dtype = Value(spec_.input).dtype;
    return IsFloat(spec_.dtype) && Value(spec_.filter).dtype == spec_.dtype &&
           Value(spec_.output).dtype == spec_.dtype;
  }

  static int64_t Extent(const ProgramValue& value, absl::string_view name) {
    const int dim = value.shape.Find(name);
    return dim < 0 || value.local.empty() ? 0 : value.local[dim];
  }
  bool HasNoPadding(const ProgramValue& value, absl::string_view name) const {
    const int dim = value.shape.Find(name);
    if (dim < 0 || value.local.empty()) return false;
    return value.local[dim] * program_.mesh.SizeOf(value.layout.dims[dim]) ==
           value.shape[dim].size;
  }

  // Whether `shape` is [batch..., the given names, channels...]; returns the
  // names after these as `channels`.
  static bool Split(const Shape& shape, const std::vector<std::string>& names,
                    std::vector<std::string>* batch,
                    std::vector<std::string>* channels) {
    const int first = shape.Find(names[0]);
    if (first < 0 || first + static_cast<int>(names.size()) > shape.rank()) {
      return false;
    }
    for (int i = 0; i < shape.rank(); ++i) {
      const int at = i - first;
      if (at < 0) {
        batch->push_back(shape[i].name);
      } else if (at < static_cast<int>(names.size())) {
        if (shape[i].name != names[at]) return false;
      } else {
        channels->push_back(shape[i].name);
      }
    }
    return true;
  }

  // The roles of all other dimensions: batch, groups and channels.
  bool FindRoles() {
    const ProgramValue &input = Value(spec_.input),
                       &filter = Value(spec_.filter),
                       &output = Value(spec_.output);
    std::vector<std::string> of_input, of_output, batch, output_batch, inner,
        outer;
    for (const WindowedDimension& dim : dims_) {
      of_input.push_back(dim.input);
      of_output.push_back(dim.output);
    }
    if (!Split(input.shape, of_input, &batch, &inner) ||
        !Split(output.shape, of_output, &output_batch, &outer) ||
        batch != output_batch) {
      return false;
    }
    for (const std::string& name : batch) {
      if (filter.shape.Contains(name)) return false;
      spec_.batch *= Extent(input, name);
      if (Extent(input, name) != Extent(output, name)) return false;
    }
    // Channels are [groups, of a group], each at most once.
    std::string group, in, out;
    if (!inner.empty() && !outer.empty() && inner[0] == outer[0]) {
      group = inner[0];
      inner.erase(inner.begin());
      outer.erase(outer.begin());
    }
    if (inner.size() > 1 || outer.size() > 1) return false;
    if (!inner.empty()) in = inner[0];
    if (!outer.empty()) out = outer[0];
    spec_.filter_strides.assign(3, 0);
    int found = 0;
    const auto add = [&](const std::string& name, const ProgramValue& in_value,
                         int64_t& extent, int64_t& stride) {
      if (name.empty()) return true;
      const int dim = filter.shape.Find(name);
      extent = Extent(filter, name);
      if (dim < 0 || extent < 1 || extent != Extent(in_value, name)) {
        return false;
      }
      stride = StrideOf(filter, dim);
      ++found;
      return true;
    };
    if (!add(group, input, spec_.groups, spec_.filter_strides[0]) ||
        !add(out, output, spec_.outputs, spec_.filter_strides[1]) ||
        !add(in, input, spec_.inputs, spec_.filter_strides[2])) {
      return false;
    }
    for (const WindowedDimension& dim : dims_) {
      // A product that keeps a dimension of windows is not a convolution.
      if (dim.window == group || dim.window == in || dim.window == out) {
        return false;
      }
      const int at = filter.shape.Find(dim.window);
      if (at < 0 || filter.local[at] != dim.extents.window) return false;
      spec_.filter_strides.push_back(StrideOf(filter, at));
      ++found;
    }
    return found == filter.shape.rank() && spec_.batch > 0;
  }

  static int64_t StrideOf(const ProgramValue& value, int dim) {
    int64_t stride = 1;
    for (int i = dim + 1; i < value.shape.rank(); ++i) stride *= value.local[i];
    return stride;
  }

  struct Padding {
    std::string line, dimension;
    int64_t before;
  };

  const Program& program_;
  const absl::Span<const int> members_;
  ConvolutionSpec spec_;
  std::vector<WindowedDimension> dims_;
  std::vector<Padding> padding_;
};

}  // namespace

bool IsProduct(const Instruction& instruction) {
  if (instruction.operands.size() != 2) return false;
  if (instruction.opcode == Opcode::kEinsum) return true;
  const auto* map = instruction.Find<MapAttributes>();
  return map != nullptr && map->expression.steps.size() == 1 &&
         map->expression.steps[0].function == ScalarFunction::kMultiply;
}

bool IsZeroPadding(const Instruction& instruction) {
  const auto* rows = instruction.Find<RowsAttributes>();
  return instruction.opcode == Opcode::kPlaceRows && rows->axes.empty() &&
         instruction.operands.size() == 1 && rows->sizes.size() == 1 &&
         !rows->wrap && rows->fill == 0;
}

std::optional<ConvolutionSpec> FindConvolution(const Program& program,
                                               absl::Span<const int> members) {
  ConvolutionSpec spec;
  if (!ConvolutionFinder(program, members).Find(&spec)) return std::nullopt;
  return spec;
}

}  // namespace mtf
