// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and their gradients as a session runs them: fused on one device
// and on shards, with the values of the reference device, in bits that do not
// depend on the number of threads.
#include "ops/convolution.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "tests/convolution_cases.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using ::mtf::testing::ConvolutionCase;
using ::mtf::testing::Padded;

struct SessionCase : ConvolutionCase {
  int fused = 3;  // convolutions of forward and backward that are one kernel
};

std::vector<SessionCase> Cases() {
  const Dimension batch{"batch", 6}, height{"height", 8}, width{"width", 12},
      in{"in", 5}, out{"out", 7}, kh{"kh", 3}, kw{"kw", 2};
  std::vector<SessionCase> cases;
  for (ConvolutionCase& c : testing::ConvolutionCases(batch, height, width)) {
    cases.push_back({std::move(c)});
  }
  const std::vector<SessionCase> others = {
      // At least a vector of channels, for which oneDNN has kernels of its own.
      {{"depthwise_wide",
        {batch, height, {"width", 26}, {"groups", 36}},
        {kh, {"kw", 7}, {"groups", 36}},
        {{"height", "kh"}, {"width", "kw"}},
        {}}},
      {{"depthwise_strided",
        {batch, height, width, {"groups", 20}},
        {kh, {"kw", 5}, {"groups", 20}},
        {{"height", "kh", Padded(1, 0, 2)},
         {"width", "kw", Padded(3, 1, 3, 2)}},
        {}}},
      {{"depthwise_dilated",
        {batch, height, width, {"groups", 16}},
        {kw, kh, {"groups", 16}},
        {{"height", "kh", Padded(2, 2, 1, 2)},
         {"width", "kw", Padded(0, 3, 1, 3)}},
        {}}},
      {{"depthwise_sequence",
        {batch, width, {"groups", 24}},
        {{"kw", 4}, {"groups", 24}},
        {{"width", "kw", Padded(3, 0)}},
        {}}},
      // No window has all of its elements.
      {{"depthwise_padded",
        {batch, {"height", 2}, {"width", 3}, {"groups", 17}},
        {kh, {"kw", 5}, {"groups", 17}},
        {{"height", "kh"}, {"width", "kw"}},
        {}}},
      {{"pointwise",
        {batch, height, width, in},
        {{"kh", 1}, {"kw", 1}, in, out},
        {{"height", "kh"}, {"width", "kw", {.stride = 2}}},
        {in}}},
      // Channels before the image: windows and einsum.
      {{"channels_first",
        {batch, in, height, width},
        {kh, kw, in, out},
        {{"height", "kh"}, {"width", "kw"}},
        {in}},
       0},
      // Zeros only, and elements of the other end.
      {{"far",
        {batch, height, in},
        {kh, in, out},
        {{"height", "kh", Padded(4, 0)}},
        {in}},
       0},
      {{"wrapped",
        {batch, height, in},
        {kh, in, out},
        {{"height", "kh", {.wrap = true}}},
        {in}}},
  };
  cases.insert(cases.end(), others.begin(), others.end());
  return cases;
}

class Convolutions : public ::testing::TestWithParam<SessionCase> {
 protected:
  void SetUp() override {
    const SessionCase& test = GetParam();
    const Tensor x = RandomUniform(graph_, test.x, -1, 1, {.per_step = false});
    const Tensor filter =
        RandomUniform(graph_, test.filter, -1, 1, {.per_step = false});
    const Tensor y = Convolution(x, filter, test.spatial, test.reduced);
    const Tensor dy =
        RandomUniform(graph_, y.shape(), -1, 1, {.per_step = false});
    request_.fetches = {y};
    for (const Tensor& gradient : Gradients(y, {x, filter}, dy)) {
      request_.fetches.push_back(gradient);
    }
    ASSERT_OK(graph_.status());
  }

  std::vector<HostTensor> Run(const std::string& mesh,
                              const std::string& layout,
                              const SessionOptions& options,
                              int* groups = nullptr) {
    auto session = Session::Create(graph_, mesh, layout, options);
    EXPECT_OK(session);
    if (!session.ok()) return {};
    EXPECT_OK((*session)->Initialize());
    const auto values = (*session)->Run(request_);
    EXPECT_OK(values);
    if (groups != nullptr) {
      const auto program = (*session)->ProgramOf(request_);
      EXPECT_OK(program);
      *groups = 0;
      for (const FusedGroup& group : (*program)->groups) {
        *groups += group.Find<ConvolutionGroup>() != nullptr;
      }
    }
    return values.ok() ? *values : std::vector<HostTensor>();
  }

  static void ExpectNear(const std::vector<HostTensor>& got,
                         const std::vector<HostTensor>& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(got[i].shape() == wanted[i].shape());
      for (int64_t j = 0; j < got[i].num_elements(); ++j) {
        ASSERT_NEAR(*got[i].At(j), *wanted[i].At(j), 2e-4)
            << "fetch " << i << " element " << j;
      }
    }
  }

  Graph graph_;
  RunRequest request_;
};

TEST_P(Convolutions, AreThoseOfTheReferenceDevice) {
  SKIP_UNDER_THREAD_SANITIZER("one rank of one thread");
  const auto wanted = Run("", "", {.backend = "reference"});
  int groups = 0;
  const auto got = Run("", "", {.threads_per_rank = 1}, &groups);
  EXPECT_EQ(groups, GetParam().fused);
  ExpectNear(got, wanted);
  const auto three = Run("", "", {.threads_per_rank = 3});
  ASSERT_EQ(three.size(), got.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(three[i] == got[i]) << i;
}

TEST_P(Convolutions, OfShardsAreThoseOfOneDevice) {
  const auto wanted = Run("", "", {.backend = "reference"});
  struct Layout {
    const char *mesh, *layout;
  };
  for (const Layout& each :
       {Layout{"data:2", "batch:data"}, Layout{"data:4", "batch:data"},
        Layout{"rows:2", "height:rows"},
        Layout{"rows:2,columns:2", "height:rows, width:columns"},
        Layout{"rows:2,columns:3", "height:rows, width:columns"},
        Layout{"rows:3", "height:rows"},
        Layout{"data:2,rows:2,columns:2",
               "batch:data, height:rows, width:columns"},
        Layout{"model:2", "out:model"}, Layout{"model:3", "in:model"},
        Layout{"model:2", "groups:model"}}) {
    SCOPED_TRACE(absl::StrCat(each.mesh, " ", each.layout));
    ExpectNear(Run(each.mesh, each.layout, {}), wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Convolutions, ::testing::ValuesIn(Cases()),
    [](const ::testing::TestParamInfo<SessionCase>& info) {
      return info.param.name;
    });

}  // namespace
}  // namespace mtf::train
