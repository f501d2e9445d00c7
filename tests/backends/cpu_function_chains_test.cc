// SPDX-License-Identifier: Apache-2.0
//
// Maps of several sums, differences and products, which the CPU evaluates in
// one loop, have the bits of their steps.
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "tests/backends/run_on_cpu.h"
#include "tests/matchers.h"

namespace mtf::cpu {
namespace {

using ::mtf::testing::FeedsOf;
using ::mtf::testing::NamedTensors;
using ::mtf::testing::RunOnCpu;

constexpr int kChainRows = 7, kChainColumns = 96;
constexpr int kChainOperands = 4;  // [rows, columns] twice, [columns], [rows]

struct ChainStep {
  std::string function;
  int x = 0, y = 0;
};

std::vector<ChainStep> RandomSteps(std::mt19937& random) {
  std::vector<ChainStep> steps(1 + random() % 7);
  for (size_t i = 0; i < steps.size(); ++i) {
    const char* const kFunctions[] = {"add", "sub", "mul", "mul", "max"};
    const int values = kChainOperands + static_cast<int>(i);
    // Chains, in which the step before is the left or the right argument.
    const int last = i == 0 ? 0 : values - 1;
    const int other = static_cast<int>(random() % values);
    const bool is_left = random() % 2 == 0;
    steps[i] = {kFunctions[random() % 5], is_left ? last : other,
                is_left ? other : last};
  }
  return steps;
}

// One map of all steps, or a map for each step.
std::string TextOf(const std::vector<ChainStep>& steps, bool is_one_map) {
  const std::string type =
      absl::StrCat("f32[a:", kChainRows, ", b:", kChainColumns, "]");
  std::string text =
      absl::StrCat("mesh{x:1}\n%v0 : ", type, " = input v0\n", "%v1 : ", type,
                   " = input v1\n%v2 : f32[b:", kChainColumns,
                   "] = input v2\n%v3 : f32[a:", kChainRows, "] = input v3\n");
  // A value of all rows and columns begins the chain.
  std::vector<std::string> in_map;
  int instructions = kChainOperands + 1;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto& [function, x, y] = steps[i];
    in_map.push_back(absl::StrCat(function, "($", x, ", $", y, ")"));
    if (is_one_map) continue;
    absl::StrAppend(&text, "%v", kChainOperands + i, " : ", type, " = map(%v",
                    x, ", %v", y, ") [", function, "($0, $1)]\n");
    ++instructions;
  }
  const size_t last = kChainOperands + steps.size() - 1;
  if (is_one_map) {
    absl::StrAppend(&text, "%v", last, " : ", type,
                    " = map(%v0, %v1, %v2, %v3) [", absl::StrJoin(in_map, "; "),
                    "]\n");
    ++instructions;
  }
  return absl::StrCat(text, "output(%v", last,
                      ") y\nend{instructions:", instructions, "}\n");
}

HostTensor ResultOf(const std::string& text) {
  absl::StatusOr<Program> program = ParseProgram(text);
  EXPECT_OK(program) << text;
  if (!program.ok()) return {};
  EXPECT_OK(RunPass("plan_buffers", *program));
  // Products of these round.
  const NamedTensors feeds =
      FeedsOf(*program, [](const ProgramValue& value, size_t i) {
        const auto number = 31 * i + static_cast<size_t>(value.name.back());
        return 1.0 / (1.0 + static_cast<double>(number % 97)) - 0.3;
      });
  absl::StatusOr<NamedTensors> outputs =
      RunOnCpu(*program, feeds, /*threads=*/1);
  EXPECT_OK(outputs) << text;
  return outputs.ok() ? outputs->at("y") : HostTensor();
}

TEST(FunctionChains, HaveTheBitsOfTheirSteps) {
  std::mt19937 random(3);
  for (int i = 0; i < 200 && !::testing::Test::HasFailure(); ++i) {
    const std::vector<ChainStep> steps = RandomSteps(random);
    const std::string one = TextOf(steps, true);
    EXPECT_EQ(ResultOf(one), ResultOf(TextOf(steps, false))) << one;
  }
}

}  // namespace
}  // namespace mtf::cpu
