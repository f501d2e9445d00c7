// SPDX-License-Identifier: Apache-2.0
//
// Session::WriteVariable.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "layouts/text_items.h"
#include "mtf/errors.h"
#include "mtf/status.h"
#include "train/session/plan_check.h"
#include "train/session/session.h"
#include "train/session/session_state.h"
#include "train/session/tensor_shard.h"

namespace mtf::train {
namespace {

// The variable called `name`, which is not a master copy.
absl::StatusOr<const VariableInfo*> FindSettable(const Graph& graph,
                                                 absl::string_view name) {
  std::vector<std::string> names;
  for (const VariableInfo& info : graph.variables()) {
    if (info.name != name) {
      names.push_back(info.name);
      continue;
    }
    if (info.master_of < 0) return &info;
    const std::string& parameter = graph.variables()[info.master_of].name;
    return absl::InvalidArgumentError(absl::StrCat(
        "variable ", Quoted(name), " is the master copy of ", Quoted(parameter),
        DetailLine("help", absl::StrCat("write ", Quoted(parameter),
                                        ", which sets both"))));
  }
  return NoSuchName("variable", name, names);
}

// Checks that `value` can be the value of `info`, or of its master in `dtype`.
absl::Status CheckFits(const VariableInfo& info, DType dtype,
                       const HostTensor& value) {
  MTF_RETURN_IF_ERROR(CheckValue("the value of variable", info.name, value));
  if (!(value.shape() == info.shape)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable ", Quoted(info.name), " has another shape than its value",
        DetailLine("variable", DescribeTensor(dtype, info.shape)),
        DetailLine("value", DescribeTensor(value.dtype(), value.shape()))));
  }
  const bool widens = dtype == kFloat32 && IsFloat(value.dtype());
  if (value.dtype() == dtype || widens) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the value of variable ", Quoted(info.name), " would be converted from ",
      DTypeName(value.dtype()), " to ", DTypeName(dtype),
      DetailLine("help",
                 "convert it first: HostTensor::FromDoubles(shape, dtype, "
                 "value.ToDoubles())")));
}

HostTensor InDType(const HostTensor& value, DType dtype) {
  if (value.dtype() == dtype) return value;
  return HostTensor::FromDoubles(value.shape(), dtype, value.ToDoubles());
}

}  // namespace

// Copies the shard of `value` to the variable called `name` of rank `i` of this
// process.
absl::Status Session::State::Store(const std::string& name,
                                   const HostTensor& value, int i) {
  for (const ProgramVariable& variable : stored.variables) {
    if (variable.name != name) continue;
    const int64_t element = DTypeSize(variable.dtype);
    std::vector<char> shard(
        LocalElements(stored.grains, variable.shape, variable.layout) *
        element);
    ScatterShard(stored.grains, variable.shape, variable.layout,
                 ranks->communicator(i).rank(), static_cast<int>(element),
                 value.data(), shard.data());
    MTF_ASSIGN_OR_RETURN(void* data, variables[i]->Find(stored, variable));
    return devices[i]->CopyToDevice(data, shard.data(),
                                    static_cast<int64_t>(shard.size()));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "variable ", Quoted(name), " has no value yet",
      DetailLine("help", "call Initialize() before WriteVariable()")));
}

absl::Status Session::WriteVariable(absl::string_view name,
                                    const HostTensor& value) {
  MTF_ASSIGN_OR_RETURN(const VariableInfo* info, FindSettable(graph(), name));
  const DType wide =
      info->master_value.valid() ? info->master_value.dtype() : info->dtype;
  MTF_RETURN_IF_ERROR(CheckFits(*info, wide, value));
  MTF_RETURN_IF_ERROR(state_->ranks->SignIn(
      absl::StrCat("WriteVariable(", Quoted(info->name), ")")));
  if (state_->ranks->launched()) {
    MTF_RETURN_IF_ERROR(CheckSamePlan(state_->ranks->communicator(0),
                                      FieldsOfFeeds({{info->name, value}})));
  }
  const HostTensor master = InDType(value, wide);
  const HostTensor rounded = InDType(master, info->dtype);
  state_->untrained.NoteSet(*info);
  return state_->ranks->RunAgreed([&](int i, Communicator&) -> absl::Status {
    state_->devices[i]->EnterThread();
    MTF_RETURN_IF_ERROR(state_->Store(info->name, rounded, i));
    if (info->master < 0) return absl::OkStatus();
    return state_->Store(graph().variables()[info->master].name, master, i);
  });
}

}  // namespace mtf::train
