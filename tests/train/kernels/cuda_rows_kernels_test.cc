// SPDX-License-Identifier: Apache-2.0
//
// The kernels that move rows of one dimension and read windows, which no
// preset's step has. NVRTC compiles them for each generation of GPUs.
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "backends/cuda/device.h"
#include "backends/cuda/library.h"
#include "backends/executor/executor.h"
#include "lowering/lower.h"
#include "mtf/status.h"
#include "tests/backends/cuda/text_runtime.h"
#include "tests/matchers.h"
#include "tests/program_text.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

using cuda::TextRuntime;

// Windows of 3 rows and their transpose on 4 ranks, with uneven shards; a shift
// that wraps around, with fill values, in words of several widths.
std::string RowsProgram() {
  const std::string transfer = " height from{30 at 1} to 30 span 3 ";
  std::string text = "mesh{x:4}\n";
  for (const char *dtype : {"f32", "bf16", "i64"}) {
    const auto add = [&](absl::string_view name, absl::string_view type,
                         const auto &...rest) {
      absl::StrAppend(&text, "%", name, "_", dtype, " : ", dtype, type, " = ",
                      rest..., "\n");
    };
    const auto in = [&](absl::string_view name) {
      return absl::StrCat("%", name, "_", dtype);
    };
    add("x", "[height:30/x, c:6]", "input x_", dtype);
    add("t", "[halo-x:4/x, c:6]", "take_rows(", in("x"), ")", transfer,
        "round 0 over{x}");
    add("s", "[halo-x:4/x, c:6]", "collective_permute(", in("t"),
        ") shift 1 over{x}");
    add("u", "[halo-x:4/x, c:6]", "take_rows(", in("x"), ")", transfer,
        "round 1 over{x}");
    add("v", "[halo-x:4/x, c:6]", "collective_permute(", in("u"),
        ") shift 3 over{x}");
    add("p", "[halo-x:40/x, c:6]", "place_rows(", in("x"), ", ", in("s"), ", ",
        in("v"), ")", transfer, "fill 2 over{x}");
    add("w", "[height:30/x, c:6, k:3]", "windows(", in("p"),
        ") height, k of halo-x");
    add("f", "[halo-x:40/x, c:6]", "fold_windows(", in("w"),
        ") height, k of halo-x");
    add("ta", "[halo-x:4/x, c:6]", "take_rows(", in("f"), ")", transfer,
        "adds round 0 over{x}");
    add("sa", "[halo-x:4/x, c:6]", "collective_permute(", in("ta"),
        ") shift 3 over{x}");
    add("ua", "[halo-x:4/x, c:6]", "take_rows(", in("f"), ")", transfer,
        "adds round 1 over{x}");
    add("va", "[halo-x:4/x, c:6]", "collective_permute(", in("ua"),
        ") shift 1 over{x}");
    add("y", "[height:30/x, c:6]", "place_rows(", in("f"), ", ", in("sa"), ", ",
        in("va"), ")", transfer, "adds over{x}");
    add("r", "[height:30/x, c:40]", "place_rows(", in("x"),
        ") c from{6 at -2} to 40 wrap");
    for (const char *result : {"y", "r"}) {
      absl::StrAppend(&text, "output(", in(result), ") ", result, "_", dtype,
                      "\n");
    }
  }
  return text;
}

absl::Status PrepareOn(const std::shared_ptr<TextRuntime> &runtime) {
  MTF_ASSIGN_OR_RETURN(Program program, ParseText(RowsProgram()));
  for (const std::string &pass : PassNames()) {
    MTF_RETURN_IF_ERROR(RunPass(pass, program));
  }
  return LocalRanks(program.mesh).Run([&](Communicator &host) -> absl::Status {
    const std::unique_ptr<Device> device =
        cuda::CreateDeviceOver(runtime, "texts");
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connection,
                         device->Connect(host));
    VariableStore variables(*device);
    return Executor::Create(program, *device, *connection, variables).status();
  });
}

TextRuntime::Texts RowKernels(const TextRuntime &runtime) {
  const std::set<std::string> names = {"copy_rows", "add_rows", "fold_windows"};
  TextRuntime::Texts kernels;
  for (const auto &kernel : runtime.kernels()) {
    if (names.count(kernel.first) > 0) kernels.insert(kernel);
  }
  return kernels;
}

// Ranks differ in the number of moves only: those at the ends have fewer.
TEST(CudaRowsKernels, RanksShareThem) {
  const auto runtime = std::make_shared<TextRuntime>();
  ASSERT_OK(PrepareOn(runtime));
  std::map<std::string, int> counts;
  for (const auto &[name, text] : RowKernels(*runtime)) ++counts[name];
  // For each dtype: taken with one move or none, in both directions; placed
  // with two or three; repeated in one text for 7 moves.
  EXPECT_LE(counts["copy_rows"], 3 * 7);
  EXPECT_LE(counts["add_rows"], 3 * 2);
  EXPECT_EQ(counts["fold_windows"], 3);
}

class CudaRowsKernelsFor : public ::testing::TestWithParam<int> {};

TEST_P(CudaRowsKernelsFor, CompileForEveryGpu) {
  SKIP_UNDER_SANITIZERS("compiles for minutes");
  if (GetParam() != 90)
    SKIP_UNLESS_THOROUGH("one generation of GPUs is compiled for");
  const auto tried = cuda::CompileForGpu(
      {"nothing", "extern \"C\" __global__ void nothing() {}\n"}, GetParam());
  if (!tried.ok()) GTEST_SKIP() << tried.status().message();
  const auto runtime = std::make_shared<TextRuntime>();
  ASSERT_OK(PrepareOn(runtime));
  for (const auto &[name, text] : RowKernels(*runtime)) {
    const auto code = cuda::CompileForGpu({name, text}, GetParam());
    ASSERT_OK(code) << name << "\n" << text;
    EXPECT_FALSE(code->empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaRowsKernelsFor,
                         ::testing::Values(80, 90, 100), [](const auto &info) {
                           return absl::StrCat("sm_", info.param);
                         });

}  // namespace
}  // namespace mtf::testing
