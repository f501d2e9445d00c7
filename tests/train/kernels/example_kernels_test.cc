// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (checks the output of other programs)
//
// NVRTC compiles the kernels of every example's training step under every
// preset, at the sizes of the examples, for each generation of GPUs. Of texts
// that differ in numbers only it compiles the first.
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "backends/communicator.h"
#include "backends/cuda/device.h"
#include "backends/cuda/library.h"
#include "backends/executor/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/layout_rules.h"
#include "lowering/parse_program.h"
#include "tests/backends/cuda/text_runtime.h"
#include "tests/backends/fused_for.h"
#include "tests/matchers.h"

#ifdef TRANSFORMER_LM  // the build has the examples
#include "tests/requirements.h"
#include "tests/run_command.h"

namespace mtf::testing {
namespace {

using cuda::KernelSource;
using cuda::TextRuntime;

struct Example {
  std::string name, command;
};

std::vector<Example> Examples(const std::string& text) {
  const std::string lm = absl::StrCat(TRANSFORMER_LM, " --text=", text);
  const std::string narrow = " --precision=bfloat16";
  return {{"transformer_lm", lm},
          {"transformer_lm in bf16", lm + narrow},
          {"gpt2", absl::StrCat(GPT2, " --batch=8")},
          {"gpt2 in bf16", absl::StrCat(GPT2, " --batch=8", narrow)},
          {"readme_program", README_PROGRAM},
          {"01_two_layers", LESSON_1},
          {"02_change_the_layout", LESSON_2}};
}

std::vector<std::string> Presets() {
  // Layouts change few kernels.
  if (!ThoroughTests()) return {"single", "data_model"};
  return LayoutRules::PresetNames();
}

// The step of `example` under `preset` after the last pass.
absl::StatusOr<Program> StepOf(const Example& example,
                               const std::string& preset) {
  const std::string file = Temporary("program.txt");
  const Mesh mesh =
      *LayoutRules::PresetMesh(preset, preset == "three_axes" ? 8 : 4);
  const Outcome outcome = RunCommand(absl::StrCat(
      "timeout 60 ", example.command, " --dry_run --layout=", preset,
      " --mesh_shape=", mesh.ToString(), " --dump_program=", file));
  if (outcome.exit_code != 0) return absl::InternalError(outcome.errors);
  const std::string dump = ReadText(file);
  std::remove(file.c_str());
  const std::string kLast = "# after plan_buffers\n";
  const size_t last = dump.find(kLast);
  if (last == std::string::npos) return absl::NotFoundError("no such stage");
  return ParseProgram(absl::string_view(dump).substr(last + kLast.size()));
}

absl::Status Prepare(const std::shared_ptr<TextRuntime>& runtime,
                     const Program& program) {
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

// Replaces each number by "#".
std::string WithoutNumbers(absl::string_view text) {
  std::string kept;
  for (const char c : text) {
    const char k = absl::ascii_isdigit(c) ? '#' : c;
    if (k != '#' || kept.empty() || kept.back() != '#') kept.push_back(k);
  }
  return kept;
}

struct Kernels {
  std::vector<KernelSource> different;  // not only in numbers
  std::map<std::string, int> of_example;
};

const Kernels& AllKernels() {
  static const Kernels* all = [] {
    auto* kernels = new Kernels;
    std::set<std::string> seen;
    const std::string text = Temporary("text.txt");
    std::ofstream(text) << std::string(4096, 'a');
    for (const Example& example : Examples(text)) {
      const auto runtime = std::make_shared<TextRuntime>();
      for (const std::string& preset : Presets()) {
        const auto program = StepOf(example, preset);
        EXPECT_OK(program) << example.name << " " << preset;
        if (program.ok()) {
          EXPECT_OK(Prepare(runtime, *program))
              << example.name << " " << preset;
        }
      }
      const TextRuntime::Texts texts = runtime->kernels();
      kernels->of_example[example.name] = static_cast<int>(texts.size());
      for (const auto& [name, text] : texts) {
        if (seen.insert(absl::StrCat(name, "\n", WithoutNumbers(text)))
                .second) {
          kernels->different.push_back({name, text});
        }
      }
    }
    std::remove(text.c_str());
    return kernels;
  }();
  return *all;
}

class ExampleKernels : public ::testing::TestWithParam<int> {};

// sm_80 is A100, sm_90 H100 and H200, sm_100 B200.
TEST_P(ExampleKernels, CompileForEveryGpu) {
  if (GetParam() != 90)
    SKIP_UNLESS_THOROUGH("one generation of GPUs is compiled for");
  const auto tried = cuda::CompileForGpu(
      {"nothing", "extern \"C\" __global__ void nothing() {}\n"}, GetParam());
  if (!tried.ok()) GTEST_SKIP() << tried.status().message();
  for (const auto& [example, kernels] : AllKernels().of_example) {
    EXPECT_GT(kernels, 5) << example;
  }
  for (const KernelSource& kernel : AllKernels().different) {
    const auto code = cuda::CompileForGpu(kernel, GetParam());
    ASSERT_OK(code) << kernel.name << "\n" << kernel.text;
    EXPECT_FALSE(code->empty());
  }
  RecordProperty("kernels", static_cast<int>(AllKernels().different.size()));
}

INSTANTIATE_TEST_SUITE_P(Architectures, ExampleKernels,
                         ::testing::Values(80, 90, 100), [](const auto& info) {
                           return absl::StrCat("sm_", info.param);
                         });

}  // namespace
}  // namespace mtf::testing

#endif  // TRANSFORMER_LM
