// SPDX-License-Identifier: Apache-2.0
//
// Fifty steps of training give the same losses under every layout and on every
// number of ranks, from bitwise equal initial values.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/layout_rules.h"
#include "tests/matchers.h"
#include "tests/repeats.h"
#include "tests/requirements.h"
#include "tests/train/small_lm.h"

namespace mtf::train {
namespace {

constexpr int kSteps = testing::Repeats(50, 4);

struct Case {
  std::string mesh;
  std::string layout;

  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << "mesh \"" << c.mesh << "\" layout \"" << c.layout << "\"";
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string& preset : LayoutRules::PresetNames()) {
    for (const int ranks : {1, 2, 3, 4, 6, 8}) {
      cases.push_back(
          {LayoutRules::PresetMesh(preset, ranks)->ToString(), preset});
    }
  }
  // Besides the presets: activations between the blocks sharded over an axis,
  // one dimension over two axes, in both orders, and parameters stored in
  // another layout than they are used in.
  cases.push_back({"data:2,model:3", "batch:data, d_model:model"});
  cases.push_back({"a:2,b:2", "batch:a+b"});
  // Longer rings than those of the preset, one of them over two axes.
  for (const char* mesh : {"model:2", "model:3", "model:4"}) {
    cases.push_back({mesh, "length:model, memory_length:model"});
  }
  cases.push_back({"a:2,b:2", "length:a+b, memory_length:a+b"});
  cases.push_back({"a:2,b:3", "vocab:b+a, d_ff:a+b, heads:b"});
  cases.push_back(
      {"data:3,model:2",
       "batch:data, heads:model [parameters] d_model:data, d_ff:model "
       "[optimizer] d_model:data, vocab:model"});
  return cases;
}

const SmallRun& OneDevice() {
  static const SmallRun* run = [] {
    absl::StatusOr<SmallRun> result = RunSmallLm("", "", kSteps);
    EXPECT_OK(result);
    return new SmallRun(*std::move(result));
  }();
  return *run;
}

class LayoutAgreement : public ::testing::TestWithParam<Case> {};

TEST_P(LayoutAgreement, FiftyStepsEqualOneDevice) {
  const Mesh mesh = *Mesh::Parse(GetParam().mesh);
  if ((mesh.num_axes() == 1 && mesh.num_devices() > 4) ||
      GetParam().mesh == "data:4,model:2") {
    SKIP_UNDER_THREAD_SANITIZER("a large mesh");
  }
  const SmallRun& reference = OneDevice();
  const absl::StatusOr<SmallRun> run =
      RunSmallLm(GetParam().mesh, GetParam().layout, kSteps);
  ASSERT_OK(run);
  for (const auto& [name, value] : reference.initial) {
    EXPECT_TRUE(run->initial.at(name) == value) << "initial bits of " << name;
  }
  for (size_t i = 0; i < reference.masks.size(); ++i) {
    EXPECT_TRUE(run->masks[i] == reference.masks[i])
        << "dropout mask of step " << i;
  }
  EXPECT_LE(LargestLossDifference(*run, reference), 1e-4);
  EXPECT_EQ(run->counted, run->planned);
}

INSTANTIATE_TEST_SUITE_P(Presets, LayoutAgreement, ::testing::ValuesIn(Cases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           std::string name = absl::StrCat(
                               info.param.layout, "_on_", info.param.mesh);
                           for (char& c : name) {
                             if (!isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           }
                           return name;
                         });

TEST(LayoutAgreement, TheModelLearns) {
  SKIP_UNDER_SANITIZERS("fifty steps of one device");
  EXPECT_LT(OneDevice().losses.back(), 0.7 * OneDevice().losses.front());
}

TEST(LayoutAgreement, DropoutMasksDifferFromStepToStep) {
  const std::vector<HostTensor>& masks = OneDevice().masks;
  EXPECT_FALSE(masks[0] == masks[1]);
  EXPECT_FALSE(masks[1] == masks[2]);
}

TEST(LayoutAgreement, TwoRunsOfOneLayoutAreBitwiseEqual) {
  for (const Case& c :
       {Case{"data:2,model:2", "data_model"}, Case{"data:3", "zero3"},
        Case{"data:2,model:2", "sequence"}}) {
    const absl::StatusOr<SmallRun> a = RunSmallLm(c.mesh, c.layout, 10);
    const absl::StatusOr<SmallRun> b = RunSmallLm(c.mesh, c.layout, 10);
    ASSERT_OK(a);
    ASSERT_OK(b);
    EXPECT_EQ(a->losses, b->losses) << c.layout;
    EXPECT_TRUE(a->final == b->final) << c.layout;
  }
}

}  // namespace
}  // namespace mtf::train
