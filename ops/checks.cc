// SPDX-License-Identifier: Apache-2.0
#include "ops/checks.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "mtf/errors.h"
#include "mtf/host_tensor.h"
#include "ops/reshape.h"

namespace mtf::internal {
namespace {

absl::Status CheckRange(bool inside, absl::string_view name, double value,
                        absl::string_view range) {
  if (inside) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, ", not ", range));
}

// Whether the dimensions of `part` are an ordered subsequence of `all`.
bool IsSubsequence(const Shape& part, const Shape& all) {
  int i = 0;
  for (const Dimension& dim : all) {
    if (i < part.rank() && part[i].name == dim.name) ++i;
  }
  return i == part.rank();
}

}  // namespace

Graph* GraphOf(absl::Span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.valid()) return &tensor.graph();
  }
  return nullptr;
}

absl::Status CheckInputs(const Graph& graph, absl::Span<const Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " is an empty Tensor",
                       DescribeInputs(inputs), kEmptyTensorHelp));
    }
    if (&inputs[i].graph() != &graph) {
      return absl::InvalidArgumentError(
          absl::StrCat("input \"", inputs[i].name(),
                       "\" belongs to another graph", DescribeInputs(inputs)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSizes(absl::Span<const Tensor> inputs, const Shape* output) {
  const auto conflict = [&](const Dimension& first, const std::string& where,
                            int64_t size, const std::string& other) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dimension \"", first.name, "\" is ", first.size, " in ", where,
        " but ", size, " in ", other, DescribeInputs(inputs),
        output == nullptr
            ? ""
            : absl::StrCat("\n  output   [", output->ToString(), "]"),
        "\n  help     give one size to the name, or Rename() one of them"));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const Dimension& dim : inputs[i].shape()) {
      const std::string where = absl::StrCat("\"", inputs[i].name(), "\"");
      for (size_t j = i + 1; j < inputs.size(); ++j) {
        const Shape& other = inputs[j].shape();
        if (other.Contains(dim.name) && other.SizeOf(dim.name) != dim.size) {
          return conflict(dim, where, other.SizeOf(dim.name),
                          absl::StrCat("\"", inputs[j].name(), "\""));
        }
      }
      if (output != nullptr && output->Contains(dim.name) &&
          output->SizeOf(dim.name) != dim.size) {
        return conflict(dim, where, output->SizeOf(dim.name), "the output");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSameDimensions(Tensor first, Tensor x,
                                 absl::Span<const Tensor> inputs,
                                 absl::string_view except) {
  for (const auto& [has, lacks] : {std::pair(first, x), std::pair(x, first)}) {
    for (const Dimension& dim : has.shape()) {
      if (dim.name == except) continue;
      if (!lacks.shape().Contains(dim.name)) {
        return absl::InvalidArgumentError(
            absl::StrCat("\"", lacks.name(), "\" has no dimension \"", dim.name,
                         "\", but \"", has.name(), "\" has it",
                         DescribeInputs(inputs), "\n  help     Broadcast() \"",
                         lacks.name(), "\" along it, or Rename() one of them"));
      }
      const int64_t size = lacks.shape().SizeOf(dim.name);
      if (size == dim.size) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "dimension \"", dim.name, "\" is ", dim.size, " in \"", has.name(),
          "\" but ", size, " in \"", lacks.name(), "\"", DescribeInputs(inputs),
          "\n  help     Slice() or Pad() one of them to one size"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOneDType(absl::Span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    if (input.dtype() == inputs[0].dtype()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", inputs[0].name(), "\" is ", DTypeName(inputs[0].dtype()),
        " but \"", input.name(), "\" is ", DTypeName(input.dtype()),
        DescribeInputs(inputs), "\n  help     Cast() one of them"));
  }
  return absl::OkStatus();
}

absl::Status CheckNumber(Tensor x, absl::string_view what) {
  if (x.dtype() != kBool) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " takes a float or integer dtype, not bool",
                   DescribeInputs({x}), "\n  help     Cast() the input"));
}

absl::Status CheckIndexDType(Tensor indices, absl::Span<const Tensor> inputs) {
  if (IsInteger(indices.dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the indices \"", indices.name(), "\" are ", DTypeName(indices.dtype()),
      ", not i32 or i64", DescribeInputs(inputs)));
}

absl::Status CheckHasDimension(Tensor x, absl::string_view dim) {
  if (x.shape().Contains(dim)) return absl::OkStatus();
  std::vector<std::string> names;
  for (const Dimension& d : x.shape()) names.push_back(d.name);
  const std::string nearest = NearestName(dim, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", x.name(), "\" has no dimension \"", absl::CHexEscape(dim), "\"",
      DescribeInputs({x}),
      nearest.empty()
          ? ""
          : absl::StrCat("\n  help     did you mean \"", nearest, "\"?")));
}

absl::Status CheckLacksLength(Tensor x, absl::string_view name,
                              absl::string_view side) {
  if (!x.shape().Contains(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dimension \"", name, "\" of the ", side, " is also in \"",
                   x.name(), "\", which needs a length of its own",
                   DescribeInputs({x}), "\n  help     Rename() one of them"));
}

absl::Status CheckSubset(Tensor x, const Shape& shape) {
  MTF_RETURN_IF_ERROR(shape.Validate());
  for (const Dimension& dim : shape) {
    MTF_RETURN_IF_ERROR(CheckHasDimension(x, dim.name));
  }
  return CheckSizes({x}, &shape);
}

absl::Status CheckHolds(DType dtype, double value) {
  bool holds = true;
  switch (dtype) {
    case kInt32:
      holds = value >= std::numeric_limits<int32_t>::min() &&
              value <= std::numeric_limits<int32_t>::max() &&
              value == std::floor(value);
      break;
    case kInt64:
      // 2^63 - 1 is not a double: doubles up to 2^63, exclusive, are in range.
      holds = value >= -0x1p63 && value < 0x1p63 && value == std::floor(value);
      break;
    case kBool:
      holds = value == 0 || value == 1;
      break;
    case kFloat32:
    case kBFloat16:
    case kFloat16:
      holds =
          !std::isfinite(value) || std::isfinite(RoundToDType(value, dtype));
      break;
  }
  if (holds) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the number ", value, " is not representable in dtype ",
                   DTypeName(dtype)));
}

absl::Status CheckPositive(absl::string_view name, double value) {
  const double single = RoundToDType(value, kFloat32);
  return CheckRange(std::isfinite(single) && single > 0, name, value,
                    "a positive number of f32");
}

absl::Status CheckNotNegative(absl::string_view name, double value) {
  const double single = RoundToDType(value, kFloat32);
  return CheckRange(std::isfinite(single) && value >= 0, name, value,
                    "a non-negative number of f32");
}

absl::Status CheckBelowOne(absl::string_view name, double value) {
  const double single = RoundToDType(value, kFloat32);
  return CheckRange(value >= 0 && single < 1, name, value, "in [0, 1)");
}

absl::Status CheckName(absl::string_view name) {
  bool good = !name.empty();
  for (char c : name) {
    good = good && (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                    c == '_' || c == '-' || c == '.' || c == '/');
  }
  if (!good) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the name \"", absl::CHexEscape(name),
        "\" is not made of letters, digits, \"_\", \"-\", \".\" and \"/\""));
  }
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    if (!part.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the name \"", name, "\" has an empty component"));
  }
  return absl::OkStatus();
}

Shape BroadcastShape(absl::Span<const Tensor> inputs) {
  Shape shape;
  for (const Tensor& input : inputs) {
    if (IsSubsequence(shape, input.shape())) {
      shape = input.shape();
      continue;
    }
    for (const Dimension& dim : input.shape()) {
      if (!shape.Contains(dim.name)) shape = shape.With(dim);
    }
  }
  return shape;
}

MapExpression IdentityMap(DType dtype) {
  // kIdentity is a function of numbers; a cast accepts bools too.
  if (dtype == kBool) return MapExpression::Cast(kBool);
  return MapExpression::Single(ScalarFunction::kIdentity, dtype, 1);
}

Tensor InOrderOf(Tensor x, const Shape& shape, std::source_location location) {
  return x.shape() == shape ? x : Transpose(x, shape, location);
}

}  // namespace mtf::internal
