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

// What values are computed from, however their instructions were fused: equal
// numbers, equal formulas. Maps and reductions are looked through; everything
// else is a leaf. Each value is looked at once, whatever is asked.
//
//   ExpressionNumbering terms(program, producers);
//   terms.Of(value) == terms.Map(kExp, kFloat32, {terms.Of(x)})
class ExpressionNumbering {
 public:
  // Both are to outlive it.
  ExpressionNumbering(const Program& program, const std::vector<int>& producers)
      : program_(program),
        producers_(producers),
        values_(program.values.size(), -1) {}

  // The formula of a value, down to the leaves.
  int Of(int value);

  // A function of arguments; the order of those of add, mul, max and min does
  // not matter. kLiteral, kIota, kIdentity and kCast are not for this.
  using Arguments = absl::InlinedVector<int, 3>;
  int Map(ScalarFunction function, DType dtype, Arguments arguments);
  int Literal(double number, DType dtype);
  int Iota(const std::string& dimension);
  // A cast to `dtype` of what is of `from`: itself where they are the same.
  int Cast(int term, DType from, DType to);
  // Reduced over `dimension` alone.
  int Reduce(ReduceKind kind, const std::string& dimension, int term);

  // What a term is.
  enum class Kind : uint8_t { kLeaf, kMap, kLiteral, kIota, kCast, kReduce };
  struct Term {
    Kind kind = Kind::kLeaf;
    uint8_t function = 0;  // of a map; of a reduction its kind
    DType dtype = kFloat32;
    // The value of a leaf, the bits of a literal, the number of a name.
    uint64_t payload = 0;
    Arguments arguments;

    bool Is(ScalarFunction of) const {
      return kind == Kind::kMap && function == static_cast<uint8_t>(of);
    }
    friend bool operator==(const Term&, const Term&) = default;
    template <class H>
    friend H AbslHashValue(H hash, const Term& term) {
      return H::combine(std::move(hash), term.kind, term.function, term.dtype,
                        term.payload, term.arguments);
    }
  };
  const Term& at(int term) const { return terms_[term]; }
  // Of a literal.
  double LiteralOf(int term) const {
    return std::bit_cast<double>(terms_[term].payload);
  }

 private:
  int Make(Term term);
  int Leaf(int value);
  // The dimension that a reduction is over, or null where it is over several.
  const std::string* ReducedBy(const Instruction& instruction) const;
  // Of a map or a reduction whose operands are known.
  int OfKnown(const Instruction& instruction);
  uint64_t NumberOf(const std::string& name);

  const Program& program_;
  const std::vector<int>& producers_;
  absl::flat_hash_map<Term, int> numbers_;
  std::vector<Term> terms_;
  std::vector<int> values_;  // terms of values known so far, or -1
  absl::flat_hash_map<std::string, uint64_t> names_;
};

}  // namespace mtf

#endif  // LOWERING_FUSION_EXPRESSION_NUMBERING_H_
