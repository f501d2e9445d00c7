// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "layouts/layout_rules.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/pass_test.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

// Two tensors in f32 are not kept beside an operand of half their bytes. The
// kernel that makes them reads them as before.
TEST(RecomputeMaps, ANormKeepsItsOperandAndNumbersOfRows) {
  EXPECT_EQ(AfterPass("recompute_maps", R"(
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

// What is made again of what is kept anyway costs no memory.
TEST(RecomputeMaps, WhatOthersReadLateIsKeptAnyway) {
  EXPECT_EQ(AfterPass("recompute_maps", R"(
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

// Kept instead would be as many bytes: nothing is saved, so nothing is computed
// twice.
TEST(RecomputeMaps, OneOfTheSizeOfItsOperandStays) {
  ExpectUnchanged("recompute_maps", R"(
mesh{}
%x : f32[b:8, h:16] = input x
%w : f32[h:16, o:4] = input w
%s : f32[b:8, h:16] = map(%x) neg
%y : f32[b:8, o:4] = einsum(%s, %w) sum{h}
%d : f32[b:8, h:16] = einsum(%y, %w) sum{o}
%g : f32[b:8, h:16] = map(%d, %s) mul
output(%g) g
)");
}

// The weight's gradient reads it from memory, so it is there for the other one.
TEST(RecomputeMaps, WhatAnEinsumReadsLateStays) {
  ExpectUnchanged("recompute_maps", R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%w : f32[h:16, o:4] = input w
%s : f32[b:8, h:16] = map(%x) [cast.f32($0); neg($1)]
%y : f32[b:8, o:4] = einsum(%s, %w) sum{h}
%d : f32[b:8, h:16] = einsum(%y, %w) sum{o}
%g : f32[b:8, h:16] = map(%d, %s) mul
%z : f32[h:16, o:4] = einsum(%s, %y) sum{b}
output(%g) g
output(%z) z
)");
}

// So does whoever reads a view of it.
TEST(RecomputeMaps, WhatAViewKeepsStays) {
  ExpectUnchanged("recompute_maps", R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%w : f32[h:16, o:4] = input w
%s : f32[b:8, h:16] = map(%x) [cast.f32($0); neg($1)]
%v : f32[c:8, h:16] = reshape(%s)
%y : f32[b:8, o:4] = einsum(%s, %w) sum{h}
%d : f32[b:8, h:16] = einsum(%y, %w) sum{o}
%g : f32[b:8, h:16] = map(%d, %s) mul
%z : f32[c:8, o:4] = einsum(%v, %w) sum{h}
output(%g) g
output(%z) z
)");
}

// What a variable is written from lasts as long as the step.
TEST(RecomputeMaps, WhatIsWrittenToAVariableStays) {
  ExpectUnchanged("recompute_maps", R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%w : f32[h:16, o:4] = input w
%s : f32[b:8, h:16] = map(%x) [cast.f32($0); neg($1)]
%s.2 : f32[b:8, h:16] = write_variable(%s) s
%y : f32[b:8, o:4] = einsum(%s, %w) sum{h}
%d : f32[b:8, h:16] = einsum(%y, %w) sum{o}
%g : f32[b:8, h:16] = map(%d, %s) mul
output(%g) g
)");
}

// A kernel would read the operand of four bytes where it read two.
TEST(RecomputeMaps, OneThatIsSmallerThanItsOperandStays) {
  ExpectUnchanged("recompute_maps", R"(
mesh{}
%x : f32[b:8, h:16] = input x
%w : bf16[h:16, o:4] = input w
%s : bf16[b:8, h:16] = map(%x) [cast.bf16($0)]
%y : bf16[b:8, o:4] = einsum(%s, %w) sum{h}
%d : bf16[b:8, h:16] = einsum(%y, %w) sum{o}
%g : bf16[b:8, h:16] = map(%d, %s) mul
output(%g) g
output(%x) x
)");
}

TEST(RecomputeMaps, WhatTakesTimeStays) {
  ExpectUnchanged("recompute_maps", R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%w : f32[h:16, o:4] = input w
%s : f32[b:8, h:16] = map(%x) [cast.f32($0); exp($1)]
%y : f32[b:8, o:4] = einsum(%s, %w) sum{h}
%d : f32[b:8, h:16] = einsum(%y, %w) sum{o}
%g : f32[b:8, h:16] = map(%d, %s) mul
output(%g) g
)");
}

// Two operands of its elements would be kept in place of one.
TEST(RecomputeMaps, OneOfTwoSuchOperandsStays) {
  ExpectUnchanged("recompute_maps", R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%z : bf16[b:8, h:16] = input z
%w : f32[h:16, o:4] = input w
%s : f32[b:8, h:16] = map(%x, %z) [cast.f32($0); cast.f32($1); add($2, $3)]
%y : f32[b:8, o:4] = einsum(%s, %w) sum{h}
%d : f32[b:8, h:16] = einsum(%y, %w) sum{o}
%g : f32[b:8, h:16] = map(%d, %s) mul
output(%g) g
)");
}

// It would be made once for each element of o.
TEST(RecomputeMaps, OneThatIsBroadcastStays) {
  ExpectUnchanged("recompute_maps", R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%w : f32[h:16, o:4] = input w
%s : f32[b:8, h:16] = map(%x) [cast.f32($0)]
%y : f32[b:8, o:4] = einsum(%s, %w) sum{h}
%g : f32[b:8, h:16, o:4] = map(%y, %s) mul
output(%g) g
)");
}

// A sum with the result of an einsum is the matmul's to do, and so are logits
// the business of attention, of what is added as it stands.
TEST(RecomputeMaps, WhatAMatmulOrAttentionTakesStays) {
  for (const char* reader :
       {"%g : f32[b:8, h:16] = map(%d, %s) add\noutput(%g) g",
        "%g : f32[b:8, h:16] = map(%d, %s) [add($0, $1); gelu($2)]\n"
        "output(%g) g",
        "%l : f32[b:8, h:16] = map(%d, %s) [literal.f32(2); mul($0, $2); "
        "add($3, $1)]\n"
        "%m : f32[b:8] = reduce(%l) max\n"
        "%g : f32[b:8, h:16] = map(%l, %m) [sub($0, $1); exp($2)]\n"
        "output(%g) g"}) {
    ExpectUnchanged("recompute_maps", absl::StrCat(R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%w : f32[h:16, o:4] = input w
%s : f32[b:8, h:16] = map(%x) [cast.f32($0); neg($1)]
%y : f32[b:8, o:4] = einsum(%s, %w) sum{h}
%d : f32[b:8, h:16] = einsum(%y, %w) sum{o}
)",
                                                   reader, "\n"));
  }
}

// Behind the reader of %t only %s would be left, which takes less than the two
// that it is made of.
TEST(RecomputeMaps, MoreIsNotKeptForWhatIsReadLast) {
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
  ExpectUnchanged("recompute_maps", two);
  // Both until the end are more than those two.
  EXPECT_THAT(AfterPass("recompute_maps",
                        absl::StrReplaceAll(two, {{"map(%e, %s) mul",
                                                   "map(%e, %s, %t) "
                                                   "[mul($0, $1); sub($3, "
                                                   "$2)]"}})),
              ::testing::Not(::testing::HasSubstr("%t : ")));
}

// Each step would be made again in each reader.
TEST(RecomputeMaps, LongChainsAreMadeOfWhatIsNear) {
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
  const std::string after = AfterPass("recompute_maps", text);
  EXPECT_THAT(after,
              ::testing::HasSubstr("%g : f32[b:8, h:16] = map(%d, %e, "));
  EXPECT_THAT(after, ::testing::HasSubstr("%s, %n) ["));
}

// Where the pass has run there is nothing left for it.
TEST(RecomputeMaps, ASecondRunChangesNothing) {
  for (DType dtype : {kFloat32, kBFloat16}) {
    for (const std::string& preset : LayoutRules::PresetNames()) {
      Graph graph;
      const Transformer model = BuildTransformer(graph, {.dtype = dtype});
      absl::StatusOr<Program> program =
          LowerPreset(graph, preset, preset == "single" ? 1 : 8,
                      {.fetches = {model.loss}, .updates = {model.step}},
                      {.last_pass = "recompute_maps"});
      ASSERT_OK(program) << preset;
      const std::string once = TextOf(*program);
      ASSERT_OK(RunPass("recompute_maps", *program));
      EXPECT_EQ(TextOf(*program), once) << preset;
    }
  }
}

// The kernel that makes it is the one that reads it, where a device fuses.
TEST(RecomputeMaps, WhatIsReadAtOnceStays) {
  ExpectUnchanged("recompute_maps", R"(
mesh{}
%x : bf16[b:8, h:16] = input x
%s : f32[b:8, h:16] = map(%x) [cast.f32($0)]
%r : f32[b:8] = reduce(%s) sum
%g : f32[b:8, h:16] = map(%s, %r) sub
output(%g) g
)");
}

// Of a reduction over ranks all behind it is late: what reads the value then
// makes it again, in the forward pass too.
TEST(RecomputeMaps, ACollectiveMakesLateWhatIsBehindIt) {
  EXPECT_EQ(AfterPass("recompute_maps", R"(
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
