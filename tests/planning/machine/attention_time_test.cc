// SPDX-License-Identifier: Apache-2.0
//
// Estimates of fused attention compared with published times of cuDNN.
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/attention_problem.h"
#include "planning/machine/machine.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

AttentionProblem Problem(int64_t batch, int64_t heads, int64_t length,
                         int64_t d, bool causal, bool backward) {
  AttentionProblem problem;
  problem.batch = batch;
  problem.heads = heads;
  problem.length = problem.memory = length;
  problem.d = d;
  problem.causal = causal;
  problem.backward = backward;
  return problem;
}

TEST(AttentionProblem, CountsVisiblePairsAndMovedBytes) {
  AttentionProblem p = Problem(2, 3, 4, 8, false, false);
  p.memory = 6;
  EXPECT_EQ(p.Flops(), 2 * 2 * (2 * 3) * (4 * 6) * 8);
  // q and o, k and v in bf16, and a float for each row.
  EXPECT_EQ(p.Bytes(), 2 * 3 * 8 * 2 * (2 * 4 + 2 * 6) + 2 * 3 * 4 * 4);
  p.causal = true;
  EXPECT_EQ(p.Flops(), 2 * 2 * (2 * 3) * (1 + 2 + 3 + 4) * 8);
  p.length = 9;  // rows from the sixth on attend to all six positions
  EXPECT_EQ(p.Flops(), 2 * 2 * (2 * 3) * (21 + 3 * 6) * 8);
  const double forward = p.Flops();
  p.backward = true;
  EXPECT_EQ(p.Flops(), 2.5 * forward);
}

TEST(AttentionProblem, CountsABiasWhereItIsWrittenAndRead) {
  AttentionProblem p = Problem(2, 3, 4, 8, false, false);
  p.memory = 6;
  const int64_t plain = p.Bytes();
  p.backward = true;
  const int64_t back = p.Bytes();
  EXPECT_EQ(p.BiasRows(), 0);
  EXPECT_EQ(p.BiasElements(), 0);
  p.bias.given = true;
  EXPECT_EQ(p.BiasElements(), 6);
  p.bias.batch = p.bias.length = true;
  EXPECT_EQ(p.BiasRows(), 2 * 4);
  EXPECT_EQ(p.Bytes(), back + 2 * 4 * 6 * 4);
  p.backward = false;
  EXPECT_EQ(p.Bytes(), plain + 2 * (2 * 4 * 6 * 4));
  EXPECT_THAT(p.ToString(), ::testing::HasSubstr(" bias blm"));
  p.bias.heads = true;
  EXPECT_EQ(p.BiasRows(), 2 * 3 * 4);
  EXPECT_THAT(p.ToString(), ::testing::HasSubstr(" bias bhlm"));
}

TEST(CheckFusedAttention, TakesNarrowFloatsAndHeadsOfEights) {
  for (DType dtype : kAllDTypes) {
    AttentionProblem p = Problem(1, 1, 2, 8, false, false);
    p.dtype = dtype;
    EXPECT_EQ(CheckFusedAttention(p).ok(),
              dtype == kBFloat16 || dtype == kFloat16);
  }
  for (int64_t d : {8, 64, 96, 256}) {
    EXPECT_OK(CheckFusedAttention(Problem(1, 1, 2, d, true, true)));
  }
  for (int64_t d : {1, 12, 257, 264}) {
    EXPECT_THAT(CheckFusedAttention(Problem(1, 1, 2, d, true, false)),
                testing::StatusIs(absl::StatusCode::kUnimplemented,
                                  ::testing::HasSubstr("multiples of 8")));
  }
  EXPECT_THAT(CheckFusedAttention(Problem(1, 1, 1, 8, true, false)),
              testing::StatusIs(absl::StatusCode::kUnimplemented,
                                ::testing::HasSubstr("lengths")));
}

// Published TFLOP/s with causal products counted half. Single lengths agree
// within a quarter, series in the mean within a twelfth.
struct Published {
  std::string machine;
  int64_t d, heads, tokens;  // tokens 0: one sequence
  bool causal, backward;
  std::vector<std::pair<int64_t, double>> rates;  // by length
};

TEST(AttentionSeconds, AgreeWithPublishedRuns) {
  const std::vector<Published> all = {
      {"h200_x8",
       128,
       64,
       0,
       true,
       false,
       {{2048, 484}, {4096, 591}, {8192, 644}, {16384, 673}, {32768, 688}}},
      {"h200_x8",
       128,
       64,
       0,
       true,
       true,
       {{2048, 370}, {4096, 474}, {8192, 541}, {16384, 579}, {32768, 581}}},
      {"h100_nvlink_ib",
       64,
       32,
       16384,
       true,
       false,
       {{1024, 288}, {2048, 334}, {4096, 363}, {16384, 388}}},
      {"h100_nvlink_ib",
       128,
       16,
       16384,
       false,
       false,
       {{1024, 574}, {2048, 617}, {4096, 609}, {8192, 600}, {16384, 595}}},
      {"h100_nvlink_ib",
       128,
       16,
       16384,
       false,
       true,
       {{1024, 408}, {2048, 465}, {4096, 499}, {8192, 518}, {16384, 516}}},
      {"h100_nvlink_ib",
       64,
       32,
       16384,
       false,
       true,
       {{1024, 348}, {2048, 395}}}};
  for (const Published& run : all) {
    const Machine machine = *Machine::Load(run.machine);
    double mean = 0;
    for (const auto& [length, rate] : run.rates) {
      const int64_t batch = run.tokens == 0 ? 1 : run.tokens / length;
      const AttentionProblem p =
          Problem(batch, run.heads, length, run.d, run.causal, run.backward);
      const double said = p.Flops() / machine.AttentionSeconds(p) / 1e12;
      EXPECT_NEAR(said / rate, 1, 0.25) << run.machine << " " << p.ToString();
      mean += said / rate / static_cast<double>(run.rates.size());
    }
    EXPECT_NEAR(mean, 1, 0.085)
        << run.machine << " d " << run.d << (run.backward ? " backward" : "");
  }
}

TEST(AttentionSeconds, OfShortSequencesAreBoundByLaunchOrMemory) {
  const Machine machine = *Machine::Load("h200_x8");
  const AttentionProblem small = Problem(1, 1, 8, 8, true, false);
  EXPECT_GT(machine.AttentionSeconds(small), machine.CopySeconds(0));
  EXPECT_LT(machine.AttentionSeconds(small), 2 * machine.CopySeconds(0));
  const AttentionProblem wide = Problem(1 << 14, 64, 2, 256, false, false);
  EXPECT_EQ(machine.AttentionSeconds(wide), machine.CopySeconds(wide.Bytes()));
}

TEST(Machine, RecentGpusFuseAttention) {
  for (const std::string& name : Machine::PresetNames()) {
    if (name == "this_host") continue;
    const Machine machine = *Machine::Load(name);
    EXPECT_EQ(machine.has_attention_rate(),
              name == "h100_nvlink_ib" || name == "h200_x8")
        << name;
    const auto again = Machine::Parse(machine.ToString(), "again");
    ASSERT_OK(again);
    EXPECT_EQ(again->ToString(), machine.ToString());
    EXPECT_EQ(again->has_attention_rate(), machine.has_attention_rate());
  }
}

}  // namespace
}  // namespace mtf
