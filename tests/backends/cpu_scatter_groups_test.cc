// SPDX-License-Identifier: Apache-2.0
//
// A scatter_add that adds to another tensor computes what the two instructions
// compute, on the CPU.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "backends/executor/executor.h"
#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "tests/backends/fused_for.h"
#include "tests/matchers.h"

namespace mtf::cpu {
namespace {

using Values = std::map<std::string, HostTensor>;

absl::StatusOr<Values> RunProgram(const Program& program, const Values& feeds) {
  Values outputs;
  LocalRanks ranks(program.mesh);
  MTF_RETURN_IF_ERROR(
      ranks.Run([&](Communicator& communicator) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                             CreateDevice("cpu", {.num_threads = 2}));
        VariableStore variables(*device);
        MTF_ASSIGN_OR_RETURN(
            const std::unique_ptr<Executor> executor,
            Executor::Create(program, *device, communicator, variables));
        return executor->Run(feeds, 0, 0, &outputs);
      }));
  return outputs;
}

// Numbers for the inputs, `of(name, i)` for element i.
template <class Of>
Values FeedsOf(const Program& program, const Of& of) {
  Values feeds;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kInput) continue;
    const ProgramValue& value = program.values[instruction.results[0]];
    std::vector<double> numbers(value.shape.num_elements());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = of(value.name, i);
    feeds[value.name] =
        HostTensor::FromDoubles(value.shape, value.dtype, numbers);
  }
  return feeds;
}

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
    const Values feeds = FeedsOf(*program, [](const std::string& name, int i) {
      return i * 7 % (name == "i" ? 5 : 4);
    });
    const auto device = CreateDevice("cpu", {});
    ASSERT_OK(device);
    const Program fused = ::mtf::testing::FusedFor(**device, *program);
    ASSERT_EQ(fused.groups.size(), 1);
    const auto single = RunProgram(*program, feeds);
    ASSERT_OK(single);
    const auto got = RunProgram(fused, feeds);
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
  const Values feeds =
      FeedsOf(*program, [](const std::string&, int) { return 3; });
  EXPECT_FALSE(RunProgram(fused, feeds).ok());
}

INSTANTIATE_TEST_SUITE_P(DTypes, ScatterGroups,
                         ::testing::Values("f32", "bf16", "f16"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mtf::cpu
