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
  double compute = 0;  // of kernels and collectives that block compute
  double collectives = 0;
};

// The seconds of one scope, by layer.
using Layers = std::map<int, Seconds>;

}  // namespace

double LeastSeconds(const Program& program, const Machine& machine,
                    const LayerCounts& left_out) {
  const std::vector<double> seconds = InstructionSeconds(program, machine);
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
    if (!IsAsynchronous(instruction) || !machine.overlaps()) {
      sum.compute += seconds[i];
    }
    if (Communicates(instruction.opcode)) {
      sum.collectives += seconds[i];
    }
  }
  Seconds all;
  for (const auto& [scope, layers] : scopes) {
    Seconds least = layers.begin()->second;
    for (const auto& [number, layer] : layers) {
      all.compute += layer.compute;
      all.collectives += layer.collectives;
      least.compute = std::min(least.compute, layer.compute);
      least.collectives = std::min(least.collectives, layer.collectives);
    }
    const auto left_out_here = left_out.find(scope);
    if (left_out_here == left_out.end()) continue;
    all.compute += left_out_here->second * least.compute;
    all.collectives += left_out_here->second * least.collectives;
  }
  return std::max(all.compute, all.collectives);
}

}  // namespace mtf::internal
