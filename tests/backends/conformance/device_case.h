// SPDX-License-Identifier: Apache-2.0
//
// What conformance tests are written with: one instruction on one device, over
// tensors given as plain numbers.
#ifndef TESTS_BACKENDS_CONFORMANCE_DEVICE_CASE_H_
#define TESTS_BACKENDS_CONFORMANCE_DEVICE_CASE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/program.h"

namespace mtf::testing {

// Coordinates by name.
using Place = std::map<std::string, int64_t>;

// A shard as numbers: `values` in row-major order of the local extents.
struct LocalTensor {
  Shape shape;
  DType dtype = kFloat32;
  std::vector<ShardedDimension> dims;
  std::vector<double> values;

  // The element at the places of its own dimensions; others are ignored.
  double At(const Place& place) const;
  double& At(const Place& place);
  int64_t elements() const;
};

// A whole tensor: no padding. `values` are rounded to `dtype`; without any the
// tensor holds distinct small numbers, of both signs where the dtype has them.
LocalTensor Whole(Shape shape, DType dtype = kFloat32,
                  std::vector<double> values = {});
// The same for a shard with padding.
LocalTensor Shard(Shape shape, std::vector<ShardedDimension> dims,
                  DType dtype = kFloat32, std::vector<double> values = {});

// Calls `body` with every place below the extents.
void ForEachPlace(const Shape& shape, const std::vector<ShardedDimension>& dims,
                  const std::function<void(const Place&)>& body);

// One instruction. Fill in `instruction`, add operands, describe the result.
struct DeviceCase {
  Instruction instruction;
  std::vector<LocalTensor> operands;
  LocalTensor result;  // its values are what the memory holds before the run
  std::vector<LocalTensor> more_results;    // in and out
  std::vector<ShardedDimension> iteration;  // of a reduce
  Mesh mesh;
  int64_t rank = 0;
  StepContext context;    // in and out
  bool in_place = false;  // the result takes the memory of operand 0

  // Prepares and runs it; records a failure of the calling test on error.
  LocalTensor Run(const std::string& device, int num_threads = 1);
};

// How far a device may be from double precision: a few units in the last place
// of the dtype, of `scale` (the size of what was added up) where larger.
double Tolerance(DType dtype, double value, double scale = 0);

// Expects equal valid and padded elements, up to Tolerance with `scale`; NaN
// equals NaN.
void ExpectClose(const LocalTensor& got, const LocalTensor& want,
                 double scale = 0);
// Expects equal bits.
void ExpectSame(const LocalTensor& got, const LocalTensor& want);

// The suite of one device, instantiated for all that this build has.
class DeviceTest : public ::testing::TestWithParam<std::string> {};
#define MTF_INSTANTIATE_FOR_ALL_DEVICES(Suite)                                 \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, ::testing::ValuesIn(DeviceNames()), \
                           [](const auto& info) { return info.param; })

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_CONFORMANCE_DEVICE_CASE_H_
