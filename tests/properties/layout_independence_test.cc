// SPDX-License-Identifier: Apache-2.0
//
// Any layout, same answer: random programs with gradients under random legal
// layouts and meshes agree with the oracle, which computes on global tensors in
// double precision, and exact results are bitwise equal to those of one device.
// A case is determined by its seed; to run a single one:
//
//   MTF_PROPERTY_SEED=<seed> properties_test
//
// MTF_PROPERTY_CASES sets the number of cases per test, starting from the seed
// if both are set. MTF_PROPERTY_DEVICE adds a device to those that every
// machine has. With MTF_PROPERTY_SECONDS a test starts no case after that time;
// it prints every seed before it runs and the number of cases at the end.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/backend.h"
#include "backends/communicator.h"
#include "backends/cuda/emulated/streams.h"
#include "backends/executor/executor.h"
#include "backends/reference/interpreter.h"
#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "lowering/program/count_costs.h"
#include "lowering/program/print_program.h"
#include "tests/backends/fused_for.h"
#include "tests/matchers.h"
#include "tests/properties/lowered_case.h"
#include "tests/properties/random_case.h"
#include "tests/repeats.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

using cuda::StreamOrder;

// Number of cases if MTF_PROPERTY_CASES is not set.
constexpr int64_t kCases = 40;

int64_t NumberFromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

std::string Compare(const std::string& what, const OracleTensor& wanted,
                    const HostTensor& got, double tolerance) {
  if (got.num_elements() != static_cast<int64_t>(wanted.data.size())) {
    return absl::StrCat(what, ": ", got.num_elements(), " elements, not ",
                        wanted.data.size());
  }
  double scale = 1;
  for (double value : wanted.data) {
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  }
  for (size_t i = 0; i < wanted.data.size(); ++i) {
    const double a = wanted.data[i], b = *got.At(static_cast<int64_t>(i));
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b || std::abs(a - b) <= tolerance * scale) continue;
    return absl::StrCat(what, " element ", i, " of [", got.shape().ToString(),
                        "] is ", b, ", not ", a);
  }
  return "";
}

// Compares for equality; NaN equals NaN, and -0 equals 0.
std::string CompareExact(const std::string& what, const HostTensor& wanted,
                         const HostTensor& got) {
  if (wanted == got) return "";
  for (int64_t i = 0; i < wanted.num_elements(); ++i) {
    const double a = *wanted.At(i), b = *got.At(i);
    // Neighbouring large int64 round to the same double.
    const bool same = got.dtype() == kInt64
                          ? static_cast<const int64_t*>(wanted.data())[i] ==
                                static_cast<const int64_t*>(got.data())[i]
                          : a == b || (std::isnan(a) && std::isnan(b));
    if (same) continue;
    return absl::StrCat(what, " element ", i, " of [", got.shape().ToString(),
                        "] is ", b, ", not ", a, " as on one device");
  }
  return "";
}

// Checks that a parameter is its rounded master copy.
std::string CompareRounded(const std::string& what, const HostTensor& value,
                           const HostTensor& master) {
  const HostTensor rounded = HostTensor::FromDoubles(
      master.shape(), value.dtype(), master.ToDoubles());
  if (value == rounded) return "";
  return absl::StrCat(what, " is not its master copy, rounded");
}

class Case {
 public:
  Case(uint64_t seed, std::string device, LoweredCase made)
      : seed_(seed),
        device_(std::move(device)),
        made_(std::move(made)),
        program_(made_.program) {}

  absl::Status Run() {
    MTF_RETURN_IF_ERROR(CheckText());
    const auto seed = static_cast<uint32_t>(seed_);
    OracleVariables variables;
    MTF_RETURN_IF_ERROR(InitializeVariables(*program_.graph, seed, &variables));
    std::vector<Tensor> fetches = program_.fetches;
    fetches.insert(fetches.end(), program_.updates.begin(),
                   program_.updates.end());
    MTF_ASSIGN_OR_RETURN(std::vector<OracleTensor> wanted,
                         Interpret(*program_.graph, program_.feeds, fetches,
                                   &variables, {.seed = seed, .step = 3}));
    MTF_RETURN_IF_ERROR(RunOnOneDevice(seed));
    // Also run in other orders that the collectives allow.
    constexpr StreamOrder kOrders[] = {StreamOrder::kAsyncLate,
                                       StreamOrder::kAsyncEarly,
                                       StreamOrder::kRandom};
    if (device_ == "cuda_emulated") {
      cuda::SetStreamOrder(kOrders[seed_ % std::size(kOrders)], seed);
    }
    return RanksOf(made_.mesh).Run([&](Communicator& communicator) {
      return RunRank(communicator, seed, wanted, variables);
    });
  }

  std::string Describe() const {
    return absl::StrCat("MTF_PROPERTY_SEED=", seed_, " device ", device_,
                        made_.Describe());
  }

 private:
  // The printed program parses and prints the same.
  absl::Status CheckText() {
    const std::string text = PrintProgram(made_.step);
    MTF_ASSIGN_OR_RETURN(const Program parsed, ParseProgram(text));
    if (PrintProgram(parsed) != text) {
      return absl::InternalError("the text form does not round-trip");
    }
    return absl::OkStatus();
  }

  // Stores the values of the program's `exact` in exact_.
  absl::Status RunOnOneDevice(uint32_t seed) {
    if (program_.exact.empty()) return absl::OkStatus();
    const Mesh mesh = *Mesh::Parse("x:1");
    MTF_ASSIGN_OR_RETURN(const LayoutRules rules, LayoutRules::Parse("", ""));
    MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                         BindLayout(*program_.graph, mesh, rules));
    MTF_ASSIGN_OR_RETURN(
        const Program program,
        mtf::Lower(*program_.graph, binding, {.fetches = program_.exact}));
    return RanksOf(mesh).Run([&](Communicator& communicator) -> absl::Status {
      MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                           CreateDevice(device_, {.num_threads = 1}));
      MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connection,
                           device->Connect(communicator));
      VariableStore store(*device);
      MTF_ASSIGN_OR_RETURN(
          std::unique_ptr<Executor> executor,
          Executor::Create(program, *device,
                           connection != nullptr ? *connection : communicator,
                           store));
      return executor->Run(program_.feeds, seed, 3, &exact_);
    });
  }

  absl::Status RunRank(Communicator& host, uint32_t seed,
                       const std::vector<OracleTensor>& wanted,
                       const OracleVariables& variables) {
    MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                         CreateDevice(device_, {.num_threads = 1}));
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> connection,
                         device->Connect(host));
    Communicator& communicator = connection != nullptr ? *connection : host;
    VariableStore store(*device);
    std::map<std::string, HostTensor> outputs;
    MTF_ASSIGN_OR_RETURN(
        std::unique_ptr<Executor> initialize,
        Executor::Create(made_.initialize, *device, communicator, store));
    const Program fused = FusedFor(*device, made_.step);
    MTF_ASSIGN_OR_RETURN(std::unique_ptr<Executor> step,
                         Executor::Create(fused, *device, communicator, store));
    // A device that replays runs plainly, then records, then replays.
    for (int run = 0; run < (device->replays() ? 3 : 1); ++run) {
      MTF_RETURN_IF_ERROR(initialize->Run({}, seed, 0, &outputs));
      communicator.ResetCounts();
      MTF_RETURN_IF_ERROR(step->Run(program_.feeds, seed, 3, &outputs));
      MTF_RETURN_IF_ERROR(CheckCounts(communicator));
    }
    for (size_t i = 0; i < program_.fetches.size(); ++i) {
      const std::string wrong =
          Compare(program_.fetches[i].name(), wanted[i],
                  outputs[program_.fetches[i].name()], program_.tolerance);
      if (!wrong.empty()) return absl::InternalError(wrong);
    }
    for (const Tensor& exact : program_.exact) {
      const std::string wrong = CompareExact(
          exact.name(), exact_.at(exact.name()), outputs[exact.name()]);
      if (!wrong.empty()) return absl::InternalError(wrong);
    }
    // Read the updated variables by a separate program.
    MTF_ASSIGN_OR_RETURN(const Program read, made_.LowerReads());
    MTF_ASSIGN_OR_RETURN(std::unique_ptr<Executor> reader,
                         Executor::Create(read, *device, communicator, store));
    MTF_RETURN_IF_ERROR(reader->Run({}, seed, 0, &outputs));
    for (const VariableInfo& variable : program_.graph->variables()) {
      const HostTensor& value = outputs[variable.read.name()];
      const std::string wrong =
          variable.master < 0
              ? Compare(variable.name, variables.at(variable.name), value,
                        program_.tolerance)
              : CompareRounded(
                    variable.name, value,
                    outputs[program_.graph->variables()[variable.master]
                                .read.name()]);
      if (!wrong.empty()) return absl::InternalError(wrong);
    }
    return absl::OkStatus();
  }

  // Bytes and calls at run time equal those of the plan.
  absl::Status CheckCounts(const Communicator& communicator) const {
    const auto planned = CountCollectives(made_.step);
    if (planned.size() != communicator.counts().size()) {
      return absl::InternalError("other kinds of collectives than planned");
    }
    for (const auto& [key, count] : communicator.counts()) {
      const auto it = planned.find(key);
      if (it == planned.end() || it->second.first != count.calls ||
          it->second.second != count.bytes) {
        return absl::InternalError(
            absl::StrCat(CollectiveName(key.first), ": ", count.calls,
                         " calls of ", count.bytes, " bytes, not as planned"));
      }
    }
    return absl::OkStatus();
  }

  uint64_t seed_;
  std::string device_;
  const LoweredCase made_;
  const RandomProgram& program_;
  std::map<std::string, HostTensor> exact_;  // on one device
};

void RunCases(const std::string& device, uint64_t first, int64_t cases,
              MakeProgram make = MakeRandomProgram,
              AttentionSupport attention = AttentionSupport::kNone) {
  const int64_t only = NumberFromEnvironment("MTF_PROPERTY_SEED", -1);
  if (only >= 0) {
    first = static_cast<uint64_t>(only);
    cases = NumberFromEnvironment("MTF_PROPERTY_CASES", 1);
  }
  const int64_t seconds = NumberFromEnvironment("MTF_PROPERTY_SECONDS", 0);
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  int failures = 0;
  int64_t done = 0;
  for (; done < cases && failures < 3; ++done) {
    const uint64_t seed = first + static_cast<uint64_t>(done);
    if (seconds > 0) {
      if (std::chrono::steady_clock::now() >= end) break;
      // So that the seed of a case that hangs is known.
      std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
      std::fflush(stdout);
    }
    auto made = LowerRandomCase(seed, make, "", attention);
    if (!made.ok()) {
      ++failures;
      ADD_FAILURE() << "MTF_PROPERTY_SEED=" << seed << " "
                    << made.status().ToString();
      continue;
    }
    Case one(seed, device, *std::move(made));
    const absl::Status status = one.Run();
    if (!status.ok()) {
      ++failures;
      ADD_FAILURE() << status.ToString() << "\n" << one.Describe();
    }
  }
  if (seconds > 0) {
    std::printf("%lld of %lld cases\n", static_cast<long long>(done),
                static_cast<long long>(cases));
  }
}

// Ten tests, so that a runner can distribute them over cores.
class LayoutIndependence : public ::testing::TestWithParam<int> {};

TEST_P(LayoutIndependence, CpuEqualsOracle) {
  const int64_t cases = NumberFromEnvironment("MTF_PROPERTY_CASES", kCases);
  RunCases("cpu", 1000000u * static_cast<uint64_t>(GetParam()), cases);
}

TEST_P(LayoutIndependence, ReferenceDeviceEqualsOracle) {
  const int64_t cases =
      NumberFromEnvironment("MTF_PROPERTY_CASES", kCases) / 10;
  RunCases("reference", 1000000u * static_cast<uint64_t>(GetParam()) + 500000u,
           cases);
}

TEST_P(LayoutIndependence, MixedPrecisionStepEqualsOracle) {
  const int64_t cases =
      NumberFromEnvironment("MTF_PROPERTY_CASES", kCases) / 10;
  RunCases("cpu", 1000000u * static_cast<uint64_t>(GetParam()) + 700000u, cases,
           MakeMixedPrecisionStep);
}

// 400 cases in all by default, and 5,000 in continuous integration.
TEST_P(LayoutIndependence, AttentionEqualsOracle) {
  const int64_t cases = NumberFromEnvironment("MTF_PROPERTY_CASES", kCases);
  RunCases("cpu", 1000000u * static_cast<uint64_t>(GetParam()) + 600000u, cases,
           MakeRandomAttention, AttentionSupport::kAll);
}

// Half as many.
TEST_P(LayoutIndependence, RingAttentionEqualsOracle) {
  const int64_t cases = NumberFromEnvironment("MTF_PROPERTY_CASES", kCases) / 2;
  RunCases("cpu", 1000000u * static_cast<uint64_t>(GetParam()) + 850000u, cases,
           MakeRandomRing, AttentionSupport::kAll);
}

TEST_P(LayoutIndependence, RingAttentionOfTheReferenceDeviceEqualsOracle) {
  const int64_t cases =
      NumberFromEnvironment("MTF_PROPERTY_CASES", kCases) / 20;
  RunCases("reference", 1000000u * static_cast<uint64_t>(GetParam()) + 875000u,
           cases, MakeRandomRing, AttentionSupport::kAll);
}

TEST_P(LayoutIndependence, ExpertsEqualOracle) {
  const int64_t cases =
      NumberFromEnvironment("MTF_PROPERTY_CASES", kCases) / 10;
  RunCases("cpu", 1000000u * static_cast<uint64_t>(GetParam()) + 900000u, cases,
           MakeRandomExperts);
}

TEST_P(LayoutIndependence, ExpertsOfTheReferenceDeviceEqualOracle) {
  const int64_t cases =
      NumberFromEnvironment("MTF_PROPERTY_CASES", kCases) / 25;
  RunCases("reference", 1000000u * static_cast<uint64_t>(GetParam()) + 950000u,
           cases, MakeRandomExperts);
}

TEST_P(LayoutIndependence, ConvolutionEqualsOracle) {
  const int64_t cases = NumberFromEnvironment("MTF_PROPERTY_CASES", kCases) / 5;
  RunCases("cpu", 1000000u * static_cast<uint64_t>(GetParam()) + 550000u, cases,
           MakeRandomConvolution);
}

TEST_P(LayoutIndependence, WideConvolutionEqualsOracle) {
  const int64_t cases =
      NumberFromEnvironment("MTF_PROPERTY_CASES", kCases) / 10;
  RunCases("cpu", 1000000u * static_cast<uint64_t>(GetParam()) + 570000u, cases,
           MakeRandomWideConvolution);
}

TEST(RandomRings, AreRings) {
  int rings = 0, striped = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto made =
        LowerRandomCase(seed, MakeRandomRing, "", AttentionSupport::kAll);
    ASSERT_OK(made);
    bool is_ring = false, is_striped = false;
    for (const Instruction& instruction : made->step.instructions) {
      const auto* attention = instruction.Find<AttentionAttributes>();
      is_ring = is_ring || (attention != nullptr && attention->ring);
      is_striped = is_striped || (attention != nullptr && attention->striped);
    }
    rings += is_ring;
    striped += is_striped;
  }
  EXPECT_GE(rings, 50);
  EXPECT_GE(striped, 5);
}

// Sharded like a ring, with keys gathered.
TEST_P(LayoutIndependence, ComposedRingAttentionEqualsOracle) {
  const int64_t cases =
      NumberFromEnvironment("MTF_PROPERTY_CASES", kCases) / 20;
  RunCases("cpu", 1000000u * static_cast<uint64_t>(GetParam()) + 880000u, cases,
           MakeRandomRing);
}

TEST_P(LayoutIndependence, AttentionOfTheReferenceDeviceEqualsOracle) {
  const int64_t cases =
      NumberFromEnvironment("MTF_PROPERTY_CASES", kCases) / 10;
  RunCases("reference", 1000000u * static_cast<uint64_t>(GetParam()) + 650000u,
           cases, MakeRandomAttention, AttentionSupport::kAll);
}

TEST_P(LayoutIndependence, ComposedAttentionEqualsOracle) {
  const int64_t cases =
      NumberFromEnvironment("MTF_PROPERTY_CASES", kCases) / 10;
  RunCases("cpu", 1000000u * static_cast<uint64_t>(GetParam()) + 675000u, cases,
           MakeRandomAttention);
}

// Of `all` cases of 500, and at least one. Fewer cases than elsewhere, because
// each compiles its kernels.
int64_t CompiledCases(int64_t all) {
  const int64_t cases = NumberFromEnvironment("MTF_PROPERTY_CASES", 500);
  return std::max<int64_t>(1, cases * all / 500);
}

TEST_P(LayoutIndependence, EmulatedGpuEqualsOracle) {
  RunCases("cuda_emulated",
           1000000u * static_cast<uint64_t>(GetParam()) + 800000u,
           CompiledCases(15));
}

TEST_P(LayoutIndependence, ConvolutionOnEmulatedGpuEqualsOracle) {
  RunCases("cuda_emulated",
           1000000u * static_cast<uint64_t>(GetParam()) + 550000u,
           CompiledCases(6), MakeRandomConvolution);
}

TEST_P(LayoutIndependence, ConvolutionOfTheReferenceDeviceEqualsOracle) {
  const int64_t cases =
      NumberFromEnvironment("MTF_PROPERTY_CASES", kCases) / 25;
  RunCases("reference", 1000000u * static_cast<uint64_t>(GetParam()) + 590000u,
           cases, MakeRandomConvolution);
}

TEST_P(LayoutIndependence, NamedDeviceEqualsOracle) {
  const char* device = std::getenv("MTF_PROPERTY_DEVICE");
  if (device == nullptr) {
    GTEST_SKIP() << "MTF_PROPERTY_DEVICE names no device";
  }
  const int64_t cases = NumberFromEnvironment("MTF_PROPERTY_CASES", 200);
  RunCases(device, 1000000u * static_cast<uint64_t>(GetParam()) + 750000u,
           cases);
}

// Random rules in three sections over many axes, whose reshards are searched
// with a limit (expand_reshards).
TEST(ManyAxes, ProgramsOnEightAxesAreLowered) {
  // Among them are reshards that reach the limit.
  for (int seed = 1340; seed < 1340 + Repeats(300, 20); ++seed) {
    EXPECT_OK(LowerRandomCase(seed, MakeRandomProgram,
                              seed % 2 == 0
                                  ? "p:2,q:2,r:3,s:2,t:2,u:3,v:2"
                                  : "p:2,q:2,r:2,s:3,t:2,u:2,v:2,w:2"))
        << seed;
  }
}

// 64 ranks, a thread each.
TEST(ManyAxes, SixAxesEqualOracle) {
  SKIP_UNDER_SANITIZERS("many threads");
  for (int seed = 0; seed < 20; ++seed) {
    absl::StatusOr<LoweredCase> made =
        LowerRandomCase(seed, MakeRandomProgram, "p:2,q:2,r:2,s:2,t:2,u:2");
    ASSERT_OK(made) << seed;
    Case one(seed, "cpu", *std::move(made));
    EXPECT_OK(one.Run()) << one.Describe();
  }
}

class EachKindOfExperts : public ::testing::TestWithParam<const char*> {};

TEST_P(EachKindOfExperts, EqualsOracle) {
  RunCases(GetParam(), 120 * kKindsOfExperts, kKindsOfExperts,
           MakeExpertsOfEachKind);
}

INSTANTIATE_TEST_SUITE_P(Devices, EachKindOfExperts,
                         ::testing::Values("reference", "cpu", "cuda_emulated"),
                         [](const auto& info) { return info.param; });

INSTANTIATE_TEST_SUITE_P(Seeds, LayoutIndependence, ::testing::Range(0, 10));

}  // namespace
}  // namespace mtf::testing
