// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_TERMS_H_
#define BACKENDS_CUDA_TERMS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "lowering/program.h"

namespace mtf::cuda {

// What values are computed from, however their instructions were fused: equal
// numbers, equal formulas. Maps and reductions are looked through; everything
// else is a leaf.
//
//   Terms terms(program, producers);
//   const int x = terms.Of(value);
//   terms.Is(x, terms.Make("exp.f32", {y}))
class Terms {
 public:
  Terms(const Program& program, const std::vector<int>& producers)
      : program_(program), producers_(producers) {}

  // The formula of a value, down to the leaves and to `leaves`.
  int Of(int value);
  // A value that is not looked into from now on.
  int Leaf(int value);

  // "exp.f32" of arguments; the order of those of add, mul, max and min does
  // not matter.
  int Make(const std::string& function, std::vector<int> arguments = {});
  int Literal(double number, DType dtype);
  int Iota(const std::string& dimension);
  // A cast to `dtype` of what is of `from`: itself where they are the same.
  int Cast(int term, DType from, DType to);
  // Reduced over `dimension` alone.
  int Reduce(ReduceKind kind, const std::string& dimension, int term);

 private:
  int OfMap(const MapExpression& expression, const std::vector<int>& operands,
            const std::vector<DType>& dtypes);

  const Program& program_;
  const std::vector<int>& producers_;
  std::map<std::pair<std::string, std::vector<int>>, int> terms_;
  std::map<int, int> values_;  // terms of values known so far
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_TERMS_H_
