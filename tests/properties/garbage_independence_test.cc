// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (repeats steps of layout_independence_test)
//
// A step depends on its data only. Random programs under random layouts, of
// uneven sizes, run on every device twice: with different garbage in all memory
// that is not data (garbage_device.h). Fetches and variables are the same bits.
//
// MTF_PROPERTY_SEED and MTF_PROPERTY_CASES as in layout_independence_test.cc.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "gtest/gtest.h"
#include "tests/backends/garbage/run_with_garbage.h"
#include "tests/matchers.h"
#include "tests/properties/lowered_case.h"
#include "tests/repeats.h"

namespace mtf::testing {
namespace {

struct Programs {
  const char* name;
  const char* device;
  int cases;
  MakeProgram make;
  uint64_t first_seed;
  friend std::ostream& operator<<(std::ostream& out, const Programs& p) {
    return out << p.name;
  }
};

const Programs kPrograms[] = {
    {"cpu", "cpu", Repeats(60, 4), MakeRandomProgram, 500000},
    {"cpu_mixed_precision", "cpu", Repeats(30, 2), MakeMixedPrecisionStep,
     700000},
    {"cpu_wide_convolution", "cpu", Repeats(6, 1), MakeRandomWideConvolution,
     570000},
    {"reference", "reference", Repeats(20, 1), MakeRandomProgram, 600000},
    // The seeds of layout_independence_test, so that both compile one set of
    // kernels.
    {"cuda_emulated", "cuda_emulated", Repeats(8, 1), MakeRandomProgram,
     800000},
    {"cuda_emulated_convolution", "cuda_emulated", Repeats(2, 1),
     MakeRandomConvolution, 550000},
};

// Ten tests each, so that a runner can distribute them over cores.
class GarbageIndependence
    : public ::testing::TestWithParam<std::tuple<Programs, int>> {};

TEST_P(GarbageIndependence, StepsDependOnDataOnly) {
  const auto& [programs, part] = GetParam();
  uint64_t seed = programs.first_seed + 1000000u * static_cast<uint64_t>(part);
  // All of them in continuous integration, which asks for 500.
  const char* const asked = std::getenv("MTF_PROPERTY_CASES");
  const int64_t share = asked != nullptr ? std::atoll(asked) : 40;
  int64_t cases = std::max<int64_t>(1, share * programs.cases / 500);
  if (const char* only = std::getenv("MTF_PROPERTY_SEED")) {
    seed = std::strtoull(only, nullptr, 10);
    cases = 1;
  }
  for (int64_t i = 0; i < cases && !HasFailure(); ++i, ++seed) {
    SCOPED_TRACE(absl::StrCat("MTF_PROPERTY_SEED=", seed));
    const auto made = LowerRandomCase(seed, programs.make);
    ASSERT_OK(made);
    const auto reads = made->LowerReads();
    ASSERT_OK(reads);
    ExpectIndependentOfGarbage(RanksOf(made->mesh),
                               {&made->initialize, &made->step, &*reads},
                               made->program.feeds, programs.device, seed);
    if (HasFailure()) ADD_FAILURE() << made->Describe();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GarbageIndependence,
                         ::testing::Combine(::testing::ValuesIn(kPrograms),
                                            ::testing::Range(0, 10)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param).name,
                                               "_", std::get<1>(info.param));
                         });

}  // namespace
}  // namespace mtf::testing
