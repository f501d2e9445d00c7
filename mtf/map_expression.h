// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_MAP_EXPRESSION_H_
#define MTF_MAP_EXPRESSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "mtf/dtype.h"
#include "mtf/scalar_functions.h"

namespace mtf {

// One step of a map. An argument below the number of operands of the map is
// that operand; otherwise it is the result of step (argument - operands).
struct MapStep {
  ScalarFunction function = ScalarFunction::kIdentity;
  DType dtype = kFloat32;  // of the result
  std::vector<int> arguments;
  double literal = 0;     // kLiteral, as it was written
  std::string dimension;  // kIota

  // What the elements of a literal are: it as its dtype holds it. Nobody
  // computes with the number as written.
  double number() const;

  friend bool operator==(const MapStep&, const MapStep&) = default;
};

// What a map computes for every element: steps in order, the last one is the
// result. Operands are broadcast by name to the shape of the map.
//
//   // gelu(x + b): operands x ($0) and b ($1)
//   MapExpression e{2, {{kAdd, kFloat32, {0, 1}}, {kGelu, kFloat32, {2}}}};
//   e.ToString()  // "[add($0, $1); gelu($2)]"
struct MapExpression {
  int num_operands = 0;
  std::vector<MapStep> steps;

  static MapExpression Single(ScalarFunction function, DType dtype,
                              int num_operands);
  static MapExpression Cast(DType to);
  static MapExpression Literal(double value, DType dtype);
  static MapExpression Iota(std::string dimension, DType dtype);

  DType result_dtype() const { return steps.back().dtype; }

  // The bare name of the function where the only step takes the operands in
  // order, such as "relu"; otherwise the steps in brackets. A cast is written
  // with its dtype, "cast.bf16($0)", and so is a literal, "literal.f32(0.5)";
  // an iota with its dimension too, "iota.i32(length)".
  std::string ToString() const;

  friend bool operator==(const MapExpression&, const MapExpression&) = default;
};

}  // namespace mtf

#endif  // MTF_MAP_EXPRESSION_H_
