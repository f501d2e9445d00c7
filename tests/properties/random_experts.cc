// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/experts/experts.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/properties/random_case.h"

namespace mtf::testing {
namespace {

// What distinguishes layers of experts for their users.
struct Kind {
  nn::Routing routing = nn::Routing::kTopK;
  int64_t choices = 1;
  bool two_levels = false;
  nn::Dispatch dispatch = nn::Dispatch::kSorted;
};

// The Switch Transformer, GShard, three choices, no token left behind, choices
// of the experts, and experts of two levels.
constexpr Kind kKinds[] = {{.choices = 1},
                           {.choices = 2},
                           {.choices = 3},
                           {nn::Routing::kNoTokenLeftBehind, 2},
                           {nn::Routing::kExpertChoice, 2},
                           {.choices = 2, .two_levels = true}};

static_assert(2 * std::size(kKinds) == kKindsOfExperts);

// Draws the parts of one mixture of experts. Routers choose by comparing
// numbers that round, so sizes are small: a tie in float is improbable.
class ExpertsMaker {
 public:
  ExpertsMaker(uint64_t seed, std::optional<Kind> kind, RandomProgram& program)
      : random_(seed), kind_(kind), program_(program), graph_(*program.graph) {}

  void Make() {
    const bool two_levels = kind_ ? kind_->two_levels : Chance(0.25);
    std::vector<Dimension> dims;
    if (Chance(0.4)) dims.push_back({"pods", Size(3)});
    if (two_levels || Chance(0.8)) dims.push_back({"batch", Size(5)});
    const Dimension length{"length", Size(9)}, d_model{"d_model", Size(4)},
        d_ff{"d_ff", Size(4)},
        experts{"experts", kind_ ? 2 + Size(4) : 1 + Size(5)},
        inner{"inner", kind_ ? 1 + Size(2) : Size(3)};
    dims.push_back(length);
    dims.push_back(d_model);
    const Tensor x = Variable(
        graph_, "x",
        RandomUniform(graph_, Shape(dims), -1.5, 1.5, {.per_step = false}));
    ExpertsOptions options = Options(experts.size);
    if (Chance(0.3)) options.limit = Limit({length});
    if (Chance(0.2)) options.group_size = Size(length.size);
    nn::Experts y;
    if (two_levels) {
      y = nn::TwoLevelExperts(x, experts, inner, d_ff, Tanh,
                              {.outer = options, .inner = Options(inner.size)});
    } else {
      y = nn::MixtureOfExperts(x, experts, d_ff, Tanh, options);
    }
    const Tensor weights =
        RandomUniform(graph_, x.shape(), -1, 1, {.per_step = false});
    const Tensor loss =
        ReduceSum(y.output * weights, {}) + y.load_balancing_loss + y.z_loss;
    program_.fetches = {y.output, y.load_balancing_loss, y.z_loss, y.dropped,
                        y.load};
    std::vector<Tensor> parameters;
    for (const VariableInfo& info : graph_.variables()) {
      parameters.push_back(info.read);
    }
    for (const Tensor& gradient : Gradients(loss, parameters)) {
      program_.fetches.push_back(gradient);
    }
    program_.updates = {Assign(x, x * 0.5)};
  }

 private:
  using ExpertsOptions = nn::ExpertsOptions;

  int64_t Size(int64_t most) {
    return 1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(most));
  }
  bool Chance(double p) {
    return static_cast<double>(random_() % 100) < 100 * p;
  }

  ExpertsOptions Options(int64_t experts) {
    constexpr nn::Routing kRoutings[] = {nn::Routing::kTopK, nn::Routing::kTopK,
                                         nn::Routing::kNoTokenLeftBehind,
                                         nn::Routing::kExpertChoice};
    constexpr nn::FurtherChoices kFurther[] = {
        nn::FurtherChoices::kAll, nn::FurtherChoices::kNone,
        nn::FurtherChoices::kThreshold, nn::FurtherChoices::kRandom};
    ExpertsOptions options;
    options.routing = kRoutings[random_() % 4];
    options.choices = Size(experts < 3 ? experts : 3);
    if (kind_) {
      options.routing = kind_->routing;
      options.choices = std::min(kind_->choices, experts);
    }
    const nn::FurtherChoices further = kFurther[random_() % 4];
    if (options.routing == nn::Routing::kTopK) options.further = further;
    options.threshold = 0.3;
    const bool prioritize = Chance(0.2);
    if (options.routing != nn::Routing::kExpertChoice) {
      options.prioritize = prioritize;
    }
    options.capacity_factor = 0.4 * static_cast<double>(Size(4));
    options.min_capacity = Size(3);
    if (Chance(0.2)) options.jitter = 0.1;
    if (Chance(0.3)) options.feed_forward = {.bias = true, .gated = true};
    options.dispatch =
        Chance(0.6) ? nn::Dispatch::kSorted : nn::Dispatch::kOneHot;
    if (kind_) options.dispatch = kind_->dispatch;
    return options;
  }

  Tensor Limit(const Shape& shape) {
    std::vector<double> numbers(shape.num_elements());
    for (double& number : numbers) {
      number = static_cast<double>(random_() % 4);
    }
    program_.feeds["limit"] = HostTensor::FromDoubles(shape, kInt32, numbers);
    return Input(graph_, "limit", kInt32, shape);
  }

  std::mt19937_64 random_;
  const std::optional<Kind> kind_;
  RandomProgram& program_;
  Graph& graph_;
};

RandomProgram MakeExperts(uint64_t seed, std::optional<Kind> kind) {
  RandomProgram program;
  program.graph = std::make_unique<Graph>();
  if (seed % 2 == 0) program.sharded_alike = {"batch", "experts"};
  ExpertsMaker(seed, kind, program).Make();
  return program;
}

}  // namespace

RandomProgram MakeRandomExperts(uint64_t seed) {
  return MakeExperts(seed, std::nullopt);
}

RandomProgram MakeExpertsOfEachKind(uint64_t seed) {
  const auto number = static_cast<int64_t>(seed % kKindsOfExperts);
  Kind kind = kKinds[number / 2];
  if (number % 2 != 0) kind.dispatch = nn::Dispatch::kOneHot;
  return MakeExperts(seed, kind);
}

}  // namespace mtf::testing
