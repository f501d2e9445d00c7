// SPDX-License-Identifier: Apache-2.0
#include "layouts/mesh.h"

#include <ostream>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/layouts/first_line.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::FirstLine;
using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AxisList, KeepsOrderAndComparesByContent) {
  AxisList list = {2, 0};
  EXPECT_NE(list, (AxisList{0, 2}));
  EXPECT_TRUE(list.Contains(0));
  EXPECT_FALSE(list.Contains(1));
  list.Append({1});
  EXPECT_EQ(list, (AxisList{2, 0, 1}));
  EXPECT_EQ(list.Prefix(1), AxisList{2});
  EXPECT_EQ(list.Suffix(1), (AxisList{0, 1}));
  list.pop_back();
  EXPECT_EQ(list, (AxisList{2, 0})) << "unused axes are cleared";
  EXPECT_EQ(SetOf(list), AxisSet{5});
  EXPECT_EQ(ListOf(5), (AxisList{0, 2}));
}

TEST(Mesh, EmptyTextIsOneDevice) {
  for (const char* text : {"", " ", ",;", "\n"}) {
    const absl::StatusOr<Mesh> mesh = Mesh::Parse(text, 1);
    ASSERT_OK(mesh);
    EXPECT_EQ(mesh->num_axes(), 0);
    EXPECT_EQ(mesh->num_devices(), 1);
  }
}

TEST(Mesh, EverySeparatorOfTheAncestorIsAccepted) {
  for (const char* text :
       {"data:2,model:4", "data:2;model:4", "data:2.model:4", "data:2 model:4",
        "data:2\nmodel:4\n", " data:2,  model:4; ", "data:2\tmodel:4"}) {
    const absl::StatusOr<Mesh> mesh = Mesh::Parse(text);
    ASSERT_OK(mesh) << text;
    EXPECT_EQ(mesh->ToString(), "data:2,model:4") << text;
  }
}

TEST(Mesh, MinusOneTakesTheRestOfTheRanks) {
  EXPECT_EQ(Mesh::Parse("data:-1,model:4", 24)->ToString(), "data:6,model:4");
  EXPECT_EQ(Mesh::Parse("data:2,model:-1", 2)->ToString(), "data:2,model:1");
  EXPECT_EQ(Mesh::Parse("all:-1", 4096)->num_devices(), 4096);
}

TEST(Mesh, LastAxisIsFastest) {
  const Mesh mesh = *Mesh::Parse("a:2,b:3,c:4");
  EXPECT_EQ(mesh.num_devices(), 24);
  EXPECT_EQ(mesh.Find("b"), 1);
  EXPECT_EQ(mesh.Find("d"), -1);
  const int64_t rank = 1 * 12 + 2 * 4 + 3;
  EXPECT_EQ(mesh.Coordinate(rank, 0), 1);
  EXPECT_EQ(mesh.Coordinate(rank, 1), 2);
  EXPECT_EQ(mesh.Coordinate(rank, 2), 3);
  EXPECT_EQ(mesh.Coordinate(rank, {2, 0}), 3 * 2 + 1);
  EXPECT_EQ(mesh.SizeOf(AxisList{2, 0}), 8);
  EXPECT_EQ(mesh.SizeOf(AxisSet{6}), 12);
  EXPECT_EQ(mesh.AxisNames({2, 0}), "c+a");
}

TEST(Mesh, WithCoordinateInvertsCoordinateForEveryRankAndOrder) {
  const Mesh mesh = *Mesh::Parse("a:2,b:3,c:2");
  for (const AxisList& axes :
       {AxisList{}, {0}, {1}, {2}, {0, 2}, {2, 1}, {1, 0, 2}, {2, 1, 0}}) {
    for (int64_t rank = 0; rank < 12; ++rank) {
      for (int64_t i = 0; i < mesh.SizeOf(axes); ++i) {
        const int64_t other = mesh.WithCoordinate(rank, axes, i);
        EXPECT_EQ(mesh.Coordinate(other, axes), i);
        for (int axis = 0; axis < 3; ++axis) {
          if (axes.Contains(axis)) continue;
          EXPECT_EQ(mesh.Coordinate(other, axis), mesh.Coordinate(rank, axis));
        }
      }
      EXPECT_EQ(mesh.WithCoordinate(rank, axes, mesh.Coordinate(rank, axes)),
                rank);
    }
  }
}

TEST(Mesh, GroupsPartitionTheRanks) {
  const Mesh mesh = *Mesh::Parse("a:2,b:3");
  EXPECT_THAT(mesh.Group(4, {0}), ElementsAre(1, 4));
  EXPECT_THAT(mesh.Group(4, {1}), ElementsAre(3, 4, 5));
  EXPECT_THAT(mesh.Group(0, {1, 0}), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(mesh.Group(5, {}), ElementsAre(5));
}

struct BadMesh {
  const char* name;
  const char* text;
  int64_t num_ranks;
  const char* first_line;
  const char* help;
};
std::ostream& operator<<(std::ostream& out, const BadMesh& bad) {
  return out << bad.name;
}

class MeshErrors : public ::testing::TestWithParam<BadMesh> {};

TEST_P(MeshErrors, NameTheItemItsPositionAndAWayOut) {
  const BadMesh& bad = GetParam();
  const absl::StatusOr<Mesh> mesh = Mesh::Parse(bad.text, bad.num_ranks);
  EXPECT_EQ(mesh.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FirstLine(mesh.status()), bad.first_line);
  EXPECT_THAT(std::string(mesh.status().message()), HasSubstr("\n  mesh     "));
  EXPECT_THAT(std::string(mesh.status().message()),
              HasSubstr(absl::StrCat("\n  help     ", bad.help)));
}

INSTANTIATE_TEST_SUITE_P(
    All, MeshErrors,
    ::testing::Values(
        BadMesh{"NoColon", "data model:4", 0,
                "mesh item \"data\" has no size (item 1 of 2, characters 1-4)",
                "write name:size items, as in \"data:2,model:4\""},
        BadMesh{"BlankAfterColon", "data: 2", 0,
                "mesh item \"data:\" has no size (item 1 of 2, characters 1-5)",
                "write name:size items, as in \"data:2,model:4\", without "
                "blanks around \":\""},
        BadMesh{"TwoColons", "a:2,b:2:2", 0,
                "mesh item \"b:2:2\" has more than one \":\" (item 2 of 2, "
                "characters 5-9)",
                "write name:size"},
        BadMesh{"NoName", ":2", 0,
                "mesh item \":2\" has no name (item 1 of 1, characters 1-2)",
                "write name:size"},
        BadMesh{"ReservedName", "a:2,replicated:2", 0,
                "mesh item \"replicated:2\" has a name that layouts reserve "
                "for no axis (item 2 of 2, characters 5-16)",
                "choose another name"},
        BadMesh{"FormerReservedName", "a:2,whole:2", 0,
                "mesh item \"whole:2\" has a name that layouts reserve for no "
                "axis (item 2 of 2, characters 5-11)",
                "choose another name"},
        BadMesh{"OnlyColon", "a:2 :", 0,
                "mesh item \":\" has no name (item 2 of 2, character 5)",
                "write name:size"},
        BadMesh{"HostileBytes", "d\xff\x01:2", 0,
                "mesh item \"d\\xff\\x01:2\" has a name that is not made of "
                "letters, digits, \"_\" and \"-\" (item 1 of 1, characters "
                "1-5)",
                "write name:size"},
        BadMesh{"Word", "data:two", 0,
                "mesh item \"data:two\" has a size that is not a whole number "
                "(item 1 of 1, characters 1-8)",
                "write name:size"},
        BadMesh{"Hexadecimal", "data:0x4", 0,
                "mesh item \"data:0x4\" has a size that is not a whole number "
                "(item 1 of 1, characters 1-8)",
                "write name:size"},
        BadMesh{"LoneMinus", "data:-", 0,
                "mesh item \"data:-\" has a size that is not a whole number "
                "(item 1 of 1, characters 1-6)",
                "write name:size"},
        BadMesh{"Zero", "data:2, model:0; pod:2", 0,
                "mesh item \"model:0\" has a size below 1 (item 2 of 3, "
                "characters 9-15)",
                "a size is 1 or more, or -1 for the rest of the ranks"},
        BadMesh{"MinusTwo", "data:-2", 4,
                "mesh item \"data:-2\" has a size below 1 (item 1 of 1, "
                "characters 1-7)",
                "a size is 1 or more"},
        BadMesh{"LargerThanAnyInteger", "data:99999999999999999999999", 0,
                "mesh item \"data:99999999999999999999999\" has a size above "
                "2147483647 (item 1 of 1, characters 1-28)",
                "write name:size"},
        BadMesh{"ProductOverflows", "a:2147483647,b:2147483647", 0,
                "mesh item \"b:2147483647\" makes more than 2147483647 devices "
                "(item 2 of 2, characters 14-25)",
                "choose smaller sizes"},
        BadMesh{"RepeatedAxis", "data:2,model:2,data:2", 0,
                "mesh item \"data:2\" names the axis of item 1 again (item 3 "
                "of 3, characters 16-21)",
                "give each axis its own name"},
        BadMesh{"NineAxes", "a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1", 0,
                "mesh item \"i:1\" is one axis too many: a mesh has at most 8 "
                "(item 9 of 9, characters 33-35)",
                "merge axes"},
        BadMesh{"TwoRests", "data:-1,model:-1", 8,
                "mesh item \"model:-1\" is -1 like item 1, but only one axis "
                "can be the rest of the ranks (item 2 of 2, characters 9-16)",
                "give all sizes but one"},
        BadMesh{"RestOfAnUnknownNumber", "data:-1", 0,
                "mesh item \"data:-1\" means the rest of the ranks, but the "
                "number of ranks is unknown here (item 1 of 1, characters 1-7)",
                "write the size"},
        BadMesh{"RestThatDoesNotDivide", "data:-1,model:4", 6,
                "mesh item \"data:-1\" cannot be the rest of 6 ranks: the "
                "other axes take 4, and 6 is not a multiple of 4 (item 1 of 2, "
                "characters 1-7)",
                "choose sizes whose product divides the number of ranks"},
        BadMesh{"RestOfOne", "data:-1,model:4", 1,
                "mesh item \"data:-1\" cannot be the rest of 1 rank: the other "
                "axes take 4, and 1 is not a multiple of 4 (item 1 of 2, "
                "characters 1-7)",
                "choose sizes whose product divides the number of ranks"},
        BadMesh{"TooManyDevices", "data:2,model:4", 4,
                "mesh \"data:2,model:4\" has 8 devices but there are 4 ranks",
                "start 8 ranks, or let one axis take the rest: "
                "\"data:-1,model:4\""},
        BadMesh{"OnlyTheSecondAxisCanGive", "data:2,model:4", 6,
                "mesh \"data:2,model:4\" has 8 devices but there are 6 ranks",
                "start 8 ranks, or let one axis take the rest: "
                "\"data:2,model:-1\""},
        BadMesh{"NoAxisCanGive", "data:2,model:4", 7,
                "mesh \"data:2,model:4\" has 8 devices but there are 7 ranks",
                "start 8 ranks, or let one axis take the rest: \"data:-1\""},
        BadMesh{"NoMeshForManyRanks", "", 4,
                "mesh \"\" has 1 device but there are 4 ranks",
                "start 1 rank, or let one axis take the rest: \"data:-1\""},
        BadMesh{"OneRank", "data:2", 1,
                "mesh \"data:2\" has 2 devices but there is 1 rank",
                "start 2 ranks, or let one axis take the rest: \"data:-1\""}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Mesh, DetailLinesFollowTheFirstIndentedAndPadded) {
  EXPECT_THAT(Mesh::Parse("data:2,model:4", 6),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "mesh \"data:2,model:4\" has 8 devices but there are 6 "
                       "ranks\n"
                       "  mesh     2 * 4 = 8\n"
                       "  help     start 8 ranks, or let one axis take the "
                       "rest: \"data:2,model:-1\""));
}

TEST(Mesh, LongTextIsTruncatedInErrors) {
  const std::string text = "a:2," + std::string(1 << 20, '\x80');
  const absl::StatusOr<Mesh> mesh = Mesh::Parse(text);
  EXPECT_EQ(mesh.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_LT(mesh.status().message().size(), 3000u);
}

TEST(Mesh, EveryShortByteStringParsesOrFailsCleanly) {
  const std::string bytes("a1:-,.# \xff\0", 10);
  for (char a : bytes) {
    for (char b : bytes) {
      for (char c : bytes) {
        for (char d : bytes) {
          const std::string text = {a, b, c, d};
          const absl::StatusOr<Mesh> mesh = Mesh::Parse(text, 6);
          if (mesh.ok()) {
            EXPECT_EQ(*Mesh::Parse(mesh->ToString()), *mesh);
          } else {
            EXPECT_EQ(mesh.status().code(), absl::StatusCode::kInvalidArgument);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mtf
