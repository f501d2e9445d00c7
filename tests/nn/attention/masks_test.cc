// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/masks.h"

#include <cstdlib>
#include <functional>

#include "ops/one_hot.h"
#include "ops/reshape.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Dimension kLength{"length", 12}, kMemory{"memory_length", 13},
    kBatch{"batch", 2};

struct Example {
  OracleGraph o;
  Tensor positions = Range(o.graph, kLength);
  Tensor memory = Range(o.graph, kMemory);

  // Expects that `mask` [batch..., length, memory_length] is `visible`.
  void Expect(Tensor mask,
              const std::function<bool(int b, int l, int m)>& visible,
              int batch = 1) {
    ASSERT_OK(o.graph.status());
    EXPECT_EQ(mask.dtype(), kBool);
    const std::vector<double> actual = o.Run(mask);
    ASSERT_EQ(actual.size(), static_cast<size_t>(batch * 12 * 13));
    for (int i = 0; i < batch * 12 * 13; ++i) {
      const int m = i % 13, l = i / 13 % 12, b = i / 156;
      EXPECT_EQ(actual[i], visible(b, l, m)) << b << " " << l << " " << m;
    }
  }
};

TEST(Masks, OfPositions) {
  Example e;
  e.Expect(nn::CausalMask(e.positions, e.memory),
           [](int, int l, int m) { return m <= l; });
  e.Expect(nn::WindowMask(e.positions, e.memory, 3, 1),
           [](int, int l, int m) { return m >= l - 3 && m <= l + 1; });
  e.Expect(
      nn::BlockMask(e.positions, e.memory,
                    {.block = 5, .before = 1, .after = 0}),
      [](int, int l, int m) { return m / 5 == l / 5 || m / 5 == l / 5 - 1; });
  e.Expect(nn::BlockMask2d(e.positions, e.memory,
                           {.width = 4,
                            .rows = {.block = 1, .before = 1, .after = 1},
                            .columns = {.block = 3, .before = 0}}),
           [](int, int l, int m) {
             return std::abs(l / 4 - m / 4) <= 1 && l % 4 / 3 == m % 4 / 3;
           });
}

TEST(Masks, OfTokensSegmentsAndPrefixes) {
  Example e;
  const std::vector<int32_t> ids = {1, 1, 1, 2, 2, 2, 2, 3, 3, 0, 0, 0,
                                    4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 0, 0};
  const auto id = [&](int b, int i) { return i == 12 ? 0 : ids[b * 12 + i]; };
  const Tensor queries = e.o.Integers("ids", {kBatch, kLength}, ids);
  std::vector<int32_t> padded;
  for (int i = 0; i < 26; ++i) padded.push_back(id(i / 13, i % 13));
  const Tensor keys = e.o.Integers("memory_ids", {kBatch, kMemory}, padded);
  e.Expect(
      nn::SegmentMask(queries, keys),
      [&](int b, int l, int m) { return id(b, l) == id(b, m); }, 2);
  const Tensor prefix = e.o.Integers("prefix", {kBatch}, {4, 0});
  const Tensor mask = nn::PrefixMask(e.positions, e.memory, prefix);
  e.Expect(
      Transpose(mask, {kBatch, kLength, kMemory}),
      [&](int b, int l, int m) { return m <= l || (b == 0 && m < 4); }, 2);
  const Tensor real = nn::PaddingMask(keys);
  EXPECT_EQ(real.shape(), keys.shape());
  const std::vector<double> actual = e.o.Run(real);
  for (int i = 0; i < 26; ++i) EXPECT_EQ(actual[i], padded[i] != 0);
}

TEST(Masks, OfLongIntegersAreExact) {
  OracleGraph o;
  constexpr int64_t kHigh = int64_t{1} << 32;
  const Dimension length{"length", 3}, memory{"memory_length", 3};
  const Tensor ids = Input(o.graph, "ids", kInt64, {length});
  o.feeds["ids"] = HostTensor::Of<int64_t>({length}, {1, 1 + kHigh, 2});
  const Tensor same = nn::SegmentMask(ids, Rename(ids, "length", memory.name));
  // Those of keys are i32.
  const Tensor keys = o.Integers("keys", {memory}, {1, 2, 3});
  const Tensor mixed = nn::SegmentMask(ids, keys);
  const Tensor after = nn::CausalMask(ids, keys);
  const Tensor prefix =
      nn::PrefixMask(Cast(Range(o.graph, length), kInt64), keys,
                     o.Integers("prefix", {length}, {2, 0, 4}));
  ASSERT_OK(o.graph.status());
  using Row = std::vector<double>;
  EXPECT_EQ(o.Run(same), Row({1, 0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(o.Run(mixed), Row({1, 0, 0, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(o.Run(after), Row({1, 0, 0, 1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(o.Run(prefix), Row({1, 0, 0, 1, 0, 0, 1, 1, 1}));
}

TEST(Masks, OfOnePositionForEachRow) {
  OracleGraph o;
  const Tensor at = o.Integers("at", {kBatch}, {2, 0});
  const Tensor mask = nn::CausalMask(at, Range(o.graph, {"memory_length", 4}));
  EXPECT_EQ(o.Run(mask), std::vector<double>({1, 1, 1, 0, 1, 0, 0, 0}));
}

TEST(MaskErrors, SayWhatIsWrong) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  using Make = std::function<void(Graph&, Tensor positions, Tensor memory)>;
  const auto error = [](const Make& make) {
    Graph graph;
    make(graph, Range(graph, kLength), Range(graph, kMemory));
    return graph.status();
  };
  EXPECT_THAT(
      error([](Graph&, Tensor q, Tensor) { nn::CausalMask(q, q); }),
      StatusIs(kInvalid, AllOf(HasSubstr("have no dimension of their own"),
                               HasSubstr("(causal_mask, masks_test.cc:"),
                               HasSubstr("Rename()"))));
  EXPECT_THAT(error([](Graph& graph, Tensor q, Tensor) {
                nn::SegmentMask(q, Input(graph, "m", kFloat32, {kMemory}));
              }),
              StatusIs(kInvalid, HasSubstr("f32")));
  EXPECT_THAT(error([](Graph&, Tensor q, Tensor) { nn::SegmentMask(q, {}); }),
              StatusIs(kInvalid, HasSubstr("empty")));
  EXPECT_THAT(
      error([](Graph&, Tensor q, Tensor k) { nn::WindowMask(q, k, -1, 0); }),
      StatusIs(kInvalid, HasSubstr("a number is negative")));
  EXPECT_THAT(error([](Graph&, Tensor q, Tensor k) {
                nn::BlockMask(q, k, {.block = 0});
              }),
              StatusIs(kInvalid, HasSubstr("blocks of 0 positions")));
  EXPECT_THAT(error([](Graph&, Tensor q, Tensor k) {
                nn::BlockMask2d(q, k, {.width = 0});
              }),
              StatusIs(kInvalid, HasSubstr(".width is 0, less than 1")));
  EXPECT_THAT(error([](Graph& graph, Tensor, Tensor) {
                nn::PaddingMask(Input(graph, "x", kFloat32, {kMemory}));
              }),
              StatusIs(kInvalid, HasSubstr("(padding_mask, ")));
}

}  // namespace
}  // namespace mtf
