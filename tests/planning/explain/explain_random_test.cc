// SPDX-License-Identifier: Apache-2.0
//
// Properties of explanations of random programs under random layouts.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "planning/explain/explain.h"
#include "planning/machine/machine.h"
#include "tests/lowering/small_transformer.h"
#include "tests/matchers.h"
#include "tests/properties/random_case.h"

namespace mtf::testing {
namespace {

// Explains `graph` under a random layout, dropping rules until it is legal.
absl::StatusOr<Explanation> ExplainUnderRandomLayout(const Graph& graph,
                                                     const Targets& targets,
                                                     uint64_t seed,
                                                     const Machine& machine) {
  std::mt19937_64 numbers(seed * 0x9e3779b97f4a7c15u + 5);
  const Mesh mesh = MakeRandomMesh(numbers, 8);
  LayoutRules rules = MakeRandomRules(numbers, graph, mesh);
  for (;;) {
    absl::StatusOr<Explanation> explanation =
        Explain(graph, mesh, rules, targets, machine);
    if (explanation.ok() || rules.rules().empty()) return explanation;
    rules =
        WithoutRule(rules, static_cast<int>(numbers() % rules.rules().size()));
  }
}

TEST(ExplainRandom, TotalsAddUpAndEveryCollectiveHasAChange) {
  const Machine machine = *Machine::Load("h100_nvlink_ib");
  int collectives = 0;
  for (uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const RandomProgram random = MakeRandomProgram(seed);
    const absl::StatusOr<Explanation> explanation = ExplainUnderRandomLayout(
        *random.graph, {.fetches = random.fetches, .updates = random.updates},
        seed, machine);
    ASSERT_OK(explanation);
    const Explanation& e = *explanation;
    const ExplainedMemory& m = e.memory;
    EXPECT_EQ(
        m.parts.parameters + m.parts.optimizer_state + m.parts.state + m.arena,
        m.total);
    EXPECT_EQ(m.parts.gradients + m.parts.copies + m.parts.activations +
                  m.parts.unused,
              m.arena);
    EXPECT_GE(m.parts.unused, 0);
    int64_t bytes = 0, total = 0;
    for (const ExplainedCollective& c : e.collectives) {
      ++collectives;
      bytes += c.bytes;
      EXPECT_NE(c.site, "");
      // Only rules that shard cause collectives.
      EXPECT_NE(c.rule, "") << c.tensor;
      EXPECT_NE(c.rule_origin, "") << c.tensor;
      EXPECT_FALSE(c.rules.empty()) << c.tensor;
      EXPECT_NE(c.dimension, "") << c.tensor;
      // Dropping rules removes what they cause, if need be all rules of a
      // dimension.
      EXPECT_GE(c.change, 0) << c.tensor << ": " << c.no_change;
      EXPECT_EQ(c.no_change, "") << c.tensor;
      EXPECT_GE(c.exposed, 0);
      EXPECT_LE(c.exposed, c.seconds * (1 + 1e-9));
    }
    EXPECT_EQ(bytes, e.cost.wire_bytes);
    for (const ExplainedTotal& each : e.by_module) total += each.bytes;
    EXPECT_EQ(total, bytes);
    for (const ExplainedEinsum& einsum : e.einsums) {
      EXPECT_GE(einsum.repeated, 1 - 1e-9) << einsum.operation;
      EXPECT_GE(einsum.moved_bytes, 0);
      EXPECT_GE(einsum.bound_bytes, 0);
    }
    for (absl::string_view line :
         absl::StrSplit(ExplainFullText(e, 80), '\n')) {
      EXPECT_LE(line.size(), 80u) << line;
    }
    EXPECT_TRUE(nlohmann::json::accept(ExplainJson(e)));
  }
  // The random layouts cause collectives.
  EXPECT_GT(collectives, 100);
}

// Dimensions may be sharded differently in some scopes, over several axes, and
// unevenly.
TEST(ExplainRandom, EveryCollectiveOfATransformerHasAChange) {
  const Machine machine = *Machine::Load("h100_nvlink_ib");
  Graph graph;
  const Transformer model =
      BuildTransformer(graph, {.batch = 7, .length = 17, .vocab = 61});
  const Targets targets = {.fetches = {model.loss}, .updates = {model.step}};
  int collectives = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    const absl::StatusOr<Explanation> explanation =
        ExplainUnderRandomLayout(graph, targets, seed, machine);
    ASSERT_OK(explanation);
    for (const ExplainedCollective& c : explanation->collectives) {
      ++collectives;
      EXPECT_GE(c.change, 0)
          << "seed " << seed << ", " << explanation->mesh.ToString() << ", "
          << explanation->layout << ": " << c.kind << " " << c.tensor << ": "
          << c.no_change;
    }
  }
  EXPECT_GT(collectives, 1000);
}

}  // namespace
}  // namespace mtf::testing
