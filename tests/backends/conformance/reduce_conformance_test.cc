// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/backends/conformance/device_case.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

using F = ScalarFunction;

class ReduceTest : public DeviceTest {};
MTF_INSTANTIATE_FOR_ALL_DEVICES(ReduceTest);

DeviceCase ReduceCase(ReduceKind kind, std::vector<LocalTensor> operands,
                      LocalTensor result, const Shape& iteration) {
  DeviceCase test;
  test.instruction = Instruction(Opcode::kReduce);
  test.instruction.Get<ReduceAttributes>().kind = kind;
  ExpressionOf(test.instruction) = MapExpression::Single(
      operands.size() == 1 ? F::kIdentity : F::kMultiply, operands[0].dtype,
      static_cast<int>(operands.size()));
  test.instruction.Get<ReduceAttributes>().iteration = iteration;
  for (const Dimension& dim : iteration) {
    test.iteration.push_back({dim.size, 0, dim.size});
  }
  test.operands = std::move(operands);
  test.result = std::move(result);
  return test;
}

double IdentityOf(ReduceKind kind, DType dtype) {
  const double inf = std::numeric_limits<double>::infinity();
  if (kind == ReduceKind::kSum) return 0;
  double bound = inf;
  if (dtype == kBool) return kind == ReduceKind::kMin;
  if (dtype == kInt32) {
    return kind == ReduceKind::kMin ? 2147483647.0 : -2147483648.0;
  }
  if (dtype == kInt64) bound = 9223372036854775808.0;  // as a double
  return kind == ReduceKind::kMin ? bound : -bound;
}

// The product of the operands, reduced by one loop. Sets `scale` to the largest
// sum of absolute values.
LocalTensor Expected(const DeviceCase& test, double* scale) {
  LocalTensor want = test.result, absolute = test.result;
  const ReduceKind kind = ReductionOf(test.instruction);
  for (double& value : want.values) value = IdentityOf(kind, want.dtype);
  for (double& value : absolute.values) value = 0;
  ForEachElement(test.instruction.Get<ReduceAttributes>().iteration,
                 test.iteration, [&](const Coordinates& here) {
                   double x = 1;
                   for (const LocalTensor& operand : test.operands) {
                     x *= operand.At(here);
                   }
                   double& sum = want.At(here);
                   sum = kind == ReduceKind::kSum   ? sum + x
                         : kind == ReduceKind::kMax ? std::max(sum, x)
                                                    : std::min(sum, x);
                   absolute.At(here) += std::abs(x);
                 });
  *scale = 0;
  for (double value : absolute.values) *scale = std::max(*scale, value);
  return want;
}

TEST_P(ReduceTest, EveryKindEveryDTypeEverySetOfDimensions) {
  CaseSample sample(GetParam(), 7);
  const Dimension a{"a", 3}, b{"b", 5}, c{"c", 7};
  const std::vector<Shape> results = {{},     {a},    {b},    {c},      {a, b},
                                      {b, a}, {b, c}, {c, a}, {c, b, a}};
  for (ReduceKind kind :
       {ReduceKind::kSum, ReduceKind::kMax, ReduceKind::kMin}) {
    for (DType dtype : {kFloat32, kBFloat16, kFloat16, kInt32, kInt64}) {
      for (const Shape& shape : results) {
        if (!sample.TakesNext()) continue;
        SCOPED_TRACE(std::string(DTypeName(dtype)) + " kind " +
                     std::to_string(static_cast<int>(kind)) + " to " +
                     shape.ToString());
        DeviceCase test = ReduceCase(kind, {Unsharded({a, b, c}, dtype)},
                                     Unsharded(shape, dtype), {a, b, c});
        double scale = 0;
        const LocalTensor want = Expected(test, &scale);
        ExpectClose(test.Run(GetParam()), want, scale);
      }
    }
  }
}

struct Sizes {
  std::string name;
  Shape operand, result;
};

const std::vector<Sizes>& LongReductions() {
  static const auto& sizes = *new std::vector<Sizes>{
      {"short rows", {{"r", 300}, {"k", 33}}, {{"r", 300}}},
      {"rows of a block", {{"r", 9}, {"k", 512}}, {{"r", 9}}},
      {"long rows", {{"r", 5}, {"k", 5000}}, {{"r", 5}}},
      {"one long row", {{"k", 300001}}, {}},
      {"few columns", {{"k", 4001}, {"c", 6}}, {{"c", 6}}},
      {"columns", {{"k", 700}, {"c", 100}}, {{"c", 100}}},
      {"many columns", {{"k", 130}, {"c", 1030}}, {{"c", 1030}}},
      {"long columns", {{"k", 70000}, {"c", 3}}, {{"c", 3}}},
      {"outer and columns",
       {{"o", 4}, {"k", 90}, {"c", 70}},
       {{"o", 4}, {"c", 70}}},
      {"turned result",
       {{"o", 40}, {"k", 9}, {"c", 30}},
       {{"c", 30}, {"o", 40}}},
      {"split rows", {{"i", 20}, {"r", 17}, {"k", 31}}, {{"r", 17}}},
  };
  return sizes;
}

TEST_P(ReduceTest, LongReductionsUnderAnyThreads) {
  if (GetParam() != "cpu") SKIP_UNDER_SANITIZERS("long sums");
  for (const Sizes& sizes : LongReductions()) {
    for (ReduceKind kind : {ReduceKind::kSum, ReduceKind::kMax}) {
      for (DType dtype : {kFloat32, kInt32}) {
        SCOPED_TRACE(sizes.name + " " + std::string(DTypeName(dtype)));
        DeviceCase test =
            ReduceCase(kind, {Unsharded(sizes.operand, dtype)},
                       Unsharded(sizes.result, dtype), sizes.operand);
        double scale = 0;
        const LocalTensor want = Expected(test, &scale);
        const LocalTensor once = test.Run(GetParam());
        ExpectClose(once, want, scale);
        ExpectSame(test.Run(GetParam(), 3), once);
      }
    }
  }
}

TEST_P(ReduceTest, AMapBeforeTheReduction) {
  // sum over k of x[r, k] * y[k], read in another order than it is stored.
  const Dimension r{"r", 37}, k{"k", 60};
  DeviceCase test =
      ReduceCase(ReduceKind::kSum, {Unsharded({k, r}), Unsharded({k})},
                 Unsharded({r}), {r, k});
  double scale = 0;
  const LocalTensor want = Expected(test, &scale);
  ExpectClose(test.Run(GetParam()), want, scale);
}

TEST_P(ReduceTest, BFloat16SumsAreInFloat) {
  // 4096 ones are 4096; adding in bfloat16 would stop at 256.
  const Dimension k{"k", 4096}, c{"c", 3};
  for (const Shape& shape : {Shape{k, c}, Shape{c, k}}) {
    LocalTensor ones = Unsharded(shape, kBFloat16);
    for (double& value : ones.values) value = 1;
    DeviceCase test =
        ReduceCase(ReduceKind::kSum, {ones}, Unsharded({c}, kBFloat16), shape);
    for (double value : test.Run(GetParam()).values) EXPECT_EQ(value, 4096);
  }
}

TEST_P(ReduceTest, NanPropagates) {
  const Dimension r{"r", 40}, k{"k", 70};
  for (const Shape& shape : {Shape{r, k}, Shape{k, r}}) {
    for (ReduceKind kind : {ReduceKind::kMax, ReduceKind::kMin}) {
      LocalTensor x = Unsharded(shape);
      x.At({{"r", 3}, {"k", 69}}) = std::nan("");
      x.At({{"r", 8}, {"k", 0}}) = std::nan("");
      DeviceCase test = ReduceCase(kind, {x}, Unsharded({r}), shape);
      const LocalTensor got = test.Run(GetParam());
      for (int64_t i = 0; i < r.size; ++i) {
        EXPECT_EQ(std::isnan(got.values[i]), i == 3 || i == 8) << i;
      }
    }
  }
}

TEST_P(ReduceTest, EmptyReductionsGiveTheIdentity) {
  const Dimension r{"r", 4}, k{"k", 0}, c{"c", 3};
  for (ReduceKind kind :
       {ReduceKind::kSum, ReduceKind::kMax, ReduceKind::kMin}) {
    for (DType dtype : {kFloat32, kBFloat16, kInt32, kBool}) {
      for (const Shape& shape : {Shape{r, k, c}, Shape{r, c, k}}) {
        DeviceCase test = ReduceCase(kind, {Unsharded(shape, dtype)},
                                     Unsharded({r, c}, dtype), shape);
        for (double value : test.Run(GetParam()).values) {
          EXPECT_EQ(value, IdentityOf(kind, dtype)) << DTypeName(dtype);
        }
      }
    }
  }
}

TEST_P(ReduceTest, BoolsAnyAndAll) {
  const Dimension r{"r", 20}, k{"k", 3};
  for (ReduceKind kind : {ReduceKind::kMax, ReduceKind::kMin}) {
    DeviceCase test = ReduceCase(kind, {Unsharded({r, k}, kBool)},
                                 Unsharded({r}, kBool), {r, k});
    double scale = 0;
    ExpectSame(test.Run(GetParam()), Expected(test, &scale));
  }
}

}  // namespace
}  // namespace mtf::testing
