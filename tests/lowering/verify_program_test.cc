// SPDX-License-Identifier: Apache-2.0
//
// Every rule of the verifier, broken once.
#include "lowering/verify_program.h"

#include <ostream>
#include <string>
#include <vector>

#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

struct BrokenRule {
  const char* name;
  std::string text;
  std::string message;  // its first line
  friend std::ostream& operator<<(std::ostream& out, const BrokenRule& rule) {
    return out << rule.name;
  }
};

std::vector<BrokenRule> BrokenRules() {
  // An input cut over both axes, one of integers, and a pending sum.
  const std::string values =
      "mesh{x:2, y:2}\n"
      "%a : f32[b:8/x, c:4/y] = input a\n"
      "%i : i32[b:8/x] = input i\n"
      "%p : f32[b:8/x] unreduced{y} = reduce(%a) sum\n";
  return {
      {"AMapGivesTheDTypeOfItsLastStep",
       values + "%y : f32[b:8/x, c:4/y] = map(%a) [cast.bf16($0)]\n",
       "line 5, column 1: the expression does not fit operands and result"},
      {"AMapHasAllDimensionsOfItsOperands",
       values + "%y : f32[b:8/x] = map(%a) neg\n",
       "line 5, column 1: dimension \"c\" comes from nowhere"},
      {"AMapHasOneSizePerName",
       values + "%y : f32[b:8/x, c:5/y] = map(%a) neg\n",
       "line 5, column 1: dimension \"c\" has two sizes"},
      {"StepsDoNotMixDTypes",
       values + "%y : f32[b:8/x, c:4/y] = map(%i, %a) [add($0, $1)]\n",
       "line 5, column 1: the step add mixes dtypes"},
      {"AComparisonGivesABool",
       values + "%y : f32[b:8/x, c:4/y] = map(%a, %a) less\n",
       "line 5, column 1: the step less gives another dtype"},
      {"ASelectHasACondition",
       values + "%y : f32[b:8/x, c:4/y] = map(%a, %a, %a) select\n",
       "line 5, column 1: the step select has no condition"},
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
       "line 5, column 1: dimension \"c\" of an iota comes from nowhere"},
      {"AReduceKeepsDimensionsOfItsOperand",
       values + "%y : f32[d:8] = reduce(%i, %a) sum [cast.f32($0); add($2, "
                "$1)] over [b:8/x, c:4/y]\n",
       "line 5, column 1: dimension \"d\" comes from nowhere"},
      {"AReduceReadsWhatItIteratesOver",
       values + "%y : f32[c:4] = reduce(%a) sum neg over [c:4]\n",
       "line 5, column 1: dimension \"b\" comes from nowhere"},
      {"AnEinsumHasOneDType",
       values + "%y : f32[c:4/y] unreduced{x} = einsum(%a, %i) sum{b}\n",
       "line 5, column 1: an einsum has one dtype, or a result of f32"},
      {"AnEinsumHasOneSizePerName",
       values + "%z : f32[b:9, d:2] = input z\n%y : f32[c:4/y, d:2] "
                "unreduced{x} = einsum(%a, %z) sum{b}\n",
       "line 6, column 1: dimension \"b\" has two sizes"},
      {"AnEinsumGivesNoNewDimension",
       values + "%y : f32[c:4/y, e:2] unreduced{x} = einsum(%a, %a) sum{b}\n",
       "line 5, column 1: dimension \"e\" comes from nowhere"},
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
      {"WhatMovesIsWholeOnEveryDevice",
       values + "%y : f32[b:4/x, c:4/y] = slice(%a) b begin 0\n",
       "line 5, column 1: dimension \"b\" is cut where it must be whole"},
      {"AGatherTakesIntegers",
       values + "%t : f32[v:9, d:2] = input t\n%j : f32[k:3] = input j\n%y : "
                "f32[k:3, d:2] = gather(%t, %j) v\n",
       "line 7, column 1: the indices are no integers"},
      {"AGatherLosesNoDimension",
       values + "%t : f32[v:9, d:2] = input t\n%j : i32[k:3] = input j\n%y : "
                "f32[k:3] = gather(%t, %j) v\n",
       "line 7, column 1: dimension \"d\" is lost"},
      {"AGatherGivesNoNewDimension",
       values + "%t : f32[v:9, d:2] = input t\n%j : i32[k:3] = input j\n%y : "
                "f32[k:3, d:2, e:1] = gather(%t, %j) v\n",
       "line 7, column 1: dimension \"e\" comes from nowhere"},
      {"AScatterAddIsAGatherBackwards",
       values + "%u : f32[k:3, d:2] = input u\n%j : i32[k:3] = input j\n%y : "
                "f32[v:9] = scatter_add(%u, %j) v\n",
       "line 7, column 1: dimension \"d\" comes from nowhere"},
      {"TheIndicesLackTheDimensionLookedUp",
       values + "%t : f32[v:9, d:2] = input t\n%j : i32[v:9] = input j\n%y : "
                "f32[v:9, d:2] = gather(%t, %j) v\n",
       "line 7, column 1: dimension \"v\" is not the table's alone"},
      {"ACollectiveKeepsTheShape",
       values + "%y : f32[b:8, c:5/y] = all_gather(%a) b over{x}\n",
       "line 5, column 1: a collective keeps dtype and shape"},
      {"AnAllToAllIsBetweenTwoDimensions",
       values + "%y : f32[b:8/x, c:4/y] = all_to_all(%a) b to b over{x}\n",
       "line 5, column 1: an all_to_all is between two dimensions"},
      {"NoAxisIsUsedTwice", values + "%y : f32[b:8/x, c:4/x] = input y\n",
       "line 5, column 1: the layout of the result is not legal"},
      {"NoAxisIsPendingAndCuts",
       values + "%y : f32[b:8/x] unreduced{x} = input y\n",
       "line 5, column 1: the layout of the result is not legal"},
      {"ADimensionIsCutInOneWay",
       values + "%y : f32[b:8/y, c:4] = map(%a) neg\n",
       "line 5, column 1: dimension \"b\" is cut in two ways"},
      {"TwoDimensionsAreNotCutOverOneAxis",
       values + "%z : f32[d:2/x] = input z\n%y : f32[b:8/x, c:4/y, d:2] = "
                "map(%a, %z) mul\n",
       "line 6, column 1: dimensions \"b\" and \"d\" are cut over one mesh "
       "axis"},
      {"AReduceIteratesAsItsOperandIsCut",
       values + "%y : f32[c:4/y] = reduce(%a) sum neg over [b:8, c:4/y]\n",
       "line 5, column 1: dimension \"b\" is cut in two ways"},
      {"AScanKeepsTheShape", values + "%y : f32[b:8/x] = scan(%a) sum c\n",
       "line 5, column 1: the shape changes"},
      {"AScanHasItsDimensionWhole",
       values + "%y : f32[b:8/x, c:4/y] = scan(%a) sum c\n",
       "line 5, column 1: dimension \"c\" is cut where it must be whole"},
      {"AScanStartsInEachBlock",
       values + "%s : f32[b:8/x, c:4/y] = input s\n%y : f32[b:8/x, c:4/y] = "
                "scan(%a, %s) sum c\n",
       "line 6, column 1: dimension \"c\" has not one place for each block"},
      {"SummandsAreNotScanned",
       values + "%k : f32[b:8/x, e:3] = input k\n%q : f32[e:3] unreduced{x} = "
                "reduce(%k) sum\n%y : f32[e:3] unreduced{x} = scan(%q) sum e\n",
       "line 7, column 1: a pending sum is read by what is not linear in it"},
      {"BlocksAreThoseOfTheGrain",
       values + "%y : f32[b:8/x, c:4/y] = reduce_blocks(%a) sum c\n",
       "line 5, column 1: dimension \"c\" has not one place for each block"},
      {"BlocksOfFloatsAreReducedInFloat",
       values + "%h : bf16[c:4/y] = input h\n%y : bf16[c:2/y] = "
                "reduce_blocks(%h) sum c\n",
       "line 6, column 1: blocks of floats are reduced in f32"},
      {"TheGreatestAreOfAWholeDimension",
       values + "%y : i32[b:8/x, k:2] = top_k(%a) c\n",
       "line 5, column 1: dimension \"c\" is cut where it must be whole"},
      {"PlacesAreIntegers",
       values + "%z : f32[b:8/x, c:4] = input z\n%y : f32[b:8/x, k:2] = "
                "top_k(%z) c\n",
       "line 6, column 1: the places are no i32"},
      {"NoMoreAreFoundThanThereAre",
       values + "%z : f32[b:8/x, c:4] = input z\n%y : i32[b:8/x, k:5] = "
                "top_k(%z) c\n",
       "line 6, column 1: dimension \"k\" is more than there is"},
      {"NoMoreAreFoundThanThereAreInABlock",
       values + "%v : f32[b:8/x, c:2/y, k:3], %y : i32[b:8/x, c:2/y, k:3] = "
                "top_k(%a) c\n",
       "line 5, column 1: dimension \"k\" is more than there is"},
      {"WhatIsFoundTakesTheDimensionsPlace",
       values + "%z : f32[b:8/x, c:4] = input z\n%y : i32[k:2, b:8/x] = "
                "top_k(%z) c\n",
       "line 6, column 1: the result is not the operand with one dimension for "
       "another"},
      {"WhatIsFoundIsNotCut",
       values + "%z : f32[b:8/x, c:4] = input z\n%y : i32[b:8/x, k:2/y] = "
                "top_k(%z) c\n",
       "line 6, column 1: dimension \"k\" is cut where it must be whole"},
      {"LabelsAreForEachElement",
       values + "%z : f32[b:8/x, c:4] = input z\n%y : i32[b:8/x, k:2] = "
                "top_k(%z, %i) c\n",
       "line 6, column 1: the labels are no i32 for each element"},
      {"SummandsAreNotTakenForASum",
       values + "%y : f32[b:8/x] unreduced{y} = map(%p) relu\n",
       "line 5, column 1: a pending sum is read by what is not linear in it"},
      {"SummandsArePendingOverTheSameAxes",
       values + "%q : f32[b:8/x] = input q\n%y : f32[b:8/x] unreduced{y} = "
                "map(%p, %q) add\n",
       "line 6, column 1: operands are pending over different axes"},
      {"TheResultOfSummandsIsPendingToo",
       values + "%y : f32[b:8/x] = map(%p) neg\n",
       "line 5, column 1: the result is pending over other axes than its "
       "operands leave it"},
      {"ASumOverACutDimensionIsPending",
       values + "%y : f32[b:8/x] = reduce(%a) sum\n",
       "line 5, column 1: the result is pending over other axes than its "
       "operands leave it"},
      {"NothingElseIsPending",
       values + "%k : f32[e:3, f:3] = input k\n%y : f32[e:3] unreduced{x} = "
                "reduce(%k) sum\n",
       "line 6, column 1: the result is pending over other axes than its "
       "operands leave it"},
      {"ASourceIsNotPending",
       values + "%y : f32[b:8/x] unreduced{y} = input y\n",
       "line 5, column 1: the result is pending over other axes than its "
       "operands leave it"},
      {"AMaximumIsPendingAsAMaximum",
       values + "%y : f32[b:8/x] unreduced{y} = reduce(%a) max\n",
       "line 5, column 1: the result is pending by another kind of reduction"},
      {"APendingMaximumIsReadByNothing",
       values + "%m : f32[b:8/x] unreduced{y} max = reduce(%a) max\n%y : "
                "f32[b:8/x] unreduced{y} max = map(%m) neg\n",
       "line 6, column 1: a pending maximum or minimum is read"},
      {"AnEinsumTakesNoSummands",
       values + "%q : f32[b:8/x, d:2] = input q\n%y : f32[d:2] unreduced{x, y} "
                "= einsum(%p, %q) sum{b}\n",
       "line 6, column 1: a pending sum is read by what is not linear in it"},
      {"SummandsAreNotPaddedWithANumber",
       values + "%k : f32[b:8/x, e:3] = input k\n%q : f32[e:3] unreduced{x} = "
                "reduce(%k) sum\n%y : f32[e:5] unreduced{x} = pad(%q) e before "
                "1 fill 1\n",
       "line 7, column 1: a pending sum is read by what is not linear in it"},
      {"SummandsAreNotMaskedWithANumber",
       values + "%y : f32[b:8/x] unreduced{y} = mask(%p) b fill 1\n",
       "line 5, column 1: a pending sum is read by what is not linear in it"},
      {"SummandsAreNotHandedOut", values + "output(%p) p\n",
       "line 5, column 1: a pending sum is read by what is not linear in it"},
      {"AnAllReduceReducesWhatIsPending",
       values + "%y : f32[b:8/x] unreduced{y} = all_reduce(%p) sum over{x}\n",
       "line 5, column 1: all_reduce over an axis that nothing is pending "
       "over"},
      {"AnAllReduceIsOfTheSameKind",
       values + "%y : f32[b:8/x] = all_reduce(%p) max over{y}\n",
       "line 5, column 1: the operand is pending by another kind of reduction"},
      {"AnAllReduceLeavesNothingPending",
       values + "%y : f32[b:8/x] unreduced{y} = all_reduce(%p) sum over{y}\n",
       "line 5, column 1: the result's layout is not what the collective "
       "gives"},
      {"AReduceScatterReducesWhatIsPending",
       values + "%y : f32[b:8/x, c:4/y] = reduce_scatter(%a) sum b over{x}\n",
       "line 5, column 1: reduce_scatter over an axis that nothing is pending "
       "over"},
      {"AReduceScatterCutsItsDimension",
       values + "%y : f32[b:8/x] = reduce_scatter(%p) sum b over{y}\n",
       "line 5, column 1: the result's layout is not what the collective "
       "gives"},
      {"AnAllGatherTakesTheLastAxes",
       values + "%z : f32[b:8/x+y] = input z\n%y : f32[b:8/y] = all_gather(%z) "
                "b over{x}\n",
       "line 6, column 1: all_gather of axes that do not end the dimension's"},
      {"AnAllGatherLeavesTheOthers",
       values + "%y : f32[b:8, c:4] = all_gather(%a) b over{x}\n",
       "line 5, column 1: the result's layout is not what the collective "
       "gives"},
      {"AnAllSliceTakesAFreeAxis",
       values + "%y : f32[b:8/x, c:4/y] = all_slice(%a) c over{x}\n",
       "line 5, column 1: the result's layout is not what the collective "
       "gives"},
      {"AnAllToAllTakesTheLastAxes",
       values + "%z : f32[b:8/x+y, c:4] = input z\n%y : f32[b:8/y, c:4/x] = "
                "all_to_all(%z) b to c over{x}\n",
       "line 6, column 1: all_to_all of axes that do not end the dimension's"},
      {"APermuteKeepsTheNumberOfShards",
       values + "%y : f32[b:8/x+y, c:4] = collective_permute(%a) over{x, y}\n",
       "line 5, column 1: collective_permute changes the number of shards"},
      {"AReshardReducesOrKeeps",
       values + "%q : f32[b:8/x] = input q\n%y : f32[b:8/x] unreduced{y} = "
                "reshard(%q)\n",
       "line 6, column 1: a reshard leaves nothing unreduced that was reduced"},
      {"AReshardKeepsTheShape", values + "%y : f32[b:8, c:5] = reshard(%a)\n",
       "line 5, column 1: the shape changes"},
      {"AVariableLiesInOneWay",
       values + "%w : f32[b:8/x] = read_variable w\n%w2 : f32[b:8] = "
                "read_variable w\n",
       "line 6, column 1: the value does not lie as the variable"},
      {"AVariableIsWrittenAsItLies",
       values + "%w : f32[b:8] = write_variable(%p) w\n",
       "line 5, column 1: the value does not lie as the variable"},
      {"AVariableIsWrittenInItsDType",
       values + "%w : f32[b:8/x] = write_variable(%i) w\n",
       "line 5, column 1: the dtype changes"},
      {"ExtentsAreThoseOfTheGrain",
       "mesh{x:2, y:2}\n%a : f32[b:8/x=3] = input a\n",
       "line 2, column 1: dimension \"b\" has 3 places, not 4"},
      {"AnExtentIsNotLeftOut",
       "mesh{x:2, y:2}\n%a : f32[b:8/x=4] = input a\n%c : f32[c:4/x] = input "
       "c\n",
       "line 3, column 1: dimension \"c\" has 4 places, not 2"},
      {"AnIterationHasExtentsToo",
       "mesh{x:2}\n%a : f32[b:8/x=4, c:4] = input a\n%s : f32[b:8/x=4] = "
       "reduce(%a) sum neg over [b:8/x=8, c:4]\n",
       "line 3, column 1: dimension \"b\" has 8 places, not 4"},
      {"AValueFitsTheArena",
       "mesh{x:2}\nbuffers{arena:64, commit:1}\n%a : f32[b:80/x=40] @0 = input "
       "a\n",
       "line 3, column 1: %a is at @0, and takes 40 elements of 4 bytes there, "
       "which do not fit into an arena of 64 bytes"},
      {"AValueBeginsInTheArena",
       "mesh{x:2}\nbuffers{arena:64, commit:1}\n%a : f32[b:8/x=4] @128 = input "
       "a\n",
       "line 3, column 1: %a is at @128, and takes 4 elements of 4 bytes "
       "there, which do not fit into an arena of 64 bytes"},
      {"NoSizeIsTooLargeToCheck",
       "mesh{x:2}\nbuffers{arena:1152921504606846976, commit:1}\n%a : "
       "f32[b:4611686018427387904/x=2305843009213693952] @0 = input a\n",
       "line 3, column 1: [b=4611686018427387904] takes more than "
       "17592186044416 places on every device"},
      {"AValueFitsItsVariable",
       "mesh{x:2}\nbuffers{arena:64, commit:1}\n%w : f32[b:8/x=4] @w = "
       "read_variable w\n%n : f32[b:9/x=5] @w = input n\n",
       "line 4, column 1: %n is at @w, but does not lie as the variable does"},
      {"AValueIsInAVariableThatExists",
       "mesh{x:2}\nbuffers{arena:64, commit:1}\n%n : f32[b:8/x=4] @w = input "
       "n\n",
       "line 3, column 1: %n is at @w, but there is no such variable"},
      {"TheCommitIsAnInstruction",
       "mesh{x:2}\nbuffers{arena:64, commit:2}\n%n : f32[b:8/x=4] @0 = input "
       "n\n",
       "line 2, column 26: the commit is 2, but no variable changes in place: "
       "it is 1, the number of instructions"},
      {"TheCommitIsWhereTheFirstVariableChanges",
       "mesh{x:2}\nbuffers{arena:0, commit:2}\n%w : f32[c:8] @w = "
       "read_variable w\n%v : f32[c:8] @w = map(%w) relu\n%n : f32[c:8] = "
       "write_variable(%v) w\n",
       "line 2, column 25: the commit is 2, but the first instruction that "
       "changes a variable in place is number 1 counted from 0, which makes %v "
       "at @w"},
      {"TheCommitIsNotBefore",
       "mesh{x:2}\nbuffers{arena:64, commit:0}\n%n : f32[b:8/x=4] @0 = input "
       "n\n",
       "line 2, column 26: the commit is 0, but no variable changes in place: "
       "it is 1, the number of instructions"},
      {"WhatCanFailStandsBeforeTheCommit",
       "mesh{}\nbuffers{arena:192, commit:3}\n%i : i32[k:3] @0 = input i\n"
       "%t : f32[v:5, d:2] @64 = input t\n%w : f32[c:8] @w = read_variable w\n"
       "%v : f32[c:8] @w = map(%w) relu\n%g : f32[k:3, d:2] @128 = gather(%t, "
       "%i) v\n%n : f32[c:8] = write_variable(%v) w\n",
       "line 7, column 1: gather can fail, but stands behind the commit, "
       "instruction number 3, from which on variables change in place"},
      {"TheArenaEndsWithItsValues",
       "mesh{x:2}\nbuffers{arena:128, commit:1}\n%n : f32[b:8/x=4] @0 = input "
       "n\n",
       "line 2, column 15: the arena has 128 bytes, but what is in it ends at "
       "64, as places of 64 bytes"},
      {"TheLastPlaceIsWhole",
       "mesh{x:2}\nbuffers{arena:16, commit:1}\n%n : f32[b:8/x=4] @0 = input "
       "n\n",
       "line 2, column 15: the arena has 16 bytes, but what is in it ends at "
       "64, as places of 64 bytes"},
      {"AnArenaHoldsSomething", "mesh{}\nbuffers{arena:64, commit:0}\n",
       "line 2, column 15: the arena has 64 bytes, but what is in it ends at "
       "0, as places of 64 bytes"},
      {"EveryValueHasAPlace",
       "mesh{x:2}\nbuffers{arena:64, commit:1}\n%n : f32[b:8/x=4] = input n\n",
       "line 3, column 1: %n has no place, but where buffers are planned every "
       "value has one: \"@\" and an offset, or the name of its variable"},
      {"AViewHasNoPlaceOfItsOwn",
       "mesh{}\nbuffers{arena:64, commit:2}\n%n : f32[b:8] @0 = input n\n"
       "%r : f32[k:8] @0 = reshape(%n)\n",
       "line 4, column 1: %r has a place, but is in memory where its operand "
       "is, and has none of its own"},
      {"AnInputIsFedOnce", values + "%a2 : f32[b:8/x] = input a\n",
       "line 5, column 1: input \"a\" is fed twice"},
      {"AnOutputIsGivenOnce", values + "output(%a) a\noutput(%i) a\n",
       "line 6, column 1: output \"a\" is given twice"},
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

// What no text can say: a program that a pass has broken.
class VerifyProgramTest : public ::testing::Test {
 protected:
  VerifyProgramTest() {
    absl::StatusOr<Program> parsed = ParseText(R"(
mesh{x:2, y:2}
%a : f32[b:8/x, c:4/y] = input a
%w : f32[c:4/y] = read_variable w
%m : f32[b:8/x, c:4/y] = mask(%a) b fill 0
%s : f32[b:8/x] unreduced{y} = reduce(%m) sum
%s.sum : f32[b:8/x] = all_reduce(%s) sum over{y}
%g : f32[b:8] = all_gather(%s.sum) b over{x}
output(%g) g
)");
    EXPECT_OK(parsed);
    program_ = *std::move(parsed);
    EXPECT_OK(VerifyProgram(program_));
  }

  Instruction& At(int i) { return program_.instructions[i]; }

  void ExpectBroken(int bad, const std::string& message) {
    int place = -2;
    const absl::Status status = VerifyProgram(program_, &place);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    const std::string text(status.message());
    EXPECT_EQ(text.substr(0, text.find('\n')), message);
    EXPECT_EQ(place, bad);
  }

  static constexpr int kInput = 0, kRead = 1, kMask = 2, kReduce = 3,
                       kAllReduce = 4, kAllGather = 5, kOutput = 6;
  Program program_;
};

TEST_F(VerifyProgramTest, AnOperandIsMadeBeforeItIsRead) {
  std::swap(At(kMask), At(kReduce));
  ExpectBroken(kMask, "an operand is read before it is made");
}

TEST_F(VerifyProgramTest, AValueIsMadeOnce) {
  At(kAllGather).results = {At(kMask).results[0]};
  ExpectBroken(kAllGather, "a value is made twice");
}

TEST_F(VerifyProgramTest, AValueIsOneOfTheProgram) {
  At(kMask).operands = {99};
  ExpectBroken(-1, "an instruction reads or makes a value of no program");
  At(kMask).operands = {-1};
  ExpectBroken(-1, "an instruction reads or makes a value of no program");
}

TEST_F(VerifyProgramTest, NamesAreUnique) {
  program_.values[At(kMask).results[0]].name = "a";
  ExpectBroken(kMask, "the name of a result is taken");
}

TEST_F(VerifyProgramTest, AnInstructionHasItsOperands) {
  At(kMask).operands.clear();
  ExpectBroken(kMask, "mask takes 1 operand, not 0");
}

TEST_F(VerifyProgramTest, AnInstructionHasAResult) {
  At(kAllGather).results.clear();
  ExpectBroken(kAllGather, "there is no result");
}

TEST_F(VerifyProgramTest, OnlyCollectivesHaveSeveralResults) {
  At(kInput).results = {At(kInput).results[0], At(kMask).results[0]};
  ExpectBroken(kInput, "there is more than one result");
}

TEST_F(VerifyProgramTest, AnOutputGivesNothing) {
  At(kOutput).results = {program_.AddValue("o", kFloat32, {}, {})};
  ExpectBroken(kOutput, "output gives nothing");
}

TEST_F(VerifyProgramTest, ACollectiveGivesOneResultPerOperand) {
  At(kAllReduce).operands.push_back(At(kReduce).results[0]);
  ExpectBroken(kAllReduce, "a collective gives one result per operand");
}

TEST_F(VerifyProgramTest, ALayoutHasOneEntryPerDimension) {
  program_.values[At(kMask).results[0]].layout.dims.pop_back();
  ExpectBroken(kMask, "the layout of the result is not legal");
}

TEST_F(VerifyProgramTest, WhatIsReducedHasNoKindOfReduction) {
  program_.values[At(kMask).results[0]].layout.reduction = ReduceKind::kMax;
  ExpectBroken(kMask, "the layout of the result is not legal");
}

TEST_F(VerifyProgramTest, AnIterationHasOneEntryPerDimension) {
  At(kReduce).iteration_layout.dims.pop_back();
  ExpectBroken(kReduce, "the layout of the iteration is not legal");
}

TEST_F(VerifyProgramTest, AMaskIsOfDimensionsThatExist) {
  At(kMask).mask_dims = {2};
  ExpectBroken(kMask, "a mask of no dimension");
}

TEST_F(VerifyProgramTest, ACollectiveIsOfADimensionThatExists) {
  At(kAllGather).dim = 1;
  ExpectBroken(kAllGather, "a collective of no dimension");
}

TEST_F(VerifyProgramTest, ACollectiveIsOverAxes) {
  At(kAllGather).axes = {};
  ExpectBroken(kAllGather, "a collective over no axis");
}

TEST_F(VerifyProgramTest, ACollectiveIsOverAxesOfTheMesh) {
  At(kAllReduce).axes = {5};
  ExpectBroken(kAllReduce,
               "a collective over an axis twice, or over none of the mesh");
}

TEST_F(VerifyProgramTest, AVariableIsListed) {
  program_.variables.clear();
  ExpectBroken(kRead, "there is no such variable");
}

TEST_F(VerifyProgramTest, AVariableIsListedOnce) {
  program_.variables.push_back(program_.variables[0]);
  ExpectBroken(-1, "variable w is listed twice");
}

TEST_F(VerifyProgramTest, BuffersAreThoseOfTheProgram) {
  program_.buffers.buffers.resize(2);
  ExpectBroken(-1, "the buffers are not those of this program");
}

TEST_F(VerifyProgramTest, ExtentsAreOnePerDimension) {
  program_.values[At(kMask).results[0]].local = {4};
  ExpectBroken(kMask, "there is not one extent per dimension");
}

TEST_F(VerifyProgramTest, TheErrorShowsTheInstructionAndTheUsersLine) {
  program_.origins.push_back({"layer_0/mask", {"model.cc", 12}});
  At(kMask).origin = 0;
  At(kMask).mask_dims = {2};
  EXPECT_THAT(VerifyProgram(program_),
              StatusIs(absl::StatusCode::kInternal,
                       "a mask of no dimension\n"
                       "  in       %m : f32[b:8/x, c:4/y] = mask(%a) ? fill "
                       "0\n"
                       "  made at  layer_0/mask (model.cc:12)"));
}

TEST_F(VerifyProgramTest, APassThatBreaksAProgramIsNamed) {
  // Lower verifies behind every pass; RunPass does so behind one.
  EXPECT_THAT(RunPass("fuse_maps", program_), IsOk());
  At(kMask).mask_dims = {2};
  EXPECT_THAT(RunPass("fuse_maps", program_),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("a mask of no dimension")));
  EXPECT_THAT(RunPass("fuse_map", program_),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("did you mean \"fuse_maps\"?\n  passes   ")));
}

}  // namespace
}  // namespace mtf::testing
