// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_TRAIN_MASKED_MODEL_H_
#define TOOLS_TRAIN_MASKED_MODEL_H_

#include "absl/status/statusor.h"
#include "mtf/graph.h"
#include "nn/models/config_fields.h"
#include "tools/train/model_request.h"
#include "tools/train/trained_model.h"

namespace mtf::tools {

// BERT, which predicts masked tokens: the rows of MaskedRows
// (train/data/rows/masked_rows.h). With `request.next_sentence` rows are pairs
// of sentences, and it also predicts whether the second follows the first.
// Otherwise that head is built, so that published weights can be loaded and
// written, and is not trained.
//
// kInvalidArgument for a wrong config, a vocabulary below that of the
// tokenizer, or a prompt; and the errors of the graph.
absl::StatusOr<TrainedModel> BuildMaskedModel(Graph& graph,
                                              const nn::ConfigFields& fields,
                                              const ModelRequest& request);

}  // namespace mtf::tools

#endif  // TOOLS_TRAIN_MASKED_MODEL_H_
