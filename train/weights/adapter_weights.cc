// SPDX-License-Identifier: Apache-2.0
#include "train/weights/adapter_weights.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

using nn::WeightFactor;

absl::Status NotAMatrix(const VariableInfo& kernel) {
  return absl::UnimplementedError(absl::StrCat(
      "the published tensor of the kernel ", Quoted(kernel.name),
      " is not a matrix of outputs and inputs, so its adapter has no names "
      "there",
      DetailLine("help",
                 "merge the adapters: ExportWeights, or mtf convert "
                 "--published")));
}

// Finds out which dimension of the published tensor has the inputs, and which
// part of the outputs the kernel is.
absl::Status FindDims(const VariableInfo& kernel, AdapterWeights& adapter) {
  const nn::ParameterWeights& published = adapter.published;
  const int outputs = kernel.kernel.each + kernel.kernel.fan_in;
  if (published.dims.size() != 2 ||
      kernel.kernel.each != (published.stacked < 0 ? 0 : 1)) {
    return NotAMatrix(kernel);
  }
  bool has_inputs[2] = {}, has_outputs[2] = {}, has_parts[2] = {};
  for (int dim = 0; dim < 2; ++dim) {
    for (const WeightFactor& factor : published.dims[dim]) {
      if (factor.dim >= outputs) {
        has_outputs[dim] = true;
      } else if (factor.dim >= 0) {
        has_inputs[dim] = true;
      } else if (factor.size > 1) {
        has_parts[dim] = true;
        adapter.part = factor.index;
        adapter.parts = factor.size;
      }
    }
  }
  adapter.fan_in_dim = has_inputs[0] ? 0 : 1;
  const int in = adapter.fan_in_dim, out = 1 - in;
  if (!has_inputs[in] || has_outputs[in] || !has_outputs[out] ||
      has_inputs[out] || has_parts[in]) {
    return NotAMatrix(kernel);
  }
  return absl::OkStatus();
}

// Numbers the adapters of each published layer.
absl::Status NumberBlocks(std::vector<AdapterWeights>& adapters) {
  std::map<std::string, std::vector<AdapterWeights*>> of_module;
  for (AdapterWeights& adapter : adapters) {
    of_module[adapter.modules[0]].push_back(&adapter);
  }
  for (const auto& [module, parts] : of_module) {
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i]->block = static_cast<int64_t>(i);
      parts[i]->blocks = static_cast<int64_t>(parts.size());
      if (parts[i]->rank == parts[0]->rank) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the kernels ", Quoted(parts[0]->kernel), " and ",
          Quoted(parts[i]->kernel), " are parts of ", Quoted(module),
          ", but their adapters have the ranks ", parts[0]->rank, " and ",
          parts[i]->rank, DetailLine("help", "give them one rank")));
    }
  }
  return absl::OkStatus();
}

// The factors of the rank of a file.
std::vector<WeightFactor> RankFactors(const AdapterWeights& adapter, int dim,
                                      RankBlocks blocks) {
  std::vector<WeightFactor> factors;
  if (blocks == RankBlocks::kOwn && adapter.blocks > 1) {
    factors.push_back(
        {.dim = -1, .size = adapter.blocks, .index = adapter.block});
  }
  factors.push_back({.dim = dim, .size = adapter.rank});
  return factors;
}

std::vector<std::string> TensorsOf(const AdapterWeights& adapter, char matrix) {
  std::vector<std::string> tensors;
  for (const std::string& module : adapter.modules) {
    tensors.push_back(AdapterTensor(module, matrix));
  }
  return tensors;
}

}  // namespace

std::string AdapterTensor(absl::string_view module, char matrix) {
  return absl::StrCat("/base_model.model.", module, ".lora_",
                      absl::string_view(&matrix, 1), ".weight");
}

absl::StatusOr<std::vector<AdapterWeights>> FindAdapterWeights(
    const Graph& graph, const nn::WeightMap& map, absl::string_view scope) {
  MTF_ASSIGN_OR_RETURN(const std::vector<nn::ParameterWeights> all,
                       nn::ResolveWeights(graph, map, scope));
  std::vector<AdapterWeights> adapters;
  for (const nn::ParameterWeights& published : all) {
    const VariableInfo& kernel = graph.variables()[published.variable];
    const std::optional<nn::internal::AdapterVariables> variables =
        nn::internal::FindAdapter(graph, kernel);
    if (!variables.has_value()) continue;
    AdapterWeights adapter;
    adapter.kernel = kernel.name;
    adapter.variables = *variables;
    adapter.rank = graph.variables()[variables->a].shape.dims().back().size;
    for (const std::string& tensor : published.tensors) {
      const std::string name = nn::TensorName(map, tensor, true);
      adapter.modules.push_back(nn::ModuleName(map, tensor));
      adapter.older_modules.emplace_back(absl::StripSuffix(name, ".weight"));
    }
    adapter.published = published;
    MTF_RETURN_IF_ERROR(FindDims(kernel, adapter));
    adapters.push_back(std::move(adapter));
  }
  MTF_RETURN_IF_ERROR(NumberBlocks(adapters));
  return adapters;
}

nn::ParameterWeights WeightsOfA(const Graph& graph,
                                const AdapterWeights& adapter,
                                RankBlocks blocks) {
  nn::ParameterWeights weights;
  weights.variable = adapter.variables.a;
  weights.tensors = TensorsOf(adapter, 'A');
  weights.stacked = adapter.published.stacked;
  // A has the dimensions of the kernel up to its inputs, then the rank.
  const int rank = graph.variables()[adapter.variables.a].shape.rank() - 1;
  weights.dims = {RankFactors(adapter, rank, blocks),
                  adapter.published.dims[adapter.fan_in_dim]};
  return weights;
}

nn::ParameterWeights WeightsOfB(const Graph& graph,
                                const AdapterWeights& adapter,
                                RankBlocks blocks) {
  const VariableInfo& kernel = graph.variables()[adapter.published.variable];
  nn::ParameterWeights weights;
  weights.variable = adapter.variables.b;
  weights.tensors = TensorsOf(adapter, 'B');
  weights.stacked = adapter.published.stacked;
  // B has the rank in place of the inputs of the kernel.
  const int rank = kernel.kernel.each;
  std::vector<WeightFactor> outputs =
      adapter.published.dims[1 - adapter.fan_in_dim];
  for (WeightFactor& factor : outputs) {
    if (factor.dim >= 0) factor.dim += 1 - kernel.kernel.fan_in;
  }
  weights.dims = {std::move(outputs), RankFactors(adapter, rank, blocks)};
  return weights;
}

}  // namespace mtf::train
