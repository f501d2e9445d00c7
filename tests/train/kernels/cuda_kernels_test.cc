// SPDX-License-Identifier: Apache-2.0
//
// The kernels that a GPU gets for the training step of the example under each
// preset: their texts are the files of tests/golden/cuda/, and NVRTC compiles
// every one of them for each generation of GPUs. A file has the kernels that no
// preset before it has; a kernel without what all of them begin with, which is
// in vocabulary.cu. To rewrite the files, run
//
//   MTF_UPDATE_GOLDENS=1 train_test --gtest_filter='*Golden*'
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "backends/communicator.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/communicators/ordered_sums.h"
#include "backends/cuda/device.h"
#include "backends/cuda/library.h"
#include "backends/executor/executor.h"
#include "nn/losses/cross_entropy.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "tests/backends/cuda/text_runtime.h"
#include "tests/golden_files.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using cuda::KernelSource;
using cuda::TextRuntime;

// As large as the example; one layer has all kernels that several have.
TransformerSizes Sizes(DType dtype) {
  return {.layers = 2,
          .batch = 16,
          .length = 128,
          .d_model = 256,
          .heads = 8,
          .d_kv = 32,
          .d_ff = 1024,
          .vocab = 256,
          .dtype = dtype};
}

int64_t RanksOf(const std::string& preset) {
  return preset == "single" ? 1 : preset == "three_axes" ? 8 : 4;
}

// Prepares the initialisation and a step on all ranks as virtual devices.
absl::Status PrepareOn(const std::shared_ptr<TextRuntime>& runtime,
                       const std::string& preset, DType dtype) {
  Graph graph;
  const Transformer model = BuildTransformer(graph, Sizes(dtype));
  const int64_t ranks = RanksOf(preset);
  MTF_ASSIGN_OR_RETURN(const Program initialize,
                       LowerPreset(graph, preset, ranks, {.initialize = true}));
  MTF_ASSIGN_OR_RETURN(
      const Program step,
      LowerPreset(graph, preset, ranks,
                  {.fetches = {model.loss}, .updates = {model.step}}));
  return LocalRanks(step.mesh).Run([&](Communicator& host) -> absl::Status {
    const std::unique_ptr<Device> device =
        cuda::CreateDeviceOver(runtime, "texts");
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connection,
                         device->Connect(host));
    VariableStore variables(*device);
    MTF_ASSIGN_OR_RETURN(
        const std::unique_ptr<Executor> first,
        Executor::Create(initialize, *device, *connection, variables));
    MTF_ASSIGN_OR_RETURN(
        const std::unique_ptr<Executor> second,
        Executor::Create(step, *device, *connection, variables));
    return absl::OkStatus();
  });
}

struct PresetKernels {
  std::string name;
  std::vector<KernelSource> kernels;  // that none before has
  std::vector<std::string> problems;  // of libraries
};

// What adds up replicas that several groups of NCCL reduce: for every kind of
// float, one at a time and in words.
PresetKernels KernelsOfReplicas() {
  TextRuntime runtime;
  cuda::OrderedSums sums(runtime);
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    EXPECT_OK(sums.Prepare(CollectiveKind::kAllReduce, /*places=*/8, 1000,
                           dtype, ReduceKind::kSum));
  }
  EXPECT_OK(sums.Prepare(CollectiveKind::kReduceScatter, /*places=*/3, 1000,
                         kFloat32, ReduceKind::kMax));
  PresetKernels kernels;
  kernels.name = "replicas";
  for (const auto& [name, text] : runtime.kernels()) {
    kernels.kernels.push_back({name, text});
  }
  return kernels;
}

// A loss and the gradient of its logits over vocabularies that are kept in
// shared memory, in words and one by one, and over one that is too long.
PresetKernels KernelsOfLongRows() {
  const auto runtime = std::make_shared<TextRuntime>();
  for (int64_t vocab : {50304, 50257, 128256}) {
    Graph graph;
    const Dimension rows{"rows", 64}, columns{"vocab", vocab};
    const Tensor logits = Input(graph, "logits", kBFloat16, {rows, columns});
    const Tensor loss = nn::SoftmaxCrossEntropy(
        logits, columns, Input(graph, "targets", kInt32, {rows}));
    const Tensor slope = Gradients(loss, {logits})[0];
    const auto program = LowerText(graph, "", "", {.fetches = {loss, slope}});
    EXPECT_OK(program);
    if (!program.ok()) continue;
    EXPECT_OK(
        LocalRanks(program->mesh).Run([&](Communicator& host) -> absl::Status {
          const auto device = cuda::CreateDeviceOver(runtime, "texts");
          VariableStore variables(*device);
          return Executor::Create(*program, *device, host, variables).status();
        }));
  }
  PresetKernels kernels;
  kernels.name = "long_rows";
  for (const auto& [name, text] : runtime->kernels()) {
    if (name == "row_group") kernels.kernels.push_back({name, text});
  }
  EXPECT_EQ(kernels.kernels.size(), 3u);
  return kernels;
}

// All presets in float32, and one device in bfloat16.
const std::vector<PresetKernels>& AllKernels() {
  static const std::vector<PresetKernels>* all = [] {
    auto* presets = new std::vector<PresetKernels>;
    std::set<std::pair<std::string, std::string>> seen;
    std::vector<std::pair<std::string, DType>> cases = {{"single", kFloat32},
                                                        {"single", kBFloat16}};
    for (const std::string& preset : LayoutRules::PresetNames()) {
      if (preset != "single") cases.push_back({preset, kFloat32});
    }
    for (const auto& [preset, dtype] : cases) {
      const auto runtime = std::make_shared<TextRuntime>();
      EXPECT_OK(PrepareOn(runtime, preset, dtype));
      PresetKernels kernels;
      kernels.name = dtype == kFloat32
                         ? preset
                         : absl::StrCat(preset, ".", DTypeName(dtype));
      for (const auto& [name, text] : runtime->kernels()) {
        if (seen.insert({name, text}).second) {
          kernels.kernels.push_back({name, text});
        }
      }
      for (const std::string& problem : runtime->matmuls()) {
        kernels.problems.push_back(absl::StrCat("matmul ", problem));
      }
      for (const std::string& problem : runtime->attentions()) {
        kernels.problems.push_back(absl::StrCat("attention ", problem));
      }
      presets->push_back(std::move(kernels));
    }
    presets->push_back(KernelsOfReplicas());
    presets->push_back(KernelsOfLongRows());
    return presets;
  }();
  return *all;
}

// The text without the vocabulary, which it says that it has.
std::string OwnText(absl::string_view text) {
  std::string own = "// after";
  bool plain = true;
  const auto strip = [&](absl::string_view part, absl::string_view name) {
    if (!absl::ConsumePrefix(&text, part)) return;
    absl::StrAppend(&own, plain ? " " : ", ", name);
    plain = false;
  };
  strip(cuda::BasicText(), "basic");
  strip(cuda::ReduceText(), "reduce");
  strip(cuda::CombineText(), "combine");
  strip(cuda::RandomText(), "random");
  strip(cuda::KeptText(), "kept");
  if (plain) own = "// alone";
  return absl::StrCat(own, "\n", text, "\n");
}

TEST(CudaKernelsGolden, Vocabulary) {
  ExpectGolden("cuda/vocabulary.cu",
               absl::StrCat(cuda::BasicText(), cuda::ReduceText(),
                            cuda::RandomText(), cuda::KeptText()));
}

TEST(CudaKernelsGolden, TextsUnderEachPreset) {
  size_t bytes = 0;
  for (const PresetKernels& preset : AllKernels()) {
    std::string text = "// SPDX-License-Identifier: Apache-2.0\n";
    for (const std::string& problem : preset.problems) {
      absl::StrAppend(&text, "// ", problem, "\n");
    }
    for (const KernelSource& kernel : preset.kernels) {
      absl::StrAppend(&text, "\n", OwnText(kernel.text));
    }
    bytes += text.size();
    ExpectGolden(absl::StrCat("cuda/", preset.name, ".cu"), text);
  }
  EXPECT_LT(bytes, 1 << 20) << "too much to be read";
}

// A preset that goes leaves no file behind.
TEST(CudaKernelsGolden, EachFileIsOfAPreset) {
  std::set<std::string> names = {"vocabulary.cu", "scans.cu"};
  for (const PresetKernels& preset : AllKernels()) {
    names.insert(preset.name + ".cu");
  }
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat(GOLDEN_DIR, "/cuda"))) {
    EXPECT_EQ(names.count(entry.path().filename().string()), 1u)
        << entry.path();
  }
}

class CudaKernels : public ::testing::TestWithParam<int> {};

// For the architectures that the toolkit knows: sm_80 is A100, sm_90 H100 and
// H200, sm_100 B200.
TEST_P(CudaKernels, CompileForEveryGpu) {
  const auto tried = cuda::CompileForGpu(
      {"nothing", "extern \"C\" __global__ void nothing() {}\n"}, GetParam());
  if (!tried.ok()) GTEST_SKIP() << tried.status().message();
  for (const PresetKernels& preset : AllKernels()) {
    for (const KernelSource& kernel : preset.kernels) {
      const auto code = cuda::CompileForGpu(kernel, GetParam());
      ASSERT_OK(code) << preset.name << " " << kernel.name << "\n"
                      << OwnText(kernel.text);
      EXPECT_FALSE(code->empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaKernels,
                         ::testing::Values(80, 90, 100), [](const auto& info) {
                           return absl::StrCat("sm_", info.param);
                         });

}  // namespace
}  // namespace mtf::testing
