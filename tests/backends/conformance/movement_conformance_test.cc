// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "mtf/philox.h"
#include "tests/backends/conformance/device_case.h"
#include "tests/matchers.h"

namespace mtf::testing {
namespace {

class MovementTest : public DeviceTest {};
MTF_INSTANTIATE_FOR_ALL_DEVICES(MovementTest);

const Dimension kA{"a", 3}, kB{"b", 8}, kC{"c", 5};

LocalTensor Filled(LocalTensor tensor, double value) {
  for (double& x : tensor.values) x = value;
  return tensor;
}

TEST_P(MovementTest, SliceKeepsPaddingOfOtherDimensionsAndZeroesItsOwn) {
  for (DType dtype : kAllDTypes) {
    for (int64_t begin : {0, 3}) {
      DeviceCase test;
      test.instruction =
          Instruction(Opcode::kSlice, SliceAttributes{"b", begin});
      // b has 8 elements and extent 9, a has 3 elements and extent 4.
      test.operands = {
          Shard({kA, kB, kC}, {{4, 0, 3}, {9, 0, 8}, {5, 0, 5}}, dtype)};
      test.result = Filled(
          Shard({kA, {"b", 4}, kC}, {{4, 0, 3}, {6, 0, 4}, {5, 0, 5}}, dtype),
          1);
      LocalTensor want = test.result;
      ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
        Coordinates there = here;
        there["b"] += begin;
        want.At(here) = here.at("b") < 4 ? test.operands[0].At(there) : 0;
      });
      ExpectSame(test.Run(GetParam()), want);
    }
  }
}

TEST_P(MovementTest, PadFillsBeforeAndAfter) {
  for (DType dtype : {kFloat32, kBFloat16, kInt64, kBool}) {
    DeviceCase test;
    test.instruction = Instruction(Opcode::kPad, PadAttributes{"b", 2, 1});
    test.operands = {Shard({kB, kA}, {{9, 0, 8}, {3, 0, 3}}, dtype)};
    // 2 before, 8 elements, 3 after, and one element of padding.
    test.result = Shard({{"b", 13}, kA}, {{14, 0, 13}, {3, 0, 3}}, dtype);
    LocalTensor want = test.result;
    ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
      Coordinates there = here;
      const int64_t at = there["b"] -= 2;
      want.At(here) = at >= 0 && at < 8 ? test.operands[0].At(there)
                      : at < 11         ? 1
                                        : 0;
    });
    ExpectSame(test.Run(GetParam()), want);
  }
}

TEST_P(MovementTest, PadWithInfinity) {
  DeviceCase test;
  test.instruction = Instruction(
      Opcode::kPad,
      PadAttributes{"a", 0, -std::numeric_limits<double>::infinity()});
  test.operands = {Unsharded({kA})};
  test.result = Unsharded({{"a", 4}});
  EXPECT_EQ(test.Run(GetParam()).values[3], FillOf(test.instruction));
}

TEST_P(MovementTest, ConcatJoinsValidElements) {
  for (int dim : {0, 1, 2}) {
    const std::string name = Shape{kA, kB, kC}[dim].name;
    DeviceCase test;
    test.instruction = Instruction(Opcode::kConcat, ConcatAttributes{name});
    int64_t total = 0;
    for (int64_t size : {2, 1, 4}) {
      Shape shape{kA, kB, kC};
      std::vector<ShardedDimension> dims = {{3, 0, 3}, {8, 0, 8}, {5, 0, 5}};
      shape = shape.Resized(name, size);
      dims[dim] = {size + 1, 0, size};
      test.operands.push_back(Shard(shape, dims));
      total += size;
    }
    std::vector<ShardedDimension> dims = {{3, 0, 3}, {8, 0, 8}, {5, 0, 5}};
    dims[dim] = {8, 0, total};
    test.result = Shard(Shape{kA, kB, kC}.Resized(name, total), dims);
    LocalTensor want = test.result;
    ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
      Coordinates there = here;
      double x = 0;
      for (const LocalTensor& operand : test.operands) {
        const int64_t size = operand.shape.SizeOf(name);
        if (there[name] >= 0 && there[name] < size) x = operand.At(there);
        there[name] -= size;
      }
      want.At(here) = x;
    });
    ExpectSame(test.Run(GetParam()), want);
  }
}

TEST_P(MovementTest, MaskFillsPaddingOfItsDimensions) {
  for (DType dtype : {kFloat32, kFloat16, kInt32}) {
    for (bool in_place : {false, true}) {
      DeviceCase test;
      test.instruction = Instruction(Opcode::kMask, MaskAttributes{{0, 2}, -7});
      const std::vector<ShardedDimension> dims = {
          {4, 0, 3}, {8, 0, 6}, {5, 0, 2}};
      test.operands = {Shard({kA, kB, kC}, dims, dtype)};
      test.result = Shard({kA, kB, kC}, dims, dtype);
      test.in_place = in_place;
      LocalTensor want = test.operands[0];
      ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
        if (here.at("a") >= 3 || here.at("c") >= 2) want.At(here) = -7;
      });
      ExpectSame(test.Run(GetParam()), want);
    }
  }
}

TEST_P(MovementTest, MaskOfIntegersByAnIdentity) {
  DeviceCase test;
  test.instruction = Instruction(
      Opcode::kMask,
      MaskAttributes{{0}, -std::numeric_limits<double>::infinity()});
  test.operands = {Shard({kA}, {{4, 0, 3}}, kInt32)};
  test.result = test.operands[0];
  EXPECT_EQ(test.Run(GetParam()).values[3], -2147483648.0);
  // The largest int64, not the double below it: 2^63 - 1 reads as 2^63.
  test.instruction.Get<MaskAttributes>().fill =
      std::numeric_limits<double>::infinity();
  test.operands = {Shard({kA}, {{4, 0, 3}}, kInt64)};
  test.result = test.operands[0];
  EXPECT_EQ(test.Run(GetParam()).values[3], 0x1p63);
}

TEST_P(MovementTest, AllSliceTakesTheBlockOfItsRank) {
  const Mesh mesh = *Mesh::Parse("x:2,y:2,z:2");
  for (int64_t rank = 0; rank < 8; ++rank) {
    DeviceCase test;
    test.instruction = Instruction(
        Opcode::kAllSlice,
        CollectiveAttributes{.axes = {2, 0}, .dim = 1});  // z major, x minor
    test.mesh = mesh;
    test.rank = rank;
    test.operands = {Unsharded({kA, kB, kC})};
    test.result = Shard({kA, kB, kC}, {{3, 0, 3}, {2, 0, 2}, {5, 0, 5}});
    const int64_t block =
        mesh.Coordinate(rank, 2) * 2 + mesh.Coordinate(rank, 0);
    LocalTensor want = test.result;
    ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
      Coordinates there = here;
      there["b"] += 2 * block;
      want.At(here) = test.operands[0].At(there);
    });
    ExpectSame(test.Run(GetParam()), want);
  }
}

TEST_P(MovementTest, AConstantWritesTheShard) {
  for (DType dtype : kAllDTypes) {
    DeviceCase test;
    test.instruction = Instruction(Opcode::kConstant);
    auto& elements = test.instruction.Get<ConstantAttributes>().elements;
    for (int i = 0; i < 24; ++i) elements.push_back(i % 2);
    test.result = Shard({kA, kB}, {{3, 0, 3}, {4, 6, 2}}, dtype);
    LocalTensor want = test.result;
    ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
      want.At(here) = here.at("b") < 2 ? here.at("b") % 2 : 0;
    });
    ExpectSame(test.Run(GetParam()), want);
  }
}

// Reshapes -------------------------------------------------------------------

// The global row-major index of a valid element, or -1.
int64_t GlobalIndex(const LocalTensor& tensor, const Coordinates& here) {
  int64_t index = 0;
  for (int i = 0; i < tensor.shape.rank(); ++i) {
    const ShardedDimension& dim = tensor.dims[i];
    const int64_t at = here.at(tensor.shape[i].name);
    if (at >= dim.valid) return -1;
    index = index * tensor.shape[i].size + dim.offset + at;
  }
  return index;
}

struct ReshapeSpec {
  std::string name;
  Shape from;
  std::vector<ShardedDimension> from_dims;
  Shape to;
  std::vector<ShardedDimension> to_dims;
};

std::vector<ReshapeSpec> Reshapes() {
  const ShardedDimension one{1, 0, 1};
  return {
      {"merge", {kA, kB}, {{3, 0, 3}, {8, 0, 8}}, {{"n", 24}}, {{24, 0, 24}}},
      {"split", {{"n", 24}}, {{24, 0, 24}}, {kA, kB}, {{3, 0, 3}, {8, 0, 8}}},
      {"merge padded",
       {kA, kB},
       {{4, 0, 3}, {9, 0, 8}},
       {{"n", 24}},
       {{26, 0, 24}}},
      {"split padded",
       {{"n", 24}},
       {{26, 0, 24}},
       {kA, kB},
       {{4, 0, 3}, {10, 0, 8}}},
      {"regroup",
       {{"p", 4}, {"q", 6}},
       {{4, 0, 4}, {6, 0, 6}},
       {{"r", 3}, {"s", 8}},
       {{3, 0, 3}, {8, 0, 8}}},
      {"regroup padded",
       {{"p", 4}, {"q", 6}},
       {{5, 0, 4}, {7, 0, 6}},
       {{"r", 3}, {"s", 8}},
       {{4, 0, 3}, {8, 0, 8}}},
      {"merge of shards",
       {{"p", 6}, kB},
       {{2, 2, 2}, {8, 0, 8}},
       {{"n", 48}},
       {{16, 16, 16}}},
      {"split of shards",
       {{"n", 48}, kC},
       {{16, 16, 16}, {5, 0, 5}},
       {{"p", 6}, kB, kC},
       {{2, 2, 2}, {8, 0, 8}, {5, 0, 5}}},
      {"late shard",
       {{"p", 5}, kB},
       {{2, 4, 1}, {8, 0, 8}},
       {{"n", 40}},
       {{16, 32, 8}}},
      {"ones come and go",
       {{"u", 1}, kA, {"v", 1}, kB},
       {one, {3, 0, 3}, one, {8, 0, 8}},
       {kA, {"w", 1}, kB, {"x", 1}},
       {{3, 0, 3}, one, {8, 0, 8}, one}},
      {"merge between others",
       {kC, {"p", 2}, {"q", 3}, kB},
       {{5, 0, 5}, {2, 0, 2}, {4, 0, 3}, {8, 0, 8}},
       {{"c2", 5}, {"n", 6}, kB},
       {{5, 0, 5}, {6, 0, 6}, {9, 0, 8}}},
  };
}

TEST_P(MovementTest, ReshapesFollowTrueSizes) {
  for (const ReshapeSpec& spec : Reshapes()) {
    for (DType dtype : {kFloat32, kBool}) {
      SCOPED_TRACE(spec.name);
      DeviceCase test;
      test.instruction = Instruction(Opcode::kReshape);
      test.operands = {Shard(spec.from, spec.from_dims, dtype)};
      test.result = Filled(Shard(spec.to, spec.to_dims, dtype), 1);
      std::map<int64_t, double> elements;
      ForEachElement(spec.from, spec.from_dims, [&](const Coordinates& here) {
        const int64_t index = GlobalIndex(test.operands[0], here);
        if (index >= 0) elements[index] = test.operands[0].At(here);
      });
      LocalTensor want = test.result;
      int64_t found = 0;
      ForEachElement(spec.to, spec.to_dims, [&](const Coordinates& here) {
        const int64_t index = GlobalIndex(want, here);
        want.At(here) = index < 0 ? 0 : elements.at(index);
        found += index >= 0;
      });
      EXPECT_EQ(found, static_cast<int64_t>(elements.size()));
      ExpectSame(test.Run(GetParam()), want);
    }
  }
}

TEST_P(MovementTest, ARenameKeepsPadding) {
  DeviceCase test;
  test.instruction = Instruction(Opcode::kReshape);
  test.operands = {Shard({kA, kB}, {{4, 0, 3}, {3, 6, 2}})};
  test.result = Shard({{"p", 3}, {"one", 1}, {"q", 8}},
                      {{4, 0, 3}, {1, 0, 1}, {3, 6, 2}});
  LocalTensor want = test.result;
  want.values = test.operands[0].values;
  ExpectSame(test.Run(GetParam()), want);
}

// Random ---------------------------------------------------------------------

DeviceCase RandomCase(RandomKind kind, LocalTensor result) {
  DeviceCase test;
  test.instruction =
      Instruction(Opcode::kRandom, RandomAttributes{.kind = kind, .stream = 5});
  test.context.seed = 11;
  test.context.step = 3;
  test.result = std::move(result);
  return test;
}

TEST_P(MovementTest, UniformNumbersArePhiloxBits) {
  const LocalTensor got =
      RandomCase(RandomKind::kUniform, Unsharded({kA, kB, kC})).Run(GetParam());
  for (int64_t i = 0; i < got.elements(); ++i) {
    EXPECT_EQ(got.values[i], UniformFromWord(PhiloxAt(11, 5, 3, i).word[0]));
  }
}

TEST_P(MovementTest, NormalNumbersAreTheSameBitsEverywhere) {
  const LocalTensor got =
      RandomCase(RandomKind::kNormal, Unsharded({{"n", 3001}})).Run(GetParam());
  for (int64_t i = 0; i < got.elements(); ++i) {
    EXPECT_EQ(got.values[i], NormalFromWords(PhiloxAt(11, 5, 3, i)));
  }
}

TEST_P(MovementTest, AStreamThatIsNotPerStepIgnoresTheStep) {
  DeviceCase test = RandomCase(RandomKind::kUniform, Unsharded({kA}));
  test.instruction.Get<RandomAttributes>().per_step = false;
  EXPECT_EQ(test.Run(GetParam()).values[2],
            UniformFromWord(PhiloxAt(11, 5, 0, 2).word[0]));
}

TEST_P(MovementTest, NormalNumbersHaveTheMomentsOfOne) {
  const LocalTensor got =
      RandomCase(RandomKind::kNormal, Unsharded({{"n", 40000}}))
          .Run(GetParam());
  double sum = 0, squares = 0;
  for (double x : got.values) {
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 40000, 0, 0.02);
  EXPECT_NEAR(squares / 40000, 1, 0.03);
}

TEST_P(MovementTest, RandomBitsDependOnNeitherLayoutNorThreads) {
  for (RandomKind kind : {RandomKind::kUniform, RandomKind::kNormal}) {
    for (DType dtype : {kFloat32, kBFloat16}) {
      const Shape shape{{"a", 30}, {"b", 301}};
      const LocalTensor full =
          RandomCase(kind, Unsharded(shape, dtype)).Run(GetParam(), 2);
      DeviceCase test =
          RandomCase(kind, Shard(shape, {{12, 24, 6}, {101, 202, 99}}, dtype));
      const LocalTensor shard = test.Run(GetParam());
      ForEachElement(shard.shape, shard.dims, [&](const Coordinates& here) {
        if (here.at("a") >= 6 || here.at("b") >= 99) return;
        Coordinates there = here;
        there["a"] += 24;
        there["b"] += 202;
        ASSERT_EQ(shard.At(here), full.At(there));
      });
    }
  }
}

// Copies around collectives ---------------------------------------------------

TEST_P(MovementTest, BlockCopiesChangeTheOrderOfBlocks) {
  auto device = CreateDevice(GetParam(), {.num_threads = 2});
  ASSERT_OK(device);
  // [2 outer][3 blocks][5 bytes] to [3 blocks][2 outer][5 bytes].
  std::vector<char> host(30);
  std::iota(host.begin(), host.end(), 1);
  void* from = *(*device)->Allocate(30);
  void* to = *(*device)->Allocate(30);
  ASSERT_OK((*device)->CopyToDevice(from, host.data(), 30));
  const BlockCopy copy{.outer = 2,
                       .blocks = 3,
                       .inner = 5,
                       .from_outer = 15,
                       .from_block = 5,
                       .to_outer = 5,
                       .to_block = 10};
  StepContext context;
  (*device)->PrepareCopy(to, from, copy)->Run(context);
  std::vector<char> got(30);
  ASSERT_OK((*device)->CopyToHost(got.data(), to, 30));
  for (int o = 0; o < 2; ++o) {
    for (int b = 0; b < 3; ++b) {
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(got[b * 10 + o * 5 + i], host[o * 15 + b * 5 + i]);
      }
    }
  }
  (*device)->Free(from);
  (*device)->Free(to);
}

}  // namespace
}  // namespace mtf::testing
