// SPDX-License-Identifier: Apache-2.0
//
// Every rule of the verifier, broken once.
#include "lowering/verify/verify_program.h"

#include <ostream>
#include <string>
#include <vector>

#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

struct BrokenRule {
  const char* name;
  std::string text;
  std::string message;  // its first line
  friend std::ostream& operator<<(std::ostream& out, const BrokenRule& rule) {
    return out << rule.name;
  }
};

std::vector<BrokenRule> BrokenRules() {
  // An input sharded over both axes, one of integers, and an unreduced sum.
  const std::string values =
      "mesh{x:2, y:2}\n"
      "%a : f32[b:8/x, c:4/y] = input a\n"
      "%i : i32[b:8/x] = input i\n"
      "%p : f32[b:8/x] unreduced{y} = reduce(%a) sum\n";
  return {
      {"AMapHasTheDTypeOfItsLastStep",
       values + "%y : f32[b:8/x, c:4/y] = map(%a) [cast.bf16($0)]\n",
       "line 5, column 1: the expression does not fit operands and result"},
      {"AMapHasAllDimensionsOfItsOperands",
       values + "%y : f32[b:8/x] = map(%a) neg\n",
       "line 5, column 1: dimension \"c\" is not in the iteration space"},
      {"AMapHasOneSizePerName",
       values + "%y : f32[b:8/x, c:5/y] = map(%a) neg\n",
       "line 5, column 1: dimension \"c\" has two sizes"},
      {"StepsDoNotMixDTypes",
       values + "%y : f32[b:8/x, c:4/y] = map(%i, %a) [add($0, $1)]\n",
       "line 5, column 1: the step add mixes dtypes"},
      {"AComparisonReturnsABool",
       values + "%y : f32[b:8/x, c:4/y] = map(%a, %a) less\n",
       "line 5, column 1: the step less has the wrong dtype"},
      {"ASelectHasACondition",
       values + "%y : f32[b:8/x, c:4/y] = map(%a, %a, %a) select\n",
       "line 5, column 1: the step select needs a bool as its condition"},
      {"AFloatFunctionTakesFloats", values + "%y : i32[b:8/x] = map(%i) exp\n",
       "line 5, column 1: the step exp does not take this dtype"},
      {"ALogicalFunctionTakesBools",
       values + "%y : i32[b:8/x] = map(%i, %i) and\n",
       "line 5, column 1: the step and does not take this dtype"},
      {"ANumberFunctionTakesNoBools",
       values + "%t : bool[b:8/x] = map(%i, %i) less\n%y : bool[b:8/x] = "
                "map(%t) neg\n",
       "line 6, column 1: the step neg does not take this dtype"},
      {"AnIotaCountsAlongADimensionOfItsMap",
       values + "%y : f32[b:8/x] = map [iota.f32(c)]\n",
       "line 5, column 1: dimension \"c\" of an iota is not in the iteration "
       "space"},
      {"AReduceKeepsDimensionsOfItsOperand",
       values + "%y : f32[d:8] = reduce(%i, %a) sum [cast.f32($0); add($2, "
                "$1)] over [b:8/x, c:4/y]\n",
       "line 5, column 1: dimension \"d\" is not in the iteration space"},
      {"AReduceReadsWhatItIteratesOver",
       values + "%y : f32[c:4] = reduce(%a) sum neg over [c:4]\n",
       "line 5, column 1: dimension \"b\" is not in the iteration space"},
      {"AnEinsumHasOneDType",
       values + "%y : f32[c:4/y] unreduced{x} = einsum(%a, %i) sum{b}\n",
       "line 5, column 1: an einsum has one dtype, or a result of f32"},
      {"AnEinsumHasOneSizePerName",
       values + "%z : f32[b:9, d:2] = input z\n%y : f32[c:4/y, d:2] "
                "unreduced{x} = einsum(%a, %z) sum{b}\n",
       "line 6, column 1: dimension \"b\" has two sizes"},
      {"AnEinsumAddsNoDimension",
       values + "%y : f32[c:4/y, e:2] unreduced{x} = einsum(%a, %a) sum{b}\n",
       "line 5, column 1: dimension \"e\" is in no operand"},
      {"AReshapeKeepsTheNumberOfElements",
       values + "%y : f32[k:31] = reshape(%a)\n",
       "line 5, column 1: a reshape keeps the number of elements"},
      {"AReshapeKeepsTheDType", values + "%y : bf16[k:8/x] = reshape(%i)\n",
       "line 5, column 1: the dtype changes"},
      {"ASliceStaysInItsRange",
       values +
           "%z : f32[k:8] = input z\n%y : f32[k:4] = slice(%z) k begin 5\n",
       "line 6, column 1: dimension \"k\" does not fit into its range"},
      {"ASliceBeginsInItsRange",
       values +
           "%z : f32[k:8] = input z\n%y : f32[k:4] = slice(%z) k begin -1\n",
       "line 6, column 1: dimension \"k\" does not fit into its range"},
      {"ASliceKeepsOtherDimensions",
       values + "%z : f32[k:8, l:3] = input z\n%y : f32[k:4, l:2] = slice(%z) "
                "k begin 0\n",
       "line 6, column 1: dimension \"l\" changes"},
      {"APadHoldsItsOperand",
       values + "%z : f32[k:8] = input z\n%y : f32[k:10] = pad(%z) k before 3 "
                "fill 0\n",
       "line 6, column 1: dimension \"k\" does not fit into its range"},
      {"AConcatIsAsLongAsItsOperands",
       values + "%z : f32[k:8] = input z\n%y : f32[k:17] = concat(%z, %z) k\n",
       "line 6, column 1: dimension \"k\" does not fit into its range"},
      {"ASliceNeedsItsDimensionUnsharded",
       values + "%y : f32[b:4/x, c:4/y] = slice(%a) b begin 0\n",
       "line 5, column 1: dimension \"b\" is sharded but must not be"},
      {"AGatherTakesIntegers",
       values + "%t : f32[v:9, d:2] = input t\n%j : f32[k:3] = input j\n%y : "
                "f32[k:3, d:2] = gather(%t, %j) v\n",
       "line 7, column 1: the indices must be integers"},
      {"AGatherLosesNoDimension",
       values + "%t : f32[v:9, d:2] = input t\n%j : i32[k:3] = input j\n%y : "
                "f32[k:3] = gather(%t, %j) v\n",
       "line 7, column 1: dimension \"d\" is missing in the result"},
      {"AGatherAddsNoDimension",
       values + "%t : f32[v:9, d:2] = input t\n%j : i32[k:3] = input j\n%y : "
                "f32[k:3, d:2, e:1] = gather(%t, %j) v\n",
       "line 7, column 1: dimension \"e\" is neither in the table nor in the "
       "indices"},
      {"AScatterAddHasTheDimensionsOfAGather",
       values + "%u : f32[k:3, d:2] = input u\n%j : i32[k:3] = input j\n%y : "
                "f32[v:9] = scatter_add(%u, %j) v\n",
       "line 7, column 1: dimension \"d\" is neither in the table nor in the "
       "indices"},
      {"TheIndicesLackTheDimensionLookedUp",
       values + "%t : f32[v:9, d:2] = input t\n%j : i32[v:9] = input j\n%y : "
                "f32[v:9, d:2] = gather(%t, %j) v\n",
       "line 7, column 1: dimension \"v\" must be in the table and not in the "
       "indices"},
      {"AnIndexIsCheckedAsAnInteger",
       values + "%y : f32[b:8/x, c:4/y] = check_index(%a) 2 of k:9\n",
       "line 5, column 1: the index must be integers"},
      {"CheckedRowsFit",
       values + "%y : i32[b:8/x] = check_index(%i) 10 of k:9\n",
       "line 5, column 1: dimension \"k\" does not fit into its range"},
      {"AnIndexHasDimensionsOfTheRows",
       values + "%j : i32[e:3] = input j\n%y : f32[b:8/x, k:2] unreduced{y} = "
                "dynamic_slice(%a, %j) c\n",
       "line 6, column 1: dimension \"e\" of the index is not in the rows"},
      {"SlicedRowsAreOfTheValue",
       values + "%y : f32[b:8/x, c:5] unreduced{y} = dynamic_slice(%a, %i) c\n",
       "line 5, column 1: dimension \"c\" does not fit into its range"},
      {"SlicedRowsHaveTheOtherDimensions",
       values + "%y : f32[k:2] unreduced{y} = dynamic_slice(%a, %i) c\n",
       "line 5, column 1: the rows lack a dimension, or have another one"},
      {"SlicedRowsAreNotSharded",
       values + "%y : f32[b:8/x, c:2/y] = dynamic_slice(%a, %i) c\n",
       "line 5, column 1: dimension \"c\" is sharded but must not be"},
      {"RowsOfAShardedDimensionAreUnreduced",
       values + "%y : f32[b:8/x, c:2] = dynamic_slice(%a, %i) c\n",
       "line 5, column 1: the result is unreduced over other axes than its "
       "operands imply"},
      {"AnUpdateIsShardedAsTheValue",
       values + "%u : f32[b:8, c:2] = input u\n%y : f32[b:8/x, c:4/y] = "
                "update_slice(%a, %u, %i) c\n",
       "line 6, column 1: dimension \"b\" is sharded in two ways"},
      {"AnUpdateKeepsTheLayout",
       values + "%u : f32[b:8/x, c:2] = input u\n%y : f32[b:8/x, c:4] = "
                "update_slice(%a, %u, %i) c\n",
       "line 6, column 1: the layout of the updated value changes"},
      {"AnUpdateHasTheDTypeOfTheValue",
       values + "%u : bf16[b:8/x, c:2] = input u\n%y : f32[b:8/x, c:4/y] = "
                "update_slice(%a, %u, %i) c\n",
       "line 6, column 1: the dtype changes"},
      {"ACollectiveKeepsTheShape",
       values + "%y : f32[b:8, c:5/y] = all_gather(%a) b over{x}\n",
       "line 5, column 1: a collective keeps dtype and shape"},
      {"AnAllToAllNeedsTwoDimensions",
       values + "%y : f32[b:8/x, c:4/y] = all_to_all(%a) b to b over{x}\n",
       "line 5, column 1: an all_to_all needs two different dimensions"},
      {"NoAxisIsUsedTwice", values + "%y : f32[b:8/x, c:4/x] = input y\n",
       "line 5, column 1: the layout of the result is not legal"},
      {"NoAxisIsUnreducedAndShards",
       values + "%y : f32[b:8/x] unreduced{x} = input y\n",
       "line 5, column 1: the layout of the result is not legal"},
      {"ADimensionIsShardedInOneWay",
       values + "%y : f32[b:8/y, c:4] = map(%a) neg\n",
       "line 5, column 1: dimension \"b\" is sharded in two ways"},
      {"TwoDimensionsAreNotShardedOverOneAxis",
       values + "%z : f32[d:2/x] = input z\n%y : f32[b:8/x, c:4/y, d:2] = "
                "map(%a, %z) mul\n",
       "line 6, column 1: dimensions \"b\" and \"d\" are sharded over one mesh "
       "axis"},
      {"AReduceIteratesInTheLayoutOfItsOperand",
       values + "%y : f32[c:4/y] = reduce(%a) sum neg over [b:8, c:4/y]\n",
       "line 5, column 1: dimension \"b\" is sharded in two ways"},
      {"AScanKeepsTheShape", values + "%y : f32[b:8/x] = scan(%a) sum c\n",
       "line 5, column 1: the shape changes"},
      {"AScanNeedsItsDimensionUnsharded",
       values + "%y : f32[b:8/x, c:4/y] = scan(%a) sum c\n",
       "line 5, column 1: dimension \"c\" is sharded but must not be"},
      {"AScanStartsInEachBlock",
       values + "%s : f32[b:8/x, c:4/y] = input s\n%y : f32[b:8/x, c:4/y] = "
                "scan(%a, %s) sum c\n",
       "line 6, column 1: dimension \"c\" does not have one element per block"},
      {"SummandsAreNotScanned",
       values + "%k : f32[b:8/x, e:3] = input k\n%q : f32[e:3] unreduced{x} = "
                "reduce(%k) sum\n%y : f32[e:3] unreduced{x} = scan(%q) sum e\n",
       "line 7, column 1: an unreduced sum is read by an instruction that is "
       "not linear in it"},
      {"BlocksAreThoseOfTheGrain",
       values + "%y : f32[b:8/x, c:4/y] = reduce_blocks(%a) sum c\n",
       "line 5, column 1: dimension \"c\" does not have one element per block"},
      {"BlocksOfFloatsAreReducedInFloat",
       values + "%h : bf16[c:4/y] = input h\n%y : bf16[c:2/y] = "
                "reduce_blocks(%h) sum c\n",
       "line 6, column 1: blocks of floats are reduced in f32"},
      {"ATopKNeedsItsDimensionUnsharded",
       values + "%y : i32[b:8/x, k:2] = top_k(%a) c\n",
       "line 5, column 1: dimension \"c\" is sharded but must not be"},
      {"IndicesAreIntegers",
       values + "%z : f32[b:8/x, c:4] = input z\n%y : f32[b:8/x, k:2] = "
                "top_k(%z) c\n",
       "line 6, column 1: the indices must be i32"},
      {"ATopKFindsAtMostAllElements",
       values + "%z : f32[b:8/x, c:4] = input z\n%y : i32[b:8/x, k:5] = "
                "top_k(%z) c\n",
       "line 6, column 1: dimension \"k\" exceeds the number of elements"},
      {"ATopKFindsAtMostAllElementsOfABlock",
       values + "%v : f32[b:8/x, c:2/y, k:3], %y : i32[b:8/x, c:2/y, k:3] = "
                "top_k(%a) c\n",
       "line 5, column 1: dimension \"k\" exceeds the number of elements"},
      {"ATopKReplacesTheRankedDimension",
       values + "%z : f32[b:8/x, c:4] = input z\n%y : i32[k:2, b:8/x] = "
                "top_k(%z) c\n",
       "line 6, column 1: the result must have one dimension in place of the "
       "ranked one"},
      {"TheDimensionOfATopKResultIsUnsharded",
       values + "%z : f32[b:8/x, c:4] = input z\n%y : i32[b:8/x, k:2/y] = "
                "top_k(%z) c\n",
       "line 6, column 1: dimension \"k\" is sharded but must not be"},
      {"LabelsAreForEachElement",
       values + "%z : f32[b:8/x, c:4] = input z\n%y : i32[b:8/x, k:2] = "
                "top_k(%z, %i) c\n",
       "line 6, column 1: the labels must be one i32 per element"},
      {"BlocksHaveNoLabels",
       values + "%z : i32[b:8/x, c:4/y] = input z\n%v : f32[b:8/x, c:2/y, "
                "k:1], %y : i32[b:8/x, c:2/y, k:1] = top_k(%a, %z) c\n",
       "line 6, column 1: blocks have no labels"},
      {"ADependKeepsTheLayout",
       values + "%y : f32[b:8, c:4/y] = depend(%a, %i)\n",
       "line 5, column 1: the result has another layout than the value"},
      {"ANonlinearMapTakesNoSummands",
       values + "%y : f32[b:8/x] unreduced{y} = map(%p) relu\n",
       "line 5, column 1: an unreduced sum is read by an instruction that is "
       "not linear in it"},
      {"SummandsAreUnreducedOverTheSameAxes",
       values + "%q : f32[b:8/x] = input q\n%y : f32[b:8/x] unreduced{y} = "
                "map(%p, %q) add\n",
       "line 6, column 1: operands are unreduced over different axes"},
      {"TheResultOfSummandsIsUnreducedToo",
       values + "%y : f32[b:8/x] = map(%p) neg\n",
       "line 5, column 1: the result is unreduced over other axes than its "
       "operands imply"},
      {"ASumOverAShardedDimensionIsUnreduced",
       values + "%y : f32[b:8/x] = reduce(%a) sum\n",
       "line 5, column 1: the result is unreduced over other axes than its "
       "operands imply"},
      {"NoOtherResultIsUnreduced",
       values + "%k : f32[e:3, f:3] = input k\n%y : f32[e:3] unreduced{x} = "
                "reduce(%k) sum\n",
       "line 6, column 1: the result is unreduced over other axes than its "
       "operands imply"},
      {"ASourceIsNotUnreduced",
       values + "%y : f32[b:8/x] unreduced{y} = input y\n",
       "line 5, column 1: the result is unreduced over other axes than its "
       "operands imply"},
      {"AMaximumIsUnreducedAsAMaximum",
       values + "%y : f32[b:8/x] unreduced{y} = reduce(%a) max\n",
       "line 5, column 1: the result is unreduced with another kind of "
       "reduction"},
      {"AnUnreducedMaximumHasNoReaders",
       values + "%m : f32[b:8/x] unreduced{y} max = reduce(%a) max\n%y : "
                "f32[b:8/x] unreduced{y} max = map(%m) neg\n",
       "line 6, column 1: an unreduced maximum or minimum is read"},
      {"AnEinsumTakesNoSummands",
       values + "%q : f32[b:8/x, d:2] = input q\n%y : f32[d:2] unreduced{x, y} "
                "= einsum(%p, %q) sum{b}\n",
       "line 6, column 1: an unreduced sum is read by an instruction that is "
       "not linear in it"},
      {"SummandsAreNotPaddedWithANumber",
       values + "%k : f32[b:8/x, e:3] = input k\n%q : f32[e:3] unreduced{x} = "
                "reduce(%k) sum\n%y : f32[e:5] unreduced{x} = pad(%q) e before "
                "1 fill 1\n",
       "line 7, column 1: an unreduced sum is read by an instruction that is "
       "not linear in it"},
      {"SummandsAreNotMaskedWithANumber",
       values + "%y : f32[b:8/x] unreduced{y} = mask(%p) b fill 1\n",
       "line 5, column 1: an unreduced sum is read by an instruction that is "
       "not linear in it"},
      {"SummandsAreNotReturned", values + "output(%p) p\n",
       "line 5, column 1: an unreduced sum is read by an instruction that is "
       "not linear in it"},
      {"AnAllReduceReducesUnreducedAxes",
       values + "%y : f32[b:8/x] unreduced{y} = all_reduce(%p) sum over{x}\n",
       "line 5, column 1: all_reduce over an axis that the operand is not "
       "unreduced over"},
      {"AnAllReduceHasTheReductionOfItsOperand",
       values + "%y : f32[b:8/x] = all_reduce(%p) max over{y}\n",
       "line 5, column 1: the operand is unreduced with another kind of "
       "reduction"},
      {"AnAllReduceReducesAllOfItsAxes",
       values + "%y : f32[b:8/x] unreduced{y} = all_reduce(%p) sum over{y}\n",
       "line 5, column 1: the result's layout is not the one that the "
       "collective produces"},
      {"AReduceScatterReducesUnreducedAxes",
       values + "%y : f32[b:8/x, c:4/y] = reduce_scatter(%a) sum b over{x}\n",
       "line 5, column 1: reduce_scatter over an axis that the operand is not "
       "unreduced over"},
      {"AReduceScatterShardsItsDimension",
       values + "%y : f32[b:8/x] = reduce_scatter(%p) sum b over{y}\n",
       "line 5, column 1: the result's layout is not the one that the "
       "collective produces"},
      {"AnAllGatherTakesTheLastAxes",
       values + "%z : f32[b:8/x+y] = input z\n%y : f32[b:8/y] = all_gather(%z) "
                "b over{x}\n",
       "line 6, column 1: all_gather over axes that are not the last of the "
       "dimension"},
      {"AnAllGatherKeepsOtherAxes",
       values + "%y : f32[b:8, c:4] = all_gather(%a) b over{x}\n",
       "line 5, column 1: the result's layout is not the one that the "
       "collective produces"},
      {"AnAllSliceTakesAFreeAxis",
       values + "%y : f32[b:8/x, c:4/y] = all_slice(%a) c over{x}\n",
       "line 5, column 1: the result's layout is not the one that the "
       "collective produces"},
      {"AnAllToAllTakesTheLastAxes",
       values + "%z : f32[b:8/x+y, c:4] = input z\n%y : f32[b:8/y, c:4/x] = "
                "all_to_all(%z) b to c over{x}\n",
       "line 6, column 1: all_to_all over axes that are not the last of the "
       "dimension"},
      {"APermuteKeepsTheNumberOfShards",
       values + "%y : f32[b:8/x+y, c:4] = collective_permute(%a) over{x, y}\n",
       "line 5, column 1: collective_permute changes the number of shards"},
      {"AReshardReducesOrKeeps",
       values + "%q : f32[b:8/x] = input q\n%y : f32[b:8/x] unreduced{y} = "
                "reshard(%q)\n",
       "line 6, column 1: a reshard cannot make a value unreduced"},
      {"AReshardKeepsTheShape", values + "%y : f32[b:8, c:5] = reshard(%a)\n",
       "line 5, column 1: the shape changes"},
      {"AVariableHasOneLayout",
       values + "%w : f32[b:8/x] = read_variable w\n%w2 : f32[b:8] = "
                "read_variable w\n",
       "line 6, column 1: the value's type or layout differs from the "
       "variable's"},
      {"AVariableIsWrittenInItsLayout",
       values + "%w : f32[b:8] = write_variable(%p) w\n",
       "line 5, column 1: the value's type or layout differs from the "
       "variable's"},
      {"AVariableIsWrittenInItsDType",
       values + "%w : f32[b:8/x] = write_variable(%i) w\n",
       "line 5, column 1: the dtype changes"},
      {"ExtentsAreThoseOfTheGrain",
       "mesh{x:2, y:2}\n%a : f32[b:8/x=3] = input a\n",
       "line 2, column 1: dimension \"b\" has extent 3, not 4"},
      {"EveryDimensionHasItsExtent",
       "mesh{x:2, y:2}\n%a : f32[b:8/x=4] = input a\n%c : f32[c:4/x] = input "
       "c\n",
       "line 3, column 1: dimension \"c\" has extent 4, not 2"},
      {"AnIterationHasExtentsToo",
       "mesh{x:2}\n%a : f32[b:8/x=4, c:4] = input a\n%s : f32[b:8/x=4] = "
       "reduce(%a) sum neg over [b:8/x=8, c:4]\n",
       "line 3, column 1: dimension \"b\" has extent 8, not 4"},
      {"AnInputIsFedOnce", values + "%a2 : f32[b:8/x] = input a\n",
       "line 5, column 1: input \"a\" is fed twice"},
      {"AnOutputIsGivenOnce", values + "output(%a) a\noutput(%i) a\n",
       "line 6, column 1: output \"a\" is returned twice"},
      {"AVariableIsWrittenOnce",
       values + "%w : f32[b:8/x, c:4/y] = write_variable(%a) w\n"
                "%w2 : f32[b:8/x, c:4/y] = write_variable(%a) w\n",
       "line 6, column 1: variable \"w\" is written twice"},
  };
}

class VerifyText : public ::testing::TestWithParam<BrokenRule> {};

TEST_P(VerifyText, Refuses) {
  const absl::StatusOr<Program> program = ParseText(GetParam().text);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(program.status().message());
  EXPECT_EQ(message.substr(0, message.find('\n')), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(All, VerifyText, ::testing::ValuesIn(BrokenRules()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace mtf::testing
