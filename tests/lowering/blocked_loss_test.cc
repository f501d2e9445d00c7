// SPDX-License-Identifier: Apache-2.0
//
// The plan of a cross entropy by blocks of positions.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "nn/layers/dense.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/sgd.h"
#include "ops/input.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

absl::StatusOr<Program> LowerStep(int64_t blocks, const std::string& mesh,
                                  const std::string& layout) {
  Graph graph;
  const Dimension batch{"batch", 4}, length{"length", 64},
      d_model{"d_model", 8}, vocab{"vocab", 512};
  Tensor x = Input(graph, "x", kFloat32, {batch, length, d_model});
  const Tensor targets = Input(graph, "targets", kInt32, {batch, length});
  x = nn::Dense(x, {d_model}, {d_model});
  const Tensor loss = nn::CrossEntropy(x, vocab, targets, {.blocks = blocks});
  const Tensor step = nn::Sgd({.learning_rate = 0.1}).Minimize(loss);
  return LowerText(graph, mesh, layout, {.fetches = {loss}, .updates = {step}});
}

int64_t ArenaOf(int64_t blocks) {
  const auto program = LowerStep(blocks, "x:1", "");
  EXPECT_OK(program);
  return program.ok() ? program->buffers.arena_bytes : 0;
}

TEST(BlockedLoss, HoldsTheLogitsOfOneBlock) {
  const int64_t unblocked = ArenaOf(1), four = ArenaOf(4),
                sixteen = ArenaOf(16);
  constexpr int64_t kLogits = 4 * 64 * 512 * sizeof(float);
  // Forward and backward, at least two tensors of the size of the logits.
  EXPECT_GE(unblocked, 2 * kLogits);
  EXPECT_LE(four, unblocked / 2);
  EXPECT_LE(sixteen, unblocked / 5);
  // The gradients of the kernel, 16 KiB for each block, are one running sum.
  EXPECT_LE(ArenaOf(64), unblocked / 10);
}

int64_t BytesOf(int64_t blocks, const std::string& layout) {
  const auto program = LowerStep(blocks, "x:2", layout);
  EXPECT_OK(program) << layout;
  int64_t bytes = 0;
  for (const auto& [key, count] : CountCollectives(*program)) {
    bytes += count.second;
  }
  return bytes;
}

TEST(BlockedLoss, SendsNoMore) {
  for (const char* layout : {"batch:x", "length:x"}) {
    EXPECT_EQ(BytesOf(8, layout), BytesOf(1, layout)) << layout;
  }
  // The maximum of each position and two sums, as without blocks, and the
  // gradient of x by blocks.
  EXPECT_EQ(BytesOf(8, "vocab:x"), BytesOf(1, "vocab:x"));
}

}  // namespace
}  // namespace mtf::testing
