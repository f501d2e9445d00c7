// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_EXPRESSION_NUMBERING_H_
#define LOWERING_FUSION_EXPRESSION_NUMBERING_H_

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "lowering/program/program.h"

namespace mtf {

// Global value numbering of expressions: values computed by equal expressions
// get equal numbers, however their instructions were fused. Maps and reductions
// are expanded; the results of all other instructions are leaves. Each value is
// numbered once.
//
//   ExpressionNumbering expressions(program, producers);
//   expressions.Of(value) ==
//       expressions.Map(kExp, kFloat32, {expressions.Of(x)})
class ExpressionNumbering {
 public:
  // Both must outlive this object.
  ExpressionNumbering(const Program& program, const std::vector<int>& producers)
      : program_(program),
        producers_(producers),
        number_of_value_(program.values.size(), -1) {}

  // The number of a value's expression.
  int Of(int value);

  // The number of a function of numbered arguments. The order of the arguments
  // of add, mul, max and min does not matter. Not for kLiteral, kIota,
  // kIdentity and kCast, which have methods of their own.
  using Arguments = absl::InlinedVector<int, 3>;
  int Map(ScalarFunction function, DType dtype, Arguments arguments);
  int Literal(double number, DType dtype);
  int Iota(const std::string& dimension);
  // The number of a cast of `expression` from `from` to `to`: itself if they
  // are equal.
  int Cast(int expression, DType from, DType to);
  // The number of the reduction of `expression` over `dimension` alone.
  int Reduce(ReduceKind kind, const std::string& dimension, int expression);

  // An expression and the numbers of its arguments.
  enum class Kind : uint8_t { kLeaf, kMap, kLiteral, kIota, kCast, kReduce };
  struct Expression {
    Kind kind = Kind::kLeaf;
    uint8_t function = 0;  // of kMap; of kReduce the kind
    DType dtype = kFloat32;
    // The value of a leaf, the bits of a literal, the number of a dimension
    // name.
    uint64_t payload = 0;
    Arguments arguments;

    bool Is(ScalarFunction of) const {
      return kind == Kind::kMap && function == static_cast<uint8_t>(of);
    }
    friend bool operator==(const Expression&, const Expression&) = default;
    template <class H>
    friend H AbslHashValue(H hash, const Expression& expression) {
      return H::combine(std::move(hash), expression.kind, expression.function,
                        expression.dtype, expression.payload,
                        expression.arguments);
    }
  };
  const Expression& at(int expression) const {
    return expressions_[expression];
  }
  double LiteralOf(int expression) const {
    return std::bit_cast<double>(expressions_[expression].payload);
  }

 private:
  int Intern(Expression expression);
  int Leaf(int value);
  // The dimension that a reduction reduces, or null if there are several.
  const std::string* ReducedDimension(const Instruction& instruction) const;
  // The number of the result of a map or a reduction whose operands are
  // numbered.
  int Compose(const Instruction& instruction);
  uint64_t NumberOfName(const std::string& name);

  const Program& program_;
  const std::vector<int>& producers_;
  absl::flat_hash_map<Expression, int> numbers_;
  std::vector<Expression> expressions_;
  std::vector<int> number_of_value_;  // by value, or -1
  absl::flat_hash_map<std::string, uint64_t> number_of_name_;
};

}  // namespace mtf

#endif  // LOWERING_FUSION_EXPRESSION_NUMBERING_H_
