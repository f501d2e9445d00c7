// SPDX-License-Identifier: Apache-2.0
#include "backends/executor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "backends/collective_kernel.h"
#include "backends/communicators/wait_options.h"
#include "backends/stalled_ranks.h"
#include "layouts/shard.h"
#include "lowering/plan_buffers.h"
#include "mtf/check.h"
#include "mtf/errors.h"

namespace mtf {

VariableStore::~VariableStore() {
  for (auto& [name, storage] : storage_) device_.Free(storage.first);
}

absl::StatusOr<void*> VariableStore::Find(const Program& program,
                                          const ProgramVariable& variable) {
  const int64_t bytes =
      LocalElements(program.grains, variable.shape, variable.layout) *
      DTypeSize(variable.dtype);
  auto it = storage_.find(variable.name);
  if (it == storage_.end()) {
    MTF_ASSIGN_OR_RETURN(void* data, device_.Allocate(bytes));
    it = storage_.emplace(variable.name, std::make_pair(data, bytes)).first;
  }
  MTF_CHECK_EQ(it->second.second, bytes)
      << "bytes of variable " << variable.name << " in two programs";
  return it->second.first;
}

struct Executor::Impl {
  Impl(const Program& program, Device& device, Communicator& communicator,
       VariableStore& variables)
      : program(program),
        device(device),
        communicator(communicator),
        variables(variables) {}
  ~Impl() {
    if (arena != nullptr) device.Free(arena);
    for (void* staging : stagings) device.Free(staging);
  }

  absl::Status Prepare();
  void* Address(int value) const;
  BoundValue Bind(int value) const;
  absl::Status PrepareInstruction(int index);
  absl::Status PrepareCollective(const Instruction& instruction);
  absl::Status PrepareCommits();

  absl::Status Run(const std::map<std::string, HostTensor>& feeds,
                   uint32_t seed, uint32_t step,
                   std::map<std::string, HostTensor>* outputs);
  absl::Status Feed(const std::map<std::string, HostTensor>& feeds);
  absl::Status AgreeOnErrors(const StepContext& context);
  absl::Status Fetch(const Instruction& output,
                     std::map<std::string, HostTensor>* outputs);

  // One thing to do in a step: a kernel or a collective.
  struct Action {
    int instruction = 0;
    std::unique_ptr<Kernel> kernel;
    std::unique_ptr<CollectiveKernel> collective;
    const Instruction* output = nullptr;
    int number = 0;  // of a collective, from 1
  };
  absl::Status RunCollective(const Action& action);

  struct Commit {
    void* to = nullptr;
    const void* from = nullptr;
    void* through = nullptr;  // where `from` is a variable itself
    int64_t bytes = 0;
  };

  const Program& program;
  Device& device;
  Communicator& communicator;
  VariableStore& variables;
  void* arena = nullptr;
  void* staging[2] = {};  // around collectives, shared by all of them
  std::vector<void*> stagings;
  std::map<absl::string_view, void*> storage;  // of the program's variables
  std::vector<void*> addresses;                // by value
  std::vector<Action> actions;
  std::vector<Commit> commits;
  std::vector<const Instruction*> inputs;
  bool can_fail = false;
  RankPosition position;   // of this rank, for those that wait for it
  int collectives = 0;     // prepared so far
  std::vector<char> host;  // scratch for feeds and fetches
  std::optional<StallWatch> watch;
};

void* Executor::Impl::Address(int value) const {
  // A view has no buffer of its own; its address is set when it is made.
  const BufferPlan::Buffer& buffer = program.buffers.buffers[value];
  switch (buffer.place) {
    case BufferPlan::Place::kNone:
      return nullptr;
    case BufferPlan::Place::kArena:
      return static_cast<char*>(arena) + buffer.offset;
    case BufferPlan::Place::kVariable:
      return storage.at(buffer.symbol);
  }
  return nullptr;
}

BoundValue Executor::Impl::Bind(int value) const {
  const ProgramValue& described = program.values[value];
  MTF_CHECK(addresses[value] != nullptr) << "%" << described.name;
  return {addresses[value], &described,
          ShardOf(program.grains, described.shape, described.layout,
                  communicator.rank())};
}

absl::Status Executor::Impl::Prepare() {
  if (program.buffers.buffers.size() != program.values.size()) {
    return absl::InternalError("the program has no buffer plan");
  }
  device.EnterThread();
  position.program = communicator.NumberProgram();
  MTF_RETURN_IF_ERROR(OpenGroups(program, communicator));
  MTF_ASSIGN_OR_RETURN(arena, device.Allocate(std::max<int64_t>(
                                  program.buffers.arena_bytes, 64)));
  int64_t staging_bytes[2] = {0, 0};
  for (const Instruction& instruction : program.instructions) {
    const StagingBytes need = StagingBytesOf(program, instruction);
    staging_bytes[0] = std::max(staging_bytes[0], need.before);
    staging_bytes[1] = std::max(staging_bytes[1], need.after);
  }
  for (int i = 0; i < 2; ++i) {
    if (staging_bytes[i] == 0) continue;
    MTF_ASSIGN_OR_RETURN(staging[i], device.Allocate(staging_bytes[i]));
    stagings.push_back(staging[i]);
  }
  for (const ProgramVariable& variable : program.variables) {
    MTF_ASSIGN_OR_RETURN(storage[variable.name],
                         variables.Find(program, variable));
  }
  addresses.resize(program.values.size(), nullptr);
  for (const Instruction& instruction : program.instructions) {
    for (int result : instruction.results) {
      addresses[result] = Address(result);
    }
    const bool view = instruction.opcode == Opcode::kWriteVariable ||
                      (instruction.opcode == Opcode::kReshape &&
                       IsView(program, instruction));
    if (view)
      addresses[instruction.results[0]] = addresses[instruction.operands[0]];
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    MTF_RETURN_IF_ERROR(PrepareInstruction(static_cast<int>(i)));
  }
  return PrepareCommits();
}

absl::Status Executor::Impl::PrepareInstruction(int index) {
  const Instruction& instruction = program.instructions[index];
  switch (instruction.opcode) {
    case Opcode::kInput:
      inputs.push_back(&instruction);
      return absl::OkStatus();
    case Opcode::kReadVariable:
    case Opcode::kWriteVariable:
      return absl::OkStatus();
    case Opcode::kOutput:
      actions.push_back({index, nullptr, nullptr, &instruction});
      return absl::OkStatus();
    case Opcode::kReshard:
      return absl::InternalError("a reshard was not expanded");
    case Opcode::kReshape:
      if (IsView(program, instruction)) return absl::OkStatus();
      break;
    case Opcode::kGather:
    case Opcode::kScatterAdd:
      can_fail = true;
      break;
    default:
      break;
  }
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
  if (MovesBetweenRanks(instruction.opcode)) {
    MTF_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveKernel> collective,
                         PrepareCollectiveKernel(binding, device, communicator,
                                                 staging[0], staging[1]));
    actions.push_back(
        {index, nullptr, std::move(collective), nullptr, ++collectives});
    return absl::OkStatus();
  }
  if (instruction.opcode == Opcode::kReduce) {
    binding.iteration =
        ShardOf(program.grains, instruction.iteration,
                instruction.iteration_layout, communicator.rank());
  }
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, device.Prepare(binding));
  actions.push_back({index, std::move(kernel), nullptr, nullptr});
  return absl::OkStatus();
}

absl::Status Executor::Impl::PrepareCommits() {
  absl::flat_hash_set<const void*> storages;
  for (const auto& [name, address] : storage) storages.insert(address);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kWriteVariable) continue;
    Commit commit;
    commit.to = storage.at(instruction.symbol);
    commit.from = addresses[instruction.operands[0]];
    commit.bytes = program.values[instruction.operands[0]].local_bytes();
    if (commit.to == commit.from) continue;  // updated in place
    if (storages.contains(commit.from)) {
      MTF_ASSIGN_OR_RETURN(commit.through, device.Allocate(commit.bytes));
      stagings.push_back(commit.through);
    }
    commits.push_back(commit);
  }
  return absl::OkStatus();
}

absl::Status Executor::Impl::Feed(
    const std::map<std::string, HostTensor>& feeds) {
  for (const Instruction* input : inputs) {
    const int value = input->results[0];
    const ProgramValue& wanted = program.values[value];
    const auto it = feeds.find(input->symbol);
    if (it == feeds.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input \"", input->symbol, "\" ", DTypeName(wanted.dtype), "[",
          wanted.shape.ToString(), "] is not fed"));
    }
    const HostTensor& feed = it->second;
    if (feed.dtype() != wanted.dtype || !(feed.shape() == wanted.shape)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input \"", input->symbol, "\" is ",
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

absl::Status Executor::Impl::Fetch(const Instruction& output,
                                   std::map<std::string, HostTensor>* outputs) {
  const int value = output.operands[0];
  const ProgramValue& described = program.values[value];
  const int64_t bytes = described.local_bytes();
  host.resize(std::max<size_t>(host.size(), bytes));
  MTF_RETURN_IF_ERROR(device.CopyToHost(host.data(), addresses[value], bytes));
  // A shard on the host is a tensor of its valid elements: cut to the range of
  // this rank it looks like a whole one of one device.
  const std::vector<ShardedDimension> dims = ShardOf(
      program.grains, described.shape, described.layout, communicator.rank());
  std::vector<Dimension> valid;
  int64_t outer = 1;
  for (int i = 0; i < described.shape.rank(); ++i) {
    valid.push_back({described.shape[i].name, dims[i].valid});
  }
  HostTensor tensor(Shape(valid), described.dtype);
  const int64_t size = DTypeSize(described.dtype);
  const int last = described.shape.rank() - 1;
  const int64_t row = last >= 0 ? dims[last].valid : 1;
  const int64_t pitch = last >= 0 ? dims[last].extent : 1;
  for (int i = 0; i < last; ++i) outer *= dims[i].valid;
  std::vector<int64_t> at(std::max(last, 0), 0);
  char* to = static_cast<char*>(tensor.data());
  for (int64_t o = 0; o < outer && row > 0; ++o) {
    int64_t from = 0;
    for (int i = 0; i < last; ++i) from = from * dims[i].extent + at[i];
    std::copy_n(host.data() + from * pitch * size, row * size, to);
    to += row * size;
    for (int i = last - 1; i >= 0; --i) {
      if (++at[i] < dims[i].valid) break;
      at[i] = 0;
    }
  }
  (*outputs)[output.symbol] = std::move(tensor);
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
  const ProgramValue& indices = program.values[instruction.operands[1]];
  const ProgramValue& table =
      program.values[instruction.opcode == Opcode::kGather
                         ? instruction.operands[0]
                         : instruction.results[0]];
  const Origin& origin = program.origins[instruction.origin];
  return IndexOutOfRange(
      error.index, error.position, indices.shape, instruction.symbol,
      {instruction.dimension, table.shape.SizeOf(instruction.dimension)},
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

absl::Status Executor::Impl::Run(const std::map<std::string, HostTensor>& feeds,
                                 uint32_t seed, uint32_t step,
                                 std::map<std::string, HostTensor>* outputs) {
  device.EnterThread();
  MTF_RETURN_IF_ERROR(Feed(feeds));
  StepContext context;
  context.seed = seed;
  context.step = step;
  bool agreed = !can_fail;
  position.step = step;
  position.collective = 0;
  position.inside = false;
  communicator.SetPosition(position);
  for (Action& action : actions) {
    // From here on variables change: whatever can fail has run.
    if (!agreed && action.instruction >= program.buffers.commit) {
      MTF_RETURN_IF_ERROR(AgreeOnErrors(context));
      agreed = true;
    }
    if (action.kernel != nullptr) {
      action.kernel->Run(context);
    } else if (action.collective != nullptr) {
      MTF_RETURN_IF_ERROR(RunCollective(action));
    } else {
      MTF_RETURN_IF_ERROR(Fetch(*action.output, outputs));
    }
  }
  if (!agreed) MTF_RETURN_IF_ERROR(AgreeOnErrors(context));
  for (const Commit& commit : commits) {
    if (commit.through == nullptr) continue;
    MTF_RETURN_IF_ERROR(
        device.CopyToDevice(commit.through, commit.from, commit.bytes));
  }
  for (const Commit& commit : commits) {
    MTF_RETURN_IF_ERROR(device.CopyToDevice(
        commit.to, commit.through != nullptr ? commit.through : commit.from,
        commit.bytes));
  }
  return absl::OkStatus();
}

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    const Program& program, Device& device, Communicator& communicator,
    VariableStore& variables) {
  auto impl = std::make_unique<Impl>(program, device, communicator, variables);
  MTF_RETURN_IF_ERROR(impl->Prepare());
  if (communicator.waits_for_ever() && CollectiveTimeout() > 0) {
    impl->watch.emplace(program, impl->position.program, communicator,
                        CollectiveTimeout());
  }
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

absl::Status Executor::Run(const std::map<std::string, HostTensor>& feeds,
                           uint32_t seed, uint32_t step,
                           std::map<std::string, HostTensor>* outputs) {
  return impl_->Run(feeds, seed, step, outputs);
}

}  // namespace mtf
