// SPDX-License-Identifier: Apache-2.0
//
// Adapters (nn/layers/adapter.h) in the files of the package PEFT: the folder
// has adapter_model.safetensors and adapter_config.json.
#ifndef TRAIN_WEIGHTS_ADAPTERS_H_
#define TRAIN_WEIGHTS_ADAPTERS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/dtype.h"
#include "nn/models/weight_map.h"
#include "train/session/session.h"

namespace mtf::train {

struct ExportAdaptersOptions {
  std::string scope = "";  // in which the model was built
  // "base_model_name_or_path" of the config: the folder or name of the model
  // without adapters. Empty: null.
  std::string base_model = "";
  DType dtype = kFloat32;  // of the tensors: f32, bf16 or f16
};

// Writes the adapters of a model to the new folder `path`, with the names of
// PEFT's LoRA:
//
//   base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight  rank x in
//   base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight  out x rank
//
// Adapters of kernels that are one layer of the published model, such as
// queries, keys and values of GPT-2, become one of the sum of their ranks. Each
// rank of the job writes its shards.
//
// Every process of a job makes the same call and sees the same folder.
// kNotFound if the model has no adapter; kAlreadyExists if there is such a
// file; kInvalidArgument for a dtype that is not a float, and if such kernels
// have adapters of different ranks or scales; kUnimplemented for a kernel that
// is no matrix in published weights.
absl::Status ExportAdapters(Session& session, const nn::WeightMap& map,
                            const std::string& path,
                            const ExportAdaptersOptions& options = {});

struct LoadAdaptersOptions {
  std::string scope = "";  // as above
  // Allows adapters without tensors, which keep their values, and tensors
  // without an adapter.
  bool partial = false;
};

// Sets the adapters of an initialized session, with their scales, to those in
// the folder `path`. The ranks are those of the file; a file may have one A for
// all parts of a fused layer. Returns the number of adapters that were set.
// Each rank of the job reads the elements of its shards.
//
// Every process of a job makes the same call and can read the files. kNotFound
// if the model has no adapter, or one that the file lacks; kInvalidArgument for
// other sizes or another rank, for tensors that no adapter uses, and for a B
// that adapts a part of a fused layer that has no adapter; kUnimplemented for
// other methods of PEFT than LoRA and variants such as DoRA, for trained
// biases, and for adapters of embeddings; and the errors of SafetensorsSet. A
// failed call may have set some of them.
absl::StatusOr<int64_t> LoadAdapters(Session& session, const nn::WeightMap& map,
                                     const std::string& path,
                                     const LoadAdaptersOptions& options = {});

}  // namespace mtf::train

#endif  // TRAIN_WEIGHTS_ADAPTERS_H_
