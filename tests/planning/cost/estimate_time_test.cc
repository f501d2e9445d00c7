// SPDX-License-Identifier: Apache-2.0
#include "planning/cost/estimate_time.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ops/convolution.h"
#include "ops/input.h"
#include "planning/cost/fused_kernels.h"
#include "planning/machine/machine.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/matchers.h"
#include "tests/program_text.h"

namespace mtf::testing {
namespace {

// A machine with round numbers: 1 us per launch, 1 GB/s of memory, 1 GFLOP/s,
// 10 us per message and 1 GB/s per link.
Machine MachineWithRoundNumbers(bool overlap = true, bool fusion = false) {
  const auto machine = Machine::Parse(
      absl::StrCat("[device]\nmemory 1 GB\nbandwidth 1 GB/s\nlatency 1 us\n",
                   "overlap ", overlap ? "yes" : "no", "\nfusion ",
                   fusion ? "yes" : "no",
                   "\n[matmul f32]\npeak 1 GFLOP/s\n"
                   "[link a]\nbandwidth 1 GB/s\nlatency 10 us\n"),
      "test");
  EXPECT_OK(machine);
  return *machine;
}

Program Parsed(const std::string& text) {
  auto program = ParseText(text);
  EXPECT_OK(program);
  return *std::move(program);
}

double Microseconds(const std::string& text, bool fusion = false) {
  return 1e6 * EstimateStep(Parsed(text), MachineWithRoundNumbers(true, fusion))
                   .seconds;
}

TEST(EstimateStep, MapTakesTheTimeOfItsBytes) {
  // Reads 4000 bytes, once although both operands are the same, and writes
  // 4000.
  EXPECT_NEAR(Microseconds("mesh{}\n"
                           "%x : f32[a:1000=1000] = input x\n"
                           "%y : f32[a:1000=1000] = map(%x, %x) add\n"
                           "output(%y) y\n"),
              1 + 8, 1e-6);
}

TEST(EstimateStep, MapOfManyStepsTakesTheTimeOfItsFunctions) {
  const Machine machine = *Machine::Parse(
      "[device]\nmemory 1 GB\nbandwidth 1 GB/s\nlatency 1 us\n"
      "functions 100 MFLOP/s\n[matmul f32]\npeak 1 GFLOP/s\n"
      "[link a]\nbandwidth 1 GB/s\nlatency 10 us\n",
      "test");
  // Two steps for each of 1000 elements take 20 us, longer than 8 us of memory.
  EXPECT_NEAR(EstimateStep(Parsed("mesh{}\n"
                                  "%x : f32[a:1000=1000] = input x\n"
                                  "%y : f32[a:1000=1000] = map(%x) "
                                  "[exp($0); mul($1, $0)]\n"
                                  "output(%y) y\n"),
                           machine)
                  .seconds,
              21e-6, 1e-12);
  // A reduction evaluates one function per element that it reads.
  EXPECT_NEAR(EstimateStep(Parsed("mesh{}\n"
                                  "%x : f32[a:1000=1000] = input x\n"
                                  "%y : f32[] = reduce(%x) sum\n"
                                  "output(%y) y\n"),
                           machine)
                  .seconds,
              11e-6, 1e-12);
  EXPECT_DOUBLE_EQ(
      Machine::Parse(machine.ToString(), "again")->MapSeconds(0, 1e8),
      1 + 1e-6);
}

TEST(EstimateStep, EinsumTakesTheTimeOfItsFlopsOrItsBytes) {
  // 2 * 100^3 FLOP at 1 GFLOP/s.
  EXPECT_NEAR(
      Microseconds("mesh{}\n"
                   "%x : f32[a:100=100, b:100=100] = input x\n"
                   "%w : f32[b:100=100, c:100=100] = input w\n"
                   "%y : f32[a:100=100, c:100=100] = einsum(%x, %w) sum{b} "
                   "by{m 100 n 100 k 100}\n"
                   "output(%y) y\n"),
      1 + 2000, 1e-6);
  // 1 x 100 by 100 x 100: 20 us of FLOPs, 40.8 us of bytes.
  EXPECT_NEAR(Microseconds("mesh{}\n"
                           "%x : f32[b:100=100] = input x\n"
                           "%w : f32[b:100=100, c:100=100] = input w\n"
                           "%y : f32[c:100=100] = einsum(%x, %w) sum{b} "
                           "by{m 1 n 100 k 100}\n"
                           "output(%y) y\n"),
              1 + 40.8, 1e-6);
}

constexpr char kTwoChains[] =
    "mesh{m:2}\n"
    "%h : f32[h:2/m=1, a:1000=1000] = input h\n"
    "%z : f32[a:1000=1000] = input z\n"
    "%x : f32[a:1000=1000] unreduced{m} = reduce(%h) sum\n"
    "%r : f32[a:1000=1000] = all_reduce(%x) sum over{m} asynchronous\n"
    "%u : f32[a:1000=1000] = map(%z) relu\n"
    "wait(%r)\n"
    "%v : f32[a:1000=1000] = map(%r, %u) add\n"
    "output(%v) v\n";

TEST(EstimateStep, AsynchronousCollectiveOverlapsIndependentCompute) {
  // The all_reduce sends 2 messages and 4000 bytes: 24 us, after the 9 us of
  // its operand. The relu overlaps 9 us of it.
  const StepEstimate step =
      EstimateStep(Parsed(kTwoChains), MachineWithRoundNumbers());
  EXPECT_NEAR(step.seconds, 9e-6 + 24e-6 + 13e-6, 1e-12);
  EXPECT_NEAR(step.compute, 9e-6 + 9e-6 + 13e-6, 1e-12);
  EXPECT_NEAR(step.collectives, 24e-6, 1e-12);
  EXPECT_NEAR(step.exposed, 15e-6, 1e-12);
  ASSERT_EQ(step.timeline.size(), 4u);
  EXPECT_TRUE(step.timeline[1].is_collective);
  EXPECT_NEAR(step.timeline[1].begin, 9e-6, 1e-12);
  EXPECT_NEAR(step.timeline[1].exposed, 15e-6, 1e-12);
  EXPECT_NEAR(step.timeline[2].begin, 9e-6, 1e-12);
  EXPECT_NEAR(step.timeline[3].begin, 33e-6, 1e-12);
}

TEST(EstimateStep, SynchronousCollectiveBlocksCompute) {
  const StepEstimate step = EstimateStep(
      Parsed(absl::StrReplaceAll(kTwoChains,
                                 {{" asynchronous", ""}, {"wait(%r)\n", ""}})),
      MachineWithRoundNumbers());
  EXPECT_NEAR(step.seconds, 9e-6 + 24e-6 + 22e-6, 1e-12);
  EXPECT_NEAR(step.exposed, 24e-6, 1e-12);
}

// The second collective starts when the first is done. Compute after a wait
// starts when the collective it waits for is done.
TEST(EstimateStep, AsynchronousCollectivesRunOneAfterAnother) {
  const StepEstimate step = EstimateStep(
      Parsed("mesh{m:2}\n"
             "%h : f32[h:2/m=1, a:1000=1000] = input h\n"
             "%z : f32[a:1000=1000] = input z\n"
             "%x : f32[a:1000=1000] unreduced{m} = reduce(%h) sum\n"
             "%r : f32[a:1000=1000] = all_reduce(%x) sum over{m} asynchronous\n"
             "%q : f32[a:1000=1000] = all_reduce(%x) sum over{m} asynchronous\n"
             "%u : f32[a:1000=1000] = map(%z) relu\n"
             "wait(%r)\n"
             "%v : f32[a:1000=1000] = map(%r) relu\n"
             "wait(%q)\n"
             "%w : f32[a:1000=1000] = map(%q) relu\n"
             "output(%v) v\n"
             "output(%w) w\n"
             "output(%u) u\n"),
      MachineWithRoundNumbers());
  ASSERT_EQ(step.timeline.size(), 6u);
  EXPECT_NEAR(step.timeline[2].begin, 33e-6, 1e-12);  // %q
  EXPECT_NEAR(step.timeline[3].begin, 9e-6, 1e-12);   // %u
  EXPECT_NEAR(step.timeline[4].begin, 33e-6, 1e-12);  // %v
  EXPECT_NEAR(step.timeline[5].begin, 57e-6, 1e-12);  // %w
  EXPECT_NEAR(step.exposed, 15e-6 + 15e-6, 1e-12);
}

TEST(EstimateStep, MachineWithoutOverlapBlocksCompute) {
  const StepEstimate step =
      EstimateStep(Parsed(kTwoChains), MachineWithRoundNumbers(false));
  EXPECT_NEAR(step.seconds, 9e-6 + 24e-6 + 22e-6, 1e-12);
  EXPECT_NEAR(step.exposed, 24e-6, 1e-12);
}

TEST(EstimateStep, AllGatherIsTimedByTheBytesOfItsResult) {
  // The other rank sends 2000 of the 4000 bytes.
  EXPECT_NEAR(Microseconds("mesh{m:2}\n"
                           "%x : f32[a:1000/m=500] = input x\n"
                           "%y : f32[a:1000=1000] = all_gather(%x) a over{m}\n"
                           "output(%y) y\n"),
              10 + 2, 1e-6);
}

TEST(EstimateStep, BucketIsOneCollective) {
  EXPECT_NEAR(Microseconds("mesh{m:2}\n"
                           "%h : f32[h:2/m=1, a:1000=1000] = input h\n"
                           "%i : f32[h:2/m=1, b:500=500] = input i\n"
                           "%x : f32[a:1000=1000] unreduced{m} = "
                           "reduce(%h) sum\n"
                           "%y : f32[b:500=500] unreduced{m} = "
                           "reduce(%i) sum\n"
                           "%u : f32[a:1000=1000], %v : f32[b:500=500] = "
                           "all_reduce(%x, %y) sum over{m}\n"
                           "output(%u) u\n"
                           "output(%v) v\n"),
              9 + 5 + 20 + 6, 1e-6);
}

constexpr char kSoftmax[] =
    "mesh{}\n"
    "%x : f32[a:100=100, b:10=10] = input x\n"
    "%m : f32[a:100=100] = reduce(%x) max\n"
    "%e : f32[a:100=100, b:10=10] = map(%x, %m) [sub($0, $1); exp($2)]\n"
    "%s : f32[a:100=100] = reduce(%e) sum\n"
    "%p : f32[a:100=100, b:10=10] = map(%e, %s) div\n"
    "output(%p) p\n";

TEST(EstimateStep, SoftmaxIsOneKernelOnADeviceThatFuses) {
  EXPECT_NEAR(Microseconds(kSoftmax, /*fusion=*/true), 1 + 8, 1e-6);
  EXPECT_NEAR(Microseconds(kSoftmax, /*fusion=*/false),
              4 + (4 + .4) + (4 + .4 + 4) + (4 + .4) + (4 + .4 + 4), 1e-6);
}

// A 1-D convolution of 1000 pixels by a window of 10: the time of its FLOPs, or
// if that is longer, of image, filter and result, without windows.
TEST(EstimateStep, ConvolutionTakesTheTimeOfItsFlopsOrItsBytes) {
  const auto seconds = [](int64_t in, int64_t out, bool fuses) {
    Graph graph;
    const Tensor x = Input(graph, "x", kFloat32, {{"width", 1009}, {"in", in}});
    const Tensor filter = Input(graph, "filter", kFloat32,
                                {{"kw", 10}, {"in", in}, {"out", out}});
    const Tensor y = Convolution(
        x, filter, {{"width", "kw", {.padding = WindowPadding::kValid}}},
        {{"in", in}});
    auto program = LowerText(graph, "", "", {.fetches = {y}},
                             {.fusion = {.convolutions = fuses}});
    EXPECT_OK(program);
    EXPECT_EQ(program->groups.empty(), !fuses);
    return 1e6 * EstimateStep(*program, MachineWithRoundNumbers()).seconds;
  };
  const double flops = 2.0 * 1000 * 10 * 20 * 30;
  EXPECT_NEAR(seconds(20, 30, true), 1 + flops / 1e3, 1);
  const double bytes = 4.0 * (1009 + 10 + 1000);
  EXPECT_NEAR(seconds(1, 1, true), std::max(1 + bytes / 1e3, 1 + 20.0), 1e-6);
  EXPECT_GT(seconds(1, 1, false), seconds(1, 1, true) + 40);
}

TEST(FusedKernels, EinsumEndsAKernel) {
  const Program program = Parsed(
      "mesh{}\n"
      "%x : f32[a:10=10, b:10=10] = input x\n"
      "%u : f32[a:10=10, b:10=10] = map(%x) relu\n"
      "%w : f32[b:10=10, c:10=10] = input w\n"
      "%y : f32[a:10=10, c:10=10] = einsum(%u, %w) sum{b} by{m 10 n 10 k 10}\n"
      "%z : f32[a:10=10, c:10=10] = input z\n"
      "%s : f32[a:10=10] = reduce(%y) sum\n"
      "%v : f32[a:10=10, b:10=10] = map(%u, %s) add\n"
      "output(%v) v\n");
  const FusedKernels fused = FindFusedKernels(program);
  // %u is computed before the einsum, %s and %v in one kernel after it.
  EXPECT_EQ(fused.kernel[1], 1);
  EXPECT_EQ(fused.kernel[3], 3);
  EXPECT_EQ(fused.kernel[5], 5);
  EXPECT_EQ(fused.kernel[6], 5);
  EXPECT_EQ(fused.bytes[1], 800);
  EXPECT_EQ(fused.bytes[5], 400);
  EXPECT_EQ(fused.bytes[6], 800);
}

TEST(FusedKernels, MapsOfAnEinsumAreItsEpilogue) {
  const std::string head =
      "mesh{}\n"
      "%x : f32[a:10=10, b:10=10] = input x\n"
      "%w : f32[b:10=10, c:10=10] = input w\n"
      "%bias : f32[c:10=10] = input bias\n"
      "%y : f32[a:10=10, c:10=10] = einsum(%x, %w) sum{b} by{m 10 n 10 k 10}\n"
      "%v : f32[a:10=10, c:10=10] = map(%y, %bias) [add($0, $1); gelu($2)]\n"
      "output(%v) v\n";
  const FusedKernels fused = FindFusedKernels(Parsed(head));
  EXPECT_EQ(fused.kernel[4], 3);
  EXPECT_EQ(fused.bytes[3], 3 * 400 + 40);
  EXPECT_EQ(fused.bytes[4], 0);
  // Unless another instruction reads the result of the einsum.
  const FusedKernels read_twice =
      FindFusedKernels(Parsed(absl::StrCat(head, "output(%y) y\n")));
  EXPECT_EQ(read_twice.kernel[4], 4);
  EXPECT_EQ(read_twice.bytes[3], 3 * 400);
  EXPECT_EQ(read_twice.bytes[4], 2 * 400 + 40);
}

TEST(FusedKernels, ReductionOverAllElementsEndsAKernel) {
  const Program program = Parsed(
      "mesh{}\n"
      "%x : f32[a:100000=100000] = input x\n"
      "%s : f32[] = reduce(%x) sum\n"
      "%y : f32[a:100000=100000] = map(%x, %s) div\n"
      "output(%y) y\n");
  const FusedKernels fused = FindFusedKernels(program);
  EXPECT_EQ(fused.kernel[1], 1);
  EXPECT_EQ(fused.kernel[2], 2);
}

Program TrainingStep(absl::string_view mesh, absl::string_view layout,
                     int layers) {
  Graph graph;
  TransformerSizes sizes;
  sizes.layers = layers;
  sizes.batch = 4096;
  const Transformer model = BuildTransformer(graph, sizes);
  auto program = LowerText(graph, mesh, layout,
                           {.fetches = {model.loss}, .updates = {model.step}});
  EXPECT_OK(program);
  return *std::move(program);
}

TEST(EstimateStep, PartsAddUpOnEveryPreset) {
  for (const std::string& name : Machine::PresetNames()) {
    if (name == "this_host") continue;
    const Machine machine = *Machine::Load(name);
    const Program program = TrainingStep(
        "data:2,model:4", "batch:data, d_ff:model, heads:model", 2);
    const StepEstimate step = EstimateStep(program, machine);
    double compute = 0, collectives = 0, exposed = 0, end = 0;
    for (const TimedInstruction& timed : step.timeline) {
      EXPECT_LE(timed.begin, timed.end);
      EXPECT_LE(timed.exposed, timed.end - timed.begin + 1e-12);
      (timed.is_collective ? collectives : compute) += timed.end - timed.begin;
      exposed += timed.exposed;
      end = std::max(end, timed.end);
    }
    EXPECT_NEAR(step.compute, compute, 1e-9);
    EXPECT_NEAR(step.collectives, collectives, 1e-9);
    EXPECT_NEAR(step.exposed, exposed, 1e-9);
    EXPECT_DOUBLE_EQ(step.seconds, end);
    EXPECT_GT(step.exposed, 0);
    EXPECT_LE(step.seconds, step.compute + step.collectives + 1e-9);
    EXPECT_NEAR(step.seconds, step.compute + step.exposed,
                1e-9 + 0.01 * step.seconds);
  }
}

}  // namespace
}  // namespace mtf::testing
