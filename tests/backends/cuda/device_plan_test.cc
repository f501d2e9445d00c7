// SPDX-License-Identifier: Apache-2.0
//
// The memory in explanations is that of the device's plan, to the byte.
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/verify/verify_program.h"
#include "planning/explain/explain.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::BuildTransformer;
using ::mtf::testing::Transformer;
using ::mtf::testing::TransformerSizes;

struct Case {
  DType dtype;
  std::string mesh, layout;
  int attention;  // instructions, besides the gradients
  bool biases = false;
  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << DTypeName(c.dtype) << " " << c.mesh << " " << c.layout;
  }
};

class DevicePlan : public ::testing::TestWithParam<Case> {};

// A small GPT-2: the same head size, lengths and ratios.
TEST_P(DevicePlan, MatchesTheExplanation) {
  const Case& c = GetParam();
  Graph graph;
  const TransformerSizes sizes = {.layers = 3,
                                  .batch = 4,
                                  .length = 256,
                                  .d_model = 256,
                                  .heads = 4,
                                  .d_kv = 64,
                                  .d_ff = 1024,
                                  .vocab = 512,
                                  .dtype = c.dtype,
                                  .biases = c.biases};
  const Transformer model = BuildTransformer(graph, sizes);
  const Targets targets = {.fetches = {model.loss}, .updates = {model.step}};
  const auto device = mtf::CreateDevice("cuda_emulated", {});
  ASSERT_OK(device);
  const Machine machine = *Machine::Load("h200_x8");
  const auto explained =
      Explain(graph, *Mesh::Parse(c.mesh),
              *LayoutRules::Parse(c.layout, "--layout"), targets, machine);
  ASSERT_OK(explained);
  EXPECT_EQ(machine.fusion(), (*device)->fusion());
  auto program = mtf::testing::LowerText(graph, c.mesh, c.layout, targets,
                                         {.attention = (*device)->attention()});
  ASSERT_OK(program);
  const int64_t single = program->buffers.arena_bytes;
  ASSERT_OK(FuseFor((*device)->fusion(), *program));
  ASSERT_OK(VerifyProgram(*program));
  EXPECT_EQ(explained->attention.instructions, c.attention);
  EXPECT_EQ(explained->memory.arena, program->buffers.arena_bytes);
  EXPECT_LE(program->buffers.arena_bytes, single);
}

INSTANTIATE_TEST_SUITE_P(
    Cuda, DevicePlan,
    ::testing::Values(
        Case{kBFloat16, "", "", 3}, Case{kFloat16, "", "", 3},
        Case{kFloat32, "", "", 0}, Case{kBFloat16, "data:4", "batch:data", 3},
        Case{kBFloat16, "", "", 3, true}, Case{kFloat32, "", "", 0, true},
        Case{kBFloat16, "data:2,model:2", "batch:data,heads:model", 3, true},
        Case{kBFloat16, "model:4", "heads:model,d_ff:model,vocab:model", 3},
        Case{kBFloat16, "data:2,model:2", "batch:data,heads:model", 3},
        Case{kBFloat16, "data:3", "batch:data;[parameters];d_model:data", 3},
        Case{kBFloat16, "model:4", "length:model", 0},
        Case{kBFloat16, "model:2", "d_kv:model", 0}));

}  // namespace
}  // namespace mtf::cuda
