// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/checkpoint_writer.h"

#include <chrono>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
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
  const absl::Status written = CatchExceptions([&]() -> absl::Status {
    for (const RankPart& part : job_.parts) {
      MTF_RETURN_IF_ERROR(WritePart(part));
    }
    return absl::OkStatus();
  });
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

// Writes the shards of one rank to its file and adds them to the manifest.
absl::Status CheckpointWriter::WritePart(const RankPart& part) {
  Manifest written;
  if (!part.shards.empty()) {
    std::vector<SafetensorsSpec> specs;
    for (const RankPart::Shard& shard : part.shards) {
      specs.push_back({job_.manifest.variables[shard.variable].name,
                       shard.values.dtype(), SizesOf(shard.ranges)});
    }
    const std::string name = ShardFileName(part.rank);
    MTF_ASSIGN_OR_RETURN(
        const std::unique_ptr<SafetensorsWriter> writer,
        SafetensorsWriter::Create(PathIn(saving(), name), specs,
                                  {{"format", "mtf checkpoint"},
                                   {"save_id", job_.manifest.save_id},
                                   {"step", absl::StrCat(job_.manifest.step)},
                                   {"rank", absl::StrCat(part.rank)}},
                                  job_.files));
    written.files.push_back(
        {name, writer->header().file_bytes, Crc32c(writer->beginning())});
    for (const RankPart::Shard& shard : part.shards) {
      const ManifestVariable& described =
          job_.manifest.variables[shard.variable];
      MTF_RETURN_IF_ERROR(writer->Write(described.name, shard.values));
      ManifestVariable& variable = written.variables.emplace_back(described);
      variable.shards = {
          {0, shard.ranges,
           BlockChecksums({static_cast<const char*>(shard.values.data()),
                           shard.values.num_bytes()},
                          job_.manifest.block_bytes)}};
    }
    MTF_RETURN_IF_ERROR(writer->Finish());
  }
  if (job_.commits) {
    MergeManifest(written, job_.manifest);
    return absl::OkStatus();
  }
  // Written after the shards are durable. It need not be durable itself, and a
  // reader sees by its checksum whether it is complete.
  written.save_id = job_.manifest.save_id;
  written.step = job_.manifest.step;
  written.block_bytes = job_.manifest.block_bytes;
  const std::string text = ManifestText(written);
  MTF_ASSIGN_OR_RETURN(
      const std::unique_ptr<WritableFile> file,
      job_.files->OpenToWrite(PathIn(saving(), PartFileName(part.rank)),
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
  for (auto pause = std::chrono::milliseconds(2);;
       pause = std::min(2 * pause, std::chrono::milliseconds(200))) {
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
    std::this_thread::sleep_for(pause);
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
