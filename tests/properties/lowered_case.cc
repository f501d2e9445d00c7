// SPDX-License-Identifier: Apache-2.0
#include "tests/properties/lowered_case.h"

#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lowering/program/print_program.h"
#include "mtf/print_graph.h"
#include "mtf/status.h"

namespace mtf::testing {

LocalRanks& RanksOf(const Mesh& mesh) {
  static auto& pool = *new std::map<std::string, std::unique_ptr<LocalRanks>>;
  std::unique_ptr<LocalRanks>& ranks = pool[mesh.ToString()];
  if (ranks == nullptr) ranks = std::make_unique<LocalRanks>(mesh);
  return *ranks;
}

absl::StatusOr<LoweredCase> LowerRandomCase(uint64_t seed, MakeProgram make,
                                            const std::string& mesh,
                                            AttentionSupport attention) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + 1);
  LoweredCase made;
  made.program = make(seed);
  const Graph& graph = *made.program.graph;
  if (mesh.empty()) {
    made.mesh = MakeRandomMesh(random, 8);
  } else {
    MTF_ASSIGN_OR_RETURN(made.mesh, Mesh::Parse(mesh));
  }
  LayoutRules rules = MakeRandomRules(random, graph, made.mesh);
  if (!made.program.sharded_alike.empty()) {
    rules = ShardedAlike(random, rules, made.program.sharded_alike, made.mesh);
  }
  std::vector<Tensor> fetches = made.program.fetches;
  fetches.insert(fetches.end(), made.program.exact.begin(),
                 made.program.exact.end());
  for (;;) {
    made.layout = rules.ToString();
    MTF_ASSIGN_OR_RETURN(made.binding, BindLayout(graph, made.mesh, rules));
    absl::StatusOr<Program> initialize =
        Lower(graph, made.binding, {.initialize = true});
    absl::StatusOr<Program> step =
        Lower(graph, made.binding,
              {.fetches = fetches, .updates = made.program.updates},
              {.attention = attention});
    absl::Status bad = initialize.ok() ? step.status() : initialize.status();
    if (bad.ok()) {
      made.initialize = *std::move(initialize);
      made.step = *std::move(step);
      // A variable may have a print that the step does not need.
      bad = made.LowerReads().status();
      if (bad.ok()) return made;
    }
    // The only error that random rules may cause.
    if (bad.code() != absl::StatusCode::kInvalidArgument ||
        rules.rules().empty()) {
      return bad;
    }
    rules =
        WithoutRule(rules, static_cast<int>(random() % rules.rules().size()));
  }
}

absl::StatusOr<Program> LoweredCase::LowerReads() const {
  Targets targets;
  for (const VariableInfo& variable : program.graph->variables()) {
    targets.fetches.push_back(variable.read);
  }
  return Lower(*program.graph, binding, targets);
}

std::string LoweredCase::Describe() const {
  return absl::StrCat(" mesh ", mesh.ToString(), " layout ", layout, "\n",
                      PrintGraph(*program.graph), "\n", PrintProgram(step));
}

}  // namespace mtf::testing
