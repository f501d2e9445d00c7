// SPDX-License-Identifier: Apache-2.0
#include "train/session/saved_state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/errors.h"
#include "mtf/status.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/variable.h"

namespace mtf::train {
namespace {

bool Holds(DType wide, DType narrow) {
  return wide == narrow || (wide == kFloat32 && IsFloat(narrow));
}

absl::Status UnknownName(absl::StatusCode code, absl::string_view what,
                         const std::string& name,
                         const std::vector<std::string>& names) {
  const std::string nearest = NearestName(name, names);
  return absl::Status(
      code,
      absl::StrCat(
          what, " ", Quoted(name),
          nearest.empty() ? "" : absl::StrCat("; is it \"", nearest, "\"?"),
          DetailLine("help", "set .partial to load the names that both have")));
}

}  // namespace

SavedState::SavedState(Graph& graph, Options options)
    : graph_(graph), variables_(graph.variables().size()) {
  // By index: adding operations may append to graph.variables().
  for (size_t i = 0; i < variables_; ++i) {
    const VariableInfo& info = graph.variables()[i];
    if (info.master_of >= 0) continue;  // saved as its parameter
    if (info.kind == VariableKind::kState && !options.state) continue;
    Entry entry;
    entry.name = info.name;
    entry.input = absl::StrCat("saved_state/", info.name);
    entry.dtype =
        info.master_value.valid() ? info.master_value.dtype() : info.dtype;
    const Tensor value = Input(graph, entry.input, entry.dtype, info.shape);
    std::vector<Tensor> assigns = {Assign(info.read, Cast(value, info.dtype))};
    entry.read = info.read;
    if (info.master >= 0) {
      entry.read = graph.variables()[info.master].read;
      assigns.push_back(Assign(entry.read, value));
    }
    entry.load = Group(graph, std::move(assigns));
    entries_.push_back(std::move(entry));
  }
}

std::vector<std::string> SavedState::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

absl::Status SavedState::CheckComplete() const {
  if (graph_.variables().size() == variables_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "variable ", Quoted(graph_.variables()[variables_].name),
      " was created after the SavedState, which does not save it",
      DetailLine("help",
                 "create the SavedState after all other operations, "
                 "the optimizer's among them")));
}

absl::StatusOr<SavedState::Values> SavedState::Save(Session& session) const {
  MTF_RETURN_IF_ERROR(CheckComplete());
  Values values;
  // One by one, so that no device holds all gathered values at once.
  for (const Entry& entry : entries_) {
    MTF_ASSIGN_OR_RETURN(std::vector<HostTensor> value,
                         session.Run({.fetches = {entry.read}}));
    values[entry.name] = std::move(value[0]);
  }
  return values;
}

absl::Status SavedState::Load(Session& session, const Values& values,
                              LoadOptions options) const {
  MTF_RETURN_IF_ERROR(CheckComplete());
  std::vector<std::string> given;
  for (const auto& [name, value] : values) given.push_back(name);
  std::map<std::string, const Entry*> entries;
  for (const Entry& entry : entries_) {
    entries[entry.name] = &entry;
    const auto value = values.find(entry.name);
    if (value == values.end()) {
      if (options.partial) continue;
      return UnknownName(absl::StatusCode::kNotFound,
                         "there is no value for variable", entry.name, given);
    }
    const HostTensor& x = value->second;
    MTF_RETURN_IF_ERROR(CheckValue("the value of variable", entry.name, x));
    const Shape& shape = entry.read.shape();
    if (!(x.shape() == shape)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable \"", entry.name, "\" has another shape than its value",
          DetailLine("variable", DescribeTensor(entry.dtype, shape)),
          DetailLine("value", DescribeTensor(x.dtype(), x.shape()))));
    }
    if (!Holds(entry.dtype, x.dtype())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the value of variable \"", entry.name, "\" would be rounded from ",
          DTypeName(x.dtype()), " to ", DTypeName(entry.dtype),
          DetailLine("variable", DescribeTensor(entry.dtype, shape)),
          DetailLine("help",
                     "load it into a model with float32 master copies, or cast "
                     "the value first")));
    }
  }
  for (const std::string& name : given) {
    if (options.partial || entries.contains(name)) continue;
    return UnknownName(absl::StatusCode::kInvalidArgument,
                       "the model has no variable", name, names());
  }
  // All values have been checked before the first variable changes.
  for (const Entry& entry : entries_) {
    const auto value = values.find(entry.name);
    if (value == values.end()) continue;
    const HostTensor& x = value->second;
    RunRequest request = {.fetches = {entry.load}};
    request.feeds[entry.input] =
        x.dtype() == entry.dtype
            ? x
            : HostTensor::FromDoubles(x.shape(), entry.dtype, x.ToDoubles());
    MTF_RETURN_IF_ERROR(session.Run(request).status());
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
