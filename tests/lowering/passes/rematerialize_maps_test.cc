// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "layouts/layout_rules.h"
#include "lowering/passes/absorb_map.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/pass_test.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two f32 tensors are not kept in addition to an operand of half their bytes.
// The kernel that computes them still reads them.
TEST(RematerializeMaps, NormKeepsItsInputAndRowStatistics) {
  EXPECT_EQ(AfterPass("rematerialize_maps", R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%mean : f32[b:8] = input mean
%scale : f32[b:8] = input scale
%w : f32[h:16, o:4] = input w
%sub : f32[b:8, h:16] = map(%x, %mean) [cast.f32($0); sub($2, $1)]
%q : f32[b:8] = reduce(%sub) sum square over [b:8, h:16]
%mul : f32[b:8, h:16] = map(%sub, %scale) mul
%t : f32[b:8, h:16] = map(%mul, %q) add
%y : f32[b:8, o:4] = einsum(%t, %w) sum{h}
%dx : f32[b:8, h:16] = einsum(%y, %w) sum{o}
%r : f32[b:8] = reduce(%dx, %mul) sum mul over [b:8, h:16]
%g : f32[b:8, h:16] = map(%dx, %sub, %r) [mul($0, $1); sub($3, $2)]
output(%g) g
)"),
            R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%mean : f32[b:8] = input mean
%scale : f32[b:8] = input scale
%w : f32[h:16, o:4] = input w
%sub : f32[b:8, h:16] = map(%x, %mean) [cast.f32($0); sub($2, $1)]
%q : f32[b:8] = reduce(%sub) sum square over [b:8, h:16]
%t : f32[b:8, h:16] = map(%q, %sub, %scale) [mul($1, $2); add($3, $0)]
%y : f32[b:8, o:4] = einsum(%t, %w) sum{h}
%dx : f32[b:8, h:16] = einsum(%y, %w) sum{o}
%r : f32[b:8] = reduce(%dx, %scale, %x, %mean) sum [cast.f32($2); sub($4, $3); mul($5, $1); mul($0, $6)] over [b:8,
    h:16]
%g : f32[b:8, h:16] = map(%dx, %r, %x, %mean) [cast.f32($2); sub($4, $3); mul($0, $5); sub($6, $1)]
output(%g) g
)");
}

// Rematerializing from values that are kept anyway costs no memory.
TEST(RematerializeMaps, OperandsWithOtherLateReadersAreFree) {
  EXPECT_EQ(AfterPass("rematerialize_maps", R"(
mesh{}
%x : f32[b:8, h:16] = input x
%w : f32[h:16, o:4] = input w
%s : f32[b:8, h:16] = map(%x) [literal.f32(2); mul($0, $1)]
%e : f32[b:8, h:16] = map(%s) exp
%m : f32[b:8, h:16] = map(%s, %e) sub
%y : f32[b:8, o:4] = einsum(%m, %w) sum{h}
%d : f32[b:8, h:16] = einsum(%y, %w) sum{o}
%g : f32[b:8, h:16] = map(%d, %s) mul
%z : f32[h:16] = einsum(%x, %g) sum{b}
output(%z) z
output(%e) e
)"),
            R"(
mesh{}
%x : f32[b:8, h:16] = input x
%w : f32[h:16, o:4] = input w
%s : f32[b:8, h:16] = map(%x) [literal.f32(2); mul($0, $1)]
%e : f32[b:8, h:16] = map(%s) exp
%m : f32[b:8, h:16] = map(%s, %e) sub
%y : f32[b:8, o:4] = einsum(%m, %w) sum{h}
%d : f32[b:8, h:16] = einsum(%y, %w) sum{o}
%g : f32[b:8, h:16] = map(%d, %x) [literal.f32(2); mul($1, $2); mul($0, $3)]
%z : f32[h:16] = einsum(%x, %g) sum{b}
output(%z) z
output(%e) e
)");
}

// %s is read by the next kernel and, late, by `late`.
std::string ReadLate(absl::string_view s, absl::string_view late) {
  return absl::StrCat(R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%y : f32[b:8, h:16] = input y
%r : f32[b:8] = input r
%c : f32[h:16] = input c
%w : f32[h:16, o:4] = input w
)",
                      s, R"(
%t : f32[b:8, h:16] = map(%s) exp
%u : f32[b:8, o:4] = einsum(%t, %w) sum{h}
%d : f32[b:8, h:16] = einsum(%u, %w) sum{o}
)",
                      late, "\n");
}

constexpr char kNegated[] =
    "%s : f32[b:8, h:16] = map(%x) [cast.f32($0); neg($1)]";
constexpr char kProduct[] =
    "%g : f32[b:8, h:16] = map(%d, %s) mul\noutput(%g) g";

// The tests below each violate one condition of this one.
TEST(RematerializeMaps, ValueReadLateIsRematerialized) {
  const std::string after =
      AfterPass("rematerialize_maps", ReadLate(kNegated, kProduct));
  EXPECT_THAT(after, HasSubstr("%t : f32[b:8, h:16] = map(%x) [cast.f32($0); "
                               "neg($1); exp($2)]\n"));
  EXPECT_THAT(after, HasSubstr("%g : f32[b:8, h:16] = map(%d, %x) "
                               "[cast.f32($1); neg($2); mul($0, $3)]\n"));
}

// The operand to keep instead takes as many bytes: nothing is saved.
TEST(RematerializeMaps, ValueOfTheSizeOfItsOperandIsKept) {
  ExpectUnchanged("rematerialize_maps",
                  ReadLate("%s : f32[b:8, h:16] = map(%y) neg", kProduct));
}

// Scalars save nothing, and values of other dimensions cannot be recomputed in
// the reader.
TEST(RematerializeMaps, ScalarsAndReshapedValuesAreKept) {
  ExpectUnchanged("rematerialize_maps", R"(
mesh{}
%n : bf16[] = input n
%x : bf16[b:8] = input x
%w : f32[b:8, o:4] = input w
%m : f32[] = map(%n) [cast.f32($0)]
%s : f32[b:8, k:1] = map(%x) [cast.f32($0)]
%t : f32[b:8, k:1] = map(%s, %m) [exp($0); mul($2, $1)]
%u : f32[k:1, o:4] = einsum(%t, %w) sum{b}
%d : f32[b:8, k:1] = einsum(%u, %w) sum{o}
%g : f32[b:8, k:1] = map(%d, %s) mul
%f : f32[] = einsum(%u, %u) sum{k, o}
%e : f32[] = map(%f, %m) [mul($0, $1); add($2, $2)]
output(%g) g
output(%e) e
)");
}

// The next einsum reads it from memory; after that it is freed.
TEST(RematerializeMaps, ValueReadEarlyByAnEinsumIsRematerialized) {
  EXPECT_THAT(AfterPass("rematerialize_maps", R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%w : f32[h:16, o:4] = input w
%s : f32[b:8, h:16] = map(%x) [cast.f32($0); neg($1)]
%u : f32[b:8, o:4] = einsum(%s, %w) sum{h}
%d : f32[b:8, h:16] = einsum(%u, %w) sum{o}
%g : f32[b:8, h:16] = map(%d, %s) mul
output(%g) g
)"),
              HasSubstr("%g : f32[b:8, h:16] = map(%d, %x) ["));
}

// The gradient of the weight reads it from memory, so it is alive for the other
// reader.
TEST(RematerializeMaps, ValueReadLateByAnEinsumIsKept) {
  ExpectUnchanged("rematerialize_maps",
                  ReadLate(kNegated, absl::StrCat(kProduct, R"(
%z : f32[h:16, o:4] = einsum(%s, %u) sum{b}
output(%z) z)")));
}

// So does a reader of a view of it.
TEST(RematerializeMaps, ValueKeptByAViewIsKept) {
  ExpectUnchanged(
      "rematerialize_maps",
      ReadLate(absl::StrCat(kNegated, "\n%v : f32[e:8, h:16] = reshape(%s)"),
               absl::StrCat(kProduct, R"(
%z : f32[e:8, o:4] = einsum(%v, %w) sum{h}
output(%z) z)")));
}

// A value written to a variable lives until the end of the step.
TEST(RematerializeMaps, ValueWrittenToAVariableIsKept) {
  constexpr char kWritten[] = "\n%s.2 : f32[b:8, h:16] = write_variable(%s) s";
  ExpectUnchanged("rematerialize_maps",
                  ReadLate(absl::StrCat(kNegated, kWritten), kProduct));
  ExpectUnchanged("rematerialize_maps",
                  ReadLate(kNegated, absl::StrCat(kProduct, kWritten)));
}

// A kernel would read four bytes per element instead of two, even if the
// operand is kept for another reader.
TEST(RematerializeMaps, ValueSmallerThanItsOperandIsKept) {
  ExpectUnchanged("rematerialize_maps", R"(
mesh{}
%x : f32[b:8, h:16] = input x
%w : bf16[h:16, o:4] = input w
%s : bf16[b:8, h:16] = map(%x) [cast.bf16($0)]
%t : bf16[b:8, h:16] = map(%s) exp
%y : bf16[b:8, o:4] = einsum(%t, %w) sum{h}
%d : bf16[b:8, h:16] = einsum(%y, %w) sum{o}
%g : bf16[b:8, h:16] = map(%d, %s) mul
output(%g) g
output(%x) x
)");
}

TEST(RematerializeMaps, ExpensiveFunctionIsKept) {
  ExpectUnchanged(
      "rematerialize_maps",
      ReadLate("%s : f32[b:8, h:16] = map(%x) [cast.f32($0); log($1)]",
               kProduct));
}

// Two operands of its size would be kept instead of one.
TEST(RematerializeMaps, ValueOfTwoEqualOperandsIsKept) {
  ExpectUnchanged("rematerialize_maps",
                  ReadLate("%s : f32[b:8, h:16] = map(%x, %y) [cast.f32($0); "
                           "add($2, $1)]",
                           absl::StrCat(kProduct, "\noutput(%y) y")));
}

// It would be recomputed for each element of o.
TEST(RematerializeMaps, BroadcastValueIsKept) {
  ExpectUnchanged(
      "rematerialize_maps",
      ReadLate(kNegated,
               "%g : f32[b:8, h:16, o:4] = map(%u, %s) mul\noutput(%g) g"));
}

// Its last reader can be in its own kernel, which keeps it.
TEST(RematerializeMaps, ValueReadInItsOwnKernelIsKept) {
  constexpr char kBeside[] =
      "%m : f32[b:8, h:16] = map(%y, %s) mul\noutput(%m) m";
  ExpectUnchanged("rematerialize_maps",
                  ReadLate(kNegated, absl::StrCat(kProduct, "\n", kBeside)));
  // Before the late reader it does not.
  const std::string after =
      AfterPass("rematerialize_maps",
                ReadLate(kNegated, absl::StrCat(kBeside, "\n", kProduct)));
  EXPECT_THAT(after, HasSubstr("%m : f32[b:8, h:16] = map(%y, %s) mul"));
  EXPECT_THAT(after, HasSubstr("%g : f32[b:8, h:16] = map(%d, %x) ["));
}

// A reader of the sum over all elements waits for it, so the two cannot be one
// kernel.
TEST(RematerializeMaps, ReaderOfALongReductionIsLate) {
  const auto after = [](int64_t rows) {
    return AfterPass("rematerialize_maps",
                     absl::StrReplaceAll(R"(
mesh{}
%x : bf16[b:ROWS, h:16] = input x
%w : f32[h:16, o:4] = input w
%s : f32[b:ROWS, h:16] = map(%x) [cast.f32($0); neg($1)]
%n : f32[] = reduce(%s) sum square over [b:ROWS, h:16]
%t : f32[b:ROWS, h:16] = map(%s) exp
%u : f32[b:ROWS, o:4] = einsum(%t, %w) sum{h}
%g : f32[b:ROWS, h:16] = map(%s, %n) mul
output(%u) u
output(%g) g
)",
                                         {{"ROWS", absl::StrCat(rows)}}));
  };
  EXPECT_THAT(after(8192), HasSubstr("map(%n, %x) ["));
  EXPECT_THAT(after(8), HasSubstr("map(%s, %n) mul"));
}

// An addition to the result of an einsum is a matmul epilogue, and logits
// belong to attention; both are matched with their operands as they are.
TEST(RematerializeMaps, EpilogueOperandsAreKept) {
  for (const char* reader :
       {"%g : f32[b:8, h:16] = map(%d, %s) add\noutput(%g) g",
        "%g : f32[b:8, h:16] = map(%d, %s) [add($0, $1); gelu($2)]\n"
        "output(%g) g",
        "%l : f32[b:8, h:16] = map(%d, %s) [literal.f32(2); mul($0, $2); "
        "add($3, $1)]\n"
        "%m : f32[b:8] = reduce(%l) max\n"
        "%g : f32[b:8, h:16] = map(%l, %m) [sub($0, $1); exp($2)]\n"
        "output(%g) g"}) {
    ExpectUnchanged("rematerialize_maps", ReadLate(kNegated, reader));
  }
}

// Maps stay within the kernel limits: the first reader has room for %s, the
// others for no more steps and for no more operands.
TEST(RematerializeMaps, ValueIsKeptIfItsReaderIsFull) {
  const auto product = [](int steps, int rows) {
    std::string inputs, operands = "%d, %s", text = "mul($0, $1)";
    for (int i = 0; i < rows; ++i) {
      absl::StrAppend(&inputs, "%r", i, " : f32[b:8] = input r", i, "\n");
      absl::StrAppend(&operands, ", %r", i);
    }
    for (int i = 1; i < steps; ++i) {
      absl::StrAppend(&text, "; add($", rows + i + 1, ", $",
                      i <= rows ? i + 1 : 0, ")");
    }
    return absl::StrCat(inputs, "%g : f32[b:8, h:16] = map(", operands, ") [",
                        text, "]\noutput(%g) g");
  };
  const auto after = [&](int steps, int rows) {
    return AfterPass("rematerialize_maps",
                     ReadLate(kNegated, product(steps, rows)));
  };
  EXPECT_THAT(after(46, 7), Not(HasSubstr("map(%d, %s")));
  EXPECT_THAT(after(47, 7), HasSubstr("map(%d, %s"));
  EXPECT_THAT(after(46, 8), HasSubstr("map(%d, %s"));
}

// After the reader of %t only %s would be freed, which takes less than the two
// operands kept for it.
TEST(RematerializeMaps, KeepsNoMoreAtTheEndOfALifetime) {
  const std::string two = R"(
mesh{}
%x : f32[b:2, h:16] = input x
%m : f32[h:16] = input m
%w : f32[h:16, o:4] = input w
%s : f32[b:2, h:16] = map(%x, %m) add
%t : f32[b:2, h:16] = map(%x, %m) mul
%y : f32[b:2, o:4] = einsum(%x, %w) sum{h}
%d : f32[b:2, h:16] = einsum(%y, %w) sum{o}
%e : f32[b:2, h:16] = map(%d, %t) mul
%f : f32[h:16, o:4] = einsum(%e, %y) sum{b}
%g : f32[b:2, h:16] = map(%e, %s) mul
%z : f32[b:2, o:4] = einsum(%g, %f) sum{h}
output(%z) z
)";
  ExpectUnchanged("rematerialize_maps", two);
  // Both together take more than the two operands.
  EXPECT_THAT(AfterPass("rematerialize_maps",
                        absl::StrReplaceAll(two, {{"map(%e, %s) mul",
                                                   "map(%e, %s, %t) "
                                                   "[mul($0, $1); sub($3, "
                                                   "$2)]"}})),
              Not(HasSubstr("%t : ")));
}

// Each step would be repeated in each reader.
TEST(RematerializeMaps, LongChainsAreRematerializedFromNearby) {
  std::string steps = "add($0, $0)";
  for (int i = 1; i < 6; ++i) {
    absl::StrAppend(&steps, "; add($", i, ", $", i, ")");
  }
  const std::string text = absl::StrCat(R"(
mesh{}
%x : f32[b:8, h:16] = input x
%n : f32[b:8] = input n
%w : f32[h:16, o:4] = input w
%s : f32[b:8, h:16] = map(%x) [)",
                                        steps, R"(]
%t : f32[b:8, h:16] = map(%s, %n) [mul($0, $1); neg($2); mul($3, $0)]
%u : f32[b:8, h:16] = map(%s, %n) [sub($0, $1); neg($2); sub($3, $0)]
%e : f32[b:8] = reduce(%t, %u) sum mul over [b:8, h:16]
%y : f32[b:8, o:4] = einsum(%x, %w) sum{h}
%d : f32[b:8, h:16] = einsum(%y, %w) sum{o}
%g : f32[b:8, h:16] = map(%d, %t, %u, %e) [mul($0, $1); mul($4, $2); sub($5, $3)]
output(%g) g
)");
  const std::string after = AfterPass("rematerialize_maps", text);
  EXPECT_THAT(after, HasSubstr("%g : f32[b:8, h:16] = map(%d, %e, "));
  EXPECT_THAT(after, HasSubstr("%s, %n) ["));
}

// %s alone does not justify keeping %x and %r; with %r kept for %v, it does.
TEST(RematerializeMaps, OperandKeptForOneValueServesAnother) {
  const std::string after = AfterPass("rematerialize_maps", R"(
mesh{}
%x : bf16[b:8, h:2] = input x
%z : bf16[b:8, k:16] = input z
%r : f32[b:8] = input r
%w : f32[h:2] = input w
%p : f32[k:16] = input p
%s : f32[b:8, h:2] = map(%x, %r) [cast.f32($0); sub($2, $1)]
%v : f32[b:8, k:16] = map(%z, %r) [cast.f32($0); sub($2, $1)]
%t : f32[b:8, h:2] = map(%s) exp
%u : f32[b:8, k:16] = map(%v) exp
%y : f32[b:8] = einsum(%t, %w) sum{h}
%q : f32[b:8] = einsum(%u, %p) sum{k}
%g : f32[b:8, h:2] = map(%s, %y) mul
%f : f32[b:8, k:16] = map(%v, %q) mul
output(%g) g
output(%f) f
)");
  EXPECT_THAT(after, HasSubstr("%g : f32[b:8, h:2] = map(%y, %x, %r) ["));
  EXPECT_THAT(after, HasSubstr("%f : f32[b:8, k:16] = map(%q, %z, %r) ["));
}

// Each value of such a chain is recomputed from the one before it, which is
// itself recomputed in a later round: maps stay within the kernel limits, and
// the rounds end.
TEST(RematerializeMaps, RepeatedRoundsStayWithinKernelLimits) {
  std::string forward = R"(
mesh{}
%v0 : f32[b:8, h:16] = input x
%r0 : f32[b:8] = input r
%w : f32[h:16, o:16] = input w
)",
              backward = "%p0 : f32[b:8, h:16] = einsum(%y20, %w) sum{o}\n";
  for (int i = 1; i <= 20; ++i) {
    for (const char* name : {"%v", "%u"}) {
      const char* function = name[1] == 'v' ? "add" : "sub";
      absl::StrAppend(&forward, name, i, " : f32[b:8, h:16] = map(%v", i - 1,
                      ", %r", i - 1, ") [", function, "($0, $1)");
      for (int j = 2; j < 7; ++j) {
        absl::StrAppend(&forward, "; ", function, "($", j, ", $0)");
      }
      absl::StrAppend(&forward, "]\n");
    }
    absl::StrAppend(&forward, "%t", i, " : f32[b:8, h:16] = map(%v", i, ", %u",
                    i, ") [exp($0); add($2, $1)]\n%y", i,
                    " : f32[b:8, o:16] = einsum(%t", i, ", %w) sum{h}\n%r", i,
                    " : f32[b:8] = reduce(%y", i, ") sum\n");
    const int from = 21 - i;
    absl::StrAppend(&backward, "%g", i, " : f32[b:8, h:16] = map(%p", i - 1,
                    ", %v", from, ", %u", from,
                    ") [mul($0, $1); sub($3, $2)]\n%q", i,
                    " : f32[b:8, o:16] = einsum(%g", i, ", %w) sum{h}\n%p", i,
                    " : f32[b:8, h:16] = einsum(%q", i, ", %w) sum{o}\n");
  }
  absl::StatusOr<Program> program =
      ParseText(absl::StrCat(forward, backward, "output(%p20) p\n"));
  ASSERT_OK(program);
  const std::string before = TextOf(*program);
  ASSERT_OK(RunPass("rematerialize_maps", *program));
  const std::string once = TextOf(*program);
  EXPECT_NE(once, before);
  for (const Instruction& instruction : program->instructions) {
    if (HasExpression(instruction)) {
      EXPECT_LE(ExpressionOf(instruction).steps.size(), kMaxMapSteps);
    }
    EXPECT_LE(instruction.operands.size(), kMaxMapOperands);
  }
  ASSERT_OK(RunPass("rematerialize_maps", *program));
  EXPECT_EQ(TextOf(*program), once);
}

// After the pass there is nothing left to do.
TEST(RematerializeMaps, IsIdempotent) {
  for (DType dtype : {kFloat32, kBFloat16}) {
    for (const std::string& preset : LayoutRules::PresetNames()) {
      Graph graph;
      const Transformer model = BuildTransformer(graph, {.dtype = dtype});
      absl::StatusOr<Program> program =
          LowerPreset(graph, preset, preset == "single" ? 1 : 8,
                      {.fetches = {model.loss}, .updates = {model.step}},
                      {.last_pass = "rematerialize_maps"});
      ASSERT_OK(program) << preset;
      const std::string once = TextOf(*program);
      ASSERT_OK(RunPass("rematerialize_maps", *program));
      EXPECT_EQ(TextOf(*program), once) << preset;
    }
  }
}

// A device that fuses reads it in the kernel that produces it.
TEST(RematerializeMaps, ValueReadEarlyIsKept) {
  ExpectUnchanged("rematerialize_maps", R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%s : f32[b:8, h:16] = map(%x) [cast.f32($0)]
%r : f32[b:8] = reduce(%s) sum
%g : f32[b:8, h:16] = map(%s, %r) sub
output(%g) g
)");
}

// Everything after a reduction over ranks is late: a reader recomputes the
// value there, in the forward pass too.
TEST(RematerializeMaps, ReadersAfterACollectiveAreLate) {
  EXPECT_EQ(AfterPass("rematerialize_maps", R"(
mesh{model:2}
%x : bf16[b:4, h:16/model=8] = input x
%mean : f32[b:4] = input mean
%sub : f32[b:4, h:16/model=8] = map(%x, %mean) [cast.f32($0); sub($2, $1)]
%p : f32[b:4] unreduced{model} = reduce(%sub) sum square over [b:4, h:16/model=8]
%v : f32[b:4] = all_reduce(%p) sum over{model}
%mul : f32[b:4, h:16/model=8] = map(%sub, %v) mul
%t : f32[b:4, h:16/model=8] = map(%mul) exp
%u : f32[b:4, h:16/model=8] = map(%mul, %t) add
output(%t) t
output(%u) u
)"),
            R"(
mesh{model:2}
%x : bf16[b:4, h:16/model=8] = input x
%mean : f32[b:4] = input mean
%p : f32[b:4] unreduced{model} = reduce(%x, %mean) sum [cast.f32($0); sub($2, $1); square($3)] over [b:4,
    h:16/model=8]
%v : f32[b:4] = all_reduce(%p) sum over{model}
%mul : f32[b:4, h:16/model=8] = map(%v, %x, %mean) [cast.f32($1); sub($3, $2); mul($4, $0)]
%t : f32[b:4, h:16/model=8] = map(%mul) exp
%u : f32[b:4, h:16/model=8] = map(%mul, %t) add
output(%t) t
output(%u) u
)");
}

}  // namespace
}  // namespace mtf::testing
