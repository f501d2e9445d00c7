// SPDX-License-Identifier: Apache-2.0
#include "train/session/rank_variables.h"

#include <cstring>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "backends/backend.h"
#include "backends/executor/variable_store.h"
#include "layouts/text_items.h"
#include "lowering/program/program.h"
#include "mtf/errors.h"
#include "mtf/status.h"
#include "train/session/session.h"
#include "train/session/session_state.h"

namespace mtf::train {
namespace {

// Whether `rank` is the lowest of those with its shard: they differ along the
// axes that shard nothing.
bool IsFirstReplica(const Mesh& mesh, const TensorLayout& layout,
                    int64_t rank) {
  const AxisSet sharded = layout.Sharded();
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if ((sharded >> axis & 1) == 0 && mesh.Coordinate(rank, axis) != 0) {
      return false;
    }
  }
  return true;
}

int64_t PaddedElements(const VariableShard& shard) {
  int64_t elements = 1;
  for (const ShardedDimension& dim : shard.dims) elements *= dim.extent;
  return elements;
}

bool HasPadding(const VariableShard& shard) {
  for (const ShardedDimension& dim : shard.dims) {
    if (dim.valid != dim.extent) return true;
  }
  return false;
}

// Calls copy(padded, valid, count) with the indices of the first element of
// each run of elements in the padded shard and in the shard without padding.
void ForEachValidRun(
    const VariableShard& shard,
    absl::FunctionRef<void(int64_t padded, int64_t valid, int64_t count)>
        copy) {
  const int64_t elements = shard.ValidShape().num_elements();
  if (elements == 0) return;
  const std::vector<ShardedDimension>& dims = shard.dims;
  const int rank = static_cast<int>(dims.size());
  const int64_t run = rank == 0 ? 1 : dims[rank - 1].valid;
  for (int64_t begin = 0; begin < elements; begin += run) {
    int64_t rest = begin, stride = 1, padded = 0;
    for (int i = rank - 1; i >= 0; --i) {
      padded += rest % dims[i].valid * stride;
      rest /= dims[i].valid;
      stride *= dims[i].extent;
    }
    copy(padded, begin, run);
  }
}

}  // namespace

Shape VariableShard::ValidShape() const {
  std::vector<Dimension> valid;
  for (int i = 0; i < shape.rank(); ++i) {
    valid.push_back({shape[i].name, dims[i].valid});
  }
  return Shape(std::move(valid));
}

RankVariables::RankVariables(int64_t rank, const Graph& graph,
                             const Program& stored, Device& device,
                             VariableStore& store, bool in_host_memory)
    : rank_(rank),
      stored_(stored),
      device_(device),
      store_(store),
      in_host_memory_(in_host_memory) {
  std::map<std::string, const ProgramVariable*> by_name;
  for (const ProgramVariable& variable : stored.variables) {
    by_name[variable.name] = &variable;
  }
  for (const VariableInfo& info : graph.variables()) {
    const auto found = by_name.find(info.name);
    if (found == by_name.end()) continue;
    const ProgramVariable& variable = *found->second;
    VariableShard& shard = shards_.emplace_back();
    shard.variable = info.id;
    shard.name = info.name;
    shard.kind = info.kind;
    shard.dtype = variable.dtype;
    shard.shape = variable.shape;
    shard.dims = ShardOf(stored.grains, variable.shape, variable.layout, rank);
    shard.first_replica =
        IsFirstReplica(stored.grains.mesh(), variable.layout, rank);
  }
}

absl::StatusOr<void*> RankVariables::Find(const VariableShard& shard) const {
  for (const ProgramVariable& variable : stored_.variables) {
    if (variable.name == shard.name) return store_.Find(stored_, variable);
  }
  return absl::NotFoundError(
      absl::StrCat("no variable is called ", Quoted(shard.name)));
}

absl::StatusOr<HostTensor> RankVariables::Read(
    const VariableShard& shard) const {
  HostTensor value(shard.ValidShape(), shard.dtype);
  MTF_RETURN_IF_ERROR(value.status());
  MTF_RETURN_IF_ERROR(ReadElements(shard, value.data()));
  return value;
}

absl::Status RankVariables::ReadElements(const VariableShard& shard,
                                         void* to) const {
  MTF_ASSIGN_OR_RETURN(void* data, Find(shard));
  const int64_t element = DTypeSize(shard.dtype);
  const int64_t bytes = shard.ValidShape().num_elements() * element;
  if (bytes == 0) return absl::OkStatus();
  if (!HasPadding(shard)) return device_.CopyToHost(to, data, bytes);
  std::vector<char> padded(PaddedElements(shard) * element);
  MTF_RETURN_IF_ERROR(device_.CopyToHost(padded.data(), data,
                                         static_cast<int64_t>(padded.size())));
  char* const elements = static_cast<char*>(to);
  ForEachValidRun(shard, [&](int64_t from, int64_t valid, int64_t count) {
    std::memcpy(elements + valid * element, padded.data() + from * element,
                count * element);
  });
  return absl::OkStatus();
}

absl::Status RankVariables::Write(const VariableShard& shard,
                                  const HostTensor& value) {
  MTF_RETURN_IF_ERROR(value.status());
  if (value.dtype() != shard.dtype || value.shape() != shard.ValidShape()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the shard of variable ", Quoted(shard.name), " on rank ", rank_,
        " is not like its value",
        DetailLine("shard", DescribeTensor(shard.dtype, shard.ValidShape())),
        DetailLine("value", DescribeTensor(value.dtype(), value.shape()))));
  }
  return WriteElements(shard, value.data());
}

absl::Status RankVariables::WriteElements(const VariableShard& shard,
                                          const void* elements) {
  MTF_ASSIGN_OR_RETURN(void* data, Find(shard));
  written_.push_back(shard.variable);
  const int64_t element = DTypeSize(shard.dtype);
  if (!HasPadding(shard)) {
    const int64_t bytes = PaddedElements(shard) * element;
    return bytes == 0 ? absl::OkStatus()
                      : device_.CopyToDevice(data, elements, bytes);
  }
  std::vector<char> padded(PaddedElements(shard) * element);  // zeros
  const char* const from = static_cast<const char*>(elements);
  ForEachValidRun(shard, [&](int64_t to, int64_t valid, int64_t count) {
    std::memcpy(padded.data() + to * element, from + valid * element,
                count * element);
  });
  return device_.CopyToDevice(data, padded.data(),
                              static_cast<int64_t>(padded.size()));
}

absl::StatusOr<void*> RankVariables::MutableElements(
    const VariableShard& shard) {
  if (!in_host_memory_ || HasPadding(shard)) return nullptr;
  written_.push_back(shard.variable);
  return Find(shard);
}

absl::Status Session::OnEachRank(
    const std::function<absl::Status(RankVariables& variables)>& body) {
  for (const VariableInfo& variable : graph().variables()) {
    MTF_RETURN_IF_ERROR(CheckInitialized(variable.name));
  }
  std::vector<std::vector<int>> written(state_->ranks->size());
  const absl::Status status =
      state_->ranks->Run([&](int i, Communicator& communicator) {
        state_->devices[i]->EnterThread();
        RankVariables variables(communicator.rank(), graph(), state_->stored,
                                *state_->devices[i], *state_->variables[i],
                                state_->connections[i] == nullptr);
        const absl::Status result = body(variables);
        written[i] = variables.written();
        return result;
      });
  for (const std::vector<int>& ids : written) {
    for (int id : ids) state_->untrained.NoteSet(graph().variables()[id]);
  }
  return status;
}

absl::Status Session::SetStep(int64_t step) {
  if (step < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", step, " is negative"));
  }
  state_->step = step;
  return absl::OkStatus();
}

void Session::Uninitialize() { state_->initialized.clear(); }

absl::StatusOr<std::vector<std::string>> Session::GatherText(
    const std::string& text) {
  if (!state_->ranks->launched()) return std::vector<std::string>{text};
  MTF_RETURN_IF_ERROR(state_->ranks->SignIn("a call of Session::GatherText()"));
  return state_->ranks->communicator(0).AllGatherText(text);
}

}  // namespace mtf::train
