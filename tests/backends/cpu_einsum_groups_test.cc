// SPDX-License-Identifier: Apache-2.0
//
// An einsum that adds to another tensor computes what the two instructions
// compute, on the CPU.
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
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

constexpr char kSums[] = R"(mesh{x:1}
%x : T[HEAD, b:130, k:6] = input x
%w : T[HEAD, d:70, k:6] = input w
%u : T[HEAD, d:70, b:130] = input u
%e : T[HEAD, b:130, d:70] = map(%u) neg
%y : T[HEAD, b:130, d:70] = einsum(%x, %w) sum{k}
%z : T[HEAD, b:130, d:70] = map(%y, %e) add
output(%z) z
)";

struct SumCase {
  const char* dtype;
  const char* head;  // dimension of the batch
  friend std::ostream& operator<<(std::ostream& out, const SumCase& c) {
    return out << c.dtype << " " << c.head;
  }
};

class EinsumGroups : public ::testing::TestWithParam<SumCase> {
 protected:
  static absl::StatusOr<Program> Parsed(const std::string& more) {
    std::string text = absl::StrReplaceAll(
        absl::StrCat(kSums, more, "end{instructions:", more.empty() ? 7 : 8,
                     "}\n"),
        {{": T", absl::StrCat(": ", GetParam().dtype)},
         {"HEAD", GetParam().head}});
    MTF_ASSIGN_OR_RETURN(Program program, ParseProgram(text));
    MTF_RETURN_IF_ERROR(RunPass("plan_einsums", program));
    MTF_RETURN_IF_ERROR(RunPass("plan_buffers", program));
    return program;
  }
  // Small integers: sums are exact in any order.
  static NamedTensors Feeds(const Program& program) {
    return FeedsOf(program, [](const ProgramValue&, size_t i) {
      return static_cast<double>(i * 7 % 5) - 2;
    });
  }
};

TEST_P(EinsumGroups, AccumulateInTheMemoryOfTheAddend) {
  const auto program = Parsed("");
  ASSERT_OK(program);
  const auto device = CreateDevice("cpu", {});
  ASSERT_OK(device);
  const Program fused = ::mtf::testing::FusedFor(**device, *program);
  ASSERT_EQ(fused.groups.size(), 1);
  EXPECT_LE(fused.buffers.arena_bytes, program->buffers.arena_bytes);
  const NamedTensors feeds = Feeds(*program);
  for (int threads : {1, 3}) {
    const auto single = RunOnCpu(*program, feeds, threads);
    ASSERT_OK(single);
    const auto got = RunOnCpu(fused, feeds, threads);
    ASSERT_OK(got);
    EXPECT_EQ(*got, *single) << threads;
  }
}

// The addend is an output, so the sum has memory of its own.
TEST_P(EinsumGroups, KeepAnAddendThatIsReadLater) {
  const auto program = Parsed("output(%e) e\n");
  ASSERT_OK(program);
  auto grouped = Parsed("output(%e) e\ngroup epilogue(%y, %z) accumulate %e\n");
  ASSERT_OK(grouped);
  const NamedTensors feeds = Feeds(*program);
  const auto single = RunOnCpu(*program, feeds, 2);
  ASSERT_OK(single);
  const auto got = RunOnCpu(*grouped, feeds, 2);
  ASSERT_OK(got);
  EXPECT_EQ(*got, *single);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, EinsumGroups,
    ::testing::Values(SumCase{"f32", "h:1"}, SumCase{"bf16", "h:1"},
                      SumCase{"f16", "h:1"}, SumCase{"f32", "h:3"},
                      SumCase{"bf16", "h:3"}),
    [](const auto& info) {
      return absl::StrCat(info.param.dtype, "_batch",
                          absl::string_view(info.param.head).substr(2));
    });

}  // namespace
}  // namespace mtf::cpu
