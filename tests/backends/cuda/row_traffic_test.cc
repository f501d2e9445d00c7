// SPDX-License-Identifier: Apache-2.0
//
// The memory traffic of row kernels: a loss over logits, softmax, layer norm,
// RMS norm and their gradients.
#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/device.h"
#include "backends/cuda/fusion/row_group.h"
#include "backends/executor/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/print_program.h"
#include "nn/layers/layer_norm.h"
#include "nn/layers/softmax.h"
#include "nn/losses/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "tests/backends/cuda/counting_device.h"
#include "tests/backends/cuda/text_runtime.h"
#include "tests/backends/fused_for.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::LowerText;
using Kept = RowTiling::Kept;

constexpr int64_t kRows = 64;

// Records the row kernels that would run.
class RowsDevice : public CountingDevice {
 public:
  RowsDevice(std::unique_ptr<Device> device, const GpuInfo& gpu,
             std::vector<RowGroupSource>* sources, int* groups)
      : CountingDevice(std::move(device), groups),
        gpu_(gpu),
        sources_(sources) {}
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareGroup(
      const FusedGroup& group, absl::Span<const Binding> members) override {
    if (group.Find<RowGroup>() != nullptr) {
      sources_->push_back(WriteRowGroup(gpu_, members));
    }
    return CountingDevice::PrepareGroup(group, members);
  }

 private:
  const GpuInfo& gpu_;
  std::vector<RowGroupSource>* sources_;
};

// The row kernels of a step that fetches `fetches`.
std::vector<RowGroupSource> KernelsOf(Graph& graph,
                                      const std::vector<Tensor>& fetches,
                                      int64_t* arena = nullptr) {
  Targets targets;
  targets.fetches = fetches;
  const auto program = LowerText(graph, "", "", targets);
  EXPECT_OK(program);
  std::vector<RowGroupSource> sources;
  if (!program.ok()) return sources;
  const auto runtime = std::make_shared<TextRuntime>();
  EXPECT_OK(
      LocalRanks(program->mesh).Run([&](Communicator& host) -> absl::Status {
        int groups = 0;
        RowsDevice device(CreateDeviceOver(runtime, "texts"), runtime->info(),
                          &sources, &groups);
        const Program fused = mtf::testing::FusedFor(device, *program);
        if (arena != nullptr) *arena = fused.buffers.arena_bytes;
        VariableStore variables(device);
        return Executor::Create(fused, device, host, variables).status();
      }));
  return sources;
}

struct Traffic {
  const char* name;
  std::function<std::vector<Tensor>(Graph& graph, Dimension rows,
                                    Dimension columns, DType dtype)>
      build;
  DType dtype;
  int64_t columns;
  // Bytes per element over all row kernels. Numbers per row and values shared
  // by all rows come on top, less than a byte.
  int64_t read, written;
  Kept kept;
  friend std::ostream& operator<<(std::ostream& out, const Traffic& c) {
    return out << c.name << " of " << DTypeName(c.dtype) << " rows of "
               << c.columns;
  }
};

std::vector<Tensor> Loss(Graph& graph, Dimension rows, Dimension columns,
                         DType dtype) {
  const Tensor x = Input(graph, "x", dtype, {rows, columns});
  const Tensor targets = Input(graph, "targets", kInt32, {rows});
  const Tensor loss = nn::SoftmaxCrossEntropy(x, columns, targets);
  return {loss, Gradients(loss, {x})[0]};
}
// Some tokens have weight 0.
std::vector<Tensor> MaskedLoss(Graph& graph, Dimension rows, Dimension columns,
                               DType dtype) {
  const Tensor x = Input(graph, "x", dtype, {rows, columns});
  const Tensor loss = nn::SoftmaxCrossEntropy(
      x, columns, Input(graph, "targets", kInt32, {rows}),
      {.weights = Input(graph, "counts", kBool, {rows})});
  return {loss, Gradients(loss, {x})[0]};
}
std::vector<Tensor> Softmax(Graph& graph, Dimension rows, Dimension columns,
                            DType dtype) {
  return {nn::Softmax(Input(graph, "x", dtype, {rows, columns}), columns)};
}
std::vector<Tensor> LayerNorm(Graph& graph, Dimension rows, Dimension columns,
                              DType dtype) {
  return {nn::LayerNorm(Input(graph, "x", dtype, {rows, columns}), columns)};
}
std::vector<Tensor> RmsNorm(Graph& graph, Dimension rows, Dimension columns,
                            DType dtype) {
  return {nn::RmsNorm(Input(graph, "x", dtype, {rows, columns}), columns)};
}

// The gradient of a norm reads its operand and the gradient of its result.
std::vector<Tensor> NormGradient(Graph& graph, Dimension rows,
                                 Dimension columns, DType dtype) {
  const Tensor x = Input(graph, "x", dtype, {rows, columns});
  const Tensor y = Input(graph, "y", dtype, {rows, columns});
  const Tensor scale = Input(graph, "scale", dtype, {columns});
  const Tensor norm =
      nn::LayerNorm(x, columns, {.scale = false, .bias = false}) * scale;
  const Tensor loss = ReduceSum(Cast(norm * y, kFloat32), Shape());
  return Gradients(loss, {x, scale});
}

class RowTraffic : public ::testing::TestWithParam<Traffic> {};

TEST_P(RowTraffic, HasTheExpectedBytesPerElement) {
  const Traffic& c = GetParam();
  Graph graph;
  const std::vector<Tensor> fetches =
      c.build(graph, Dimension{"rows", kRows}, Dimension{"columns", c.columns},
              c.dtype);
  const std::vector<RowGroupSource> kernels = KernelsOf(graph, fetches);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].kept, c.kept);
  const int64_t elements = kRows * c.columns;
  EXPECT_EQ(kernels[0].bytes_read / elements, c.read);
  EXPECT_EQ(kernels[0].bytes_written / elements, c.written);
}

INSTANTIATE_TEST_SUITE_P(
    OnAnH200, RowTraffic,
    ::testing::Values(
        // The logits, overwritten by their gradient.
        Traffic{"Loss", Loss, kBFloat16, 50304, 2, 2, Kept::kShared},
        Traffic{"Loss", Loss, kBFloat16, 50257, 2, 2, Kept::kShared},
        Traffic{"Loss", Loss, kFloat32, 50304, 4, 4, Kept::kShared},
        Traffic{"Loss", Loss, kFloat32, 8192, 4, 4, Kept::kRegisters},
        Traffic{"MaskedLoss", MaskedLoss, kBFloat16, 50304, 2, 2,
                Kept::kShared},
        Traffic{"MaskedLoss", MaskedLoss, kFloat32, 8192, 4, 4,
                Kept::kRegisters},
        Traffic{"Softmax", Softmax, kFloat32, 1024, 4, 4, Kept::kRegisters},
        Traffic{"Softmax", Softmax, kFloat32, 20000, 4, 4, Kept::kShared},
        Traffic{"LayerNorm", LayerNorm, kFloat32, 1024, 4, 4, Kept::kRegisters},
        Traffic{"LayerNorm", LayerNorm, kBFloat16, 1600, 2, 2,
                Kept::kRegisters},
        Traffic{"RmsNorm", RmsNorm, kBFloat16, 4096, 2, 2, Kept::kRegisters},
        Traffic{"NormGradient", NormGradient, kFloat32, 1024, 8, 4,
                Kept::kRegisters}));

// 128256 numbers of 2 bytes slightly exceed the shared memory of a block.
TEST(RowTraffic, RowsBeyondSharedMemoryAreReadAgain) {
  Graph graph;
  const auto fetches = Loss(graph, Dimension{"rows", kRows},
                            Dimension{"columns", 128256}, kBFloat16);
  const std::vector<RowGroupSource> kernels = KernelsOf(graph, fetches);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].kept, Kept::kShared);
  EXPECT_LE(kernels[0].shape.shared_bytes, (227 << 10) - 1024);
  const double elements = kRows * 128256.0;
  const double read = static_cast<double>(kernels[0].bytes_read) / elements;
  EXPECT_GT(read, 2.2);
  EXPECT_LT(read, 2.8);
}

// The peak memory of a loss: its logits, and some numbers per row.
TEST(RowTraffic, LossNeedsMemoryForItsLogitsOnly) {
  for (const auto& build : {Loss, MaskedLoss}) {
    Graph graph;
    const auto fetches = build(graph, Dimension{"rows", kRows},
                               Dimension{"columns", 50304}, kBFloat16);
    int64_t arena = 0;
    KernelsOf(graph, fetches, &arena);
    EXPECT_GE(arena, kRows * 50304 * 2);
    EXPECT_LT(arena, kRows * 50304 * 2 + kRows * 4 * 8 + 1024);
  }
}

}  // namespace
}  // namespace mtf::cuda
