// SPDX-License-Identifier: Apache-2.0
#include "nn/experts/experts.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/experts/dispatch.h"
#include "nn/experts/router.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

using internal::ExpertDimensions;

// Experts of one level: also told about each slot, as i32 [each..., experts,
// groups..., capacity], whether it is empty (0), or has a later choice (1) or
// the first choice (2) of its token.
using LevelLayer = std::function<Tensor(Tensor x, Tensor order)>;

absl::Status CheckChoices(const Dimension& experts,
                          const ExpertsOptions& options) {
  if (options.choices >= 1 && options.choices <= experts.size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(".choices is ", options.choices, ", but must be from 1 to ",
                   experts.size, ", the size of \"", experts.name, "\""));
}

// Checks that the routing uses the options that are set.
absl::Status CheckUsed(const ExpertsOptions& options) {
  if (options.routing == Routing::kTopK) return absl::OkStatus();
  const bool by_experts = options.routing == Routing::kExpertChoice;
  absl::string_view unused;
  if (options.further != FurtherChoices::kAll) unused = ".further";
  if (by_experts && options.normalize.has_value()) unused = ".normalize";
  if (by_experts && options.prioritize) unused = ".prioritize";
  if (unused.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      unused, " is set, but has no effect with Routing::",
      by_experts ? "kExpertChoice" : "kNoTokenLeftBehind",
      "\n  help     leave it out, or set .routing to Routing::kTopK"));
}

absl::Status CheckLimit(Tensor x, const Dimension& d_model, Tensor limit) {
  if (!limit.valid()) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, limit}));
  if (limit.dtype() != kInt32 || limit.shape().Contains(d_model.name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".limit must be i32 with dimensions of \"", x.name(), "\" before \"",
        d_model.name, "\"", DescribeInputs({x, limit})));
  }
  return mtf::internal::CheckSubset(x, limit.shape());
}

absl::Status Check(Tensor x, const Dimension& experts,
                   const ExpertsOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "a mixture of experts"));
  if (x.shape().rank() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", x.name(), "\" needs a dimension of tokens and the model ",
        "dimension as its last", DescribeInputs({x})));
  }
  MTF_RETURN_IF_ERROR(Shape({experts}).Validate());
  for (absl::string_view name :
       {absl::string_view(experts.name), absl::string_view("capacity"),
        absl::string_view("choice"), absl::string_view("slots"),
        absl::string_view("order")}) {
    if (!x.shape().Contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", x.name(), "\" has the dimension \"", name,
        "\", which the layer creates", DescribeInputs({x}),
        "\n  help     Rename() it, or give the experts another name"));
  }
  MTF_RETURN_IF_ERROR(CheckChoices(experts, options));
  MTF_RETURN_IF_ERROR(CheckUsed(options));
  MTF_RETURN_IF_ERROR(CheckLimit(x, x.shape().dims().back(), options.limit));
  using mtf::internal::CheckPositive;
  MTF_RETURN_IF_ERROR(
      CheckPositive(".capacity_factor", options.capacity_factor));
  MTF_RETURN_IF_ERROR(CheckPositive(".evaluation_capacity_factor",
                                    options.evaluation_capacity_factor));
  MTF_RETURN_IF_ERROR(CheckPositive(".threshold", options.threshold));
  MTF_RETURN_IF_ERROR(mtf::internal::CheckBelowOne(".jitter", options.jitter));
  if (options.min_capacity < 1 || options.group_size < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".min_capacity is ", options.min_capacity, " and .group_size ",
        options.group_size, ", but they must be at least 1 and 0"));
  }
  return absl::OkStatus();
}

int64_t CapacityOf(int64_t tokens, int64_t experts, Mode mode,
                   const ExpertsOptions& options) {
  const double factor = mode == Mode::kEvaluate
                            ? options.evaluation_capacity_factor
                            : options.capacity_factor;
  const double choices = options.routing == Routing::kNoTokenLeftBehind
                             ? 1
                             : static_cast<double>(options.choices);
  const double slots = factor * choices * static_cast<double>(tokens);
  // Factors such as 1.1 must not add a slot by their rounding.
  const double wanted = std::ceil(slots / static_cast<double>(experts) - 1e-9);
  const double most = static_cast<double>(tokens);
  return std::min(tokens,
                  std::max(options.min_capacity,
                           static_cast<int64_t>(std::min(wanted, most))));
}

// The largest divisor of `tokens` that is at most `group_size`.
int64_t GroupSizeOf(int64_t tokens, int64_t group_size) {
  int64_t size = std::min(tokens, group_size);
  while (size > 1 && tokens % size != 0) --size;
  return size;
}

// The dimensions of `x` = [each and groups..., tokens, d_model].
ExpertDimensions DimensionsOf(Tensor x, const Shape& each,
                              const Dimension& experts,
                              const ExpertsOptions& options) {
  ExpertDimensions dims;
  const int rank = x.shape().rank();
  dims.each = each;
  for (int i = 0; i < rank - 2; ++i) {
    if (each.Contains(x.shape()[i].name)) continue;
    dims.groups = dims.groups.With(x.shape()[i]);
  }
  dims.tokens = x.shape()[rank - 2];
  dims.d_model = x.shape()[rank - 1];
  dims.experts = experts;
  dims.capacity = {"capacity", CapacityOf(dims.tokens.size, experts.size,
                                          x.graph().mode(), options)};
  return dims;
}

// Where tokens and slots meet, experts yield mesh axes to the dimensions of
// tokens; where experts compute, groups yield them to the experts.
AxisConflict ConflictOf(const ExpertDimensions& dims, bool of_experts) {
  AxisConflict conflict;
  for (const Dimension& dim : dims.groups) {
    conflict.sharded.push_back(dim.name);
  }
  conflict.yielding = {dims.experts.name};
  if (of_experts) {
    std::swap(conflict.sharded, conflict.yielding);
  } else {
    conflict.sharded.push_back(dims.tokens.name);
  }
  return conflict;
}

Tensor OrderOf(const internal::Routes& routes) {
  return Select(routes.source < 0.0, 0.0,
                Select(routes.choice > 0.0, Like(routes.choice, 1), 2.0));
}

// Checks that an expert has kept the `slots` of its input `rows`.
absl::Status CheckResult(Tensor rows, Tensor y, const Shape& slots) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(rows.graph(), {rows, y}));
  return mtf::internal::CheckSubset(y, slots);
}

// One level of experts, in the scope of the layer. `each` are dimensions of `x`
// with routers and experts of their own.
Experts Level(Tensor x, const Shape& each, const Dimension& experts,
              const LevelLayer& layer, const ExpertsOptions& options) {
  Graph& graph = x.graph();
  const ExpertDimensions dims = DimensionsOf(x, each, experts, options);
  const AxisConflictScope conflict(graph, ConflictOf(dims, false));
  const internal::Routes routes = internal::RouteTokens(x, dims, options);
  const internal::Dispatcher dispatcher(dims, routes, options.dispatch);
  const Tensor rows = dispatcher.ToSlots(internal::To(ActivationDType(x), x));
  const Tensor order = OrderOf(routes);
  Tensor y;
  {
    const Scope scope(graph, "expert");
    const AxisConflictScope inside(graph, ConflictOf(dims, true));
    y = layer(rows, order);
  }
  const absl::Status status = CheckResult(rows, y, routes.source.shape());
  const Tensor output = status.ok()
                            ? dispatcher.ToTokens(y, x.shape())
                            : graph.Fail(status, "mixture_of_experts",
                                         std::source_location::current(),
                                         x.shape(), rows.dtype());
  return {output, routes.load_balancing_loss, routes.z_loss, routes.dropped,
          routes.load};
}

// A result for the calls that follow an error.
Experts Failed(Tensor x, const Dimension& experts, const absl::Status& status,
               absl::string_view name, std::source_location location) {
  Graph& graph = x.graph();
  const Tensor output =
      graph.Fail(status, internal::DescribeLayer("mixture_of_experts", name),
                 location, x.shape(), x.dtype());
  const Tensor scalar = graph.Fail(status, "mixture_of_experts", location);
  const Tensor load =
      graph.Fail(status, "mixture_of_experts", location, {experts});
  return {output, scalar, scalar, scalar, load};
}

// Level with groups of at most group_size tokens.
Experts LevelInGroups(Tensor x, const Shape& each, const Dimension& experts,
                      const LevelLayer& layer, ExpertsOptions options) {
  const Dimension tokens = x.shape()[x.shape().rank() - 2];
  const int64_t size = GroupSizeOf(tokens.size, options.group_size);
  if (options.group_size == 0 || size == tokens.size) {
    return Level(x, each, experts, layer, options);
  }
  // The groups keep the name, and so its rule; within them it has another.
  const Dimension groups{tokens.name, tokens.size / size},
      in_group{absl::StrCat("group_", tokens.name), size};
  const auto split = [&](Tensor y) {
    return SplitDimension(y, tokens.name, {groups, in_group});
  };
  if (options.limit.valid() && options.limit.shape().Contains(tokens.name)) {
    options.limit = split(options.limit);
  }
  Experts result = Level(split(x), each, experts, layer, options);
  result.output =
      MergeDimensions(result.output, {tokens.name, in_group.name}, tokens.name);
  return result;
}

absl::Status CheckTwoLevels(Tensor x, const Dimension& outer,
                            const Dimension& inner) {
  if (x.shape().rank() < 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "two levels of experts need [..., groups, tokens, d_model]",
        DescribeInputs({x})));
  }
  if (outer.name != inner.name) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("both levels of experts are called \"", outer.name, "\""));
}

// The feed-forward networks of the dimensions `each`.
Tensor Networks(Tensor x, const Shape& each, const Dimension& d_ff,
                const Activation& activation, FeedForwardOptions options) {
  options.each = each;
  options.name = "feed_forward";
  return FeedForward(x, d_ff, activation, options);
}

}  // namespace

Experts MixtureOfExperts(Tensor x, Dimension experts, ExpertLayer expert,
                         ExpertsOptions options,
                         std::source_location location) {
  if (!x.valid()) return {};
  const LayerScope scope(x.graph(), options.name, location);
  absl::Status status = Check(x, experts, options);
  if (status.ok() && expert == nullptr) {
    status = absl::InvalidArgumentError("the function of the experts is null");
  }
  if (!status.ok()) return Failed(x, experts, status, options.name, location);
  return LevelInGroups(
      x, {}, experts, [&](Tensor rows, Tensor) { return expert(rows); },
      options);
}

Experts MixtureOfExperts(Tensor x, Dimension experts, Dimension d_ff,
                         Activation activation, ExpertsOptions options,
                         std::source_location location) {
  const auto network = [&](Tensor rows) {
    return Networks(rows, {experts}, d_ff, activation, options.feed_forward);
  };
  return MixtureOfExperts(x, experts, network, options, location);
}

Experts TwoLevelExperts(Tensor x, Dimension outer, Dimension inner,
                        Dimension d_ff, Activation activation,
                        TwoLevelOptions options,
                        std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  const LayerScope scope(graph, options.outer.name, location);
  absl::Status status = Check(x, outer, options.outer);
  options.inner.limit = Tensor();
  if (status.ok()) status = Check(x, inner, options.inner);
  if (status.ok()) status = CheckTwoLevels(x, outer, inner);
  if (!status.ok()) {
    return Failed(x, outer, status, options.outer.name, location);
  }
  const Dimension batch = x.shape()[x.shape().rank() - 3];
  Experts second;
  Experts first = LevelInGroups(
      x, {}, outer,
      [&](Tensor rows, Tensor order) {
        const Dimension capacity = rows.dim("capacity");
        const auto merge = [&](Tensor y) {
          return MergeDimensions(y, {batch.name, "capacity"}, "tokens");
        };
        const LayerScope level(graph, options.inner.name, location);
        order = merge(order);
        options.inner.limit = Select(
            Equal(order, 2.0),
            Like(order, static_cast<double>(options.inner.choices)), order);
        second = LevelInGroups(
            merge(rows), {outer}, inner,
            [&](Tensor y, Tensor) {
              return Networks(y, {outer, inner}, d_ff, activation,
                              options.outer.feed_forward);
            },
            options.inner);
        return SplitDimension(second.output, "tokens", {batch, capacity});
      },
      options.outer);
  first.load_balancing_loss += second.load_balancing_loss;
  first.z_loss += second.z_loss;
  first.dropped += second.dropped;
  first.load = second.load;
  return first;
}

}  // namespace mtf::nn
