// SPDX-License-Identifier: Apache-2.0
//
// plan_buffers: where an update_slice works in place, and the bytes that it
// writes then.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/lowering/pass_test.h"
#include "tests/lowering/written_to_variable.h"

namespace mtf::testing {
namespace {

// A cache of 64 rows, of which each device has 4 x 64 x 4 floats.
constexpr char kCache[] = R"(
mesh{data:2}
%at : i32[] = input at
%k : f32[b:8/data=4, d:4] = input k
%cache : f32[b:8/data=4, length:64, d:4] = read_variable cache [state]
%at_1 : i32[] = check_index(%at) 1 of length:64
)";
constexpr int64_t kRow = 4 * 4 * 4, kAll = 64 * kRow;

// The type of the cache.
constexpr char kType[] = " : f32[b:8/data=4, length:64, d:4] = ";

std::string Update(const std::string& result, const std::string& value) {
  return absl::StrCat("%", result, kType, "update_slice(%", value,
                      ", %k, %at_1) length\n");
}
std::string Write(const std::string& value) {
  return absl::StrCat("%new", kType, "write_variable(%", value,
                      ") cache [state]\n");
}
std::string Read(const std::string& value) {
  return absl::StrCat("%sum_", value, " : f32[b:8/data=4] = reduce(%", value,
                      ") sum\noutput(%sum_", value, ") sum_", value, "\n");
}

struct PlannedUpdates {
  explicit PlannedUpdates(const std::string& instructions) {
    absl::StatusOr<Program> parsed =
        ParseText(absl::StrCat(kCache, instructions));
    EXPECT_OK(parsed);
    if (!parsed.ok()) return;
    program = *std::move(parsed);
    EXPECT_OK(RunPass("plan_buffers", program));
  }
  // Whether a value is in the storage of the cache.
  bool InCache(const std::string& name) const {
    for (size_t v = 0; v < program.values.size(); ++v) {
      if (program.values[v].name == name) {
        return program.buffers.buffers[v].symbol == "cache";
      }
    }
    ADD_FAILURE() << "no value " << name;
    return false;
  }
  int64_t Written() const { return WrittenToVariable(program, "cache"); }

  Program program;
};

TEST(PlanUpdates, AnUpdateOfAVariableWritesItsRows) {
  const PlannedUpdates plan(
      absl::StrCat(Update("a", "cache"), Write("a"), Read("a")));
  EXPECT_TRUE(plan.InCache("a"));
  EXPECT_EQ(plan.Written(), kRow);
  EXPECT_EQ(plan.program.buffers.commit, 4);
}

TEST(PlanUpdates, UpdatesInARowWriteTheirRows) {
  // What is read between the updates is in the storage of the variable too.
  const PlannedUpdates plan(absl::StrCat(Update("a", "cache"), Read("a"),
                                         Update("b", "a"), Update("c", "b"),
                                         Write("c"), Read("c")));
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(plan.InCache(name));
  EXPECT_EQ(plan.Written(), 3 * kRow);
  EXPECT_EQ(plan.program.buffers.commit, 4);
}

TEST(PlanUpdates, AReaderOfTheOldValueCausesACopy) {
  const PlannedUpdates plan(
      absl::StrCat(Update("a", "cache"), Write("a"), Read("cache"), Read("a")));
  EXPECT_FALSE(plan.InCache("a"));
  // The copy, and that to the variable at the end of the step.
  EXPECT_EQ(plan.Written(), 2 * kAll);
  // A reader before the update does not.
  const PlannedUpdates before(
      absl::StrCat(Read("cache"), Update("a", "cache"), Write("a"), Read("a")));
  EXPECT_EQ(before.Written(), kRow);
}

TEST(PlanUpdates, AReaderOfTheValueBetweenCausesACopy) {
  const PlannedUpdates plan(absl::StrCat(Update("a", "cache"), Update("b", "a"),
                                         Write("b"), Read("a")));
  EXPECT_FALSE(plan.InCache("a"));
  EXPECT_TRUE(plan.InCache("b"));
  EXPECT_EQ(plan.Written(), 2 * kAll);
}

TEST(PlanUpdates, NothingIsWrittenBeforeTheLastFailure) {
  const std::string fails = "%at_2 : i32[] = check_index(%at) 2 of length:64\n";
  const PlannedUpdates plan(
      absl::StrCat(Update("a", "cache"), fails, Write("a")));
  EXPECT_FALSE(plan.InCache("a"));
  // Only the first of two updates comes before it.
  const PlannedUpdates between(
      absl::StrCat(Update("a", "cache"), fails, Update("b", "a"), Write("b")));
  EXPECT_FALSE(between.InCache("a"));
  EXPECT_TRUE(between.InCache("b"));
  EXPECT_EQ(between.Written(), 2 * kAll);
}

TEST(PlanUpdates, AValueInTheArenaIsUpdatedInPlace) {
  const PlannedUpdates plan(absl::StrCat(
      "%x", kType, "map(%cache) neg\n", Update("a", "x"), Read("a"),
      Update("b", "a"), Update("c", "b"), Read("c"), Read("b")));
  const std::vector<int> owners = FindBufferOwners(plan.program);
  std::vector<int64_t> written;
  for (const Instruction& instruction : plan.program.instructions) {
    if (instruction.opcode != Opcode::kUpdateSlice) continue;
    written.push_back(WrittenBytes(plan.program, instruction, owners));
  }
  // The value %b is read after %c is computed.
  EXPECT_THAT(written, ::testing::ElementsAre(kRow, kRow, kAll));
}

TEST(PlanUpdates, RowsOfTheValueItselfAreNotOverwritten) {
  const PlannedUpdates plan(absl::StrCat(
      "%a", kType, "update_slice(%cache, %cache, %at_1) length\n", Write("a")));
  EXPECT_FALSE(plan.InCache("a"));
  const PlannedUpdates arena(
      absl::StrCat("%x", kType, "map(%cache) neg\n%a", kType,
                   "update_slice(%x, %x, %at_1) length\n", Read("a")));
  const std::vector<int> owners = FindBufferOwners(arena.program);
  for (const Instruction& instruction : arena.program.instructions) {
    if (instruction.opcode != Opcode::kUpdateSlice) continue;
    EXPECT_FALSE(IsUpdateInPlace(arena.program, instruction, owners));
  }
}

}  // namespace
}  // namespace mtf::testing
