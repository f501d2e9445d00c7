// SPDX-License-Identifier: Apache-2.0
//
// Groups of maps and reductions over rows on the CPU: they compute what their
// members compute one by one, in the same order of sums over rows, and any
// number of threads gives the same bits.
// tests/backends/cuda/groups_run_test.cc has softmax, norms and losses.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "tests/backends/fused_for.h"
#include "tests/backends/run_on_cpu.h"
#include "tests/matchers.h"

namespace mtf::cpu {
namespace {

using ::mtf::testing::FeedsOf;
using ::mtf::testing::FusedFor;
using ::mtf::testing::NamedTensors;
using ::mtf::testing::RunOnCpu;

// A norm with a scale, its gradient with that of the scale, and a bool and an
// integer for each row. The shapes are [r, c], [r] and [c].
constexpr char kNorm[] = R"(mesh{x:1}
%x : F[r:R, c:C] = input x
%dy : F[r:R, c:C] = input dy
%scale : F[c:C] = input scale
%i : i32[r:R, c:C] = input i
%w : f32[c:C] = map(%scale) [cast.f32($0)]
%s : f32[r:R] = reduce(%x) sum [cast.f32($0); square($1)] over [r:R, c:C]
%n : f32[r:R] = map(%s) [literal.f32(0.5); add($0, $1); rsqrt($2)]
%y : f32[r:R, c:C] = map(%x, %n, %w) [cast.f32($0); mul($3, $1); mul($4, $2)]
%dw : f32[c:C] = reduce(%x, %n, %dy) sum [cast.f32($0); cast.f32($2); mul($3, $1); mul($5, $4)] over [r:R, c:C]
%ds : f32[c:C] = reduce(%y) sum
%a : f32[r:R] = reduce(%y, %dy) sum [cast.f32($1); mul($0, $2)] over [r:R, c:C]
%dx : F[r:R, c:C] = map(%y, %a, %dy) [cast.f32($2); mul($0, $1); sub($3, $4); cast.F($5)]
%big : bool[r:R, c:C] = map(%dx, %x) less
%any : bool[r:R] = reduce(%big) max
%m : i32[r:R] = reduce(%i) max
%j : i32[r:R, c:C] = map(%i, %m) [iota.i32(c); sub($0, $1); add($3, $2)]
%t : i32[r:R] = reduce(%j) sum
output(%y) y
output(%dw) dw
output(%ds) ds
output(%dx) dx
output(%any) any
output(%j) j
output(%t) t
end{instructions:24}
)";

NamedTensors RunProgram(const Program& program, int threads) {
  const auto outputs = RunOnCpu(
      program,
      FeedsOf(program,
              [](const ProgramValue& value, size_t i) {
                const double number =
                    static_cast<double>((i * 7919 + value.name[0]) % 255) - 127;
                return IsFloat(value.dtype) ? number / 64 : number;
              }),
      threads);
  EXPECT_OK(outputs);
  return outputs.ok() ? *outputs : NamedTensors();
}

void ExpectNear(const NamedTensors& got, const NamedTensors& want,
                double tolerance) {
  for (const auto& [name, is] : got) {
    const HostTensor& expected = want.at(name);
    for (int64_t i = 0; i < is.num_elements(); ++i) {
      const double x = *is.At(i), y = *expected.At(i);
      ASSERT_NEAR(x, y, tolerance * std::max(1.0, std::abs(y)))
          << name << " " << i;
    }
  }
}

TEST(RowGroups, ComputeWhatTheirMembersCompute) {
  const auto device = CreateDevice("cpu", {});
  ASSERT_OK(device);
  struct Size {
    int64_t rows, columns;
  };
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const Size& size : {Size{1, 1}, Size{1, 40}, Size{40, 1}, Size{37, 13},
                             Size{130, 24}, Size{3, 700}, Size{1500, 3}}) {
      SCOPED_TRACE(absl::StrCat(dtype, " ", size.rows, "x", size.columns));
      absl::StatusOr<Program> program = ParseProgram(absl::StrReplaceAll(
          kNorm, {{"F[", absl::StrCat(dtype, "[")},
                  {".F(", absl::StrCat(".", dtype, "(")},
                  {":R", absl::StrCat(":", size.rows)},
                  {":C", absl::StrCat(":", size.columns)}}));
      ASSERT_OK(program);
      ASSERT_OK(RunPass("plan_buffers", *program));
      const Program fused = FusedFor(**device, *program);
      ASSERT_FALSE(fused.groups.empty());
      EXPECT_NE(fused.groups[0].Find<RowGroup>(), nullptr);
      const auto one_thread = RunProgram(fused, 1);
      ExpectNear(one_thread, RunProgram(*program, 1),
                 dtype == std::string("f32") ? 1e-5 : 0.02);
      for (int threads : {2, 3}) {
        EXPECT_EQ(RunProgram(fused, threads), one_thread);
      }
    }
  }
}

// The statistics of a batch norm: sums over rows and no reduction of a row.
constexpr char kStatistics[] = R"(mesh{x:1}
%x : F[b:4, r:R, c:C] = input x
%dy : F[b:4, r:R, c:C] = input dy
%mean : f32[c:C] = input mean
%d : f32[b:4, r:R, c:C] = map(%x, %mean) [cast.f32($0); sub($2, $1)]
%sum : f32[c:C] = reduce(%d) sum
%squares : f32[c:C] = reduce(%d) sum square over [b:4, r:R, c:C]
%n : f32[b:4, r:R, c:C] = map(%x, %sum) [cast.f32($0); mul($2, $1)]
%db : f32[c:C] = reduce(%dy) sum [cast.f32($0)] over [b:4, r:R, c:C]
%ds : f32[c:C] = reduce(%n, %dy) sum [cast.f32($1); mul($0, $2)] over [b:4, r:R, c:C]
output(%sum) sum
output(%squares) squares
output(%n) n
output(%db) db
output(%ds) ds
end{instructions:14}
)";

TEST(RowGroups, OfSumsOverRowsComputeWhatTheirMembersCompute) {
  const auto device = CreateDevice("cpu", {});
  ASSERT_OK(device);
  for (const char* dtype : {"f32", "bf16"}) {
    for (const auto& [rows, columns] :
         {std::pair{300, 16}, std::pair{256, 1}, std::pair{300, 37},
          std::pair{260, 700}}) {
      SCOPED_TRACE(absl::StrCat(dtype, " ", rows, "x", columns));
      absl::StatusOr<Program> program = ParseProgram(absl::StrReplaceAll(
          kStatistics,
          {{"F[", absl::StrCat(dtype, "[")},
           // In f32 one loop adds differences and their squares.
           {"[cast.f32($0); sub($2, $1)]", dtype == std::string("f32")
                                               ? "sub"
                                               : "[cast.f32($0); sub($2, $1)]"},
           {":R", absl::StrCat(":", rows)},
           {":C", absl::StrCat(":", columns)}}));
      ASSERT_OK(program);
      ASSERT_OK(RunPass("plan_buffers", *program));
      const Program fused = FusedFor(**device, *program);
      ASSERT_EQ(fused.groups.size(), 2);
      for (const FusedGroup& group : fused.groups) {
        EXPECT_NE(group.Find<RowGroup>(), nullptr);
        EXPECT_EQ(group.members.size(), 3);
      }
      const auto one_thread = RunProgram(fused, 1);
      ExpectNear(one_thread, RunProgram(*program, 1), 1e-5);
      for (int threads : {2, 3}) {
        EXPECT_EQ(RunProgram(fused, threads), one_thread);
      }
    }
  }
}

// The sums of a batch norm, of its gradient, and of both, which one loop adds.
constexpr char kMoments[] = R"(mesh{x:1}
%x : f32[b:4, r:R, c:C] = input x
%dy : f32[b:4, r:R, c:C] = input dy
%mean : f32[c:C] = input mean
%d : f32[b:4, r:R, c:C] = map(%x, %mean) sub
SUMS
OUTPUTS
end{instructions:N}
)";
constexpr char kSums[] = R"(%sum : f32[c:C] = reduce(%d) sum
%squares : f32[c:C] = reduce(%d) sum square over [b:4, r:R, c:C])";
constexpr char kGradientSums[] = R"(%db : f32[c:C] = reduce(%dy) sum
%ds : f32[c:C] = reduce(%dy, %d) sum mul over [b:4, r:R, c:C])";
constexpr char kOutputs[] = "output(%sum) sum\noutput(%squares) squares";
constexpr char kGradientOutputs[] = "output(%db) db\noutput(%ds) ds";

void ExpectOrderOfSumsAlone(const std::string& text, int members) {
  const auto device = CreateDevice("cpu", {});
  ASSERT_OK(device);
  absl::StatusOr<Program> program = ParseProgram(text);
  ASSERT_OK(program);
  ASSERT_OK(RunPass("plan_buffers", *program));
  const Program fused = FusedFor(**device, *program);
  ASSERT_EQ(fused.groups.size(), 1);
  EXPECT_EQ(fused.groups[0].members.size(), members);
  // Numbers whose sums and products round.
  const NamedTensors feeds =
      FeedsOf(*program, [](const ProgramValue& value, size_t i) {
        return 1.0 / (1.0 + static_cast<double>((i * 31 + value.name[0]) % 97));
      });
  const auto alone = RunOnCpu(*program, feeds, 1);
  ASSERT_OK(alone);
  for (int threads : {1, 2, 3}) {
    const auto together = RunOnCpu(fused, feeds, threads);
    ASSERT_OK(together);
    EXPECT_EQ(*together, *alone) << threads << " threads";
  }
}

TEST(RowGroups, AddRowsInTheOrderOfSumsAlone) {
  struct Sums {
    std::string sums, outputs;
    int members;
  };
  const Sums kCases[] = {{kSums, kOutputs, 3},
                         {kGradientSums, kGradientOutputs, 3},
                         {absl::StrCat(kGradientSums, "\n", kSums),
                          absl::StrCat(kGradientOutputs, "\n", kOutputs), 5}};
  for (const auto& [sums, outputs, members] : kCases) {
    for (const auto& [rows, columns] :
         {std::pair{300, 16}, std::pair{257, 37}, std::pair{300, 48},
          std::pair{1100, 5}, std::pair{260, 700}}) {
      SCOPED_TRACE(absl::StrCat(sums, " ", rows, "x", columns));
      const std::string text =
          absl::StrReplaceAll(kMoments, {{"SUMS", sums}, {"OUTPUTS", outputs}});
      ExpectOrderOfSumsAlone(
          absl::StrReplaceAll(text,
                              {{":R", absl::StrCat(":", rows)},
                               {":C", absl::StrCat(":", columns)},
                               {":N", absl::StrCat(":", 2 * members + 2)}}),
          members);
    }
  }
}

// %p or %u takes the memory of %x, which members read after %p is computed.
TEST(RowGroups, MayOverwriteAnOperandThatALaterMemberReads) {
  absl::StatusOr<Program> program = ParseProgram(R"(mesh{x:1}
%h : f32[r:70, d:8] = input h
%k : f32[d:8, c:33] = input k
%x : f32[r:70, c:33] = einsum(%h, %k) sum{d}
%s : f32[r:70] = reduce(%x) sum
%p : f32[r:70, c:33] = map(%x, %s) mul
%q : f32[r:70, c:33] = map(%p, %x) sub
%t : f32[r:70] = reduce(%q) max
%u : f32[r:70, c:33] = map(%x, %t) add
output(%p) p
output(%u) u
end{instructions:10}
)");
  ASSERT_OK(program);
  ASSERT_OK(RunPass("plan_einsums", *program));
  ASSERT_OK(RunPass("plan_buffers", *program));
  const auto device = CreateDevice("cpu", {});
  ASSERT_OK(device);
  const Program fused = FusedFor(**device, *program);
  ASSERT_EQ(fused.groups.size(), 1);
  EXPECT_EQ(fused.groups[0].members.size(), 5);
  EXPECT_EQ(RunProgram(fused, 2), RunProgram(*program, 2));
}

}  // namespace
}  // namespace mtf::cpu
