// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "backends/communicators/launcher.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/safetensors.h"
#include "train/crc32c.h"

namespace mtf::train {

CheckpointWriter::CheckpointWriter(CheckpointJob job) : job_(std::move(job)) {
  thread_ = std::thread([this] { Run(); });
}

CheckpointWriter::~CheckpointWriter() {
  if (thread_.joinable()) thread_.join();
}

std::string CheckpointWriter::saving() const {
  return PathIn(job_.folder, SavingFolderName(job_.manifest.step));
}

void CheckpointWriter::Run() {
  const absl::Status written = CatchExceptions([&] { return WriteParts(); });
  job_.parts.clear();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    parts_done_ = true;
    parts_status_ = written;
  }
  changed_.notify_all();
  if (!written.ok() || !job_.commits) return;
  const absl::Status committed = CatchExceptions([&] { return Commit(); });
  if (committed.ok() && job_.on_commit != nullptr) {
    job_.on_commit(job_.manifest);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  commit_status_ = committed;
}

absl::Status CheckpointWriter::WaitForParts() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return parts_done_; });
  return parts_status_;
}

absl::Status CheckpointWriter::Wait(bool cancel) {
  if (cancel) cancelled_ = true;
  if (thread_.joinable()) thread_.join();
  return parts_status_.ok() ? commit_status_ : parts_status_;
}

// Writes the shards of all ranks of this process before it waits for the disk,
// which writes the first files while the others are copied.
absl::Status CheckpointWriter::WriteParts() {
  std::vector<Manifest> written(job_.parts.size());
  std::vector<std::unique_ptr<SafetensorsWriter>> writers(job_.parts.size());
  MTF_RETURN_IF_ERROR(ForEachPart([&](size_t i) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(writers[i], WriteShards(job_.parts[i], written[i]));
    return absl::OkStatus();
  }));
  MTF_RETURN_IF_ERROR(ForEachPart([&](size_t i) {
    return writers[i] == nullptr ? absl::OkStatus() : writers[i]->Finish();
  }));
  for (size_t i = 0; i < job_.parts.size(); ++i) {
    if (job_.commits) {
      MergeManifest(written[i], job_.manifest);
    } else {
      MTF_RETURN_IF_ERROR(LeavePart(job_.parts[i].rank, std::move(written[i])));
    }
  }
  return absl::OkStatus();
}

// Calls `body` with the index of each part, in as many threads as there are
// cores: one thread copies and sums fewer bytes than a fast disk writes.
// Returns the first error by index, after which no further part is begun.
absl::Status CheckpointWriter::ForEachPart(
    absl::FunctionRef<absl::Status(size_t part)> body) const {
  const size_t parts = job_.parts.size();
  std::vector<absl::Status> statuses(parts);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < parts; i = next++) {
      statuses[i] = CatchExceptions([&] { return body(i); });
      if (!statuses[i].ok()) next = parts;
    }
  };
  {
    std::vector<std::jthread> helpers;
    // If the system has no more threads, those that it has do the work.
    (void)CatchExceptions([&] {
      const auto cores = static_cast<size_t>(AllowedCores());
      for (size_t i = 1; i < std::min(parts, cores); ++i) {
        helpers.emplace_back(work);
      }
      return absl::OkStatus();
    });
    work();
  }
  for (const absl::Status& status : statuses) MTF_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

// Writes the shards of one rank to its file, which is not durable yet, and
// describes them in `written`. Null for a rank without shards.
absl::StatusOr<std::unique_ptr<SafetensorsWriter>>
CheckpointWriter::WriteShards(const RankPart& part, Manifest& written) {
  if (part.shards.empty()) return nullptr;
  std::vector<SafetensorsSpec> specs;
  for (const RankPart::Shard& shard : part.shards) {
    specs.push_back({job_.manifest.variables[shard.variable].name, shard.dtype,
                     SizesOf(shard.ranges)});
  }
  const std::string name = ShardFileName(part.rank);
  MTF_ASSIGN_OR_RETURN(
      std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::Create(PathIn(saving(), name), specs,
                                {{"format", "mtf checkpoint"},
                                 {"save_id", job_.manifest.save_id},
                                 {"step", absl::StrCat(job_.manifest.step)},
                                 {"rank", absl::StrCat(part.rank)}},
                                job_.files));
  written.files.push_back(
      {name, writer->header().file_bytes, Crc32c(writer->beginning())});
  for (const RankPart::Shard& shard : part.shards) {
    ManifestVariable& variable =
        written.variables.emplace_back(job_.manifest.variables[shard.variable]);
    variable.shards = {{0, shard.ranges, {}}};
    MTF_RETURN_IF_ERROR(
        WriteValues(*writer, variable.name,
                    {shard.values.get(), static_cast<size_t>(shard.bytes)},
                    variable.shards[0].checksums));
  }
  return writer;
}

// Writes the values in parts that are in the cache since they were summed.
absl::Status CheckpointWriter::WriteValues(SafetensorsWriter& writer,
                                           const std::string& name,
                                           absl::string_view values,
                                           std::vector<uint32_t>& checksums) {
  constexpr int64_t kBytesInCache = 1 << 20;
  const int64_t block = job_.manifest.block_bytes;
  const int64_t step = block * std::max<int64_t>(kBytesInCache / block, 1);
  const auto size = static_cast<int64_t>(values.size());
  for (int64_t at = 0; at < size; at += step) {
    const absl::string_view bytes = values.substr(at, step);
    for (uint32_t checksum : BlockChecksums(bytes, block)) {
      checksums.push_back(checksum);
    }
    MTF_RETURN_IF_ERROR(writer.WriteBytes(name, at, bytes));
  }
  return absl::OkStatus();
}

// Leaves the checksums of the shards of a rank for the process that commits.
// They need not be durable, and a reader sees by the checksum of the part
// whether it is complete.
absl::Status CheckpointWriter::LeavePart(int64_t rank, Manifest written) {
  written.save_id = job_.manifest.save_id;
  written.step = job_.manifest.step;
  written.block_bytes = job_.manifest.block_bytes;
  const std::string text = ManifestText(written);
  MTF_ASSIGN_OR_RETURN(
      const std::unique_ptr<WritableFile> file,
      job_.files->OpenToWrite(PathIn(saving(), PartFileName(rank)),
                              WriteMode::kCreate));
  MTF_RETURN_IF_ERROR(
      file->Write(0, text.data(), static_cast<int64_t>(text.size())));
  return file->Close();
}

// Waits until another process has written its shards.
absl::StatusOr<Manifest> CheckpointWriter::WaitForPart(int64_t rank) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const std::string path = PathIn(saving(), PartFileName(rank));
  while (true) {
    const absl::StatusOr<std::string> text =
        ReadWhole(*job_.files, path, Links::kReject, kMostManifestBytes);
    if (text.ok()) {
      absl::StatusOr<Manifest> part = ParseManifest(*text, Coverage::kPart);
      if (part.ok() && part->save_id == job_.manifest.save_id) return part;
    } else if (!absl::IsNotFound(text.status())) {
      return text.status();
    }
    if (cancelled_) return absl::CancelledError("another rank failed");
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (waited.count() > job_.commit_timeout) {
      return absl::DeadlineExceededError(absl::StrCat(
          "rank ", rank, " has not written its shards to ", Quoted(path),
          " within ", job_.commit_timeout, " s",
          DetailLine("help",
                     "all processes need the same folder; a slow disk "
                     "needs a larger .commit_timeout")));
    }
    // Looks more rarely the longer it waits, so that a shared disk is not kept
    // busy and the commit is late by an eighth of the wait at most.
    std::this_thread::sleep_for(std::chrono::duration<double>(
        std::clamp(waited.count() / 8, 0.002, 0.2)));
  }
}

absl::Status CheckpointWriter::Commit() {
  FileSystem& files = *job_.files;
  for (int64_t rank : job_.other_ranks) {
    MTF_ASSIGN_OR_RETURN(const Manifest part, WaitForPart(rank));
    MergeManifest(part, job_.manifest);
  }
  MTF_RETURN_IF_ERROR(CheckCoverage(job_.manifest));
  for (int64_t rank : job_.other_ranks) {
    MTF_RETURN_IF_ERROR(files.Remove(PathIn(saving(), PartFileName(rank))));
  }
  MTF_RETURN_IF_ERROR(WriteDurably(files, PathIn(saving(), kManifestName),
                                   ManifestText(job_.manifest)));
  MTF_RETURN_IF_ERROR(files.SyncFolder(saving()));
  MTF_RETURN_IF_ERROR(files.Rename(
      saving(), PathIn(job_.folder, StepFolderName(job_.manifest.step))));
  return files.SyncFolder(job_.folder);
}

}  // namespace mtf::train
