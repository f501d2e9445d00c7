// SPDX-License-Identifier: Apache-2.0
//
// Invalid programs that no text can express: only a pass can build them.
#include <string>
#include <utility>

#include "lowering/verify/verify_program.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

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
    int found = -2;
    const absl::Status status = VerifyProgram(program_, &found);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    const std::string text(status.message());
    EXPECT_EQ(text.substr(0, text.find('\n')), message);
    EXPECT_EQ(found, bad);
  }

  static constexpr int kInput = 0, kRead = 1, kMask = 2, kReduce = 3,
                       kAllReduce = 4, kAllGather = 5, kOutput = 6;
  Program program_;
};

TEST_F(VerifyProgramTest, AnOperandIsDefinedBeforeItIsRead) {
  std::swap(At(kMask), At(kReduce));
  ExpectBroken(kMask, "an operand is read before it is defined");
}

TEST_F(VerifyProgramTest, AValueIsDefinedOnce) {
  At(kAllGather).results = {At(kMask).results[0]};
  ExpectBroken(kAllGather, "a value is defined twice");
}

TEST_F(VerifyProgramTest, AnOperandExists) {
  At(kMask).operands = {99};
  ExpectBroken(-1, "an instruction refers to a value that does not exist");
  At(kMask).operands = {-1};
  ExpectBroken(-1, "an instruction refers to a value that does not exist");
}

TEST_F(VerifyProgramTest, NamesAreUnique) {
  program_.values[At(kMask).results[0]].name = "a";
  ExpectBroken(kMask, "the name of a result is taken");
}

TEST_F(VerifyProgramTest, AnInstructionHasItsNumberOfOperands) {
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

TEST_F(VerifyProgramTest, AnOutputHasNoResult) {
  At(kOutput).results = {program_.AddValue("o", kFloat32, {}, {})};
  ExpectBroken(kOutput, "output has no result");
}

TEST_F(VerifyProgramTest, ACollectiveHasOneResultPerOperand) {
  At(kAllReduce).operands.push_back(At(kReduce).results[0]);
  ExpectBroken(kAllReduce, "a collective has one result per operand");
}

TEST_F(VerifyProgramTest, ALayoutHasOneEntryPerDimension) {
  program_.values[At(kMask).results[0]].layout.dims.pop_back();
  ExpectBroken(kMask, "the layout of the result is not legal");
}

TEST_F(VerifyProgramTest, AReducedValueHasNoReduction) {
  program_.values[At(kMask).results[0]].layout.reduction = ReduceKind::kMax;
  ExpectBroken(kMask, "the layout of the result is not legal");
}

TEST_F(VerifyProgramTest, AnIterationHasOneEntryPerDimension) {
  At(kReduce).Get<ReduceAttributes>().iteration_layout.dims.pop_back();
  ExpectBroken(kReduce, "the layout of the iteration is not legal");
}

TEST_F(VerifyProgramTest, AMaskNamesDimensionsOfItsOperand) {
  At(kMask).Get<MaskAttributes>().dims = {2};
  ExpectBroken(kMask, "the mask names a dimension that the operand lacks");
}

TEST_F(VerifyProgramTest, ACollectiveNamesADimensionOfItsOperand) {
  At(kAllGather).Get<CollectiveAttributes>().dim = 1;
  ExpectBroken(kAllGather,
               "the collective names a dimension that the operand lacks");
}

TEST_F(VerifyProgramTest, ACollectiveNamesAnAxis) {
  At(kAllGather).Get<CollectiveAttributes>().axes = {};
  ExpectBroken(kAllGather, "the collective names no axis");
}

TEST_F(VerifyProgramTest, ACollectiveNamesAxesOfTheMeshOnce) {
  At(kAllReduce).Get<CollectiveAttributes>().axes = {5};
  ExpectBroken(
      kAllReduce,
      "the collective names an axis twice, or one that the mesh lacks");
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
  At(kMask).Get<MaskAttributes>().dims = {2};
  EXPECT_THAT(VerifyProgram(program_),
              StatusIs(absl::StatusCode::kInternal,
                       "the mask names a dimension that the operand lacks\n"
                       "  in       %m : f32[b:8/x, c:4/y] = mask(%a) ? fill "
                       "0\n"
                       "  made at  layer_0/mask (model.cc:12)"));
}

TEST_F(VerifyProgramTest, APassThatBreaksAProgramIsNamed) {
  // RunPass verifies after its pass, as Lower does after every pass.
  EXPECT_THAT(RunPass("fuse_maps", program_), IsOk());
  At(kMask).Get<MaskAttributes>().dims = {2};
  EXPECT_THAT(
      RunPass("fuse_maps", program_),
      StatusIs(absl::StatusCode::kInternal,
               HasSubstr("the mask names a dimension that the operand lacks")));
  EXPECT_THAT(RunPass("fuse_map", program_),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("did you mean \"fuse_maps\"?\n  passes   ")));
}

}  // namespace
}  // namespace mtf::testing
