// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_EXECUTOR_EXECUTOR_H_
#define BACKENDS_EXECUTOR_EXECUTOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/communicator.h"
#include "backends/executor/step_memory.h"
#include "backends/executor/trace.h"
#include "backends/executor/variable_store.h"
#include "lowering/program/program.h"
#include "mtf/host_tensor.h"

namespace mtf {

// A program bound to one rank: buffers are allocated, and every instruction is
// prepared once by the device or the communicator. A step is a flat loop over
// them. A device that replays (Device::replays) records a step as one segment
// if it cannot fail on data, which the host knows beforehand if all indices are
// fed; otherwise as two segments, between which the ranks agree that nothing
// failed.
//
//   VariableStore variables(device);
//   MTF_ASSIGN_OR_RETURN(auto executor, Executor::Create(
//       program, device, communicator, variables));
//   std::map<std::string, HostTensor> outputs;
//   MTF_RETURN_IF_ERROR(executor->Run({{"x", x}}, seed, step, &outputs));
class Executor {
 public:
  // All arguments must outlive the executor. Collective: every rank creates
  // executors of the same programs in the same order. If the groups have been
  // opened before (OpenGroups in collective_kernel.h), no rank waits for
  // another here, so that ranks can agree on a failure of one of them
  // afterwards.
  //
  // Executors that share `memory` run one after the other. One that needs more
  // than there is makes those created before unusable
  // (StepMemory::replacements). Null: the executor has its own.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      const Program& program, Device& device, Communicator& communicator,
      VariableStore& variables, StepMemory* memory = nullptr);
  ~Executor();

  // Runs one step. `feeds` and `outputs` hold global tensors by the name of the
  // input or fetch; every rank is fed the same tensors and takes its shards,
  // and every rank gets all outputs. With `fetch_shards` in the program's
  // targets the outputs are this rank's shards without padding.
  //
  // kInvalidArgument for a missing feed, or one of another shape or dtype
  // (feeds that the program does not read are ignored); kOutOfRange for an
  // index out of range, the same on every rank and under every layout.
  // Variables keep their values on an error.
  absl::Status Run(const std::map<std::string, HostTensor>& feeds,
                   uint32_t seed, uint32_t step,
                   std::map<std::string, HostTensor>* outputs);

  // The position of `rank` in this program, for messages: "after 118,
  // all_reduce of x over model (lm.cc:83) of step 7". "" if it is unknown.
  std::string DescribeRank(int64_t rank) const;

  // Records the time of every instruction of later steps in `trace`. Traced
  // steps run one instruction at a time. Null ends tracing.
  void TraceInto(StepTrace* trace);

 private:
  struct Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_EXECUTOR_H_
