// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/codegen/elements.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "mtf/check.h"

namespace mtf::cuda {

int64_t StrideAlong(const BoundValue& value, const std::string& dimension) {
  const int i = value.value->shape.Find(dimension);
  return i < 0 ? 0 : value.stride(i);
}

Elements::Elements(KernelWriter& writer, const MapExpression& expression,
                   absl::Span<const BoundValue> operands,
                   absl::Span<const SpaceDimension> space)
    : writer_(writer),
      expression_(expression),
      operands_(operands.begin(), operands.end()),
      parameters_(operands.size()) {
  // Operands that the result does not depend on are not read.
  const int count = static_cast<int>(operands.size());
  std::vector<bool> used(count, false);
  for (const MapStep& step : expression.steps) {
    for (int argument : step.arguments) {
      if (argument < count) used[argument] = true;
    }
    if (step.function != ScalarFunction::kIota) continue;
    const auto dim =
        std::find_if(space.begin(), space.end(), [&](const auto& candidate) {
          return candidate.name == step.dimension;
        });
    MTF_CHECK(dim != space.end()) << "iota over " << step.dimension;
    if (offsets_.count(step.dimension) > 0) continue;
    // A parameter, not a constant, so that shards share the text: all but the
    // one at offset 0, which omits it.
    offsets_[step.dimension] =
        dim->offset == 0 ? "" : writer.Number(dim->offset);
  }
  for (int i = 0; i < count; ++i) {
    if (!used[i]) continue;
    const BoundValue& operand = operands_[i];
    parameters_[i] =
        writer.Read(operand.data, operand.dtype(), operand.elements());
  }
}

int Elements::Width(const std::vector<Array>& more) const {
  const LoopNest& inner = *nests_.back();
  std::vector<Array> packed;
  for (const Array& array : more) {
    if (inner.inner_stride(array.number) == 1) packed.push_back(array);
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    const int number = static_cast<int>(i);
    if (parameters_[i].empty() || registers_.count(number) > 0 ||
        inner.inner_stride(number) != 1) {
      continue;
    }
    packed.push_back(
        {number, operands_[i].data, DTypeSize(operands_[i].dtype())});
  }
  if (packed.empty()) return 1;
  int64_t least = 8;
  for (const Array& array : packed) least = std::min(least, array.size);
  // 16 bytes of the narrowest array, at most 8 elements.
  int64_t width = std::min<int64_t>(16 / least, 8);
  const auto fits = [&] {
    if (!inner.InnerDivides(width)) return false;
    for (const Array& array : packed) {
      const int64_t word = std::min<int64_t>(16, width * array.size);
      if (reinterpret_cast<uintptr_t>(array.data) % word != 0) return false;
      for (const LoopNest* nest : nests_) {
        const int64_t multiple = word / array.size;
        if (nest == nests_.back()
                ? !nest->OffsetsDivide(array.number, multiple)
                : !nest->StridesDivide(array.number, multiple)) {
          return false;
        }
      }
    }
    return true;
  };
  while (width > 1 && !fits()) width /= 2;
  return static_cast<int>(width);
}

std::string Elements::Offset(int array) const {
  std::vector<std::string> terms;
  for (const LoopNest* nest : nests_) terms.push_back(nest->Offset(array));
  return SumText(terms);
}

Elements::Access Elements::AccessOf(int operand, int width) const {
  const int64_t stride = nests_.back()->inner_stride(operand);
  if (stride == 0 || width == 1) return Access::kUniform;
  return stride == 1 ? Access::kPacked : Access::kStrided;
}

bool Elements::IsRead(int operand) const {
  return !parameters_[operand].empty() && registers_.count(operand) == 0;
}

std::string Elements::ReadType(int operand) const {
  const absl::string_view type = StorageType(operands_[operand].dtype());
  switch (AccessOf(operand, width_)) {
    case Access::kUniform:
      return std::string(type);
    case Access::kPacked:
      return absl::StrCat("Pack<", type, ", ", width_, ">");
    case Access::kStrided:
      return absl::StrCat("const ", type, "*");
  }
  return "";
}

std::string Elements::ReadValue(int operand) const {
  const std::string& x = parameters_[operand];
  const std::string offset = Offset(operand);
  switch (AccessOf(operand, width_)) {
    case Access::kUniform:
      return absl::StrCat(x, "[", offset, "]");
    case Access::kPacked:
      return absl::StrCat("*(const ", ReadType(operand), "*)(", x, " + ",
                          offset, ")");
    case Access::kStrided:
      return absl::StrCat(x, " + ", offset);
  }
  return "";
}

std::string Elements::Reads(absl::string_view indent, int width) const {
  width_ = width;
  share_ = "";
  std::string text;
  for (int i = 0; i < static_cast<int>(operands_.size()); ++i) {
    if (!IsRead(i)) continue;
    const bool strided = AccessOf(i, width) == Access::kStrided;
    absl::StrAppend(&text, indent, strided ? "" : "const ", ReadType(i), " p",
                    i, " = ", ReadValue(i), ";\n");
  }
  return text;
}

std::string Elements::Declarations(absl::string_view indent, int width,
                                   int shares) const {
  width_ = width;
  share_ = "[s]";
  std::string text;
  for (int i = 0; i < static_cast<int>(operands_.size()); ++i) {
    if (!IsRead(i)) continue;
    absl::StrAppend(&text, indent, ReadType(i), " p", i, "[", shares, "];\n");
  }
  return text;
}

std::string Elements::ReadsInto(absl::string_view indent) const {
  std::string text;
  for (int i = 0; i < static_cast<int>(operands_.size()); ++i) {
    if (!IsRead(i)) continue;
    absl::StrAppend(&text, indent, "p", i, "[s] = ", ReadValue(i), ";\n");
  }
  return text;
}

int64_t Elements::BytesOfPack(int width) const {
  int64_t bytes = 0;
  for (int i = 0; i < static_cast<int>(operands_.size()); ++i) {
    if (!IsRead(i) || nests_.back()->inner_stride(i) == 0) continue;
    bytes += width * DTypeSize(operands_[i].dtype());
  }
  return bytes;
}

std::string Elements::IotaText(const std::string& dimension,
                               absl::string_view j) const {
  std::vector<std::string> terms;
  for (const LoopNest* nest : nests_) {
    const std::string coordinate = nest->Coordinate(dimension);
    if (coordinate.empty()) continue;
    if (coordinate != "0") terms.push_back(coordinate);
    if (nest == nests_.back() && nest->IsInner(dimension)) {
      terms.emplace_back(j);
    }
  }
  terms.push_back(offsets_.at(dimension));
  return absl::StrCat("(i64)(", SumText(terms), ")");
}

StepText Elements::Steps(absl::string_view indent, absl::string_view j) const {
  std::string reads;
  std::vector<std::string> names;
  std::vector<DType> dtypes;
  for (size_t i = 0; i < operands_.size(); ++i) {
    const int number = static_cast<int>(i);
    const BoundValue& operand = operands_[i];
    names.push_back(absl::StrCat("a", i));
    dtypes.push_back(operand.dtype());
    const auto given = registers_.find(number);
    std::string value;
    if (given != registers_.end()) {
      value = given->second;
    } else if (parameters_[i].empty()) {
      continue;
    } else {
      switch (AccessOf(number, width_)) {
        case Access::kUniform:
          value = absl::StrCat("Value(p", i, share_, ")");
          break;
        case Access::kPacked:
          value = absl::StrCat("Value(p", i, share_, ".at[", j, "])");
          break;
        case Access::kStrided:
          value = absl::StrCat("Value(p", i, share_, "[", j, " * ",
                               nests_.back()->inner_stride(number), "])");
          break;
      }
    }
    absl::StrAppend(&reads, indent, "const ", RegisterType(operand.dtype()),
                    " a", i, " = ", value, ";\n");
  }
  StepText text = WriteSteps(
      expression_, names, dtypes, "t", indent, writer_.rows(),
      [&](const std::string& dimension) { return IotaText(dimension, j); });
  text.statements = reads + text.statements;
  return text;
}

}  // namespace mtf::cuda
