// SPDX-License-Identifier: Apache-2.0
//
// The flags of mtf train, mtf eval and mtf convert that describe the model and
// its data.
#ifndef TOOLS_TRAIN_MODEL_FLAGS_H_
#define TOOLS_TRAIN_MODEL_FLAGS_H_

#include <memory>
#include <string>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/graph.h"
#include "tools/train/trained_model.h"
#include "train/checkpoint/checkpoint.h"
#include "train/data/batch_source.h"
#include "train/loop/evaluation.h"
#include "train/loop/flag_types.h"
#include "train/tokenizers/tokenizer.h"

ABSL_DECLARE_FLAG(std::string, adapters);
ABSL_DECLARE_FLAG(mtf::train::Count, prompt_length);
ABSL_DECLARE_FLAG(std::string, eval_data);

namespace mtf::tools {

// Builds the model of --model, --config, --batch, --length and --image_size,
// with --adapters and --prompt_length, for the tokens of `tokenizer` (null:
// any), in the precision of --precision. A preset sets --batch, --length and
// --precision that are neither given nor saved.
absl::StatusOr<TrainedModel> ModelFromFlags(Graph& graph,
                                            const train::Tokenizer* tokenizer);
// The text of --config, with the type of --model if it has none.
absl::StatusOr<std::string> PublishedConfigFromFlags();

// The tokenizer of --tokenizer, or null for "none".
absl::StatusOr<std::unique_ptr<train::Tokenizer>> TokenizerFromFlags();

// The batches of `model` in `names`, to train on: windows of text at random
// offsets, masked windows, or pictures, in an order by --seed.
absl::StatusOr<std::shared_ptr<const train::BatchSource>>
TrainingBatchesFromFlags(const std::string& names, const TrainedModel& model,
                         const train::Tokenizer* tokenizer);

// The evaluation of `model` on --eval_data, at most --eval_batches batches of
// it. kInvalidArgument if --eval_data is empty; otherwise the errors of the
// data.
absl::StatusOr<train::Evaluation> EvaluationFromFlags(
    const TrainedModel& model, const train::Tokenizer* tokenizer);

// Sets the flags that a training run has saved in its newest checkpoint in
// `folder`, so that a command needs only the folder. Flags that are given keep
// their values. Errors are those of Checkpointer::List; kNotFound if there is
// no checkpoint; kInvalidArgument for another --adapter_alpha.
absl::Status TakeSavedFlags(const std::string& folder);

// kInvalidArgument if the newest checkpoint in `folder`, if there is one, has
// adapters of another --adapter_alpha: their scales are restored, so the flag
// would have no effect.
absl::Status CheckAlphaToResume(const std::string& folder);

// kFailedPrecondition if a parameter of `graph` is not among the variables of a
// checkpoint: restored in part, it would have its initial value.
absl::Status CheckRestored(const Graph& graph,
                           const train::CheckpointInfo& saved);

}  // namespace mtf::tools

#endif  // TOOLS_TRAIN_MODEL_FLAGS_H_
