// SPDX-License-Identifier: Apache-2.0
//
// Chains of additions and subtractions, for delay_all_reduces.
#ifndef LOWERING_PASSES_SUM_CHAINS_H_
#define LOWERING_PASSES_SUM_CHAINS_H_

#include <vector>

#include "absl/container/inlined_vector.h"
#include "lowering/program/program.h"
#include "mtf/map_expression.h"

namespace mtf {

// Whether a map consists of additions and subtractions only, uses every operand
// and step once, and broadcasts nothing.
bool IsSumTree(const Program& program, const Instruction& map);

// By operand of a sum tree, whether it is subtracted.
absl::InlinedVector<bool, 8> SubtractedOperands(
    const MapExpression& expression);

// By instruction: the last instruction of the chain of sum trees that it is in,
// or -1. Each but the last has one reader, which is in the chain.
std::vector<int> FindChainEnds(const Program& program);

// Whether an instruction is a reshard that only sums over ranks.
bool IsSumReduction(const Program& program, const Instruction& instruction);

// By value: whether all that is computed from it leads to one later value, or
// one chain, through linear instructions that can all be computed from
// summands. Such a reduction can be delayed although several instructions read
// its result: they are reduced once, together.
std::vector<bool> FindConvergingSums(const Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_SUM_CHAINS_H_
