// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_CHECKPOINT_SAFETENSORS_SET_H_
#define TRAIN_CHECKPOINT_SAFETENSORS_SET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/host_tensor.h"
#include "train/checkpoint/element_range.h"
#include "train/checkpoint/file_system.h"
#include "train/checkpoint/safetensors.h"

namespace mtf::train {

// The index of a model in several files, model.safetensors.index.json:
//
//   {"metadata": {"total_size": 1234},
//    "weight_map": {"wte.weight": "model-00001-of-00002.safetensors", ...}}
struct SafetensorsIndex {
  std::map<std::string, std::string> weight_map;  // tensor to file name
  int64_t total_size = -1;  // bytes of all tensors; -1 if it is not stated
};

// Parses the text of an index. kDataLoss for other JSON, an empty weight map,
// and names of files that are not in the folder of the index. The message does
// not name the file.
absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(absl::string_view text);

// Writes an index to the file `path`, which must not exist, durably.
absl::Status WriteSafetensorsIndex(const std::string& path,
                                   const SafetensorsIndex& index,
                                   FileSystem* files = nullptr);

// The tensors of one safetensors file or of all files of an index. Opening it
// reads headers only.
//
//   MTF_ASSIGN_OR_RETURN(const auto model, SafetensorsSet::Open("gpt2/"));
//   for (const std::string& name : model->names()) {
//     MTF_ASSIGN_OR_RETURN(const HostTensor value, model->Read(name));
//   }
class SafetensorsSet {
 public:
  // `path` is a safetensors file, an index (*.json), or a folder with
  // model.safetensors.index.json, model.safetensors, or one *.safetensors.
  // kNotFound for a folder without them; kDataLoss if the index and its files
  // have different tensors.
  static absl::StatusOr<std::unique_ptr<SafetensorsSet>> Open(
      const std::string& path, FileSystem* files = nullptr);

  // The names of all tensors, sorted.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const {
    return files_;
  }
  // What should be told to the user, such as a total size that is not that of
  // the tensors; some programs write wrong ones.
  const std::vector<std::string>& notices() const { return notices_; }

  // As those of SafetensorsFile.
  absl::StatusOr<const SafetensorsEntry*> Find(absl::string_view name) const;
  absl::StatusOr<HostTensor> Read(absl::string_view name,
                                  const ElementRanges& ranges) const;
  absl::StatusOr<HostTensor> Read(absl::string_view name) const;
  absl::StatusOr<const SafetensorsFile*> FileOf(absl::string_view name) const;

 private:
  SafetensorsSet() = default;
  absl::Status OpenIndex(const std::string& path, FileSystem& files);
  absl::Status AddFile(const std::string& path, FileSystem& files);
  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<std::string> names_;
  std::vector<std::string> notices_;
  std::map<std::string, const SafetensorsFile*, std::less<>> file_of_;
};

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_SAFETENSORS_SET_H_
