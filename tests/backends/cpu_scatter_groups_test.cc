// SPDX-License-Identifier: Apache-2.0
//
// A scatter_add that adds to another tensor computes what the two instructions
// compute, on the CPU.
#include <string>

#include "absl/strings/str_cat.h"
#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "tests/backends/fused_for.h"
#include "tests/backends/run_on_cpu.h"
#include "tests/matchers.h"

namespace mtf::cpu {
namespace {

using ::mtf::testing::FeedsOf;
using ::mtf::testing::NamedTensors;
using ::mtf::testing::RunOnCpu;

// The gradient of a table that is also a weight. With a second output of the
// addend, the sum has memory of its own.
class ScatterGroups : public ::testing::TestWithParam<const char*> {};

TEST_P(ScatterGroups, ComputeWhatTheirMembersCompute) {
  for (const char* more : {"", "output(%e) e\n"}) {
    const std::string type = absl::StrCat(" : ", GetParam());
    absl::StatusOr<Program> program = ParseProgram(
        absl::StrCat("mesh{x:1}\n%h", type, "[b:8, d:70] = input h\n%u", type,
                     "[b:8, d:70] = input u\n%dy", type,
                     "[b:8, v:11] = input dy\n", "%i : i32[b:8] = input i\n%e",
                     type, "[v:11, d:70] = einsum(%h, %dy) sum{b}\n%s", type,
                     "[v:11, d:70] = scatter_add(%u, %i) v\n%g", type,
                     "[v:11, d:70] = map(%e, %s) add\noutput(%g) g\n", more,
                     "end{instructions:", more[0] == 0 ? 8 : 9, "}\n"));
    ASSERT_OK(program);
    ASSERT_OK(RunPass("plan_einsums", *program));
    ASSERT_OK(RunPass("plan_buffers", *program));
    // Small integers: sums are exact in any order.
    const NamedTensors feeds =
        FeedsOf(*program, [](const ProgramValue& value, size_t i) {
          return static_cast<double>(i * 7 % (value.name == "i" ? 5 : 4));
        });
    const auto device = CreateDevice("cpu", {});
    ASSERT_OK(device);
    const Program fused = ::mtf::testing::FusedFor(**device, *program);
    ASSERT_EQ(fused.groups.size(), 1);
    const auto single = RunOnCpu(*program, feeds, 2);
    ASSERT_OK(single);
    const auto got = RunOnCpu(fused, feeds, 2);
    ASSERT_OK(got);
    EXPECT_EQ(*got, *single);
    if (more[0] == 0) {
      EXPECT_LT(fused.buffers.arena_bytes, program->buffers.arena_bytes);
    }
  }
}

TEST_P(ScatterGroups, OutOfRangeIndicesAreErrors) {
  absl::StatusOr<Program> program = ParseProgram(absl::StrCat(
      "mesh{x:1}\n%e : ", GetParam(), "[v:3, d:2] = input e\n%u : ", GetParam(),
      "[b:2, d:2] = input u\n%i : i32[b:2] = input i\n%s : ", GetParam(),
      "[v:3, d:2] = scatter_add(%u, %i) v at s test.cc:1\n%g : ", GetParam(),
      "[v:3, d:2] = map(%s, %e) add\noutput(%g) g\nend{instructions:6}\n"));
  ASSERT_OK(program);
  const auto device = CreateDevice("cpu", {});
  ASSERT_OK(device);
  const Program fused = ::mtf::testing::FusedFor(**device, *program);
  ASSERT_EQ(fused.groups.size(), 1);
  const NamedTensors feeds =
      FeedsOf(*program, [](const ProgramValue&, size_t) { return 3.0; });
  EXPECT_FALSE(RunOnCpu(fused, feeds, 2).ok());
}

INSTANTIATE_TEST_SUITE_P(DTypes, ScatterGroups,
                         ::testing::Values("f32", "bf16", "f16"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mtf::cpu
