// SPDX-License-Identifier: Apache-2.0
#include "backends/executor/executor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/executor/executor_impl.h"
#include "layouts/shard.h"
#include "layouts/text_items.h"
#include "mtf/errors.h"

namespace mtf {
namespace {

using Clock = StepTrace::Clock;

// The valid elements of a shard, as a tensor without padding.
HostTensor ValidElements(const ProgramValue& value,
                         const std::vector<ShardedDimension>& dims,
                         const char* shard) {
  std::vector<Dimension> valid;
  int64_t outer = 1;
  for (int i = 0; i < value.shape.rank(); ++i) {
    valid.push_back({value.shape[i].name, dims[i].valid});
  }
  HostTensor tensor(Shape(valid), value.dtype);
  const int64_t size = DTypeSize(value.dtype);
  const int last = value.shape.rank() - 1;
  const int64_t row = last >= 0 ? dims[last].valid : 1;
  const int64_t pitch = last >= 0 ? dims[last].extent : 1;
  for (int i = 0; i < last; ++i) outer *= dims[i].valid;
  std::vector<int64_t> at(std::max(last, 0), 0);
  char* to = static_cast<char*>(tensor.data());
  for (int64_t o = 0; o < outer && row > 0; ++o) {
    int64_t from = 0;
    for (int i = 0; i < last; ++i) from = from * dims[i].extent + at[i];
    std::copy_n(shard + from * pitch * size, row * size, to);
    to += row * size;
    for (int i = last - 1; i >= 0; --i) {
      if (++at[i] < dims[i].valid) break;
      at[i] = 0;
    }
  }
  return tensor;
}

}  // namespace

absl::Status Executor::Impl::Feed(const HostTensors& feeds) {
  for (const Instruction* input : inputs) {
    const std::string& name = input->Get<NameAttributes>().name;
    const int value = input->results[0];
    const ProgramValue& wanted = program.values[value];
    const auto it = feeds.find(name);
    if (it == feeds.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input \"", name, "\" ", DTypeName(wanted.dtype), "[",
                       wanted.shape.ToString(), "] is not fed"));
    }
    const HostTensor& feed = it->second;
    if (feed.dtype() != wanted.dtype || !(feed.shape() == wanted.shape)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input \"", name, "\" is ",
          DescribeTensor(wanted.dtype, wanted.shape), " but is fed ",
          DescribeTensor(feed.dtype(), feed.shape())));
    }
    host.resize(std::max<size_t>(host.size(), wanted.local_bytes()));
    ScatterShard(program.grains, wanted.shape, wanted.layout,
                 communicator.rank(), static_cast<int>(DTypeSize(wanted.dtype)),
                 feed.data(), host.data());
    MTF_RETURN_IF_ERROR(device.CopyToDevice(addresses[value], host.data(),
                                            wanted.local_bytes()));
  }
  return absl::OkStatus();
}

// Whether the feeds of all ranks are in range, so that the step cannot fail.
// Ranks may have been fed different shards, so they must agree.
absl::StatusOr<bool> Executor::Impl::FeedsAreInRange(const HostTensors& feeds) {
  if (!fed_indices.has_value()) return false;
  StepError bad;
  for (const Instruction* input : inputs) {
    const auto limit = fed_indices->find(input->results[0]);
    if (limit != fed_indices->end() &&
        !AllWithin(feeds.at(input->Get<NameAttributes>().name),
                   limit->second)) {
      bad.instruction = 0;
    }
  }
  MTF_ASSIGN_OR_RETURN(const StepError agreed, communicator.Agree(bad));
  return agreed.ok();
}

absl::Status Executor::Impl::Fetch(const Instruction& output, const void* data,
                                   HostTensors* outputs) {
  const ProgramValue& described = program.values[output.operands[0]];
  const int64_t bytes = described.local_bytes();
  host.resize(std::max<size_t>(host.size(), bytes));
  MTF_RETURN_IF_ERROR(device.CopyToHost(host.data(), data, bytes));
  (*outputs)[output.Get<NameAttributes>().name] =
      ValidElements(described,
                    ShardOf(program.grains, described.shape, described.layout,
                            communicator.rank()),
                    host.data());
  return absl::OkStatus();
}

absl::Status Executor::Impl::AgreeOnErrors(const StepContext& context) {
  const absl::StatusOr<StepError> agreed = communicator.Agree(context.error);
  if (!agreed.ok()) {
    return NameStalledRanks(agreed.status(), program, position, communicator);
  }
  const StepError& error = *agreed;
  if (error.ok()) return absl::OkStatus();
  const Instruction& instruction = program.instructions[error.instruction];
  const Origin& origin = program.origins[instruction.origin];
  const ProgramValue& indices = program.values[instruction.operands.back()];
  if (const auto* check = instruction.Find<CheckIndexAttributes>()) {
    return RowsOutOfRange(error.index, error.position, indices.shape,
                          check->index_name, check->rows,
                          {check->dimension, check->size}, origin.operation,
                          origin.site);
  }
  const ProgramValue& table =
      program.values[instruction.opcode == Opcode::kGather
                         ? instruction.operands[0]
                         : instruction.results[0]];
  const auto& gather = instruction.Get<GatherAttributes>();
  return IndexOutOfRange(
      error.index, error.position, indices.shape, gather.indices_name,
      {gather.dimension, table.shape.SizeOf(gather.dimension)},
      OpcodeName(instruction.opcode), origin.operation, origin.site);
}

absl::Status Executor::Impl::RunCollective(const Action& action) {
  position.collective = action.number;
  position.inside = true;
  communicator.SetPosition(position);
  const absl::Status status = action.collective->Run();
  if (!status.ok()) {
    return NameStalledRanks(status, program, position, communicator);
  }
  position.inside = false;
  communicator.SetPosition(position);
  return status;
}

absl::Status Executor::Impl::RunAction(const Action& action,
                                       StepContext& context,
                                       HostTensors* outputs) {
  if (action.kernel != nullptr) {
    action.kernel->Run(context);
    return absl::OkStatus();
  }
  if (action.collective != nullptr) return RunCollective(action);
  return Fetch(*action.output, addresses[action.output->operands[0]], outputs);
}

// Each segment ends by waiting for its asynchronous collectives, so a later
// segment may find that an action has been waited for already.
void Executor::Impl::WaitFor(size_t action) {
  const auto found = std::find(in_flight.begin(), in_flight.end(), action);
  if (found == in_flight.end()) return;
  actions[action].asynchronous->Wait();
  in_flight.erase(found);
}

absl::Status Executor::Impl::EnqueueAction(size_t i, StepContext& context,
                                           HostTensors* outputs) {
  const Action& action = actions[i];
  for (size_t other : action.waits) WaitFor(other);
  if (!action.waits.empty()) return absl::OkStatus();
  if (action.asynchronous == nullptr)
    return RunAction(action, context, outputs);
  in_flight.push_back(i);
  return action.asynchronous->Run([&] { return RunCollective(action); });
}

absl::Status Executor::Impl::Enqueue(const Segment& segment,
                                     StepContext& context,
                                     HostTensors* outputs) {
  const bool ranges = device.replays();
  in_flight.clear();
  for (size_t i = segment.begin; i < segment.end; ++i) {
    if (ranges) device.EnterRange(actions[i].name);
    const absl::Status status = EnqueueAction(i, context, outputs);
    if (ranges) device.LeaveRange();
    MTF_RETURN_IF_ERROR(status);
  }
  while (!in_flight.empty()) WaitFor(in_flight.front());
  if (!segment.commits) return absl::OkStatus();
  for (const std::unique_ptr<Kernel>& commit : commits) commit->Run(context);
  return absl::OkStatus();
}

// Waits for the device after every action, so that each time and failure can be
// attributed to its instruction.
absl::Status Executor::Impl::RunOneByOne(const Segment& segment,
                                         StepContext& context,
                                         HostTensors* outputs) {
  Clock::time_point begin = Clock::now();
  for (size_t i = segment.begin; i < segment.end; ++i) {
    const Action& action = actions[i];
    if (!action.waits.empty()) continue;
    MTF_RETURN_IF_ERROR(RunAction(action, context, outputs));
    MTF_RETURN_IF_ERROR(Named(device.Finish(context), action.instruction));
    const Clock::time_point end = Clock::now();
    if (trace != nullptr) trace->AddInstruction(action.instruction, begin, end);
    begin = end;
  }
  if (!segment.commits || commits.empty()) return absl::OkStatus();
  for (const std::unique_ptr<Kernel>& commit : commits) commit->Run(context);
  MTF_RETURN_IF_ERROR(device.Finish(context));
  if (trace != nullptr) trace->AddPhase("new values", begin, Clock::now());
  return absl::OkStatus();
}

absl::Status Executor::Impl::RunSegment(Segment& segment, StepContext& context,
                                        HostTensors* outputs) {
  if (blocking || trace != nullptr) {
    return RunOneByOne(segment, context, outputs);
  }
  MTF_RETURN_IF_ERROR(device.RunOrReplay(
      [&] { return Enqueue(segment, context, outputs); }, segment.replay));
  return Finish(context);
}

absl::Status Executor::Impl::Finish(StepContext& context) {
  if (!device.replays()) return device.Finish(context);
  // The host waits for other ranks here, not in the collectives.
  position.collective = collectives;
  position.inside = collectives > 0;
  communicator.SetPosition(position);
  const absl::Status status = device.Finish(context);
  position.inside = false;
  communicator.SetPosition(position);
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(),
                   DetailLine("help",
                              "MTF_CUDA_BLOCKING=1 waits after every "
                              "instruction and names the one that fails")));
}

absl::Status Executor::Impl::RunStep(const HostTensors& feeds,
                                     StepContext& context,
                                     HostTensors* outputs) {
  const Clock::time_point begin =
      trace != nullptr ? Clock::now() : Clock::time_point();
  MTF_RETURN_IF_ERROR(Feed(feeds));
  position.step = context.step;
  position.collective = 0;
  position.inside = false;
  communicator.SetPosition(position);
  bool one_segment = !can_fail;
  if (can_fail && fed_indices.has_value()) {
    MTF_ASSIGN_OR_RETURN(one_segment, FeedsAreInRange(feeds));
  }
  MTF_RETURN_IF_ERROR(device.BeginStep(context));
  if (trace != nullptr) trace->AddPhase("feeds", begin, Clock::now());
  if (one_segment) {
    MTF_RETURN_IF_ERROR(RunSegment(full_step, context, outputs));
    if (!context.error.ok()) {
      return absl::InternalError(
          "the device reported an index out of range, but all fed indices are "
          "in range");
    }
  } else {
    MTF_RETURN_IF_ERROR(RunSegment(before_agreement, context, outputs));
    // Everything that can fail has run; from here on variables change.
    MTF_RETURN_IF_ERROR(AgreeOnErrors(context));
    MTF_RETURN_IF_ERROR(RunSegment(after_agreement, context, outputs));
  }
  for (const DeferredFetch& fetch : deferred_fetches) {
    MTF_RETURN_IF_ERROR(Fetch(*fetch.output, fetch.data, outputs));
  }
  return absl::OkStatus();
}

absl::Status Executor::Impl::Run(const HostTensors& feeds, uint32_t seed,
                                 uint32_t step, HostTensors* outputs) {
  device.EnterThread();
  StepContext context;
  context.seed = seed;
  context.step = step;
  const absl::Status status = RunStep(feeds, context, outputs);
  if (!status.ok() && device.replays() && !communicator.can_wait_forever()) {
    // The caller may free buffers: wait until no kernel uses them.
    (void)device.Finish(context);
  }
  return status;
}

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

std::string Executor::DescribeRank(int64_t rank) const {
  const std::optional<RankPosition> known =
      impl_->communicator.PositionOf(rank);
  if (!known.has_value()) return "";
  return DescribePosition(*known, impl_->program, impl_->position.program);
}

void Executor::TraceInto(StepTrace* trace) { impl_->trace = trace; }

absl::Status Executor::Run(const std::map<std::string, HostTensor>& feeds,
                           uint32_t seed, uint32_t step,
                           std::map<std::string, HostTensor>* outputs) {
  return impl_->Run(feeds, seed, step, outputs);
}

}  // namespace mtf
