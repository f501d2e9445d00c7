// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// Fused attention on the device, against composed attention; detection is
// tested in tests/lowering/fusion/find_attention_test.cc.
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "backends/communicator.h"
#include "backends/executor/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/fusion/find_attention.h"
#include "tests/backends/cuda/counting_device.h"
#include "tests/lowering/fusion/attention_parts.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::AttentionParts;
using ::mtf::testing::BuildAttention;
using ::mtf::testing::LowerText;

using Values = std::map<std::string, HostTensor>;

absl::StatusOr<Values> RunOn(const std::string& device_name,
                             const Program& program, const Values& feeds,
                             int* groups) {
  Values outputs;
  LocalRanks ranks{program.mesh};
  MTF_RETURN_IF_ERROR(
      ranks.Run([&](Communicator& communicator) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> counted,
                             CreateDevice(device_name, {}));
        auto device =
            std::make_unique<CountingDevice>(std::move(counted), groups);
        VariableStore store(*device);
        MTF_ASSIGN_OR_RETURN(
            std::unique_ptr<Executor> executor,
            Executor::Create(program, *device, communicator, store));
        for (uint32_t i = 0; i < 2; ++i) {
          MTF_RETURN_IF_ERROR(executor->Run(feeds, 1, i, &outputs));
        }
        return absl::OkStatus();
      }));
  return outputs;
}

TEST(AttentionGroups, MatchTheirMembers) {
  for (bool causal : {false, true}) {
    for (bool gradient : {false, true}) {
      for (int64_t length : {40, 29}) {
        Graph graph;
        const AttentionParts parts = {
            .causal = causal, .gradient = gradient, .length = length};
        const auto program =
            LowerText(graph, "", "", BuildAttention(graph, parts));
        ASSERT_OK(program);
        ASSERT_EQ(FindAttention(*program).size(), 1u);
        std::mt19937 random(3);
        Values feeds;
        for (const Instruction& instruction : program->instructions) {
          if (instruction.opcode != Opcode::kInput) continue;
          const ProgramValue& value = program->values[instruction.results[0]];
          HostTensor tensor(value.shape, kFloat32);
          for (int64_t i = 0; i < tensor.num_elements(); ++i) {
            static_cast<float*>(tensor.data())[i] =
                std::normal_distribution<float>(0, 1)(random);
          }
          feeds[instruction.Get<NameAttributes>().name] = std::move(tensor);
        }
        int none = 0, groups = 0;
        const auto want = RunOn("reference", *program, feeds, &none);
        const auto got = RunOn("cuda_emulated", *program, feeds, &groups);
        ASSERT_OK(want);
        ASSERT_OK(got);
        EXPECT_GE(groups, gradient ? 2 : 1);
        for (const auto& [name, numbers] : *want) {
          const float* w = static_cast<const float*>(numbers.data());
          const float* g = static_cast<const float*>(got->at(name).data());
          for (int64_t i = 0; i < numbers.num_elements(); ++i) {
            // Composed attention rounds its weights and gradients to bf16.
            ASSERT_NEAR(g[i], w[i], 0.03 + 0.02 * std::abs(w[i]))
                << name << " " << i << " causal " << causal << " length "
                << length;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mtf::cuda
