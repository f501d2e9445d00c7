// SPDX-License-Identifier: Apache-2.0
//
// The kernels for scans and rankings, which no preset's step has, in all their
// variants. NVRTC compiles them for each generation of GPUs.
#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "backends/communicator.h"
#include "backends/cuda/device.h"
#include "backends/cuda/library.h"
#include "backends/executor/executor.h"
#include "lowering/lower.h"
#include "mtf/status.h"
#include "tests/backends/cuda/text_runtime.h"
#include "tests/backends/fused_for.h"
#include "tests/matchers.h"
#include "tests/program_text.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

using cuda::TextRuntime;

// Strided lines, long and short contiguous lines; by a thread, a warp, a block,
// in shared memory and beyond; blocks, labels, both widths of keys.
constexpr char kProgram[] = R"(
mesh{x:2}
%side : f32[batch:16/x, length:1024, expert:60] = input side
%long : bf16[batch:16/x, length:2000] = input long
%short : i32[batch:16/x, expert:64] = input short
%count : i64[batch:16/x, expert:64] = input count
%vocab : f16[batch:16/x, vocab:50000] = input vocab
%split : f32[line:8, time:1001/x] = input split
%s1 : f32[batch:16/x, length:1024, expert:60] = scan(%side) sum length exclusive
%s2 : bf16[batch:16/x, length:2000] = scan(%long) max length reverse
%s3 : i32[batch:16/x, expert:64] = scan(%short) sum expert
%b1 : f32[line:8, time:2/x] = reduce_blocks(%split) sum time
%b2 : f32[batch:2/x, length:1024, expert:60] = reduce_blocks(%side) min batch
%s4 : f32[line:8, time:1001/x] = scan(%split, %b1) sum time
%k1 : i32[batch:16/x, length:1024, k:2] = top_k(%side) expert
%k2 : i32[batch:16/x, expert:60, k:2] = top_k(%side) length
%k3 : i32[batch:16/x, k:2] = top_k(%long) length
%k4 : i32[batch:16/x, k:40] = top_k(%vocab) vocab
%k5 : i32[batch:16/x, k:9000] = top_k(%vocab) vocab
%k6 : i32[batch:16/x, k:2] = top_k(%count) expert
%k7 : i32[batch:16/x, k:30] = top_k(%count) expert
%v8 : f32[line:8, time:2/x, k:3], %k8 : i32[line:8, time:2/x, k:3] = top_k(%split) time
%v9 : f32[line:8, time:2, k:3] = all_gather(%v8) time over{x}
%k9 : i32[line:8, time:2, k:3] = all_gather(%k8) time over{x}
%va : f32[line:8, time:6] = reshape(%v9)
%ka : i32[line:8, time:6] = reshape(%k9)
%kb : i32[line:8, k:3] = top_k(%va, %ka) time
)";

std::string ProgramText() {
  std::string text = kProgram;
  for (const char* name : {"s1", "s2", "s3", "s4", "b2", "k1", "k2", "k3", "k4",
                           "k5", "k6", "k7", "kb"}) {
    absl::StrAppend(&text, "output(%", name, ") ", name, "\n");
  }
  return text;
}

absl::Status PrepareOn(const std::shared_ptr<TextRuntime>& runtime) {
  MTF_ASSIGN_OR_RETURN(Program program, ParseText(ProgramText()));
  for (const std::string& pass : PassNames()) {
    MTF_RETURN_IF_ERROR(RunPass(pass, program));
  }
  return LocalRanks(program.mesh).Run([&](Communicator& host) -> absl::Status {
    const std::unique_ptr<Device> device =
        cuda::CreateDeviceOver(runtime, "texts");
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connection,
                         device->Connect(host));
    VariableStore variables(*device);
    const Program fused = FusedFor(*device, program);
    return Executor::Create(fused, *device, *connection, variables).status();
  });
}

// The scans, block reductions and rankings among the kernels.
TextRuntime::Texts ScanKernels(const TextRuntime& runtime) {
  TextRuntime::Texts kernels;
  for (const auto& kernel : runtime.kernels()) {
    const std::string& name = kernel.first;
    if (name == "scan" || name == "reduce_blocks" || name == "top_k") {
      kernels.insert(kernel);
    }
  }
  return kernels;
}

int Count(const TextRuntime::Texts& kernels, absl::string_view name,
          absl::string_view text) {
  return static_cast<int>(
      std::count_if(kernels.begin(), kernels.end(), [&](const auto& kernel) {
        return kernel.first == name && absl::StrContains(kernel.second, text);
      }));
}

TEST(CudaScanKernels, AreTheSameInEveryRun) {
  const auto one = std::make_shared<TextRuntime>();
  const auto other = std::make_shared<TextRuntime>();
  ASSERT_OK(PrepareOn(one));
  ASSERT_OK(PrepareOn(other));
  EXPECT_EQ(ScanKernels(*one), ScanKernels(*other));
}

// One kernel for each variant of the program above.
TEST(CudaScanKernels, EveryVariantIsWritten) {
  const auto runtime = std::make_shared<TextRuntime>();
  ASSERT_OK(PrepareOn(runtime));
  const TextRuntime::Texts kernels = ScanKernels(*runtime);
  EXPECT_EQ(Count(kernels, "scan", ""), 4);
  EXPECT_EQ(Count(kernels, "reduce_blocks", ""), 2);
  EXPECT_EQ(Count(kernels, "top_k", ""), 9);
  // Narrow keys are one word; keys of 64-bit integers have two members.
  EXPECT_EQ(Count(kernels, "top_k", "typedef u64 Key;"), 7);
  EXPECT_EQ(Count(kernels, "top_k", "struct Key {"), 2);
  // Large k is sorted.
  EXPECT_EQ(Count(kernels, "top_k", "bitonic"), 3);
}

class CudaScanKernelsFor : public ::testing::TestWithParam<int> {};

TEST_P(CudaScanKernelsFor, CompileForEveryGpu) {
  SKIP_UNDER_SANITIZERS("compiles for minutes");
  if (GetParam() != 90)
    SKIP_UNLESS_THOROUGH("one generation of GPUs is compiled for");
  const auto tried = cuda::CompileForGpu(
      {"nothing", "extern \"C\" __global__ void nothing() {}\n"}, GetParam());
  if (!tried.ok()) GTEST_SKIP() << tried.status().message();
  const auto runtime = std::make_shared<TextRuntime>();
  ASSERT_OK(PrepareOn(runtime));
  for (const auto& [name, text] : ScanKernels(*runtime)) {
    const auto code = cuda::CompileForGpu({name, text}, GetParam());
    ASSERT_OK(code) << name << "\n" << text;
    EXPECT_FALSE(code->empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaScanKernelsFor,
                         ::testing::Values(80, 90, 100), [](const auto& info) {
                           return absl::StrCat("sm_", info.param);
                         });

}  // namespace
}  // namespace mtf::testing
