// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (repeats steps of other tests of groups)
//
// Groups that the CUDA device and the CPU device run as one kernel depend on
// the data of their operands only: under uneven shards they give the same bits
// with different garbage in padding, around all buffers and in scratch memory.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/print_program.h"
#include "ops/einsum.h"
#include "ops/input.h"
#include "tests/backends/cuda/group_cases.h"
#include "tests/backends/cuda/matmul_group_text.h"
#include "tests/backends/garbage/run_with_garbage.h"
#include "tests/lowering/attention_parts.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/requirements.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::AttentionParts;
using ::mtf::testing::BuildAttention;
using ::mtf::testing::ExpectIndependentOfGarbage;
using ::mtf::testing::LowerText;

constexpr char kMesh[] = "x:2";

// Runs a program after `initialize`, if that is not null; returns the number of
// groups.
int RunGroups(const Program* initialize, const Program& step, uint64_t number,
              const char* device = "cuda_emulated") {
  static auto& ranks = *new LocalRanks(*Mesh::Parse(kMesh));
  std::vector<const Program*> programs = {&step};
  if (initialize != nullptr) programs.insert(programs.begin(), initialize);
  return ExpectIndependentOfGarbage(ranks, programs, RandomFeeds(step), device,
                                    number);
}

struct Sizes {
  const char* layout;
  int64_t rows, columns;
  DType dtype;
};
// No padding, so that groups sum over rows, with partial sums in scratch
// memory; padding in rows, and in what is summed.
const Sizes kSizes[] = {{"", 67, 13, kFloat32},
                        {"rows:x", 5, 13, kFloat32},
                        {"columns:x", 5, 13, kFloat32},
                        {"rows:x", 7, 40, kBFloat16}};

class GroupGarbage : public ::testing::TestWithParam<int> {};

TEST_P(GroupGarbage, RowsDependOnDataOnly) {
  const RowsCase& what = RowsCases()[GetParam()];
  uint64_t number = static_cast<uint64_t>(GetParam());
  for (const Sizes& sizes : kSizes) {
    // Compiling all kernels takes minutes there.
    if (mtf::testing::kSanitized && &sizes != kSizes) break;
    SCOPED_TRACE(absl::StrCat(what.name, " ", sizes.layout, " ",
                              DTypeName(sizes.dtype)));
    Graph graph;
    Targets targets;
    targets.fetches =
        what.build(graph, Dimension{"rows", sizes.rows},
                   Dimension{"columns", sizes.columns}, sizes.dtype);
    if (what.updates) targets.updates = {targets.fetches.back()};
    const auto step = LowerText(graph, kMesh, sizes.layout, targets);
    ASSERT_OK(step);
    Targets start;
    start.initialize = true;
    const auto initialize = LowerText(graph, kMesh, sizes.layout, start);
    ASSERT_OK(initialize);
    for (const char* device : {"cuda_emulated", "cpu"}) {
      SCOPED_TRACE(device);
      const int groups = RunGroups(what.updates ? &*initialize : nullptr, *step,
                                   number++, device);
      // Collectives divide groups of which a sum is sharded.
      if (sizes.layout != std::string("columns:x") && !what.may_stay_single) {
        EXPECT_GT(groups, 0) << PrintProgram(*step);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GroupGarbage,
                         ::testing::Range(0,
                                          static_cast<int>(RowsCases().size())),
                         [](const auto& info) {
                           return std::string(RowsCases()[info.param].name);
                         });

TEST(MatmulGroupGarbage, EpiloguesDependOnDataOnly) {
  uint64_t number = 0;
  for (const MatmulCase& what : MatmulCases()) {
    for (DType dtype : {kFloat32, kBFloat16}) {
      for (const char* layout : {"rows:x", "out:x"}) {
        SCOPED_TRACE(
            absl::StrCat(what.name, " ", DTypeName(dtype), " ", layout));
        // A row of a shard has 16 or 8 elements: some epilogues need 16 bytes.
        const Dimension rows{"rows", 37}, in{"in", 24},
            out{"out", layout == std::string("rows:x") ? 16 : 15};
        Graph graph;
        const auto input = [&](const char* name, Shape shape) {
          return Input(graph, name, dtype, std::move(shape));
        };
        const Tensor x = input("x", {rows, in}), w = input("w", {in, out});
        Targets targets;
        targets.fetches =
            what.finish(Einsum({x, w}, Shape{rows, out}),
                        input("r", {rows, out}), input("b", {out}));
        // Read again later, so nothing overwrites them.
        targets.fetches.push_back(x);
        targets.fetches.push_back(w);
        const auto program = LowerText(graph, kMesh, layout, targets);
        ASSERT_OK(program);
        const int groups = RunGroups(nullptr, *program, number++);
        EXPECT_EQ(groups > 0, !MatmulGroupsOf(*program).empty())
            << PrintProgram(*program);
      }
    }
  }
}

TEST(AttentionGarbage, AttentionDependsOnDataOnly) {
  uint64_t number = 0;
  int fused = 0;
  for (const char* layout : {"batch:x", "heads:x", "length:x"}) {
    for (const char* mask : {"", "blm"}) {
      const AttentionParts parts = {.causal = number % 2 == 0,
                                    .mask = mask,
                                    .batch = 3,
                                    .heads = 3,
                                    .length = 9,
                                    .memory = 11};
      SCOPED_TRACE(absl::StrCat(layout, " mask ", mask));
      Graph graph;
      const Targets targets = BuildAttention(graph, parts);
      const auto program =
          LowerText(graph, kMesh, layout, targets,
                    {.attention = AttentionSupport::kFusedKernels});
      ASSERT_OK(program);
      fused += program->composed_attention.empty();
      RunGroups(nullptr, *program, number++);
    }
  }
  EXPECT_EQ(fused, 4);
}

}  // namespace
}  // namespace mtf::cuda
