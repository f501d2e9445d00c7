// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/matmul_group.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/communicator.h"
#include "backends/cuda/device.h"
#include "backends/executor/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/print_program.h"
#include "nn/layers/dense.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "tests/backends/cuda/counting_device.h"
#include "tests/backends/cuda/group_cases.h"
#include "tests/backends/cuda/matmul_group_text.h"
#include "tests/backends/cuda/text_runtime.h"
#include "tests/backends/fused_for.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/program_text.h"
#include "tests/requirements.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::LowerPreset;
using ::mtf::testing::LowerText;

struct GroupCase {
  std::string device;
  MatmulCase what;
  DType dtype;
  friend std::ostream& operator<<(std::ostream& out, const GroupCase& c) {
    return out << c.what << " " << DTypeName(c.dtype);
  }
};

class MatmulGroups : public ::testing::TestWithParam<GroupCase> {};

using Values = std::map<std::string, HostTensor>;

absl::StatusOr<Values> RunOn(const std::string& device_name,
                             const Program& program, const Values& feeds,
                             int* groups) {
  Values outputs;
  LocalRanks ranks{program.mesh};
  MTF_RETURN_IF_ERROR(
      ranks.Run([&](Communicator& communicator) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> counted,
                             mtf::CreateDevice(device_name, {}));
        auto device =
            std::make_unique<CountingDevice>(std::move(counted), groups);
        VariableStore store(*device);
        const Program fused = mtf::testing::FusedFor(*device, program);
        MTF_ASSIGN_OR_RETURN(
            std::unique_ptr<Executor> executor,
            Executor::Create(fused, *device, communicator, store));
        for (uint32_t i = 0; i < 2; ++i) {
          MTF_RETURN_IF_ERROR(executor->Run(feeds, 1, i, &outputs));
        }
        return absl::OkStatus();
      }));
  return outputs;
}

// Random numbers for every input.
Values FeedsOf(const Program& program) {
  std::mt19937 random(5);
  Values feeds;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kInput) continue;
    const ProgramValue& value = program.values[instruction.results[0]];
    HostTensor tensor(value.shape, value.dtype);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      StoreElement(tensor.data(), value.dtype, i,
                   std::normal_distribution<double>(0, 0.5)(random));
    }
    feeds[instruction.Get<NameAttributes>().name] = std::move(tensor);
  }
  return feeds;
}

void ExpectNear(const Values& want, const Values& got, double tolerance) {
  for (const auto& [name, numbers] : want) {
    for (int64_t i = 0; i < numbers.num_elements(); ++i) {
      const double w = LoadElement(numbers.data(), numbers.dtype(), i);
      const double g = LoadElement(got.at(name).data(), numbers.dtype(), i);
      ASSERT_NEAR(g, w, tolerance * (1 + std::abs(w))) << name << " " << i;
    }
  }
}

TEST_P(MatmulGroups, MatchTheirMembers) {
  const GroupCase& c = GetParam();
  Graph graph;
  const Dimension rows{"rows", 37}, in{"in", 24}, out{"out", 16};
  const auto input = [&](const char* name, Shape shape) {
    return Input(graph, name, c.dtype, std::move(shape));
  };
  const Tensor x = input("x", {rows, in}), w = input("w", {in, out});
  const Tensor y = Einsum({x, w}, Shape{rows, out});
  Targets targets;
  targets.fetches =
      c.what.finish(y, input("r", {rows, out}), input("b", {out}));
  // Read again later, as by the gradient, so nothing overwrites them.
  targets.fetches.push_back(x);
  targets.fetches.push_back(w);
  const auto program = LowerText(graph, "", "", targets);
  ASSERT_OK(program);
  const std::string expected =
      c.dtype == kFloat32 ? c.what.groups : c.what.groups_of_16_bits;
  EXPECT_EQ(MatmulGroupTexts(*program), expected) << PrintProgram(*program);

  const Values feeds = FeedsOf(*program);
  int none = 0, groups = 0;
  const auto want = RunOn("reference", *program, feeds, &none);
  const auto got = RunOn(c.device, *program, feeds, &groups);
  ASSERT_OK(want);
  ASSERT_OK(got);
  // A GPU may have no algorithm with this epilogue.
  if (c.device != "cuda") {
    EXPECT_EQ(groups, expected.empty() ? 0 : 1);
  }
  ExpectNear(*want, *got, c.dtype == kFloat32 ? 1e-5 : 0.02);
}

// [rows, in] x [rows, out] -> [in, out] in `product`, and the sum of one
// operand over the rows in `sum`.
struct SumCase {
  const char* name;
  DType dtype, product, sum;
  bool of_x = false;     // of the first operand, not of the second
  bool across = false;   // the product is [out, in]
  int64_t columns = 32;  // out
  int groups = 1;
};

Targets Build(const SumCase& c, Graph& graph) {
  const Dimension rows{"rows", 300}, in{"in", 64}, out{"out", c.columns};
  const Tensor x = Input(graph, "x", c.dtype, {rows, in});
  const Tensor dy = Input(graph, "dy", c.dtype, {rows, out});
  const Tensor sum =
      ReduceSum(Cast(c.of_x ? x : dy, c.sum), c.of_x ? Shape{in} : Shape{out});
  const Tensor product =
      Einsum({x, dy}, c.across ? Shape{out, in} : Shape{in, out},
             {.dtype = c.product});
  return {.fetches = {sum, product, x, dy}};
}

const SumCase kSumCases[] = {
    {"OfColumns", kFloat32, kFloat32, kFloat32},
    {"OfRows", kFloat32, kFloat32, kFloat32, true},
    {"OfColumnsAcross", kFloat32, kFloat32, kFloat32, false, true},
    {"OfRowsAcross", kFloat32, kFloat32, kFloat32, true, true},
    {"OfOddColumns", kFloat32, kFloat32, kFloat32, false, false, 37},
    {"OfNarrowToWide", kBFloat16, kFloat32, kFloat32},
    {"OfNarrowRowsToWide", kFloat16, kFloat32, kFloat32, true},
    {"Narrow", kBFloat16, kBFloat16, kBFloat16},
    // The library writes both in one dtype.
    {"WideProductNarrowSum", kBFloat16, kBFloat16, kFloat32, false, false, 32,
     0},
    {"NarrowProductWideSum", kBFloat16, kFloat32, kBFloat16, false, false, 32,
     0},
};

class BiasGradients : public ::testing::TestWithParam<std::string> {};

TEST_P(BiasGradients, MatchSeparateSumAndProduct) {
  if (GetParam() == "cuda_emulated") SKIP_UNDER_SANITIZERS("many kernels");
  for (const SumCase& c : kSumCases) {
    SCOPED_TRACE(c.name);
    Graph graph;
    const auto program = LowerText(graph, "", "", Build(c, graph));
    ASSERT_OK(program);
    const Values feeds = FeedsOf(*program);
    int none = 0, groups = 0;
    const auto want = RunOn("reference", *program, feeds, &none);
    const auto got = RunOn(GetParam(), *program, feeds, &groups);
    ASSERT_OK(want);
    ASSERT_OK(got);
    // A GPU may have no algorithm for both.
    if (GetParam() != "cuda") {
      EXPECT_EQ(groups, c.groups) << PrintProgram(*program);
    }
    const bool wide = c.product == kFloat32 && c.sum == kFloat32;
    ExpectNear(*want, *got, wide ? 1e-5 : 0.02);
  }
}

// The GPU too, if there is one.
std::vector<std::string> Devices() {
  std::vector<std::string> devices = {"cuda_emulated"};
  if (HasGpu()) devices.push_back("cuda");
  return devices;
}

INSTANTIATE_TEST_SUITE_P(Devices, BiasGradients, ::testing::ValuesIn(Devices()),
                         [](const auto& info) { return info.param; });

// The device asks the library for both. If it does not support that, the
// library computes the product, and our own kernel the sum.
class RuntimeWithoutSums : public TextRuntime {
 public:
  absl::StatusOr<std::unique_ptr<PreparedMatmul>> PrepareMatmul(
      const MatmulProblem& problem) override {
    if (problem.bias_elements() == 0) {
      return TextRuntime::PrepareMatmul(problem);
    }
    ++refused;
    return absl::UnimplementedError("nothing for it");
  }
  std::atomic<int> refused{0};
};

TEST(BiasGradientsOfOneMatmul, AreTwoKernelsIfTheLibraryHasNoEpilogue) {
  for (const SumCase& c : kSumCases) {
    SCOPED_TRACE(c.name);
    Graph graph;
    const auto program = LowerText(graph, "", "", Build(c, graph));
    ASSERT_OK(program);
    const auto rich = std::make_shared<TextRuntime>();
    const auto poor = std::make_shared<RuntimeWithoutSums>();
    // The matmul of each, and the number of sums that are kernels.
    const auto prepare = [&](const std::shared_ptr<TextRuntime>& runtime) {
      EXPECT_OK(LocalRanks(program->mesh)
                    .Run([&](Communicator& host) -> absl::Status {
                      const auto device = CreateDeviceOver(runtime, "texts");
                      VariableStore variables(*device);
                      const Program fused =
                          mtf::testing::FusedFor(*device, *program);
                      return Executor::Create(fused, *device, host, variables)
                          .status();
                    }));
      const TextRuntime::Texts kernels = runtime->kernels();
      const std::set<std::string> matmuls = runtime->matmuls();
      EXPECT_EQ(matmuls.size(), 1u);
      return std::make_pair(
          matmuls.empty() ? "" : *matmuls.begin(),
          std::count_if(kernels.begin(), kernels.end(), [](const auto& kernel) {
            return kernel.first == "reduce";
          }));
    };
    const auto with = prepare(rich), without = prepare(poor);
    EXPECT_EQ(absl::StrContains(with.first, "sums of"), c.groups == 1)
        << with.first;
    EXPECT_EQ(with.second, 1 - c.groups);
    EXPECT_EQ(poor->refused, c.groups);
    EXPECT_FALSE(absl::StrContains(without.first, "sums of"));
    EXPECT_EQ(without.second, 1);
  }
}

class RuntimeWithoutGelus : public TextRuntime {
 public:
  absl::StatusOr<std::unique_ptr<PreparedMatmul>> PrepareMatmul(
      const MatmulProblem& problem) override {
    if (problem.epilogue != MatmulProblem::Epilogue::kGeluSlope) {
      return TextRuntime::PrepareMatmul(problem);
    }
    ++refused;
    return absl::UnimplementedError("nothing for it");
  }
  std::atomic<int> refused{0};
};

// The number of map kernels that the program is prepared with.
int64_t CountMaps(const Program& program,
                  const std::shared_ptr<TextRuntime>& runtime) {
  EXPECT_OK(
      LocalRanks(program.mesh).Run([&](Communicator& host) -> absl::Status {
        const auto device = CreateDeviceOver(runtime, "texts");
        VariableStore variables(*device);
        const Program fused = mtf::testing::FusedFor(*device, program);
        return Executor::Create(fused, *device, host, variables).status();
      }));
  const TextRuntime::Texts kernels = runtime->kernels();
  return std::count_if(kernels.begin(), kernels.end(), [](const auto& kernel) {
    return kernel.first == "map";
  });
}

// The output gradient has no memory; it is computed in that of the gelu's
// gradient.
TEST(GeluGradientOfOneMatmul, IsTwoKernelsIfTheLibraryHasNoEpilogue) {
  Graph graph;
  const mtf::testing::Transformer model =
      mtf::testing::BuildTransformer(graph, {.layers = 1, .dtype = kBFloat16});
  const auto program = LowerPreset(
      graph, "single", 1, {.fetches = {model.loss}, .updates = {model.step}});
  ASSERT_OK(program);
  const auto poor = std::make_shared<RuntimeWithoutGelus>();
  const int64_t with = CountMaps(*program, std::make_shared<TextRuntime>());
  EXPECT_EQ(CountMaps(*program, poor), with + 1);
  EXPECT_EQ(poor->refused, 1);
}

// cuBLASLt only stores rows that are multiples of 8.
TEST(GeluGradientOfOneMatmul, IsCloseInOneKernelOrTwo) {
  Graph graph;
  const Dimension rows{"rows", 37}, in{"in", 24}, out{"out", 12};
  const auto input = [&](const char* name, Shape shape) {
    return Input(graph, name, kBFloat16, std::move(shape));
  };
  const Tensor r = input("r", {rows, out});
  const Tensor y =
      Einsum({input("x", {rows, in}), input("w", {in, out})}, Shape{rows, out});
  const Targets targets = {.fetches =
                               Gradients(ReduceSum(Gelu(r) * y, Shape()), {r})};
  const auto program = LowerText(graph, "", "", targets);
  ASSERT_OK(program);
  EXPECT_EQ(MatmulGroupTexts(*program), "2 members gelu gradient");
  const Values feeds = FeedsOf(*program);
  for (const std::string& device : Devices()) {
    int none = 0, groups = 0;
    const auto want = RunOn("reference", *program, feeds, &none);
    const auto got = RunOn(device, *program, feeds, &groups);
    ASSERT_OK(want);
    ASSERT_OK(got);
    ExpectNear(*want, *got, 0.02);
  }
}

// The sum of the gradients of two products of one operand, with the gradients
// of the weights in between.
Targets TwoGradients(Graph& graph, DType dtype) {
  const Dimension rows{"rows", 37}, in{"in", 24}, k{"k", 16}, v{"v", 40};
  const auto input = [&](const char* name, Shape shape) {
    return Input(graph, name, dtype, std::move(shape));
  };
  const Tensor x = input("x", {rows, in}), wk = input("wk", {in, k}),
               wv = input("wv", {in, v});
  const Tensor loss =
      ReduceSum(Einsum({x, wk}, Shape{rows, k}) * input("dk", {rows, k}),
                Shape()) +
      ReduceSum(Einsum({x, wv}, Shape{rows, v}) * input("dv", {rows, v}),
                Shape());
  return {.fetches = Gradients(loss, {x, wk, wv})};
}

TEST(LateSumOfOneMatmul, MatchesTheReferenceDevice) {
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    Graph graph;
    const auto program = LowerText(graph, "", "", TwoGradients(graph, dtype));
    ASSERT_OK(program);
    EXPECT_EQ(MatmulGroupTexts(*program), "2 members adds")
        << PrintProgram(*program);
    const Values feeds = FeedsOf(*program);
    for (const std::string& device : Devices()) {
      int none = 0, groups = 0;
      const auto want = RunOn("reference", *program, feeds, &none);
      const auto got = RunOn(device, *program, feeds, &groups);
      ASSERT_OK(want);
      ASSERT_OK(got);
      if (device != "cuda") {
        EXPECT_EQ(groups, 1);
      }
      ExpectNear(*want, *got, dtype == kFloat32 ? 1e-5 : 0.02);
    }
  }
}

class RuntimeWithoutAddends : public TextRuntime {
 public:
  absl::StatusOr<std::unique_ptr<PreparedMatmul>> PrepareMatmul(
      const MatmulProblem& problem) override {
    if (problem.beta == 0) return TextRuntime::PrepareMatmul(problem);
    ++refused;
    return absl::UnimplementedError("nothing for it");
  }
  std::atomic<int> refused{0};
};

// The product has no memory; it is computed in that of the sum.
TEST(LateSumOfOneMatmul, IsTwoKernelsIfTheLibraryHasNoEpilogue) {
  Graph graph;
  const auto program = LowerText(graph, "", "", TwoGradients(graph, kFloat32));
  ASSERT_OK(program);
  const auto poor = std::make_shared<RuntimeWithoutAddends>();
  const int64_t with = CountMaps(*program, std::make_shared<TextRuntime>());
  EXPECT_EQ(CountMaps(*program, poor), with + 1);
  EXPECT_EQ(poor->refused, 1);
}

std::vector<GroupCase> AllCases() {
  std::vector<GroupCase> cases;
  for (const std::string& device : Devices()) {
    for (const MatmulCase& what : MatmulCases()) {
      for (DType dtype : {kFloat32, kBFloat16}) {
        cases.push_back({device, what, dtype});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Devices, MatmulGroups, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) {
                           return absl::StrCat(
                               info.param.what.name, "_",
                               std::string(DTypeName(info.param.dtype)), "_on_",
                               info.param.device);
                         });

}  // namespace
}  // namespace mtf::cuda
