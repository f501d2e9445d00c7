// SPDX-License-Identifier: Apache-2.0
//
// A reversible stack keeps the activations of one layer, whatever its depth.
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nn/layers/dense.h"
#include "nn/layers/reversible.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

using Functions = std::vector<std::function<Tensor(Tensor)>>;

// The same stack with activations that are kept.
std::pair<Tensor, Tensor> KeptStack(Tensor x1, Tensor x2,
                                    const Functions& functions) {
  for (size_t i = 0; i < functions.size(); ++i) {
    const Scope half(x1.graph(), absl::StrCat("half_", i));
    x1 = std::exchange(x2, x1 + functions[i](x2));
  }
  return {x1, x2};
}

// Bytes of a training step of a stack of `layers` on one device, without the
// parameters.
int64_t ArenaBytes(int layers, bool reversible) {
  Graph graph;
  const Dimension rows{"rows", 4096}, width{"d", 32}, hidden{"hidden", 64};
  const Tensor x = Input(graph, "x", kFloat32, {rows, width});
  const Functions functions(layers, [&](Tensor t) {
    return nn::Dense(Tanh(nn::Dense(t, {width}, {hidden})), {hidden}, {width});
  });
  const auto [y1, y2] = reversible ? nn::ReversibleStack(x, x, functions)
                                   : KeptStack(x, x, functions);
  const Tensor loss = ReduceSum(y1 * y2, {});
  std::vector<Tensor> updates;
  for (int i = 0; i < 4 * layers; ++i) {
    const Tensor w = graph.variables()[i].read;
    updates.push_back(Assign(w, w - 0.1 * Gradients(loss, {w})[0]));
  }
  const auto program = LowerText(graph, "", "", {.updates = updates});
  EXPECT_OK(program);
  return program.ok() ? program->buffers.arena_bytes : 0;
}

TEST(ReversibleStack, KeepsTheActivationsOfOneLayer) {
  // The gradients of parameters are all that grows.
  const int64_t six = ArenaBytes(6, true), twelve = ArenaBytes(12, true);
  EXPECT_LT(twelve, 1.02 * static_cast<double>(six));
  EXPECT_GT(ArenaBytes(12, false), 3 * twelve);
}

}  // namespace
}  // namespace mtf::testing
