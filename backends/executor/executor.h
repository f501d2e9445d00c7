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
#include "backends/executor/trace.h"
#include "backends/executor/variable_store.h"
#include "lowering/program/program.h"
#include "mtf/host_tensor.h"

namespace mtf {

// A program bound to one rank: every instruction prepared once by the device
// or the communicator, buffers allocated. A step is a flat loop, which a device
// that replays (Device::replays) keeps as one or two recordings: one where
// nothing can fail on data, which the host knows before the step if all indices
// are fed; otherwise the ranks agree between the two that nothing did.
//
//   VariableStore variables(device);
//   MTF_ASSIGN_OR_RETURN(auto executor, Executor::Create(
//       program, device, communicator, variables));
//   std::map<std::string, HostTensor> outputs;
//   MTF_RETURN_IF_ERROR(executor->Run({{"x", x}}, seed, step, &outputs));
class Executor {
 public:
  // `program` and the others outlive the executor. Collective: every rank
  // creates executors of the same programs in the same order. After OpenGroups
  // (collective_kernel.h) no rank waits for another here, so that ranks which
  // fail alone can tell each other afterwards.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      const Program& program, Device& device, Communicator& communicator,
      VariableStore& variables);
  ~Executor();

  // What a step takes and gives: whole tensors by input and fetch name; every
  // rank is fed the same and takes its shard. Outputs are written on every
  // rank. With `fetch_shards` in the program's targets the outputs are local
  // shards without padding.
  //
  // kInvalidArgument for a missing feed, or one of another shape or dtype
  // (feeds that the program does not read are passed over); kOutOfRange for an
  // index out of range, the same on every rank and under every layout;
  // variables then keep their values.
  absl::Status Run(const std::map<std::string, HostTensor>& feeds,
                   uint32_t seed, uint32_t step,
                   std::map<std::string, HostTensor>* outputs);

  // Until it is told otherwise, steps run one instruction at a time and `trace`
  // keeps what each took; null ends that.
  void TraceInto(StepTrace* trace);

 private:
  struct Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_EXECUTOR_H_
