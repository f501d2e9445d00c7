// SPDX-License-Identifier: Apache-2.0
//
// The collectives of rows that are read and replaced at an index: the rows are
// sent, never the tensor that they belong to.
#include <string>

#include "ops/dynamic_slice.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/written_to_variable.h"

namespace mtf::testing {
namespace {

const Dimension kBatch{"batch", 8}, kLength{"length", 64}, kModel{"d_model", 4},
    kNow{"now", 2};

// A step that replaces rows of a cache and reads others.
struct CachedRows {
  Graph graph;
  Tensor read, write;

  explicit CachedRows(const Dimension& rows = kNow) {
    const Tensor index = Input(graph, "index", kInt32, {kBatch});
    const Tensor update =
        Input(graph, "update", kFloat32, {kBatch, rows, kModel});
    const Tensor cache =
        StateVariable(graph, "cache", kFloat32, {kBatch, kLength, kModel});
    const Tensor updated = UpdateSlice(cache, update, "length", index);
    read = DynamicSlice(updated, "length", index, rows);
    write = Assign(cache, updated);
  }
  absl::StatusOr<Program> Lowered(absl::string_view mesh,
                                  absl::string_view layout) {
    return LowerText(
        graph, mesh, layout,
        {.fetches = {read}, .fetch_shards = true, .updates = {write}});
  }
};

constexpr int64_t kRows = 8 * 2 * 4 * 4;  // bytes of all rows

TEST(DynamicSliceBytes, AlongAShardedDimensionAreThoseOfTheRows) {
  for (const int64_t n : {2, 4, 8}) {
    CachedRows step;
    const auto program =
        step.Lowered(absl::StrCat("model:", n), "length:model");
    ASSERT_OK(program);
    EXPECT_EQ(Costs(program), absl::StrCat("all_reduce model 1x ",
                                           2 * (n - 1) * kRows / n, "\n"));
    EXPECT_EQ(WrittenToVariable(*program, "cache"), kRows);
  }
}

TEST(DynamicSliceBytes, AreZeroWhereOtherDimensionsAreSharded) {
  for (const char* layout :
       {"batch:model", "d_model:model", "batch:model, d_model:data"}) {
    CachedRows step;
    const auto program = step.Lowered("data:2,model:2", layout);
    EXPECT_EQ(Costs(program), "") << layout;
    EXPECT_EQ(WrittenToVariable(*program, "cache"),
              absl::string_view(layout).size() > 13 ? kRows / 4 : kRows / 2)
        << layout;
  }
}

// Rows under a name that is sharded itself: the update is gathered, and the
// rows that are read are scattered.
TEST(DynamicSliceBytes, RowsOfAShardedNameAreGathered) {
  CachedRows step(Dimension{"length", 2});
  const auto program = step.Lowered("model:2", "length:model");
  EXPECT_EQ(Costs(program),
            absl::StrCat("all_reduce model 1x ", kRows,
                         "\nall_gather model 1x ", kRows / 2, "\n"));
}

// The gradient of the rows is read from that of the tensor, and that of the
// tensor has zeros in their place.
TEST(DynamicSliceBytes, OfGradientsAreThoseOfTheRows) {
  Graph graph;
  const Tensor index = Input(graph, "index", kInt32, {});
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
  const Tensor update =
      Input(graph, "update", kFloat32, {kBatch, kNow, kModel});
  const Tensor dy = Input(graph, "dy", kFloat32, {kBatch, kLength, kModel});
  const std::vector<Tensor> gradients =
      Gradients(UpdateSlice(x, update, "length", index), {x, update}, dy);
  EXPECT_EQ(Costs(LowerText(graph, "model:2", "length:model",
                            {.fetches = gradients, .fetch_shards = true})),
            absl::StrCat("all_reduce model 1x ", kRows, "\n"));
}

}  // namespace
}  // namespace mtf::testing
