// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
// Build: -O1 (most of the time is spent in its own loops)
//
// Cases of maps: every function of mtf/scalar_functions.h on every dtype that
// it takes.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/backends/conformance/kernel_cases.h"

namespace mtf::testing {
namespace {

using F = ScalarFunction;

// More than a block of 512 elements, and no multiple of a vector; b has one
// element of padding on the second of two ranks.
const Dimension kA{"a", 8}, kB{"b", 73};

std::string Text(DType dtype) { return std::string(DTypeName(dtype)); }

std::vector<DType> DTypesOf(FunctionDomain domain) {
  switch (domain) {
    case FunctionDomain::kFloat:
      return {kFloat32, kBFloat16, kFloat16};
    case FunctionDomain::kNumber:
      return {kFloat32, kBFloat16, kFloat16, kInt32, kInt64};
    case FunctionDomain::kLogical:
      return {kBool};
    case FunctionDomain::kAny:
      return {std::begin(kAllDTypes), std::end(kAllDTypes)};
  }
  return {};
}

KernelCase MapCase(std::string name, MapExpression expression,
                   std::vector<LocalTensor> operands, LocalTensor result) {
  KernelCase made{std::move(name), {}};
  made.test.instruction = Instruction(Opcode::kMap);
  ExpressionOf(made.test.instruction) = std::move(expression);
  made.test.operands = std::move(operands);
  made.test.result = std::move(result);
  made.shards = ShardsAlong(made.test, "b");
  return made;
}

// One function of operands of one dtype; select has a bool first.
KernelCase RowCase(F function, DType dtype, const std::vector<Shape>& shapes) {
  const ScalarFunctionInfo& info = InfoOf(function);
  const DType result = info.is_comparison ? DType{kBool} : dtype;
  std::vector<LocalTensor> operands;
  for (int i = 0; i < info.arity; ++i) {
    const bool condition = function == F::kSelect && i == 0;
    operands.push_back(Mixed(shapes[i], condition ? kBool : dtype, i));
  }
  return MapCase(absl::StrCat(info.text, " ", Text(dtype)),
                 MapExpression::Single(function, result, info.arity),
                 std::move(operands), Unsharded({kA, kB}, result));
}

void AddRows(std::vector<KernelCase>& cases) {
  const Shape shape{kA, kB};
  for (int i = 0; i <= static_cast<int>(F::kSelect); ++i) {
    const auto function = static_cast<F>(i);
    for (DType dtype : DTypesOf(InfoOf(function).domain)) {
      cases.push_back(RowCase(function, dtype, {shape, shape, shape}));
    }
  }
}

// The functions that are not rows of the table.
void AddOthers(std::vector<KernelCase>& cases) {
  static_assert(static_cast<int>(F::kCast) == static_cast<int>(F::kSelect) + 1);
  static_assert(static_cast<int>(F::kIota) == static_cast<int>(F::kCast) + 2);
  const Shape shape{kA, kB};
  for (DType to : kAllDTypes) {
    for (DType from : kAllDTypes) {
      cases.push_back(MapCase(absl::StrCat(Text(from), " to ", Text(to)),
                              MapExpression::Cast(to), {Mixed(shape, from)},
                              Unsharded(shape, to)));
    }
    cases.push_back(MapCase(absl::StrCat("literal ", Text(to)),
                            MapExpression::Literal(-2.3, to), {},
                            Unsharded(shape, to)));
    if (to == kBool) continue;
    cases.push_back(MapCase(absl::StrCat("iota ", Text(to)),
                            MapExpression::Iota("b", to), {},
                            Unsharded(shape, to)));
  }
}

// Operands in other orders, without dimensions, and in the result's memory.
void AddAccesses(std::vector<KernelCase>& cases) {
  const Shape full{kA, kB}, turned{kB, kA}, row{kB}, column{kA}, none;
  for (DType dtype : {kFloat32, kBFloat16, kInt32}) {
    for (const Shape& shape : {turned, row, column, none}) {
      cases.push_back(RowCase(F::kAdd, dtype, {full, shape}));
      cases.back().name += " of " + shape.ToString();
    }
    cases.push_back(RowCase(F::kIdentity, dtype, {turned}));
    cases.back().name += " turned";
    KernelCase in_place = RowCase(F::kAdd, dtype, {full, row});
    in_place.name += " in place";
    in_place.test.in_place = true;
    for (DeviceCase& shard : in_place.shards) shard.in_place = true;
    cases.push_back(std::move(in_place));
  }
}

// Several steps, of which some are uniform: sin(x * 3e4) + cos(y) by rows.
void AddFused(std::vector<KernelCase>& cases) {
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    MapExpression fused;
    fused.num_operands = 2;
    fused.steps = {
        {F::kCast, kFloat32, {0}, 0, ""},         // $2
        {F::kLiteral, kFloat32, {}, 3e4, ""},     // $3
        {F::kMultiply, kFloat32, {2, 3}, 0, ""},  // $4
        {F::kSin, kFloat32, {4}, 0, ""},          // $5
        {F::kCos, kFloat32, {3}, 0, ""},          // $6
        {F::kIota, kFloat32, {}, 0, "b"},         // $7
        {F::kPow, kFloat32, {7, 6}, 0, ""},       // $8
        {F::kAdd, kFloat32, {5, 8}, 0, ""},       // $9
        {F::kMultiply, kFloat32, {9, 1}, 0, ""},  // $10
        {F::kCast, dtype, {10}, 0, ""},           // $11
    };
    cases.push_back(MapCase(absl::StrCat("fused ", Text(dtype)),
                            std::move(fused),
                            {Mixed({kA, kB}, dtype), Mixed({kB}, kFloat32, 1)},
                            Unsharded({kA, kB}, dtype)));
  }
}

}  // namespace

std::vector<KernelCase> MapCases() {
  std::vector<KernelCase> cases;
  AddRows(cases);
  AddOthers(cases);
  AddAccesses(cases);
  AddFused(cases);
  return cases;
}

}  // namespace mtf::testing
