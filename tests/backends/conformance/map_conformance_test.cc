// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include <cmath>
#include <limits>
#include <vector>

#include "tests/backends/conformance/device_case.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

using F = ScalarFunction;

class MapTest : public DeviceTest {};
MTF_INSTANTIATE_FOR_ALL_DEVICES(MapTest);

std::vector<F> RowsOfTheTable() {
  std::vector<F> rows;
  for (int i = 0; i <= static_cast<int>(F::kSelect); ++i) {
    rows.push_back(static_cast<F>(i));
  }
  return rows;
}

std::vector<DType> DTypesOf(FunctionDomain domain) {
  switch (domain) {
    case FunctionDomain::kFloat:
      return {kFloat32, kBFloat16, kFloat16};
    case FunctionDomain::kNumber:
      return {kFloat32, kBFloat16, kFloat16, kInt32, kInt64};
    case FunctionDomain::kLogical:
      return {kBool};
    case FunctionDomain::kAny:
      return {kFloat32, kBFloat16, kFloat16, kInt32, kInt64, kBool};
  }
  return {};
}

DType ResultOf(F function, DType dtype) {
  return InfoOf(function).is_comparison ? kBool : dtype;
}

// A map of one row over operands of one dtype; select gets a bool first.
DeviceCase RowCase(F function, DType dtype, const Shape& shape) {
  DeviceCase test;
  const int arity = InfoOf(function).arity;
  test.instruction = Instruction(Opcode::kMap);
  ExpressionOf(test.instruction) =
      MapExpression::Single(function, ResultOf(function, dtype), arity);
  test.result = Unsharded(shape, ResultOf(function, dtype));
  return test;
}

// The value of the row for one element. An integer divided by zero has the
// quotient 0 and the remainder of the dividend.
double Expected(F function, const std::vector<LocalTensor>& operands,
                const Coordinates& here) {
  double x[3] = {0, 0, 0};
  for (size_t i = 0; i < operands.size(); ++i) x[i] = operands[i].At(here);
  const bool divides = function == F::kFloorDivide || function == F::kMod;
  if (divides && x[1] == 0 && IsInteger(operands[0].dtype)) {
    return function == F::kMod ? x[0] : 0;
  }
  return EvaluateScalar(function, x[0], x[1], x[2]);
}

LocalTensor ExpectedResult(const DeviceCase& test, F function) {
  LocalTensor want = test.result;
  ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
    want.At(here) = Expected(function, test.operands, here);
  });
  return want;
}

TEST_P(MapTest, EveryRowOnEveryDType) {
  if (GetParam() == "cuda_emulated") SKIP_UNDER_SANITIZERS("many kernels");
  CaseSample sample(GetParam(), 7);
  const Shape shape{{"a", 7}, {"b", 150}};
  for (F function : RowsOfTheTable()) {
    const ScalarFunctionInfo& info = InfoOf(function);
    for (DType dtype : DTypesOf(info.domain)) {
      if (!sample.TakesNext()) continue;
      SCOPED_TRACE(std::string(info.text) + " " +
                   std::string(DTypeName(dtype)));
      DeviceCase test = RowCase(function, dtype, shape);
      for (int i = 0; i < info.arity; ++i) {
        const bool condition = function == F::kSelect && i == 0;
        LocalTensor x = Unsharded(shape, condition ? kBool : dtype);
        // Different numbers in the second operand, including zero and
        // negatives.
        for (size_t j = 0; i > 0 && !condition && j < x.values.size(); ++j) {
          x.values[j] = dtype == kBool ? double(j % 3 == 0)
                                       : double(int64_t(j * 11 % 9) - 4);
        }
        test.operands.push_back(std::move(x));
      }
      // Sums within a row lose digits by cancellation.
      ExpectClose(test.Run(GetParam()), ExpectedResult(test, function), 0.05);
    }
  }
}

TEST_P(MapTest, SpecialNumbers) {
  if (GetParam() == "cuda_emulated") SKIP_UNDER_SANITIZERS("many kernels");
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> special = {
      0.0,    -0.0,   1.0,   -1.0,    inf,    -inf,  nan,  88.5,  88.72,
      88.8,   104.0,  200.0, -87.0,   -103.0, -110., 1e30, -1e30, 1e-30,
      -1e-30, -0.999, -1.5,  39000.0, 1e6,    -3e4,  0.3,  1e-7};
  const int64_t n = static_cast<int64_t>(special.size());
  const Shape shape{{"x", n}, {"y", n}};
  for (F function : RowsOfTheTable()) {
    const ScalarFunctionInfo& info = InfoOf(function);
    if (info.domain == FunctionDomain::kLogical || function == F::kSelect) {
      continue;
    }
    // If the quotient has more digits than a float, so has its floor.
    if (function == F::kFloorDivide || function == F::kMod) continue;
    SCOPED_TRACE(std::string(info.text));
    DeviceCase test = RowCase(function, kFloat32, shape);
    test.operands.push_back(Unsharded({{"x", n}}, kFloat32, special));
    if (info.arity > 1) {
      test.operands.push_back(Unsharded({{"y", n}}, kFloat32, special));
    }
    LocalTensor want = ExpectedResult(test, function);
    // Numbers beyond the range of float are infinite on every device.
    for (double& value : want.values) value = static_cast<float>(value);
    ExpectClose(test.Run(GetParam()), want, 1e-4);
  }
}

// Its form with a tanh subtracts nearly equal numbers around -3.
TEST_P(MapTest, GeluDerivativeKeepsItsDigitsAndIsFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> special = {
      0.0, -0.0, 1e-30, -1e-30, 1e-7, -1e-7, 0.5,  -0.5, 1.0,         -1.0,
      3.0, -3.0, -2.9,  -3.1,   -4.0, -5.0,  10.0, -10., 40.0,        -40,
      1e4, -1e4, 1e19,  -1e19,  3e38, -3e38, inf,  -inf, std::nan("")};
  const Shape shape{{"x", static_cast<int64_t>(special.size())}};
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    SCOPED_TRACE(std::string(DTypeName(dtype)));
    DeviceCase test = RowCase(F::kGeluDerivative, dtype, shape);
    test.operands = {Unsharded(shape, dtype, special)};
    const LocalTensor want = ExpectedResult(test, F::kGeluDerivative);
    const LocalTensor got = test.Run(GetParam());
    ExpectClose(got, want, 1e-3);
    for (size_t i = 0; i < special.size(); ++i) {
      const double x = special[i], y = got.values[i];
      SCOPED_TRACE(x);
      if (std::abs(x) < 1e-6) {
        EXPECT_NEAR(y, 0.5, 2e-7);
      } else if (x >= 10) {
        EXPECT_EQ(y, 1);
      } else if (x <= -40) {
        EXPECT_EQ(y, 0);
      }
    }
  }
}

TEST_P(MapTest, OperandsBroadcastInAnyOrder) {
  if (GetParam() == "cuda_emulated") SKIP_UNDER_SANITIZERS("many kernels");
  CaseSample sample(GetParam(), 7);
  const Dimension a{"a", 3}, b{"b", 5}, c{"c", 7}, one{"one", 1};
  const std::vector<Shape> shapes = {
      {a, b, c}, {c, b, a}, {b, a, c}, {a, c, b}, {a, b}, {b, c},     {a, c},
      {c, a},    {a},       {b},       {c},       {},     {c, one, a}};
  for (const Shape& result : {Shape{a, b, c}, Shape{c, a, one, b}}) {
    for (const Shape& x : shapes) {
      if (x.Contains("one") && !result.Contains("one")) continue;
      for (const Shape& y : shapes) {
        if (y.Contains("one") && !result.Contains("one")) continue;
        if (!sample.TakesNext()) continue;
        SCOPED_TRACE(x.ToString() + " - " + y.ToString() + " -> " +
                     result.ToString());
        DeviceCase test = RowCase(F::kSubtract, kFloat32, result);
        test.operands = {Unsharded(x), Unsharded(y)};
        ExpectClose(test.Run(GetParam()), ExpectedResult(test, F::kSubtract));
      }
    }
  }
}

TEST_P(MapTest, EveryCast) {
  if (GetParam() == "cuda_emulated") SKIP_UNDER_SANITIZERS("many kernels");
  const Shape shape{{"a", 60}};
  std::vector<double> numbers;
  for (int i = 0; i < 60; ++i) numbers.push_back((i - 30) * 0.75);
  for (DType from : kAllDTypes) {
    for (DType to : kAllDTypes) {
      SCOPED_TRACE(std::string(DTypeName(from)) + " to " +
                   std::string(DTypeName(to)));
      DeviceCase test;
      test.instruction = Instruction(Opcode::kMap);
      ExpressionOf(test.instruction) = MapExpression::Cast(to);
      std::vector<double> values = numbers;
      if (IsInteger(from)) {
        for (double& value : values) value = std::trunc(value);
      }
      test.operands = {Unsharded(shape, from, values)};
      test.result = Unsharded(shape, to);
      LocalTensor want = test.result;
      for (size_t i = 0; i < want.values.size(); ++i) {
        const double x = test.operands[0].values[i];
        want.values[i] = to == kBool     ? x != 0
                         : IsInteger(to) ? std::trunc(x)
                                         : x;
      }
      ExpectSame(test.Run(GetParam()), want);
    }
  }
}

TEST_P(MapTest, FloatsOutOfIntegerRangeSaturate) {
  const double inf = std::numeric_limits<double>::infinity();
  DeviceCase test;
  test.instruction = Instruction(Opcode::kMap);
  ExpressionOf(test.instruction) = MapExpression::Cast(kInt32);
  test.operands = {
      Unsharded({{"a", 5}}, kFloat32, {inf, -inf, 3e9, -3e9, std::nan("")})};
  test.result = Unsharded({{"a", 5}}, kInt32);
  LocalTensor want = test.result;
  want.values = {2147483647.0, -2147483648.0, 2147483647.0, -2147483648.0, 0};
  ExpectSame(test.Run(GetParam()), want);
}

TEST_P(MapTest, IntegersWrapAfterEveryStep) {
  const Shape shape{{"a", 4}};
  DeviceCase test;
  test.instruction = Instruction(Opcode::kMap);
  test.operands = {
      Unsharded(shape, kInt32, {2147483647, -2147483648.0, 65536, 100003})};
  test.result = Unsharded(shape, kInt32);
  LocalTensor want = test.result;
  const MapStep square{F::kSquare, kInt32, {0}, 0, ""};
  ExpressionOf(test.instruction) = {1, {square}};
  want.values = {1, 0, 0, 1410665417};
  ExpectSame(test.Run(GetParam()), want);
  // The same within an expression, where registers may be wider.
  ExpressionOf(test.instruction) = {1,
                                    {square,
                                     {F::kLiteral, kInt32, {}, 2, ""},
                                     {F::kFloorDivide, kInt32, {1, 2}, 0, ""}}};
  want.values = {0, 0, 0, 705332708};
  ExpectSame(test.Run(GetParam()), want);
  ExpressionOf(test.instruction) = {1,
                                    {square,
                                     {F::kCast, kInt64, {1}, 0, ""},
                                     {F::kLiteral, kInt64, {}, 1 << 20, ""},
                                     {F::kMultiply, kInt64, {2, 3}, 0, ""},
                                     {F::kCast, kInt32, {4}, 0, ""}}};
  want.values = {1 << 20, 0, 0, -1131413504};
  ExpectSame(test.Run(GetParam()), want);
}

TEST_P(MapTest, Int64sWrapToo) {
  const Shape shape{{"a", 3}};
  DeviceCase test;
  test.instruction = Instruction(Opcode::kMap);
  test.operands = {Unsharded(shape, kInt64, {-0x1p63, 0x1p62, 0x1p32})};
  test.result = Unsharded(shape, kInt64);
  LocalTensor want = test.result;
  for (const auto& [function, values] :
       std::vector<std::pair<F, std::vector<double>>>{
           {F::kNegate, {-0x1p63, -0x1p62, -0x1p32}},
           {F::kAbs, {-0x1p63, 0x1p62, 0x1p32}},
           {F::kSquare, {0, 0, 0}}}) {
    SCOPED_TRACE(std::string(InfoOf(function).text));
    ExpressionOf(test.instruction) = MapExpression::Single(function, kInt64, 1);
    want.values = values;
    ExpectSame(test.Run(GetParam()), want);
  }
}

TEST_P(MapTest, ALiteralIsRoundedToItsDType) {
  if (GetParam() == "cuda_emulated") SKIP_UNDER_SANITIZERS("many kernels");
  const double inf = std::numeric_limits<double>::infinity();
  for (DType dtype : kAllDTypes) {
    for (double number :
         {1e-8, -1e-8, 1e-50, 1e-40, 0.1, 0.3, 257.0, 2049.0, 16777217.0, 1e30,
          70000.0, 1e39, 0x1p62, -0x1p63, inf, -inf}) {
      SCOPED_TRACE(std::string(DTypeName(dtype)) + " " +
                   std::to_string(number));
      DeviceCase test;
      test.instruction = Instruction(Opcode::kMap);
      ExpressionOf(test.instruction) = MapExpression::Literal(number, dtype);
      test.result = Unsharded({{"a", 3}}, dtype);
      // Rounded as in memory.
      ExpectSame(test.Run(GetParam()),
                 Unsharded({{"a", 3}}, dtype, {number, number, number}));
    }
  }
}

// A causal mask with all functions that are not rows of the table: casts,
// literals and iotas of a shard, whose global indices start at its offset.
DeviceCase FusedCase(DType dtype) {
  const Shape shape{{"heads", 3}, {"query", 40}, {"key", 13}};
  const std::vector<ShardedDimension> dims = {
      {3, 0, 3}, {20, 20, 20}, {13, 0, 13}};
  DeviceCase test;
  test.instruction = Instruction(Opcode::kMap);
  MapExpression& e = ExpressionOf(test.instruction);
  e.num_operands = 2;
  e.steps = {
      {F::kIota, kInt32, {}, 0, "query"},         // $2
      {F::kIota, kInt32, {}, 0, "key"},           // $3
      {F::kLiteral, kInt32, {}, 7, ""},           // $4
      {F::kAdd, kInt32, {3, 4}, 0, ""},           // $5
      {F::kGreaterEqual, kBool, {2, 5}, 0, ""},   // $6
      {F::kCast, kFloat32, {0}, 0, ""},           // $7
      {F::kLiteral, kFloat32, {}, 0.125, ""},     // $8
      {F::kMultiply, kFloat32, {7, 8}, 0, ""},    // $9
      {F::kLiteral, kFloat32, {}, -1e30, ""},     // $10
      {F::kSelect, kFloat32, {6, 9, 10}, 0, ""},  // $11
      {F::kAdd, kFloat32, {11, 1}, 0, ""},        // $12
      {F::kIdentity, kFloat32, {12}, 0, ""},      // $13
      {F::kCast, dtype, {13}, 0, ""},             // $14
  };
  test.operands = {Shard(Shape{{"query", 40}, {"heads", 3}, {"key", 13}},
                         {{20, 20, 20}, {3, 0, 3}, {13, 0, 13}}, dtype),
                   Unsharded({{"key", 13}})};
  test.result = Shard(shape, dims, dtype);
  return test;
}

TEST_P(MapTest, AFusedExpression) {
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    SCOPED_TRACE(std::string(DTypeName(dtype)));
    DeviceCase test = FusedCase(dtype);
    LocalTensor want = test.result;
    ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
      const bool seen = here.at("query") + 20 >= here.at("key") + 7;
      const double x = test.operands[0].At(here) * 0.125;
      want.At(here) = (seen ? x : -1e30) + test.operands[1].At(here);
      if (dtype == kFloat16 && !seen) {
        want.At(here) = -std::numeric_limits<double>::infinity();
      }
    });
    ExpectClose(test.Run(GetParam()), want);
  }
}

TEST_P(MapTest, FusingKeepsTheBits) {
  // (gelu(x) * y) of bfloat16 in one map and in two.
  const Shape shape{{"a", 33}, {"b", 29}};
  const LocalTensor x = Unsharded(shape, kBFloat16),
                    y = Unsharded(shape, kBFloat16);
  DeviceCase fused;
  fused.instruction = Instruction(Opcode::kMap);
  ExpressionOf(fused.instruction) = {
      2,
      {{F::kGelu, kBFloat16, {0}, 0, ""},
       {F::kMultiply, kBFloat16, {2, 1}, 0, ""}}};
  fused.operands = {x, y};
  fused.result = Unsharded(shape, kBFloat16);
  DeviceCase first = RowCase(F::kGelu, kBFloat16, shape);
  first.operands = {x};
  DeviceCase second = RowCase(F::kMultiply, kBFloat16, shape);
  second.operands = {first.Run(GetParam()), y};
  ExpectSame(fused.Run(GetParam()), second.Run(GetParam()));
}

// An operand of a cast to a wider dtype has been rounded, even if the cast is
// the last step.
TEST_P(MapTest, ACastToAWiderDTypeKeepsTheRounding) {
  DeviceCase test;
  test.instruction = Instruction(Opcode::kMap);
  test.operands = {Unsharded({{"a", 3}}, kBFloat16, {256, 3, 1}),
                   Unsharded({{"a", 3}}, kBFloat16, {1, 128, 1.0078125})};
  test.result = Unsharded({{"a", 3}}, kFloat32);
  ExpressionOf(test.instruction) = {
      2,
      {{F::kAdd, kBFloat16, {0, 1}, 0, ""}, {F::kCast, kFloat32, {2}, 0, ""}}};
  LocalTensor want = test.result;
  want.values = {256, 131, 2};
  ExpectSame(test.Run(GetParam()), want);
  ExpressionOf(test.instruction).steps[0].function = F::kDivide;
  want.values = {256, 0.0234375, 0.9921875};
  ExpectSame(test.Run(GetParam()), want);
}

TEST_P(MapTest, BitsDependOnNeitherIndexNorThreads) {
  const int64_t n = 40000;
  for (F function :
       {F::kTanh, F::kExp, F::kSin, F::kGelu, F::kGeluDerivative, F::kPow}) {
    SCOPED_TRACE(std::string(InfoOf(function).text));
    DeviceCase test = RowCase(function, kFloat32, {{"a", n}});
    for (int i = 0; i < InfoOf(function).arity; ++i) {
      test.operands.push_back(Unsharded({{"a", n}}));
      for (double& value : test.operands[i].values) value = 0.7f;
    }
    const LocalTensor once = test.Run(GetParam());
    for (double value : once.values) ASSERT_EQ(value, once.values[0]);
    ExpectSame(test.Run(GetParam(), 3), once);
  }
}

TEST_P(MapTest, InPlace) {
  DeviceCase test = RowCase(F::kAdd, kFloat32, {{"a", 3}, {"b", 700}});
  test.operands = {Unsharded({{"a", 3}, {"b", 700}}), Unsharded({{"b", 700}})};
  const LocalTensor want = ExpectedResult(test, F::kAdd);
  test.in_place = true;
  ExpectClose(test.Run(GetParam()), want);
}

// A device may process several elements per thread, up to the end.
TEST_P(MapTest, ManyElements) {
  for (int64_t rows : {140000, 140001}) {
    for (bool in_place : {false, true}) {
      const Shape shape{{"a", rows}, {"b", 2}};
      DeviceCase test = RowCase(F::kSubtract, kFloat32, shape);
      test.operands = {Unsharded(shape), Unsharded({{"b", 2}})};
      const LocalTensor want = ExpectedResult(test, F::kSubtract);
      test.in_place = in_place;
      ExpectSame(test.Run(GetParam(), 2), want);
    }
  }
}

TEST_P(MapTest, ALiteralFillsAndAnIotaCounts) {
  if (GetParam() == "cuda_emulated") SKIP_UNDER_SANITIZERS("many kernels");
  for (DType dtype : {kFloat32, kBFloat16, kFloat16, kInt32, kInt64}) {
    SCOPED_TRACE(std::string(DTypeName(dtype)));
    DeviceCase test;
    test.instruction = Instruction(Opcode::kMap);
    ExpressionOf(test.instruction) = MapExpression::Literal(-2, dtype);
    test.result = Unsharded({{"a", 600}, {"b", 3}}, dtype);
    LocalTensor want = test.result;
    for (double& value : want.values) value = -2;
    ExpectSame(test.Run(GetParam()), want);
    ExpressionOf(test.instruction) = MapExpression::Iota("a", dtype);
    ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
      want.At(here) = static_cast<double>(here.at("a"));
    });
    ExpectClose(test.Run(GetParam()), want);
  }
}

TEST_P(MapTest, EmptyTensors) {
  DeviceCase test = RowCase(F::kExp, kFloat32, {{"a", 0}, {"b", 5}});
  test.operands = {Unsharded({{"b", 5}, {"a", 0}})};
  EXPECT_TRUE(test.Run(GetParam()).values.empty());
}

}  // namespace
}  // namespace mtf::testing
