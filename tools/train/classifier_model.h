// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_TRAIN_CLASSIFIER_MODEL_H_
#define TOOLS_TRAIN_CLASSIFIER_MODEL_H_

#include "absl/status/statusor.h"
#include "mtf/graph.h"
#include "nn/models/config_fields.h"
#include "tools/train/model_request.h"
#include "tools/train/trained_model.h"

namespace mtf::tools {

// ViT and ResNet as classifiers of pictures, the rows of PictureRows
// (train/data/rows/picture_rows.h). Batch norms use their averages in
// evaluation.
//
// kInvalidArgument for a wrong config, a prompt, or another size than that of a
// ViT's config; and the errors of the graph.
absl::StatusOr<TrainedModel> BuildVitClassifier(Graph& graph,
                                                const nn::ConfigFields& fields,
                                                const ModelRequest& request);
absl::StatusOr<TrainedModel> BuildResNetClassifier(
    Graph& graph, const nn::ConfigFields& fields, const ModelRequest& request);

}  // namespace mtf::tools

#endif  // TOOLS_TRAIN_CLASSIFIER_MODEL_H_
