// SPDX-License-Identifier: Apache-2.0
//
// MakeRandomWideConvolution draws programs that the CPU device runs as fused
// groups of every kind: what layout_independence_test compares with the oracle
// are those kernels.
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/backend.h"
#include "gtest/gtest.h"
#include "lowering/program/convolution_spec.h"
#include "lowering/program/pool_spec.h"
#include "tests/backends/fused_for.h"
#include "tests/matchers.h"
#include "tests/properties/lowered_case.h"
#include "tests/properties/random_case.h"

namespace mtf::testing {
namespace {

using PathCounts = std::map<std::string, int>;

std::string NameOfConvolution(const ConvolutionSpec& spec) {
  using Computes = ConvolutionSpec::Computes;
  const char* const computes = spec.computes == Computes::kOutput  ? "output"
                               : spec.computes == Computes::kInput ? "input"
                                                                   : "filter";
  const bool is_depthwise =
      spec.inputs == 1 && spec.outputs == 1 && spec.groups >= 16;
  const char* const groups = is_depthwise      ? "depthwise "
                             : spec.groups > 1 ? "grouped "
                                               : "";
  return absl::StrCat(groups, "convolution, ", computes);
}

// Rows of a pooling that loops over vectors of 16 floats take as less than one,
// one, or several.
std::string NameOfRows(const PoolWindows& windows) {
  if (windows.inner < 16) return "narrow rows";
  return windows.inner < 32 ? "one vector" : "several vectors";
}

// Whether a convolution's images or a pooling's lines are those of a shard.
bool HasHalo(const Program& program, const FusedGroup& group) {
  for (int member : group.members) {
    const auto* windows = program.instructions[member].Find<WindowAttributes>();
    if (windows == nullptr) continue;
    for (int result : program.instructions[member].results) {
      const ProgramValue& value = program.values[result];
      const int dim = value.shape.Find(windows->dimension);
      if (dim >= 0 && !value.layout.dims[dim].empty()) return true;
    }
  }
  return false;
}

void CountPool(const Program& program, const FusedGroup& group,
               PathCounts& counts) {
  const char* const halo = HasHalo(program, group) ? ", sharded" : "";
  if (const auto pool = FindPool(program, group.members)) {
    for (const PoolSpec::Stage& stage : pool->stages) {
      const bool is_max = stage.kind == ReduceKind::kMax;
      ++counts[absl::StrCat(is_max ? "max" : "average", " pool, ",
                            NameOfRows(stage.windows))];
      ++counts[absl::StrCat("pool", halo)];
    }
  }
  if (const auto gradient = FindPoolGradient(program, group.members)) {
    for (const PoolGradientSpec::Stage& stage : gradient->stages) {
      const bool is_max = stage.input >= 0;
      ++counts[absl::StrCat(is_max ? "max" : "average", " pool gradient, ",
                            NameOfRows(stage.windows))];
    }
  }
}

// Groups of rows have a number for each row; others only sum over them.
std::string NameOfRowGroup(const Program& program, const FusedGroup& group) {
  for (int member : group.members) {
    const Instruction& instruction = program.instructions[member];
    const auto* reduce = instruction.Find<ReduceAttributes>();
    if (reduce == nullptr) continue;
    const Shape& result = program.values[instruction.results[0]].shape;
    if (result.rank() > 0 && result[0].name == reduce->iteration[0].name) {
      return "rows";
    }
  }
  return "sums over rows";
}

void CountPaths(const Program& program, PathCounts& counts) {
  for (const FusedGroup& group : program.groups) {
    if (group.Find<ConvolutionGroup>() != nullptr) {
      const auto spec = FindConvolution(program, group.members);
      ASSERT_TRUE(spec.has_value());
      ++counts[NameOfConvolution(*spec)];
      if (HasHalo(program, group)) ++counts["convolution, sharded"];
    } else if (group.Find<PoolGroup>() != nullptr) {
      CountPool(program, group, counts);
    } else if (group.Find<RowGroup>() != nullptr) {
      ++counts[NameOfRowGroup(program, group)];
    }
  }
}

// Those of MakeRandomConvolution that emulated GPUs run as calls of a library.
TEST(RandomConvolutions, ReachEveryConvolution) {
  PathCounts counts;
  for (int i = 0; i < 200; ++i) {
    const uint64_t seed = 1000000u * static_cast<uint64_t>(i % 10) + 550000u +
                          static_cast<uint64_t>(i / 10);
    auto made = LowerRandomCase(seed, MakeRandomConvolution);
    ASSERT_OK(made) << seed;
    ASSERT_OK(FuseFor({.convolutions = true, .convolutions_of_16_bits = true},
                      made->step));
    CountPaths(made->step, counts);
  }
  for (const char* path :
       {"convolution, output", "convolution, input", "convolution, filter",
        "grouped convolution, output", "grouped convolution, input",
        "grouped convolution, filter", "convolution, sharded"}) {
    EXPECT_GE(counts[path], 1) << path;
  }
}

TEST(WideConvolutions, ReachEveryFusedGroup) {
  const auto device = CreateDevice("cpu", {.num_threads = 1});
  ASSERT_OK(device);
  PathCounts counts;
  // Some of the seeds that layout_independence_test runs.
  for (int i = 0; i < 200; ++i) {
    const uint64_t seed = 1000000u * static_cast<uint64_t>(i % 10) + 570000u +
                          static_cast<uint64_t>(i / 10);
    const auto made = LowerRandomCase(seed, MakeRandomWideConvolution);
    ASSERT_OK(made) << seed;
    CountPaths(FusedFor(**device, made->step), counts);
  }
  for (const char* path : {"convolution, output",
                           "convolution, input",
                           "convolution, filter",
                           "depthwise convolution, output",
                           "depthwise convolution, input",
                           "depthwise convolution, filter",
                           "grouped convolution, output",
                           "grouped convolution, input",
                           "grouped convolution, filter",
                           "convolution, sharded",
                           "max pool, one vector",
                           "max pool, several vectors",
                           "max pool gradient, one vector",
                           "max pool gradient, several vectors",
                           "average pool, one vector",
                           "average pool, several vectors",
                           "average pool gradient, one vector",
                           "average pool gradient, several vectors",
                           "pool, sharded",
                           "rows",
                           "sums over rows"}) {
    EXPECT_GE(counts[path], 1) << path;
  }
  for (const auto& [path, count] : counts) {
    RecordProperty(absl::StrCat("count: ", path), count);
  }
}

}  // namespace
}  // namespace mtf::testing
