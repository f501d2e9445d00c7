// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/opcodes.h"

#include <gtest/gtest.h>

#include <string>

#include "lowering/program/instruction.h"

namespace mtf::testing {
namespace {

TEST(Opcodes, NamesAreUniqueAndFound) {
  for (int i = 0; i < kNumOpcodes; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    EXPECT_EQ(FindOpcode(OpcodeName(opcode)), opcode) << OpcodeName(opcode);
  }
  EXPECT_EQ(FindOpcode("no_such_opcode"), std::nullopt);
}

TEST(Opcodes, CollectivesAreThoseOfReshards) {
  for (int i = 0; i < kNumCollectiveKinds; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    EXPECT_TRUE(IsCollective(OpcodeOf(kind)));
    EXPECT_EQ(CollectiveOf(OpcodeOf(kind)), kind);
    EXPECT_EQ(OpcodeName(OpcodeOf(kind)), CollectiveName(kind));
  }
}

TEST(Opcodes, FactsAgreeWithEachOther) {
  for (int i = 0; i < kNumOpcodes; ++i) {
    const OpcodeInfo& info = InfoOf(static_cast<Opcode>(i));
    EXPECT_LE(info.operands.least, info.operands.most) << info.name;
    EXPECT_LE(info.results.least, info.results.most) << info.name;
    if (info.elementwise) {
      EXPECT_TRUE(info.loop_fusible) << info.name;
    }
    if (info.communicates) {
      EXPECT_TRUE(info.collective) << info.name;
    }
    if (info.reduces_axes) {
      EXPECT_TRUE(info.communicates) << info.name;
    }
    if (info.reduces_axes) {
      EXPECT_FALSE(info.preserves_value) << info.name;
    }
    if (info.before_step) {
      EXPECT_TRUE(IsSource(info.opcode)) << info.name;
    }
    if (info.any_shard) {
      EXPECT_TRUE(IsSource(info.opcode)) << info.name;
    }
    if (info.only_moves) {
      EXPECT_EQ(info.operands.most, 1u) << info.name;
    }
    EXPECT_EQ(info.collective,
              info.attributes == kAttributesIndex<CollectiveAttributes>)
        << info.name;
  }
}

TEST(WrongOperandCount, StatesTheAllowedNumbers) {
  EXPECT_EQ(WrongOperandCount(Opcode::kGather, 2), "");
  EXPECT_EQ(WrongOperandCount(Opcode::kInput, 1),
            "input takes no operands, not 1");
  EXPECT_EQ(WrongOperandCount(Opcode::kScan, 3),
            "scan takes 1 or 2 operands, not 3");
  EXPECT_EQ(WrongOperandCount(Opcode::kConcat, 0),
            "concat takes 1 or more operands, not 0");
}

TEST(Instruction, HasTheAttributesOfItsOpcode) {
  for (int i = 0; i < kNumOpcodes; ++i) {
    const Instruction instruction(static_cast<Opcode>(i));
    EXPECT_TRUE(instruction.HasItsAttributes())
        << OpcodeName(instruction.opcode);
  }
  EXPECT_TRUE(Instruction().HasItsAttributes());
}

TEST(Instruction, AnyShardOfAMapWithoutOperandsCanBeProduced) {
  Instruction map;
  EXPECT_TRUE(CanProduceAnyShard(map));
  map.operands = {0};
  EXPECT_FALSE(CanProduceAnyShard(map));
  EXPECT_TRUE(CanProduceAnyShard(Instruction(Opcode::kInput)));
  // A variable is stored in its layout.
  EXPECT_FALSE(CanProduceAnyShard(Instruction(Opcode::kReadVariable)));
}

TEST(Instruction, AttributesOfAnotherOpcodeFailACheck) {
  const Instruction slice(Opcode::kSlice, SliceAttributes{"length", 4});
  EXPECT_EQ(slice.Get<SliceAttributes>().begin, 4);
  EXPECT_EQ(slice.Find<PadAttributes>(), nullptr);
  EXPECT_EQ(DimensionOf(slice), "length");
  EXPECT_DEATH(slice.Get<PadAttributes>(), "slice");
  EXPECT_DEATH(ReductionOf(slice), "slice has no reduction");
  EXPECT_DEATH(Instruction(Opcode::kPad, SliceAttributes{}), "pad");
}

}  // namespace
}  // namespace mtf::testing
