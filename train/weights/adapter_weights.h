// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_WEIGHTS_ADAPTER_WEIGHTS_H_
#define TRAIN_WEIGHTS_ADAPTER_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/graph.h"
#include "nn/layers/adapter.h"
#include "nn/models/weight_map.h"

namespace mtf::train {

// An adapter and the linear layers of the published model that it adapts: one,
// or one for each expert.
//
// The kernels of several layers may be parts of one layer of the published
// model, such as queries, keys and values of GPT-2. The adapter of that layer
// has the sum of their ranks: its A has one block of rows for each kernel, and
// its B the blocks of a block-diagonal matrix.
struct AdapterWeights {
  std::string kernel;  // the name of the parameter
  nn::internal::AdapterVariables variables;
  int64_t rank = 0;
  std::vector<std::string> modules;  // "transformer.h.0.attn.c_attn"
  // The same by the names of published tensors, which older files of PEFT have.
  std::vector<std::string> older_modules;
  nn::ParameterWeights published;  // of the kernel
  int fan_in_dim = 0;              // of the published tensor: 0 or 1
  // The kernel is index `part` of `parts` equal parts of the outputs of the
  // published layer, and `block` of `blocks` that have adapters.
  int64_t part = 0, parts = 1;
  int64_t block = 0, blocks = 1;
};

// The adapters of the model in `scope`, in the order of their kernels.
// kUnimplemented for a kernel whose published tensor is not a matrix of outputs
// and inputs, or is a part of a fusion of inputs; kInvalidArgument if parts of
// one layer have adapters of different ranks.
absl::StatusOr<std::vector<AdapterWeights>> FindAdapterWeights(
    const Graph& graph, const nn::WeightMap& map, absl::string_view scope);

// How the rows of A and the columns of B of a file belong to the adapter.
enum class RankBlocks {
  kOwn,     // the adapter has the block `block` of `blocks`
  kShared,  // all parts of a fused layer read the same A
};

// Where A [adapter_rank, inputs] and B [outputs, adapter_rank] are in files of
// PEFT: "base_model.model.<module>.lora_A.weight".
nn::ParameterWeights WeightsOfA(const Graph& graph,
                                const AdapterWeights& adapter,
                                RankBlocks blocks);
nn::ParameterWeights WeightsOfB(const Graph& graph,
                                const AdapterWeights& adapter,
                                RankBlocks blocks);

// The name of a tensor: `matrix` is 'A' or 'B'. A slash before it says that the
// prefix of the map does not apply.
std::string AdapterTensor(absl::string_view module, char matrix);

}  // namespace mtf::train

#endif  // TRAIN_WEIGHTS_ADAPTER_WEIGHTS_H_
