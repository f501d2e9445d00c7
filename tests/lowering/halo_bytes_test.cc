// SPDX-License-Identifier: Apache-2.0
//
// What windows and other movement along a sharded dimension send: halos only.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "lowering/program/count_costs.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/pad.h"
#include "ops/reduce.h"
#include "ops/shift.h"
#include "ops/slice.h"
#include "ops/variable.h"
#include "ops/windows.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

const Dimension kHeight{"height", 32}, kWidth{"width", 5};
constexpr int64_t kRow = 5 * 4;  // bytes

struct Image {
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {kHeight, kWidth});

  std::string CostsOf(const std::vector<Tensor> &fetches,
                      absl::string_view mesh = "rows:4",
                      absl::string_view layout = "height:rows") {
    return Costs(LowerText(graph, mesh, layout,
                           {.fetches = fetches, .fetch_shards = true}));
  }
};

std::string Permutes(int calls, int64_t rows) {
  return absl::StrCat("collective_permute rows ", calls, "x ", rows * kRow,
                      "\n");
}

TEST(HaloBytes, WindowsSendTheRowsBeforeAndAfterAShard) {
  for (int64_t window = 1; window <= 9; ++window) {
    for (int64_t dilation = 1; dilation <= 2; ++dilation) {
      if ((window - 1) * dilation > 15) continue;
      Image image;
      const Tensor y =
          Windows(image.x, "height", {"w", window}, {.dilation = dilation});
      const int64_t halo = (window - 1) * dilation;
      const int calls = halo == 0 ? 0 : halo == 1 ? 1 : 2;
      EXPECT_EQ(image.CostsOf({y}), calls == 0 ? "" : Permutes(calls, halo))
          << window << " " << dilation;
    }
  }
}

// Even shards of E rows; the windows of a rank need `before` and `after` rows
// of others. Of those before it, the rank at distance k has min(E, before - (k
// - 1) E).
TEST(HaloBytes, OfEveryWindowAreThoseOfTheFormula) {
  const auto rows_at = [](int64_t halo, int64_t distance, int64_t extent) {
    return std::clamp<int64_t>(halo - (distance - 1) * extent, 0, extent);
  };
  for (int64_t ranks = 2; ranks <= 4; ++ranks) {
    for (int64_t extent = 1; extent * ranks <= 13; ++extent) {
      for (int64_t window = 1; window <= 5; ++window) {
        for (int64_t dilation = 1; dilation <= 3; ++dilation) {
          for (const bool wrap : {false, true}) {
            Graph graph;
            const int64_t size = extent * ranks;
            const Tensor x = Input(graph, "x", kFloat32, {{"height", size}});
            const Tensor y = Windows(x, "height", {"w", window},
                                     {.dilation = dilation, .wrap = wrap});
            const int64_t before = (window - 1) * dilation / 2;
            const int64_t after = (window - 1) * dilation - before;
            // Ranks k after a rank are ranks - k before it: one round.
            int64_t rows = 0;
            for (int64_t k = 1; k < ranks; ++k) {
              const int64_t of_next = rows_at(after, ranks - k, extent);
              rows +=
                  wrap ? std::min(extent, rows_at(before, k, extent) + of_next)
                       : std::max(rows_at(before, k, extent), of_next);
            }
            if (wrap && before + after > size - extent) continue;  // repeats
            const int64_t gathered = (ranks - 1) * extent;
            const std::string costs = Costs(
                LowerText(graph, absl::StrCat("rows:", ranks), "height:rows",
                          {.fetches = {y}, .fetch_shards = true}));
            SCOPED_TRACE(absl::StrCat("ranks ", ranks, " size ", size,
                                      " window ", window, " dilation ",
                                      dilation, wrap ? " wrap" : ""));
            if (rows == 0) {
              EXPECT_EQ(costs, "");
            } else if (rows < gathered) {
              EXPECT_THAT(costs,
                          ::testing::MatchesRegex(absl::StrCat(
                              "collective_permute rows .x ", 4 * rows, "\n")));
            } else {
              EXPECT_THAT(costs,
                          ::testing::HasSubstr(absl::StrCat(
                              "all_gather rows 1x ", 4 * gathered, "\n")));
            }
          }
        }
      }
    }
  }
}

// Rows and columns of the image are exchanged before any windows are taken, and
// sums of windows after all of them are folded: three times fewer columns, each
// as long as the rows of a shard and their halo.
TEST(HaloBytes, WindowsOfWindowsSendTheImageAndNotItsWindows) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {{"height", 32}, {"width", 8}});
  const Tensor y = Windows(Windows(x, "height", {"kh", 3}), "width", {"kw", 3});
  const Tensor dy = Input(graph, "dy", kFloat32, y.shape());
  for (const Tensor &fetch : {y, Gradients(y, {x}, dy)[0]}) {
    EXPECT_EQ(
        Costs(LowerText(graph, "rows:4,columns:2", "height:rows, width:columns",
                        {.fetches = {fetch}, .fetch_shards = true})),
        absl::StrCat("collective_permute rows 2x ", 2 * 4 * 4,
                     "\ncollective_permute columns 1x ", 10 * 4, "\n"));
  }
}

// A halo is on its way while something else is computed.
TEST(HaloBytes, HalosAreAsynchronous) {
  Image image;
  const Tensor w = Input(image.graph, "w", kFloat32, {kWidth, {"o", 7}});
  const Tensor halo = Windows(image.x, "height", {"w", 3});
  const Tensor other = Einsum({image.x, w}, {kHeight, {"o", 7}});
  const auto program =
      LowerText(image.graph, "rows:4", "height:rows",
                {.fetches = {other, halo}, .fetch_shards = true});
  ASSERT_OK(program);
  int asynchronous = 0;
  for (const Instruction &instruction : program->instructions) {
    asynchronous += IsAsynchronous(instruction);
  }
  EXPECT_GE(asynchronous, 1);
}

TEST(HaloBytes, FoldsSendAsMuchBack) {
  for (const bool wrap : {false, true}) {
    Image image;
    const Tensor in_windows =
        Input(image.graph, "windows", kFloat32, {kHeight, kWidth, {"w", 4}});
    EXPECT_EQ(image.CostsOf(
                  {FoldWindows(in_windows, "height", "w", 32, {.wrap = wrap})}),
              Permutes(2, 3));
  }
}

TEST(HaloBytes, TwoRanksSwap) {
  Image image;
  const Tensor y = Windows(image.x, "height", {"w", 4});
  EXPECT_EQ(image.CostsOf({y}, "rows:2"), Permutes(1, 2));
}

TEST(HaloBytes, AHaloLongerThanAShardComesFromSeveralRanks) {
  Image image;
  // 10 rows before and 10 after shards of 8. Of 4 ranks, none has both a rank 2
  // before it and one 2 after it, so these share a round.
  const Tensor y = Windows(image.x, "height", {"w", 21});
  EXPECT_EQ(image.CostsOf({y}), Permutes(3, 8 + 2 + 8));
}

TEST(HaloBytes, AHaloAsLongAsTheDimensionIsGathered) {
  Image image;
  const Tensor y = Windows(image.x, "height", {"w", 41});
  EXPECT_EQ(image.CostsOf({y}),
            absl::StrCat("all_gather rows 1x ", 24 * kRow, "\n"));
}

TEST(HaloBytes, StridesSendWhatTheFirstWindowsNeed) {
  Image image;
  // 16 windows, 4 on each rank, which begin with the rows of its shard.
  const Tensor y = Windows(image.x, "height", {"w", 3}, {.stride = 2});
  EXPECT_EQ(image.CostsOf({y}), Permutes(1, 1));
  const Tensor patches = Windows(image.x, "height", {"p", 2}, {.stride = 2});
  EXPECT_EQ(image.CostsOf({patches}), "");
}

TEST(HaloBytes, ShiftsSendTheRowsThatChangeRanks) {
  for (int64_t offset = -7; offset <= 7; ++offset) {
    for (const bool wrap : {false, true}) {
      Image image;
      const Tensor y = Shift(image.x, "height", offset, wrap);
      EXPECT_EQ(image.CostsOf({y}),
                offset == 0 ? "" : Permutes(1, std::abs(offset)));
    }
  }
}

TEST(HaloBytes, SlicesPadsAndConcatsSendTheRowsThatChangeRanks) {
  Image image;
  // Shards of 7 rows of 28 from shards of 8: rank r needs r more rows of the
  // rank before it, from the beginning; from row 2 on it needs others.
  EXPECT_EQ(image.CostsOf({Slice(image.x, "height", 0, 28)}), Permutes(1, 3));
  // Shards of 9 from shards of 8: rank 0 sends its last row to rank 1, and rank
  // 3 its first one to rank 2, in one round.
  EXPECT_EQ(image.CostsOf({Pad(image.x, "height", 2, 2)}), Permutes(1, 1));
  // The token is replicated. Rank 3 sends two rows to rank 2.
  const Tensor token = Constant(image.graph, std::vector<double>(5, 1),
                                kFloat32, {{"height", 1}, kWidth});
  EXPECT_EQ(image.CostsOf({Concat({token, image.x}, "height")}),
            Permutes(1, 2));
}

// Sums over another axis are folded before they are reduced, with the rows for
// the neighbours: 10 rows, where the windows have 24.
TEST(HaloBytes, FoldsOfUnreducedSumsAreReducedOnce) {
  Graph graph;
  const Dimension w{"w", 3}, io{"io", 4}, o{"o", 6};
  const Tensor dy = Input(graph, "dy", kFloat32, {kHeight, o});
  const Tensor filter = Input(graph, "filter", kFloat32, {w, io, o});
  const Tensor x =
      FoldWindows(Einsum({dy, filter}, {kHeight, w, io}), "height", "w", 32);
  EXPECT_EQ(Costs(LowerText(graph, "rows:4,model:2", "height:rows, o:model",
                            {.fetches = {x}, .fetch_shards = true})),
            absl::StrCat("all_reduce model 1x ", 10 * 4 * 4, "\n",
                         "collective_permute rows 2x ", 2 * 4 * 4, "\n"));
}

// Two 3x3 convolutions and a pooling, forward and backward.
TEST(HaloBytes, AConvolutionNetworkOverTwoDimensionsSendsHalosOnly) {
  Graph graph;
  const Dimension batch{"batch", 2}, height{"height", 16}, width{"width", 8},
      io{"io", 3}, features{"features", 4}, more{"more", 5}, kh{"kh", 3},
      kw{"kw", 3};
  const auto convolve = [&](Tensor x, const std::string &name, Dimension from,
                            Dimension to) {
    const Tensor w =
        Variable(graph, name, Ones(graph, kFloat32, {kh, kw, from, to}));
    const Tensor in_windows = Windows(Windows(x, "height", kh), "width", kw);
    return Einsum({in_windows, w},
                  {batch, x.dim("height"), x.dim("width"), to});
  };
  const Tensor x = Input(graph, "x", kFloat32, {batch, height, width, io});
  const WindowOptions pool{.stride = 2, .fill = -1e30};
  const auto half = [&](Tensor y, const std::string &dim) {
    return MaxOver(Windows(y, dim, {"pool", 2}, pool), {{"pool", 2}});
  };
  const Tensor h =
      half(half(Relu(convolve(x, "v", io, features)), "height"), "width");
  const Tensor y = Relu(convolve(h, "w", features, more));
  const Targets targets{.fetches = {y}, .fetch_shards = true};
  const char kLayout[] = "height:rows, width:columns";
  // By hand, in floats on each rank. First convolution: one row of 2 x 4 x 3;
  // then one column of 8 + 2 rows, 2 x 10 x 3. Second: one row of 2 x 2 x 4,
  // one column of 2 x 6 x 4.
  EXPECT_EQ(
      Costs(LowerText(graph, "rows:2,columns:2", kLayout, targets)),
      absl::StrCat("collective_permute rows 2x ", 4 * (2 * 4 * 3 + 2 * 2 * 4),
                   "\n", "collective_permute columns 2x ",
                   4 * (2 * 10 * 3 + 2 * 6 * 4), "\n"));
  // The gradients of the parameters and of the input: as many halos back, and
  // one all_reduce of the parameters.
  const std::vector<Tensor> gradients =
      Gradients(ReduceSum(y, {}),
                {x, graph.variables()[0].read, graph.variables()[1].read});
  EXPECT_EQ(Costs(LowerText(graph, "rows:2,columns:2", kLayout,
                            {.fetches = gradients, .fetch_shards = true})),
            absl::StrCat(
                "all_reduce rows+columns 1x ", 4 * 9 * (12 + 20) * 3 / 2, "\n",
                "collective_permute rows 4x ", 2 * 4 * (2 * 4 * 3 + 2 * 2 * 4),
                "\n", "collective_permute columns 4x ",
                2 * 4 * (2 * 10 * 3 + 2 * 6 * 4), "\n"));
}

}  // namespace
}  // namespace mtf::testing
