// SPDX-License-Identifier: Apache-2.0
#include "train/session/placement.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(Placement, NothingIsOneDevice) {
  const auto placement = ParsePlacement("", "", 0);
  ASSERT_OK(placement);
  EXPECT_EQ(placement->mesh.num_devices(), 1);
  EXPECT_TRUE(placement->rules.rules().empty());
}

TEST(Placement, TheRestOfOneLaunchedRankIsOne) {
  EXPECT_THAT(ParsePlacement("data:-1", "batch:data", 0),
              StatusIs(kInvalid, HasSubstr("\"data:-1\"")));
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  const auto placement = ParsePlacement("data:-1", "batch:data", 0);
  const auto threads = ParsePlacement("data:2", "batch:data", 0);
  unsetenv("OMPI_COMM_WORLD_SIZE");
  unsetenv("OMPI_COMM_WORLD_RANK");
  ASSERT_OK(placement);
  EXPECT_EQ(placement->mesh.num_devices(), 1);
  ASSERT_OK(threads);
  EXPECT_EQ(threads->mesh.num_devices(), 2);
}

TEST(Placement, ReadsMeshAndRules) {
  const auto placement =
      ParsePlacement("data:2,model:3", " batch:data, d_ff:model ", 0);
  ASSERT_OK(placement);
  EXPECT_EQ(placement->mesh.ToString(), "data:2,model:3");
  EXPECT_EQ(placement->rules.rules().size(), 2u);
}

TEST(Placement, APresetBringsItsMesh) {
  const auto placement = ParsePlacement("", "data_model", 4);
  ASSERT_OK(placement);
  EXPECT_EQ(placement->mesh.ToString(), "data:2,model:2");
  EXPECT_EQ(ParsePlacement("", "megatron", 0)->mesh.num_devices(), 1);
  // A mesh that is given stays.
  EXPECT_EQ(ParsePlacement("data:2,model:2", "megatron", 4)->mesh.ToString(),
            "data:2,model:2");
}

TEST(Placement, ReadsALayoutFile) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/my.layout");
  std::ofstream(path) << "# mine\nbatch:data\n[parameters]\nd_model:data\n";
  const auto placement = ParsePlacement("data:2", absl::StrCat("@", path), 0);
  ASSERT_OK(placement);
  EXPECT_EQ(placement->rules.rules().size(), 2u);
}

TEST(Placement, WrongTextsAreExplained) {
  EXPECT_THAT(ParsePlacement("data", "", 0),
              StatusIs(kInvalid, HasSubstr("mesh item \"data\" has no size")));
  EXPECT_THAT(ParsePlacement("data:2", "batch:", 0),
              StatusIs(kInvalid, HasSubstr("batch:")));
  EXPECT_THAT(
      ParsePlacement("data:2", "@/no/such.layout", 0),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such.layout")));
  EXPECT_THAT(ParsePlacement("data:2", "megatorn", 0),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("did you mean \"megatron\"?")));
}

TEST(Placement, TheMeshMustHaveAllRanks) {
  EXPECT_THAT(ParsePlacement("data:2", "", 4),
              StatusIs(kInvalid, AllOf(HasSubstr("has 2 devices"),
                                       HasSubstr("4 ranks"))));
  EXPECT_THAT(ParsePlacement("", "", 4),
              StatusIs(kInvalid, HasSubstr("4 ranks")));
}

}  // namespace
}  // namespace mtf::train
