// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// The text of generated kernels: literals, accesses of 16 bytes where alignment
// allows, tiles for transposed operands, two kernels for long reductions with
// few results.
#include "backends/cuda/codegen/kernel_text.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/device.h"
#include "tests/backends/cuda/text_runtime.h"
#include "tests/matchers.h"

namespace mtf::cuda {
namespace {

using F = ScalarFunction;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

TEST(LiteralText, RoundsToItsDType) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(LiteralText(0.1, kFloat32), "F(0.100000001f)");
  EXPECT_EQ(LiteralText(2, kBFloat16), "F(2.0f)");
  EXPECT_EQ(LiteralText(1e30, kFloat32), "F(1.00000002e+30f)");
  EXPECT_EQ(LiteralText(-inf, kFloat32), "F(-kInfinity)");
  EXPECT_EQ(LiteralText(std::nan(""), kFloat32), "F(kNaN)");
  EXPECT_EQ(LiteralText(-7, kInt32), "I(-7LL)");
  EXPECT_EQ(LiteralText(inf, kInt64), "I(9223372036854775807LL)");
  EXPECT_EQ(LiteralText(-0x1p63, kInt64), "I(kLeast)");
  EXPECT_EQ(LiteralText(3, kBool), "true");
}

// Rows are taken from the table, so new ones need no change here.
TEST(RowText, MatchesTheTable) {
  RowText rows;
  rows.Add(F::kSoftplus);
  rows.Add(F::kSoftplus);
  EXPECT_THAT(rows.text(),
              HasSubstr("RowSoftplus(T x) {\n  return Maximum(x, 0.0) + "
                        "Log1p(Exp(-Abs(x)));"));
  EXPECT_EQ(rows.text().find("RowSoftplus"), rows.text().rfind("RowSoftplus"));
}

StepText Steps(const MapExpression& expression,
               const std::vector<DType>& dtypes) {
  RowText rows;
  std::vector<std::string> names;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    names.push_back(absl::StrCat("a", i));
  }
  return WriteSteps(expression, names, dtypes, "t", "", rows,
                    [](const std::string& dimension) { return dimension; });
}

TEST(WriteSteps, RoundsOnlyToNarrowerDTypes) {
  const StepText narrow = Steps(
      {2,
       {{F::kAdd, kBFloat16, {0, 1}, 0, ""}, {F::kCast, kFloat32, {2}, 0, ""}}},
      {kBFloat16, kBFloat16});
  EXPECT_EQ(narrow.statements,
            "const F t0 = Rounded<BF16>(RowAdd(a0, a1));\n"
            "const F t1 = t0;\n");
  EXPECT_EQ(narrow.result, "t1");
  EXPECT_EQ(narrow.dtype, kFloat32);
  EXPECT_EQ(
      Steps(MapExpression::Single(F::kAdd, kFloat32, 2), {kFloat32, kFloat32})
          .statements,
      "const F t0 = RowAdd(a0, a1);\n");
  EXPECT_EQ(
      Steps(MapExpression::Single(F::kSquare, kInt32, 1), {kInt32}).statements,
      "const I t0 = Rounded<int>(RowSquare(a0));\n");
  EXPECT_EQ(Steps(MapExpression::Single(F::kLess, kBool, 2), {kInt32, kInt32})
                .statements,
            "const bool t0 = RowLess(a0, a1);\n");
}

TEST(WriteSteps, FunctionsOfNumbersTakeBools) {
  EXPECT_EQ(Steps(MapExpression::Single(F::kMaximum, kBool, 2), {kBool, kBool})
                .statements,
            "const bool t0 = Rounded<Bool>(RowMaximum(Number(a0), "
            "Number(a1)));\n");
}

// Kernels of one instruction, prepared on a TextRuntime -----------------------

class KernelShapes : public ::testing::Test {
 protected:
  KernelShapes()
      : runtime_(std::make_shared<TextRuntime>()),
        device_(CreateDeviceOver(runtime_, "texts")) {}

  BoundValue Value(Shape shape, DType dtype = kFloat32,
                   int64_t misaligned = 0) {
    auto value = std::make_unique<ProgramValue>();
    value->dtype = dtype;
    value->shape = shape;
    BoundValue bound;
    for (const Dimension& dim : shape) {
      bound.dims.push_back({dim.size, 0, dim.size});
    }
    bound.value = value.get();
    bound.data = static_cast<char*>(*runtime_->Allocate(1 << 20)) + misaligned;
    values_.push_back(std::move(value));
    return bound;
  }

  // The texts of an instruction's kernels without the vocabulary.
  std::string Texts(Instruction instruction, std::vector<BoundValue> operands,
                    BoundValue result) {
    Program program;
    if (auto* reduce = instruction.Find<ReduceAttributes>()) {
      reduce->iteration = operands[0].value->shape;
    }
    program.instructions.push_back(instruction);
    Binding binding;
    binding.program = &program;
    binding.operands = operands;
    binding.results = {result};
    binding.iteration = operands[0].dims;
    EXPECT_OK(device_->Prepare(binding));
    std::string texts;
    for (const auto& [name, text] : runtime_->kernels()) {
      const size_t begin = text.find("typedef int Index");
      EXPECT_NE(begin, std::string::npos) << text;
      absl::StrAppend(&texts, text.substr(begin));
    }
    return texts;
  }
  std::string MapText(F function, std::vector<BoundValue> operands,
                      BoundValue result) {
    Instruction map(Opcode::kMap);
    ExpressionOf(map) = MapExpression::Single(
        function, result.dtype(), static_cast<int>(operands.size()));
    return Texts(map, std::move(operands), result);
  }
  std::string ReduceText(BoundValue operand, BoundValue result) {
    Instruction reduce(Opcode::kReduce);
    ExpressionOf(reduce) =
        MapExpression::Single(F::kIdentity, operand.dtype(), 1);
    return Texts(reduce, {operand}, result);
  }

  std::shared_ptr<TextRuntime> runtime_;
  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<ProgramValue>> values_;
};

const Dimension kRows{"rows", 64}, kColumns{"columns", 48};

TEST_F(KernelShapes, NeighboursAreReadSixteenBytesAtATime) {
  EXPECT_THAT(
      MapText(F::kExp, {Value({kRows, kColumns})}, Value({kRows, kColumns})),
      AllOf(HasSubstr("Pack<float, 4>"), Not(HasSubstr("i_0"))));
}

TEST_F(KernelShapes, NarrowElementsGiveWiderPacks) {
  EXPECT_THAT(MapText(F::kExp, {Value({kRows, kColumns}, kBFloat16)},
                      Value({kRows, kColumns}, kBFloat16)),
              HasSubstr("Pack<BF16, 8>"));
}

TEST_F(KernelShapes, UnalignedAddressesGiveNarrowerPacks) {
  EXPECT_THAT(MapText(F::kExp, {Value({kRows, kColumns}, kFloat32, 8)},
                      Value({kRows, kColumns})),
              HasSubstr("Pack<float, 2>"));
  EXPECT_THAT(MapText(F::kTanh, {Value({kRows, kColumns}, kFloat32, 4)},
                      Value({kRows, kColumns})),
              HasSubstr("RowTanh(a0)"));
}

TEST_F(KernelShapes, OddRowsUnderABroadcastAreReadByElement) {
  const Dimension odd{"odd", 33};
  EXPECT_THAT(MapText(F::kAdd, {Value({kRows, odd}), Value({kRows})},
                      Value({kRows, odd})),
              AllOf(Not(HasSubstr("Pack<")), HasSubstr("i_0 = i / 33")));
}

TEST_F(KernelShapes, BroadcastRowIsIndexedByColumn) {
  EXPECT_THAT(MapText(F::kAdd, {Value({kRows, kColumns}), Value({kColumns})},
                      Value({kRows, kColumns})),
              AllOf(HasSubstr("i_1 = i % 48"), HasSubstr("(x1 + i_1)")));
}

TEST_F(KernelShapes, TransposedOperandUsesTiles) {
  EXPECT_THAT(
      MapText(F::kAdd, {Value({kRows, kColumns}), Value({kColumns, kRows})},
              Value({kRows, kColumns})),
      AllOf(HasSubstr("__shared__ float tile1[32][33]"),
            HasSubstr("tile1[j][column] = x1[p + q * 64]"),
            HasSubstr("Value(tile1[column][j])")));
}

// Static shared memory is limited to 48 KiB.
TEST_F(KernelShapes, OperandsBeyondSharedMemoryAreReadStrided) {
  constexpr int kOperands = 13;
  Instruction map(Opcode::kMap);
  MapExpression& expression = ExpressionOf(map);
  expression.num_operands = kOperands;
  expression.steps.push_back({F::kAdd, kFloat32, {0, 1}, 0, ""});
  for (int i = 2; i < kOperands; ++i) {
    expression.steps.push_back(
        {F::kAdd, kFloat32, {kOperands + i - 2, i}, 0, ""});
  }
  std::vector<BoundValue> operands;
  for (int i = 0; i < kOperands; ++i) {
    operands.push_back(Value({kColumns, kRows}));
  }
  EXPECT_THAT(Texts(map, operands, Value({kRows, kColumns})),
              AllOf(HasSubstr("__shared__ float tile10["),
                    Not(HasSubstr("tile11[")), HasSubstr("Value(p11)")));
}

TEST_F(KernelShapes, InPlaceOperandIsNotRestrict) {
  const BoundValue x = Value({kRows, kColumns});
  EXPECT_THAT(MapText(F::kExp, {x}, x), Not(HasSubstr("__restrict__")));
  EXPECT_THAT(MapText(F::kTanh, {x}, Value({kRows, kColumns})),
              HasSubstr("const float* __restrict__ x0"));
}

TEST_F(KernelShapes, LargeMapHasSeveralReadsInFlight) {
  const Dimension many{"many", 1 << 18};
  EXPECT_THAT(MapText(F::kExp, {Value({many})}, Value({many})),
              AllOf(HasSubstr("Pack<float, 4> p0[4];"),
                    HasSubstr("p0[s] = *(const Pack<float, 4>*)(x0 + i)")));
}

// Layers of one shape and all ranks share one kernel.
TEST_F(KernelShapes, TextContainsNoAddressOrOffset) {
  for (int64_t rank = 0; rank < 3; ++rank) {
    const BoundValue x = Value({kRows, kColumns});
    BoundValue y = Value({kRows, kColumns});
    y.dims[0].offset = 64 * rank + 64;
    Instruction map(Opcode::kMap);
    ExpressionOf(map) = {1,
                         {{F::kIota, kFloat32, {}, 0, "rows"},
                          {F::kAdd, kFloat32, {0, 1}, 0, ""}}};
    Texts(map, {x}, y);
  }
  EXPECT_THAT(runtime_->kernels(), SizeIs(1));
}

TEST_F(KernelShapes, ShortRowsShareAWarp) {
  const Dimension short_row{"short", 32};
  EXPECT_THAT(
      ReduceText(Value({kRows, short_row}), Value({kRows})),
      AllOf(HasSubstr("AcrossLanes<Sum, 8>"), HasSubstr("Pack<float, 4>")));
}

TEST_F(KernelShapes, LongRowsTakeABlock) {
  const Dimension many{"many", 600}, long_row{"long", 4096};
  EXPECT_THAT(ReduceText(Value({many, long_row}), Value({many})),
              HasSubstr("AcrossBlock<Sum, 256>"));
  EXPECT_THAT(runtime_->kernels(), SizeIs(1));
}

TEST_F(KernelShapes, LongReductionsWithFewResultsTakeTwoKernels) {
  const Dimension all{"all", 1 << 20};
  EXPECT_THAT(ReduceText(Value({all}), Value({})), HasSubstr("combine(const "
                                                             "double*"));
  EXPECT_THAT(runtime_->kernels(), SizeIs(2));
}

TEST_F(KernelShapes, ColumnsAreReadAlongRows) {
  EXPECT_THAT(ReduceText(Value({kRows, kColumns}), Value({kColumns})),
              AllOf(HasSubstr("const Index c = (tile * 16 + lane) * 4"),
                    HasSubstr("(x0 + r * 48 + c)")));
}

}  // namespace
}  // namespace mtf::cuda
