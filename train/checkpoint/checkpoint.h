// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_CHECKPOINT_CHECKPOINT_H_
#define TRAIN_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "train/session/session.h"

namespace mtf::train {

class FileSystem;

// Which metric of Checkpointer::Save is the best.
enum class BestMetric : uint8_t { kNone, kLowest, kHighest };

struct CheckpointOptions {
  // The folder of the checkpoints of one run, step_00000300 and so on. It is
  // created if needed. All processes of a job must see the same folder.
  std::string folder;
  // The number of newest checkpoints to keep; 0 keeps all.
  int keep = 3;
  // Keeps the checkpoint with the best metric in addition.
  BestMetric best = BestMetric::kNone;
  // Save returns when the values are in host memory, and a thread writes them.
  bool asynchronous = true;
  // Also saves state of the computation (VariableKind::kState), such as a cache
  // of keys and values.
  bool state = true;
  // How long rank 0 waits for the files of other processes, in seconds.
  double commit_timeout = 600;
  // The bytes of a shard that have one checksum, a multiple of 8.
  int64_t block_bytes = 1 << 20;
  // For tests; null: the file system of the operating system.
  FileSystem* files = nullptr;
};

// What a user stores beside the variables.
struct CheckpointMetadata {
  std::optional<double> metric = std::nullopt;  // for CheckpointOptions::best
  // Anything else, such as the position in the data or the loss curve.
  std::map<std::string, std::string> extra = {};
};

// A checkpoint without its values.
struct CheckpointInfo {
  int64_t step = 0;
  std::string path;     // of its folder
  absl::Status status;  // not OK: it is damaged; the members below are empty
  std::string save_id;
  uint32_t seed = 0;
  std::string mesh;             // that saved it: "data:2, model:2"
  std::string program;          // name of the program that saved it
  std::string library_version;  // of mtf
  std::optional<double> metric;
  std::map<std::string, std::string> extra;
  int64_t bytes = 0;  // of all variables
  struct Variable {
    std::string name;
    VariableKind kind = VariableKind::kParameter;
    DType dtype = kFloat32;
    Shape shape;
  };
  std::vector<Variable> variables;
};

struct RestoreOptions {
  // The step of the checkpoint; empty: the newest.
  std::optional<int64_t> step = std::nullopt;
  // Ignores saved variables that the model lacks, and keeps variables of the
  // model that were not saved. Other differences remain errors.
  bool partial = false;
  // If a checkpoint is damaged, restores the newest undamaged one before it and
  // adds a notice. Otherwise a damaged one is an error.
  bool fall_back = false;
  // Also restores state of the computation; otherwise it is ignored in the
  // checkpoint and kept in the model.
  bool state = true;
  // Reads into the memory of the variables, so that a rank holds no second copy
  // of its shards while it reads. If an error then ends the reading, the
  // session is as before Initialize, and Run fails. For a run that ends with
  // the error anyway. Without effect if `partial`.
  bool in_place = false;
  FileSystem* files = nullptr;  // for tests
  // The help of the error for a checkpoint of another model, by
  // CheckpointMetadata::extra of that checkpoint; null or "" is a general one.
  std::function<std::string(const std::map<std::string, std::string>& extra)>
      help_of_other_model = nullptr;
};

struct RestoredCheckpoint {
  CheckpointInfo info;
  // What the user should be told: damaged checkpoints that were skipped,
  // another seed, variables that were left out with `partial`.
  std::vector<std::string> notices;
  // Counted on the rank of this process with the most: the bytes that it read,
  // and the most bytes that it held at once, which are those of its shards and
  // one block.
  int64_t bytes_read = 0;
  int64_t bytes_held = 0;
};

// Saves and restores the variables and the step of a session. Saved under any
// mesh, layout and precision, a checkpoint can be restored under any other: the
// names and dtypes are those of SavedState (train/session/saved_state.h), each
// rank writes its own shards, and each rank reads what its shards need.
//
//   MTF_ASSIGN_OR_RETURN(
//       const auto checkpointer,
//       Checkpointer::Open(*session, {.folder = "runs/a", .keep = 3}));
//   const auto restored = checkpointer->Restore();  // kNotFound: from scratch
//   ...
//   while (session->step() < steps) {
//     ... session->Run(...)
//     if (session->step() % 1000 == 0) {
//       MTF_RETURN_IF_ERROR(checkpointer->Save(
//           {.metric = loss, .extra = {{"data_position", position}}}));
//     }
//   }
//   MTF_RETURN_IF_ERROR(checkpointer->Wait());
//
// A checkpoint is visible only when all its files are durable: it was saved
// when Wait, or the Save after it, returns OK. A crash at any time leaves the
// checkpoints before it as they are. docs/checkpoints.md has the format.
//
// All functions but List are collective: every process of a job makes the same
// calls, and all get the same error. Not thread-safe.
class Checkpointer {
 public:
  // Takes the folder for this job and removes what a killed job has left there.
  // kAlreadyExists if another job holds it; kInvalidArgument for options out of
  // range; the errors of the file system. The session must outlive the result.
  static absl::StatusOr<std::unique_ptr<Checkpointer>> Open(
      Session& session, const CheckpointOptions& options);
  // Waits for the thread, but its error is lost: call Wait before.
  ~Checkpointer();

  // Saves the variables as checkpoint session.step(). Waits for the Save before
  // and returns its error, if any, without saving. kAlreadyExists if there is a
  // checkpoint of this step; kInvalidArgument if `best` is set and the metric
  // is missing or not finite.
  absl::Status Save(const CheckpointMetadata& metadata = {});

  // Waits until the last Save has ended, and returns its error. Each error is
  // returned once.
  absl::Status Wait();

  // RestoreCheckpoint with the folder of this object, after Wait.
  absl::StatusOr<RestoredCheckpoint> Restore(
      const RestoreOptions& options = {});

  // The checkpoints in a folder by step, damaged ones among them. Reads
  // manifests only. kNotFound if there is no such folder.
  static absl::StatusOr<std::vector<CheckpointInfo>> List(
      const std::string& folder, FileSystem* files = nullptr);

  // What the user should be told since the last call: old checkpoints that
  // could not be removed. Only in the process of rank 0.
  std::vector<std::string> TakeNotices();

 private:
  struct State;
  explicit Checkpointer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Sets the variables and the step of an initialized session to those of a
// checkpoint. Nothing is changed on an error, unless RestoreOptions::in_place.
// Does not need to write to the folder, so that other jobs may use it: if one
// removes or replaces the checkpoint while it is read, the step is chosen and
// read again. Collective.
//
// Errors:
//   kNotFound            no such folder, checkpoint or step
//   kDataLoss            a file is lost or damaged; the message names the file,
//                        the variable and the bytes
//   kFailedPrecondition  the model has other variables, shapes or dtypes: one
//                        message lists all of them; or the session is not
//                        initialized
//   kAborted             checkpoints were removed or replaced faster than they
//                        could be read, many times in a row
absl::StatusOr<RestoredCheckpoint> RestoreCheckpoint(
    Session& session, const std::string& folder,
    const RestoreOptions& options = {});

// Reads all of a checkpoint, given by its own folder, and compares every
// checksum; reads it again if another job replaces it meanwhile. kNotFound if
// it is removed; kDataLoss and kAborted as RestoreCheckpoint. Not collective.
absl::Status VerifyCheckpoint(const std::string& path,
                              FileSystem* files = nullptr);

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_CHECKPOINT_H_
