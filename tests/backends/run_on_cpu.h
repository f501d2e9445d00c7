// SPDX-License-Identifier: Apache-2.0
//
// Runs a program on the CPU device, for tests of its groups.
#ifndef TESTS_BACKENDS_RUN_ON_CPU_H_
#define TESTS_BACKENDS_RUN_ON_CPU_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/communicator.h"
#include "backends/executor/executor.h"
#include "lowering/lower.h"
#include "mtf/status.h"

namespace mtf::testing {

using NamedTensors = std::map<std::string, HostTensor>;

// Numbers for the inputs of a program: `number(value, i)` for element i.
template <class Number>
NamedTensors FeedsOf(const Program& program, const Number& number) {
  NamedTensors feeds;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kInput) continue;
    const ProgramValue& value = program.values[instruction.results[0]];
    std::vector<double> numbers(value.shape.num_elements());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = number(value, i);
    feeds[instruction.Get<NameAttributes>().name] =
        HostTensor::FromDoubles(value.shape, value.dtype, numbers);
  }
  return feeds;
}

// The outputs of one step.
inline absl::StatusOr<NamedTensors> RunOnCpu(const Program& program,
                                             const NamedTensors& feeds,
                                             int threads) {
  NamedTensors outputs;
  LocalRanks ranks(program.mesh);
  MTF_RETURN_IF_ERROR(
      ranks.Run([&](Communicator& communicator) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                             CreateDevice("cpu", {.num_threads = threads}));
        VariableStore variables(*device);
        MTF_ASSIGN_OR_RETURN(
            const std::unique_ptr<Executor> executor,
            Executor::Create(program, *device, communicator, variables));
        return executor->Run(feeds, 0, 0, &outputs);
      }));
  return outputs;
}

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_RUN_ON_CPU_H_
