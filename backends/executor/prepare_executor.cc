// SPDX-License-Identifier: Apache-2.0
//
// Binds a program to the buffers of one rank.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "backends/communicators/wait_options.h"
#include "backends/environment_switch.h"
#include "backends/executor/executor_impl.h"
#include "layouts/shard.h"
#include "layouts/text_items.h"
#include "lowering/program/is_no_op.h"

namespace mtf {
namespace {

BlockCopy ContiguousCopy(int64_t bytes) {
  BlockCopy copy;
  copy.inner = bytes;
  return copy;
}

// A debugging aid: attributes a failure on a device to its instruction.
bool BlockingIsRequested() {
  return EnvironmentSwitch("MTF_CUDA_BLOCKING", false);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    const Program& program, Device& device, Communicator& communicator,
    VariableStore& variables, StepMemory* memory) {
  auto impl =
      std::make_unique<Impl>(program, device, communicator, variables, memory);
  MTF_RETURN_IF_ERROR(impl->Prepare());
  if (communicator.can_wait_forever() && CollectiveTimeout() > 0) {
    impl->watch.emplace(program, impl->position.program, communicator,
                        CollectiveTimeout());
  }
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

absl::Status Executor::Impl::Prepare() {
  if (program.buffers.buffers.size() != program.values.size()) {
    return absl::InternalError("the program has no buffer plan");
  }
  device.EnterThread();
  blocking = device.replays() && BlockingIsRequested();
  position.program = communicator.NumberProgram();
  MTF_RETURN_IF_ERROR(OpenGroups(program, communicator));
  MTF_RETURN_IF_ERROR(Reserve());
  AssignAddresses();
  FindFailures();
  MTF_RETURN_IF_ERROR(PrepareActions());
  MTF_RETURN_IF_ERROR(PrepareCommits());
  const size_t first_commit =
      std::find_if(actions.begin(), actions.end(),
                   [this](const Action& action) {
                     return action.instruction >= commit;
                   }) -
      actions.begin();
  full_step.end = after_agreement.end = actions.size();
  before_agreement.end = after_agreement.begin = first_commit;
  full_step.commits = after_agreement.commits = true;
  return absl::OkStatus();
}

absl::StatusOr<void*> Executor::Impl::AllocateExtra(int64_t bytes) {
  MTF_ASSIGN_OR_RETURN(void* const buffer,
                       device.Allocate(std::max<int64_t>(bytes, 64)));
  extra.push_back(buffer);
  return buffer;
}

absl::Status Executor::Impl::ReserveStaging(bool asynchronous,
                                            Staging& staging) {
  StagingBytes bytes;
  for (const Instruction& instruction : program.instructions) {
    if ((overlaps && IsAsynchronous(instruction)) != asynchronous) continue;
    const StagingBytes need = StagingBytesOf(program, instruction);
    bytes.before = std::max(bytes.before, need.before);
    bytes.after = std::max(bytes.after, need.after);
  }
  const auto before = asynchronous ? StepMemory::kAsyncStagingBefore
                                   : StepMemory::kStagingBefore;
  const auto after =
      asynchronous ? StepMemory::kAsyncStagingAfter : StepMemory::kStagingAfter;
  if (bytes.before > 0) {
    MTF_ASSIGN_OR_RETURN(staging.before, memory.Reserve(before, bytes.before));
  }
  if (bytes.after > 0) {
    MTF_ASSIGN_OR_RETURN(staging.after, memory.Reserve(after, bytes.after));
  }
  return absl::OkStatus();
}

absl::Status Executor::Impl::Reserve() {
  MTF_ASSIGN_OR_RETURN(
      arena,
      memory.Reserve(StepMemory::kArena,
                     std::max<int64_t>(program.buffers.arena_bytes, 64)));
  overlaps = device.PrepareAsyncRunner() != nullptr;
  MTF_RETURN_IF_ERROR(ReserveStaging(/*asynchronous=*/false, staging));
  if (overlaps) MTF_RETURN_IF_ERROR(ReserveStaging(true, async_staging));
  for (const ProgramVariable& variable : program.variables) {
    MTF_ASSIGN_OR_RETURN(storage[variable.name],
                         variables.Find(program, variable));
  }
  return absl::OkStatus();
}

void* Executor::Impl::Address(int value) const {
  // A view has no buffer of its own; see AssignAddresses.
  const BufferPlan::Buffer& buffer = program.buffers.buffers[value];
  switch (buffer.storage) {
    case BufferPlan::Storage::kNone:
      return nullptr;
    case BufferPlan::Storage::kArena:
      return static_cast<char*>(arena) + buffer.offset;
    case BufferPlan::Storage::kVariable:
      return storage.at(buffer.symbol);
  }
  return nullptr;
}

void Executor::Impl::AssignAddresses() {
  addresses.resize(program.values.size(), nullptr);
  for (const Instruction& instruction : program.instructions) {
    for (int result : instruction.results) {
      addresses[result] = Address(result);
    }
    if (IsView(program, instruction)) {
      addresses[instruction.results[0]] = addresses[instruction.operands[0]];
    }
  }
}

BoundValue Executor::Impl::Bind(int value) const {
  const ProgramValue& described = program.values[value];
  return {addresses[value], &described,
          ShardOf(program.grains, described.shape, described.layout,
                  communicator.rank())};
}

Binding Executor::Impl::BindInstruction(int index) const {
  const Instruction& instruction = program.instructions[index];
  Binding binding;
  binding.program = &program;
  binding.index = index;
  binding.rank = communicator.rank();
  for (int operand : instruction.operands) {
    binding.operands.push_back(Bind(operand));
  }
  for (int result : instruction.results) {
    binding.results.push_back(Bind(result));
  }
  if (const auto* reduce = instruction.Find<ReduceAttributes>()) {
    binding.iteration = ShardOf(program.grains, reduce->iteration,
                                reduce->iteration_layout, communicator.rank());
  }
  return binding;
}

const char* Executor::Impl::NameOf(int index) const {
  const Instruction& instruction = program.instructions[index];
  if (instruction.opcode == Opcode::kWait) {
    return program.values[instruction.operands[0]].name.c_str();
  }
  return instruction.results.empty()
             ? instruction.Get<NameAttributes>().name.c_str()
             : program.values[instruction.results[0]].name.c_str();
}

absl::Status Executor::Impl::Named(const absl::Status& status,
                                   int index) const {
  if (status.ok()) return status;
  const Instruction& instruction = program.instructions[index];
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(),
                   DetailLine("instruction",
                              absl::StrCat("%", NameOf(index), " = ",
                                           OpcodeName(instruction.opcode), " ",
                                           program.OriginText(instruction)))));
}

void Executor::Impl::FindFailures() {
  commit = program.buffers.commit;
  for (const Instruction& instruction : program.instructions) {
    can_fail = can_fail || CanFail(instruction.opcode);
  }
  if (can_fail && device.replays()) fed_indices = FindFedIndices(program);
}

absl::Status Executor::Impl::PrepareActions() {
  const auto instructions = static_cast<int>(program.instructions.size());
  std::vector<bool> done(instructions, false);
  auto group = program.groups.begin();
  for (int i = 0; i < instructions; ++i) {
    if (group != program.groups.end() && group->members.front() == i) {
      MTF_ASSIGN_OR_RETURN(const bool prepared, PrepareGroup(*group));
      for (int member : group->members) done[member] = prepared;
      ++group;
    }
    if (!done[i]) MTF_RETURN_IF_ERROR(PrepareInstruction(i));
  }
  return absl::OkStatus();
}

// Returns false if the members have to be prepared one by one.
absl::StatusOr<bool> Executor::Impl::PrepareGroup(const FusedGroup& group) {
  const int first = group.members.front();
  std::vector<Binding> bindings;
  for (int member : group.members) bindings.push_back(BindInstruction(member));
  absl::StatusOr<std::unique_ptr<Kernel>> kernel =
      device.PrepareGroup(group, bindings);
  if (!kernel.ok()) return Named(kernel.status(), first);
  if (*kernel == nullptr) return false;
  actions.push_back({.instruction = first,
                     .kernel = *std::move(kernel),
                     .name = NameOf(first)});
  return true;
}

absl::Status Executor::Impl::PrepareInstruction(int index) {
  const Instruction& instruction = program.instructions[index];
  switch (instruction.opcode) {
    case Opcode::kInput:
      inputs.push_back(&instruction);
      return absl::OkStatus();
    case Opcode::kReadVariable:
    case Opcode::kWriteVariable:
    case Opcode::kDepend:
      return absl::OkStatus();
    case Opcode::kCopyToDevice:
    case Opcode::kCopyToHost:
      PrepareHostCopy(index);
      return absl::OkStatus();
    case Opcode::kOutput:
      return PrepareOutput(index);
    case Opcode::kWait:
      PrepareWait(index);
      return absl::OkStatus();
    case Opcode::kReshard:
      return absl::InternalError("a reshard was not expanded");
    case Opcode::kReshape:
      if (IsFreeReshape(program, instruction)) return absl::OkStatus();
      break;
    default:
      break;
  }
  const Binding binding = BindInstruction(index);
  // A value internal to a group has no memory, so its members cannot be
  // prepared one by one.
  const auto has_no_memory = [](const BoundValue& value) {
    return value.data == nullptr;
  };
  if (absl::c_any_of(binding.operands, has_no_memory) ||
      absl::c_any_of(binding.results, has_no_memory)) {
    return Named(absl::InternalError("the device did not fuse a group whose "
                                     "values have no memory"),
                 index);
  }
  if (Communicates(instruction.opcode)) {
    return Named(PrepareCollective(binding), index);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = device.Prepare(binding);
  if (!kernel.ok()) return Named(kernel.status(), index);
  actions.push_back({.instruction = index,
                     .kernel = *std::move(kernel),
                     .name = NameOf(index)});
  return absl::OkStatus();
}

absl::Status Executor::Impl::PrepareCollective(const Binding& binding) {
  const bool asynchronous = overlaps && IsAsynchronous(binding.instruction());
  const Staging& through = asynchronous ? async_staging : staging;
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveKernel> collective,
                       PrepareCollectiveKernel(binding, device, communicator,
                                               through.before, through.after));
  if (asynchronous)
    async_action_of[binding.instruction().results[0]] = actions.size();
  actions.push_back(
      {.instruction = binding.index,
       .collective = std::move(collective),
       .asynchronous = asynchronous ? device.PrepareAsyncRunner() : nullptr,
       .number = ++collectives,
       .name = NameOf(binding.index)});
  return absl::OkStatus();
}

void Executor::Impl::PrepareWait(int index) {
  if (!overlaps) return;  // collectives run synchronously
  Action wait = {.instruction = index, .name = NameOf(index)};
  for (int value : program.instructions[index].operands) {
    wait.waits.push_back(async_action_of.at(value));
  }
  actions.push_back(std::move(wait));
}

void Executor::Impl::PrepareHostCopy(int index) {
  const Instruction& copy = program.instructions[index];
  const int to = copy.results[0];
  const int64_t bytes = program.values[to].local_bytes();
  if (bytes == 0) return;
  actions.push_back({.instruction = index,
                     .kernel = device.PrepareHostCopy(
                         addresses[to], addresses[copy.operands[0]], bytes),
                     .name = NameOf(index)});
}

// The buffer of a fetched value may be reused later in the step, so the value
// is copied at its output instruction: to the host, or to a device buffer of
// its own if the device replays steps without the host.
absl::Status Executor::Impl::PrepareOutput(int index) {
  const Instruction& output = program.instructions[index];
  if (!device.replays()) {
    actions.push_back(
        {.instruction = index, .output = &output, .name = NameOf(index)});
    return absl::OkStatus();
  }
  const int value = output.operands[0];
  const int64_t bytes = program.values[value].local_bytes();
  MTF_ASSIGN_OR_RETURN(void* const buffer, AllocateExtra(bytes));
  deferred_fetches.push_back({&output, buffer});
  if (bytes == 0) return absl::OkStatus();
  actions.push_back({.instruction = index,
                     .kernel = device.PrepareCopy(buffer, addresses[value],
                                                  ContiguousCopy(bytes)),
                     .name = NameOf(index)});
  return absl::OkStatus();
}

absl::Status Executor::Impl::PrepareCommits() {
  absl::flat_hash_set<const void*> storages;
  for (const auto& [name, address] : storage) storages.insert(address);
  std::vector<std::unique_ptr<Kernel>> last;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kWriteVariable) continue;
    void* const to = storage.at(instruction.Get<NameAttributes>().name);
    const void* from = addresses[instruction.operands[0]];
    const int64_t bytes = program.values[instruction.operands[0]].local_bytes();
    if (to == from || bytes == 0) continue;  // updated in place
    if (storages.contains(from)) {
      // The new value is another variable, which may change in this step: copy
      // it before any variable is written.
      MTF_ASSIGN_OR_RETURN(void* const through, AllocateExtra(bytes));
      commits.push_back(
          device.PrepareCopy(through, from, ContiguousCopy(bytes)));
      from = through;
    }
    last.push_back(device.PrepareCopy(to, from, ContiguousCopy(bytes)));
  }
  for (std::unique_ptr<Kernel>& kernel : last) {
    commits.push_back(std::move(kernel));
  }
  return absl::OkStatus();
}

}  // namespace mtf
