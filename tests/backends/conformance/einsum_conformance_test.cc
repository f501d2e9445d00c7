// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/backends/conformance/device_case.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

class EinsumTest : public DeviceTest {};
MTF_INSTANTIATE_FOR_ALL_DEVICES(EinsumTest);

// "bm" is dimensions b and m; `sizes` gives the size of each letter.
Shape ShapeOf(const std::string& letters,
              const std::map<char, int64_t>& sizes) {
  std::vector<Dimension> dims;
  for (char letter : letters) {
    dims.push_back({std::string(1, letter), sizes.at(letter)});
  }
  return Shape(std::move(dims));
}

DeviceCase EinsumCase(const std::string& x, const std::string& y,
                      const std::string& z,
                      const std::map<char, int64_t>& sizes, DType dtype) {
  DeviceCase test;
  test.instruction = Instruction(Opcode::kEinsum);
  test.operands = {Unsharded(ShapeOf(x, sizes), dtype),
                   Unsharded(ShapeOf(y, sizes), dtype)};
  test.result = Unsharded(ShapeOf(z, sizes), dtype);
  return test;
}

LocalTensor Expected(const DeviceCase& test, double* scale) {
  LocalTensor want = test.result, absolute = test.result;
  for (double& value : want.values) value = 0;
  for (double& value : absolute.values) value = 0;
  Shape space = test.result.shape;
  for (const LocalTensor& operand : test.operands) {
    for (const Dimension& dim : operand.shape) {
      if (!space.Contains(dim.name)) space = space.With(dim);
    }
  }
  std::vector<ShardedDimension> dims;
  for (const Dimension& dim : space) dims.push_back({dim.size, 0, dim.size});
  ForEachElement(space, dims, [&](const Coordinates& here) {
    const double x = test.operands[0].At(here) * test.operands[1].At(here);
    want.At(here) += x;
    absolute.At(here) += std::abs(x);
  });
  *scale = 0;
  for (double value : absolute.values) *scale = std::max(*scale, value);
  return want;
}

void CheckOn(const std::string& device, DeviceCase test, int threads = 1) {
  double scale = 0;
  const LocalTensor want = Expected(test, &scale);
  ExpectClose(test.Run(device, threads), want, scale);
}

std::string Shuffled(std::string letters, std::mt19937& random) {
  std::shuffle(letters.begin(), letters.end(), random);
  return letters;
}

TEST_P(EinsumTest, EveryOrderOfAMatmul) {
  const std::map<char, int64_t> sizes = {
      {'b', 2}, {'c', 3}, {'m', 5}, {'n', 7}, {'k', 4}};
  for (std::string x : {"mk", "km", "bmk", "mbk", "mkb", "kbm"}) {
    const bool batched = x.find('b') != std::string::npos;
    std::string y = batched ? "bkn" : "kn", z = batched ? "bmn" : "mn";
    std::sort(y.begin(), y.end());
    do {
      std::string order = z;
      std::sort(order.begin(), order.end());
      do {
        SCOPED_TRACE(x + "," + y + "->" + order);
        CheckOn(GetParam(), EinsumCase(x, y, order, sizes, kFloat32));
      } while (std::next_permutation(order.begin(), order.end()));
    } while (std::next_permutation(y.begin(), y.end()));
  }
}

TEST_P(EinsumTest, EveryRoleOfDimensionMayBeMissing) {
  const std::map<char, int64_t> sizes = {
      {'a', 1}, {'b', 3}, {'m', 4}, {'n', 5}, {'k', 6}};
  const std::vector<std::vector<std::string>> cases = {
      {"", "", ""},        {"k", "k", ""},        {"m", "n", "mn"},
      {"m", "n", "nm"},    {"mk", "k", "m"},      {"k", "kn", "n"},
      {"m", "", "m"},      {"", "n", "n"},        {"b", "b", "b"},
      {"bk", "bk", "b"},   {"kb", "bk", "b"},     {"bm", "bn", "nbm"},
      {"bmk", "bk", "mb"}, {"mk", "n", "mn"},     {"mk", "", "m"},
      {"mk", "kn", ""},    {"mka", "akn", "anm"}, {"bk", "bkn", "nb"},
      {"mk", "bn", "bmn"}};
  for (DType dtype : {kFloat32, kBFloat16, kFloat16, kInt32, kInt64}) {
    for (const std::vector<std::string>& c : cases) {
      SCOPED_TRACE(c[0] + "," + c[1] + "->" + c[2] + " " +
                   std::string(DTypeName(dtype)));
      CheckOn(GetParam(), EinsumCase(c[0], c[1], c[2], sizes, dtype));
    }
  }
}

TEST_P(EinsumTest, RandomSizesWithDimensionsThatDoNotMerge) {
  CaseSample sample(GetParam(), 7);
  std::mt19937 random(7);
  for (int round = 0; round < 150; ++round) {
    std::map<char, int64_t> sizes;
    // Two dimensions of each role, which can seldom be merged in random orders.
    for (char letter : std::string("bcmpnqkl"))
      sizes[letter] = 1 + random() % 4;
    std::string batch, rows, columns, sums;
    for (auto* letters : {&batch, &rows, &columns, &sums}) {
      const std::string all = letters == &batch     ? "bc"
                              : letters == &rows    ? "mp"
                              : letters == &columns ? "nq"
                                                    : "kl";
      *letters = all.substr(0, random() % 3);
    }
    const std::string x = Shuffled(batch + rows + sums, random);
    const std::string y = Shuffled(batch + columns + sums, random);
    const std::string z = Shuffled(batch + rows + columns, random);
    const DType dtype = std::vector<DType>{kFloat32, kFloat32, kBFloat16,
                                           kFloat16, kInt32}[random() % 5];
    const int threads = 1 + static_cast<int>(random() % 3);
    if (!sample.TakesNext()) continue;
    SCOPED_TRACE(x + "," + y + "->" + z + " " + std::string(DTypeName(dtype)) +
                 " round " + std::to_string(round));
    CheckOn(GetParam(), EinsumCase(x, y, z, sizes, dtype), threads);
  }
}

TEST_P(EinsumTest, ShapesOfATransformer) {
  if (GetParam() == "reference") SKIP_UNDER_SANITIZERS("large sums");
  const std::map<char, int64_t> sizes = {
      {'b', 3}, {'l', 17}, {'m', 19}, {'d', 24}, {'h', 4}, {'k', 8}, {'f', 40}};
  const std::vector<std::vector<std::string>> cases = {
      {"bld", "dhk", "blhk"},   {"blhk", "bmhk", "bhlm"},
      {"bhlm", "bmhk", "blhk"}, {"blhk", "hkd", "bld"},
      {"bld", "df", "blf"},     {"bld", "blhk", "dhk"},
      {"blhk", "dhk", "bld"},   {"bhlm", "blhk", "bmhk"},
      {"bld", "blhk", "hkd"},   {"bld", "blf", "df"},
      {"blhk", "khd", "bld"},   {"hblk", "bkhm", "lbmh"}};
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    for (const std::vector<std::string>& c : cases) {
      for (int threads : {1, 2}) {
        SCOPED_TRACE(c[0] + "," + c[1] + "->" + c[2] + " " +
                     std::string(DTypeName(dtype)));
        CheckOn(GetParam(), EinsumCase(c[0], c[1], c[2], sizes, dtype),
                threads);
      }
    }
  }
}

TEST_P(EinsumTest, PlansThatPackAndPlansThatSweep) {
  SKIP_UNDER_SANITIZERS("large sums");
  // k and l are in opposite orders: a large x is processed in several sweeps, a
  // small y is packed.
  const std::map<char, int64_t> sizes = {
      {'m', 200}, {'n', 40}, {'k', 40}, {'l', 6}, {'j', 5}};
  for (DType dtype : {kFloat32, kBFloat16}) {
    for (const auto& [x, y, z] :
         std::vector<std::array<std::string, 3>>{{"mkl", "lkn", "mn"},
                                                 {"lmk", "kln", "mn"},
                                                 {"mlk", "knl", "nm"},
                                                 {"mk", "knj", "njm"},
                                                 {"mjk", "k", "jm"}}) {
      SCOPED_TRACE(x + "," + y + "->" + z);
      CheckOn(GetParam(), EinsumCase(x, y, z, sizes, dtype), 2);
    }
  }
}

TEST_P(EinsumTest, ManyRows) {
  SKIP_UNDER_SANITIZERS("large sums");
  // Enough rows that a device may pack the other operand.
  const std::map<char, int64_t> sizes = {{'m', 700}, {'n', 45}, {'k', 37}};
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    for (const std::string y : {"kn", "nk"}) {
      for (const std::string x : {"mk", "km"}) {
        SCOPED_TRACE(x + "," + y + " " + std::string(DTypeName(dtype)));
        CheckOn(GetParam(), EinsumCase(x, y, "mn", sizes, dtype), 2);
      }
    }
  }
}

TEST_P(EinsumTest, BFloat16SumsAreInFloat) {
  const std::map<char, int64_t> sizes = {{'m', 4}, {'n', 32}, {'k', 4096}};
  DeviceCase test = EinsumCase("mk", "kn", "mn", sizes, kBFloat16);
  for (LocalTensor& operand : test.operands) {
    for (double& value : operand.values) value = 1;
  }
  for (double value : test.Run(GetParam()).values) EXPECT_EQ(value, 4096);
}

// 4097 is neither a bf16 nor an f16.
TEST_P(EinsumTest, ASumInFloatIsNotRounded) {
  const std::map<char, int64_t> sizes = {{'m', 4}, {'n', 32}, {'k', 4097}};
  for (DType dtype : {kBFloat16, kFloat16}) {
    for (const std::string y : {"kn", "nk", "k"}) {
      const std::string z = y == "k" ? "m" : "mn";
      DeviceCase test = EinsumCase("mk", y, z, sizes, dtype);
      test.result.dtype = kFloat32;
      for (LocalTensor& operand : test.operands) {
        for (double& value : operand.values) value = 1;
      }
      for (double value : test.Run(GetParam(), 2).values) {
        EXPECT_EQ(value, 4097) << y << " " << DTypeName(dtype);
      }
    }
  }
}

TEST_P(EinsumTest, SixteenBitOperandsGiveFloatResults) {
  const std::map<char, int64_t> sizes = {
      {'b', 3}, {'l', 17}, {'m', 19},  {'d', 24},  {'h', 4},
      {'k', 8}, {'f', 40}, {'r', 600}, {'p', 200}, {'q', 6}};
  const std::vector<std::vector<std::string>> cases = {
      {"bld", "blhk", "dhk"},   {"blhk", "bld", "hkd"}, {"bld", "blf", "df"},
      {"bhlm", "bmhk", "blhk"}, {"b", "b", ""},         {"bk", "bk", "b"},
      {"m", "n", "mn"},         {"b", "b", "b"},        {"rk", "kf", "rf"},
      {"pkq", "qkf", "pf"},     {"mk", "k", "m"}};
  std::map<char, int64_t> all = sizes;
  all['n'] = 5;
  for (DType dtype : {kBFloat16, kFloat16}) {
    for (const std::vector<std::string>& c : cases) {
      SCOPED_TRACE(c[0] + "," + c[1] + "->" + c[2] + " " +
                   std::string(DTypeName(dtype)));
      DeviceCase test = EinsumCase(c[0], c[1], c[2], all, dtype);
      test.result.dtype = kFloat32;
      CheckOn(GetParam(), test, 2);
    }
  }
}

TEST_P(EinsumTest, EmptySumsAreZero) {
  const std::map<char, int64_t> sizes = {{'m', 4}, {'n', 3}, {'k', 0}};
  for (DType dtype : {kFloat32, kInt32}) {
    DeviceCase test = EinsumCase("mk", "kn", "mn", sizes, dtype);
    for (double value : test.Run(GetParam()).values) EXPECT_EQ(value, 0);
  }
}

TEST_P(EinsumTest, ANanAffectsOnlyItsRow) {
  const std::map<char, int64_t> sizes = {{'m', 6}, {'n', 20}, {'k', 9}};
  DeviceCase test = EinsumCase("mk", "kn", "mn", sizes, kFloat32);
  test.operands[0].At({{"m", 2}, {"k", 8}}) = std::nan("");
  const LocalTensor got = test.Run(GetParam());
  for (int64_t i = 0; i < got.elements(); ++i) {
    EXPECT_EQ(std::isnan(got.values[i]), i / 20 == 2) << i;
  }
}

}  // namespace
}  // namespace mtf::testing
