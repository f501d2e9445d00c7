// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// The kernels of the example's training step under each preset. NVRTC compiles
// all of them for each generation of GPUs. The texts of two presets are
// reviewed as goldens: single.cu has all kernels of one device, data_model.cu
// those that sharding adds. A golden omits the vocabulary that kernels begin
// with (backends/cuda/codegen/kernel_vocabulary.cc). To update them, run
//
//   MTF_UPDATE_GOLDENS=1 train_kernels_test --gtest_filter='*Golden*'
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <string>
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
#include "tests/backends/fused_for.h"
#include "tests/golden_files.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

using cuda::TextRuntime;

// The sizes of the example.
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

// The texts and library problems of a preset.
struct PresetKernels {
  std::string name;
  TextRuntime::Texts kernels;
  std::set<std::string> matmuls, attentions;
};

// Prepares the initialization and a training step on all ranks. Ranks are
// virtual devices of one runtime or, with a runtime each, have no kernels for
// collectives.
absl::Status PrepareOn(
    const std::vector<std::shared_ptr<TextRuntime>>& runtimes,
    const std::string& preset, DType dtype) {
  Graph graph;
  const Transformer model = BuildTransformer(graph, Sizes(dtype));
  const int64_t ranks = RanksOf(preset);
  MTF_ASSIGN_OR_RETURN(const Program initialize,
                       LowerPreset(graph, preset, ranks, {.initialize = true}));
  MTF_ASSIGN_OR_RETURN(
      const Program step,
      LowerPreset(graph, preset, ranks,
                  {.fetches = {model.loss}, .updates = {model.step}},
                  {.attention = AttentionSupport::kFusedKernels}));
  return LocalRanks(step.mesh).Run([&](Communicator& host) -> absl::Status {
    const bool shared = runtimes.size() == 1;
    const std::unique_ptr<Device> device =
        cuda::CreateDeviceOver(runtimes[shared ? 0 : host.rank()], "texts");
    std::unique_ptr<Communicator> connection;
    if (shared) {
      MTF_ASSIGN_OR_RETURN(connection, device->Connect(host));
    }
    VariableStore variables(*device);
    for (const Program* program : {&initialize, &step}) {
      const Program fused = FusedFor(*device, *program);
      MTF_RETURN_IF_ERROR(Executor::Create(fused, *device,
                                           shared ? *connection : host,
                                           variables)
                              .status());
    }
    return absl::OkStatus();
  });
}

PresetKernels KernelsOf(const std::string& preset, DType dtype) {
  const auto runtime = std::make_shared<TextRuntime>();
  EXPECT_OK(PrepareOn({runtime}, preset, dtype));
  return {
      dtype == kFloat32 ? preset : absl::StrCat(preset, ".", DTypeName(dtype)),
      runtime->kernels(), runtime->matmuls(), runtime->attentions()};
}

// The kernels that add up replicas when several groups of NCCL reduce, for
// every dtype of floats, by element and by word.
PresetKernels KernelsOfReplicas() {
  TextRuntime runtime;
  cuda::OrderedSums sums(runtime);
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    EXPECT_OK(sums.Prepare(CollectiveKind::kAllReduce, /*ranks=*/8, 1000, dtype,
                           ReduceKind::kSum));
  }
  EXPECT_OK(sums.Prepare(CollectiveKind::kReduceScatter, /*ranks=*/3, 1000,
                         kFloat32, ReduceKind::kMax));
  return {"replicas", runtime.kernels(), {}, {}};
}

// A loss and the gradient of its logits, with rows in shared memory that are
// read by word and by element, and with rows too long for shared memory.
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
          const Program fused = FusedFor(*device, *program);
          return Executor::Create(fused, *device, host, variables).status();
        }));
  }
  PresetKernels kernels;
  kernels.name = "long_rows";
  for (const auto& [name, text] : runtime->kernels()) {
    if (name == "row_group") kernels.kernels.insert({name, text});
  }
  EXPECT_EQ(kernels.kernels.size(), 3u);
  return kernels;
}

// All presets in float32, and one device in bfloat16.
const std::vector<PresetKernels>& AllKernels() {
  static const std::vector<PresetKernels>* all = [] {
    auto* presets = new std::vector<PresetKernels>;
    for (const std::string& preset : LayoutRules::PresetNames()) {
      presets->push_back(KernelsOf(preset, kFloat32));
    }
    presets->push_back(KernelsOf("single", kBFloat16));
    presets->push_back(KernelsOfReplicas());
    presets->push_back(KernelsOfLongRows());
    return presets;
  }();
  return *all;
}

const PresetKernels& Find(const std::string& name) {
  for (const PresetKernels& preset : AllKernels()) {
    if (preset.name == name) return preset;
  }
  ADD_FAILURE() << name;
  return AllKernels()[0];
}

// The text without the vocabulary, whose sections the first line lists.
std::string OwnText(absl::string_view text) {
  std::string own = "// after";
  bool plain = true;
  const auto strip = [&](absl::string_view section, absl::string_view name) {
    if (!absl::ConsumePrefix(&text, section)) return;
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

// The problems for libraries and the kernels of `preset`, except for kernels
// that `reviewed` has too.
std::string GoldenText(const PresetKernels& preset,
                       const TextRuntime::Texts& reviewed) {
  std::string text = "// SPDX-License-Identifier: Apache-2.0\n";
  for (const std::string& problem : preset.matmuls) {
    absl::StrAppend(&text, "// matmul ", problem, "\n");
  }
  for (const std::string& problem : preset.attentions) {
    absl::StrAppend(&text, "// attention ", problem, "\n");
  }
  for (const auto& kernel : preset.kernels) {
    if (reviewed.count(kernel) > 0) continue;
    absl::StrAppend(&text, "\n", OwnText(kernel.second));
  }
  return text;
}

TEST(CudaKernelsGolden, TextsUnderTwoPresets) {
  const PresetKernels& single = Find("single");
  ExpectGolden("cuda/single.cu", GoldenText(single, {}));
  ExpectGolden("cuda/data_model.cu",
               GoldenText(Find("data_model"), single.kernels));
}

TEST(CudaKernelsGolden, EveryFileIsUsed) {
  const std::set<std::string> names = {"single.cu", "data_model.cu"};
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat(GOLDEN_DIR, "/cuda"))) {
    EXPECT_EQ(names.count(entry.path().filename().string()), 1u)
        << entry.path();
  }
}

// Layers of one shape and ranks share kernels, so a step has few.
TEST(CudaKernelCounts, EveryPreset) {
  struct Counts {
    const char* preset;
    size_t kernels, matmuls, attentions;
  };
  const Counts want[] = {
      {"all_to_all", 36, 13, 0},
      {"data", 34, 14, 0},
      {"data_model", 47, 16, 0},
      {"expert", 34, 14, 0},  // the model has no experts
      {"megatron", 49, 13, 0},
      {"megatron_sequence", 63, 13, 0},
      {"ring", 38, 14, 0},
      {"sequence", 41, 17, 0},
      {"single", 33, 14, 0},
      {"three_axes", 55, 19, 0},
      {"zero2", 41, 14, 0},
      {"zero3", 44, 13, 0},
      {"single.bf16", 32, 11, 2},
      {"replicas", 8, 0, 0},
      {"long_rows", 3, 0, 0},
  };
  EXPECT_EQ(AllKernels().size(), std::size(want));
  for (const Counts& counts : want) {
    const PresetKernels& preset = Find(counts.preset);
    EXPECT_EQ(preset.kernels.size(), counts.kernels) << preset.name;
    EXPECT_EQ(preset.matmuls.size(), counts.matmuls) << preset.name;
    EXPECT_EQ(preset.attentions.size(), counts.attentions) << preset.name;
  }
}

TEST(CudaKernelTexts, AreTheSameInEveryRun) {
  for (const std::string& preset : LayoutRules::PresetNames()) {
    EXPECT_EQ(KernelsOf(preset, kFloat32).kernels, Find(preset).kernels)
        << preset;
  }
}

// Ranks share the kernels of their virtual devices. A text has at most two
// variants: a shard that begins at offset 0 needs no offset.
TEST(CudaKernelTexts, DoNotDependOnTheRank) {
  for (const std::string& preset : LayoutRules::PresetNames()) {
    std::vector<std::shared_ptr<TextRuntime>> runtimes;
    for (int64_t rank = 0; rank < RanksOf(preset); ++rank) {
      runtimes.push_back(std::make_shared<TextRuntime>());
    }
    ASSERT_OK(PrepareOn(runtimes, preset, kFloat32)) << preset;
    const TextRuntime::Texts& known = Find(preset).kernels;
    for (size_t rank = 0; rank < runtimes.size(); ++rank) {
      const TextRuntime::Texts kernels = runtimes[rank]->kernels();
      EXPECT_EQ(kernels.size(), runtimes[0]->kernels().size())
          << preset << " rank " << rank;
      EXPECT_TRUE(std::includes(known.begin(), known.end(), kernels.begin(),
                                kernels.end()))
          << preset << " rank " << rank;
      EXPECT_EQ(runtimes[rank]->matmuls(), Find(preset).matmuls) << preset;
    }
  }
}

class CudaKernels : public ::testing::TestWithParam<int> {};

// sm_80 is A100, sm_90 H100 and H200, sm_100 B200. Skipped for architectures
// that the toolkit does not support.
TEST_P(CudaKernels, CompileForEveryGpu) {
  SKIP_UNDER_SANITIZERS("compiles for minutes");
  if (GetParam() != 90)
    SKIP_UNLESS_THOROUGH("one generation of GPUs is compiled for");
  const auto tried = cuda::CompileForGpu(
      {"nothing", "extern \"C\" __global__ void nothing() {}\n"}, GetParam());
  if (!tried.ok()) GTEST_SKIP() << tried.status().message();
  TextRuntime::Texts compiled;  // presets share many kernels
  for (const PresetKernels& preset : AllKernels()) {
    // Layouts change few kernels.
    const bool is_layout = LayoutRules::Preset(preset.name).ok();
    if (is_layout && preset.name != "data_model" && !ThoroughTests()) continue;
    for (const auto& kernel : preset.kernels) {
      if (!compiled.insert(kernel).second) continue;
      const auto code =
          cuda::CompileForGpu({kernel.first, kernel.second}, GetParam());
      ASSERT_OK(code) << preset.name << " " << kernel.first << "\n"
                      << OwnText(kernel.second);
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
