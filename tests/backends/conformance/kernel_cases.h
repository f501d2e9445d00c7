// SPDX-License-Identifier: Apache-2.0
//
// One list of cases for every opcode, for tests that hold for all kernels.
#ifndef TESTS_BACKENDS_CONFORMANCE_KERNEL_CASES_H_
#define TESTS_BACKENDS_CONFORMANCE_KERNEL_CASES_H_

#include <string>
#include <vector>

#include "lowering/program/opcodes.h"
#include "tests/backends/conformance/device_case.h"

namespace mtf::testing {

struct KernelCase {
  std::string name;
  DeviceCase test;
  // Dimensions whose padding the instruction reads in its operands, where
  // lowering has written an identity; all other padding may hold anything.
  std::vector<std::string> read_padding = {};
  // Dimensions whose padding it defines in its results.
  std::vector<std::string> written_padding = {};
  // The same instruction on each shard of its dimensions. Every valid element
  // has the bits that it has in `test`.
  std::vector<DeviceCase> shards = {};
};

// Cases for every way in which a device computes an instruction, for every
// dtype and, of maps, every function. Empty if the executor runs the opcode
// without a kernel of the device.
std::vector<KernelCase> KernelCasesOf(Opcode opcode);

// Those of maps, which are most: every function of every dtype.
std::vector<KernelCase> MapCases();
// Those that sum: einsums and reductions.
std::vector<KernelCase> EinsumCases();
std::vector<KernelCase> ReduceCases();

// Those of take_rows, place_rows, windows and fold_windows.
std::vector<KernelCase> RowCases(Opcode opcode);

// Ordinary numbers, and some for which a function has another way of computing
// it; most vectors of a kernel have at most one of them. Rounded to `dtype`.
LocalTensor Mixed(Shape shape, DType dtype, int salt = 0);
// The shards of `whole` along `dimension` over two ranks. Operands and results
// that lack the dimension are replicated; padding is zero.
std::vector<DeviceCase> ShardsAlong(const DeviceCase& whole,
                                    const std::string& dimension);

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_CONFORMANCE_KERNEL_CASES_H_
