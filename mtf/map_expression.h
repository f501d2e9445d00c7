// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_MAP_EXPRESSION_H_
#define MTF_MAP_EXPRESSION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "mtf/check.h"
#include "mtf/dtype.h"
#include "mtf/scalar_functions.h"

namespace mtf {

// The arguments of a step, at most three, without memory of their own: a
// program has thousands of steps, which passes copy.
class StepArguments {
 public:
  static constexpr size_t kMost = 3;

  StepArguments() = default;
  StepArguments(std::initializer_list<int> arguments) {
    for (int argument : arguments) push_back(argument);
  }

  void push_back(int argument) {
    MTF_CHECK_LT(size_, kMost);
    places_[size_++] = argument;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int& operator[](size_t i) { return places_[i]; }
  int operator[](size_t i) const { return places_[i]; }
  int back() const { return places_[size_ - 1]; }
  int* begin() { return places_.data(); }
  int* end() { return places_.data() + size_; }
  const int* begin() const { return places_.data(); }
  const int* end() const { return places_.data() + size_; }

  friend bool operator==(const StepArguments&, const StepArguments&) = default;

 private:
  std::array<int, kMost> places_ = {};  // zeros behind the last
  size_t size_ = 0;
};

// One step of a map. An argument below the number of operands of the map is
// that operand; otherwise it is the result of step (argument - operands).
struct MapStep {
  ScalarFunction function = ScalarFunction::kIdentity;
  DType dtype = kFloat32;  // of the result
  StepArguments arguments;
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
