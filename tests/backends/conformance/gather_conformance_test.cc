// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include <algorithm>
#include <vector>

#include "tests/backends/conformance/device_case.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

class GatherTest : public DeviceTest {};
MTF_INSTANTIATE_FOR_ALL_DEVICES(GatherTest);

const Dimension kVocab{"vocab", 10}, kBatch{"batch", 3}, kLength{"length", 4},
    kModel{"model", 6};

DeviceCase Case(Opcode opcode, LocalTensor first, LocalTensor indices,
                LocalTensor result) {
  DeviceCase test;
  test.instruction = Instruction(opcode, GatherAttributes{"vocab", ""});
  test.operands = {std::move(first), std::move(indices)};
  test.result = std::move(result);
  return test;
}

bool IsValid(const LocalTensor& tensor, const Coordinates& here) {
  for (int i = 0; i < tensor.shape.rank(); ++i) {
    if (here.at(tensor.shape[i].name) >= tensor.dims[i].valid) return false;
  }
  return true;
}

// The local row of the table for the index at coordinates `here`, or -1.
int64_t RowAt(const LocalTensor& indices, const ShardedDimension& rows,
              const Coordinates& here) {
  if (!IsValid(indices, here)) return -1;
  const int64_t index = static_cast<int64_t>(indices.At(here));
  const int64_t row = index - rows.offset;
  return index >= 0 && index < kVocab.size && row >= 0 && row < rows.valid ? row
                                                                           : -1;
}

LocalTensor ExpectedGather(const DeviceCase& test) {
  const LocalTensor &table = test.operands[0], &indices = test.operands[1];
  LocalTensor want = test.result;
  const int dim = table.shape.Find("vocab");
  ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
    const int64_t row = RowAt(indices, table.dims[dim], here);
    Coordinates there = here;
    there["vocab"] = row;
    want.At(here) = row < 0 ? 0 : table.At(there);
  });
  return want;
}

LocalTensor ExpectedScatter(const DeviceCase& test) {
  const LocalTensor &updates = test.operands[0], &indices = test.operands[1];
  LocalTensor want = test.result;
  for (double& value : want.values) value = 0;
  const int dim = want.shape.Find("vocab");
  ForEachElement(updates.shape, updates.dims, [&](const Coordinates& here) {
    const int64_t row = RowAt(indices, want.dims[dim], here);
    if (row < 0) return;
    Coordinates there = here;
    there["vocab"] = row;
    want.At(there) += updates.At(here);
  });
  return want;
}

LocalTensor Indices(Shape shape, DType dtype, int64_t rows) {
  LocalTensor indices = Unsharded(std::move(shape), dtype);
  for (size_t i = 0; i < indices.values.size(); ++i) {
    indices.values[i] = static_cast<double>(i * 7 % rows);
  }
  return indices;
}

struct Shapes {
  Shape table, indices, rows;  // of the table, the indices, and gather's result
};

const std::vector<Shapes>& AllShapes() {
  static const auto& shapes = *new std::vector<Shapes>{
      {{kVocab, kModel}, {kBatch, kLength}, {kBatch, kLength, kModel}},
      {{kModel, kVocab}, {kBatch, kLength}, {kLength, kModel, kBatch}},
      {{kVocab, kModel}, {}, {kModel}},
      {{kVocab}, {kBatch}, {kBatch}},
      // each batch has its own table
      {{kBatch, kVocab, kModel}, {kBatch, kLength}, {kBatch, kLength, kModel}},
      {{kVocab, kBatch}, {kLength, kBatch}, {kBatch, kLength}},
      {{kBatch, kLength, kVocab}, {kBatch, kLength}, {kBatch, kLength}},
      {{kModel, kVocab, kLength}, {kBatch}, {kBatch, kLength, kModel}},
  };
  return shapes;
}

TEST_P(GatherTest, RowsInEveryOrder) {
  for (const Shapes& shapes : AllShapes()) {
    for (DType dtype : kAllDTypes) {
      for (DType index : {kInt32, kInt64}) {
        SCOPED_TRACE(shapes.table.ToString() + " at " +
                     shapes.indices.ToString() + " " +
                     std::string(DTypeName(dtype)));
        DeviceCase test = Case(Opcode::kGather, Unsharded(shapes.table, dtype),
                               Indices(shapes.indices, index, 10),
                               Unsharded(shapes.rows, dtype));
        ExpectSame(test.Run(GetParam(), 2), ExpectedGather(test));
        EXPECT_TRUE(test.context.error.ok());
      }
    }
  }
}

TEST_P(GatherTest, ScatterAddsInEveryOrder) {
  for (const Shapes& shapes : AllShapes()) {
    for (DType dtype : {kFloat32, kBFloat16, kFloat16, kInt32, kInt64}) {
      SCOPED_TRACE(shapes.table.ToString() + " at " +
                   shapes.indices.ToString() + " " +
                   std::string(DTypeName(dtype)));
      // Few rows, so that several updates go to one row.
      DeviceCase test = Case(Opcode::kScatterAdd, Unsharded(shapes.rows, dtype),
                             Indices(shapes.indices, kInt32, 4),
                             Unsharded(shapes.table, dtype));
      ExpectClose(test.Run(GetParam(), 2), ExpectedScatter(test), 10);
      EXPECT_TRUE(test.context.error.ok());
    }
  }
}

TEST_P(GatherTest, ABadIndexIsReportedByItsGlobalPosition) {
  // A shard: rows 3 and 4 of a batch of 5, so positions start at 3 * 4.
  const Shape shape{{"batch", 5}, kLength};
  const std::vector<ShardedDimension> dims = {{3, 3, 2}, {4, 0, 4}};
  std::vector<double> numbers = {0, 1, 2, 3, 4, 12, 5, -1, 99, 99, 99, 99};
  for (Opcode opcode : {Opcode::kGather, Opcode::kScatterAdd}) {
    const LocalTensor indices = Shard(shape, dims, kInt32, numbers);
    const LocalTensor rows = Shard({{"batch", 5}, kLength, kModel},
                                   {{3, 3, 2}, {4, 0, 4}, {6, 0, 6}});
    const LocalTensor table = Unsharded({kVocab, kModel});
    const bool gather = opcode == Opcode::kGather;
    DeviceCase test =
        Case(opcode, gather ? table : rows, indices, gather ? rows : table);
    const LocalTensor want =
        gather ? ExpectedGather(test) : ExpectedScatter(test);
    ExpectClose(test.Run(GetParam(), 2), want);
    // The padding after it is not an index.
    EXPECT_EQ(test.context.error.instruction, 0);
    EXPECT_EQ(test.context.error.position, 3 * 4 + 5);
    EXPECT_EQ(test.context.error.index, 12);
  }
}

TEST_P(GatherTest, IndicesAreCheckedIfRowsHaveNoElements) {
  const Dimension none{"none", 0};
  const LocalTensor indices = Unsharded({kBatch}, kInt32, {1, 10, 2});
  for (Opcode opcode : {Opcode::kGather, Opcode::kScatterAdd}) {
    const bool gather = opcode == Opcode::kGather;
    const LocalTensor table = Unsharded({kVocab, none});
    const LocalTensor rows = Unsharded({kBatch, none});
    DeviceCase test =
        Case(opcode, gather ? table : rows, indices, gather ? rows : table);
    test.Run(GetParam());
    EXPECT_EQ(test.context.error.position, 1);
    EXPECT_EQ(test.context.error.index, 10);
  }
}

TEST_P(GatherTest, AnIndexOfAnotherRanksShardGivesZero) {
  // Rows 4 to 6 of 10, with an extent of 4.
  const std::vector<ShardedDimension> rows = {{4, 4, 3}, {6, 0, 6}};
  const LocalTensor indices = Indices({kBatch, kLength}, kInt32, 10);
  const Shape shape{kBatch, kLength, kModel};
  DeviceCase gather = Case(Opcode::kGather, Shard({kVocab, kModel}, rows),
                           indices, Unsharded(shape));
  ExpectSame(gather.Run(GetParam()), ExpectedGather(gather));
  EXPECT_TRUE(gather.context.error.ok());
  DeviceCase scatter = Case(Opcode::kScatterAdd, Unsharded(shape), indices,
                            Shard({kVocab, kModel}, rows));
  ExpectClose(scatter.Run(GetParam()), ExpectedScatter(scatter));
  EXPECT_TRUE(scatter.context.error.ok());
}

TEST_P(GatherTest, ScatterNeverAddsPadding) {
  const std::vector<ShardedDimension> dims = {{3, 0, 2}, {4, 0, 3}, {6, 0, 6}};
  LocalTensor updates = Shard({kBatch, kLength, kModel}, dims);
  for (double& value : updates.values) value = 1e30;
  LocalTensor indices =
      Shard({kBatch, kLength}, {{3, 0, 2}, {4, 0, 3}}, kInt32);
  for (double& value : indices.values) value = 0;
  DeviceCase test =
      Case(Opcode::kScatterAdd, updates, indices, Unsharded({kVocab, kModel}));
  LocalTensor want = ExpectedScatter(test);
  EXPECT_FLOAT_EQ(want.values[0], 6e30);
  ExpectClose(test.Run(GetParam()), want);
}

TEST_P(GatherTest, BFloat16SumsAreInFloat) {
  const Dimension many{"many", 2000};
  LocalTensor updates = Unsharded({many, kModel}, kBFloat16);
  for (double& value : updates.values) value = 1;
  LocalTensor indices = Unsharded({many}, kInt32);
  for (double& value : indices.values) value = 3;
  DeviceCase test = Case(Opcode::kScatterAdd, updates, indices,
                         Unsharded({kVocab, kModel}, kBFloat16));
  const LocalTensor got = test.Run(GetParam());
  EXPECT_EQ(got.At({{"vocab", 3}, {"model", 5}}), 2000);
}

TEST_P(GatherTest, LongRowsOnSeveralThreads) {
  if (GetParam() != "cpu") SKIP_UNDER_SANITIZERS("long rows");
  const Dimension many{"many", 300}, wide{"wide", 700};
  const LocalTensor indices = Indices({many}, kInt32, 10);
  DeviceCase gather = Case(Opcode::kGather, Unsharded({kVocab, wide}), indices,
                           Unsharded({many, wide}));
  ExpectSame(gather.Run(GetParam(), 3), ExpectedGather(gather));
  DeviceCase scatter = Case(Opcode::kScatterAdd, Unsharded({many, wide}),
                            indices, Unsharded({kVocab, wide}));
  const LocalTensor once = scatter.Run(GetParam());
  ExpectClose(once, ExpectedScatter(scatter), 300);
  ExpectSame(scatter.Run(GetParam(), 3), once);
}

}  // namespace
}  // namespace mtf::testing
