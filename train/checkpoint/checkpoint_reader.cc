// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/cpu/threads.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"
#include "mtf/host_tensor.h"
#include "mtf/status.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/crc32c.h"

namespace mtf::train {
namespace {

// Files that a process keeps open; systems allow some 1000 descriptors.
constexpr size_t kMostOpenFiles = 256;
constexpr int64_t kBytesInCache = 256 << 10;

std::string ChecksumText(uint32_t found, uint32_t stated) {
  return absl::StrFormat("checksum %08x, but the manifest says %08x", found,
                         stated);
}

// Copies `count` elements of dtype `from` to index `to` of an array of `dtype`.
void ConvertElements(const char* elements, DType from, int64_t count,
                     DType dtype, void* array, int64_t to) {
  if (from == dtype) {
    std::memcpy(static_cast<char*>(array) + to * DTypeSize(dtype), elements,
                count * DTypeSize(dtype));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(array, dtype, to + i, LoadElement(elements, from, i));
  }
}

}  // namespace

absl::StatusOr<CheckpointReader::File> CheckpointReader::OpenFile(int index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (open_.size() >= kMostOpenFiles && !open_.contains(index)) open_.clear();
  File& file = open_[index];
  if (file != nullptr) return file;
  const ManifestFile& described = manifest_.files[index];
  const auto damaged = [&](absl::string_view why) {
    return DamagedCheckpoint(path_, described.name, "", why);
  };
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> opened =
      SafetensorsFile::Open(PathIn(path_, described.name),
                            {.links = Links::kReject, .files = &files_});
  if (absl::IsNotFound(opened.status())) return damaged("the file is missing");
  if (absl::IsDataLoss(opened.status()) ||
      absl::IsInvalidArgument(opened.status())) {
    return damaged(opened.status().message());
  }
  MTF_RETURN_IF_ERROR(opened.status());
  if ((*opened)->file_bytes() != described.bytes) {
    return damaged(absl::StrCat("it has ", (*opened)->file_bytes(),
                                " bytes, but the manifest says ",
                                described.bytes));
  }
  const uint32_t checksum = Crc32c((*opened)->beginning());
  if (checksum != described.beginning_checksum) {
    return damaged(absl::StrCat(
        "its header, bytes 0-", (*opened)->beginning().size(), ", has the ",
        ChecksumText(checksum, described.beginning_checksum)));
  }
  file = *std::move(opened);
  return file;
}

absl::StatusOr<const SafetensorsEntry*> CheckpointReader::FindEntry(
    const SafetensorsFile& file, const ManifestVariable& variable,
    const ManifestShard& shard) const {
  const absl::StatusOr<const SafetensorsEntry*> entry =
      file.Find(variable.name);
  if (entry.ok() && (*entry)->dtype == variable.dtype &&
      (*entry)->sizes == SizesOf(shard.ranges)) {
    return entry;
  }
  return DamagedCheckpoint(
      path_, manifest_.files[shard.file].name,
      absl::StrCat("variable ", Quoted(variable.name)),
      entry.ok()
          ? absl::StrCat("it is ", (*entry)->Describe(),
                         ", but the manifest says ", DTypeName(variable.dtype),
                         RangesText(shard.ranges))
          : std::string(entry.status().message()));
}

int64_t CheckpointReader::BlockBytes(const SafetensorsEntry& entry,
                                     int64_t block) const {
  return std::min(manifest_.block_bytes,
                  entry.bytes - block * manifest_.block_bytes);
}

// Reads a block and compares its checksum.
absl::Status CheckpointReader::ReadBlock(const SafetensorsFile& file,
                                         const SafetensorsEntry& entry,
                                         const ManifestShard& shard,
                                         const WholeBlock& block) const {
  const int64_t begin = entry.offset + block.index * manifest_.block_bytes;
  const int64_t size = BlockBytes(entry, block.index);
  absl::Status read;
  uint32_t checksum = 0;
  // In parts that are still in the cache when they are summed.
  for (int64_t at = 0; at < size && read.ok(); at += kBytesInCache) {
    const int64_t bytes = std::min(kBytesInCache, size - at);
    read = file.ReadBytes(begin + at, block.to + at, bytes);
    checksum = Crc32c(absl::string_view(block.to + at, bytes), checksum);
  }
  if (!read.ok() && !absl::IsDataLoss(read)) return read;
  const uint32_t stated = shard.checksums[block.index];
  if (read.ok() && checksum == stated) return absl::OkStatus();
  return DamagedCheckpoint(
      path_, manifest_.files[shard.file].name,
      absl::StrCat("variable ", Quoted(entry.name), ", bytes ", begin, "-",
                   begin + size),
      read.ok() ? ChecksumText(checksum, stated) : std::string(read.message()));
}

// Calls read(begin, end) for ranges of [0, count) on the threads of the rank;
// returns the error of the lowest range.
absl::Status CheckpointReader::ForEachBlock(
    int64_t count,
    absl::FunctionRef<absl::Status(int64_t begin, int64_t end)> read) const {
  std::mutex mutex;
  int64_t failed = count;
  absl::Status first;
  cpu::ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
    const absl::Status status =
        CatchExceptions([&] { return read(begin, end); });
    if (status.ok()) return;
    const std::lock_guard<std::mutex> lock(mutex);
    if (begin >= failed) return;
    failed = begin;
    first = status;
  });
  return first;
}

// Reads the elements of `part`. Those of complete blocks that are contiguous in
// `direct`, an array of `target` in the dtype of the variable, go there; the
// others to `sink`, in order. `direct` may be null.
absl::Status CheckpointReader::ReadPart(const ManifestVariable& variable,
                                        const ManifestShard& shard,
                                        const ElementRanges& part,
                                        const ElementRanges& target,
                                        char* direct, Sink sink,
                                        int64_t* bytes_read) {
  if (NumElements(part) == 0) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(const File file, OpenFile(shard.file));
  MTF_ASSIGN_OR_RETURN(const SafetensorsEntry* entry,
                       FindEntry(*file, variable, shard));
  const int64_t element = DTypeSize(variable.dtype);
  const int64_t block_elements = manifest_.block_bytes / element;
  std::string bytes;
  int64_t current = -1;  // the block in `bytes`
  std::vector<WholeBlock> whole;
  absl::Status status;
  // Runs come in the order of the file, so each block is read once.
  ForEachRun(
      part, shard.ranges, target, [&](int64_t from, int64_t to, int64_t count) {
        while (count > 0) {
          const int64_t block = from / block_elements;
          const int64_t at = from - block * block_elements;
          const int64_t here = std::min(count, block_elements - at);
          const int64_t size = BlockBytes(*entry, block);
          if (direct != nullptr && here * element == size) {
            whole.push_back({block, direct + to * element});
            *bytes_read += size;
          } else {
            if (block != current) {
              bytes.resize(size);
              status = ReadBlock(*file, *entry, shard, {block, bytes.data()});
              if (!status.ok()) return false;
              current = block;
              *bytes_read += size;
            }
            sink(to, bytes.data() + at * element, here);
          }
          from += here;
          to += here;
          count -= here;
        }
        return true;
      });
  MTF_RETURN_IF_ERROR(status);
  return ForEachBlock(
      static_cast<int64_t>(whole.size()),
      [&](int64_t begin, int64_t end) -> absl::Status {
        for (int64_t i = begin; i < end; ++i) {
          MTF_RETURN_IF_ERROR(ReadBlock(*file, *entry, shard, whole[i]));
          MTF_RETURN_IF_ERROR(
              CheckBools(variable, shard, whole[i].to,
                         BlockBytes(*entry, whole[i].index) / element));
        }
        return absl::OkStatus();
      });
}

absl::Status CheckpointReader::CheckBools(const ManifestVariable& variable,
                                          const ManifestShard& shard,
                                          const char* elements,
                                          int64_t count) const {
  if (variable.dtype != kBool ||
      std::all_of(elements, elements + count,
                  [](char b) { return b == 0 || b == 1; })) {
    return absl::OkStatus();
  }
  return DamagedCheckpoint(path_, manifest_.files[shard.file].name,
                           absl::StrCat("variable ", Quoted(variable.name)),
                           "a bool is neither 0 nor 1");
}

absl::Status CheckpointReader::Read(const ManifestVariable& variable,
                                    const ElementRanges& wanted, DType dtype,
                                    void* to, int64_t* bytes_read) {
  char* const direct =
      dtype == variable.dtype ? static_cast<char*>(to) : nullptr;
  for (const ManifestShard& shard : variable.shards) {
    const ElementRanges part = Intersection(shard.ranges, wanted);
    absl::Status bools;
    MTF_RETURN_IF_ERROR(ReadPart(
        variable, shard, part, wanted, direct,
        [&](int64_t index, const char* elements, int64_t count) {
          bools.Update(CheckBools(variable, shard, elements, count));
          ConvertElements(elements, variable.dtype, count, dtype, to, index);
        },
        bytes_read));
    MTF_RETURN_IF_ERROR(bools);
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Verify(const ManifestVariable& variable) {
  for (const ManifestShard& shard : variable.shards) {
    if (NumElements(shard.ranges) == 0) continue;
    MTF_ASSIGN_OR_RETURN(const File file, OpenFile(shard.file));
    MTF_ASSIGN_OR_RETURN(const SafetensorsEntry* entry,
                         FindEntry(*file, variable, shard));
    MTF_RETURN_IF_ERROR(
        ForEachBlock(static_cast<int64_t>(shard.checksums.size()),
                     [&](int64_t begin, int64_t end) -> absl::Status {
                       std::string bytes;
                       for (int64_t block = begin; block < end; ++block) {
                         bytes.resize(BlockBytes(*entry, block));
                         MTF_RETURN_IF_ERROR(ReadBlock(*file, *entry, shard,
                                                       {block, bytes.data()}));
                       }
                       return absl::OkStatus();
                     }));
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
