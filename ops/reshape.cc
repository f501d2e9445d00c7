// SPDX-License-Identifier: Apache-2.0
#include "ops/reshape.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/reduce.h"

namespace mtf {
namespace {

using NamePairs = std::vector<std::pair<std::string, std::string>>;

// The pairs of names {old, new} of dimensions that a reshape from `from` to
// `to` renames. The dimensions of both fall into consecutive groups of equal
// products, as small as possible; a group of one dimension on each side keeps
// the dimension, perhaps under a new name. Dimensions of size 1, which fit into
// any group, are renamed only if one disappears where another appears.
NamePairs RenamedDimensions(const Shape& from, const Shape& to) {
  NamePairs pairs;
  const auto pair = [&](const Dimension& a, const Dimension& b) {
    if (a.name != b.name) pairs.emplace_back(a.name, b.name);
  };
  if (from.num_elements() == 0) {
    // All products are 0. Equal lists of sizes are still renames.
    bool same = from.rank() == to.rank();
    for (int i = 0; same && i < from.rank(); ++i) {
      same = from[i].size == to[i].size;
    }
    for (int i = 0; same && i < from.rank(); ++i) pair(from[i], to[i]);
    return pairs;
  }
  int i = 0, j = 0;
  while (i < from.rank() || j < to.rank()) {
    const bool old_unit = i < from.rank() && from[i].size == 1;
    const bool new_unit = j < to.rank() && to[j].size == 1;
    if (old_unit || new_unit) {
      const bool gone = old_unit && !to.Contains(from[i].name);
      const bool made = new_unit && !from.Contains(to[j].name);
      if (gone && made) {
        pair(from[i++], to[j++]);
      } else if (old_unit && (gone || !made)) {
        ++i;
      } else {
        ++j;
      }
      continue;
    }
    // Both have equally many elements left, more than one, so both have a
    // dimension left.
    int64_t old_size = from[i].size, new_size = to[j].size;
    const int old_begin = i++, new_begin = j++;
    while (old_size != new_size) {
      if (old_size < new_size) {
        old_size *= from[i++].size;
      } else {
        new_size *= to[j++].size;
      }
    }
    if (i == old_begin + 1 && j == new_begin + 1) {
      pair(from[old_begin], to[new_begin]);
    }
  }
  return pairs;
}

class ReshapeOp : public Operation {
 public:
  ReshapeOp(Tensor x, Shape shape)
      : Operation({x}, std::move(shape), x.dtype()) {}
  absl::string_view kind() const override { return "reshape"; }
  NamePairs TiedDimensions() const override {
    return RenamedDimensions(input(0).shape(), shape());
  }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    // The dimensions of `dy` may be in another order than those of the result.
    return {Reshape(internal::InOrderOf(dy, shape()), input(0).shape())};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.Reshape(inputs[0], shape());
  }
};

// Also implements Transpose, a broadcast that adds no dimensions.
class BroadcastOp : public Operation {
 public:
  BroadcastOp(Tensor x, Shape shape)
      : Operation({x}, std::move(shape), x.dtype()) {}
  absl::string_view kind() const override {
    return input(0).shape().rank() == shape().rank() ? "transpose"
                                                     : "broadcast";
  }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    if (dy.shape().SameDimensions(input(0).shape())) return {dy};
    return {ReduceSum(dy, input(0).shape())};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.Map(internal::IdentityMap(dtype()), inputs, shape());
  }
};

absl::Status CheckBroadcast(Tensor x, const Shape& shape) {
  MTF_RETURN_IF_ERROR(shape.Validate());
  MTF_RETURN_IF_ERROR(internal::CheckSizes({x}, &shape));
  for (const Dimension& dim : x.shape()) {
    if (shape.Contains(dim.name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "dimension \"", dim.name, "\" of \"", x.name(), "\" is not in [",
        shape.ToString(), "]", DescribeInputs({x}),
        "\n  help     ReduceSum() or Slice() it away first"));
  }
  return absl::OkStatus();
}

absl::Status CheckReshape(Tensor x, const Shape& shape) {
  MTF_RETURN_IF_ERROR(shape.Validate());
  if (shape.num_elements() == x.shape().num_elements()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "[", shape.ToString(), "] has ", shape.num_elements(), " elements but \"",
      x.name(), "\" has ", x.shape().num_elements(), DescribeInputs({x})));
}

// Checks that `to` is not the name of a dimension in `rest`, the dimensions of
// `x` that remain.
absl::Status CheckNewName(Tensor x, const Shape& rest, absl::string_view to) {
  if (!rest.Contains(to)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", x.name(), "\" already has a dimension \"", to, "\"",
                   DescribeInputs({x})));
}

absl::Status CheckMerge(Tensor x, const std::vector<std::string>& names,
                        absl::string_view merged) {
  if (names.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no dimensions to merge into \"", merged, "\"", DescribeInputs({x})));
  }
  Shape rest = x.shape();
  for (const std::string& name : names) {
    MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, name));
    if (!rest.Contains(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dimension \"", name, "\" is given twice", DescribeInputs({x})));
    }
    rest = rest.Without(name);
  }
  return CheckNewName(x, rest, merged);
}

}  // namespace

Tensor Reshape(Tensor x, Shape shape, std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = CheckReshape(x, shape);
  if (!status.ok()) {
    return x.graph().Fail(status, "reshape", location, shape, x.dtype());
  }
  return x.graph().Add(std::make_unique<ReshapeOp>(x, std::move(shape)),
                       location);
}

Tensor Rename(Tensor x, absl::string_view from, absl::string_view to,
              std::source_location location) {
  if (!x.valid()) return {};
  absl::Status status = internal::CheckHasDimension(x, from);
  if (status.ok() && from == to) return x;
  if (status.ok()) status = CheckNewName(x, x.shape(), to);
  const Shape shape = x.shape().Renamed(from, to);
  if (!status.ok()) {
    return x.graph().Fail(status, "rename", location, shape, x.dtype());
  }
  return Reshape(x, shape, location);
}

Tensor MergeDimensions(Tensor x, std::vector<std::string> names,
                       absl::string_view merged,
                       std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = CheckMerge(x, names, merged);
  if (!status.ok()) {
    return x.graph().Fail(status, "merge", location, x.shape(), x.dtype());
  }
  Shape apart, together;
  for (const Dimension& dim : x.shape()) {
    if (dim.name == names[0]) {
      Dimension product{std::string(merged), 1};
      for (const std::string& name : names) {
        apart = apart.With({name, x.shape().SizeOf(name)});
        product.size *= x.shape().SizeOf(name);
      }
      together = together.With(product);
      continue;
    }
    bool leaves = false;
    for (const std::string& name : names) leaves = leaves || name == dim.name;
    if (leaves) continue;
    apart = apart.With(dim);
    together = together.With(dim);
  }
  return Reshape(internal::InOrderOf(x, apart, location), together, location);
}

Tensor SplitDimension(Tensor x, absl::string_view name,
                      std::vector<Dimension> parts,
                      std::source_location location) {
  if (!x.valid()) return {};
  absl::Status status = internal::CheckHasDimension(x, name);
  Shape shape;
  for (const Dimension& dim : x.shape()) {
    if (dim.name != name) {
      shape = shape.With(dim);
      continue;
    }
    for (const Dimension& part : parts) shape = shape.With(part);
  }
  if (status.ok()) status = Shape(parts).Validate();
  if (status.ok() && Shape(parts).num_elements() != x.shape().SizeOf(name)) {
    status = absl::InvalidArgumentError(absl::StrCat(
        "the sizes of [", Shape(parts).ToString(), "] multiply to ",
        Shape(parts).num_elements(), " but dimension \"", name, "\" of \"",
        x.name(), "\" is ", x.shape().SizeOf(name), DescribeInputs({x})));
  }
  for (const Dimension& part : parts) {
    if (!status.ok()) break;
    status = CheckNewName(x, x.shape().Without(name), part.name);
  }
  if (!status.ok()) {
    return x.graph().Fail(status, "split", location, shape, x.dtype());
  }
  return Reshape(x, shape, location);
}

Tensor Broadcast(Tensor x, Shape shape, std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = CheckBroadcast(x, shape);
  if (!status.ok()) {
    return x.graph().Fail(status, "broadcast", location, shape, x.dtype());
  }
  if (x.shape() == shape) return x;
  return x.graph().Add(std::make_unique<BroadcastOp>(x, std::move(shape)),
                       location);
}

Tensor Transpose(Tensor x, Shape shape, std::source_location location) {
  if (!x.valid()) return {};
  absl::Status status = CheckBroadcast(x, shape);
  if (status.ok() && !shape.SameDimensions(x.shape())) {
    status = absl::InvalidArgumentError(absl::StrCat(
        "[", shape.ToString(), "] has dimensions that \"", x.name(), "\" lacks",
        DescribeInputs({x}), "\n  help     Broadcast() adds them"));
  }
  if (!status.ok()) {
    return x.graph().Fail(status, "transpose", location, shape, x.dtype());
  }
  return Broadcast(x, std::move(shape), location);
}

}  // namespace mtf
