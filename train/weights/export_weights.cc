// SPDX-License-Identifier: Apache-2.0
//
// ExportWeights.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "layouts/text_items.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "mtf/write_file.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/safetensors_set.h"
#include "train/session/rank_variables.h"
#include "train/weights/load_weights.h"
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

struct ExportFile {
  std::string name;
  std::vector<SafetensorsSpec> specs;
  int64_t bytes = 0;
  std::unique_ptr<SafetensorsWriter> writer;
};

// The files of an export, the same in every process.
class WeightExport {
 public:
  WeightExport(const Graph& graph, const nn::WeightMap& map, std::string path,
               const ExportWeightsOptions& options)
      : graph_(graph), map_(map), path_(std::move(path)), options_(options) {}

  // Chooses the files of all tensors.
  absl::Status Plan() {
    if (!IsFloat(options_.dtype)) {
      return absl::InvalidArgumentError(
          absl::StrCat("weights are exported as floats, not as ",
                       DTypeName(options_.dtype)));
    }
    MTF_ASSIGN_OR_RETURN(weights_,
                         nn::ResolveWeights(graph_, map_, options_.scope));
    for (const nn::ParameterWeights& weights : weights_) {
      for (const std::string& tensor : weights.tensors)
        AddTensor(tensor, weights);
    }
    for (const auto& [name, parts] : missing_parts_) {
      if (parts <= 1e-9) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the model lacks parameters of which tensor ", Quoted(name),
          " consists",
          DetailLine("help", "check that the map is that of the model")));
    }
    for (size_t i = 0; i < files_.size(); ++i) {
      files_[i].name = files_.size() == 1
                           ? "model.safetensors"
                           : absl::StrFormat("model-%05d-of-%05d.safetensors",
                                             i + 1, files_.size());
    }
    return absl::OkStatus();
  }

  // Creates the files, or opens those that the first process has created.
  absl::Status Open(bool create) {
    if (create) {
      std::error_code error;
      std::filesystem::create_directories(path_, error);
      if (error) {
        return absl::UnavailableError(absl::StrCat(
            "cannot create folder ", Quoted(path_), ": ", error.message()));
      }
    }
    for (ExportFile& file : files_) {
      const std::string name = absl::StrCat(path_, "/", file.name);
      MTF_ASSIGN_OR_RETURN(
          file.writer,
          create ? SafetensorsWriter::Create(name, file.specs, FileMetadata())
                 : SafetensorsWriter::Join(name, file.specs, FileMetadata()));
    }
    return absl::OkStatus();
  }

  // Writes the shards of a rank of which it has the first replica. Thread-safe.
  absl::Status WriteShards(RankVariables& rank) {
    std::map<int, const nn::ParameterWeights*> weights_of;
    for (const nn::ParameterWeights& weights : weights_) {
      const VariableInfo& info = graph_.variables()[weights.variable];
      weights_of[info.master >= 0 ? info.master : info.id] = &weights;
    }
    for (const VariableShard& shard : rank.shards()) {
      const auto weights = weights_of.find(shard.variable);
      if (weights == weights_of.end() || !shard.first_replica) continue;
      MTF_ASSIGN_OR_RETURN(const HostTensor value, rank.Read(shard));
      MTF_RETURN_IF_ERROR(WriteShard(*weights->second, shard, value));
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    for (ExportFile& file : files_) MTF_RETURN_IF_ERROR(file.writer->Finish());
    return absl::OkStatus();
  }

  // Writes the index and the config.
  absl::Status WriteTexts() const {
    if (files_.size() > 1) {
      SafetensorsIndex index;
      index.total_size = 0;
      for (const ExportFile& file : files_) {
        index.total_size += file.bytes;
        for (const SafetensorsSpec& spec : file.specs) {
          index.weight_map[spec.name] = file.name;
        }
      }
      MTF_RETURN_IF_ERROR(WriteSafetensorsIndex(
          absl::StrCat(path_, "/model.safetensors.index.json"), index));
    }
    if (options_.config.empty()) return absl::OkStatus();
    return WritePlainFile(absl::StrCat(path_, "/config.json"), options_.config,
                          "the config of the model",
                          "export to a folder that can be written");
  }

 private:
  // Adds `tensor` to the last file unless it has been added; a fused tensor is
  // the tensor of several parameters.
  void AddTensor(const std::string& tensor,
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
    int64_t bytes = DTypeSize(options_.dtype);
    for (const int64_t size : sizes) bytes *= size;
    if (files_.empty() ||
        (files_.back().bytes > 0 &&
         files_.back().bytes + bytes > options_.max_file_bytes)) {
      files_.emplace_back();
    }
    files_.back().specs.push_back({name, options_.dtype, sizes});
    files_.back().bytes += bytes;
    file_of_[name] = files_.size() - 1;
  }

  absl::Status WriteShard(const nn::ParameterWeights& weights,
                          const VariableShard& shard, const HostTensor& value) {
    const std::vector<float> values =
        FloatsOf(value.data(), value.dtype(), value.num_elements());
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
          name, piece.ranges, TensorOfFloats(shape, options_.dtype, elements)));
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const nn::WeightMap& map_;
  const std::string path_;
  const ExportWeightsOptions& options_;
  std::vector<nn::ParameterWeights> weights_;
  std::vector<ExportFile> files_;
  std::map<std::string, size_t> file_of_;        // by tensor: index of its file
  std::map<std::string, double> missing_parts_;  // by tensor: fraction
};

}  // namespace

absl::Status ExportWeights(Session& session, const nn::WeightMap& map,
                           const std::string& path,
                           const ExportWeightsOptions& options) {
  WeightExport exported(session.graph(), map, path, options);
  MTF_RETURN_IF_ERROR(exported.Plan());
  // The first process creates the files before the others open them.
  const bool first = session.is_primary();
  absl::Status status;
  if (first) status = exported.Open(true);
  MTF_RETURN_IF_ERROR(session.Agree(status));
  if (!first) status = exported.Open(false);
  if (status.ok()) {
    status = session.OnEachRank(
        [&](RankVariables& rank) { return exported.WriteShards(rank); });
  }
  if (status.ok()) status = exported.Finish();
  MTF_RETURN_IF_ERROR(session.Agree(status));
  if (first) status = exported.WriteTexts();
  return session.Agree(status);
}

}  // namespace mtf::train
