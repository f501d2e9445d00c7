// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/backends/conformance/device_case.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

class ScanTest : public DeviceTest {};
MTF_INSTANTIATE_FOR_ALL_DEVICES(ScanTest);

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const Dimension kBatch{"batch", 3}, kLength{"length", 7}, kModel{"model", 5};
constexpr ReduceKind kKinds[] = {ReduceKind::kSum, ReduceKind::kMax,
                                 ReduceKind::kMin};
constexpr DType kNumbers[] = {kFloat32, kBFloat16, kFloat16, kInt32, kInt64};

double IdentityOf(ReduceKind kind, DType dtype) {
  if (kind == ReduceKind::kSum) return 0;
  const double sign = kind == ReduceKind::kMax ? -1 : 1;
  if (dtype == kInt32) {
    return sign < 0 ? std::numeric_limits<int32_t>::min()
                    : std::numeric_limits<int32_t>::max();
  }
  if (dtype == kInt64) {
    return static_cast<double>(sign < 0 ? std::numeric_limits<int64_t>::min()
                                        : std::numeric_limits<int64_t>::max());
  }
  return sign * kInfinity;
}

double Combine(ReduceKind kind, double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return x + y;
  switch (kind) {
    case ReduceKind::kSum:
      return x + y;
    case ReduceKind::kMax:
      return std::max(x, y);
    case ReduceKind::kMin:
      return std::min(x, y);
  }
  return 0;
}

DeviceCase Scan(ReduceKind kind, LocalTensor x, bool exclusive, bool reverse) {
  DeviceCase test;
  test.instruction = Instruction(
      Opcode::kScan, ScanAttributes{kind, "length", exclusive, reverse});
  test.result = x;
  std::reverse(test.result.values.begin(), test.result.values.end());
  test.operands = {std::move(x)};
  return test;
}

// The scan of the valid elements; padding along the dimension is zero.
LocalTensor ExpectedScan(const DeviceCase& test) {
  const LocalTensor& x = test.operands[0];
  const bool blocks = test.operands.size() == 2;
  const int dim = x.shape.Find("length");
  const int64_t extent = x.dims[dim].extent, valid = x.dims[dim].valid;
  const int64_t block =
      blocks ? extent / test.operands[1].dims[dim].extent : extent;
  const auto& scan = test.instruction.Get<ScanAttributes>();
  LocalTensor want = test.result;
  ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
    if (here.at("length") > 0) return;
    Coordinates at = here;
    for (int64_t b = 0; block > 0 && b < extent / block; ++b) {
      at["length"] = b;
      double total =
          blocks ? test.operands[1].At(at) : IdentityOf(scan.kind, x.dtype);
      for (int64_t step = 0; step < block; ++step) {
        const int64_t i = b * block + (scan.reverse ? block - 1 - step : step);
        at["length"] = i;
        const double before = total;
        if (i < valid) total = Combine(scan.kind, total, x.At(at));
        want.At(at) = i >= valid ? 0 : scan.exclusive ? before : total;
      }
    }
  });
  return want;
}

void Check(DeviceCase test, const std::string& device, int num_threads = 1) {
  const LocalTensor want = ExpectedScan(test);
  // The sums are exact, so results are equal up to the rounding of the dtype.
  ExpectClose(test.Run(device, num_threads), want, 30);
}

TEST_P(ScanTest, AlongEveryDimensionOfEveryDType) {
  if (GetParam() == "cuda_emulated") SKIP_UNDER_SANITIZERS("many kernels");
  CaseSample sample(GetParam(), 7);
  for (const Shape& shape :
       {Shape({kLength}), Shape({kBatch, kLength}), Shape({kLength, kBatch}),
        Shape({kBatch, kLength, kModel})}) {
    for (DType dtype : kNumbers) {
      for (ReduceKind kind : kKinds) {
        for (const bool exclusive : {false, true}) {
          for (const bool reverse : {false, true}) {
            if (!sample.TakesNext()) continue;
            SCOPED_TRACE(
                shape.ToString() + " " + std::string(DTypeName(dtype)) +
                " kind " + std::to_string(static_cast<int>(kind)) +
                (exclusive ? " exclusive" : "") + (reverse ? " reverse" : ""));
            Check(Scan(kind, Unsharded(shape, dtype), exclusive, reverse),
                  GetParam());
          }
        }
      }
    }
  }
}

TEST_P(ScanTest, PaddingIsIgnoredAndZeroed) {
  for (const int64_t valid : {0, 1, 5, 8}) {
    for (const bool reverse : {false, true}) {
      for (ReduceKind kind : kKinds) {
        SCOPED_TRACE(valid);
        LocalTensor x = Shard({kBatch, {"length", 13}, kModel},
                              {{3, 0, 3}, {8, 5, valid}, {5, 0, 5}});
        ForEachElement(x.shape, x.dims, [&](const Coordinates& here) {
          if (here.at("length") >= valid) {
            x.At(here) = std::numeric_limits<double>::quiet_NaN();
          }
        });
        Check(Scan(kind, x, true, reverse), GetParam());
        Check(Scan(kind, x, false, reverse), GetParam());
      }
    }
  }
}

TEST_P(ScanTest, BlocksStartFromTheirInitialValues) {
  CaseSample sample(GetParam(), 7);
  for (DType dtype : kNumbers) {
    for (ReduceKind kind : kKinds) {
      for (const bool exclusive : {false, true}) {
        for (const bool reverse : {false, true}) {
          if (!sample.TakesNext()) continue;
          SCOPED_TRACE(std::string(DTypeName(dtype)) + " kind " +
                       std::to_string(static_cast<int>(kind)));
          // Two blocks of 4 of three, of which the last element is padding.
          DeviceCase test =
              Scan(kind,
                   Shard({kBatch, {"length", 11}, kModel},
                         {{3, 0, 3}, {8, 4, 7}, {5, 0, 5}}, dtype),
                   exclusive, reverse);
          test.operands.push_back(
              Shard({kBatch, {"length", 3}, kModel},
                    {{3, 0, 3}, {2, 1, 2}, {5, 0, 5}},
                    IsFloat(dtype) ? DType{kFloat32} : dtype));
          Check(std::move(test), GetParam());
        }
      }
    }
  }
}

TEST_P(ScanTest, NanPropagates) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (ReduceKind kind : kKinds) {
    for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
      Check(Scan(kind, Unsharded({kLength}, dtype, {1, -2, nan, 3, nan, -9, 9}),
                 false, false),
            GetParam());
    }
  }
}

TEST_P(ScanTest, IntegersWrapAround) {
  LocalTensor x = Unsharded({kLength}, kInt32, {2147483647, 1, 0, 0, 0, 0, 0});
  DeviceCase test = Scan(ReduceKind::kSum, x, false, false);
  EXPECT_EQ(test.Run(GetParam()).values[1], -2147483648.0);
}

TEST_P(ScanTest, SixteenBitSumsAreInFloat) {
  const Dimension many{"length", 2000};
  for (DType dtype : {kBFloat16, kFloat16}) {
    LocalTensor x = Unsharded({many}, dtype);
    for (double& value : x.values) value = 1;
    DeviceCase test = Scan(ReduceKind::kSum, x, false, false);
    EXPECT_EQ(test.Run(GetParam()).values.back(), 2000);
  }
}

TEST_P(ScanTest, LongAndWideTensorsOnSeveralThreads) {
  if (GetParam() != "cpu") SKIP_UNDER_SANITIZERS("long scans");
  for (const Shape& shape :
       {Shape({{"batch", 5}, {"length", 5003}}),
        Shape({{"length", 603}, {"model", 1201}}),
        Shape({{"batch", 301}, {"length", 70}, {"model", 3}})}) {
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(shape.ToString());
      DeviceCase test =
          Scan(ReduceKind::kSum, Unsharded(shape), false, reverse);
      const LocalTensor once = test.Run(GetParam());
      ExpectSame(test.Run(GetParam(), 3), once);
      const LocalTensor want = ExpectedScan(test);
      ExpectClose(once, want, 300);
    }
  }
}

TEST_P(ScanTest, EmptyTensors) {
  for (const Shape& shape :
       {Shape({kBatch, {"length", 0}}), Shape({{"batch", 0}, kLength})}) {
    Check(Scan(ReduceKind::kSum, Unsharded(shape), false, false), GetParam());
  }
}

class ReduceBlocksTest : public DeviceTest {};
MTF_INSTANTIATE_FOR_ALL_DEVICES(ReduceBlocksTest);

TEST_P(ReduceBlocksTest, GivesATotalForEachBlock) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : kNumbers) {
    for (ReduceKind kind : kKinds) {
      for (const Shape& inner : {Shape(), Shape({kModel})}) {
        for (const int64_t valid : {0, 5, 8}) {
          SCOPED_TRACE(std::string(DTypeName(dtype)) + " valid " +
                       std::to_string(valid));
          Shape shape{kBatch, {"length", 13}}, totals{kBatch, {"length", 6}};
          std::vector<ShardedDimension> dims{{3, 0, 3}, {8, 5, valid}},
              blocks{{3, 0, 3}, {4, 0, 4}};
          for (const Dimension& dim : inner) {
            shape = shape.With(dim);
            totals = totals.With(dim);
            dims.push_back({dim.size, 0, dim.size});
            blocks.push_back({dim.size, 0, dim.size});
          }
          DeviceCase test;
          test.instruction = Instruction(
              Opcode::kReduceBlocks, ReduceBlocksAttributes{kind, "length"});
          LocalTensor x = Shard(shape, dims, dtype);
          test.result =
              Shard(totals, blocks, IsFloat(dtype) ? DType{kFloat32} : dtype);
          LocalTensor want = test.result;
          ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
            double total = IdentityOf(kind, want.dtype);
            Coordinates at = here;
            for (int64_t i = 0; i < 2; ++i) {
              at["length"] = here.at("length") * 2 + i;
              if (at["length"] < valid) {
                total = Combine(kind, total, x.At(at));
              }
            }
            want.At(here) = total;
          });
          if (IsFloat(dtype)) {
            ForEachElement(x.shape, x.dims, [&](const Coordinates& here) {
              if (here.at("length") >= valid) x.At(here) = nan;
            });
          }
          test.operands = {x};
          ExpectClose(test.Run(GetParam()), want, 10);
        }
      }
    }
  }
}

TEST_P(ReduceBlocksTest, LongBlocks) {
  if (GetParam() != "cpu") SKIP_UNDER_SANITIZERS("long blocks");
  for (const Shape& shape : {Shape({{"batch", 3}, {"length", 9000}}),
                             Shape({{"length", 900}, {"model", 700}})}) {
    DeviceCase test;
    test.instruction =
        Instruction(Opcode::kReduceBlocks,
                    ReduceBlocksAttributes{ReduceKind::kSum, "length"});
    test.operands = {Unsharded(shape)};
    test.result = Unsharded(shape.Resized("length", 3));
    LocalTensor want = test.result;
    const int64_t block = shape.SizeOf("length") / 3;
    ForEachElement(want.shape, want.dims, [&](const Coordinates& here) {
      Coordinates at = here;
      double total = 0;
      for (int64_t i = 0; i < block; ++i) {
        at["length"] = here.at("length") * block + i;
        total += test.operands[0].At(at);
      }
      want.At(here) = total;
    });
    const LocalTensor once = test.Run(GetParam());
    ExpectClose(once, want, 300);
    ExpectSame(test.Run(GetParam(), 3), once);
  }
}

}  // namespace
}  // namespace mtf::testing
