// SPDX-License-Identifier: Apache-2.0
//
// Random programs: rankings, samples, parts of tensors, statistics and order.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/constant.h"
#include "ops/depend.h"
#include "ops/dynamic_shift.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/moments.h"
#include "ops/observe.h"
#include "ops/random.h"
#include "ops/random_categorical.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "ops/split.h"
#include "ops/stack.h"
#include "ops/top_k.h"
#include "tests/properties/random_operations.h"

namespace mtf::testing {
namespace {

// Indices along a dimension of `size` as a value of order one.
Tensor Scaled(Tensor indices, int64_t size) {
  return Cast(indices, kFloat32) * (1.0 / static_cast<double>(size));
}

void AddSort(RandomGraph& r) {
  Tensor x = r.Pick(r.exact());
  if (x.shape().rank() == 0) return;
  const Dimension dim = r.Pick(x.shape().dims());
  const SortOptions options{.descending = r.Chance(0.5)};
  switch (r.Int(0, 3)) {
    case 0:
      return r.Keep(Sort(x, dim.name, options), true);
    case 1:
      return r.Keep(Scaled(ArgSort(x, dim.name, options), dim.size));
    case 2:
      return r.Keep(
          NthLargest(x, dim.name, r.Int(0, static_cast<int>(dim.size) - 1)),
          true);
    default:
      return r.Keep(
          NthSmallest(x, dim.name, r.Int(0, static_cast<int>(dim.size) - 1)),
          true);
  }
}

void AddBottomK(RandomGraph& r) {
  Tensor x = r.Pick(r.exact());
  if (x.shape().rank() == 0) return;
  const Dimension dim = r.Pick(x.shape().dims());
  const std::string name = absl::StrCat("k", r.Int(1, 3));
  if (x.shape().Contains(name)) return;
  const TopKResult bottom =
      BottomK(x, dim.name, {name, r.Int(1, static_cast<int>(dim.size))});
  if (r.Chance(0.7)) r.Keep(bottom.values, true);
  if (r.Chance(0.5)) r.Keep(Scaled(bottom.indices, dim.size));
}

void AddSample(RandomGraph& r) {
  Tensor x = r.Pick(r.exact());
  if (x.shape().rank() == 0) return;
  const Dimension dim = r.Pick(x.shape().dims());
  CategoricalOptions options;
  if (r.Chance(0.2)) options.temperature = r.Chance(0.5) ? 0 : 0.5;
  if (r.Chance(0.4)) options.top_k = r.Int(1, static_cast<int>(dim.size));
  // No sum of probabilities equals it.
  if (r.Chance(0.4)) options.top_p = 0.6180339887;
  r.Keep(Scaled(RandomCategorical(x, dim.name, options), dim.size));
}

void AddSplit(RandomGraph& r) {
  Tensor x = r.Any();
  if (x.shape().rank() == 0) return;
  const Dimension dim = r.Pick(x.shape().dims());
  if (r.Chance(0.4)) {
    std::vector<Tensor> parts = Unstack(x, dim.name);
    std::vector<Tensor> backward(parts.rbegin(), parts.rend());
    backward[0] = Sin(backward[0]);
    return r.Keep(Stack(backward, dim.name));
  }
  const int64_t first = r.Int(0, static_cast<int>(dim.size));
  const std::vector<Tensor> parts =
      Split(x, dim.name, {first, dim.size - first});
  if (r.Chance(0.7)) r.Keep(parts[0]);
  r.Keep(parts[1]);
}

void AddDynamicShift(RandomGraph& r) {
  Tensor x = r.Any();
  if (x.shape().rank() == 0) return;
  const Dimension dim = r.Pick(x.shape().dims());
  const Shape shape = r.Subset(x.shape().Without(dim.name), 0.4);
  const std::string name = absl::StrCat("offset_", r.feeds().size());
  std::vector<double> numbers(shape.num_elements());
  const int most = static_cast<int>(dim.size) + 2;
  for (double& number : numbers) number = r.Int(-most, most);
  r.feeds()[name] = HostTensor::FromDoubles(shape, kInt32, numbers);
  const Tensor offset = Input(r.graph(), name, kInt32, shape);
  r.Keep(DynamicShift(x, dim.name, offset, r.Chance(0.5)));
}

void AddStatistics(RandomGraph& r) {
  Tensor x = r.Any();
  const Shape dims = r.Subset(x.shape(), 0.5);
  const MomentsResult moments = Moments(x, dims);
  if (r.Chance(0.4)) {
    return r.Keep((x - moments.mean) * Rsqrt(moments.variance + 0.5));
  }
  if (r.Chance(0.5)) r.Keep(moments.mean);
  r.Keep(moments.variance);
}

void AddBoolReduce(RandomGraph& r) {
  Tensor x = r.Pick(r.exact());
  const Tensor bools = Less(x, r.Chance(0.5) ? 0.8 : -0.8);
  const Shape output = r.Subset(x.shape(), 0.5);
  r.Keep(
      Cast(r.Chance(0.5) ? ReduceAll(bools, output) : ReduceAny(bools, output),
           kFloat32));
}

void AddOrder(RandomGraph& r) {
  Tensor x = r.Any(), y = r.Any();
  r.Keep(Depend(x * 0.5, {y, Sin(y)}));
}

void AddObservation(RandomGraph& r) {
  Tensor x = r.Any();
  Print(x, "", r.Int(0, 20));
  ScalarSummary(absl::StrCat("s", r.graph().observations().size()),
                ReduceMean(x, {}));
  r.Keep(Sin(x));
}

}  // namespace

void AddRandomSelection(RandomGraph& r) {
  switch (r.Int(0, 10)) {
    case 0:
      return AddSort(r);
    case 1:
      return AddBottomK(r);
    case 2:
      return AddSample(r);
    case 3:
      return AddSplit(r);
    case 4:
      return AddDynamicShift(r);
    case 5:
      return AddStatistics(r);
    case 6:
      return AddBoolReduce(r);
    case 7: {
      Tensor x = r.Any();
      return r.Keep(ReduceFirst(x, r.Subset(x.shape(), 0.5)));
    }
    case 8: {
      Tensor x = r.Any();
      return r.Keep(x + RandomGumbel(r.graph(), x.shape()) * 0.2);
    }
    case 9:
      return AddOrder(r);
    default:
      return AddObservation(r);
  }
}

}  // namespace mtf::testing
