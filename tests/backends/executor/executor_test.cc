// SPDX-License-Identifier: Apache-2.0
//
// How a step is split into segments for a device that replays, and which
// instructions errors name. The device is the reference device with a log.
#include "backends/executor/executor.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/lower.h"
#include "lowering/passes/plan_buffers.h"
#include "mtf/check.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Logs its calls: "BeginStep", "[" and "]" around a segment, the opcodes of
// kernels, "to" and "from" for copies to and from the device, "Finish".
class LoggingDevice : public Device {
 public:
  LoggingDevice() : device_(*CreateDevice("reference", {})) {}

  absl::string_view name() const override { return "watched"; }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    log.push_back("Allocate");
    return device_->Allocate(bytes);
  }
  void Free(void* data) override { device_->Free(data); }
  absl::Status CopyToDevice(void* to, const void* from,
                            int64_t bytes) override {
    log.push_back("to");
    return device_->CopyToDevice(to, from, bytes);
  }
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes) override {
    log.push_back("from");
    return device_->CopyToHost(to, from, bytes);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
      const Binding& binding) override {
    const Opcode opcode = binding.instruction().opcode;
    if (opcode == fails_to_prepare) {
      return absl::UnimplementedError("no kernel for this");
    }
    MTF_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                         device_->Prepare(binding));
    return Watch(std::string(OpcodeName(opcode)), opcode, std::move(kernel));
  }
  std::unique_ptr<Kernel> PrepareCopy(void* to, const void* from,
                                      const BlockCopy& copy) override {
    return Watch("copy", Opcode::kInput, device_->PrepareCopy(to, from, copy));
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareGroup(
      const FusedGroup&, absl::Span<const Binding> bindings) override {
    class Both : public Kernel {
     public:
      void Run(StepContext& context) override {
        for (const std::unique_ptr<Kernel>& kernel : kernels) {
          kernel->Run(context);
        }
      }
      std::vector<std::unique_ptr<Kernel>> kernels;
    };
    auto both = std::make_unique<Both>();
    for (const Binding& binding : bindings) {
      MTF_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                           device_->Prepare(binding));
      both->kernels.push_back(std::move(kernel));
    }
    return Watch("group", Opcode::kInput, std::move(both));
  }
  absl::Status BeginStep(const StepContext&) override {
    log.push_back("BeginStep");
    return absl::OkStatus();
  }
  absl::Status Finish(StepContext&) override {
    log.push_back("Finish");
    return std::exchange(error_, absl::OkStatus());
  }
  bool replays() const override { return true; }
  absl::Status RunOrReplay(const std::function<absl::Status()>& work,
                           std::unique_ptr<Replay>&) override {
    log.push_back("[");
    const absl::Status status = work();
    log.push_back("]");
    return status;
  }

  std::vector<std::string> log;
  Opcode fails_to_prepare = Opcode::kOutput;  // which is never prepared
  Opcode fails_to_run = Opcode::kOutput;

 private:
  class WatchedKernel : public Kernel {
   public:
    void Run(StepContext& context) override {
      device->log.push_back(name);
      kernel->Run(context);
      if (opcode == device->fails_to_run) {
        device->error_ = absl::InternalError("an illegal address");
      }
    }
    LoggingDevice* device = nullptr;
    std::string name;
    Opcode opcode = Opcode::kInput;
    std::unique_ptr<Kernel> kernel;
  };
  std::unique_ptr<Kernel> Watch(std::string name, Opcode opcode,
                                std::unique_ptr<Kernel> kernel) {
    auto watched = std::make_unique<WatchedKernel>();
    watched->device = this;
    watched->name = std::move(name);
    watched->opcode = opcode;
    watched->kernel = std::move(kernel);
    return watched;
  }

  std::unique_ptr<Device> device_;
  absl::Status error_;
};

const Dimension kBatch{"batch", 3}, kVocab{"vocab", 5};

// A model that adds to a variable the rows gathered from it, and fetches their
// sum. The input "tokens" has the shape of `indices`.
struct Model {
  explicit Model(const std::function<Tensor(Tensor)>& indices) {
    const Tensor tokens = Input(graph, "tokens", kInt32, {kBatch});
    const Tensor table =
        Variable(graph, "table", Ones(graph, kFloat32, {kVocab}));
    const Tensor rows = Gather(table, indices(tokens), "vocab");
    sum = ReduceSum(rows, {});
    update = Assign(table, table + sum);
  }

  Program LowerStep(bool initialize = false) const {
    const absl::StatusOr<LayoutBinding> binding =
        BindLayout(graph, *Mesh::Parse("x:1"), *LayoutRules::Parse("", "test"));
    MTF_CHECK_OK(binding.status());
    absl::StatusOr<Program> program =
        initialize
            ? Lower(graph, *binding, {.initialize = true})
            : Lower(graph, *binding, {.fetches = {sum}, .updates = {update}});
    MTF_CHECK_OK(program.status());
    return *std::move(program);
  }

  Graph graph;
  Tensor sum, update;
};

Tensor AsTheyAre(Tensor tokens) { return tokens; }
Tensor OneMore(Tensor tokens) {
  return tokens + Ones(tokens.graph(), kInt32, {kBatch});
}

// A rank with its executor.
class Step {
 public:
  Step(const Model& model, LoggingDevice& device)
      : initialize_(model.LowerStep(/*initialize=*/true)),
        program_(model.LowerStep()),
        device_(device),
        ranks_(program_.mesh),
        variables_(device),
        name_(model.sum.name()) {}

  // `members` are a group that the device fuses.
  absl::Status Prepare(const std::vector<int>& members = {}) {
    if (!members.empty()) {
      program_.groups = {{members, MapGroup{{members}}}};
      MTF_RETURN_IF_ERROR(PlanBuffers(program_));
    }
    return ranks_.Run([&](Communicator& communicator) -> absl::Status {
      MTF_ASSIGN_OR_RETURN(
          const std::unique_ptr<Executor> initialize,
          Executor::Create(initialize_, device_, communicator, variables_));
      std::map<std::string, HostTensor> none;
      MTF_RETURN_IF_ERROR(initialize->Run({}, 0, 0, &none));
      MTF_ASSIGN_OR_RETURN(
          executor_,
          Executor::Create(program_, device_, communicator, variables_));
      return absl::OkStatus();
    });
  }
  absl::StatusOr<double> Run(const std::vector<int32_t>& tokens) {
    device_.log.clear();
    std::map<std::string, HostTensor> outputs;
    MTF_RETURN_IF_ERROR(ranks_.Run([&](Communicator&) {
      return executor_->Run(
          {{"tokens", HostTensor::Of<int32_t>({kBatch}, tokens)}}, 0, 0,
          &outputs);
    }));
    return *outputs.at(name_).At(0);
  }
  const Program& program() const { return program_; }

 private:
  const Program initialize_;
  Program program_;
  LoggingDevice& device_;
  LocalRanks ranks_;
  VariableStore variables_;
  const std::string name_;
  std::unique_ptr<Executor> executor_;
};

TEST(Executor, ValidFedIndicesMakeTheStepOneSegment) {
  const Model model(AsTheyAre);
  LoggingDevice device;
  Step step(model, device);
  ASSERT_OK(step.Prepare());
  for (int round = 1; round < 3; ++round) {
    const absl::StatusOr<double> sum = step.Run({0, 4, 4});
    ASSERT_OK(sum);
    // 1 becomes 1 + 3, which becomes 4 + 12.
    EXPECT_EQ(*sum, round == 1 ? 3 : 12);
    // No host copies and no allocations within a segment.
    EXPECT_THAT(device.log,
                ElementsAre("to", "BeginStep", "[", "gather", "reduce", "map",
                            "copy", "]", "Finish", "from"));
  }
}

TEST(Executor, InvalidFedIndicesRunUpToTheAgreement) {
  const Model model(AsTheyAre);
  LoggingDevice device;
  Step step(model, device);
  ASSERT_OK(step.Prepare());
  EXPECT_THAT(step.Run({0, 5, 4}),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("index 5 at [batch=1] of \"tokens\"")));
  EXPECT_THAT(device.log, Not(Contains("map"))) << "a variable has changed";
  EXPECT_THAT(device.log, Contains("gather"));
  const absl::StatusOr<double> sum = step.Run({0, 3, 4});
  ASSERT_OK(sum);
  EXPECT_EQ(*sum, 3) << "as if nothing had been";
}

TEST(Executor, ComputedIndicesMakeTheStepTwoSegments) {
  const Model model(OneMore);
  LoggingDevice device;
  Step step(model, device);
  ASSERT_OK(step.Prepare());
  const absl::StatusOr<double> sum = step.Run({0, 3, 3});
  ASSERT_OK(sum);
  EXPECT_EQ(*sum, 3);
  EXPECT_THAT(device.log, ElementsAre("to", "BeginStep", "[", "map", "gather",
                                      "reduce", "]", "Finish", "[", "map",
                                      "copy", "]", "Finish", "from"));
  EXPECT_THAT(step.Run({0, 3, 4}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("index 5")));
  EXPECT_THAT(*step.Run({0, 3, 3}), 12);
}

// The index of the first instruction with this opcode.
int IndexOf(const Program& program, Opcode opcode) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].opcode == opcode) return static_cast<int>(i);
  }
  return -1;
}

TEST(Executor, AGroupThatChangesVariablesRunsAfterTheAgreement) {
  const Model model(OneMore);
  const Program program = model.LowerStep();
  const int gather = IndexOf(program, Opcode::kGather);
  const int reduce = IndexOf(program, Opcode::kReduce);
  const int update = program.buffers.commit;
  ASSERT_LT(gather, reduce);
  ASSERT_LT(reduce, update);
  LoggingDevice device;
  Step step(model, device);
  ASSERT_OK(step.Prepare({reduce, update}));
  ASSERT_OK(step.Run({0, 3, 3}));
  EXPECT_THAT(device.log, ElementsAre("to", "BeginStep", "[", "map", "gather",
                                      "]", "Finish", "[", "group", "copy", "]",
                                      "Finish", "from"));
}

// Its results are copied to the variables after the agreement.
TEST(Executor, AGroupBeforeAnInstructionThatCanFailDoesNotWriteVariables) {
  const Model model(OneMore);
  const Program program = model.LowerStep();
  const int indices = IndexOf(program, Opcode::kMap);
  ASSERT_LT(indices, IndexOf(program, Opcode::kGather));
  LoggingDevice device;
  Step step(model, device);
  ASSERT_OK(step.Prepare({indices, program.buffers.commit}));
  ASSERT_OK(step.Run({0, 3, 3}));
  EXPECT_THAT(device.log, ElementsAre("to", "BeginStep", "[", "group", "gather",
                                      "reduce", "copy", "]", "Finish", "[",
                                      "copy", "]", "Finish", "from"));
  EXPECT_THAT(step.Run({0, 3, 4}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("index 5")));
}

TEST(Executor, AnInstructionThatCannotBePreparedIsNamed) {
  const Model model(AsTheyAre);
  LoggingDevice device;
  device.fails_to_prepare = Opcode::kGather;
  Step step(model, device);
  EXPECT_THAT(step.Prepare(),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("no kernel for this"),
                             HasSubstr("= gather gather (executor_test.cc:"))));
}

TEST(Executor, AnErrorOfTheDeviceSaysHowToFindTheInstruction) {
  const Model model(AsTheyAre);
  LoggingDevice device;
  Step step(model, device);
  ASSERT_OK(step.Prepare());
  device.fails_to_run = Opcode::kReduce;
  EXPECT_THAT(step.Run({0, 1, 2}),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("an illegal address\n"),
                             HasSubstr("MTF_CUDA_BLOCKING=1"))));
}

TEST(Executor, BlockingNamesTheInstructionThatFails) {
  setenv("MTF_CUDA_BLOCKING", "1", 1);
  const Model model(AsTheyAre);
  LoggingDevice device;
  Step step(model, device);
  const absl::Status prepared = step.Prepare();
  unsetenv("MTF_CUDA_BLOCKING");
  ASSERT_OK(prepared);
  ASSERT_OK(step.Run({0, 1, 2}));
  device.fails_to_run = Opcode::kReduce;
  EXPECT_THAT(
      step.Run({0, 1, 2}),
      StatusIs(absl::StatusCode::kInternal,
               AllOf(HasSubstr("an illegal address\n"),
                     HasSubstr("= reduce reduce_sum (executor_test.cc:"))));
}

}  // namespace
}  // namespace mtf
