// SPDX-License-Identifier: Apache-2.0
#include "train/weights/weight_export.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "mtf/write_file.h"
#include "train/checkpoint/safetensors_set.h"
#include "train/weights/shard_ranges.h"
#include "train/weights/weight_files.h"
#include "train/weights/weight_pieces.h"

namespace mtf::train {
namespace {

// What transformers asks of a file.
const std::map<std::string, std::string>& FileMetadata() {
  static const auto* metadata =
      new std::map<std::string, std::string>{{"format", "pt"}};
  return *metadata;
}

}  // namespace

WeightExport::WeightExport(Session& session, const nn::WeightMap& map,
                           std::string path, ExportContents contents)
    : session_(session),
      graph_(session.graph()),
      map_(map),
      path_(std::move(path)),
      contents_(std::move(contents)) {}

absl::Status WeightExport::Run(absl::FunctionRef<absl::Status()> write) {
  MTF_RETURN_IF_ERROR(Plan());
  // The first process creates the files before the others open them.
  const bool first = session_.is_primary();
  absl::Status status;
  if (first) status = Open(true);
  MTF_RETURN_IF_ERROR(session_.Agree(status));
  if (!first) status = Open(false);
  MTF_RETURN_IF_ERROR(session_.Agree(status));
  status = write();
  if (status.ok()) status = Finish();
  MTF_RETURN_IF_ERROR(session_.Agree(status));
  if (first) status = WriteTexts();
  return session_.Agree(status);
}

absl::Status WeightExport::Write(
    const std::vector<const nn::ParameterWeights*>& weights,
    const AdapterProduct* product) {
  std::map<int, const nn::ParameterWeights*> weights_of;
  for (const nn::ParameterWeights* each : weights) {
    const VariableInfo& info = graph_.variables()[each->variable];
    weights_of[info.master >= 0 ? info.master : info.id] = each;
  }
  return session_.OnEachRank([&](RankVariables& rank) -> absl::Status {
    for (const VariableShard& shard : rank.shards()) {
      const auto of_shard = weights_of.find(shard.variable);
      if (of_shard == weights_of.end() || !shard.first_replica) continue;
      MTF_ASSIGN_OR_RETURN(const HostTensor value, rank.Read(shard));
      std::vector<float> values =
          FloatsOf(value.data(), value.dtype(), value.num_elements());
      if (product != nullptr) {
        product->AddTo(ValidRanges(shard), absl::MakeSpan(values));
      }
      MTF_RETURN_IF_ERROR(
          WriteShard(*of_shard->second, shard, std::move(values)));
    }
    return absl::OkStatus();
  });
}

absl::Status WeightExport::Plan() {
  if (!IsFloat(contents_.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights are exported as floats, not as ", DTypeName(contents_.dtype)));
  }
  for (const nn::ParameterWeights& weights : contents_.weights) {
    for (const std::string& tensor : weights.tensors)
      AddTensor(tensor, weights);
  }
  for (const auto& [name, parts] : missing_parts_) {
    if (contents_.fills_with_zeros || parts <= 1e-9) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the model lacks parameters of which tensor ", Quoted(name),
        " consists",
        DetailLine("help", "check that the map is that of the model")));
  }
  for (size_t i = 0; i < files_.size(); ++i) {
    files_[i].name =
        files_.size() == 1
            ? absl::StrCat(contents_.name, ".safetensors")
            : absl::StrFormat("%s-%05d-of-%05d.safetensors", contents_.name,
                              i + 1, files_.size());
  }
  return absl::OkStatus();
}

// Adds `tensor` to the last file unless it has been added; a fused tensor is
// the tensor of several parameters.
void WeightExport::AddTensor(const std::string& tensor,
                             const nn::ParameterWeights& weights) {
  const std::string name = nn::TensorName(map_, tensor, true);
  const std::vector<int64_t> sizes = weights.TensorSizes();
  double part = 1;
  for (const auto& factors : weights.dims) {
    for (const nn::WeightFactor& factor : factors) {
      if (factor.dim < 0) part /= static_cast<double>(factor.size);
    }
  }
  const bool is_new = !file_of_.contains(name);
  if (is_new) missing_parts_[name] = 1;
  missing_parts_[name] -= part;
  if (!is_new) return;
  int64_t bytes = DTypeSize(contents_.dtype);
  for (const int64_t size : sizes) bytes *= size;
  if (files_.empty() ||
      (files_.back().bytes > 0 &&
       files_.back().bytes + bytes > contents_.max_file_bytes)) {
    files_.emplace_back();
  }
  files_.back().specs.push_back({name, contents_.dtype, sizes});
  files_.back().bytes += bytes;
  file_of_[name] = files_.size() - 1;
}

absl::Status WeightExport::Open(bool create) {
  if (create) {
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (error) {
      return absl::UnavailableError(absl::StrCat(
          "cannot create folder ", Quoted(path_), ": ", error.message()));
    }
  }
  for (File& file : files_) {
    const std::string name = absl::StrCat(path_, "/", file.name);
    auto writer =
        create ? SafetensorsWriter::Create(name, file.specs, FileMetadata())
               : SafetensorsWriter::Join(name, file.specs, FileMetadata());
    if (absl::IsAlreadyExists(writer.status())) {
      return absl::AlreadyExistsError(absl::StrCat(
          writer.status().message(),
          DetailLine("help", "give a new folder, or remove this file")));
    }
    MTF_ASSIGN_OR_RETURN(file.writer, std::move(writer));
  }
  return absl::OkStatus();
}

absl::Status WeightExport::WriteShard(const nn::ParameterWeights& weights,
                                      const VariableShard& shard,
                                      std::vector<float> values) {
  for (const WeightPiece& piece :
       PiecesOf(weights, shard.shape, ValidRanges(shard))) {
    std::vector<float> elements(piece.num_elements());
    GatherPiece(piece, values, absl::MakeSpan(elements));
    Shape shape;
    for (size_t i = 0; i < piece.ranges.size(); ++i) {
      shape = shape.With({absl::StrCat("d", i), piece.ranges[i].size});
    }
    const std::string name =
        nn::TensorName(map_, weights.tensors[piece.tensor], true);
    MTF_RETURN_IF_ERROR(files_[file_of_.at(name)].writer->Write(
        name, piece.ranges, TensorOfFloats(shape, contents_.dtype, elements)));
  }
  return absl::OkStatus();
}

absl::Status WeightExport::Finish() {
  for (File& file : files_) MTF_RETURN_IF_ERROR(file.writer->Finish());
  return absl::OkStatus();
}

absl::Status WeightExport::WriteTexts() const {
  if (files_.size() > 1) {
    SafetensorsIndex index;
    index.total_size = 0;
    for (const File& file : files_) {
      index.total_size += file.bytes;
      for (const SafetensorsSpec& spec : file.specs) {
        index.weight_map[spec.name] = file.name;
      }
    }
    MTF_RETURN_IF_ERROR(WriteSafetensorsIndex(
        absl::StrCat(path_, "/", contents_.name, ".safetensors.index.json"),
        index));
  }
  if (contents_.config.empty()) return absl::OkStatus();
  return WritePlainFile(absl::StrCat(path_, "/", contents_.config_name),
                        contents_.config, "the config of the model",
                        "export to a folder that can be written");
}

}  // namespace mtf::train
