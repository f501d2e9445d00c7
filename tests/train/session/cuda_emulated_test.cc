// SPDX-License-Identifier: Apache-2.0
// Build: alone (replaces operator new)
//
// Training on the emulated GPU equals training on the CPU: the same plan,
// bitwise equal initial values, the same losses, the same errors. An emulated
// and a real GPU differ only below runtime.h.
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/layout_rules.h"
#include "lowering/program/print_program.h"
#include "ops/gather.h"
#include "ops/reduce.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "tests/train/small_lm.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Counts the allocations of the emulated GPU.
namespace {
std::atomic<int64_t> device_allocations{0};
}  // namespace
extern "C" int posix_memalign(void** data, size_t alignment, size_t size) {
  ++device_allocations;
  *data = memalign(alignment, size);
  return *data == nullptr ? ENOMEM : 0;
}
#define MTF_COUNTS_ALLOCATIONS
#endif

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

constexpr char kDevice[] = "cuda_emulated";

struct Case {
  std::string mesh;
  std::string layout;

  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << "mesh \"" << c.mesh << "\" layout \"" << c.layout << "\"";
  }
};

absl::StatusOr<SmallRun> RunOn(const std::string& backend, const Case& c,
                               int steps) {
  SessionOptions options;
  options.backend = backend;
  return RunSmallLm(c.mesh, c.layout, steps, options);
}

class VirtualDevices : public ::testing::TestWithParam<Case> {};

// Six steps: one plain, one recorded, the rest replayed.
TEST_P(VirtualDevices, TrainLikeTheCpu) {
  SKIP_UNDER_SANITIZERS("many kernels");
  const absl::StatusOr<SmallRun> cpu = RunOn("cpu", GetParam(), 6);
  const absl::StatusOr<SmallRun> gpu = RunOn(kDevice, GetParam(), 6);
  ASSERT_OK(cpu);
  ASSERT_OK(gpu);
  for (const auto& [name, value] : cpu->initial) {
    EXPECT_EQ(gpu->initial.at(name), value) << "initial " << name;
  }
  EXPECT_EQ(gpu->masks, cpu->masks) << "dropout";
  EXPECT_LT(LargestLossDifference(*gpu, *cpu), 1e-3);
  EXPECT_EQ(gpu->losses.size(), 6u);
  EXPECT_LT(gpu->losses[5], gpu->losses[0]) << "nothing is learnt";
  EXPECT_EQ(gpu->counted, gpu->planned) << "of a replayed step";
  // Without a ring the keys of attention are gathered.
  if (GetParam().layout != "ring") {
    EXPECT_EQ(gpu->counted, cpu->counted);
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases = {{"", ""}};
  for (const std::string& preset : LayoutRules::PresetNames()) {
    for (const int ranks : {4, 2, 1}) {
      if (ranks < 4 && !testing::ThoroughTests()) break;
      const Case c = {LayoutRules::PresetMesh(preset, ranks)->ToString(),
                      preset};
      if (ranks > 1 && preset == "single") continue;
      cases.push_back(c);
    }
  }
  cases.push_back({"data:2,model:2", "heads:data, vocab:model+data"});
  cases.push_back({"model:3", "heads:model, d_ff:model"});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Meshes, VirtualDevices, ::testing::ValuesIn(Cases()));

// A model that gathers from a table at fed indices.
struct Lookup {
  explicit Lookup(bool computed) {
    const Dimension batch{"batch", 4}, length{"length", 6}, vocab{"vocab", 10},
        d_model{"d_model", 8};
    tokens = Input(graph, "tokens", kInt32, {batch, length});
    const Tensor indices =
        computed ? tokens + Ones(graph, kInt32, {batch, length}) : tokens;
    const Tensor x = nn::Embedding(indices, vocab, d_model);
    loss = ReduceMean(x * x, {});
    step = nn::AdamW({.learning_rate = 0.1}).Minimize(loss);
  }

  absl::StatusOr<double> Step(Session& session, int element, int index) {
    RunRequest request = {.fetches = {loss}, .updates = {step}};
    HostTensor feed(tokens.shape(), kInt32);
    StoreElement(feed.data(), kInt32, element, index);
    request.feeds.emplace("tokens", std::move(feed));
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> values,
                         session.Run(request));
    return *values[0].At(0);
  }

  Graph graph;
  Tensor tokens, loss, step;
};

class BadIndices : public ::testing::TestWithParam<bool> {};

TEST_P(BadIndices, FailTheStepAsOnTheCpuAndChangeNothing) {
  std::vector<std::string> errors;
  for (const std::string backend : {"cpu", kDevice}) {
    Lookup model(/*computed=*/GetParam());
    SessionOptions options;
    options.backend = backend;
    absl::StatusOr<std::unique_ptr<Session>> session =
        Session::Create(model.graph, "x:2,y:2", "batch:x, vocab:y", options);
    ASSERT_OK(session);
    ASSERT_OK((*session)->Initialize());
    // Before and after the recording, with valid steps in between.
    std::string said;
    for (int round = 0; round < 3; ++round) {
      const HostTensor before = *(*session)->ReadVariable("embedding/table");
      const absl::StatusOr<double> bad = model.Step(**session, 17, 12);
      EXPECT_THAT(bad, StatusIs(absl::StatusCode::kOutOfRange,
                                HasSubstr("at [batch=2, length=5]")));
      if (round > 0) {
        EXPECT_EQ(said, bad.status().message());
      }
      said = std::string(bad.status().message());
      EXPECT_EQ(*(*session)->ReadVariable("embedding/table"), before);
      EXPECT_OK(model.Step(**session, 17, 3));
      EXPECT_FALSE(*(*session)->ReadVariable("embedding/table") == before);
    }
    errors.push_back(said);
  }
  EXPECT_EQ(errors[0], errors[1]);
}

INSTANTIATE_TEST_SUITE_P(FedAndComputed, BadIndices, ::testing::Bool());

// Only one rank sees the index; all ranks end the step.
TEST(VirtualDevice, ABadIndexInTheShardOfOneRankEndsTheStepOfAll) {
  std::vector<std::string> errors;
  for (const std::string backend : {"cpu", kDevice}) {
    Lookup model(/*computed=*/false);
    SessionOptions options;
    options.backend = backend;
    absl::StatusOr<std::unique_ptr<Session>> session =
        Session::Create(model.graph, "x:2,y:2", "batch:x, vocab:y", options);
    ASSERT_OK(session);
    ASSERT_OK((*session)->Initialize());
    RunRequest request = {.fetches = {model.loss}, .updates = {model.step}};
    absl::StatusOr<std::vector<TensorShard>> shards =
        (*session)->InputShards(request, "tokens");
    ASSERT_OK(shards);
    ASSERT_EQ(shards->size(), 4u);
    request.feed_shards["tokens"] = *shards;
    EXPECT_OK((*session)->RunShards(request));
    // Ranks 2 and 3 have the second half of the batch.
    for (int rank : {2, 3}) {
      StoreElement(request.feed_shards["tokens"][rank].values.data(), kInt32, 3,
                   -1);
    }
    const auto bad = (*session)->RunShards(request);
    EXPECT_THAT(bad, StatusIs(absl::StatusCode::kOutOfRange,
                              HasSubstr("index -1 at [batch=2, length=3]")));
    errors.emplace_back(bad.status().message());
    request.feed_shards["tokens"] = *shards;
    EXPECT_OK((*session)->RunShards(request));
  }
  EXPECT_EQ(errors[0], errors[1]);
}

// The loss of each of four steps on four virtual devices, with an environment
// variable set.
std::vector<double> LossesWith(const char* variable, const char* value) {
  if (variable != nullptr) setenv(variable, value, 1);
  const absl::StatusOr<SmallRun> run =
      RunOn(kDevice, {"data:2,model:2", "data_model"}, 4);
  if (variable != nullptr) unsetenv(variable);
  EXPECT_OK(run);
  return run.ok() ? run->losses : std::vector<double>();
}

TEST(VirtualDevice, RecordedStepsAreBitwiseEqualToPlainOnes) {
  const std::vector<double> recorded = LossesWith(nullptr, "");
  EXPECT_EQ(recorded.size(), 4u);
  EXPECT_EQ(LossesWith("MTF_CUDA_RECORD", "0"), recorded);
  EXPECT_EQ(LossesWith("MTF_CUDA_BLOCKING", "1"), recorded);
}

TEST(VirtualDevice, AStepAllocatesNothing) {
#ifdef MTF_COUNTS_ALLOCATIONS
  Lookup model(/*computed=*/false);
  SessionOptions options;
  options.backend = kDevice;
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(model.graph, "x:2", "batch:x", options);
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  ASSERT_OK(model.Step(**session, 0, 1));
  const int64_t before = device_allocations;
  EXPECT_GT(before, 0) << "nothing is counted";
  for (int step = 0; step < 4; ++step) {
    ASSERT_OK(model.Step(**session, 0, step));
  }
  EXPECT_EQ(device_allocations, before);
#else
  GTEST_SKIP() << "a sanitizer has its own allocator";
#endif
}

// Only what runs as one kernel depends on the device.
TEST(VirtualDevice, LowersToTheSameInstructions) {
  std::vector<std::string> programs;
  for (const std::string backend : {"cpu", kDevice}) {
    Lookup model(/*computed=*/false);
    SessionOptions options;
    options.backend = backend;
    absl::StatusOr<std::unique_ptr<Session>> session =
        Session::Create(model.graph, "x:2,y:2", "batch:x, vocab:y", options);
    ASSERT_OK(session);
    const absl::StatusOr<const Program*> program = (*session)->ProgramOf(
        {.fetches = {model.loss}, .updates = {model.step}});
    ASSERT_OK(program);
    EXPECT_FALSE((*program)->groups.empty());
    Program single = **program;
    ASSERT_OK(FuseFor({}, single));
    programs.push_back(PrintProgram(single));
  }
  EXPECT_EQ(programs[0], programs[1]);
}

}  // namespace
}  // namespace mtf::train
