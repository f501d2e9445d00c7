// SPDX-License-Identifier: Apache-2.0
//
// Asynchronous collectives on the emulated GPU, whose two streams run in the
// most adverse order. With its waits and its buffer plan a step gives the same
// result as in program order, and without them it does not.
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "backends/cuda/emulated/streams.h"
#include "backends/executor/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/program/print_program.h"
#include "lowering/verify/verify_program.h"
#include "nn/optimizers/adam.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::LowerText;
using Values = std::map<std::string, HostTensor>;

// Restores the order that other tests expect.
class OrderOfStreams {
 public:
  explicit OrderOfStreams(StreamOrder order, uint32_t seed = 0) {
    SetStreamOrder(order, seed);
  }
  ~OrderOfStreams() { SetStreamOrder(StreamOrder::kAsyncLate); }
};

// A few layers with sharded parameters, and a step of AdamW.
struct Model {
  Graph graph;
  Tensor loss, step;

  Model() {
    const Dimension batch{"batch", 6}, width{"width", 10};
    Tensor x = Input(graph, "x", kFloat32, {batch, width});
    for (int layer = 0; layer < 4; ++layer) {
      const Dimension hidden{absl::StrCat("hidden_", layer), 14};
      const auto weight = [&](const char* name, const Shape& shape) {
        return Variable(graph, absl::StrCat(name, layer),
                        RandomNormal(graph, shape, 0, 0.3));
      };
      const Tensor h =
          Relu(Einsum({x, weight("in", {width, hidden})}, {batch, hidden}) +
               weight("bias", {hidden}));
      x = x + Einsum({h, weight("out", {hidden, width})}, {batch, width});
    }
    loss = ReduceSum(Square(x), Shape());
    step = nn::AdamW({.learning_rate = 0.1}).Minimize(loss);
  }

  Targets step_targets() const {
    return {.fetches = {loss}, .updates = {step}};
  }
  Targets weights() const {
    Targets targets;
    for (const VariableInfo& variable : graph.variables()) {
      targets.fetches.push_back(variable.read);
    }
    return targets;
  }
};

constexpr char kMesh[] = "data:3";
constexpr char kLayout[] =
    "batch:data [parameters] width:data [optimizer] width:data";

// The loss and all variables of rank 0 after `steps` steps of `step`.
absl::StatusOr<Values> RunSteps(const Model& model, const Program& step,
                                const std::string& device_name, int steps) {
  MTF_ASSIGN_OR_RETURN(
      const Program initialize,
      LowerText(model.graph, kMesh, kLayout, {.initialize = true}));
  MTF_ASSIGN_OR_RETURN(const Program read,
                       LowerText(model.graph, kMesh, kLayout, model.weights()));
  Values feeds;
  std::vector<double> numbers;
  for (int i = 0; i < 60; ++i) numbers.push_back((i * 37 % 19 - 9) / 9.0);
  feeds["x"] = HostTensor::FromDoubles(Shape({{"batch", 6}, {"width", 10}}),
                                       kFloat32, numbers);
  LocalRanks ranks(*Mesh::Parse(kMesh));
  Values all;
  MTF_RETURN_IF_ERROR(ranks.Run([&](Communicator& host) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                         mtf::CreateDevice(device_name, {}));
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connection,
                         device->Connect(host));
    Communicator& communicator = connection != nullptr ? *connection : host;
    VariableStore store(*device);
    Values outputs;
    for (const auto& [program, times] :
         {std::pair<const Program*, int>{&initialize, 1},
          {&step, steps},
          {&read, 1}}) {
      Program fused = *program;
      MTF_RETURN_IF_ERROR(FuseFor(device->fusion(), fused));
      MTF_ASSIGN_OR_RETURN(
          std::unique_ptr<Executor> executor,
          Executor::Create(fused, *device, communicator, store));
      for (int i = 0; i < times; ++i) {
        MTF_RETURN_IF_ERROR(executor->Run(feeds, 7, i, &outputs));
      }
    }
    if (host.rank() == 0) all = std::move(outputs);
    return absl::OkStatus();
  }));
  return all;
}

absl::StatusOr<Program> LowerStep(const Model& model) {
  return LowerText(model.graph, kMesh, kLayout, model.step_targets());
}

// The number of tensors whose bits differ.
int Different(const Values& got, const Values& want) {
  int different = got.size() == want.size() ? 0 : 1;
  for (const auto& [name, value] : want) {
    const auto found = got.find(name);
    different += found == got.end() || !(found->second == value);
  }
  return different;
}

struct Order {
  const char* name;
  StreamOrder order;
  uint32_t seed = 0;
  friend std::ostream& operator<<(std::ostream& out, const Order& o) {
    return out << o.name << o.seed;
  }
};

class OverlapInOrder : public ::testing::TestWithParam<Order> {};

// Eager, recorded and replayed: three steps.
TEST_P(OverlapInOrder, GivesTheSameBits) {
  const Model model;
  const auto step = LowerStep(model);
  ASSERT_OK(step);
  int asynchronous = 0;
  for (const Instruction& instruction : step->instructions) {
    asynchronous += IsAsynchronous(instruction);
  }
  EXPECT_GT(asynchronous, 6) << PrintProgram(*step);
  absl::StatusOr<Values> want;
  {
    const OrderOfStreams order(StreamOrder::kAsEnqueued);
    want = RunSteps(model, *step, "cuda_emulated", 3);
    ASSERT_OK(want);
  }
  const OrderOfStreams order(GetParam().order, GetParam().seed);
  const auto got = RunSteps(model, *step, "cuda_emulated", 3);
  ASSERT_OK(got);
  EXPECT_EQ(Different(*got, *want), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Orders, OverlapInOrder,
    ::testing::Values(Order{"Late", StreamOrder::kAsyncLate},
                      Order{"Early", StreamOrder::kAsyncEarly},
                      Order{"Random", StreamOrder::kRandom, 1},
                      Order{"Random", StreamOrder::kRandom, 2},
                      Order{"Random", StreamOrder::kRandom, 3}),
    [](const auto& info) {
      return absl::StrCat(info.param.name, info.param.seed);
    });

// Without asynchronous collectives the program is the same.
TEST(Overlap, MatchesSynchronousCollectives) {
  const Model model;
  const auto step = LowerStep(model);
  ASSERT_OK(step);
  auto plain = LowerText(model.graph, kMesh, kLayout, model.step_targets(),
                         {.last_pass = "plan_einsums"});
  ASSERT_OK(plain);
  ASSERT_OK(PlanBuffers(*plain));
  const auto got = RunSteps(model, *step, "cuda_emulated", 3);
  const auto want = RunSteps(model, *plain, "cuda_emulated", 3);
  ASSERT_OK(got);
  ASSERT_OK(want);
  EXPECT_EQ(Different(*got, *want), 0);
}

// Moves the wait at `index` to the end of the program.
Program WithWaitInTheEnd(Program program, size_t index) {
  Instruction wait = std::move(program.instructions[index]);
  program.instructions.erase(program.instructions.begin() +
                             static_cast<std::ptrdiff_t>(index));
  program.instructions.push_back(std::move(wait));
  program.buffers.commit -=
      program.buffers.commit > static_cast<int>(index) ? 1 : 0;
  return program;
}

// A missing wait is detected. By chance a gather may find the data of another
// one of the same parameter.
TEST(Overlap, MissingWaitGivesWrongNumbers) {
  const Model model;
  const auto step = LowerStep(model);
  ASSERT_OK(step);
  const OrderOfStreams order(StreamOrder::kAsyncLate);
  const auto want = RunSteps(model, *step, "cuda_emulated", 3);
  ASSERT_OK(want);
  int waits = 0;
  std::string lucky;
  for (size_t i = 0; i + 1 < step->instructions.size(); ++i) {
    if (step->instructions[i].opcode != Opcode::kWait) continue;
    ++waits;
    const Program wrong = WithWaitInTheEnd(*step, i);
    EXPECT_FALSE(VerifyProgram(wrong).ok()) << i;
    const auto got = RunSteps(model, wrong, "cuda_emulated", 3);
    ASSERT_OK(got);
    if (Different(*got, *want) > 0) continue;
    absl::StrAppend(&lucky, lucky.empty() ? "" : ", ",
                    PrintInstruction(*step, step->instructions[i]));
  }
  EXPECT_GT(waits, 6);
  EXPECT_EQ(lucky.find(','), std::string::npos) << lucky;
}

// So is memory that is reused while a collective runs.
TEST(Overlap, SynchronousBufferPlanGivesWrongNumbers) {
  const Model model;
  auto step = LowerStep(model);
  ASSERT_OK(step);
  Program plain = *step;
  for (Instruction& instruction : plain.instructions) {
    if (auto* collective = instruction.Find<CollectiveAttributes>()) {
      collective->asynchronous = false;
    }
  }
  ASSERT_OK(PlanBuffers(plain));
  ASSERT_LT(plain.buffers.arena_bytes, step->buffers.arena_bytes);
  step->buffers = plain.buffers;
  EXPECT_FALSE(VerifyProgram(*step).ok());
}

}  // namespace
}  // namespace mtf::cuda
