// SPDX-License-Identifier: Apache-2.0
//
// A test harness that runs one instruction on one device, with tensors given as
// plain numbers.
#ifndef TESTS_BACKENDS_CONFORMANCE_DEVICE_CASE_H_
#define TESTS_BACKENDS_CONFORMANCE_DEVICE_CASE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/program.h"
#include "tests/requirements.h"

namespace mtf::testing {

// Coordinates by name.
using Coordinates = std::map<std::string, int64_t>;

// A shard: `values` in row-major order of the local extents.
struct LocalTensor {
  Shape shape;
  DType dtype = kFloat32;
  std::vector<ShardedDimension> dims;
  std::vector<double> values;

  // The element at the coordinates of its own dimensions; others are ignored.
  double At(const Coordinates& here) const;
  double& At(const Coordinates& here);
  int64_t elements() const;
};

// An unsharded tensor without padding. `values` are rounded to `dtype`; if
// empty, the tensor holds distinct small numbers, of both signs if the dtype
// has them.
LocalTensor Unsharded(Shape shape, DType dtype = kFloat32,
                      std::vector<double> values = {});
// The same for a shard with padding.
LocalTensor Shard(Shape shape, std::vector<ShardedDimension> dims,
                  DType dtype = kFloat32, std::vector<double> values = {});

// Calls `body` with the coordinates of every element, padding included.
void ForEachElement(const Shape& shape,
                    const std::vector<ShardedDimension>& dims,
                    const std::function<void(const Coordinates&)>& body);

// A program of one instruction, and the instruction bound to memory. Not
// movable: the binding points into the program.
struct BoundCase {
  BoundCase() = default;
  BoundCase(const BoundCase&) = delete;
  BoundCase& operator=(const BoundCase&) = delete;
  Program program;
  Binding binding;
};

// One instruction. Fill in `instruction`, add operands, describe the result.
struct DeviceCase {
  Instruction instruction;
  std::vector<LocalTensor> operands;
  LocalTensor result;  // its values are the initial contents of the memory
  std::vector<LocalTensor> more_results;    // in and out
  std::vector<ShardedDimension> iteration;  // of a reduce
  Mesh mesh;
  int64_t rank = 0;
  StepContext context;    // in and out
  bool in_place = false;  // the result shares the memory of operand 0

  // Prepares and runs the instruction; an error fails the calling test.
  LocalTensor Run(const std::string& device, int num_threads = 1);
  // Binds the instruction to device memory: that of the operands, and that of
  // `result` and `more_results`.
  std::unique_ptr<BoundCase> Bind(
      const std::vector<void*>& operand_memory,
      const std::vector<void*>& result_memory) const;
};

// The allowed difference from double precision: a few units in the last place
// of the dtype, relative to `value` or, if larger, to `scale`, the size of the
// summands.
double Tolerance(DType dtype, double value, double scale = 0);

// Expects equal valid and padded elements, up to Tolerance with `scale`; NaN
// equals NaN.
void ExpectClose(const LocalTensor& got, const LocalTensor& want,
                 double scale = 0);
// Expects bitwise equal elements.
void ExpectSame(const LocalTensor& got, const LocalTensor& want);

// Tests of one device, instantiated for all devices of this build.
class DeviceTest : public ::testing::TestWithParam<std::string> {};

// Which of many cases that are alike a test runs: all of them, but on the
// emulated GPU, which compiles kernels for each, every `stride`-th. Continuous
// integration (ThoroughTests) runs all. A prime stride meets every value of
// every loop around it.
class CaseSample {
 public:
  CaseSample(const std::string& device, int stride)
      : stride_(device == "cuda_emulated" && !ThoroughTests() ? stride : 1) {}
  bool TakesNext() { return next_++ % stride_ == 0; }

 private:
  int stride_;
  int next_ = 0;
};
#define MTF_INSTANTIATE_FOR_ALL_DEVICES(Suite)                                 \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, ::testing::ValuesIn(DeviceNames()), \
                           [](const auto& info) { return info.param; })

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_CONFORMANCE_DEVICE_CASE_H_
