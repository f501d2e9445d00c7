// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/adapter.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "mtf/errors.h"
#include "mtf/scope_pattern.h"
#include "mtf/status.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "nn/layers/pattern_check.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "ops/variable.h"

namespace mtf::nn {
namespace internal {

// One scope, and those around it.
struct AdapterState {
  Graph* graph = nullptr;
  AdapterOptions options;
  std::source_location location;
  std::shared_ptr<AdapterState> outer;
  bool is_valid = false;
  // The scopes of the Dense layers that were built.
  std::vector<std::string> layers;
};

namespace {

constexpr char kScope[] = "adapter";

// The innermost scope of this thread.
std::shared_ptr<AdapterState>& Innermost() {
  thread_local std::shared_ptr<AdapterState> innermost;
  return innermost;
}

absl::Status CheckOptions(const AdapterOptions& options) {
  if (options.pattern.empty() || !IsScopePattern(options.pattern)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", options.pattern,
        "\" is not a pattern of layers\n  help     write .pattern = "
        "\"**/attention\" for the projections of attention, or \"**\" for "
        "every Dense layer"));
  }
  if (options.rank < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(".rank is ", options.rank, ", but at least 1 is needed"));
  }
  if (!std::isfinite(options.alpha)) {
    return absl::InvalidArgumentError(
        absl::StrCat(".alpha is ", options.alpha, ", not finite"));
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".dropout is ", options.dropout, ", but rates are in [0, 1)"));
  }
  return absl::OkStatus();
}

// The options for the layer whose scope is `name`; null if it has no adapter.
// Notes the name in all scopes, for the error of one that matches nothing.
const AdapterOptions* OptionsFor(Graph& graph, const std::string& name) {
  const AdapterOptions* found = nullptr;
  for (AdapterState* state = Innermost().get(); state != nullptr;
       state = state->outer.get()) {
    if (state->graph != &graph || !state->is_valid) continue;
    state->layers.push_back(name);
    if (found == nullptr && ScopeMatches(state->options.pattern, name)) {
      found = &state->options;
    }
  }
  return found;
}

const VariableInfo* FindParameter(const Graph& graph, absl::string_view name) {
  for (const VariableInfo& info : graph.variables()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

// A layer of the scope `name` that was built with an adapter must not lose it
// without a word where it is built again.
absl::Status CheckHasNone(const Graph& graph, const std::string& name) {
  if (!graph.reuses_variables()) return absl::OkStatus();
  const VariableInfo* a =
      FindParameter(graph, absl::StrCat(name, "/", kScope, "/a"));
  if (a == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the layer \"", name, "\" has an adapter, created at ",
      a->call_site.ToString(),
      ", and is built again without one\n  help     open an AdapterScope of "
      "the same pattern and rank; with .bypass for the model without "
      "adapters"));
}

absl::Status CheckDimensions(const Shape& x, const Shape& output) {
  for (const Shape& shape : {x, output}) {
    if (!shape.Contains(kAdapterRank)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a layer with an adapter has the dimension \"", kAdapterRank, "\" in [",
        shape.ToString(), "]\n  help     Rename() it"));
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<AdapterState> CurrentAdapters() { return Innermost(); }

RestoredAdapters::RestoredAdapters(std::shared_ptr<AdapterState> state)
    : previous_(std::exchange(Innermost(), std::move(state))) {}

RestoredAdapters::~RestoredAdapters() { Innermost() = std::move(previous_); }

Tensor AddAdapter(Tensor y, Tensor x, const Shape& each, const Shape& reduced,
                  const Shape& output, std::source_location location) {
  Graph& graph = x.graph();
  const std::string name = graph.scopes()[y.operation()->scope()];
  const AdapterOptions* options = OptionsFor(graph, name);
  absl::Status status;
  if (options == nullptr) status = CheckHasNone(graph, name);
  if (options == nullptr || options->bypass) {
    return status.ok()
               ? y
               : graph.Fail(status, "adapter", location, y.shape(), y.dtype());
  }
  const LayerScope layer(graph, kScope, location);
  status = CheckDimensions(x.shape(), output);
  if (!status.ok()) {
    return graph.Fail(status, "adapter", location, y.shape(), y.dtype());
  }
  const Dimension rank{kAdapterRank, options->rank};
  const Tensor a =
      Kernel(graph, "a", reduced, {rank}, x.dtype(), {.each = each});
  const Tensor b = Kernel(graph, "b", {rank}, output, x.dtype(),
                          {.init = ConstantValue(0), .each = each});
  const double ratio = options->alpha / static_cast<double>(options->rank);
  const Tensor scale =
      Variable(graph, "scale", Constant(graph, ratio, kFloat32, {}),
               {.trainable = false});
  if (options->dropout != 0) x = Dropout(x, options->dropout);
  Shape kept = x.shape();
  for (const Dimension& dim : reduced) kept = kept.Without(dim.name);
  // The scale stays f32, as where adapters are merged: only the product is
  // rounded.
  const Tensor h = To(kFloat32, Einsum({x, a}, kept.With(rank))) * scale;
  return y + Einsum({To(x.dtype(), h), b}, y.shape());
}

std::optional<AdapterVariables> FindAdapter(const Graph& graph,
                                            const VariableInfo& kernel) {
  absl::string_view layer = kernel.name;
  if (!absl::ConsumeSuffix(&layer, "/kernel")) return std::nullopt;
  AdapterVariables found;
  const std::pair<const char*, int*> names[] = {
      {"a", &found.a}, {"b", &found.b}, {"scale", &found.scale}};
  for (const auto& [name, id] : names) {
    const VariableInfo* info =
        FindParameter(graph, absl::StrCat(layer, "/", kScope, "/", name));
    if (info == nullptr) return std::nullopt;
    *id = info->id;
  }
  return found;
}

}  // namespace internal

AdapterScope::AdapterScope(Graph& graph, AdapterOptions options,
                           std::source_location location) {
  const absl::Status status = internal::CheckOptions(options);
  if (!status.ok()) graph.Fail(status, "adapter_scope", location);
  state_ = std::make_shared<internal::AdapterState>(
      internal::AdapterState{.graph = &graph,
                             .options = std::move(options),
                             .location = location,
                             .outer = internal::Innermost(),
                             .is_valid = status.ok(),
                             .layers = {}});
  internal::Innermost() = state_;
}

AdapterScope::~AdapterScope() {
  // Not always the innermost one: containers destroy scopes in any order.
  std::shared_ptr<internal::AdapterState>* link = &internal::Innermost();
  while (*link != nullptr && *link != state_) link = &(*link)->outer;
  if (*link != nullptr) *link = state_->outer;
  if (!state_->is_valid) return;
  const absl::Status status = internal::CheckMatches(
      ".pattern", state_->options.pattern, state_->layers, "Dense layer");
  if (status.ok()) return;
  state_->graph->Fail(
      absl::InvalidArgumentError(absl::StrCat(
          status.message(),
          "; embeddings, heads of language models and convolutions have no "
          "adapters: train them whole, by their names in .only")),
      "adapter_scope", state_->location);
}

}  // namespace mtf::nn
