// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/backends/conformance/device_case.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

class TopKTest : public DeviceTest {};
MTF_INSTANTIATE_FOR_ALL_DEVICES(TopKTest);

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kNumbers[] = {kFloat32, kBFloat16, kFloat16, kInt32, kInt64};

// Replaces the elements by few different numbers, so that many are equal.
LocalTensor Ties(LocalTensor x, uint32_t seed) {
  std::mt19937 random(seed);
  for (double& value : x.values) {
    value = static_cast<double>(random() % 7) - 3;
    if (!IsFloat(x.dtype)) continue;
    if (random() % 11 == 0) value = kNan;
    if (random() % 11 == 0) value = random() % 2 == 0 ? kInfinity : -kInfinity;
    if (value == 0 && random() % 2 == 0) value = -0.0;
  }
  return x;
}

// A ranking of dimension "expert": in `blocks` blocks, or, without blocks, over
// all of it, with the given labels if there are any. Blocks have values, too.
struct Ranking {
  LocalTensor x;
  int64_t k = 1, k_extent = 1;
  int64_t blocks = 0;
  bool labels = false;
  bool values = false;
  bool least = false;

  bool has_values() const { return values || blocks > 0; }
};

DeviceCase TopK(const Ranking& ranking) {
  DeviceCase test;
  test.instruction =
      Instruction(Opcode::kTopK, TopKAttributes{"expert", ranking.least});
  test.operands = {ranking.x};
  const Shape& shape = ranking.x.shape;
  if (ranking.labels) {
    // Labels are unordered, and some are missing.
    LocalTensor labels = ranking.x;
    labels.dtype = kInt32;
    for (size_t i = 0; i < labels.values.size(); ++i) {
      labels.values[i] = i % 3 == 1 ? -1 : static_cast<double>(i * 37 % 101);
    }
    test.operands.push_back(labels);
  }
  Shape result = shape.Without("expert");
  std::vector<ShardedDimension> dims;
  for (const Dimension& dim : result) {
    dims.push_back(ranking.x.dims[shape.Find(dim.name)]);
  }
  if (ranking.blocks > 0) {
    result = result.With({"expert", ranking.blocks + 1});
    dims.push_back({ranking.blocks, 1, ranking.blocks});
  }
  result = result.With({"k", ranking.k});
  dims.push_back({ranking.k_extent, 0, ranking.k});
  test.result = Shard(result, dims, kInt32);
  if (ranking.has_values()) {
    test.more_results = {test.result};
    test.result.dtype = ranking.x.dtype;
  }
  return test;
}

bool IsAbove(double x, double y) {
  return std::isnan(x) ? !std::isnan(y) : x > y;
}

// Compares with a stable sort of each line.
void Check(const Ranking& ranking, const std::string& device,
           int num_threads = 1) {
  DeviceCase test = TopK(ranking);
  const bool in_blocks = ranking.blocks > 0;
  const bool has_values = ranking.has_values();
  LocalTensor indices = has_values ? test.more_results[0] : test.result;
  LocalTensor values = indices;
  values.dtype = ranking.x.dtype;
  const LocalTensor& x = test.operands[0];
  const ShardedDimension line = x.dims[x.shape.Find("expert")];
  const int64_t block = in_blocks ? line.extent / ranking.blocks : line.extent;
  ForEachElement(indices.shape, indices.dims, [&](const Coordinates& here) {
    const int64_t b = in_blocks ? here.at("expert") : 0;
    std::vector<std::pair<double, double>> sorted;
    Coordinates at = here;
    for (int64_t i = b * block; i < std::min((b + 1) * block, line.valid);
         ++i) {
      at["expert"] = i;
      const double label = ranking.labels
                               ? test.operands[1].At(at)
                               : static_cast<double>(line.offset + i);
      if (label >= 0) sorted.push_back({x.At(at), label});
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const auto& a, const auto& b) {
                       return ranking.least ? IsAbove(b.first, a.first)
                                            : IsAbove(a.first, b.first);
                     });
    const int64_t i = here.at("k");
    const bool padding = i >= ranking.k;
    const bool found = !padding && i < static_cast<int64_t>(sorted.size());
    indices.At(here) = found ? sorted[i].second : padding ? 0 : -1;
    values.At(here) = found ? sorted[i].first : 0;
  });
  const LocalTensor got = test.Run(device, num_threads);
  if (has_values) ExpectSame(got, values);
  ExpectSame(has_values ? test.more_results[0] : got, indices);
}

TEST_P(TopKTest, EveryDTypeAlongEveryDimension) {
  const Dimension batch{"batch", 3}, expert{"expert", 9}, model{"model", 5};
  uint32_t seed = 0;
  for (DType dtype : kNumbers) {
    for (const Shape& shape :
         {Shape({expert}), Shape({batch, expert}), Shape({expert, batch}),
          Shape({batch, expert, model})}) {
      for (const int64_t k : {2, 9}) {
        SCOPED_TRACE(shape.ToString() + " " + std::string(DTypeName(dtype)) +
                     " k " + std::to_string(k));
        const LocalTensor x = Ties(Unsharded(shape, dtype), ++seed);
        Check({.x = x, .k = k, .k_extent = k}, GetParam());
        const bool least = seed % 2 == 0;
        Check({.x = x, .k = k, .k_extent = k, .values = true, .least = least},
              GetParam());
      }
    }
  }
}

TEST_P(TopKTest, LeastElements) {
  uint32_t seed = 50;
  for (DType dtype : kNumbers) {
    for (const int64_t k : {2, 20}) {
      SCOPED_TRACE(std::string(DTypeName(dtype)) + " k " + std::to_string(k));
      const LocalTensor x =
          Ties(Unsharded({{"batch", 3}, {"expert", 23}}, dtype), ++seed);
      Check({.x = x, .k = k, .k_extent = k + 1, .least = true}, GetParam());
      Check({.x = x,
             .k = k,
             .k_extent = k,
             .labels = true,
             .values = true,
             .least = true},
            GetParam());
    }
  }
}

TEST_P(TopKTest, PaddingIsNeverSelected) {
  for (const int64_t valid : {1, 4, 7, 8}) {
    for (const int64_t k : {int64_t{1}, valid}) {
      LocalTensor x = Shard({{"batch", 3}, {"expert", 13}, {"model", 2}},
                            {{3, 0, 3}, {8, 5, valid}, {2, 0, 2}});
      ForEachElement(x.shape, x.dims, [&](const Coordinates& here) {
        if (here.at("expert") >= valid) x.At(here) = kNan;
      });
      // The padding of k has no index and no value either.
      Check({.x = x, .k = k, .k_extent = k + 3}, GetParam());
      Check({.x = x, .k = k, .k_extent = k + 3, .values = true}, GetParam());
    }
  }
}

TEST_P(TopKTest, BlocksGiveValuesAndGlobalIndices) {
  uint32_t seed = 100;
  for (DType dtype : {kFloat32, kFloat16, kInt64}) {
    for (const int64_t valid : {0, 1, 7, 12}) {
      for (const Shape& rest : {Shape({{"batch", 3}}), Shape({{"model", 2}})}) {
        for (const int64_t blocks : {1, 2, 3}) {
          SCOPED_TRACE(std::string(DTypeName(dtype)) + " valid " +
                       std::to_string(valid) + " blocks " +
                       std::to_string(blocks));
          const bool first = rest.Contains("batch");
          const Dimension other = rest[0];
          const ShardedDimension full{other.size, 0, other.size};
          LocalTensor x = first ? Shard({other, {"expert", 30}},
                                        {full, {12, 12, valid}}, dtype)
                                : Shard({{"expert", 30}, other},
                                        {{12, 12, valid}, full}, dtype);
          for (const int64_t k : {1, 4}) {
            Check({.x = Ties(x, ++seed),
                   .k = k,
                   .k_extent = k,
                   .blocks = blocks,
                   .least = seed % 3 == 0},
                  GetParam());
          }
        }
      }
    }
  }
}

TEST_P(TopKTest, ElementsWithoutLabelAreNeverSelected) {
  uint32_t seed = 200;
  for (DType dtype : {kFloat32, kBFloat16, kInt64}) {
    for (const int64_t k : {1, 3, 6}) {
      SCOPED_TRACE(std::string(DTypeName(dtype)) + " k " + std::to_string(k));
      const LocalTensor x =
          Ties(Unsharded({{"batch", 4}, {"expert", 9}}, dtype), ++seed);
      Check({.x = x, .k = k, .k_extent = k, .labels = true}, GetParam());
    }
  }
}

TEST_P(TopKTest, LargeIntegersAreDistinguished) {
  const double most = 0x1p62, near = 0x1p62 - 1024;
  Check({.x = Unsharded({{"expert", 4}}, kInt64, {near, -most, most, near}),
         .k = 4,
         .k_extent = 4},
        GetParam());
  for (const bool least : {false, true}) {
    Check({.x = Unsharded({{"expert", 3}}, kInt32,
                          {-2147483648.0, 2147483647, 2147483646}),
           .k = 3,
           .k_extent = 3,
           .values = true,
           .least = least},
          GetParam());
  }
}

TEST_P(TopKTest, LargeKOfLongLines) {
  SKIP_UNDER_SANITIZERS("many long lines");
  uint32_t seed = 300;
  for (const Shape& shape : {Shape({{"batch", 3}, {"expert", 5003}}),
                             Shape({{"expert", 601}, {"batch", 40}})}) {
    for (const int64_t k : {1, 8, 33, 600}) {
      SCOPED_TRACE(shape.ToString() + " k " + std::to_string(k));
      const LocalTensor x = Ties(Unsharded(shape), ++seed);
      Check({.x = x, .k = k, .k_extent = k, .values = k == 600}, GetParam(), 3);
    }
  }
}

TEST_P(TopKTest, EmptyTensors) {
  Check({.x = Unsharded({{"batch", 0}, {"expert", 4}}), .k = 2, .k_extent = 2},
        GetParam());
}

}  // namespace
}  // namespace mtf::testing
