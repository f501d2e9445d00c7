// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_ADAPTER_H_
#define NN_LAYERS_ADAPTER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>

#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn {

namespace internal {
struct AdapterState;
}  // namespace internal

struct AdapterOptions {
  // A pattern of the scopes of Dense layers (mtf/scope_pattern.h), such as
  // "layer_*/attention" for all its projections, or "**/query".
  std::string pattern;
  int64_t rank = 8;
  // The product of A and B is multiplied by alpha / rank.
  double alpha = 16;
  // The rate at which elements of the operand of A are dropped in training.
  double dropout = 0;
  // For a network that is built again (Scope::kReuse): the layers that match
  // have no adapter, as a reference to which the adapted model is compared.
  bool bypass = false;
};

// While alive, adds an adapter of low rank (LoRA; Hu et al., 2021) to each new
// Dense layer whose scope matches the pattern, in all layers that consist of
// some:
//
//   activation(x * kernel + alpha / rank * x * A * B + bias)
//
//   const nn::AdapterScope adapters(
//       graph, {.pattern = "**/attention", .rank = 8, .alpha = 16});
//   const nn::LanguageModel model = nn::Gpt2(tokens, config);
//   Tensor loss = nn::LanguageModelLoss(model, targets);
//   Tensor step = nn::AdamW().Minimize(loss, {.only = "**/adapter"});
//
// A is the parameter "<layer>/adapter/a" [each..., reduced..., adapter_rank],
// random as a kernel; B is "<layer>/adapter/b" [each..., adapter_rank,
// output...], initially 0, so that the function of the model does not change.
// "<layer>/adapter/scale" is alpha / rank, which is not trained. Layouts shard
// them as the kernel, by the names of their dimensions. Other initial values
// and random numbers are those of the model without adapters.
//
// The innermost scope that matches a layer applies. Embeddings, heads of
// language models (tied or not), routers of experts and convolutions are not
// Dense layers. A network that is built again needs a scope of the same pattern
// and rank. A scope belongs to the thread that builds the graph.
//
// Records kInvalidArgument in the graph if the pattern is not one, or no Dense
// layer matched it when the scope ends; if the rank is less than 1, alpha is
// not finite, or the rate is outside [0, 1); for a layer with a dimension
// "adapter_rank"; and for a layer with an adapter that is built again without a
// scope that matches it.
class AdapterScope {
 public:
  explicit AdapterScope(
      Graph& graph, AdapterOptions options,
      std::source_location location = std::source_location::current());
  ~AdapterScope();
  AdapterScope(const AdapterScope&) = delete;
  AdapterScope& operator=(const AdapterScope&) = delete;

 private:
  std::shared_ptr<internal::AdapterState> state_;
};

namespace internal {

// The dimension that A and B share.
inline constexpr char kAdapterRank[] = "adapter_rank";

// The adapters that apply to new layers: for layers that are computed again.
std::shared_ptr<AdapterState> CurrentAdapters();

// While alive, `state` applies.
class RestoredAdapters {
 public:
  explicit RestoredAdapters(std::shared_ptr<AdapterState> state);
  ~RestoredAdapters();
  RestoredAdapters(const RestoredAdapters&) = delete;
  RestoredAdapters& operator=(const RestoredAdapters&) = delete;

 private:
  std::shared_ptr<AdapterState> previous_;
};

// `y`, the product of `x` and the kernel of the layer whose scope is the
// current one, plus that of the adapter of the layer, if it has one.
Tensor AddAdapter(Tensor y, Tensor x, const Shape& each, const Shape& reduced,
                  const Shape& output, std::source_location location);

// The ids of the variables of an adapter.
struct AdapterVariables {
  int a = -1, b = -1, scale = -1;
};
// The adapter of the Dense layer that has the parameter `kernel`.
std::optional<AdapterVariables> FindAdapter(const Graph& graph,
                                            const VariableInfo& kernel);

}  // namespace internal
}  // namespace mtf::nn

#endif  // NN_LAYERS_ADAPTER_H_
