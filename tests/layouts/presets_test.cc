// SPDX-License-Identifier: Apache-2.0
#include "layouts/presets.h"

#include <string>
#include <vector>

#include "layouts/layout_rules.h"
#include "tests/layouts/first_line.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::FirstLine;
using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Presets, AreListedByName) {
  EXPECT_THAT(LayoutRules::PresetNames(),
              ElementsAre("all_to_all", "data", "data_model", "expert", "megatron",
                          "megatron_sequence", "ring", "sequence", "single",
                          "three_axes", "zero2", "zero3"));
}

TEST(Presets, HaveTheirRules) {
  const auto text = [](absl::string_view name) {
    return LayoutRules::Preset(name)->ToString();
  };
  EXPECT_EQ(text("single"), "");
  EXPECT_EQ(text("data"), "batch:data");
  EXPECT_EQ(text("megatron"), "heads:model, d_ff:model, vocab:model");
  EXPECT_EQ(text("megatron_sequence"),
            "length:model, heads:model, d_ff:model, vocab:model, "
            "[in **/attention*, **/feed_forward*, **/embedding*, **/dense*, "
            "**/cross_entropy*] length:replicated");
  EXPECT_EQ(text("expert"), "batch:data, experts:data");
  EXPECT_EQ(text("ring"), "batch:data, length:model, memory_length:model");
  EXPECT_EQ(text("all_to_all"),
            "batch:data, length:model, memory_length:model, "
            "[in **/dot_product*] length:replicated, memory_length:replicated, "
            "heads:model");
  EXPECT_EQ(text("data_model"),
            "batch:data, heads:model, d_ff:model, vocab:model");
  EXPECT_EQ(text("sequence"), "batch:data, length:model");
  EXPECT_EQ(text("zero2"), "batch:data, [optimizer] d_model:data");
  EXPECT_EQ(text("zero3"),
            "batch:data, [parameters] d_model:data, [optimizer] d_model:data");
  EXPECT_EQ(text("three_axes"),
            "batch:data, length:sequence, heads:model, d_ff:model, "
            "vocab:model");
}

TEST(Presets, FitATransformerOnTheirMeshWithoutANotice) {
  for (const std::string& name : LayoutRules::PresetNames()) {
    const absl::StatusOr<ResolvedRules> rules = ResolvedRules::Resolve(
        *LayoutRules::Preset(name), *LayoutRules::PresetMesh(name, 8),
        {"batch", "length", "memory_length", "d_model", "heads", "d_kv", "d_ff",
         "vocab", "experts"},
        /*strict=*/true, /*variable_dimensions=*/nullptr,
        {{"layer_0/attention/dot_product",
          {"length", "memory_length", "heads"}}});
    EXPECT_OK(rules) << name;
  }
}

TEST(Presets, AreNotRejectedByOtherModels) {
  // Rules serve many models: rules without effect are reported, not rejected.
  for (const std::string& name : LayoutRules::PresetNames()) {
    for (const char* mesh : {"", "all:8", "rows:2,cols:2", "x:2,y:2"}) {
      EXPECT_OK(ResolvedRules::Resolve(
          *LayoutRules::Preset(name), *Mesh::Parse(mesh),
          {"rows", "cols", "x", "y", "d_k", "d_kv", "d_v", "hidden", "io"},
          /*strict=*/false))
          << name << " on " << mesh;
    }
  }
}

TEST(Presets, RulesSayWhichPresetAndLineTheyComeFrom) {
  EXPECT_THAT(LayoutRules::Preset("zero3")->rules()[0].origin,
              HasSubstr("preset zero3:"));
}

TEST(Presets, AMisspeltNameIsNotFoundWithTheNearest) {
  const absl::StatusOr<LayoutRules> rules = LayoutRules::Preset("megatorn");
  EXPECT_THAT(
      rules,
      StatusIs(absl::StatusCode::kNotFound,
               HasSubstr("presets  all_to_all, data, data_model, expert, megatron")));
  EXPECT_EQ(FirstLine(rules.status()),
            "no layout preset is called \"megatorn\"; did you mean "
            "\"megatron\"?");
  EXPECT_THAT(LayoutRules::PresetMesh("\xff", 4),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no layout preset is called \"\\xff\"\n")));
}

TEST(PresetMesh, SpreadsTheRanksOverItsAxes) {
  const auto mesh = [](absl::string_view name, int64_t ranks) {
    return LayoutRules::PresetMesh(name, ranks)->ToString();
  };
  EXPECT_EQ(mesh("single", 1), "data:1");
  EXPECT_EQ(mesh("single", 3), "data:3");
  EXPECT_EQ(mesh("data", 6), "data:6");
  EXPECT_EQ(mesh("zero2", 5), "data:5");
  EXPECT_EQ(mesh("zero3", 5), "data:5");
  EXPECT_EQ(mesh("expert", 4), "data:4");
  EXPECT_EQ(mesh("megatron", 4), "model:4");
  EXPECT_EQ(mesh("megatron_sequence", 4), "model:4");
  EXPECT_EQ(mesh("all_to_all", 8), "data:4,model:2");
  EXPECT_EQ(mesh("data_model", 1), "data:1,model:1");
  EXPECT_EQ(mesh("data_model", 4), "data:2,model:2");
  EXPECT_EQ(mesh("data_model", 7), "data:7,model:1");
  EXPECT_EQ(mesh("data_model", 8), "data:4,model:2");
  EXPECT_EQ(mesh("ring", 8), "data:4,model:2");
  EXPECT_EQ(mesh("sequence", 24), "data:6,model:4");
  EXPECT_EQ(mesh("three_axes", 8), "data:2,sequence:2,model:2");
  EXPECT_EQ(mesh("three_axes", 12), "data:3,sequence:2,model:2");
  EXPECT_EQ(mesh("three_axes", 5), "data:5,sequence:1,model:1");
}

TEST(PresetMesh, AlwaysHasAsManyDevicesAsRanks) {
  for (const std::string& name : LayoutRules::PresetNames()) {
    for (int64_t ranks : {1, 2, 30, 97, 360, 4096, 2147483647}) {
      EXPECT_EQ(LayoutRules::PresetMesh(name, ranks)->num_devices(), ranks);
    }
  }
}

TEST(PresetMesh, RejectsImpossibleNumbersOfRanks) {
  EXPECT_THAT(LayoutRules::PresetMesh("data", 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "preset \"data\" needs at least 1 rank, not 0"));
  EXPECT_THAT(LayoutRules::PresetMesh("three_axes", int64_t{1} << 62),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has a size above 2147483647")));
}

TEST(PresetFiles, DeclareTheirMeshAndUse) {
  for (const internal::PresetFile& file : internal::PresetFiles()) {
    EXPECT_EQ(file.text[0], '#') << file.name;
    EXPECT_THAT(std::string(file.text), HasSubstr("\n# mesh: ")) << file.name;
  }
}

}  // namespace
}  // namespace mtf
