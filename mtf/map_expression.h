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

// The arguments of a step, at most three, stored inline: a program has
// thousands of steps, and passes copy them.
class StepArguments {
 public:
  static constexpr size_t kMost = 3;

  StepArguments() = default;
  StepArguments(std::initializer_list<int> arguments) {
    for (int argument : arguments) push_back(argument);
  }

  void push_back(int argument) {
    MTF_CHECK_LT(size_, kMost);
    values_[size_++] = argument;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int& operator[](size_t i) { return values_[i]; }
  int operator[](size_t i) const { return values_[i]; }
  int back() const { return values_[size_ - 1]; }
  int* begin() { return values_.data(); }
  int* end() { return values_.data() + size_; }
  const int* begin() const { return values_.data(); }
  const int* end() const { return values_.data() + size_; }

  friend bool operator==(const StepArguments&, const StepArguments&) = default;

 private:
  std::array<int, kMost> values_ = {};  // zero from `size_` on
  size_t size_ = 0;
};

// One step of a map expression. An argument less than the number of operands
// denotes that operand; argument num_operands + i denotes the result of step i.
struct MapStep {
  ScalarFunction function = ScalarFunction::kIdentity;
  DType dtype = kFloat32;  // of the result
  StepArguments arguments;
  double literal = 0;     // of kLiteral, before rounding to `dtype`
  std::string dimension;  // of kIota

  // The literal rounded to `dtype`. All computation uses this number.
  double number() const;

  friend bool operator==(const MapStep&, const MapStep&) = default;
};

// The shorter of two forms, with 9 and 17 digits, that reads back as the same
// double.
std::string NumberText(double value);

// The function that a map instruction applies to each element: a list of steps,
// the last of which is the result. Operands are broadcast by name to the shape
// of the map.
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

  // The text form. A single step that takes the operands in order is the name
  // of its function, "relu"; otherwise the steps are listed in brackets. Casts
  // and literals have a dtype, "cast.bf16($0)" and "literal.f32(0.5)"; an iota
  // also has its dimension, "iota.i32(length)".
  std::string ToString() const;

  friend bool operator==(const MapExpression&, const MapExpression&) = default;
};

}  // namespace mtf

#endif  // MTF_MAP_EXPRESSION_H_
