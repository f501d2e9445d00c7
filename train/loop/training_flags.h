// SPDX-License-Identifier: Apache-2.0
//
// The flags of the training loop, which a program has if it calls
// TrainWithFlags.
#ifndef TRAIN_LOOP_TRAINING_FLAGS_H_
#define TRAIN_LOOP_TRAINING_FLAGS_H_

#include <string>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "train/loop/trainer.h"
#include "train/session/session.h"

ABSL_DECLARE_FLAG(std::string, checkpoint_dir);

namespace mtf::train {

// Train() with the options of the command line: --checkpoint_dir, --save_every,
// --keep and --resume; --eval_every, --best and --patience; --sample_every;
// --events, --histograms_every and --histograms_of; --on_non_finite, --on_spike
// and --spike_deviations; --peak_of.
//
//   MTF_ASSIGN_OR_RETURN(const train::TrainingResult result,
//                        train::TrainWithFlags(*session, {...}));
//
// `training` says what the program can do: a flag that needs a part which it
// does not have, such as an evaluation, is kInvalidArgument. The flags are kept
// with each checkpoint; when a run resumes, flags of the model, the data and
// the optimizer that differ are reported. Other errors are those of Train.
absl::StatusOr<TrainingResult> TrainWithFlags(Session& session,
                                              Training training);

// Whether --on_non_finite is skip, which needs an optimizer with
// `.skip_non_finite`.
bool SkipsNonFinite();

}  // namespace mtf::train

#endif  // TRAIN_LOOP_TRAINING_FLAGS_H_
