// SPDX-License-Identifier: Apache-2.0
#include "tests/properties/random_operations.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/dynamic_slice.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/input.h"
#include "ops/one_hot.h"
#include "ops/pad.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/scan.h"
#include "ops/shift.h"
#include "ops/slice.h"
#include "ops/stop_gradient.h"
#include "ops/top_k.h"
#include "ops/windows.h"

namespace mtf::testing {
namespace {

void AddEinsum(RandomGraph& r) {
  std::vector<Tensor> operands = {r.Any()};
  Shape both = operands[0].shape();
  const int count = r.Chance(0.2) ? 3 : 2;
  for (int i = 1; i < count; ++i) {
    Tensor y = r.Partner(operands.back());
    bool meets = true;
    for (const Tensor& x : operands) meets = meets && CanCombine(x, y);
    if (!meets) continue;
    if (Union(both, y.shape()).rank() > 6) continue;
    operands.push_back(y);
    both = Union(both, y.shape());
  }
  if (both.num_elements() > kMostElements * 20) return;
  const Shape output = r.Subset(both, 0.55);
  if (output.rank() > kMostRank || output.num_elements() > kMostElements) {
    return;
  }
  const double terms = static_cast<double>(both.num_elements()) /
                       static_cast<double>(output.num_elements());
  // Scaled, so that values are of order one.
  r.Keep(Einsum(operands, output) * (1.0 / terms));
}

void AddBinary(RandomGraph& r) {
  Tensor x = r.Any(), y = r.Partner(x);
  switch (r.Int(0, 3)) {
    case 0:
      return r.Keep(x + y);
    case 1:
      return r.Keep(x - y);
    case 2:
      return r.Keep(x * y);
    default:
      return r.Keep(x / (Square(y) + 1.0));
  }
}

void AddUnary(RandomGraph& r) {
  Tensor x = r.Any();
  switch (r.Int(0, 11)) {
    case 0:
      return r.Keep(Tanh(x));
    case 1:
      return r.Keep(Sigmoid(x));
    case 2:
      return r.Keep(Sin(x));
    case 3:
      return r.Keep(Cos(x));
    case 4:
      return r.Keep(Softplus(x));
    case 5:
      return r.Keep(Gelu(x));
    case 6:
      return r.Keep(Swish(x));
    case 7:
      return r.Keep(-x);
    case 8:
      return r.Keep(Rsqrt(Square(x) + 1.0));
    case 9:
      return r.Keep(Exp(Tanh(x)));
    case 10:
      return r.Keep(Log(Square(x) + 1.0) * 0.5);
    default:
      return r.Keep(StopGradient(x) * 0.5);
  }
}

void AddReduce(RandomGraph& r) {
  Tensor x = r.Any();
  const Shape output = r.Subset(x.shape(), 0.5);
  switch (r.Int(0, 4)) {
    case 0:
      return r.Keep(ReduceSum(x, output) *
                    (static_cast<double>(output.num_elements()) /
                     static_cast<double>(x.shape().num_elements())));
    case 1:
      return r.Keep(ReduceMean(x, output));
    case 2:
      return r.Keep(ReduceMax(x, output));
    case 3:
      return r.Keep(ReduceMin(x, output));
    default:
      return r.Keep(ReduceLogSumExp(x, output) * 0.5);
  }
}

void AddRename(RandomGraph& r) {
  Tensor x = r.Any();
  if (x.shape().rank() == 0) return;
  const Dimension dim = r.Pick(x.shape().dims());
  std::vector<std::string> names;
  for (const auto& [name, size] : r.sizes()) {
    if (size == dim.size && !x.shape().Contains(name)) names.push_back(name);
  }
  if (names.empty()) return;
  r.Keep(Rename(x, dim.name, r.Pick(names)));
}

void AddReshape(RandomGraph& r) {
  Tensor x = r.Any();
  if (x.shape().rank() == 0) return;
  if (x.shape().rank() > 1 && r.Chance(0.6)) {
    const int at = r.Int(0, x.shape().rank() - 2);
    const Dimension &major = x.shape()[at], &minor = x.shape()[at + 1];
    const std::string merged = absl::StrCat(major.name, "_", minor.name);
    if (x.shape().Contains(merged) || merged.size() > 12) return;
    return r.Keep(MergeDimensions(x, {major.name, minor.name}, merged));
  }
  const Dimension dim = r.Pick(x.shape().dims());
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= dim.size; ++d) {
    if (dim.size % d == 0) divisors.push_back(d);
  }
  const int64_t major = r.Pick(divisors);
  const std::string first = absl::StrCat("p", major),
                    second = absl::StrCat("q", dim.size / major);
  if (x.shape().Contains(first) || x.shape().Contains(second)) return;
  r.Keep(SplitDimension(x, dim.name,
                        {{first, major}, {second, dim.size / major}}));
}

void AddMovement(RandomGraph& r) {
  Tensor x = r.Any();
  if (x.shape().rank() == 0) return;
  const Dimension dim = r.Pick(x.shape().dims());
  const int size = static_cast<int>(dim.size);
  switch (r.Int(0, 4)) {
    case 0: {
      const int begin = r.Int(0, size - 1);
      return r.Keep(Slice(x, dim.name, begin, r.Int(1, size - begin)));
    }
    case 1:
      return r.Keep(Pad(x, dim.name, r.Int(0, 3), r.Int(0, 3), r.Chance(0.5)));
    case 2: {
      Tensor y = r.Chance(0.5) ? Tanh(x) : Transpose(x, r.Shuffled(x.shape()));
      return r.Keep(Concat({x, y}, dim.name));
    }
    case 3:
      return r.Keep(
          Shift(x, dim.name, r.Int(-size - 1, size + 1), r.Chance(0.5)));
    default:
      return r.Keep(Transpose(x, r.Shuffled(x.shape())));
  }
}

WindowOptions RandomWindowOptions(RandomGraph& r) {
  WindowOptions options{
      .stride = r.Int(1, 3), .dilation = r.Int(1, 3), .wrap = r.Chance(0.3)};
  if (!options.wrap && r.Chance(0.5)) options.fill = 1;
  return options;
}

void AddWindows(RandomGraph& r) {
  Tensor x = r.Any();
  if (x.shape().rank() == 0) return;
  const Dimension dim = r.Pick(x.shape().dims());
  WindowOptions options = RandomWindowOptions(r);
  if (x.shape().rank() > 1 && r.Chance(0.4)) {
    const Dimension window = r.Pick(x.shape().dims());
    if (window.name == dim.name) return;
    options.fill = 0;
    const int64_t size = dim.size * options.stride -
                         r.Int(0, static_cast<int>(options.stride) - 1);
    return r.Keep(FoldWindows(x, dim.name, window.name, size, options) *
                  (1.0 / static_cast<double>(window.size)));
  }
  const int64_t size = r.Int(1, 4);
  const Dimension window{absl::StrCat("w", size), size};
  if (x.shape().Contains(window.name)) return;
  if (r.Chance(0.5)) {
    options.padding = WindowPadding::kExplicit;
    options.before = r.Int(0, 4);
    options.after = r.Int(0, 4);
    const int64_t span = (size - 1) * options.dilation + 1;
    if (span > options.before + dim.size + options.after) return;
  }
  r.Keep(Windows(x, dim.name, window, options));
}

void AddGather(RandomGraph& r) {
  Tensor table = r.Any();
  if (table.shape().rank() == 0) return;
  const Dimension dim = r.Pick(table.shape().dims());
  const Shape shape = r.RandomShape(2).Without(dim.name);
  for (const Dimension& other : shape) {
    const int i = table.shape().Find(other.name);
    if (i >= 0 && table.shape()[i].size != other.size) return;
  }
  if (Union(shape, table.shape()).num_elements() > kMostElements) return;
  const std::string name = absl::StrCat("indices_", r.feeds().size());
  std::vector<double> numbers(shape.num_elements());
  for (double& number : numbers) {
    number = r.Int(0, static_cast<int>(dim.size) - 1);
  }
  r.feeds()[name] = HostTensor::FromDoubles(shape, kInt32, numbers);
  Tensor indices = Input(r.graph(), name, kInt32, shape);
  r.Keep(Gather(table, indices, dim.name));
  if (shape.rank() < 2 && !shape.Contains(dim.name)) {
    r.Keep(OneHot(indices, dim));
  }
}

// Rows of a random value along one of its dimensions: `rows` of `dim`.
struct RowsOf {
  Tensor value;
  Dimension dim, rows;
};

// Draws rows of `x`, with `rows` called "" if there are none.
RowsOf DrawRows(RandomGraph& r, Tensor x) {
  RowsOf drawn{x, {}, {}};
  if (x.shape().rank() == 0) return drawn;
  drawn.dim = r.Pick(x.shape().dims());
  const int count = r.Int(1, static_cast<int>(drawn.dim.size));
  const std::string name =
      r.Chance(0.3) ? drawn.dim.name : absl::StrCat("r", count);
  if (name != drawn.dim.name && x.shape().Contains(name)) return drawn;
  drawn.rows = {name, count};
  return drawn;
}

// An index of the rows: one, or one for each element of some dimensions; fed or
// computed.
Tensor DrawIndex(RandomGraph& r, const RowsOf& of) {
  const Shape shape = r.Subset(of.value.shape().Without(of.dim.name), 0.4);
  const std::string name = absl::StrCat("indices_", r.feeds().size());
  const auto last = static_cast<int>(of.dim.size - of.rows.size);
  std::vector<double> numbers(shape.num_elements());
  for (double& number : numbers) number = r.Int(0, last);
  r.feeds()[name] = HostTensor::FromDoubles(shape, kInt32, numbers);
  const Tensor index = Input(r.graph(), name, kInt32, shape);
  return r.Chance(0.3) ? index * -1.0 + 1.0 * last : index;
}

void AddDynamicSlice(RandomGraph& r) {
  const RowsOf of = DrawRows(r, r.Any());
  if (of.rows.name.empty()) return;
  r.Keep(DynamicSlice(of.value, of.dim.name, DrawIndex(r, of), of.rows));
  if (r.Chance(0.6)) r.Keep(WithRandomRows(r, of.value));
}

void AddRandom(RandomGraph& r) {
  Tensor x = r.Any();
  switch (r.Int(0, 2)) {
    case 0:
      return r.Keep(Dropout(x, 0.25));
    case 1:
      return r.Keep(Dropout(x, 0.5, {.noise_shape = r.Subset(x.shape(), 0.7)}));
    default:
      return r.Keep(x + RandomUniform(r.graph(), x.shape(), -1, 1));
  }
}

// Adds a function with jumps of an exact value.
void AddJump(RandomGraph& r) {
  Tensor x = r.Pick(r.exact()), y = r.Pick(r.exact());
  if (!CanCombine(x, y)) y = x;
  if (Union(x.shape(), y.shape()).num_elements() > kMostElements ||
      Union(x.shape(), y.shape()).rank() > kMostRank) {
    return;
  }
  switch (r.Int(0, 6)) {
    case 0:
      return r.Keep(Relu(x), true);
    case 1:
      return r.Keep(Abs(x), true);
    case 2:
      return r.Keep(Maximum(x, y), true);
    case 3:
      return r.Keep(Minimum(x, y), true);
    case 4:
      return r.Keep(Select(Less(x, y), x, y * 2.0));
    case 5:
      return r.Keep(Elu(x));
    default:
      return r.Keep(Mod(x + 2.0, Abs(y) + 0.5));
  }
}

void AddScan(RandomGraph& r) {
  const bool jumps = r.Chance(0.4);
  Tensor x = jumps ? r.Pick(r.exact()) : r.Any();
  if (x.shape().rank() == 0) return;
  const Dimension dim = r.Pick(x.shape().dims());
  ScanOptions options{.exclusive = r.Chance(0.5), .reverse = r.Chance(0.5)};
  if (!jumps) {
    return r.Keep(CumulativeSum(x, dim.name, options) *
                  (1.0 / static_cast<double>(dim.size)));
  }
  // The first element of an exclusive scan of max or min is infinite.
  options.exclusive = false;
  r.Keep(r.Chance(0.5) ? CumulativeMax(x, dim.name, options)
                       : CumulativeMin(x, dim.name, options),
         true);
}

void AddTopK(RandomGraph& r) {
  Tensor x = r.Pick(r.exact());
  if (x.shape().rank() == 0) return;
  const Dimension dim = r.Pick(x.shape().dims());
  const std::string name = absl::StrCat("k", r.Int(1, 3));
  const Dimension k{name, r.Int(1, static_cast<int>(dim.size))};
  if (x.shape().Contains(name)) return;
  const TopKResult top = TopK(x, dim.name, k);
  if (r.Chance(0.5)) return r.Keep(top.values, true);
  r.Keep(Cast(top.indices, kFloat32) * (1.0 / static_cast<double>(dim.size)));
}

void AddBroadcast(RandomGraph& r) {
  Tensor x = r.Any();
  const Shape shape = Union(x.shape(), r.RandomShape(2));
  for (const Dimension& dim : shape) {
    const int i = x.shape().Find(dim.name);
    if (i >= 0 && x.shape()[i].size != dim.size) return;
  }
  if (shape.num_elements() > kMostElements || shape.rank() > kMostRank) {
    return;
  }
  r.Keep(Broadcast(x, r.Shuffled(shape)));
}

void AddIndices(RandomGraph& r) {
  Tensor x = r.Any();
  if (x.shape().rank() == 0) return;
  const Dimension dim = r.Pick(x.shape().dims());
  Tensor range = Cast(Range(r.graph(), dim), kFloat32);
  r.Keep(x * (range * (1.0 / static_cast<double>(dim.size))));
}

}  // namespace

Tensor WithRandomRows(RandomGraph& r, Tensor x) {
  const RowsOf of = DrawRows(r, x);
  if (of.rows.name.empty()) return x;
  Tensor y = DynamicSlice(x, of.dim.name, DrawIndex(r, of), of.rows);
  y = Sin(y * 2.0 + 1.0);
  if (of.rows.size == 1 && r.Chance(0.5)) {
    y = Reshape(y, y.shape().Without(of.rows.name));
  }
  if (y.shape().rank() > 1) y = Transpose(y, r.Shuffled(y.shape()));
  return UpdateSlice(x, y, of.dim.name, DrawIndex(r, of));
}

void AddRandomOperation(RandomGraph& r) {
  switch (r.Int(0, 25)) {
    case 0:
    case 1:
    case 2:
      return AddEinsum(r);
    case 3:
    case 4:
      return AddBinary(r);
    case 5:
    case 6:
      return AddUnary(r);
    case 7:
    case 8:
      return AddReduce(r);
    case 9:
      return AddRename(r);
    case 10:
      return AddReshape(r);
    case 11:
      return AddMovement(r);
    case 12:
      return AddMovement(r);
    case 13:
      return AddGather(r);
    case 14:
      return AddRandom(r);
    case 15:
      return AddJump(r);
    case 16:
      return AddBroadcast(r);
    case 17:
      return AddScan(r);
    case 18:
      return AddTopK(r);
    case 19:
      return AddWindows(r);
    case 20:
      return AddIndices(r);
    case 21:
    case 22:
    case 23:
    case 24:
      return AddRandomSelection(r);
    default:
      return AddDynamicSlice(r);
  }
}

}  // namespace mtf::testing
