// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/least_time.h"

#include <algorithm>
#include <map>

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

}  // namespace

double LeastSeconds(const Program& program, const Machine& machine,
                    const std::vector<AttentionGroup>& attention,
                    const LayerCounts& left_out) {
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
    const auto besides = left_out.find(scope);
    if (besides == left_out.end()) continue;
    all.held += besides->second * least.held;
    all.sent += besides->second * least.sent;
  }
  return std::max(all.held, all.sent);
}

}  // namespace mtf::internal
