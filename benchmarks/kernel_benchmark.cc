// SPDX-License-Identifier: Apache-2.0
//
// Maps, reductions and data movement of a transformer on one thread of the CPU
// device. Counters:
//   GB/s     operands and result, each counted once
//   ns       per element of the largest tensor
//
//   kernel_benchmark --benchmark_filter=gelu
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "backends/cpu/threads.h"
#include "benchmark/benchmark.h"
#include "tools/one_instruction.h"

namespace mtf {
namespace {

using F = ScalarFunction;

const Dimension kBatch{"batch", 8}, kHeads{"heads", 8}, kQuery{"query", 256},
    kKey{"key", 256}, kModel{"model", 1024};
const Shape kScores{kBatch, kHeads, kQuery, kKey};  // 4 Mi elements
const Shape kRows{kBatch, kHeads, kQuery};
const Shape kHidden{kBatch, kQuery, kModel};  // 2 Mi elements

struct KernelCase {
  std::string name;
  Opcode opcode = Opcode::kMap;
  std::vector<std::pair<Shape, DType>> operands;
  std::pair<Shape, DType> result;
  MapExpression expression;
  ReduceKind kind = ReduceKind::kSum;
  Shape iteration;
};

MapExpression One(F function, int operands, DType dtype = kFloat32) {
  return MapExpression::Single(function, dtype, operands);
}

// Adam's update of a parameter in one map, without the updates of the moments.
MapExpression AdamUpdate() {
  return {4,
          {{F::kLiteral, kFloat32, {}, 1e-8, ""},      // $4
           {F::kSqrt, kFloat32, {2}, 0, ""},           // $5
           {F::kAdd, kFloat32, {5, 4}, 0, ""},         // $6
           {F::kDivide, kFloat32, {1, 6}, 0, ""},      // $7
           {F::kMultiply, kFloat32, {7, 3}, 0, ""},    // $8
           {F::kSubtract, kFloat32, {0, 8}, 0, ""}}};  // $9
}

// A gradient times the derivative of GELU.
MapExpression GeluGradient(DType dtype) {
  return {2,
          {{F::kGeluDerivative, dtype, {1}, 0, ""},  // $2
           {F::kMultiply, dtype, {0, 2}, 0, ""}}};   // $3
}

MapExpression CausalMask() {
  return {1,
          {{F::kIota, kInt32, {}, 0, "query"},          // $1
           {F::kIota, kInt32, {}, 0, "key"},            // $2
           {F::kGreaterEqual, kBool, {1, 2}, 0, ""},    // $3
           {F::kLiteral, kFloat32, {}, -1e30, ""},      // $4
           {F::kSelect, kFloat32, {3, 0, 4}, 0, ""}}};  // $5
}

std::vector<KernelCase> Cases() {
  const std::pair<Shape, DType> hidden{kHidden, kFloat32},
      hidden16{kHidden, kBFloat16}, scores{kScores, kFloat32},
      rows{kRows, kFloat32}, scalar{{}, kFloat32}, bias{{kModel}, kFloat32};
  std::vector<KernelCase> cases;
  const auto map = [&](const std::string& name, MapExpression expression,
                       std::vector<std::pair<Shape, DType>> operands,
                       std::pair<Shape, DType> result) {
    cases.push_back({name,
                     Opcode::kMap,
                     std::move(operands),
                     std::move(result),
                     std::move(expression),
                     ReduceKind::kSum,
                     {}});
  };
  const auto reduce = [&](const std::string& name, ReduceKind kind,
                          std::pair<Shape, DType> operand,
                          std::pair<Shape, DType> result) {
    cases.push_back({name,
                     Opcode::kReduce,
                     {operand},
                     result,
                     One(F::kIdentity, 1, operand.second),
                     kind,
                     operand.first});
  };
  map("copy", One(F::kIdentity, 1), {hidden}, hidden);
  map("add", One(F::kAdd, 2), {hidden, hidden}, hidden);
  map("add_bias", One(F::kAdd, 2), {hidden, bias}, hidden);
  map("add_bf16", One(F::kAdd, 2, kBFloat16), {hidden16, hidden16}, hidden16);
  map("cast_to_bf16", MapExpression::Cast(kBFloat16), {hidden}, hidden16);
  map("cast_from_bf16", MapExpression::Cast(kFloat32), {hidden16}, hidden);
  for (F f : {F::kExp, F::kLog, F::kTanh, F::kGelu, F::kSigmoid, F::kSin,
              F::kMaximum}) {
    const int arity = InfoOf(f).arity;
    map(std::string(InfoOf(f).text), One(f, arity),
        std::vector<std::pair<Shape, DType>>(arity, hidden), hidden);
  }
  map("gelu_bf16", One(F::kGelu, 1, kBFloat16), {hidden16}, hidden16);
  map("gelu_gradient", GeluGradient(kFloat32), {hidden, hidden}, hidden);
  map("gelu_gradient_bf16", GeluGradient(kBFloat16), {hidden16, hidden16},
      hidden16);
  map("subtract_rows", One(F::kSubtract, 2), {scores, rows}, scores);
  map("causal_mask", CausalMask(), {scores}, scores);
  map("adam", AdamUpdate(), {hidden, hidden, hidden, scalar}, hidden);
  map("transpose", One(F::kIdentity, 1),
      {{Shape{kBatch, kModel, kQuery}, kFloat32}}, hidden);
  map("swap_heads", One(F::kIdentity, 1),
      {{Shape{kBatch, kQuery, kHeads, kKey}, kFloat32}}, scores);
  reduce("max_of_rows", ReduceKind::kMax, scores, rows);
  reduce("sum_of_rows", ReduceKind::kSum, scores, rows);
  reduce("sum_of_columns", ReduceKind::kSum, hidden, bias);
  reduce("sum_of_columns_bf16", ReduceKind::kSum, hidden16,
         {{kModel}, kBFloat16});
  reduce("sum_of_all", ReduceKind::kSum, hidden, scalar);
  return cases;
}

void RunCase(benchmark::State& state, const KernelCase& kernel) {
  OneInstruction device(1);
  device.instruction = Instruction(kernel.opcode);
  if (HasExpression(device.instruction)) {
    ExpressionOf(device.instruction) = kernel.expression;
  }
  if (auto* reduce = device.instruction.Find<ReduceAttributes>()) {
    reduce->kind = kernel.kind;
    reduce->iteration = kernel.iteration;
  }
  double bytes = 0, elements = 0;
  const auto count = [&](const std::pair<Shape, DType>& value) {
    const double n = static_cast<double>(value.first.num_elements());
    bytes += n * DTypeSize(value.second);
    elements = std::max(elements, n);
  };
  for (const auto& operand : kernel.operands) {
    device.AddOperand(operand.first, operand.second);
    count(operand);
  }
  device.SetResult(kernel.result.first, kernel.result.second);
  count(kernel.result);
  device.Prepare();
  for (auto _ : state) device.Run();
  using benchmark::Counter;
  state.counters["GB/s"] =
      Counter(bytes / 1e9, Counter::kIsIterationInvariantRate);
  state.counters["ns"] = Counter(
      elements / 1e9, Counter::kIsIterationInvariantRate | Counter::kInvert);
}

void Register() {
  for (const KernelCase& kernel : Cases()) {
    benchmark::RegisterBenchmark(
        kernel.name.c_str(),
        [kernel](benchmark::State& state) { RunCase(state, kernel); })
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.1);
  }
}

const bool registered = (Register(), true);

}  // namespace
}  // namespace mtf
