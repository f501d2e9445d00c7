// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// Attention on the device, under layouts, against the reference device. Which
// attentions are instructions is tested in
// tests/lowering/emit/fused_attention_test.cc.
#include "backends/cuda/kernels/attention.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "backends/cuda/device.h"
#include "backends/cuda/library.h"
#include "backends/executor/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/backends/cuda/text_runtime.h"
#include "tests/backends/fused_for.h"
#include "tests/lowering/attention_parts.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/repeats.h"
#include "tests/requirements.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::AttentionParts;
using ::mtf::testing::BuildAttention;
using ::mtf::testing::LowerText;
using ::mtf::testing::Repeats;

using Values = std::map<std::string, HostTensor>;

absl::StatusOr<Program> LowerAttention(const AttentionParts& parts,
                                       const std::string& mesh,
                                       const std::string& layout) {
  Graph graph;
  const Targets targets = BuildAttention(graph, parts);
  return LowerText(graph, mesh, layout, targets,
                   {.attention = AttentionSupport::kFusedKernels});
}

int NumAttentions(const Program& program) {
  int count = 0;
  for (const Instruction& instruction : program.instructions) {
    count += instruction.opcode == Opcode::kAttention;
  }
  return count;
}

// The fetches of rank 0.
absl::StatusOr<Values> RunOn(const std::string& device_name,
                             const Program& program, const Values& feeds) {
  std::vector<Values> outputs(program.mesh.num_devices());
  MTF_RETURN_IF_ERROR(
      LocalRanks(program.mesh).Run([&](Communicator& host) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                             mtf::CreateDevice(device_name, {}));
        MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connection,
                             device->Connect(host));
        Communicator& communicator = connection == nullptr ? host : *connection;
        VariableStore store(*device);
        const Program fused = mtf::testing::FusedFor(*device, program);
        MTF_ASSIGN_OR_RETURN(
            const std::unique_ptr<Executor> executor,
            Executor::Create(fused, *device, communicator, store));
        for (uint32_t step = 0; step < 2; ++step) {
          MTF_RETURN_IF_ERROR(
              executor->Run(feeds, 1, step, &outputs[host.rank()]));
        }
        return absl::OkStatus();
      }));
  return outputs[0];
}

// Random q, k, v and weights of the loss; masks with any share of visible
// positions, and some rows without any.
Values RandomFeeds(const Program& program, std::mt19937& random) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double shares[] = {0.0, 0.1, 0.5, 0.9, 1.0};
  const double share = shares[random() % 5];
  std::normal_distribution<double> normal(0, 1);
  std::uniform_real_distribution<double> uniform(0, 1);
  Values feeds;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kInput) continue;
    const ProgramValue& value = program.values[instruction.results[0]];
    HostTensor tensor(value.shape, value.dtype);
    const bool masks = instruction.Get<NameAttributes>().name == "mask";
    const bool adds = instruction.Get<NameAttributes>().name == "added";
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const bool seen = uniform(random) < share;
      const double x = masks           ? seen
                       : adds && !seen ? -infinity
                                       : normal(random);
      StoreElement(tensor.data(), value.dtype, i, x);
    }
    feeds[instruction.Get<NameAttributes>().name] = std::move(tensor);
  }
  return feeds;
}

void ExpectClose(const Values& want, const Values& got) {
  for (const auto& [name, numbers] : want) {
    const HostTensor& other = got.at(name);
    int far = 0;
    for (int64_t i = 0; i < numbers.num_elements(); ++i) {
      const double w = LoadElement(numbers.data(), kFloat32, i);
      const double g = LoadElement(other.data(), kFloat32, i);
      // Kernels round weights and gradients of scores to 16 bits.
      if (std::abs(g - w) <= 0.03 + 0.02 * std::abs(w)) continue;
      if (far++ == 0) {
        ADD_FAILURE() << name << " " << numbers.shape().ToString()
                      << " element " << i << ": " << g << ", expected " << w;
      }
    }
    EXPECT_EQ(far, 0) << name;
  }
}

class CudaAttention : public ::testing::TestWithParam<std::string> {};
class RandomCudaAttention
    : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

// Short, or on a GPU also of several tiles of the kernels and a rest.
int64_t RandomLength(std::mt19937& random, bool is_gpu) {
  return is_gpu && random() % 3 == 0 ? 2 + static_cast<int64_t>(random() % 300)
                                     : 2 + static_cast<int64_t>(random() % 40);
}

TEST_P(RandomCudaAttention, MatchesTheReferenceUnderLayouts) {
  const auto& [device, seed] = GetParam();
  std::mt19937 random(seed);
  const char* forms[] = {"m", "bm", "mb", "lm", "blm", "bhlm", "mlhb", "bl"};
  const char* layouts[] = {"",
                           "batch:data",
                           "heads:model",
                           "batch:data,heads:model",
                           "batch:data+model",
                           "length:model"};
  constexpr int kRuns = Repeats(8, 2);
  const bool is_gpu = device == "cuda";
  const int64_t sizes[] = {8, 16, 64, 128};
  int fused = 0;
  for (int i = 0; i < kRuns; ++i) {
    const bool adds = random() % 3 == 0, masks = !adds || random() % 2 == 0;
    const AttentionParts parts = {
        .causal = random() % 2 == 0,
        .gradient = random() % 4 != 0,
        .mask = masks ? forms[random() % 8] : "",
        .added = adds ? forms[random() % 8] : "",
        .added_dtype = random() % 2 == 0 ? kFloat32 : kBFloat16,
        .dtype = random() % 4 == 0 ? kFloat16 : kBFloat16,
        .batch = 2 + static_cast<int64_t>(random() % 3),
        .heads = 2 + static_cast<int64_t>(random() % 2),
        .length = RandomLength(random, is_gpu),
        .memory = RandomLength(random, is_gpu),
        .d = sizes[random() % (is_gpu ? 4 : 2)]};
    const std::string layout = layouts[random() % 6];
    SCOPED_TRACE(absl::StrCat(
        i, " mask ", parts.mask, " added ", parts.added, " causal ",
        parts.causal, " length ", parts.length, " memory ", parts.memory, " d ",
        parts.d, " gradient ", parts.gradient, " layout ", layout));
    const auto program = LowerAttention(parts, "data:2,model:2", layout);
    ASSERT_OK(program);
    fused += NumAttentions(*program);
    const Values feeds = RandomFeeds(*program, random);
    const auto want = RunOn("reference", *program, feeds);
    const auto got = RunOn(device, *program, feeds);
    ASSERT_OK(want);
    ASSERT_OK(got);
    ExpectClose(*want, *got);
    const auto again = RunOn(device, *program, feeds);
    ASSERT_OK(again);
    for (const auto& [name, numbers] : *got) {
      EXPECT_EQ(std::memcmp(numbers.data(), again->at(name).data(),
                            numbers.num_elements() * sizeof(float)),
                0)
          << name << " differs between two runs";
    }
  }
  EXPECT_GE(fused, kRuns / 4);
}

// Exactly zero, not some mean of the values.
TEST_P(CudaAttention, RowsWithoutVisiblePositionsAreZeroWithoutGradient) {
  for (bool causal : {false, true}) {
    for (const char* mask : {"bm", "blm"}) {
      const auto program =
          LowerAttention({.causal = causal, .mask = mask}, "", "");
      ASSERT_OK(program);
      ASSERT_EQ(NumAttentions(*program), 1);
      std::mt19937 random(5);
      Values feeds = RandomFeeds(*program, random);
      HostTensor& seen = feeds.at("mask");
      for (int64_t i = 0; i < seen.num_elements(); ++i) {
        // The second batch element sees nothing, the first everything.
        StoreElement(seen.data(), kBool, i, i < seen.num_elements() / 2);
      }
      const auto got = RunOn(GetParam(), *program, feeds);
      ASSERT_OK(got);
      for (const auto& [name, numbers] : *got) {
        const int64_t half = numbers.num_elements() / 2;
        double most = 0;
        for (int64_t i = 0; i < half; ++i) {
          most = std::max(most,
                          std::abs(LoadElement(numbers.data(), kFloat32, i)));
          ASSERT_EQ(LoadElement(numbers.data(), kFloat32, half + i), 0)
              << name << " " << i;
        }
        EXPECT_GT(most, 0.1) << name;
      }
    }
  }
}

// NVRTC compiles all kernels, for masks over any dimensions.
TEST(AttentionKernels, CompileForEveryGpu) {
  SKIP_UNDER_SANITIZERS("compiles for minutes");
  const auto tried = CompileForGpu(
      {"nothing", "extern \"C\" __global__ void nothing() {}\n"}, 90);
  if (!tried.ok()) GTEST_SKIP() << tried.status().message();
  const auto runtime = std::make_shared<TextRuntime>();
  for (const AttentionParts& parts :
       {AttentionParts{.mask = "bm"},
        AttentionParts{.causal = false, .mask = "bhlm", .added = "lm"},
        AttentionParts{
            .added = "h", .added_dtype = kBFloat16, .dtype = kFloat16},
        AttentionParts{.gradient = false, .mask = "l"}}) {
    const auto program = LowerAttention(parts, "", "");
    ASSERT_OK(program);
    ASSERT_EQ(NumAttentions(*program), 1);
    EXPECT_OK(
        LocalRanks(program->mesh).Run([&](Communicator& host) -> absl::Status {
          const auto device = CreateDeviceOver(runtime, "texts");
          MTF_ASSIGN_OR_RETURN(const auto connection, device->Connect(host));
          VariableStore store(*device);
          return Executor::Create(*program, *device, *connection, store)
              .status();
        }));
  }
  int compiled = 0;
  for (const auto& [name, text] : runtime->kernels()) {
    if (name != "attention_bias" && name != "masked_rows" &&
        name != "row_stats") {
      continue;
    }
    for (int architecture : {80, 90, 100}) {
      EXPECT_OK(CompileForGpu({name, text}, architecture)) << text;
    }
    ++compiled;
  }
  EXPECT_GE(compiled, 7);
}

// The GPU too, if there is one.
std::vector<std::string> Devices() {
  std::vector<std::string> devices = {"cuda_emulated"};
  if (HasGpu()) devices.push_back("cuda");
  return devices;
}

INSTANTIATE_TEST_SUITE_P(Devices, RandomCudaAttention,
                         ::testing::Combine(::testing::ValuesIn(Devices()),
                                            ::testing::Range(0, 8)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "_",
                                               std::get<1>(info.param));
                         });
INSTANTIATE_TEST_SUITE_P(Devices, CudaAttention, ::testing::ValuesIn(Devices()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mtf::cuda
