// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_CHECKPOINT_SAFETENSORS_H_
#define TRAIN_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/host_tensor.h"
#include "train/checkpoint/element_range.h"
#include "train/checkpoint/file_system.h"
#include "train/checkpoint/safetensors_header.h"

namespace mtf::train {

// A safetensors file that is open for reading. Opening it reads and checks the
// header only; tensors are read when they are asked for, in ranges. The file
// must not change meanwhile; if it is truncated, reading returns kDataLoss.
//
//   MTF_ASSIGN_OR_RETURN(const auto file,
//                        SafetensorsFile::Open("model.safetensors"));
//   for (const SafetensorsEntry& entry : file->entries()) ...
//   MTF_ASSIGN_OR_RETURN(const HostTensor rows,   // rows 128 to 255
//                        file->Read("wte.weight", {{128, 128}, {0, 768}}));
//
// Thread-safe.
class SafetensorsFile {
 public:
  struct Options {
    Links links = Links::kFollow;
    FileSystem* files = nullptr;  // null: that of the operating system
  };

  // Errors name the file. kDataLoss if it breaks a rule of the format (see
  // ParseSafetensorsHeader); those of FileSystem::Open.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(
      const std::string& path, const Options& options);
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(
      const std::string& path) {
    return Open(path, Options());
  }

  const std::string& path() const { return path_; }
  int64_t file_bytes() const { return header_.file_bytes; }
  // The bytes before the first tensor.
  const std::string& beginning() const { return beginning_; }
  // The tensors in the order of their offsets.
  const std::vector<SafetensorsEntry>& entries() const {
    return header_.entries;
  }
  const std::map<std::string, std::string>& metadata() const {
    return header_.metadata;
  }
  // kNotFound, with the nearest name, if there is no such tensor.
  absl::StatusOr<const SafetensorsEntry*> Find(absl::string_view name) const;

  // Returns a range of the tensor, as a tensor with the dimensions "d0", "d1",
  // and so on. Reads these elements only. kInvalidArgument for a dtype that mtf
  // lacks and a range outside the tensor; kDataLoss for a bool other than 0 and
  // 1.
  absl::StatusOr<HostTensor> Read(absl::string_view name,
                                  const ElementRanges& ranges) const;
  // All of it.
  absl::StatusOr<HostTensor> Read(absl::string_view name) const;

  // As Read, into `to`, which is row-major. `entry` is one of entries().
  absl::Status ReadInto(const SafetensorsEntry& entry,
                        const ElementRanges& ranges, void* to) const;

  // Reads `bytes` bytes of the file at `offset`.
  absl::Status ReadBytes(int64_t offset, void* to, int64_t bytes) const {
    return file_->Read(offset, to, bytes);
  }

 private:
  SafetensorsFile() = default;
  std::string path_, beginning_;
  std::unique_ptr<ReadableFile> file_;
  SafetensorsHeader header_;
  absl::flat_hash_map<std::string, size_t> by_name_;  // for lookup only
};

// Writes a safetensors file whose tensors are known in advance, in any order
// and in ranges. Several ranks may write one file: one creates it, the others
// call Join with the same tensors and metadata afterwards.
//
//   MTF_ASSIGN_OR_RETURN(
//       const auto writer,
//       SafetensorsWriter::Create("w.safetensors", {{"w", kFloat32, {2, 3}}},
//                                 {{"format", "mtf"}}));
//   MTF_RETURN_IF_ERROR(writer->Write("w", value));
//   MTF_RETURN_IF_ERROR(writer->Finish());
//
// A file is complete when every element has been written and every writer has
// returned OK from Finish.
class SafetensorsWriter {
 public:
  // Creates the file, which must not exist, with its header and its full size.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, const std::vector<SafetensorsSpec>& specs,
      const std::map<std::string, std::string>& metadata = {},
      FileSystem* files = nullptr);
  // Opens a file that Create has made.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Join(
      const std::string& path, const std::vector<SafetensorsSpec>& specs,
      const std::map<std::string, std::string>& metadata = {},
      FileSystem* files = nullptr);

  // Writes a tensor or a range of it. `value` has the dtype of the tensor and
  // the sizes of the range; the names of its dimensions do not matter.
  absl::Status Write(absl::string_view name, const HostTensor& value);
  absl::Status Write(absl::string_view name, const ElementRanges& ranges,
                     const HostTensor& value);
  // Writes some of the bytes of a tensor, from byte `offset` of it.
  absl::Status WriteBytes(absl::string_view name, int64_t offset,
                          absl::string_view bytes);

  // Makes what this writer has written durable and closes the file.
  absl::Status Finish();

  const SafetensorsHeader& header() const { return header_; }
  const std::string& beginning() const { return beginning_; }

 private:
  SafetensorsWriter() = default;
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Make(
      const std::string& path, const std::vector<SafetensorsSpec>& specs,
      const std::map<std::string, std::string>& metadata, FileSystem* files,
      WriteMode mode);
  absl::StatusOr<const SafetensorsEntry*> Find(absl::string_view name) const;
  std::string path_, beginning_;
  std::unique_ptr<WritableFile> file_;
  SafetensorsHeader header_;
  absl::flat_hash_map<std::string, size_t> by_name_;
};

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_SAFETENSORS_H_
