// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/matmul_group.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
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
#include "tests/backends/cuda/text_runtime.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/program_text.h"
#include "tests/requirements.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::LowerPreset;
using ::mtf::testing::LowerText;

std::vector<MatmulGroup> Found(const Program& program) {
  return FindMatmulGroups(
      program, std::vector<bool>(program.instructions.size(), false));
}

// "2 members adds", "2 members gelu keeps", ... for each group.
std::string Texts(const Program& program) {
  std::vector<std::string> texts;
  for (const MatmulGroup& group : Found(program)) {
    std::string text = absl::StrCat(group.members.size(), " members");
    if (group.bias >= 0) text += " bias";
    if (group.gelu) text += " gelu";
    if (group.addend >= 0) text += " adds";
    if (group.kept >= 0) text += " keeps";
    if (group.gelu_gradient_input >= 0) text += " gelu gradient";
    if (group.late && group.gelu_gradient_input < 0) text += " late";
    texts.push_back(text);
  }
  return absl::StrJoin(texts, "; ");
}

TEST(FindMatmulGroups, InATransformerUnlessAReductionIntervenes) {
  const auto text = [](const std::string& preset, int64_t ranks) {
    Graph graph;
    const mtf::testing::Transformer model =
        mtf::testing::BuildTransformer(graph, {.layers = 1,
                                               .length = 64,
                                               .d_model = 64,
                                               .heads = 4,
                                               .d_kv = 16,
                                               .d_ff = 256,
                                               .vocab = 128,
                                               .dtype = kBFloat16});
    const auto program =
        LowerPreset(graph, preset, ranks, {.fetches = {model.loss}});
    EXPECT_OK(program);
    return program.ok() ? Texts(*program) : "";
  };
  // Residuals follow the outputs of attention and of feed-forward layers; the
  // gelu follows the first product of a feed-forward layer.
  EXPECT_EQ(text("single", 1),
            "2 members adds; 2 members gelu; 2 members adds");
  // The sum over ranks precedes the residual.
  EXPECT_EQ(text("megatron", 4), "2 members gelu");
}

// A bias that is cast at its use is available before the product.
TEST(FindMatmulGroups, InLayersOfEveryPrecision) {
  for (const Precision& precision :
       {Precision(),
        Precision{.parameters = kBFloat16, .activations = kBFloat16},
        Precision{.activations = kBFloat16}}) {
    Graph graph;
    const PrecisionScope scope(graph, precision);
    const Dimension batch{"batch", 8}, in{"in", 16}, hidden{"hidden", 32},
        out{"out", 24};
    const Tensor x = Input(graph, "x", kFloat32, {batch, in});
    const Tensor y = nn::Dense(nn::Dense(x, {in}, {hidden}), {hidden}, {out});
    const auto program = LowerText(graph, "", "", {.fetches = {y}});
    ASSERT_OK(program);
    EXPECT_EQ(Texts(*program), "2 members bias; 2 members bias")
        << PrintProgram(*program);
  }
}

// The gradient of the second weight is between the gradient of the hidden layer
// and that of its gelu.
TEST(FindMatmulGroups, IncludeGeluGradientsInATrainingStep) {
  for (const auto& [preset, ranks] :
       std::vector<std::pair<std::string, int64_t>>{
           {"single", 1}, {"data", 2}, {"megatron", 4}, {"data_model", 4}}) {
    SCOPED_TRACE(preset);
    Graph graph;
    const mtf::testing::Transformer model = testing::BuildTransformer(
        graph, {.layers = 2, .dtype = kBFloat16, .biases = true});
    const auto program =
        LowerPreset(graph, preset, ranks,
                    {.fetches = {model.loss}, .updates = {model.step}});
    ASSERT_OK(program);
    int gradients = 0;
    for (const MatmulGroup& group : Found(*program)) {
      if (group.gelu_gradient_input < 0) continue;
      ++gradients;
      EXPECT_GT(group.members[1], group.members[0] + 1);
    }
    EXPECT_EQ(gradients, 2) << PrintProgram(*program);
  }
}

// Memory has gradients of two products. The second adds to the first, before
// the gradient of its weight, if no sum over ranks starts in between.
TEST(FindMatmulGroups, IncludeSumsOfTwoGradientsInATrainingStep) {
  for (DType dtype : {kFloat32, kBFloat16}) {
    Graph graph;
    const mtf::testing::Transformer model =
        mtf::testing::BuildTransformer(graph, {.layers = 2, .dtype = dtype});
    const auto program = LowerPreset(
        graph, "single", 1, {.fetches = {model.loss}, .updates = {model.step}});
    ASSERT_OK(program);
    int sums = 0;
    for (const MatmulGroup& group : Found(*program)) {
      if (!group.late || group.addend < 0) continue;
      ++sums;
      EXPECT_GT(group.members[1], group.members[0] + 1);
    }
    EXPECT_EQ(sums, 2) << PrintProgram(*program);
  }
}

// A map after its product joins it if that delays nothing and if it is the only
// reader of the product.
TEST(FindMatmulGroups, IncludeMapsThatCanMoveToTheProduct) {
  const auto found = [](absl::string_view between, absl::string_view map,
                        absl::string_view last = "output(%z) z") {
    auto program = mtf::testing::ParseText(absl::StrCat(R"(
mesh{data:2}
%x : bf16[b:8/data=4, i:8] = input x
%w : bf16[i:8, o:8] = input w
%r : bf16[b:8/data=4, o:8] = input r
%b : bf16[o:8] = input b
%v : bf16[b:8/data=4, o:8] = read_variable v
%p : bf16[o:8] unreduced{data} = reduce(%r) sum
%y : bf16[b:8/data=4, o:8] = einsum(%x, %w) sum{i}
)",
                                                        between, "\n%z : ",
                                                        "bf16[b:8/data=4, o:8] "
                                                        "= map(",
                                                        map, "\n", last, "\n"));
    EXPECT_OK(program);
    if (!program.ok()) return std::string("no program");
    EXPECT_OK(RunPass("plan_einsums", *program));
    return Texts(*program);
  };
  const std::string sum = "%s : bf16[b:8/data=4] = reduce(%r) sum";
  const std::string product =
      "%q : bf16[b:8/data=4, o:8] = einsum(%x, %w) sum{i}";
  EXPECT_EQ(found("", "%y, %r) add"), "2 members adds");
  EXPECT_EQ(found(sum, "%y, %r) add"), "2 members adds late");
  EXPECT_EQ(found(sum, "%y, %b) add"), "2 members bias late");
  EXPECT_EQ(found(sum, "%y) gelu"), "2 members gelu late");
  EXPECT_EQ(found(product, "%y, %r) add"), "2 members adds late");
  // The later of two products adds to the earlier one.
  EXPECT_EQ(found(product, "%y, %q) add"), "2 members adds");
  EXPECT_EQ(found(sum, "%y) gelu", "output(%z) z\noutput(%y) y"), "");
  EXPECT_EQ(found(sum, "%y, %r) add", "output(%z) z\noutput(%y) y"), "");
  EXPECT_EQ(
      found("%s : bf16[o:8] = all_reduce(%p) sum over{data}", "%y, %r) add"),
      "");
  EXPECT_EQ(found("%s : bf16[b:8/data=4, o:8] = map(%r) exp", "%y, %s) add"),
            "");
  std::string far;
  for (int i = 0; i < 12; ++i) {
    absl::StrAppend(&far, "%s", i, " : bf16[b:8/data=4] = reduce(%r) sum\n");
  }
  EXPECT_EQ(found(far, "%y, %r) add"), "");
  // A variable may be updated in place.
  EXPECT_EQ(found(sum, "%y, %v) add",
                  "%v.2 : bf16[b:8/data=4, o:8] = write_variable(%z) v"),
            "");
}

// [rows, in] x [in, out] -> [rows, out] in `dtype`, followed by some maps.
struct Case {
  const char* name;
  std::function<std::vector<Tensor>(Tensor y, Tensor residual, Tensor bias)>
      finish;
  const char* groups;
  const char* groups_of_16_bits = groups;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.name;
  }
};

const Case kCases[] = {
    {"Residual",
     [](Tensor y, Tensor r, Tensor) { return std::vector<Tensor>{r + y}; },
     "2 members adds"},
    {"Bias",
     [](Tensor y, Tensor, Tensor b) { return std::vector<Tensor>{y + b}; },
     "2 members bias"},
    {"BiasAndResidual",
     [](Tensor y, Tensor r, Tensor b) {
       return std::vector<Tensor>{r + (y + b)};
     },
     "2 members bias adds"},
    {"Gelu",
     [](Tensor y, Tensor, Tensor) { return std::vector<Tensor>{Gelu(y)}; }, "",
     "2 members gelu"},
    {"GeluWithAnotherReader",
     [](Tensor y, Tensor, Tensor) {
       return std::vector<Tensor>{Gelu(y), y};
     },
     "", "2 members gelu keeps"},
    {"BiasAndGelu",
     [](Tensor y, Tensor, Tensor b) {
       return std::vector<Tensor>{Gelu(y + b)};
     },
     "", "2 members bias gelu"},
    {"BiasAndGeluWithAnotherReader",
     [](Tensor y, Tensor, Tensor b) {
       const Tensor before = y + b;
       return std::vector<Tensor>{Gelu(before), before};
     },
     "2 members bias", "3 members bias gelu keeps"},
    // A product that is only part of a sum must not have other readers.
    {"ResidualWithAnotherReader",
     [](Tensor y, Tensor r, Tensor) {
       return std::vector<Tensor>{r + y, y};
     },
     ""},
    // y times the derivative of gelu at r.
    {"GeluGradient",
     [](Tensor y, Tensor r, Tensor) {
       return Gradients(ReduceSum(Gelu(r) * y, Shape()), {r});
     },
     "", "2 members gelu gradient"},
    {"GeluGradientWithAnotherReader",
     [](Tensor y, Tensor r, Tensor) {
       std::vector<Tensor> both =
           Gradients(ReduceSum(Gelu(r) * y, Shape()), {r});
       both.push_back(y);
       return both;
     },
     ""},
    {"TanhGradient",
     [](Tensor y, Tensor r, Tensor) {
       return Gradients(ReduceSum(Tanh(r) * y, Shape()), {r});
     },
     ""},
    {"Difference",
     [](Tensor y, Tensor r, Tensor) { return std::vector<Tensor>{r - y}; }, ""},
};

struct GroupCase {
  std::string device;
  Case what;
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
    feeds[instruction.symbol] = std::move(tensor);
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
  EXPECT_EQ(Texts(*program), expected) << PrintProgram(*program);

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
                      return Executor::Create(*program, *device, host,
                                              variables)
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
        return Executor::Create(program, *device, host, variables).status();
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
TEST(GeluGradientOfOneMatmul, IsBitwiseEqualInTwoKernels) {
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
  EXPECT_EQ(Texts(*program), "2 members gelu gradient");
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

TEST(LateSumOfOneMatmul, IsTheSame) {
  for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    Graph graph;
    const auto program = LowerText(graph, "", "", TwoGradients(graph, dtype));
    ASSERT_OK(program);
    EXPECT_EQ(Texts(*program), "2 members adds late") << PrintProgram(*program);
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
    for (const Case& what : kCases) {
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
