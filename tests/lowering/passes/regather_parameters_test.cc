// SPDX-License-Identifier: Apache-2.0
//
// Sharded parameters are gathered for each use, not for the whole step.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/gradients.h"
#include "tests/lowering/gpt_layers.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

constexpr char kPass[] = "regather_parameters";

// Reads of five other sharded parameters: more than the reuse distance.
std::string OtherLayers(absl::string_view x, absl::string_view y) {
  std::string text;
  std::string from(x);
  for (int i = 0; i < 5; ++i) {
    const std::string to = i < 4 ? absl::StrCat(y, i) : std::string(y);
    absl::StrAppend(&text, "%", to, " : f32[d:8] = map(%", from, ", %o", i,
                    ") add\n");
    from = to;
  }
  return text;
}

constexpr char kOthers[] = R"(%p0 : f32[d:8/data] = read_variable p0
%p1 : f32[d:8/data] = read_variable p1
%p2 : f32[d:8/data] = read_variable p2
%p3 : f32[d:8/data] = read_variable p3
%p4 : f32[d:8/data] = read_variable p4
)";
constexpr char kOthersGathered[] =
    R"(%o0 : f32[d:8] = all_gather(%p0) d over{data} for{d/data rule 0}
%o1 : f32[d:8] = all_gather(%p1) d over{data} for{d/data rule 0}
%o2 : f32[d:8] = all_gather(%p2) d over{data} for{d/data rule 0}
%o3 : f32[d:8] = all_gather(%p3) d over{data} for{d/data rule 0}
%o4 : f32[d:8] = all_gather(%p4) d over{data} for{d/data rule 0}
)";

// The lines of the program after the pass that begin with `%name` or a numbered
// copy of it, in order: "o0 w y w_1 z".
std::string Order(const std::string& text) {
  const auto program = ParseText(text);
  if (!program.ok()) return ErrorText(program.status());
  Program lowered = *program;
  const absl::Status status = RunPass(kPass, lowered);
  if (!status.ok()) return ErrorText(status);
  std::string order;
  for (const Instruction& instruction : lowered.instructions) {
    if (instruction.opcode == Opcode::kReadVariable ||
        instruction.opcode == Opcode::kInput) {
      continue;
    }
    absl::StrAppend(&order, order.empty() ? "" : " ",
                    instruction.results.empty()
                        ? "output"
                        : lowered.values[instruction.results[0]].name);
    if (instruction.results.empty()) continue;
    std::string operands;
    for (int operand : instruction.operands) {
      absl::StrAppend(&operands, operands.empty() ? "" : ",",
                      lowered.values[operand].name);
    }
    absl::StrAppend(&order, "(", operands, ")");
  }
  return order;
}

std::string Program1(absl::string_view section, absl::string_view between) {
  return absl::StrCat("mesh{data:2}\nrule ", section,
                      R"(d:data from "a.layout:2"
%x : f32[d:8] = input x
%w : f32[d:8/data] = read_variable w
)",
                      kOthers,
                      "%w.full : f32[d:8] = all_gather(%w) d over{data} "
                      "for{d/data rule 0}\n",
                      kOthersGathered, "%y : f32[d:8] = map(%x, %w.full) mul\n",
                      between,
                      "%z : f32[d:8] = map(%q, %w.full) mul\noutput(%z) z\n");
}

// Every gather directly precedes its first reader, and is repeated for a
// distant one.
TEST(RegatherParameters, DistantReadersGatherAgain) {
  EXPECT_EQ(Order(Program1("[parameters] ", OtherLayers("y", "q"))),
            "w.full(w) y(x,w.full) o0(p0) q0(y,o0) o1(p1) q1(q0,o1) o2(p2) "
            "q2(q1,o2) o3(p3) q3(q2,o3) o4(p4) q(q3,o4) w.full_1(w) "
            "z(q,w.full_1) output");
}

TEST(RegatherParameters, NearbyReadersShareACopy) {
  EXPECT_EQ(Order(Program1("[parameters] ",
                           "%q : f32[d:8] = map(%y, %o0, %o1, %o2, %o3) "
                           "[add($0, $1); add($5, $2); add($6, $3); "
                           "add($7, $4)]\n")),
            "w.full(w) y(x,w.full) o0(p0) o1(p1) o2(p2) o3(p3) "
            "q(y,o0,o1,o2,o3) z(q,w.full) output");
}

// Parameters read repeatedly in between count once: the steps of a recurrent
// cell.
TEST(RegatherParameters, StepsOfARecurrentCellGatherOnce) {
  std::string steps, state = "y";
  for (int step = 0; step < 6; ++step) {
    for (int i = 0; i < 4; ++i) {
      const std::string next =
          step == 5 && i == 3 ? "q" : absl::StrCat("s", step, "_", i);
      absl::StrAppend(&steps, "%", next, " : f32[d:8] = map(%", state, ", %o",
                      i, ") add\n");
      state = next;
    }
  }
  const std::string order = Order(Program1("[parameters] ", steps));
  EXPECT_THAT(order, ::testing::Not(::testing::HasSubstr("o0_1")));
  EXPECT_THAT(order, ::testing::HasSubstr("z(q,w.full) "));
}

TEST(RegatherParameters, KeepGatheredGathersOnce) {
  EXPECT_EQ(
      Order(Program1("[parameters keep_gathered] ", OtherLayers("y", "q"))),
      "w.full(w) y(x,w.full) o0(p0) q0(y,o0) o1(p1) q1(q0,o1) o2(p2) "
      "q2(q1,o2) o3(p3) q3(q2,o3) o4(p4) q(q3,o4) z(q,w.full) output");
}

// Under a rule of the default section a gather belongs to one operation.
TEST(RegatherParameters, GathersOfOtherSectionsAreUnchanged) {
  for (const char* section : {"", "[optimizer] "}) {
    EXPECT_EQ(Order(Program1(section, OtherLayers("y", "q"))),
              "w.full(w) o0(p0) o1(p1) o2(p2) o3(p3) o4(p4) y(x,w.full) "
              "q0(y,o0) q1(q0,o1) q2(q1,o2) q3(q2,o3) q(q3,o4) z(q,w.full) "
              "output");
  }
}

// The cast of the shard before the gather and the rename after it are repeated,
// so that no intermediate value stays alive; a cast with another reader is not.
TEST(RegatherParameters, CastsAndRenamesAreRepeatedWithTheGather) {
  const auto text = [](absl::string_view more) {
    return absl::StrCat(R"(
mesh{data:2}
rule [parameters] d:data from "a.layout:2"
%x : bf16[e:8] = input x
%w : f32[d:8/data] = read_variable w
%half : bf16[d:8/data] = map(%w) [cast.bf16($0)]
%full : bf16[d:8] = all_gather(%half) d over{data} for{d/data rule 0}
%v : bf16[e:8] = reshape(%full)
)",
                        more, R"(%a : f32[d:8/data] = read_variable a
%b : f32[d:8/data] = read_variable b
%c : f32[d:8/data] = read_variable c
%f : f32[d:8/data] = read_variable f
%g : f32[d:8/data] = read_variable g
%a1 : f32[d:8] = all_gather(%a) d over{data} for{d/data rule 0}
%b1 : f32[d:8] = all_gather(%b) d over{data} for{d/data rule 0}
%c1 : f32[d:8] = all_gather(%c) d over{data} for{d/data rule 0}
%f1 : f32[d:8] = all_gather(%f) d over{data} for{d/data rule 0}
%g1 : f32[d:8] = all_gather(%g) d over{data} for{d/data rule 0}
%y : bf16[e:8] = map(%x, %v) mul
output(%a1) a
output(%b1) b
output(%c1) c
output(%f1) f
output(%g1) g
%z : bf16[e:8] = map(%y, %v) mul
output(%z) z
)");
  };
  EXPECT_EQ(Order(text("")),
            "half(w) full(half) v(full) y(x,v) a1(a) output b1(b) output "
            "c1(c) output f1(f) output g1(g) output half_1(w) full_1(half_1) "
            "v_1(full_1) z(y,v_1) output");
  EXPECT_EQ(Order(text("%s : bf16[d:8/data] = map(%half) relu\noutput(%s) "
                       "s\n")),
            "half(w) s(half) output full(half) v(full) y(x,v) a1(a) output "
            "b1(b) output c1(c) output f1(f) output g1(g) output "
            "full_1(half) v_1(full_1) z(y,v_1) output");
}

// A table looked up in f32 and multiplied in bf16, as when the embedding is the
// kernel of the loss: the gather for the product alone sends the cast.
TEST(RegatherParameters, GatherOnlyReadByACastIsCastFirst) {
  const auto text = [](absl::string_view between) {
    return absl::StrCat(R"(
mesh{data:2}
rule [parameters] d:data from "a.layout:2"
%x : f32[d:8] = input x
%q : f32[d:8] = input q
%w : f32[d:8/data] = read_variable w
)",
                        kOthers, R"(
%full : f32[d:8] = all_gather(%w) d over{data} for{d/data rule 0}
)",
                        kOthersGathered, R"(
%y : f32[d:8] = map(%x, %full) mul
)",
                        between, R"(
%half : bf16[d:8] = map(%full) [cast.bf16($0)]
output(%half) z
output(%y) y
)");
  };
  EXPECT_EQ(Order(text("")), "full(w) y(x,full) half(full) output output");
  EXPECT_EQ(Order(text(OtherLayers("q", "u"))),
            "full(w) y(x,full) o0(p0) u0(q,o0) o1(p1) u1(u0,o1) o2(p2) "
            "u2(u1,o2) o3(p3) u3(u2,o3) o4(p4) u(u3,o4) half_1(w) "
            "half(half_1) output output");
}

TEST(RegatherParameters, InstructionMayReadACopyTwice) {
  EXPECT_EQ(Order(R"(
mesh{data:2}
rule [parameters] d:data from "a.layout:2"
%w : f32[d:8/data] = read_variable w
%full : f32[d:8] = all_gather(%w) d over{data} for{d/data rule 0}
%y : f32[d:8] = map(%full, %full) mul
output(%y) y
)"),
            "full(w) y(full,full) output");
}

// Longer than a repeated chain may be: the first map beyond the limit is a
// reader.
TEST(RegatherParameters, LongChainOfMapsIsNotRepeated) {
  std::string text = R"(
mesh{data:2}
rule [parameters] d:data from "a.layout:2"
%w : f32[d:8/data] = read_variable w
%m0 : f32[d:8] = all_gather(%w) d over{data} for{d/data rule 0}
)";
  const int maps = 100000;
  for (int i = 0; i < maps; ++i) {
    absl::StrAppend(&text, "%m", i + 1, " : f32[d:8] = map(%m", i, ") relu\n");
  }
  absl::StrAppend(&text, "output(%m", maps, ") y\n");
  auto program = ParseText(text);
  ASSERT_OK(program);
  EXPECT_OK(RunPass(kPass, *program));
  EXPECT_EQ(program->instructions.size(), maps + 3u);
}

GptSizes Sizes(int layers, DType parameters) {
  GptSizes sizes;
  sizes.layers = layers;
  sizes.batch = 8;
  sizes.length = 64;
  sizes.d_model = 512;
  sizes.heads = 8;
  sizes.vocab = 1024;
  sizes.parameters = parameters;
  return sizes;
}

struct Gathered {
  int64_t most = 0;  // bytes of gathered parameters alive at one time
  int64_t gathers = 0;
};

// Before overlap_collectives moves collectives, or after all passes.
Gathered GatheredBytes(const GptSizes& sizes, absl::string_view layout,
                       bool trains,
                       const std::string& last_pass = "plan_einsums") {
  Graph graph;
  const Gpt gpt = BuildGpt(graph, sizes);
  Targets targets{.fetches = {gpt.loss}};
  if (trains) targets.updates = {gpt.step};
  const auto program =
      LowerText(graph, "data:8", layout, targets, {.last_pass = last_pass});
  EXPECT_OK(program);
  Gathered gathered;
  if (!program.ok()) return gathered;
  const size_t count = program->instructions.size();
  std::vector<bool> copy(program->values.size(), false);
  std::vector<size_t> begin(program->values.size()),
      end(program->values.size());
  for (size_t i = 0; i < count; ++i) {
    const Instruction& instruction = program->instructions[i];
    for (int operand : instruction.operands) end[operand] = i;
    if (instruction.results.empty()) continue;
    const int result = instruction.results[0];
    const bool gathers = instruction.opcode == Opcode::kAllGather;
    const bool casts = instruction.opcode == Opcode::kMap &&
                       instruction.operands.size() == 1 &&
                       copy[instruction.operands[0]];
    begin[result] = i;
    copy[result] = gathers || casts;
    gathered.gathers += gathers;
  }
  std::vector<int64_t> change(count + 1, 0);
  for (size_t v = 0; v < copy.size(); ++v) {
    if (!copy[v]) continue;
    change[begin[v]] += program->values[v].local_bytes();
    change[end[v] + 1] -= program->values[v].local_bytes();
  }
  int64_t now = 0;
  for (int64_t bytes : change) {
    now += bytes;
    gathered.most = std::max(gathered.most, now);
  }
  return gathered;
}

// 12 h^2 weights of a layer in six parameters, at most one layer of which is
// gathered at a time, whatever the number of layers.
TEST(RegatherParameters, GatheredParametersOfAGptDoNotGrowWithItsLayers) {
  constexpr int64_t kLayer = 12 * 512 * 512 * 2, kTable = 1024 * 512 * 2;
  for (DType parameters : {kBFloat16, kFloat32}) {
    const Gathered few =
        GatheredBytes(Sizes(2, parameters), gpt_layouts::kZero3, true);
    const Gathered many =
        GatheredBytes(Sizes(12, parameters), gpt_layouts::kZero3, true);
    EXPECT_EQ(few.most, many.most);
    EXPECT_LE(many.most, kLayer + kTable);
    EXPECT_EQ(many.gathers - few.gathers, 10 * 6 * 2);
    // One more layer is gathered ahead of its use.
    const Gathered ahead =
        GatheredBytes(Sizes(12, parameters), gpt_layouts::kZero3, true, "");
    EXPECT_LE(ahead.most, 2 * kLayer + kTable);
    EXPECT_EQ(ahead.gathers, many.gathers);
    // With keep_gathered all of them are alive between the passes.
    const Gathered kept =
        GatheredBytes(Sizes(12, parameters),
                      "batch:data [parameters keep_gathered] d_model:data "
                      "[optimizer] d_model:data",
                      true);
    EXPECT_GE(kept.most, 12 * kLayer);
  }
}

// Two microbatches whose gradients are added: each gathers for its own passes,
// the gradients are scattered once. Of eight weights the first is not read by a
// backward pass, and five are kept where the second microbatch turns back.
TEST(RegatherParameters, EveryMicrobatchGathersAgain) {
  Graph graph;
  const Dimension batch{"batch", 8}, in{"in", 16}, out{"out", 16};
  std::vector<Tensor> weights, updates;
  for (int i = 0; i < 8; ++i) {
    weights.push_back(Variable(graph, absl::StrCat("w", i),
                               Zeros(graph, kFloat32, {in, out})));
  }
  Tensor loss;
  for (const char* name : {"first", "second"}) {
    Tensor x = Input(graph, name, kFloat32, {batch, in});
    for (size_t i = 0; i < weights.size(); ++i) {
      x = Einsum({x, weights[i]}, {batch, i % 2 == 0 ? out : in});
    }
    const Tensor sum = ReduceSum(x * x, {});
    loss = loss.valid() ? loss + sum : sum;
  }
  const std::vector<Tensor> gradients = Gradients(loss, weights);
  const SectionScope section(graph, LayoutSection::kOptimizer);
  for (size_t i = 0; i < weights.size(); ++i) {
    updates.push_back(Assign(weights[i], weights[i] - gradients[i]));
  }
  const std::string costs = Costs(LowerText(
      graph, "data:2", "batch:data [parameters] in:data [optimizer] in:data",
      {.updates = updates}));
  const int64_t bytes = 16 * 16 * 4 / 2;
  EXPECT_EQ(costs, absl::StrCat("all_gather data ", 8 + 8 + 2 + 7, "x ",
                                (8 + 8 + 2 + 7) * bytes,
                                "\nreduce_scatter data 1x ", 8 * bytes, "\n"));
}

// Without a backward pass a copy has one reader and is freed after it.
TEST(RegatherParameters, InferenceGathersOnceAndLate) {
  const Gathered few =
      GatheredBytes(Sizes(2, kFloat32), gpt_layouts::kZero3, false);
  const Gathered many =
      GatheredBytes(Sizes(12, kFloat32), gpt_layouts::kZero3, false);
  EXPECT_EQ(few.most, many.most);
  EXPECT_LE(many.most, 4 * 512 * 512 * 2);
  EXPECT_EQ(many.gathers - few.gathers, 10 * 6);
  const Gathered ahead =
      GatheredBytes(Sizes(12, kFloat32), gpt_layouts::kZero3, false, "");
  EXPECT_LE(ahead.most, 2 * many.most);
}

}  // namespace
}  // namespace mtf::testing
