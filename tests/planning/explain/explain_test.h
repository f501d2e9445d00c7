// SPDX-License-Identifier: Apache-2.0
//
// Graphs and helpers shared by the tests of explanations.
#ifndef TESTS_PLANNING_EXPLAIN_EXPLAIN_TEST_H_
#define TESTS_PLANNING_EXPLAIN_EXPLAIN_TEST_H_

#include <string>

#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/input.h"
#include "ops/variable.h"
#include "planning/explain/explain.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {

inline const Dimension kBatch{"batch", 8}, kIo{"io", 4}, kHidden{"hidden", 16};

inline Machine TestMachine() { return *Machine::Load("h100_nvlink_ib"); }

inline absl::StatusOr<Explanation> ExplainTextLayout(
    const Graph& graph, absl::string_view mesh, absl::string_view layout,
    const Targets& targets, const ExplainOptions& options = {}) {
  MTF_ASSIGN_OR_RETURN(const Mesh parsed, Mesh::Parse(mesh));
  MTF_ASSIGN_OR_RETURN(const LayoutRules rules,
                       LayoutRules::Parse(layout, "--layout"));
  return Explain(graph, parsed, rules, targets, TestMachine(), options);
}

// The small transformer under a preset, on a mesh where each of its rules
// shards.
struct Explained {
  Graph graph;
  Transformer model;
  Mesh mesh;
  LayoutRules rules;
  Targets targets;
  absl::StatusOr<Explanation> explanation = absl::UnknownError("");

  explicit Explained(const std::string& preset, int layers = 2,
                     const ExplainOptions& options = {}) {
    model = BuildTransformer(graph, {.layers = layers});
    rules = *LayoutRules::Preset(preset);
    mesh = *LayoutRules::PresetMesh(preset, preset == "three_axes" ? 8 : 4);
    targets = {.fetches = {model.loss}, .updates = {model.step}};
    explanation = Explain(graph, mesh, rules, targets, TestMachine(), options);
  }
};

struct TwoLayers {
  Graph graph;
  Tensor x, h, y;
  int line = 0;
  TwoLayers() {
    x = Input(graph, "x", kFloat32, {kBatch, kIo});
    const Tensor w1 =
        Variable(graph, "w1", Zeros(graph, kFloat32, {kIo, kHidden}));
    const Tensor w2 =
        Variable(graph, "w2", Zeros(graph, kFloat32, {kHidden, kIo}));
    h = Einsum({x, w1}, {kBatch, kHidden});
    line = __LINE__ + 1;
    y = Einsum({h, w2}, {kBatch, kIo});
  }
  Targets targets() const { return {.fetches = {y}, .fetch_shards = true}; }
};

}  // namespace mtf::testing

#endif  // TESTS_PLANNING_EXPLAIN_EXPLAIN_TEST_H_
