// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/backends/conformance/device_case.h"

namespace mtf::testing {
namespace {

class DynamicSliceTest : public DeviceTest {};
MTF_INSTANTIATE_FOR_ALL_DEVICES(DynamicSliceTest);

const Dimension kBatch{"batch", 3}, kHeads{"heads", 2}, kLength{"length", 7},
    kModel{"model", 8};

struct Shapes {
  Shape value, rows, index;
};

const std::vector<Shapes>& AllShapes() {
  static const auto& shapes = *new std::vector<Shapes>{
      {{kBatch, kLength, kHeads, kModel},
       {kBatch, {"now", 2}, kHeads, kModel},
       {kBatch}},
      {{kBatch, kHeads, kLength, kModel},
       {{"length", 3}, kBatch, kHeads, kModel},
       {}},
      {{kLength, kModel}, {kModel}, {}},
      {{kModel, kLength}, {kModel, {"now", 7}}, {}},
      {{kModel, kLength, kBatch}, {kBatch, {"now", 4}, kModel}, {kModel}},
      {{kBatch, kHeads, kLength}, {kHeads, kBatch}, {kBatch, kHeads}},
      {{kLength}, {{"length", 1}}, {}},
      {{kLength}, {{"length", 0}}, {}},
  };
  return shapes;
}

DeviceCase SliceCase(const Shapes& shapes, bool updates, LocalTensor value,
                     DType index) {
  const DType dtype = value.dtype;
  LocalTensor at = Unsharded(shapes.index, index);
  const int64_t rows = shapes.rows.Contains("now") ? shapes.rows.SizeOf("now")
                       : shapes.rows.Contains("length")
                           ? shapes.rows.SizeOf("length")
                           : 1;
  for (size_t i = 0; i < at.values.size(); ++i) {
    at.values[i] = static_cast<double>((5 * i + 2) % (kLength.size - rows + 1));
  }
  DeviceCase test;
  test.instruction =
      Instruction(updates ? Opcode::kUpdateSlice : Opcode::kDynamicSlice,
                  DynamicSliceAttributes{"length"});
  test.result = updates ? value : Unsharded(shapes.rows, dtype);
  for (double& x : test.result.values) x = 0;
  test.operands = {std::move(value)};
  if (updates) {
    LocalTensor update = Unsharded(shapes.rows, dtype);
    for (double& x : update.values) x = dtype == kBool ? 1 - x : -x;
    test.operands.push_back(std::move(update));
  }
  test.operands.push_back(std::move(at));
  return test;
}

// The row of the value's shard for the element `here` of the rows, or -1.
int64_t RowAt(const DeviceCase& test, const LocalTensor& rows,
              const Coordinates& here) {
  const LocalTensor& value = test.operands[0];
  const std::string dim = rows.shape.Contains("now") ? "now" : "length";
  const int64_t row = static_cast<int64_t>(test.operands.back().At(here)) +
                      (rows.shape.Contains(dim) ? here.at(dim) : 0);
  const ShardedDimension& shard = value.dims[value.shape.Find("length")];
  const int64_t local = row - shard.offset;
  return local >= 0 && local < shard.valid ? local : -1;
}

LocalTensor ExpectedRows(const DeviceCase& test) {
  LocalTensor want = test.result;
  ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
    Coordinates there = here;
    there["length"] = RowAt(test, want, here);
    want.At(here) = there["length"] < 0 ? 0 : test.operands[0].At(there);
  });
  return want;
}

LocalTensor ExpectedUpdate(const DeviceCase& test) {
  LocalTensor want = test.operands[0];
  const LocalTensor& update = test.operands[1];
  ForEachElement(update.shape, update.dims, [&](const Coordinates& here) {
    Coordinates there = here;
    there["length"] = RowAt(test, update, here);
    if (there["length"] >= 0) want.At(there) = update.At(here);
  });
  return want;
}

TEST_P(DynamicSliceTest, RowsInEveryOrder) {
  CaseSample sample(GetParam(), 7);
  for (const Shapes& shapes : AllShapes()) {
    for (DType dtype : kAllDTypes) {
      for (DType index : {kInt32, kInt64}) {
        if (!sample.TakesNext()) continue;
        SCOPED_TRACE(shapes.value.ToString() + " at " +
                     shapes.index.ToString() + " " +
                     std::string(DTypeName(dtype)));
        const LocalTensor value = Unsharded(shapes.value, dtype);
        DeviceCase slice = SliceCase(shapes, false, value, index);
        ExpectSame(slice.Run(GetParam(), 2), ExpectedRows(slice));
        DeviceCase update = SliceCase(shapes, true, value, index);
        ExpectSame(update.Run(GetParam(), 2), ExpectedUpdate(update));
        update.in_place = true;
        ExpectSame(update.Run(GetParam()), ExpectedUpdate(update));
      }
    }
  }
}

TEST_P(DynamicSliceTest, EachShardHasItsRows) {
  for (const Shapes& shapes : AllShapes()) {
    for (int64_t offset : {0, 3, 6}) {
      SCOPED_TRACE(shapes.value.ToString() + " from " + std::to_string(offset));
      std::vector<ShardedDimension> dims;
      for (const Dimension& dim : shapes.value) {
        dims.push_back(
            dim.name == "length"
                ? ShardedDimension{3, offset, std::min<int64_t>(3, 7 - offset)}
                : ShardedDimension{dim.size, 0, dim.size});
      }
      const LocalTensor value = Shard(shapes.value, dims);
      DeviceCase slice = SliceCase(shapes, false, value, kInt32);
      ExpectSame(slice.Run(GetParam()), ExpectedRows(slice));
      DeviceCase update = SliceCase(shapes, true, value, kInt32);
      ExpectSame(update.Run(GetParam()), ExpectedUpdate(update));
    }
  }
}

TEST_P(DynamicSliceTest, ABadIndexIsReportedByItsGlobalPosition) {
  // A shard: rows 3 and 4 of a batch of 5, so positions start at 3 * 4.
  const Shape shape{{"batch", 5}, {"n", 4}};
  const std::vector<ShardedDimension> dims = {{3, 3, 2}, {4, 0, 4}};
  for (DType dtype : {kInt32, kInt64}) {
    DeviceCase test;
    test.instruction =
        Instruction(Opcode::kCheckIndex, CheckIndexAttributes{3, "x", 10, ""});
    test.operands = {
        Shard(shape, dims, dtype, {0, 1, 2, 7, 4, 8, 5, -1, 99, 99, 99, 99})};
    test.result = Shard(shape, dims, dtype);
    LocalTensor want = test.result;
    want.values = {0, 1, 2, 7, 4, 0, 5, 0, 0, 0, 0, 0};
    ExpectSame(test.Run(GetParam(), 2), want);
    // The padding after it is not an index.
    EXPECT_EQ(test.context.error.instruction, 0);
    EXPECT_EQ(test.context.error.position, 3 * 4 + 5);
    EXPECT_EQ(test.context.error.index, 8);
  }
}

}  // namespace
}  // namespace mtf::testing
