// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/einsum_plan.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/repeats.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Sizes = std::map<char, int64_t>;

// Dense row-major dimensions, one per letter.
std::vector<StridedDimension> Dense(const std::string& letters,
                                    const Sizes& sizes) {
  std::vector<StridedDimension> dims(letters.size());
  int64_t stride = 1;
  for (int i = static_cast<int>(letters.size()) - 1; i >= 0; --i) {
    dims[i] = {std::string(1, letters[i]), sizes.at(letters[i]), stride};
    stride *= dims[i].extent;
  }
  return dims;
}

EinsumPlan Plan(const std::string& x, const std::string& y,
                const std::string& z, const Sizes& sizes) {
  return PlanEinsum(Dense(x, sizes), Dense(y, sizes), Dense(z, sizes));
}

const Sizes kGpt = {{'b', 8},  {'l', 256}, {'m', 256},  {'d', 768},
                    {'h', 12}, {'k', 64},  {'f', 3072}, {'v', 8192}};

TEST(PlanEinsum, NeighboursFoldIntoOneMatmul) {
  const EinsumPlan plan = Plan("bld", "dhk", "blhk", kGpt);
  EXPECT_EQ(plan.ToString(), "m 2048 n 768 k 768");
  EXPECT_EQ(plan.m, (EinsumLoop{2048, 768, 0, 768}));
  EXPECT_EQ(plan.n, (EinsumLoop{768, 0, 1, 1}));
  EXPECT_EQ(plan.k, (EinsumLoop{768, 1, 768, 0}));
}

TEST(PlanEinsum, EveryEinsumOfATransformerIsOneMatmulWithoutCopies) {
  const std::map<std::vector<std::string>, std::string> plans = {
      {{"bld", "dhk", "blhk"}, "m 2048 n 768 k 768"},
      {{"blhk", "bmhk", "bhlm"}, "batch 8x12 m 256 n 256 k 64"},
      {{"bhlm", "bmhk", "blhk"}, "batch 8x12 m 256 n 64 k 256"},
      {{"blhk", "hkd", "bld"}, "m 2048 n 768 k 768"},
      {{"bld", "df", "blf"}, "m 2048 n 3072 k 768"},
      {{"bld", "vd", "blv"}, "m 2048 n 8192 k 768"},
      // and gradients
      {{"blhk", "dhk", "bld"}, "m 2048 n 768 k 768"},
      {{"bld", "blhk", "dhk"}, "m 768 n 768 k 2048"},
      {{"bhlm", "blhk", "bmhk"}, "batch 8x12 m 256 n 64 k 256"},
      {{"blhk", "bld", "hkd"}, "m 768 n 768 k 2048"},
      {{"blv", "vd", "bld"}, "m 2048 n 768 k 8192"},
      {{"blv", "bld", "vd"}, "m 8192 n 768 k 2048"},
  };
  for (const auto& [names, text] : plans) {
    EXPECT_EQ(Plan(names[0], names[1], names[2], kGpt).ToString(), text)
        << names[0] << "," << names[1] << "->" << names[2];
  }
}

TEST(PlanEinsum, HeadsBetweenLengthAndKeysAreNotCopied) {
  const EinsumPlan plan = Plan("blhk", "bmhk", "bhlm", kGpt);
  EXPECT_THAT(plan.batch,
              ElementsAre(EinsumLoop{8, 256 * 768, 256 * 768, 12 * 65536},
                          EinsumLoop{12, 64, 64, 65536}));
  EXPECT_EQ(plan.m, (EinsumLoop{256, 768, 0, 256}));
  EXPECT_EQ(plan.n, (EinsumLoop{256, 0, 768, 1}));
  EXPECT_EQ(plan.k, (EinsumLoop{64, 1, 1, 0}));
}

TEST(PlanEinsum, OperandsAreSwappedIfTheResultIsTransposed) {
  const EinsumPlan plan =
      Plan("mk", "kn", "nm", {{'m', 100}, {'n', 200}, {'k', 300}});
  EXPECT_EQ(plan.ToString(), "m 200 n 100 k 300 swapped");
  EXPECT_EQ(plan.m, (EinsumLoop{200, 1, 0, 100}));
  EXPECT_EQ(plan.n, (EinsumLoop{100, 0, 300, 1}));
}

TEST(PlanEinsum, RowsThatDoNotFoldBecomeABatch) {
  const EinsumPlan plan =
      Plan("lbd", "df", "blf", {{'b', 4}, {'l', 500}, {'d', 300}, {'f', 200}});
  EXPECT_EQ(plan.ToString(), "batch 4 m 500 n 200 k 300");
  EXPECT_THAT(plan.batch, ElementsAre(EinsumLoop{4, 300, 0, 100000}));
}

TEST(PlanEinsum, AnOperandWithoutAUnitStrideIsPacked) {
  // The fastest dimension of x is a batch dimension.
  const EinsumPlan plan = Plan("mkb", "bkn", "bmn",
                               {{'b', 16}, {'m', 100}, {'n', 100}, {'k', 100}});
  EXPECT_EQ(plan.ToString(), "batch 16 m 100 n 100 k 100 copy x");
  EXPECT_THAT(plan.pack_x, ElementsAre(StridedDimension{"b", 16, 1},
                                       StridedDimension{"m", 100, 1600},
                                       StridedDimension{"k", 100, 16}));
  EXPECT_THAT(plan.batch, ElementsAre(EinsumLoop{16, 10000, 10000, 10000}));
  EXPECT_EQ(plan.m, (EinsumLoop{100, 100, 0, 100}));
  EXPECT_EQ(plan.k, (EinsumLoop{100, 1, 100, 0}));
}

TEST(PlanEinsum, ASmallWeightIsPackedRatherThanSwept) {
  // heads and keys lie in opposite orders in activation and weight.
  EXPECT_EQ(Plan("blhk", "khd", "bld", kGpt).ToString(),
            "m 2048 n 768 k 768 copy y");
}

TEST(PlanEinsum, SumsThatDoNotFoldAreSweptWherePackingCostsMore) {
  const EinsumPlan plan =
      Plan("amb", "bna", "mn", {{'a', 2}, {'b', 4096}, {'m', 64}, {'n', 64}});
  EXPECT_EQ(plan.ToString(), "m 64 n 64 k 4096 outer k 2 copy y");
}

TEST(PlanEinsum, ASumOverOneOperandAloneIsAnOuterLoop) {
  const EinsumPlan plan =
      Plan("mkj", "kn", "mn", {{'m', 5}, {'n', 6}, {'k', 7}, {'j', 8}});
  ASSERT_EQ(plan.outer_k.size(), 1u);
  EXPECT_EQ(plan.outer_k[0].extent, 8);
  EXPECT_EQ(plan.outer_k[0].y, 0);
}

TEST(PlanEinsum, DimensionsOfSizeOneVanish) {
  const EinsumPlan plan =
      Plan("bmuk", "kbn", "umbn",
           {{'b', 1}, {'m', 10}, {'n', 20}, {'k', 30}, {'u', 1}});
  EXPECT_EQ(plan.ToString(), "m 10 n 20 k 30");
  EXPECT_THAT(plan.batch, IsEmpty());
}

TEST(PlanEinsum, FlopsCountMultiplicationsAndAdditions) {
  EXPECT_EQ(Plan("bmk", "bkn", "bmn", {{'b', 2}, {'m', 3}, {'n', 5}, {'k', 7}})
                .flops(),
            2 * 2 * 3 * 5 * 7);
}

// Plans ----------------------------------------------------------------------

std::vector<int64_t> Unravel(int64_t index,
                             const std::vector<EinsumLoop>& loops) {
  std::vector<int64_t> at(loops.size());
  for (int i = static_cast<int>(loops.size()) - 1; i >= 0; --i) {
    at[i] = index % loops[i].extent;
    index /= loops[i].extent;
  }
  return at;
}

// Packs as a device does.
std::vector<double> Packed(const std::vector<double>& from,
                           const std::vector<StridedDimension>& dims) {
  std::vector<double> packed;
  const auto walk = [&](auto& self, size_t i, int64_t at) -> void {
    if (i == dims.size()) {
      packed.push_back(from[at]);
      return;
    }
    for (int64_t j = 0; j < dims[i].extent; ++j) {
      self(self, i + 1, at + j * dims[i].stride);
    }
  };
  walk(walk, 0, 0);
  return packed;
}

int64_t Extent(const std::vector<EinsumLoop>& loops) {
  int64_t extent = 1;
  for (const EinsumLoop& loop : loops) extent *= loop.extent;
  return extent;
}

// Runs a plan as its definition says.
std::vector<double> Execute(const EinsumPlan& plan, std::vector<double> x,
                            std::vector<double> y, int64_t results) {
  if (plan.swapped) std::swap(x, y);
  if (plan.copy_x) x = Packed(x, plan.pack_x);
  if (plan.copy_y) y = Packed(y, plan.pack_y);
  std::vector<double> z(results, 0.0);
  for (int64_t b = 0; b < Extent(plan.batch); ++b) {
    const std::vector<int64_t> at = Unravel(b, plan.batch);
    for (int64_t o = 0; o < Extent(plan.outer_k); ++o) {
      const std::vector<int64_t> outer = Unravel(o, plan.outer_k);
      int64_t px = 0, py = 0, pz = 0;
      for (size_t i = 0; i < at.size(); ++i) {
        px += at[i] * plan.batch[i].x;
        py += at[i] * plan.batch[i].y;
        pz += at[i] * plan.batch[i].z;
      }
      for (size_t i = 0; i < outer.size(); ++i) {
        px += outer[i] * plan.outer_k[i].x;
        py += outer[i] * plan.outer_k[i].y;
      }
      for (int64_t m = 0; m < plan.m.extent; ++m) {
        for (int64_t n = 0; n < plan.n.extent; ++n) {
          for (int64_t k = 0; k < plan.k.extent; ++k) {
            z.at(pz + m * plan.m.z + n * plan.n.z) +=
                x.at(px + m * plan.m.x + k * plan.k.x) *
                y.at(py + k * plan.k.y + n * plan.n.y);
          }
        }
      }
    }
  }
  if (!plan.copy_z) return z;
  // order[i] is the index in z of element i of the packed form.
  std::vector<double> indices(results);
  for (int64_t i = 0; i < results; ++i) indices[i] = static_cast<double>(i);
  const std::vector<double> order = Packed(indices, plan.pack_z);
  std::vector<double> unpacked(results);
  for (int64_t i = 0; i < results; ++i) {
    unpacked[static_cast<int64_t>(order[i])] = z[i];
  }
  return unpacked;
}

std::vector<double> Numbers(int64_t count, std::mt19937& random) {
  std::vector<double> numbers(count);
  for (double& number : numbers) number = static_cast<int>(random() % 19) - 9;
  return numbers;
}

int64_t Elements(const std::string& letters, const Sizes& sizes) {
  int64_t elements = 1;
  for (char letter : letters) elements *= sizes.at(letter);
  return elements;
}

TEST(PlanEinsum, PlansOfRandomOrdersAndSizesCompute) {
  std::mt19937 random(3);
  const int rounds = testing::Repeats(3000, 300);
  int copies = 0, sweeps = 0;
  for (int round = 0; round < rounds; ++round) {
    Sizes sizes;
    const std::string all = "bcmpnqklj";  // j is summed in x alone
    // Large and small sizes, so that every kind of plan is the cheapest once.
    for (char letter : all) sizes[letter] = random() % 3 ? 1 + random() % 4 : 9;
    std::string x, y, z;
    const auto take = [&](const std::string& letters,
                          std::vector<std::string*> operands) {
      for (char letter : letters) {
        if (random() % 3 == 0) continue;
        for (std::string* operand : operands) {
          operand->insert(operand->begin() + random() % (operand->size() + 1),
                          letter);
        }
      }
    };
    take("bc", {&x, &y, &z});
    take("mp", {&x, &z});
    take("nq", {&y, &z});
    take("kl", {&x, &y});
    if (random() % 8 == 0) take("j", {&x});
    const std::vector<double> vx = Numbers(Elements(x, sizes), random);
    const std::vector<double> vy = Numbers(Elements(y, sizes), random);
    if (vx.size() * vy.size() > 500000) continue;  // takes too long
    // The definition.
    std::string space = z;
    for (char letter : x + y) {
      if (space.find(letter) == std::string::npos) space += letter;
    }
    std::vector<double> want(Elements(z, sizes), 0.0);
    std::map<char, int64_t> at;
    for (int64_t i = 0; i < Elements(space, sizes); ++i) {
      int64_t rest = i;
      for (auto letter = space.rbegin(); letter != space.rend(); ++letter) {
        at[*letter] = rest % sizes[*letter];
        rest /= sizes[*letter];
      }
      const auto index = [&](const std::string& letters) {
        int64_t index = 0;
        for (char letter : letters) index = index * sizes[letter] + at[letter];
        return index;
      };
      want[index(z)] += vx[index(x)] * vy[index(y)];
    }
    const EinsumPlan plan = Plan(x, y, z, sizes);
    copies += plan.copy_x + plan.copy_y + plan.copy_z;
    sweeps += plan.outer_k.size();
    ASSERT_EQ(Execute(plan, vx, vy, static_cast<int64_t>(want.size())), want)
        << x << "," << y << "->" << z << ": " << plan.ToString();
    // A matmul needs a unit stride in each matrix, and row-major results.
    const EinsumLoop &m = plan.m, &n = plan.n, &k = plan.k;
    EXPECT_TRUE(m.x == 1 || k.x == 1 || m.extent == 1 || k.extent == 1);
    EXPECT_TRUE(n.y == 1 || k.y == 1 || n.extent == 1 || k.extent == 1);
    EXPECT_TRUE(n.z == 1 || n.extent == 1);
  }
  // Each kind of plan is met again and again.
  EXPECT_GT(copies, rounds / 30);
  EXPECT_GT(sweeps, rounds / 30);
}

}  // namespace
}  // namespace mtf
