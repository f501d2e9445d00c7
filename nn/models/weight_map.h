// SPDX-License-Identifier: Apache-2.0
//
// How the parameters of a model lie in the tensors of its published weights:
// names, order of dimensions, fused and stacked tensors, as data.
// train/weights/ reads and writes files with it.
#ifndef NN_MODELS_WEIGHT_MAP_H_
#define NN_MODELS_WEIGHT_MAP_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/graph.h"

namespace mtf::nn {

// Where the parameters that match a pattern are in the file.
struct WeightRule {
  // The name of parameters; each `*` stands for a number, which replaces the
  // `*` of the same order in `tensor`. "{experts}" in `tensor` says that there
  // is one tensor for each index along the dimension `experts` of the
  // parameter.
  std::string parameter;
  std::string tensor;
  // The dimensions of the tensor, each as the dimensions of the parameter of
  // which it consists, major to minor. Empty: those of the parameter, in order.
  //
  //   "(heads d_kv) d_model"      a transposed kernel, out x in
  //   "d_model (0/3 heads d_kv)"  the first of three that are fused
  //   "1 length d_model"          with a dimension of size 1
  std::string dims = "";
};

// The weights of a model. Data only.
struct WeightMap {
  std::vector<WeightRule> rules;  // the first that matches applies
  // Before the names of tensors, except those that begin with a slash; files of
  // some publishers lack it.
  std::string prefix = "";
  // Ends of names in older files, and what they are called now.
  std::vector<std::pair<std::string, std::string>> renamed_ends = {};
  // Tensors of files that the model does not need, such as masks; each `*`
  // stands for a number.
  std::vector<std::string> ignored = {};
  // Tensors that files may have besides another one of `rules`, to which they
  // are equal, such as heads that are tied to embeddings: copy, original.
  std::vector<std::pair<std::string, std::string>> copies = {};
  // Linear layers that the present package `transformers` calls otherwise than
  // their tensors in files: without ".weight", and its name, by which PEFT
  // calls their adapters.
  std::vector<std::pair<std::string, std::string>> modules = {};
};

// A part of a dimension of a tensor in a file: a dimension of the parameter,
// or, with dim -1, the index `index` of `size` equal parts.
struct WeightFactor {
  int dim = -1;
  int64_t size = 1;
  int64_t index = 0;
};

// A parameter in the file.
struct ParameterWeights {
  int variable = 0;  // the id of the parameter in the graph
  // Names of tensors as in `rules`: one, or one for each index along the
  // dimension `stacked` of the parameter.
  std::vector<std::string> tensors;
  // Of the only tensor: WeightMap::copies.
  std::vector<std::string> copies = {};
  int stacked = -1;
  // The dimensions of each tensor, as factors from major to minor.
  std::vector<std::vector<WeightFactor>> dims;

  // The sizes of a tensor in the file.
  std::vector<int64_t> TensorSizes() const;
};

// The weights of all parameters of `graph` whose names begin with `scope`,
// which is removed from names first, in the order of the graph. State of
// optimizers, master copies and moving averages have none, and neither have
// adapters and prompts, which fine-tuning adds to a model.
//
// kNotFound for another parameter without a rule; kInvalidArgument if the
// dimensions of its rule are not those of the parameter.
absl::StatusOr<std::vector<ParameterWeights>> ResolveWeights(
    const Graph& graph, const WeightMap& map, absl::string_view scope = "");

// Whether `info` is a parameter of an adapter (nn/layers/adapter.h), or the
// table of a prompt (nn/layers/prompt.h).
bool IsAdapter(const VariableInfo& info);
bool IsPrompt(const VariableInfo& info);

// The name of a tensor of a rule in a file with the prefix, or without one.
std::string TensorName(const WeightMap& map, absl::string_view tensor,
                       bool with_prefix);

// The name of the linear layer of a tensor, by which PEFT calls its adapters.
std::string ModuleName(const WeightMap& map, absl::string_view tensor);

// Whether `pattern` with `*` for numbers matches `name`; adds the numbers to
// `numbers` if so.
bool MatchesNumbered(absl::string_view pattern, absl::string_view name,
                     std::vector<std::string>* numbers = nullptr);

}  // namespace mtf::nn

#endif  // NN_MODELS_WEIGHT_MAP_H_
