// SPDX-License-Identifier: Apache-2.0
//
// Published weights: into a session, and from it to files of the same names.
//
//   Graph graph;
//   MTF_ASSIGN_OR_RETURN(const nn::PublishedModel model,
//                        nn::BuildModel(graph, "", config, {.batch = 4}));
//   Tensor step = nn::AdamW().Minimize(model.objective);
//   MTF_ASSIGN_OR_RETURN(const auto session,
//                        Session::Create(graph, mesh, layout));
//   MTF_ASSIGN_OR_RETURN(const std::vector<std::string> loaded,
//                        LoadedVariables(graph, model.weights, "gpt2/"));
//   MTF_RETURN_IF_ERROR(session->Initialize({.set_by_caller = loaded}));
//   MTF_RETURN_IF_ERROR(
//       LoadWeights(*session, model.weights, "gpt2/").status());
//   ...
//   MTF_RETURN_IF_ERROR(ExportWeights(*session, model.weights, "tuned/",
//                                     {.config = config}));
#ifndef TRAIN_WEIGHTS_LOAD_WEIGHTS_H_
#define TRAIN_WEIGHTS_LOAD_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/dtype.h"
#include "nn/models/weight_map.h"
#include "train/session/session.h"

namespace mtf::train {

struct LoadWeightsOptions {
  // The scope in which the model was built. Parameters outside are not loaded.
  std::string scope = "";
  // Allows parameters without a tensor, which keep their values, such as a new
  // head, and tensors without a parameter.
  bool partial = false;
};

struct LoadedWeights {
  int64_t parameters = 0;  // that were loaded
  // With .partial: names of parameters that were not loaded, and of tensors
  // that no parameter uses.
  std::vector<std::string> missing, unused;
};

// The names of the variables that LoadWeights would set: parameters with their
// master copies and moving averages. A session that does not initialize them,
// as above, draws no random values for them. Reads the headers of the files;
// errors are those of LoadWeights.
absl::StatusOr<std::vector<std::string>> LoadedVariables(
    const Graph& graph, const nn::WeightMap& map, const std::string& path,
    const LoadWeightsOptions& options = {});

// Sets the parameters of an initialized session to the weights at `path`: a
// safetensors file, the index of several, or a folder with one of these. Master
// copies and moving averages of parameters are set, too; the step and the state
// of optimizers are not. Values are converted to the dtype of the parameter.
// Each rank reads the elements of its shards only, one parameter after the
// other: beyond its shards, it needs memory for one of them and a few MiB.
//
// Every process of a job makes the same call and can read the files. kNotFound
// for a parameter without a tensor; kInvalidArgument for a tensor of other
// sizes or of a dtype that is not a float, for tensors that no parameter uses,
// and for a head that differs from the embedding to which the model ties it;
// kFailedPrecondition before Initialize; and the errors of SafetensorsSet. A
// failed call may have set some of the parameters.
absl::StatusOr<LoadedWeights> LoadWeights(
    Session& session, const nn::WeightMap& map, const std::string& path,
    const LoadWeightsOptions& options = {});

struct ExportWeightsOptions {
  std::string scope = "";  // as above
  // The text of config.json to write beside the weights. Empty: none.
  std::string config = "";
  DType dtype = kFloat32;  // of the tensors: f32, bf16 or f16
  // Whether a kernel with an adapter (nn/layers/adapter.h) is written as W +
  // scale * A * B, which has the function of both. Otherwise adapters and
  // prompts are left out.
  bool merge_adapters = true;
  // With more bytes of tensors, several files and an index are written.
  int64_t max_file_bytes = int64_t{5} << 30;
};

// Writes the parameters to the new folder `path`, as published: with the names,
// orders of dimensions and fused tensors of `map`, as model.safetensors or
// several files with an index. A parameter with a master copy is written as
// that. Each rank writes its shards; nothing is gathered.
//
// Every process of a job makes the same call and sees the same folder.
// kAlreadyExists if there is such a file; kInvalidArgument for a dtype that is
// no float, or if parts of a fused tensor are missing; kFailedPrecondition for
// a model with a prompt, unless .merge_adapters is false.
absl::Status ExportWeights(Session& session, const nn::WeightMap& map,
                           const std::string& path,
                           const ExportWeightsOptions& options = {});

}  // namespace mtf::train

#endif  // TRAIN_WEIGHTS_LOAD_WEIGHTS_H_
