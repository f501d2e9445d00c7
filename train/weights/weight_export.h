// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_WEIGHTS_WEIGHT_EXPORT_H_
#define TRAIN_WEIGHTS_WEIGHT_EXPORT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "nn/models/weight_map.h"
#include "train/checkpoint/safetensors.h"
#include "train/session/rank_variables.h"
#include "train/session/session.h"
#include "train/weights/adapter_product.h"

namespace mtf::train {

// What an export writes.
struct ExportContents {
  std::vector<nn::ParameterWeights> weights;
  std::string name = "model";  // of files: "<name>.safetensors"
  std::string config = "";     // the text of `config_name`; empty: none
  std::string config_name = "config.json";
  DType dtype = kFloat32;
  int64_t max_file_bytes = int64_t{5} << 30;
  // Whether elements of a tensor that belong to no parameter are zeros; an
  // error otherwise.
  bool fills_with_zeros = false;
};

// The files of an export, the same in every process.
class WeightExport {
 public:
  WeightExport(Session& session, const nn::WeightMap& map, std::string path,
               ExportContents contents);

  // Creates the files, calls `write` in each process, which calls Write for
  // all parameters, and completes the files. Collective; kAlreadyExists if
  // there is such a file.
  absl::Status Run(absl::FunctionRef<absl::Status()> write);

  // Writes the shards of these of ExportContents::weights that are the first
  // replicas, plus the elements of `product` if it is not null.
  absl::Status Write(const std::vector<const nn::ParameterWeights*>& weights,
                     const AdapterProduct* product = nullptr);

 private:
  struct File {
    std::string name;
    std::vector<SafetensorsSpec> specs;
    int64_t bytes = 0;
    std::unique_ptr<SafetensorsWriter> writer;
  };

  // Chooses the files of all tensors.
  absl::Status Plan();
  void AddTensor(const std::string& tensor,
                 const nn::ParameterWeights& weights);
  // Creates the files, or opens those that the first process has created.
  absl::Status Open(bool create);
  absl::Status WriteShard(const nn::ParameterWeights& weights,
                          const VariableShard& shard,
                          std::vector<float> values);
  absl::Status Finish();
  // Writes the index and the config.
  absl::Status WriteTexts() const;

  Session& session_;
  const Graph& graph_;
  const nn::WeightMap& map_;
  const std::string path_;
  const ExportContents contents_;
  std::vector<File> files_;
  std::map<std::string, size_t> file_of_;        // by tensor: index of its file
  std::map<std::string, double> missing_parts_;  // by tensor: fraction
};

}  // namespace mtf::train

#endif  // TRAIN_WEIGHTS_WEIGHT_EXPORT_H_
