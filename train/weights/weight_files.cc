// SPDX-License-Identifier: Apache-2.0
#include "train/weights/weight_files.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "mtf/half.h"
#include "mtf/status.h"
#include "train/weights/weight_pieces.h"

namespace mtf::train {
namespace {

// A few MiB, for which one read is as fast as any larger one.
constexpr int64_t kBlockElements = int64_t{1} << 20;

// The present name of the tensor that a file calls `name`.
std::string PresentName(const nn::WeightMap& map, const std::string& name) {
  for (const auto& [old_end, new_end] : map.renamed_ends) {
    if (absl::EndsWith(name, old_end)) {
      return absl::StrCat(absl::StripSuffix(name, old_end), new_end);
    }
  }
  return name;
}

std::string SizesText(const std::vector<int64_t>& sizes) {
  return absl::StrCat("[", absl::StrJoin(sizes, ", "), "]");
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightFiles>> WeightFiles::Open(
    const std::string& path, const nn::WeightMap& map) {
  auto files = std::unique_ptr<WeightFiles>(new WeightFiles());
  files->path_ = path;
  files->map_ = map;
  MTF_ASSIGN_OR_RETURN(files->set_, SafetensorsSet::Open(path));
  for (const std::string& name : files->set_->names()) {
    files->name_in_file_[PresentName(map, name)] = name;
  }
  return files;
}

const SafetensorsEntry* WeightFiles::Find(const std::string& tensor) const {
  for (const bool with_prefix : {true, false}) {
    const auto at =
        name_in_file_.find(nn::TensorName(map_, tensor, with_prefix));
    if (at == name_in_file_.end()) continue;
    const auto entry = set_->Find(at->second);
    return entry.ok() ? *entry : nullptr;
  }
  return nullptr;
}

absl::Status WeightFiles::Check(const nn::ParameterWeights& weights,
                                const std::string& parameter) const {
  for (const std::string& tensor : weights.tensors) {
    if (Find(tensor) == nullptr) {
      return absl::NotFoundError(absl::StrCat(
          "no tensor ", Quoted(nn::TensorName(map_, tensor, true)), " is in ",
          Quoted(path_), ", for parameter ", Quoted(parameter),
          DetailLine("help",
                     "check that the config is that of these weights, or allow "
                     "parameters to keep their initial values")));
    }
    MTF_RETURN_IF_ERROR(CheckTensor(weights, tensor, parameter));
  }
  for (const std::string& copy : weights.copies) {
    if (Find(copy) == nullptr) continue;
    MTF_RETURN_IF_ERROR(CheckTensor(weights, copy, parameter));
  }
  return absl::OkStatus();
}

absl::Status WeightFiles::CheckTensor(const nn::ParameterWeights& weights,
                                      const std::string& tensor,
                                      const std::string& parameter) const {
  const SafetensorsEntry* entry = Find(tensor);
  const std::vector<int64_t> sizes = weights.TensorSizes();
  if (entry->sizes != sizes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(entry->name), " in ", Quoted(path_), " is ",
        entry->Describe(), ", but parameter ", Quoted(parameter), " needs ",
        SizesText(sizes),
        DetailLine("help", "check that the config is that of these weights")));
  }
  if (!entry->dtype.has_value() || !IsFloat(*entry->dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(entry->name), " in ", Quoted(path_), " is ",
        entry->Describe(), ", but parameter ", Quoted(parameter),
        " needs F32, BF16 or F16",
        DetailLine("help", "convert the file to one of these dtypes")));
  }
  return absl::OkStatus();
}

absl::StatusOr<HostTensor> WeightFiles::Read(
    const nn::ParameterWeights& weights, const Shape& shape,
    const ElementRanges& wanted) const {
  Shape local;
  for (int i = 0; i < shape.rank(); ++i) {
    local = local.With({shape[i].name, wanted[i].size});
  }
  HostTensor result(local, kFloat32);
  MTF_RETURN_IF_ERROR(result.status());
  MTF_RETURN_IF_ERROR(
      ReadInto(weights, shape, wanted, kFloat32, kFloat32, result.data()));
  return result;
}

absl::Status WeightFiles::ReadInto(const nn::ParameterWeights& weights,
                                   const Shape& shape,
                                   const ElementRanges& wanted, DType master,
                                   DType dtype, void* to) const {
  std::vector<char> bytes;
  for (const WeightPiece& whole : PiecesOf(weights, shape, wanted)) {
    const SafetensorsEntry* entry = Find(weights.tensors[whole.tensor]);
    MTF_ASSIGN_OR_RETURN(const SafetensorsFile* file,
                         set_->FileOf(entry->name));
    // In blocks, so that memory is needed for the result only.
    for (const WeightPiece& piece : BlocksOf(whole, kBlockElements)) {
      const int64_t count = piece.num_elements();
      bytes.resize(count * DTypeSize(*entry->dtype));
      MTF_RETURN_IF_ERROR(file->ReadInto(*entry, piece.ranges, bytes.data()));
      std::vector<float> values = FloatsOf(bytes.data(), *entry->dtype, count);
      if (master != kFloat32) {
        for (float& value : values) {
          value = static_cast<float>(RoundToDType(value, master));
        }
      }
      ScatterPiece(piece, values, dtype, to);
    }
  }
  return absl::OkStatus();
}

absl::Status WeightFiles::CheckCopies(const nn::ParameterWeights& weights,
                                      const Shape& shape,
                                      const ElementRanges& wanted) const {
  if (NumElements(wanted) == 0) return absl::OkStatus();
  // In blocks of rows, so that memory is needed for these only.
  const int64_t rows = wanted.empty() ? 1 : wanted[0].size,
                step = std::max<int64_t>(
                    1, kBlockElements / (NumElements(wanted) / rows));
  for (const std::string& tensor : weights.copies) {
    const SafetensorsEntry* entry = Find(tensor);
    if (entry == nullptr) continue;
    nn::ParameterWeights copy = weights;
    copy.tensors = {tensor};
    for (int64_t row = 0; row < rows; row += step) {
      ElementRanges block = wanted;
      if (!block.empty()) {
        block[0] = {wanted[0].begin + row, std::min(step, rows - row)};
      }
      MTF_ASSIGN_OR_RETURN(const HostTensor own, Read(weights, shape, block));
      MTF_ASSIGN_OR_RETURN(const HostTensor other, Read(copy, shape, block));
      if (std::memcmp(other.data(), own.data(), own.num_bytes()) == 0) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Quoted(entry->name), " in ", Quoted(path_),
          " differs from ", Quoted(Find(weights.tensors[0])->name),
          ", to which the model ties it",
          DetailLine("help",
                     "set \"tie_word_embeddings\" of the config to false if "
                     "the model has a head of its own, or set .partial to "
                     "leave this tensor out")));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> WeightFiles::Unused(
    const std::vector<nn::ParameterWeights>& used) const {
  std::set<std::string> names;
  for (const nn::ParameterWeights& weights : used) {
    for (const auto* tensors : {&weights.tensors, &weights.copies}) {
      for (const std::string& tensor : *tensors) {
        names.insert(nn::TensorName(map_, tensor, true));
        names.insert(nn::TensorName(map_, tensor, false));
      }
    }
  }
  const auto is_ignored = [&](const std::string& name) {
    for (const std::string& pattern : map_.ignored) {
      for (const bool with_prefix : {true, false}) {
        if (nn::MatchesNumbered(nn::TensorName(map_, pattern, with_prefix),
                                name)) {
          return true;
        }
      }
    }
    return false;
  };
  std::vector<std::string> unused;
  for (const auto& [name, in_file] : name_in_file_) {
    if (!names.contains(name) && !is_ignored(name)) unused.push_back(in_file);
  }
  return unused;
}

std::vector<float> FloatsOf(const void* data, DType dtype, int64_t count) {
  std::vector<float> values(count);
  if (count == 0) return values;  // memcpy takes no null
  if (dtype == kFloat32) {
    std::memcpy(values.data(), data, count * sizeof(float));
    return values;
  }
  // Most published weights; a loop of one dtype is a vector loop.
  if (dtype == kBFloat16) {
    const auto* const from = static_cast<const BFloat16*>(data);
    for (int64_t i = 0; i < count; ++i) values[i] = ToFloat(from[i]);
    return values;
  }
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(LoadElement(data, dtype, i));
  }
  return values;
}

HostTensor TensorOfFloats(const Shape& shape, DType dtype,
                          const std::vector<float>& values) {
  HostTensor result(shape, dtype);
  if (values.empty()) return result;
  if (dtype == kFloat32) {
    std::memcpy(result.data(), values.data(), values.size() * sizeof(float));
  } else if (dtype == kBFloat16) {
    auto* const elements = static_cast<BFloat16*>(result.data());
    for (size_t i = 0; i < values.size(); ++i) {
      elements[i] = ToBFloat16(values[i]);
    }
  } else {
    for (size_t i = 0; i < values.size(); ++i) {
      StoreElement(result.data(), dtype, static_cast<int64_t>(i), values[i]);
    }
  }
  return result;
}

}  // namespace mtf::train
