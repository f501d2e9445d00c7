// SPDX-License-Identifier: Apache-2.0
#include "train/session/mesh_and_layout.h"

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

TEST(MeshAndLayout, EmptyTextIsOneDevice) {
  const auto placement = ParseMeshAndLayout("", "", 0);
  ASSERT_OK(placement);
  EXPECT_EQ(placement->mesh.num_devices(), 1);
  EXPECT_TRUE(placement->rules.rules().empty());
}

TEST(MeshAndLayout, MinusOneUnderALauncherWithOneRankIsOne) {
  EXPECT_THAT(ParseMeshAndLayout("data:-1", "batch:data", 0),
              StatusIs(kInvalid, HasSubstr("\"data:-1\"")));
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  const auto placement = ParseMeshAndLayout("data:-1", "batch:data", 0);
  const auto threads = ParseMeshAndLayout("data:2", "batch:data", 0);
  unsetenv("OMPI_COMM_WORLD_SIZE");
  unsetenv("OMPI_COMM_WORLD_RANK");
  ASSERT_OK(placement);
  EXPECT_EQ(placement->mesh.num_devices(), 1);
  ASSERT_OK(threads);
  EXPECT_EQ(threads->mesh.num_devices(), 2);
}

TEST(MeshAndLayout, ReadsMeshAndRules) {
  const auto placement =
      ParseMeshAndLayout("data:2,model:3", " batch:data, d_ff:model ", 0);
  ASSERT_OK(placement);
  EXPECT_EQ(placement->mesh.ToString(), "data:2,model:3");
  EXPECT_EQ(placement->rules.rules().size(), 2u);
}

TEST(MeshAndLayout, APresetDefinesItsMesh) {
  const auto placement = ParseMeshAndLayout("", "data_model", 4);
  ASSERT_OK(placement);
  EXPECT_EQ(placement->mesh.ToString(), "data:2,model:2");
  EXPECT_EQ(ParseMeshAndLayout("", "megatron", 0)->mesh.num_devices(), 1);
  // A given mesh takes precedence.
  EXPECT_EQ(
      ParseMeshAndLayout("data:2,model:2", "megatron", 4)->mesh.ToString(),
      "data:2,model:2");
}

TEST(MeshAndLayout, ReadsALayoutFile) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/my.layout");
  std::ofstream(path) << "# mine\nbatch:data\n[parameters]\nd_model:data\n";
  const auto placement =
      ParseMeshAndLayout("data:2", absl::StrCat("@", path), 0);
  ASSERT_OK(placement);
  EXPECT_EQ(placement->rules.rules().size(), 2u);
}

TEST(MeshAndLayout, InvalidTextsAreErrors) {
  EXPECT_THAT(ParseMeshAndLayout("data", "", 0),
              StatusIs(kInvalid, HasSubstr("mesh item \"data\" has no size")));
  EXPECT_THAT(ParseMeshAndLayout("data:2", "batch:", 0),
              StatusIs(kInvalid, HasSubstr("batch:")));
  EXPECT_THAT(
      ParseMeshAndLayout("data:2", "@/no/such.layout", 0),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such.layout")));
  EXPECT_THAT(ParseMeshAndLayout("data:2", "megatorn", 0),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("did you mean \"megatron\"?")));
}

// Its mesh is that of the preset.
TEST(MeshAndLayout, APresetMayHaveASectionOffload) {
  for (const char* layout :
       {"data_model,[offload],optimizer", " data_model [offload] optimizer",
        "data_model\n[offload]\noptimizer\n",
        "data_model.[offload].optimizer"}) {
    const auto placement = ParseMeshAndLayout("", layout, 4);
    ASSERT_OK(placement) << layout;
    EXPECT_EQ(placement->mesh.ToString(), "data:2,model:2");
    EXPECT_EQ(placement->rules.offload().ToString(), "optimizer");
    EXPECT_EQ(FormatRules(placement->rules.rules()),
              LayoutRules::Preset("data_model")->ToString());
    EXPECT_EQ(PresetIn(layout), "data_model");
  }
  EXPECT_EQ(PresetIn("data_model"), "data_model");
  EXPECT_EQ(PresetIn("data_model, vocab:replicated"), "");
  EXPECT_EQ(PresetIn("@data_model"), "");
  EXPECT_THAT(
      ParseMeshAndLayout("", "data_model,[offload],optimizer,[budget],x", 4),
      StatusIs(kInvalid, HasSubstr("follows preset \"data_model\"")));
  EXPECT_THAT(
      ParseMeshAndLayout("", "data_model,[offload],a//b", 4),
      StatusIs(kInvalid, HasSubstr("item \"a//b\" is not made of names")));
}

TEST(MeshAndLayout, TheMeshMustMatchTheNumberOfRanks) {
  EXPECT_THAT(ParseMeshAndLayout("data:2", "", 4),
              StatusIs(kInvalid, AllOf(HasSubstr("has 2 devices"),
                                       HasSubstr("4 ranks"))));
  EXPECT_THAT(ParseMeshAndLayout("", "", 4),
              StatusIs(kInvalid, HasSubstr("4 ranks")));
}

}  // namespace
}  // namespace mtf::train
