// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// Attention with masks on the device, under layouts, against composed attention
// on the oracle; detection of masks is tested in
// tests/lowering/fusion/find_attention_test.cc.
#include "backends/cuda/fusion/attention_mask.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "backends/cuda/device.h"
#include "backends/cuda/library.h"
#include "backends/executor/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/fusion/find_attention.h"
#include "tests/backends/cuda/text_runtime.h"
#include "tests/lowering/fusion/attention_parts.h"
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
        MTF_ASSIGN_OR_RETURN(
            const std::unique_ptr<Executor> executor,
            Executor::Create(program, *device, communicator, store));
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

void ExpectSame(const Values& want, const Values& got) {
  for (const auto& [name, numbers] : want) {
    const HostTensor& other = got.at(name);
    for (int64_t i = 0; i < numbers.num_elements(); ++i) {
      const double w = LoadElement(numbers.data(), kFloat32, i);
      const double g = LoadElement(other.data(), kFloat32, i);
      // Composed attention rounds its weights and gradients to bf16.
      ASSERT_NEAR(g, w, 0.03 + 0.02 * std::abs(w)) << name << " " << i;
    }
  }
}

class AttentionMasks : public ::testing::TestWithParam<std::string> {};

TEST_P(AttentionMasks, MatchTheirMembersUnderRandomLayouts) {
  std::mt19937 random(7);
  const char* forms[] = {"m", "bm", "mb", "lm", "blm", "bhlm", "mlhb", "bl"};
  const char* layouts[] = {"",
                           "batch:data",
                           "heads:model",
                           "batch:data,heads:model",
                           "batch:data+model",
                           "length:model"};
  constexpr int kRuns = Repeats(16, 5);
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
        .length = 5 + static_cast<int64_t>(random() % 30),
        .memory = 5 + static_cast<int64_t>(random() % 40)};
    const std::string layout = layouts[random() % 6];
    SCOPED_TRACE(absl::StrCat(i, " mask ", parts.mask, " added ", parts.added,
                              " causal ", parts.causal, " length ",
                              parts.length, " memory ", parts.memory,
                              " layout ", layout));
    Graph graph;
    const auto program = LowerText(graph, "data:2,model:2", layout,
                                   BuildAttention(graph, parts));
    ASSERT_OK(program);
    fused += static_cast<int>(FindAttention(*program).size());
    const Values feeds = RandomFeeds(*program, random);
    const auto want = RunOn("reference", *program, feeds);
    const auto got = RunOn(GetParam(), *program, feeds);
    ASSERT_OK(want);
    ASSERT_OK(got);
    ExpectSame(*want, *got);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(fused, kRuns / 2);
}

// Exactly zero, not some mean of the values.
TEST_P(AttentionMasks, RowsWithoutVisiblePositionsAreZeroWithoutGradient) {
  for (bool causal : {false, true}) {
    for (const char* mask : {"bm", "blm"}) {
      Graph graph;
      const auto program =
          LowerText(graph, "", "",
                    BuildAttention(graph, {.causal = causal, .mask = mask}));
      ASSERT_OK(program);
      ASSERT_EQ(FindAttention(*program).size(), 1u);
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

// NVRTC compiles both kernels, for masks over any dimensions.
TEST(AttentionMaskKernels, CompileForEveryGpu) {
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
    Graph graph;
    const auto program = LowerText(graph, "", "", BuildAttention(graph, parts));
    ASSERT_OK(program);
    ASSERT_EQ(FindAttention(*program).size(), 1u);
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
    if (name != "attention_bias" && name != "masked_rows") continue;
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

INSTANTIATE_TEST_SUITE_P(Devices, AttentionMasks,
                         ::testing::ValuesIn(Devices()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mtf::cuda
