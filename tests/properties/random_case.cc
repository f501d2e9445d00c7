// SPDX-License-Identifier: Apache-2.0
#include "tests/properties/random_case.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/check.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/gradients.h"
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
#include "ops/variable.h"
#include "tests/properties/random_numbers.h"
#include "tests/properties/random_parameters.h"

namespace mtf::testing {
namespace {

constexpr int64_t kMostElements = 3000;
constexpr int kMostRank = 4;

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed), precision_(seed) {
    program_.graph = std::make_unique<Graph>();
  }

  RandomProgram Make() {
    for (const char* name : {"a", "b", "c", "d"}) {
      sizes_[name] = Int(1, 13);
    }
    // A second and a third name of the same size, for renames.
    for (const char* name : {"a", "b", "c"}) {
      sizes_[absl::StrCat(name, 2)] = sizes_[name];
    }
    const int inputs = Int(1, 2), variables = Int(1, 3);
    for (int i = 0; i < inputs; ++i) MakeInput(i);
    for (int i = 0; i < variables; ++i) MakeVariable(i);
    const int operations = Int(3, 14);
    for (int i = 0; i < operations; ++i) AddOperation();
    const int counts = Int(0, 2);
    for (int i = 0; i < counts; ++i) {
      const Shape shape = RandomShape(3);
      program_.exact.push_back(MakeRandomNumbers(
          random_, graph(), shape, Subset(shape, 0.3), &program_.feeds));
    }
    Finish();
    MTF_CHECK(graph().status().ok()) << graph().status().ToString();
    return std::move(program_);
  }

 private:
  Graph& graph() { return *program_.graph; }
  int Int(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }
  bool Chance(double p) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < p;
  }
  template <class T>
  const T& Pick(const std::vector<T>& from) {
    return from[Int(0, static_cast<int>(from.size()) - 1)];
  }
  Tensor Any() {
    // Late values more often, so that chains grow.
    if (Chance(0.5)) {
      const int n = static_cast<int>(values_.size());
      return values_[Int(std::max(0, n - 3), n - 1)];
    }
    return Pick(values_);
  }

  Shape RandomShape(int most_rank) {
    std::vector<std::string> names;
    for (const auto& [name, size] : sizes_) names.push_back(name);
    std::shuffle(names.begin(), names.end(), random_);
    Shape shape;
    const int rank = Int(0, most_rank);
    for (const std::string& name : names) {
      if (shape.rank() == rank) break;
      if (shape.num_elements() * sizes_[name] > kMostElements / 4) continue;
      shape = shape.With({name, sizes_[name]});
    }
    return shape;
  }

  // Multiples of 1/64 in [-1, 1]: exact in every float.
  std::vector<double> Numbers(int64_t n) {
    std::vector<double> numbers(n);
    for (double& number : numbers) number = Int(-64, 64) / 64.0;
    return numbers;
  }

  void Keep(Tensor tensor, bool exact = false) {
    if (!tensor.valid()) return;
    if (tensor.shape().num_elements() > kMostElements ||
        tensor.shape().num_elements() == 0 ||
        tensor.shape().rank() > kMostRank) {
      return;
    }
    values_.push_back(tensor);
    if (exact) exact_.push_back(tensor);
  }

  void MakeInput(int i) {
    const Shape shape = RandomShape(3);
    const std::string name = absl::StrCat("input_", i);
    Keep(Input(graph(), name, kFloat32, shape), /*exact=*/true);
    program_.feeds[name] =
        HostTensor::FromDoubles(shape, kFloat32, Numbers(shape.num_elements()));
  }

  void MakeVariable(int i) {
    const Shape shape = RandomShape(3);
    Tensor initial;
    if (Chance(0.5)) {
      initial = RandomUniform(graph(), shape, -1, 1, {.per_step = false});
    } else {
      initial =
          Constant(graph(), Numbers(shape.num_elements()), kFloat32, shape);
    }
    const std::string name = absl::StrCat("variable_", i);
    Tensor variable = precision_() % 4 != 0
                          ? Variable(graph(), name, initial)
                          : NarrowVariable(graph(), name, initial);
    variables_.push_back(variable);
    // Of either dtype, the oracle has the same numbers.
    Keep(Cast(variable, kFloat32), true);
  }

  // Two tensors may meet where every shared name has one size.
  static bool CanMeet(Tensor x, Tensor y) {
    for (const Dimension& dim : x.shape()) {
      const int i = y.shape().Find(dim.name);
      if (i >= 0 && y.shape()[i].size != dim.size) return false;
    }
    return true;
  }
  static Shape Union(const Shape& x, const Shape& y) {
    Shape both = x;
    for (const Dimension& dim : y) {
      if (!both.Contains(dim.name)) both = both.With(dim);
    }
    return both;
  }
  Tensor Partner(Tensor x) {
    for (int tries = 0; tries < 8; ++tries) {
      Tensor y = Any();
      if (CanMeet(x, y) &&
          Union(x.shape(), y.shape()).num_elements() <= kMostElements &&
          Union(x.shape(), y.shape()).rank() <= kMostRank + 1) {
        return y;
      }
    }
    return x;
  }
  Shape Shuffled(const Shape& shape) {
    std::vector<Dimension> dims = shape.dims();
    if (Chance(0.5)) std::shuffle(dims.begin(), dims.end(), random_);
    return Shape(dims);
  }
  Shape Subset(const Shape& shape, double keep) {
    Shape subset;
    for (const Dimension& dim : Shuffled(shape)) {
      if (Chance(keep)) subset = subset.With(dim);
    }
    return subset;
  }

  void AddOperation() {
    switch (Int(0, 19)) {
      case 0:
      case 1:
      case 2:
        return AddEinsum();
      case 3:
      case 4:
        return AddBinary();
      case 5:
      case 6:
        return AddUnary();
      case 7:
      case 8:
        return AddReduce();
      case 9:
        return AddRename();
      case 10:
        return AddReshape();
      case 11:
        return AddMovement();
      case 12:
        return AddMovement();
      case 13:
        return AddGather();
      case 14:
        return AddRandom();
      case 15:
        return AddJump();
      case 16:
        return AddBroadcast();
      case 17:
        return AddScan();
      case 18:
        return AddTopK();
      default:
        return AddIndices();
    }
  }

  void AddEinsum() {
    std::vector<Tensor> operands = {Any()};
    Shape both = operands[0].shape();
    const int count = Chance(0.2) ? 3 : 2;
    for (int i = 1; i < count; ++i) {
      Tensor y = Partner(operands.back());
      bool meets = true;
      for (const Tensor& x : operands) meets = meets && CanMeet(x, y);
      if (!meets) continue;
      if (Union(both, y.shape()).rank() > 6) continue;
      operands.push_back(y);
      both = Union(both, y.shape());
    }
    if (both.num_elements() > kMostElements * 20) return;
    const Shape output = Subset(both, 0.55);
    if (output.rank() > kMostRank || output.num_elements() > kMostElements) {
      return;
    }
    const double terms = static_cast<double>(both.num_elements()) /
                         static_cast<double>(output.num_elements());
    // Scaled, so that values stay of order one.
    Keep(Einsum(operands, output) * (1.0 / terms));
  }

  void AddBinary() {
    Tensor x = Any(), y = Partner(x);
    switch (Int(0, 3)) {
      case 0:
        return Keep(x + y);
      case 1:
        return Keep(x - y);
      case 2:
        return Keep(x * y);
      default:
        return Keep(x / (Square(y) + 1.0));
    }
  }

  void AddUnary() {
    Tensor x = Any();
    switch (Int(0, 11)) {
      case 0:
        return Keep(Tanh(x));
      case 1:
        return Keep(Sigmoid(x));
      case 2:
        return Keep(Sin(x));
      case 3:
        return Keep(Cos(x));
      case 4:
        return Keep(Softplus(x));
      case 5:
        return Keep(Gelu(x));
      case 6:
        return Keep(Swish(x));
      case 7:
        return Keep(-x);
      case 8:
        return Keep(Rsqrt(Square(x) + 1.0));
      case 9:
        return Keep(Exp(Tanh(x)));
      case 10:
        return Keep(Log(Square(x) + 1.0) * 0.5);
      default:
        return Keep(StopGradient(x) * 0.5);
    }
  }

  void AddReduce() {
    Tensor x = Any();
    const Shape output = Subset(x.shape(), 0.5);
    switch (Int(0, 4)) {
      case 0:
        return Keep(ReduceSum(x, output) *
                    (static_cast<double>(output.num_elements()) /
                     static_cast<double>(x.shape().num_elements())));
      case 1:
        return Keep(ReduceMean(x, output));
      case 2:
        return Keep(ReduceMax(x, output));
      case 3:
        return Keep(ReduceMin(x, output));
      default:
        return Keep(ReduceLogSumExp(x, output) * 0.5);
    }
  }

  void AddRename() {
    Tensor x = Any();
    if (x.shape().rank() == 0) return;
    const Dimension dim = Pick(x.shape().dims());
    std::vector<std::string> names;
    for (const auto& [name, size] : sizes_) {
      if (size == dim.size && !x.shape().Contains(name)) names.push_back(name);
    }
    if (names.empty()) return;
    const std::string name = Pick(names);
    Keep(Int(0, 1) == 0 ? Rename(x, dim.name, name)
                        : SecondName(x, dim.name, name));
  }

  void AddReshape() {
    Tensor x = Any();
    if (x.shape().rank() == 0) return;
    if (x.shape().rank() > 1 && Chance(0.6)) {
      const int at = Int(0, x.shape().rank() - 2);
      const Dimension &major = x.shape()[at], &minor = x.shape()[at + 1];
      const std::string merged = absl::StrCat(major.name, "_", minor.name);
      if (x.shape().Contains(merged) || merged.size() > 12) return;
      return Keep(MergeDimensions(x, {major.name, minor.name}, merged));
    }
    const Dimension dim = Pick(x.shape().dims());
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= dim.size; ++d) {
      if (dim.size % d == 0) divisors.push_back(d);
    }
    const int64_t major = Pick(divisors);
    const std::string first = absl::StrCat("p", major),
                      second = absl::StrCat("q", dim.size / major);
    if (x.shape().Contains(first) || x.shape().Contains(second)) return;
    Keep(SplitDimension(x, dim.name,
                        {{first, major}, {second, dim.size / major}}));
  }

  void AddMovement() {
    Tensor x = Any();
    if (x.shape().rank() == 0) return;
    const Dimension dim = Pick(x.shape().dims());
    const int size = static_cast<int>(dim.size);
    switch (Int(0, 4)) {
      case 0: {
        const int begin = Int(0, size - 1);
        return Keep(Slice(x, dim.name, begin, Int(1, size - begin)));
      }
      case 1:
        return Keep(Pad(x, dim.name, Int(0, 3), Int(0, 3), Chance(0.5)));
      case 2: {
        Tensor y = Chance(0.5) ? Tanh(x) : Transpose(x, Shuffled(x.shape()));
        return Keep(Concat({x, y}, dim.name));
      }
      case 3:
        return Keep(Shift(x, dim.name, Int(-size - 1, size + 1), Chance(0.5)));
      default:
        return Keep(Transpose(x, Shuffled(x.shape())));
    }
  }

  void AddGather() {
    Tensor table = Any();
    if (table.shape().rank() == 0) return;
    const Dimension dim = Pick(table.shape().dims());
    const Shape shape = RandomShape(2).Without(dim.name);
    for (const Dimension& other : shape) {
      const int i = table.shape().Find(other.name);
      if (i >= 0 && table.shape()[i].size != other.size) return;
    }
    if (Union(shape, table.shape()).num_elements() > kMostElements) return;
    const std::string name = absl::StrCat("indices_", program_.feeds.size());
    std::vector<double> numbers(shape.num_elements());
    for (double& number : numbers) {
      number = Int(0, static_cast<int>(dim.size) - 1);
    }
    program_.feeds[name] = HostTensor::FromDoubles(shape, kInt32, numbers);
    Tensor indices = Input(graph(), name, kInt32, shape);
    Keep(Gather(table, indices, dim.name));
    if (shape.rank() < 2 && !shape.Contains(dim.name)) {
      Keep(OneHot(indices, dim));
    }
  }

  void AddRandom() {
    Tensor x = Any();
    switch (Int(0, 2)) {
      case 0:
        return Keep(Dropout(x, 0.25));
      case 1:
        return Keep(Dropout(x, 0.5, {.noise_shape = Subset(x.shape(), 0.7)}));
      default:
        return Keep(x + RandomUniform(graph(), x.shape(), -1, 1));
    }
  }

  // Functions with jumps, of exact values only.
  void AddJump() {
    Tensor x = Pick(exact_), y = Pick(exact_);
    if (!CanMeet(x, y)) y = x;
    if (Union(x.shape(), y.shape()).num_elements() > kMostElements ||
        Union(x.shape(), y.shape()).rank() > kMostRank) {
      return;
    }
    switch (Int(0, 6)) {
      case 0:
        return Keep(Relu(x), true);
      case 1:
        return Keep(Abs(x), true);
      case 2:
        return Keep(Maximum(x, y), true);
      case 3:
        return Keep(Minimum(x, y), true);
      case 4:
        return Keep(Select(Less(x, y), x, y * 2.0));
      case 5:
        return Keep(Elu(x));
      default:
        return Keep(Mod(x + 2.0, Abs(y) + 0.5));
    }
  }

  void AddScan() {
    const bool jumps = Chance(0.4);
    Tensor x = jumps ? Pick(exact_) : Any();
    if (x.shape().rank() == 0) return;
    const Dimension dim = Pick(x.shape().dims());
    ScanOptions options{.exclusive = Chance(0.5), .reverse = Chance(0.5)};
    if (!jumps) {
      return Keep(CumulativeSum(x, dim.name, options) *
                  (1.0 / static_cast<double>(dim.size)));
    }
    // Nothing stands before the first of an exclusive one but an infinity.
    options.exclusive = false;
    Keep(Chance(0.5) ? CumulativeMax(x, dim.name, options)
                     : CumulativeMin(x, dim.name, options),
         true);
  }

  void AddTopK() {
    Tensor x = Pick(exact_);
    if (x.shape().rank() == 0) return;
    const Dimension dim = Pick(x.shape().dims());
    const std::string name = absl::StrCat("k", Int(1, 3));
    const Dimension k{name, Int(1, static_cast<int>(dim.size))};
    if (x.shape().Contains(name)) return;
    const TopKResult top = TopK(x, dim.name, k);
    if (Chance(0.5)) return Keep(top.values, true);
    Keep(Cast(top.indices, kFloat32) * (1.0 / static_cast<double>(dim.size)));
  }

  void AddBroadcast() {
    Tensor x = Any();
    const Shape shape = Union(x.shape(), RandomShape(2));
    for (const Dimension& dim : shape) {
      const int i = x.shape().Find(dim.name);
      if (i >= 0 && x.shape()[i].size != dim.size) return;
    }
    if (shape.num_elements() > kMostElements || shape.rank() > kMostRank) {
      return;
    }
    Keep(Broadcast(x, Shuffled(shape)));
  }

  void AddIndices() {
    Tensor x = Any();
    if (x.shape().rank() == 0) return;
    const Dimension dim = Pick(x.shape().dims());
    Tensor range = Cast(Range(graph(), dim), kFloat32);
    Keep(x * (range * (1.0 / static_cast<double>(dim.size))));
  }

  void Finish() {
    Tensor last = values_.back();
    Tensor loss = ReduceMean(last, {});
    if (Chance(0.5)) {
      loss = loss + ReduceMean(Square(Any()), {});
    }
    program_.fetches = {loss, last, Any()};
    std::vector<Tensor> gradients = Gradients(loss, variables_);
    std::vector<Tensor> updates;
    Tensor norm;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].valid()) continue;
      program_.fetches.push_back(gradients[i]);
      Tensor square = ReduceSum(Square(gradients[i]), {});
      norm = norm.valid() ? norm + square : square;
      SectionScope section(graph(), LayoutSection::kOptimizer);
      Descend(variables_[i], gradients[i], updates);
    }
    if (norm.valid()) {
      program_.fetches.push_back(norm);
      // Second order: the gradient of the squared length of the gradient.
      if (Chance(0.4)) {
        for (Tensor second : Gradients(norm, variables_)) {
          if (second.valid()) program_.fetches.push_back(second);
        }
      }
    }
    if (!updates.empty()) program_.updates = {Group(graph(), updates)};
  }

  std::mt19937_64 random_;
  std::mt19937_64 precision_;  // so that the rest is the same without
  RandomProgram program_;
  std::map<std::string, int64_t> sizes_;
  std::vector<Tensor> values_;
  std::vector<Tensor> exact_;  // equal in float and in double
  std::vector<Tensor> variables_;
};

}  // namespace

RandomProgram MakeRandomProgram(uint64_t seed) {
  return Generator(seed).Make();
}

}  // namespace mtf::testing
