// SPDX-License-Identifier: Apache-2.0
//
// What holds for every program: random ones under random layouts, stage by
// stage.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "lowering/plan_buffers.h"
#include "lowering/print_program.h"
#include "tests/matchers.h"
#include "tests/properties/random_case.h"

namespace mtf::testing {
namespace {

// A random program under a random layout that suits it.
struct LoweredCase {
  RandomProgram random;
  LayoutBinding binding;
  std::string layout;

  explicit LoweredCase(uint64_t seed) : random(MakeRandomProgram(seed)) {
    std::mt19937_64 numbers(seed * 0x9e3779b97f4a7c15u + 3);
    const Mesh mesh = MakeRandomMesh(numbers, 8);
    LayoutRules rules = MakeRandomRules(numbers, *random.graph, mesh);
    for (;;) {
      layout = rules.ToString();
      binding = *BindLayout(*random.graph, mesh, rules);
      LowerOptions first;
      first.last_pass = "emit_program";
      if (Lower(first).ok() && Initialize(first).ok()) return;
      rules = WithoutRule(rules,
                          static_cast<int>(numbers() % rules.rules().size()));
    }
  }
  absl::StatusOr<Program> Lower(const LowerOptions& options = {}) const {
    return mtf::Lower(
        *random.graph, binding,
        {.fetches = random.fetches, .updates = random.updates}, options);
  }
  absl::StatusOr<Program> Initialize(const LowerOptions& options = {}) const {
    return mtf::Lower(*random.graph, binding, {.initialize = true}, options);
  }
};

constexpr uint64_t kSeeds = 400;

TEST(RandomPrograms, EveryStageReadsBackAsItself) {
  for (uint64_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
    const LoweredCase one(seed);
    LowerOptions options;
    options.after_pass = [&](absl::string_view pass, const Program& program) {
      const std::string text = PrintProgram(program);
      const absl::StatusOr<Program> parsed = ParseProgram(text);
      ASSERT_OK(parsed) << "seed " << seed << " behind " << pass << "\n"
                        << text;
      ASSERT_EQ(PrintProgram(*parsed), text)
          << "seed " << seed << " behind " << pass;
    };
    ASSERT_OK(one.Lower(options)) << "seed " << seed;
    ASSERT_OK(one.Initialize(options)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mtf::testing
