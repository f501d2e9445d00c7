// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/errors.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

// Runs that lie this close together are read together with the bytes between
// them, which costs less than a system call for each.
constexpr int64_t kMostGapBytes = 4 << 10;
constexpr int64_t kReadAheadBytes = 1 << 20;

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("file ", Quoted(path), ": ",
                                                  status.message()));
}

absl::flat_hash_map<std::string, size_t> IndexOf(
    const std::vector<SafetensorsEntry>& entries) {
  absl::flat_hash_map<std::string, size_t> index;
  for (size_t i = 0; i < entries.size(); ++i) index[entries[i].name] = i;
  return index;
}

absl::Status CheckRange(const SafetensorsEntry& entry,
                        const ElementRanges& ranges) {
  if (IsWithin(ranges, entry.sizes)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("range ", RangesText(ranges), " is outside tensor ",
                   Quoted(entry.name), " ", entry.Describe()));
}

absl::Status CheckBools(const SafetensorsEntry& entry, const void* data,
                        int64_t elements) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  const uint8_t* bad =
      std::find_if(bytes, bytes + elements, [](uint8_t b) { return b > 1; });
  if (bad == bytes + elements) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("element ", bad - bytes, " of what was read of tensor ",
                   Quoted(entry.name), " ", entry.Describe(), " is ", *bad,
                   ", but a bool is 0 or 1"));
}

// Reads runs of bytes at increasing offsets, nearby ones together.
class RunReader {
 public:
  RunReader(const ReadableFile& file, int64_t end) : file_(file), end_(end) {}
  absl::Status Read(int64_t offset, char* to, int64_t bytes) {
    if (offset >= begin_ && offset + bytes <= begin_ + size_) {
      std::memcpy(to, buffer_.data() + (offset - begin_), bytes);
      return absl::OkStatus();
    }
    const bool near = last_end_ >= 0 && offset - last_end_ <= kMostGapBytes;
    last_end_ = offset + bytes;
    // Only the second of two neighbours shows that there are many.
    if (!near || bytes >= kReadAheadBytes / 2) {
      return file_.Read(offset, to, bytes);
    }
    begin_ = offset;
    size_ = std::min(kReadAheadBytes, end_ - offset);
    buffer_.resize(kReadAheadBytes);
    MTF_RETURN_IF_ERROR(file_.Read(begin_, buffer_.data(), size_));
    std::memcpy(to, buffer_.data(), bytes);
    return absl::OkStatus();
  }

 private:
  const ReadableFile& file_;
  int64_t end_;  // of the tensor
  int64_t last_end_ = -1;
  int64_t begin_ = 0, size_ = 0;  // what `buffer_` holds
  std::string buffer_;
};

int64_t HeaderBytesOf(const char* size) {
  uint64_t bytes = 0;
  for (int i = 0; i < 8; ++i) {
    bytes |= static_cast<uint64_t>(static_cast<uint8_t>(size[i])) << (8 * i);
  }
  return bytes > static_cast<uint64_t>(kMostSafetensorsHeaderBytes)
             ? kMostSafetensorsHeaderBytes + 1
             : static_cast<int64_t>(bytes);
}

// Reads the beginning of the file: the size of the header and the header.
absl::StatusOr<std::string> ReadBeginning(const ReadableFile& file) {
  std::string beginning(8, '\0');
  if (file.size() < 8) {
    return absl::DataLossError(
        absl::StrCat("not a safetensors file: it has ", file.size(), " bytes"));
  }
  MTF_RETURN_IF_ERROR(file.Read(0, beginning.data(), 8));
  const int64_t header = HeaderBytesOf(beginning.data());
  const int64_t most = std::min(kMostSafetensorsHeaderBytes, file.size() - 8);
  if (header > most) {
    return absl::DataLossError(absl::StrCat(
        "not a safetensors file: its first 8 bytes say that the header has "
        "more than ",
        most, " bytes",
        DetailLine("why", absl::StrCat("the file has ", file.size(),
                                       " bytes, and headers at most ",
                                       kMostSafetensorsHeaderBytes)),
        DetailLine("help",
                   "files of PyTorch (.bin, .pt), GGUF and others must "
                   "be converted to safetensors")));
  }
  beginning.resize(8 + header);
  MTF_RETURN_IF_ERROR(file.Read(8, beginning.data() + 8, header));
  return beginning;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(
    const std::string& path, const Options& options) {
  FileSystem& files =
      options.files == nullptr ? FileSystem::Real() : *options.files;
  std::unique_ptr<SafetensorsFile> result(new SafetensorsFile);
  result->path_ = path;
  MTF_ASSIGN_OR_RETURN(result->file_, files.Open(path, options.links));
  absl::StatusOr<std::string> beginning = ReadBeginning(*result->file_);
  if (!beginning.ok()) return InFile(path, beginning.status());
  result->beginning_ = *std::move(beginning);
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(
      absl::string_view(result->beginning_).substr(8), result->file_->size());
  if (!header.ok()) return InFile(path, header.status());
  result->header_ = *std::move(header);
  result->by_name_ = IndexOf(result->header_.entries);
  return result;
}

absl::StatusOr<const SafetensorsEntry*> SafetensorsFile::Find(
    absl::string_view name) const {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return &header_.entries[found->second];
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : entries()) names.push_back(entry.name);
  const std::string nearest = NearestName(name, names);
  return absl::NotFoundError(absl::StrCat(
      "file ", Quoted(path_), " has no tensor ", Quoted(name),
      nearest.empty() ? ""
                      : absl::StrCat("; did you mean ", Quoted(nearest), "?")));
}

absl::StatusOr<HostTensor> SafetensorsFile::Read(
    absl::string_view name, const ElementRanges& ranges) const {
  MTF_ASSIGN_OR_RETURN(const SafetensorsEntry* entry, Find(name));
  // Before anything is allocated.
  const absl::Status within = CheckRange(*entry, ranges);
  if (!within.ok()) return InFile(path_, within);
  std::vector<Dimension> dims;
  for (size_t i = 0; i < ranges.size(); ++i) {
    dims.push_back({absl::StrCat("d", i), ranges[i].size});
  }
  if (!entry->dtype.has_value()) return ReadInto(*entry, ranges, nullptr);
  HostTensor value(Shape(std::move(dims)), *entry->dtype);
  MTF_RETURN_IF_ERROR(value.status());
  MTF_RETURN_IF_ERROR(ReadInto(*entry, ranges, value.data()));
  return value;
}

absl::StatusOr<HostTensor> SafetensorsFile::Read(absl::string_view name) const {
  MTF_ASSIGN_OR_RETURN(const SafetensorsEntry* entry, Find(name));
  return Read(name, AllElements(entry->sizes));
}

absl::Status SafetensorsFile::ReadInto(const SafetensorsEntry& entry,
                                       const ElementRanges& ranges,
                                       void* to) const {
  if (!entry.dtype.has_value()) {
    return InFile(path_, absl::InvalidArgumentError(absl::StrCat(
                             "tensor ", Quoted(entry.name), " ",
                             entry.Describe(), " has a dtype that mtf lacks",
                             DetailLine("help",
                                        "convert it to F32, BF16, F16, I32, "
                                        "I64 or BOOL"))));
  }
  absl::Status status = CheckRange(entry, ranges);
  if (!status.ok()) return InFile(path_, status);
  const int64_t element = DTypeSize(*entry.dtype);
  RunReader reader(*file_, entry.offset + entry.bytes);
  ForEachRun(ranges, AllElements(entry.sizes), ranges,
             [&](int64_t from, int64_t target, int64_t count) {
               status = reader.Read(entry.offset + from * element,
                                    static_cast<char*>(to) + target * element,
                                    count * element);
               return status.ok();
             });
  MTF_RETURN_IF_ERROR(status);
  if (entry.dtype != kBool) return absl::OkStatus();
  status = CheckBools(entry, to, NumElements(ranges));
  return status.ok() ? status : InFile(path_, status);
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Make(
    const std::string& path, const std::vector<SafetensorsSpec>& specs,
    const std::map<std::string, std::string>& metadata, FileSystem* files,
    WriteMode mode) {
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter);
  writer->path_ = path;
  MTF_ASSIGN_OR_RETURN(
      writer->beginning_,
      MakeSafetensorsHeader(specs, metadata, &writer->header_));
  FileSystem& system = files == nullptr ? FileSystem::Real() : *files;
  MTF_ASSIGN_OR_RETURN(writer->file_, system.OpenToWrite(path, mode));
  writer->by_name_ = IndexOf(writer->header_.entries);
  return writer;
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, const std::vector<SafetensorsSpec>& specs,
    const std::map<std::string, std::string>& metadata, FileSystem* files) {
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                       Make(path, specs, metadata, files, WriteMode::kCreate));
  const auto header = static_cast<int64_t>(writer->beginning_.size());
  MTF_RETURN_IF_ERROR(
      writer->file_->Write(0, writer->beginning_.data(), header));
  if (writer->header_.file_bytes > header) {
    MTF_RETURN_IF_ERROR(
        writer->file_->Write(writer->header_.file_bytes - 1, "", 1));
  }
  return writer;
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Join(
    const std::string& path, const std::vector<SafetensorsSpec>& specs,
    const std::map<std::string, std::string>& metadata, FileSystem* files) {
  return Make(path, specs, metadata, files, WriteMode::kExisting);
}

absl::StatusOr<const SafetensorsEntry*> SafetensorsWriter::Find(
    absl::string_view name) const {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return &header_.entries[found->second];
  return absl::NotFoundError(absl::StrCat(
      "no tensor ", Quoted(name), " was announced for file ", Quoted(path_)));
}

absl::Status SafetensorsWriter::Write(absl::string_view name,
                                      const HostTensor& value) {
  ElementRanges all;
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) {
    all = AllElements(header_.entries[found->second].sizes);
  }
  return Write(name, all, value);
}

absl::Status SafetensorsWriter::Write(absl::string_view name,
                                      const ElementRanges& ranges,
                                      const HostTensor& value) {
  MTF_ASSIGN_OR_RETURN(const SafetensorsEntry* found, Find(name));
  const SafetensorsEntry& entry = *found;
  MTF_RETURN_IF_ERROR(value.status());
  absl::Status status = CheckRange(entry, ranges);
  if (!status.ok()) return InFile(path_, status);
  std::vector<int64_t> sizes;
  for (const Dimension& dim : value.shape()) sizes.push_back(dim.size);
  if (value.dtype() != entry.dtype || sizes != SizesOf(ranges)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the value for range ", RangesText(ranges), " of tensor ",
        Quoted(entry.name), " ", entry.Describe(), " in file ", Quoted(path_),
        " is ", DescribeTensor(value.dtype(), value.shape())));
  }
  const int64_t element = DTypeSize(value.dtype());
  const char* data = static_cast<const char*>(value.data());
  ForEachRun(ranges, ranges, AllElements(entry.sizes),
             [&](int64_t from, int64_t to, int64_t count) {
               status = file_->Write(entry.offset + to * element,
                                     data + from * element, count * element);
               return status.ok();
             });
  return status;
}

absl::Status SafetensorsWriter::WriteBytes(absl::string_view name,
                                           int64_t offset,
                                           absl::string_view bytes) {
  MTF_ASSIGN_OR_RETURN(const SafetensorsEntry* entry, Find(name));
  const auto size = static_cast<int64_t>(bytes.size());
  if (offset < 0 || offset > entry->bytes || size > entry->bytes - offset) {
    return InFile(path_, absl::InvalidArgumentError(absl::StrCat(
                             "bytes ", offset, "-", offset + size,
                             " are outside tensor ", Quoted(entry->name), " ",
                             entry->Describe(), ", which has ", entry->bytes)));
  }
  return file_->Write(entry->offset + offset, bytes.data(), size);
}

absl::Status SafetensorsWriter::Finish() {
  MTF_RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

}  // namespace mtf::train
