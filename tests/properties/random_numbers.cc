// SPDX-License-Identifier: Apache-2.0
#include "tests/properties/random_numbers.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"

namespace mtf::testing {
namespace {

class Numbers {
 public:
  Numbers(std::mt19937_64& random, Graph& graph,
          std::map<std::string, HostTensor>* feeds)
      : random_(random), graph_(graph), feeds_(feeds) {}

  // A chain of steps, followed by a reduction that is exact in any order.
  Tensor Make(const Shape& shape, const Shape& output) {
    Tensor x = ExactSource(shape), y = ExactSource(shape);
    const int steps = Int(1, 6);
    for (int i = 0; i < steps; ++i) {
      Tensor z = ExactStep(x, y);
      if (Chance(0.3)) y = x;
      x = z;
    }
    if (x.dtype() == kBool) x = Cast(x, kAllDTypes[Int(0, 4)]);
    switch (Int(0, 3)) {
      case 0:
        return ReduceMax(x, output);
      case 1:
        return ReduceMin(x, output);
      case 2:
        return ReduceSum(Cast(x, Chance(0.5) ? kInt32 : kInt64), output);
      default:
        return ReduceSum(Cast(Cast(x, kBool), kFloat32), output);
    }
  }

 private:
  int Int(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }
  bool Chance(double p) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < p;
  }

  // A number of any magnitude, from those that a dtype rounds to zero up to the
  // end of its range; a whole number for an integer dtype. 0 and 1 are the
  // values of padding.
  double AnyNumber(DType dtype) {
    static const double kSpecial[] = {
        0,     1,     -1,   0.1,    0.3,    0.5,    0.7,   2,
        255,   256.5, 1e-8, 3e-8,   1e-50,  -1e-50, 1e-40, 2049,
        65504, 1e30,  3e38, 0x1p24, 0x1p31, 0x1p53, 0x1p62};
    double number = kSpecial[Int(0, static_cast<int>(std::size(kSpecial)) - 1)];
    if (Chance(0.4)) {
      const double digits = 1 + Int(0, 9999) / 10000.0;
      number = std::ldexp(digits, Int(-160, 127));
      if (Chance(0.5)) number = -number;
    }
    switch (dtype) {
      case kFloat32:
        return number;
      case kBFloat16:
        return std::clamp(number, -3e38, 3e38);
      case kFloat16:
        return std::clamp(number, -65504.0, 65504.0);
      case kInt32:
        return std::clamp(std::floor(number), -0x1p31, 0x1p31 - 1);
      case kInt64:
        return std::clamp(std::floor(number), -0x1p63, 0x1p63 - 1024);
      case kBool:
        return Int(0, 1);
    }
    return 0;
  }
  DType AnyDType() { return kAllDTypes[Int(0, std::size(kAllDTypes) - 1)]; }

  Tensor ExactSource(const Shape& shape) {
    const DType dtype = AnyDType();
    if (Chance(0.4)) {
      return Constant(graph_, AnyNumber(dtype), dtype, shape);
    }
    std::vector<double> numbers(shape.num_elements());
    for (double& number : numbers) number = AnyNumber(dtype);
    if (Chance(0.3)) return Constant(graph_, numbers, dtype, shape);
    const std::string name = absl::StrCat("numbers_", feeds_->size());
    (*feeds_)[name] = HostTensor::FromDoubles(shape, dtype, numbers);
    return Input(graph_, name, dtype, shape);
  }

  // One function of `x` and of a tensor or a literal of its dtype. Only
  // functions with a single rounding, since devices may contract several.
  Tensor ExactStep(Tensor x, Tensor y) {
    const DType dtype = x.dtype();
    if (Chance(0.25)) return Cast(x, AnyDType());
    TensorArg other = Cast(y, dtype);
    if (Chance(0.6)) other = AnyNumber(dtype);
    if (dtype == kBool) {
      switch (Int(0, 3)) {
        case 0:
          return LogicalAnd(x, other);
        case 1:
          return LogicalOr(x, other);
        case 2:
          return Select(x, Cast(y, kFloat32), AnyNumber(kFloat32));
        default:
          return LogicalNot(x);
      }
    }
    switch (Int(0, 17)) {
      case 0:
        return Add(x, other);
      case 1:
        return Subtract(x, other);
      case 2:
        return Multiply(x, other);
      case 3:
        return IsFloat(dtype) ? Divide(x, other) : FloorDivide(x, other);
      case 4:
        return IsFloat(dtype) ? Divide(other, x) : Mod(x, other);
      case 5:
        return Maximum(x, other);
      case 6:
        return Minimum(x, other);
      case 7:
        return Abs(x);
      case 8:
        return Negate(x);
      case 9:
        return Sign(x);
      case 10:
        return Relu(x);
      case 11:
        return Select(Greater(x, other), x, AnyNumber(dtype));
      case 12:
        return Less(x, other);
      case 13:
        return LessEqual(x, other);
      case 14:
        return Greater(x, other);
      case 15:
        return GreaterEqual(x, other);
      case 16:
        return Equal(x, other);
      default:
        return NotEqual(x, other);
    }
  }

  std::mt19937_64& random_;
  Graph& graph_;
  std::map<std::string, HostTensor>* feeds_;
};

}  // namespace

Tensor MakeRandomNumbers(std::mt19937_64& random, Graph& graph,
                         const Shape& shape, const Shape& output,
                         std::map<std::string, HostTensor>* feeds) {
  return Numbers(random, graph, feeds).Make(shape, output);
}

}  // namespace mtf::testing
