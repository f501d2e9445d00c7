// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and their gradients as one call of the library, on one device
// and on shards, against plain loops. On a GPU that is cuDNN.
#include "backends/cuda/matmul/convolution.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "backends/cuda/device.h"
#include "backends/executor/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/lower.h"
#include "lowering/verify/verify_program.h"
#include "mtf/host_tensor.h"
#include "ops/convolution.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "tests/backends/garbage/forwarding_runtime.h"
#include "tests/convolution_cases.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/matchers.h"

namespace mtf::cuda {
namespace {

using Tensors = std::map<std::string, HostTensor>;

using ::mtf::testing::ConvolutionCase;

struct LibraryCase : ConvolutionCase {
  std::string mesh = "", layout = "";
};

std::vector<LibraryCase> LibraryCases() {
  const Dimension batch{"batch", 4}, height{"height", 6}, width{"width", 8},
      in{"in", 5}, out{"out", 7}, kh{"kh", 3}, kw{"kw", 2};
  std::vector<LibraryCase> cases;
  for (ConvolutionCase& c : testing::ConvolutionCases(batch, height, width)) {
    cases.push_back({std::move(c)});
  }
  const Shape x{batch, height, width, in};
  const std::vector<SpatialDimension> image = {{"height", "kh"},
                                               {"width", "kw"}};
  // The filter in the order of the library: no copy.
  cases.push_back({{"in_order", x, {out, kh, kw, in}, image, {in}}});
  cases.push_back({{"sharded", x, {kh, kw, in, out}, image, {in}},
                   "data:2,rows:2",
                   "batch:data, height:rows"});
  return cases;
}

struct DeviceAndType {
  std::string device;
  DType dtype;
  friend void PrintTo(const DeviceAndType& c, std::ostream* stream) {
    *stream << c.device << " " << DTypeName(c.dtype);
  }
};

class LibraryConvolutions : public ::testing::TestWithParam<DeviceAndType> {
 protected:
  void SetUp() override {
    if (GetParam().device == "cuda" && !HasGpu()) {
      GTEST_SKIP() << "there is no GPU";
    }
  }
};

// A convolution and its gradients.
absl::StatusOr<Program> LowerCase(const LibraryCase& c, DType dtype) {
  Graph graph;
  const Tensor x = Input(graph, "x", dtype, c.x);
  const Tensor filter = Input(graph, "filter", dtype, c.filter);
  const Tensor y = Convolution(x, filter, c.spatial, c.reduced);
  const Tensor dy = Input(graph, "dy", dtype, y.shape());
  std::vector<Tensor> fetches = Gradients(y, {x, filter}, dy);
  fetches.push_back(y);
  return mtf::testing::LowerText(graph, c.mesh, c.layout, {.fetches = fetches});
}

// Numbers that floats of 16 bits represent.
Tensors FeedsOf(const Program& program) {
  std::mt19937 random(3);
  Tensors feeds;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kInput) continue;
    const ProgramValue& value = program.values[instruction.results[0]];
    HostTensor tensor(value.shape, value.dtype);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      StoreElement(tensor.data(), value.dtype, i,
                   (static_cast<double>(random() % 129) - 64) / 64);
    }
    feeds[instruction.Get<NameAttributes>().name] = std::move(tensor);
  }
  return feeds;
}

int NumConvolutions(const Program& program) {
  return static_cast<int>(
      std::count_if(program.groups.begin(), program.groups.end(),
                    [](const FusedGroup& group) {
                      return group.Find<ConvolutionGroup>() != nullptr;
                    }));
}

// The fetches of rank 0 after two steps, with groups of convolutions if `fuses`
// and the device takes them.
absl::StatusOr<Tensors> Compute(const std::string& device_name, bool fuses,
                                const Program& program, const Tensors& feeds,
                                int* convolutions = nullptr) {
  std::vector<Tensors> outputs(program.mesh.num_devices());
  std::vector<int> counts(program.mesh.num_devices(), 0);
  MTF_RETURN_IF_ERROR(
      LocalRanks(program.mesh).Run([&](Communicator& host) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                             mtf::CreateDevice(device_name, {}));
        MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connection,
                             device->Connect(host));
        Communicator& communicator = connection == nullptr ? host : *connection;
        FusionCapabilities fusion = device->fusion();
        if (!fuses) {
          fusion.convolutions = fusion.convolutions_of_16_bits = false;
        }
        Program fused = program;
        MTF_RETURN_IF_ERROR(FuseFor(fusion, fused));
        MTF_RETURN_IF_ERROR(VerifyProgram(fused));
        counts[host.rank()] = NumConvolutions(fused);
        VariableStore store(*device);
        MTF_ASSIGN_OR_RETURN(
            const std::unique_ptr<Executor> executor,
            Executor::Create(fused, *device, communicator, store));
        for (uint32_t step = 0; step < 2; ++step) {
          MTF_RETURN_IF_ERROR(
              executor->Run(feeds, 1, step, &outputs[host.rank()]));
        }
        return absl::OkStatus();
      }));
  if (convolutions != nullptr) *convolutions = counts[0];
  return outputs[0];
}

// A difference of one rounding to the dtype, and of float32 sums. Sums of
// shards are `sharded`: each is rounded, and may be larger than their sum.
void ExpectNearlyEqual(const Tensors& got, const Tensors& want,
                       bool sharded = false) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, numbers] : want) {
    const HostTensor& other = got.at(name);
    const double rounding = other.dtype() == kBFloat16  ? 1.0 / 256
                            : other.dtype() == kFloat16 ? 1.0 / 2048
                                                        : 1e-6;
    double largest = 0;
    for (int64_t i = 0; i < numbers.num_elements(); ++i) {
      largest = std::max(
          largest, std::abs(LoadElement(numbers.data(), numbers.dtype(), i)));
    }
    EXPECT_GT(largest, 0.5) << name;
    for (int64_t i = 0; i < numbers.num_elements(); ++i) {
      const double wanted = LoadElement(numbers.data(), numbers.dtype(), i);
      ASSERT_NEAR(LoadElement(other.data(), other.dtype(), i), wanted,
                  rounding * (sharded ? 2 * largest : std::abs(wanted)) +
                      4e-6 * largest)
          << name << " element " << i;
    }
  }
}

TEST_P(LibraryConvolutions, AreThoseOfPlainLoops) {
  for (const LibraryCase& c : LibraryCases()) {
    SCOPED_TRACE(c.name);
    const auto exact = LowerCase(c, kFloat32);
    const auto program = LowerCase(c, GetParam().dtype);
    ASSERT_OK(exact);
    ASSERT_OK(program);
    int convolutions = 0;
    const auto want = Compute("reference", false, *exact, FeedsOf(*exact));
    const auto got = Compute(GetParam().device, true, *program,
                             FeedsOf(*program), &convolutions);
    ASSERT_OK(want);
    ASSERT_OK(got);
    EXPECT_EQ(convolutions, 3);
    ExpectNearlyEqual(*got, *want, !c.mesh.empty());
  }
}

// The same bits in every run, and the numbers of windows and einsums.
TEST_P(LibraryConvolutions, AreReproducibleAndThoseOfWindows) {
  const LibraryCase c = LibraryCases()[3];
  const auto program = LowerCase(c, GetParam().dtype);
  ASSERT_OK(program);
  const Tensors feeds = FeedsOf(*program);
  const auto got = Compute(GetParam().device, true, *program, feeds);
  const auto again = Compute(GetParam().device, true, *program, feeds);
  ASSERT_OK(got);
  ASSERT_OK(again);
  for (const auto& [name, numbers] : *got) {
    EXPECT_TRUE(numbers == again->at(name)) << name;
  }
  // Of 16-bit floats, windows of a gradient are rounded before they are added.
  if (GetParam().dtype != kFloat32) return;
  int convolutions = 0;
  const auto windows =
      Compute(GetParam().device, false, *program, feeds, &convolutions);
  ASSERT_OK(windows);
  EXPECT_EQ(convolutions, 0);
  ExpectNearlyEqual(*got, *windows);
}

// The status of preparing a case of bf16 that is fused for `fusion`.
absl::Status PrepareOn(Device& device, const FusionCapabilities& fusion) {
  MTF_ASSIGN_OR_RETURN(Program program,
                       LowerCase(LibraryCases()[0], kBFloat16));
  MTF_RETURN_IF_ERROR(FuseFor(fusion, program));
  EXPECT_EQ(NumConvolutions(program), fusion.convolutions_of_16_bits ? 3 : 0);
  return LocalRanks(program.mesh).Run([&](Communicator& host) {
    VariableStore store(device);
    return Executor::Create(program, device, host, store).status();
  });
}

// A library without convolutions, or that lacks all of them after all.
class NoConvolutions : public ForwardingRuntime {
 public:
  NoConvolutions(std::shared_ptr<Runtime> runtime, bool has_convolutions)
      : ForwardingRuntime(std::move(runtime)),
        has_convolutions_(has_convolutions) {}
  bool has_convolutions() override { return has_convolutions_; }
  absl::StatusOr<std::unique_ptr<PreparedConvolution>> PrepareConvolution(
      const ConvolutionProblem&) override {
    return absl::UnimplementedError("no engine");
  }

 private:
  const bool has_convolutions_;
};

TEST(NoLibraryConvolutions, AreWindowsOrAnErrorWithAWayOut) {
  const auto runtime = OpenEmulatedGpu();
  ASSERT_OK(runtime);
  const auto without = CreateDeviceOver(
      std::make_shared<NoConvolutions>(*runtime, false), "without");
  EXPECT_FALSE(without->fusion().convolutions);
  EXPECT_OK(PrepareOn(*without, without->fusion()));
  const auto fails = CreateDeviceOver(
      std::make_shared<NoConvolutions>(*runtime, true), "fails");
  EXPECT_THAT(
      PrepareOn(*fails, fails->fusion()),
      ::mtf::testing::StatusIs(
          absl::StatusCode::kUnimplemented,
          ::testing::AllOf(::testing::HasSubstr("bf16 output batch 4 groups 1"),
                           ::testing::HasSubstr("MTF_CUDA_CONVOLUTIONS=0"))));
  const auto cpu = mtf::CreateDevice("cpu", {});
  ASSERT_OK(cpu);
  EXPECT_THAT(
      PrepareOn(**cpu, fails->fusion()),
      ::mtf::testing::StatusIs(absl::StatusCode::kUnimplemented,
                               ::testing::HasSubstr("no convolution of bf16")));
}

INSTANTIATE_TEST_SUITE_P(
    Devices, LibraryConvolutions,
    ::testing::Values(DeviceAndType{"cuda_emulated", kFloat32},
                      DeviceAndType{"cuda_emulated", kBFloat16},
                      DeviceAndType{"cuda_emulated", kFloat16},
                      DeviceAndType{"cuda", kFloat32},
                      DeviceAndType{"cuda", kBFloat16},
                      DeviceAndType{"cuda", kFloat16}),
    [](const auto& info) {
      // The GPU suite runs what ends with "_on_cuda".
      return absl::StrCat(std::string(DTypeName(info.param.dtype)), "_on_",
                          info.param.device);
    });

}  // namespace
}  // namespace mtf::cuda
