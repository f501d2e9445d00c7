// SPDX-License-Identifier: Apache-2.0
#include "tools/calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "planning/machine/machine.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

constexpr CollectiveKind kMoving[] = {
    CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
    CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll,
    CollectiveKind::kCollectivePermute};

TEST(Calibrate, AShortRunGivesAValidMachine) {
  std::vector<std::string> lines;
  const auto begin = std::chrono::steady_clock::now();
  const auto text = CalibrateThisHost(
      {.name = "here",
       .seconds = 1,
       .ranks = 3,
       .progress = [&](absl::string_view line) { lines.emplace_back(line); }});
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  ASSERT_OK(text);
  const auto machine = Machine::Parse(*text, "calibrated");
  ASSERT_OK(machine) << *text;
  EXPECT_EQ(machine->name(), "here");
  EXPECT_GT(machine->memory_bytes(), 0);
  EXPECT_FALSE(machine->overlaps());

  // With three ranks every collective has a table.
  const Mesh mesh = *Mesh::Parse("x:3");
  ASSERT_EQ(machine->links().size(), 1u);
  for (CollectiveKind kind : kMoving) {
    int tables = 0;
    for (const CollectiveTable& table : machine->links()[0].tables) {
      if (table.kind != kind) continue;
      ++tables;
      EXPECT_EQ(table.ranks, 3);
      EXPECT_GE(table.seconds.points().size(), 2u);
      // Noise is smoothed, but never beyond what was measured.
      double least = 1e9, most = 0;
      for (const TimeCurve::Point& point : table.seconds.points()) {
        least = std::min(least, point.seconds);
        most = std::max(most, point.seconds);
      }
      for (const TimeCurve::Point& point : table.seconds.points()) {
        const double seconds = machine->CollectiveSeconds(
            kind, mesh, {0}, static_cast<int64_t>(point.size));
        EXPECT_GE(seconds, least * 0.999) << point.size;
        EXPECT_LE(seconds, most * 1.001) << point.size;
      }
    }
    EXPECT_EQ(tables, 1) << CollectiveName(kind);
    EXPECT_GT(machine->CollectiveSeconds(kind, mesh, {0}, 1 << 26),
              machine->CollectiveSeconds(kind, mesh, {0}, 1 << 10));
  }
  for (DType dtype : {kFloat32, kBFloat16}) {
    // 64 times the work takes longer, and no CPU does 1e15 FLOP/s.
    const double small = machine->MatmulSeconds(dtype, 1, 128, 128, 128),
                 large = machine->MatmulSeconds(dtype, 1, 512, 512, 512);
    EXPECT_GT(large, small);
    EXPECT_GT(large, 2 * std::pow(512.0, 3) / 1e15);
    EXPECT_LT(small, 1);
  }
  EXPECT_GT(machine->CopySeconds(1 << 28), machine->CopySeconds(1 << 20));

  // One line for each measurement, and about the given time.
  EXPECT_THAT(lines, ::testing::Contains("all_reduce over 3, 1.02 KB"));
  EXPECT_THAT(lines, ::testing::Contains("matmul bf16, side 32"));
  EXPECT_GE(lines.size(), 9u * 2);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(taken.count(), 20);
#endif
}

TEST(Calibrate, OptionsOutOfRangeAreErrors) {
  const auto refused = [](const CalibrateOptions& options,
                          const std::string& what) {
    EXPECT_THAT(CalibrateThisHost(options),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  refused({.name = "a b"}, "invalid machine name \"a b\"");
  refused({.seconds = 0}, "a calibration cannot take 0 seconds");
  refused({.seconds = std::nan("")}, "a calibration cannot take nan seconds");
  refused({.ranks = 1}, "collectives cannot be measured with 1 rank\n");
  refused({.ranks = -2}, "collectives cannot be measured with -2 ranks");
  refused({.ranks = 100000}, "from 2 to 256");
}

}  // namespace
}  // namespace mtf
