// SPDX-License-Identifier: Apache-2.0
//
// Poolings and their gradients as a session runs them: fused on one device and
// on shards, with the values of the reference device, in bits that do not
// depend on the number of threads.
#include "ops/pool.h"

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/windows.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

PoolOptions PaddedPool(int64_t stride, int64_t before, int64_t after,
                       int64_t dilation = 1) {
  return {.stride = stride,
          .dilation = dilation,
          .padding = WindowPadding::kExplicit,
          .before = before,
          .after = after};
}

struct PoolCase {
  std::string name;
  Shape x, windows;
  PoolOptions options = {};
  int fused = 2;  // groups of forward and backward
  int fused_average = fused;

  friend void PrintTo(const PoolCase& c, std::ostream* out) { *out << c.name; }
};

std::vector<PoolCase> PoolCases() {
  const Dimension batch{"batch", 4}, height{"height", 12}, width{"width", 12},
      in{"in", 5};
  const Shape image = {batch, height, width, in};
  const Shape three = {{"height", 3}, {"width", 3}};
  return {
      {"disjoint", image, {{"height", 2}, {"width", 3}}},
      {"overlapping", image, three, PaddedPool(2, 1, 1)},
      {"dense", image, three, {.stride = 1, .padding = WindowPadding::kSame}},
      {"dilated", image, {{"height", 2}, {"width", 3}}, PaddedPool(1, 2, 2, 2)},
      {"apart", image, {{"height", 2}, {"width", 2}}, {.stride = 5}},
      {"padding_only", image, {{"height", 2}}, PaddedPool(3, 3, 3)},
      // The constants that averages are divided by come between dimensions.
      {"without_padding",
       image,
       three,
       {.stride = 2, .padding = WindowPadding::kSame, .count_padding = false},
       2,
       3},
      {"sequence",
       {batch, width, {"in", 40}},
       {{"width", 4}},
       PaddedPool(3, 1, 1)},
      {"volume",
       {batch, {"depth", 6}, {"height", 8}, {"width", 6}, in},
       {{"depth", 2}, {"height", 3}, {"width", 2}},
       PaddedPool(2, 1, 1)},
      // Rows of more elements than a thread takes at a time, and few of them.
      {"wide",
       {{"height", 60}, {"width", 12}, {"in", 140}},
       three,
       PaddedPool(2, 1, 1)},
      {"innermost", {batch, in, height, width}, three, PaddedPool(2, 1, 1)},
      {"without_channels", {batch, height, width}, three, PaddedPool(2, 1, 1)},
      // Side by side, of at least a vector of channels: one loop takes both
      // dimensions (backends/cpu/windows/pool_planes.h).
      {"plane",
       {batch, height, width, {"in", 20}},
       {{"height", 2}, {"width", 2}}},
      {"plane_of_three",
       {batch, {"height", 10}, {"width", 13}, {"in", 32}},
       {{"height", 3}, {"width", 4}}},
      {"plane_of_four",
       {batch, height, {"width", 11}, {"in", 17}},
       {{"height", 4}, {"width", 2}}},
      // Few lines, which threads divide between windows and within them.
      {"plane_of_one_image",
       {{"height", 90}, width, {"in", 48}},
       {{"height", 2}, {"width", 3}}},
      {"volume_of_planes",
       {batch, {"depth", 6}, {"height", 8}, {"width", 6}, {"in", 16}},
       {{"depth", 2}, {"height", 2}, {"width", 2}}},
      // Overlapping, of at least a vector of channels.
      {"planes_with_padding",
       {batch, height, width, {"in", 20}},
       three,
       PaddedPool(2, 1, 1)},
      {"dense_planes",
       {batch, {"height", 7}, {"width", 9}, {"in", 67}},
       {{"height", 2}, {"width", 5}},
       {.stride = 1}},
      {"planes_of_one_row",
       {{"height", 10}, width, {"in", 64}},
       {{"height", 1}, {"width", 3}},
       PaddedPool(2, 0, 0)},
      // In another order than that of the memory: each by itself.
      {"reversed",
       image,
       {{"width", 3}, {"height", 3}},
       PaddedPool(2, 1, 1),
       4},
  };
}

class Pools
    : public ::testing::TestWithParam<std::tuple<PoolCase, std::string>> {
 protected:
  void SetUp() override {
    const auto& [test, kind] = GetParam();
    // Few numbers, so that windows have several maxima.
    const Tensor x =
        Floor(RandomUniform(graph_, test.x, -2, 3, {.per_step = false}));
    const Tensor y = kind == "max" ? MaxPool(x, test.windows, test.options)
                                   : AveragePool(x, test.windows, test.options);
    const Tensor dy =
        RandomUniform(graph_, y.shape(), -1, 1, {.per_step = false});
    request_.fetches = {y, Gradients(y, {x}, dy)[0]};
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
        *groups += group.Find<PoolGroup>() != nullptr;
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
        const double is = *got[i].At(j), should_be = *wanted[i].At(j);
        if (is == should_be) continue;  // infinities
        ASSERT_NEAR(is, should_be, 1e-5) << "fetch " << i << " element " << j;
      }
    }
  }

  Graph graph_;
  RunRequest request_;
};

TEST_P(Pools, AreThoseOfTheReferenceDevice) {
  SKIP_UNDER_THREAD_SANITIZER("one rank of one thread");
  const auto wanted = Run("", "", {.backend = "reference"});
  int groups = 0;
  const auto got = Run("", "", {.threads_per_rank = 1}, &groups);
  const auto& [test, kind] = GetParam();
  EXPECT_EQ(groups, kind == "max" ? test.fused : test.fused_average);
  ExpectNear(got, wanted);
  const auto three = Run("", "", {.threads_per_rank = 3});
  ASSERT_EQ(three.size(), got.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(three[i] == got[i]) << i;
}

// Without gradients, what the windows of rows give is not in memory, and one
// loop takes both dimensions.
TEST_P(Pools, AreTheSameWithoutGradients) {
  const auto with = Run("", "", {.threads_per_rank = 1});
  request_.fetches.pop_back();
  const auto without = Run("", "", {.threads_per_rank = 1});
  ASSERT_EQ(without.size(), 1);
  ASSERT_EQ(with.size(), 2);
  EXPECT_TRUE(without[0] == with[0]);
}

TEST_P(Pools, OfShardsAreThoseOfOneDevice) {
  const auto wanted = Run("", "", {.backend = "reference"});
  struct Layout {
    const char *mesh, *layout;
  };
  for (const Layout& each :
       {Layout{"data:3", "batch:data"}, Layout{"rows:2", "height:rows"},
        Layout{"rows:2,columns:3", "height:rows, width:columns"},
        Layout{"rows:5", "height:rows"}, Layout{"model:2", "in:model"}}) {
    SCOPED_TRACE(absl::StrCat(each.mesh, " ", each.layout));
    ExpectNear(Run(each.mesh, each.layout, {.threads_per_rank = 1}), wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Pools,
                         ::testing::Combine(::testing::ValuesIn(PoolCases()),
                                            ::testing::Values("max",
                                                              "average")),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param).name,
                                               "_", std::get<1>(info.param));
                         });

// Rows before the exchange of halos, and windows of what is exchanged.
TEST(PoolGroups, OfEvenShardsAreFused) {
  Graph graph;
  const Tensor x = RandomUniform(
      graph, {{"batch", 2}, {"height", 8}, {"width", 6}, {"in", 4}}, 0, 1);
  const Shape windows = {{"height", 2}, {"width", 2}};
  RunRequest request;
  request.fetches = {MaxPool(x, windows)};
  for (const auto& [mesh, groups] :
       {std::pair{"rows:2", 1}, std::pair{"rows:3", 1}}) {
    auto session = Session::Create(graph, mesh, "height:rows");
    ASSERT_OK(session);
    const auto program = (*session)->ProgramOf(request);
    ASSERT_OK(program);
    int found = 0;
    for (const FusedGroup& group : (*program)->groups) {
      found += group.Find<PoolGroup>() != nullptr;
    }
    // Of uneven shards, only the width.
    EXPECT_EQ(found, groups) << mesh;
  }
}

// The maximum and the minimum of NaN are NaN, and so are those of no elements.
TEST(PoolGroups, PropagateNaN) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {{"width", 6}, {"in", 20}});
  RunRequest request;
  const WindowOptions pairs = {.stride = 2, .fill = INFINITY};
  request.fetches = {
      MaxPool(x, {{"width", 2}}),
      MinOver(Windows(x, "width", {"pair", 2}, pairs), {{"pair", 2}})};
  std::vector<double> numbers(120, 1);
  numbers[3] = numbers[25] = NAN;  // the first and the second of a window
  const HostTensor fed =
      HostTensor::FromDoubles({{"width", 6}, {"in", 20}}, kFloat32, numbers);
  request.feeds = {{"x", fed}};
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  const auto values = (*session)->Run(request);
  ASSERT_OK(values);
  for (const HostTensor& value : *values) {
    for (int64_t i = 0; i < value.num_elements(); ++i) {
      EXPECT_EQ(std::isnan(*value.At(i)), i == 3 || i == 5) << i;
    }
  }
}

}  // namespace
}  // namespace mtf::train
