// SPDX-License-Identifier: Apache-2.0
//
// Random programs give the same bits with and without a random section
// [offload], on every device, and their variables take the memory that the
// plan states.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/backend.h"
#include "backends/executor/executor.h"
#include "layouts/shard.h"
#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "lowering/program/print_program.h"
#include "tests/backends/fused_for.h"
#include "tests/matchers.h"
#include "tests/properties/lowered_case.h"
#include "tests/properties/random_case.h"

namespace mtf::testing {
namespace {

using Outputs = std::map<std::string, HostTensor>;

// Initializes the variables, runs a step and reads the variables.
absl::StatusOr<Outputs> RunStepAndRead(const LoweredCase& made,
                                       const std::string& device_name) {
  MTF_ASSIGN_OR_RETURN(const Program read, made.LowerReads());
  Outputs outputs;
  MTF_RETURN_IF_ERROR(
      RanksOf(made.mesh).Run([&](Communicator& host) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                             CreateDevice(device_name, {.num_threads = 1}));
        MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connection,
                             device->Connect(host));
        Communicator& communicator = connection != nullptr ? *connection : host;
        VariableStore store(*device);
        Outputs mine;
        const Program step = FusedFor(*device, made.step);
        for (const Program* program : {&made.initialize, &step, &read}) {
          MTF_ASSIGN_OR_RETURN(
              std::unique_ptr<Executor> executor,
              Executor::Create(*program, *device, communicator, store));
          MTF_RETURN_IF_ERROR(executor->Run(made.program.feeds, 7, 3, &mine));
        }
        // `read` has all variables.
        int64_t on_device = 0, on_host = 0;
        for (const ProgramVariable& variable : read.variables) {
          (variable.offloaded ? on_host : on_device) +=
              LocalElements(read.grains, variable.shape, variable.layout) *
              DTypeSize(variable.dtype);
        }
        if (store.host_bytes() != on_host ||
            store.device_bytes() != on_device) {
          return absl::InternalError(
              absl::StrCat("variables take ", store.device_bytes(), " and ",
                           store.host_bytes(), " bytes, not as planned"));
        }
        if (host.rank() == 0) outputs = std::move(mine);
        return absl::OkStatus();
      }));
  return outputs;
}

// Lowers the case again with some variables offloaded.
absl::Status OffloadSome(uint64_t seed, LoweredCase& made) {
  std::mt19937_64 random(seed);
  const Graph& graph = *made.program.graph;
  std::set<std::string> items;  // a variable may be called "state"
  for (const char* word : {"parameters", "optimizer", "state"}) {
    if (random() % 3 == 0) items.insert(word);
  }
  for (const VariableInfo& variable : graph.variables()) {
    if (random() % 2 == 0) items.insert(variable.name);
  }
  if (items.empty()) items = {"parameters"};
  absl::StrAppend(&made.layout, made.layout.empty() ? "" : ", ", "[offload] ",
                  absl::StrJoin(items, " "));
  MTF_ASSIGN_OR_RETURN(const LayoutRules rules,
                       LayoutRules::Parse(made.layout, ""));
  MTF_ASSIGN_OR_RETURN(made.binding, BindLayout(graph, made.mesh, rules));
  MTF_ASSIGN_OR_RETURN(made.initialize,
                       Lower(graph, made.binding, {.initialize = true}));
  std::vector<Tensor> fetches = made.program.fetches;
  fetches.insert(fetches.end(), made.program.exact.begin(),
                 made.program.exact.end());
  MTF_ASSIGN_OR_RETURN(
      made.step, Lower(graph, made.binding,
                       {.fetches = fetches, .updates = made.program.updates}));
  const std::string text = PrintProgram(made.step);
  MTF_ASSIGN_OR_RETURN(const Program parsed, ParseProgram(text));
  if (PrintProgram(parsed) == text) return absl::OkStatus();
  return absl::InternalError("the text form does not round-trip");
}

class Offload : public ::testing::TestWithParam<const char*> {};

TEST_P(Offload, ChangesNoBit) {
  const char* cases = std::getenv("MTF_PROPERTY_CASES");
  const int64_t all = cases == nullptr ? 100 : std::atoll(cases);
  // The emulated GPU compiles the kernels of each case.
  const std::string device = GetParam();
  const int64_t count = device == "cpu" ? all / 4
                        : device == "reference"
                            ? all / 8
                            : std::max<int64_t>(1, all / 100);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t seed = 9000000 + static_cast<uint64_t>(i);
    absl::StatusOr<LoweredCase> made = LowerRandomCase(seed);
    ASSERT_OK(made) << seed;
    const absl::StatusOr<Outputs> plain = RunStepAndRead(*made, GetParam());
    ASSERT_OK(plain) << seed << made->Describe();
    ASSERT_OK(OffloadSome(seed, *made)) << seed << made->Describe();
    const absl::StatusOr<Outputs> offloaded = RunStepAndRead(*made, GetParam());
    ASSERT_OK(offloaded) << seed << made->Describe();
    ASSERT_EQ(plain->size(), offloaded->size());
    for (const auto& [name, value] : *plain) {
      ASSERT_TRUE(value == offloaded->at(name))
          << seed << " " << name << made->Describe();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Offload,
                         ::testing::Values("cpu", "reference",
                                           "cuda_emulated"));

}  // namespace
}  // namespace mtf::testing
