// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/saved_variables.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/errors.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

// The most differences that a message lists of one kind.
constexpr size_t kMostListed = 20;

// Whether a value of `from` can be stored as `to` without rounding.
bool IsRestorable(DType from, DType to) {
  return from == to || (to == kFloat32 && IsFloat(from));
}

// Adds lines with one label to a message: at most kMostListed, then a count.
void AppendListed(absl::string_view label,
                  const std::vector<std::string>& lines, std::string* message) {
  for (size_t i = 0; i < lines.size() && i < kMostListed; ++i) {
    absl::StrAppend(message, DetailLine(label, lines[i]));
  }
  if (lines.size() > kMostListed) {
    absl::StrAppend(
        message,
        DetailLine(label, absl::StrCat("... and ", lines.size() - kMostListed,
                                       " more")));
  }
}

// `name` as a difference, with the most similar of `others`.
std::string NameLine(const std::string& name, DType dtype, const Shape& shape,
                     const std::vector<std::string>& others) {
  const std::string nearest = NearestName(name, others);
  return absl::StrCat(
      Quoted(name), " ", DescribeTensor(dtype, shape),
      nearest.empty() ? "" : absl::StrCat("; is it ", Quoted(nearest), "?"));
}

// The differences of a checkpoint and a model, by kind.
struct ModelDifferences {
  std::vector<std::string> missing, extra;  // in the checkpoint
  std::vector<std::string> reshaped, retyped;

  bool empty() const {
    return missing.empty() && extra.empty() && reshaped.empty() &&
           retyped.empty();
  }
};

// Compares variables of one name.
void CompareVariable(const SavedVariable& ours, const ManifestVariable& saved,
                     ModelDifferences& differences) {
  if (saved.shape != ours.shape) {
    differences.reshaped.push_back(absl::StrCat(
        Quoted(ours.name), " is ", DescribeTensor(saved.dtype, saved.shape),
        " in the checkpoint, ", DescribeTensor(ours.dtype, ours.shape),
        " in the model"));
  } else if (!IsRestorable(saved.dtype, ours.restorable)) {
    differences.retyped.push_back(absl::StrCat(
        Quoted(ours.name), " would be rounded from ", DTypeName(saved.dtype),
        " to ", DTypeName(ours.restorable)));
  }
}

ModelDifferences FindDifferences(const Manifest& manifest,
                                 const std::vector<SavedVariable>& model) {
  std::map<std::string, const ManifestVariable*> saved;
  std::map<std::string, const SavedVariable*> known;
  for (const ManifestVariable& variable : manifest.variables) {
    saved[variable.name] = &variable;
  }
  for (const SavedVariable& variable : model) known[variable.name] = &variable;
  std::vector<std::string> only_saved, only_known;
  for (const auto& [name, variable] : saved) {
    if (!known.contains(name)) only_saved.push_back(name);
  }
  for (const auto& [name, variable] : known) {
    if (!saved.contains(name)) only_known.push_back(name);
  }
  ModelDifferences differences;
  for (const SavedVariable& ours : model) {
    const auto found = saved.find(ours.name);
    if (found == saved.end()) {
      differences.missing.push_back(
          NameLine(ours.name, ours.dtype, ours.shape, only_saved));
    } else {
      CompareVariable(ours, *found->second, differences);
    }
  }
  for (const std::string& name : only_saved) {
    const ManifestVariable& variable = *saved[name];
    differences.extra.push_back(
        NameLine(name, variable.dtype, variable.shape, only_known));
  }
  return differences;
}

std::string CountText(const ModelDifferences& differences) {
  std::vector<std::string> counts;
  const auto count = [&](const std::vector<std::string>& lines,
                         absl::string_view what) {
    if (!lines.empty()) counts.push_back(absl::StrCat(lines.size(), what));
  };
  count(differences.missing, " missing");
  count(differences.extra, " extra");
  count(differences.reshaped, " of another shape");
  count(differences.retyped, " of another dtype");
  return absl::StrJoin(counts, ", ");
}

}  // namespace

std::vector<SavedVariable> SavedVariablesOf(const Graph& graph, bool state) {
  std::vector<SavedVariable> variables;
  for (const VariableInfo& info : graph.variables()) {
    if (info.master_of >= 0) continue;  // saved as its parameter
    if (info.kind == VariableKind::kState && !state) continue;
    SavedVariable& variable = variables.emplace_back();
    variable.name = info.name;
    variable.kind = info.kind;
    variable.shape = info.shape;
    variable.variable = info.id;
    variable.master = info.master;
    variable.dtype =
        info.master >= 0 ? graph.variables()[info.master].dtype : info.dtype;
    variable.restorable =
        info.master_value.valid() ? info.master_value.dtype() : info.dtype;
  }
  return variables;
}

absl::Status CompareWithModel(const Manifest& manifest,
                              const std::vector<SavedVariable>& model,
                              bool partial, std::vector<std::string>* notices,
                              const std::string& help) {
  ModelDifferences differences = FindDifferences(manifest, model);
  if (partial) {
    const auto note = [&](std::vector<std::string>& lines,
                          absl::string_view what) {
      if (!lines.empty()) {
        std::string notice = absl::StrCat(lines.size(), what);
        AppendListed("variable", lines, &notice);
        notices->push_back(std::move(notice));
      }
      lines.clear();
    };
    note(differences.missing,
         " variables of the model are not in the checkpoint and keep their "
         "values");
    note(differences.extra,
         " variables of the checkpoint are not in the model");
  }
  if (differences.empty()) return absl::OkStatus();
  std::string message =
      absl::StrCat("the checkpoint of step ", manifest.step,
                   " is not of this model: ", CountText(differences));
  AppendListed("missing", differences.missing, &message);
  AppendListed("extra", differences.extra, &message);
  AppendListed("shape", differences.reshaped, &message);
  AppendListed("dtype", differences.retyped, &message);
  absl::StrAppend(
      &message,
      DetailLine("help",
                 !help.empty() ? help
                 : differences.reshaped.empty() && differences.retyped.empty()
                     ? "build the model as it was saved, or set .partial to "
                       "restore the variables that both have"
                     : "build the model as it was saved; variables of another "
                       "shape or a narrower dtype cannot be restored"));
  return absl::FailedPreconditionError(message);
}

}  // namespace mtf::train
