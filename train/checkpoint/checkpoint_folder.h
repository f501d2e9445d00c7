// SPDX-License-Identifier: Apache-2.0
//
// The names in a folder of checkpoints:
//
//   .lock                      held by the job that writes
//   step_00000300/             a checkpoint
//     manifest.json
//     shard_00000.safetensors  what rank 0 has written
//   .saving_step_00000400/     one that is being written, or was when its job
//                              was killed
//   .removing_step_00000100/   one that is being removed
#ifndef TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/file_system.h"
#include "train/checkpoint/manifest.h"

namespace mtf::train {

inline constexpr char kLockName[] = ".lock";

// "step_00000300", the same while it is written, and "shard_00003.safetensors".
std::string StepFolderName(int64_t step);
std::string SavingFolderName(int64_t step);
std::string ShardFileName(int64_t rank);
// What a process other than that of rank 0 has written: "part_00003.json".
std::string PartFileName(int64_t rank);

// The steps of the checkpoints in a folder, in order. kNotFound if there is no
// such folder.
absl::StatusOr<std::vector<int64_t>> ListSteps(FileSystem& files,
                                               const std::string& folder);

// Creates a folder and those around it, durably, unless it exists.
absl::Status MakeFolders(FileSystem& files, const std::string& folder);

// Removes a folder and its files; folders in it are an error.
absl::Status RemoveFolder(FileSystem& files, const std::string& folder);

// Removes the checkpoint of a step. A crash leaves it complete or invisible.
absl::Status RemoveCheckpoint(FileSystem& files, const std::string& folder,
                              int64_t step);

// Removes what killed jobs have left: folders that were being written or
// removed.
absl::Status RemoveLeftovers(FileSystem& files, const std::string& folder);

// The error of a damaged checkpoint, given by the path of its folder:
//
//   DATA_LOSS checkpoint "runs/a/step_00000300" is damaged
//     file     "shard_00003.safetensors"
//     why      the file is missing
//     help     restore an older checkpoint, by its step or with .fall_back
absl::Status DamagedCheckpoint(const std::string& path, const std::string& file,
                               absl::string_view detail, absl::string_view why);

// The manifest in a checkpoint's folder. kNotFound if there is no such folder;
// kDataLoss if the manifest is lost, damaged, or of another step than `step`.
absl::StatusOr<Manifest> ReadManifest(FileSystem& files,
                                      const std::string& path,
                                      std::optional<int64_t> step);

// How often a reader starts again because a checkpoint was removed or replaced
// under it. Each time another job has saved one, so more is not expected.
inline constexpr int kMostReadAttempts = 100;

// The status of reading the checkpoint at `path` whose manifest has `save_id`
// (empty: it could not be read): `read`, or kAborted if `read` is an error and
// the folder is gone or has the manifest of another save by now. Then the error
// says nothing about the checkpoint, and the reader starts again.
absl::Status AbortedIfReplaced(FileSystem& files, const std::string& path,
                               absl::string_view save_id,
                               const absl::Status& read);

// What a manifest says of its checkpoint.
CheckpointInfo InfoOf(const Manifest& manifest, const std::string& path);

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H_
