// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/least_time.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "planning/cost/estimate_time.h"
#include "planning/cost/layer_names.h"

namespace mtf::internal {
namespace {

struct Seconds {
  double held = 0;  // while nothing else computes
  double sent = 0;  // of collectives
};

// Of one scope: by layer.
using Layers = std::map<int, Seconds>;

// How many layers each scope numbers.
absl::flat_hash_map<std::string, size_t> CountLayers(const Graph& graph) {
  absl::flat_hash_map<std::string, absl::flat_hash_set<int>> layers;
  for (const auto& operation : graph.operations()) {
    absl::string_view scope;
    int layer = 0;
    if (FindLayer(operation->name(), &scope, &layer)) {
      layers[scope].insert(layer);
    }
  }
  absl::flat_hash_map<std::string, size_t> counts;
  for (const auto& [scope, numbers] : layers) counts[scope] = numbers.size();
  return counts;
}

}  // namespace

ExtraLayers LayersBesides(const Graph& smaller, const Graph& larger,
                          double place) {
  const auto low = CountLayers(smaller);
  ExtraLayers more;
  for (const auto& [scope, count] : CountLayers(larger)) {
    const auto few = low.find(scope);
    if (few == low.end() || few->second >= count) continue;
    more[scope] = place * static_cast<double>(count - few->second);
  }
  return more;
}

double LeastSeconds(const Program& program, const Machine& machine,
                    const std::vector<AttentionGroup>& attention,
                    const ExtraLayers& more) {
  const std::vector<double> seconds =
      InstructionSeconds(program, machine, attention);
  std::map<absl::string_view, Layers> scopes;
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i] < 0) continue;
    const Instruction& instruction = program.instructions[i];
    absl::string_view scope;
    int layer = 0;
    if (instruction.origin >= 0) {
      FindLayer(program.origins[instruction.origin].operation, &scope, &layer);
    }
    Seconds& sum = scopes[scope][layer];
    if (!IsAsynchronous(instruction) || !machine.overlaps())
      sum.held += seconds[i];
    if (Communicates(instruction.opcode)) {
      sum.sent += seconds[i];
    }
  }
  Seconds all;
  for (const auto& [scope, layers] : scopes) {
    Seconds least = layers.begin()->second;
    for (const auto& [number, layer] : layers) {
      all.held += layer.held;
      all.sent += layer.sent;
      least.held = std::min(least.held, layer.held);
      least.sent = std::min(least.sent, layer.sent);
    }
    const auto besides = more.find(scope);
    if (besides == more.end()) continue;
    all.held += besides->second * least.held;
    all.sent += besides->second * least.sent;
  }
  return std::max(all.held, all.sent);
}

}  // namespace mtf::internal
