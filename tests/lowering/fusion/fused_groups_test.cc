// SPDX-License-Identifier: Apache-2.0
//
// Fused groups in program text: what the passes write, and what the verifier
// rejects.
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lowering/gpu_fusion.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The groups that the passes write for a device, a line each.
std::string GroupsFor(const FusionCapabilities& device,
                      absl::string_view text) {
  auto program = ParseText(text);
  EXPECT_OK(program);
  if (!program.ok()) return "";
  for (const char* pass : {"plan_einsums", "fuse_epilogues", "fuse_rows",
                           "fuse_bias_gradients", "batch_maps"}) {
    EXPECT_OK(RunPass(pass, *program, device)) << pass;
  }
  const std::string all = TextOf(*program);
  // The text form is the same both ways.
  const auto parsed = ParseText(all);
  EXPECT_OK(parsed) << all;
  EXPECT_EQ(parsed.ok() ? TextOf(*parsed) : "", all);
  const size_t first = all.find("\ngroup ");
  return first == std::string::npos ? "" : all.substr(first);
}

constexpr char kLayer[] = R"(mesh{}
%x : bf16[b:8, i:16] = input x
%w : bf16[i:16, o:32] = input w
%bias : bf16[o:32] = input bias
%r : bf16[b:8, o:32] = input r
%y : bf16[b:8, o:32] = einsum(%x, %w) sum{i}
%h : bf16[b:8, o:32] = map(%y, %bias) add
%g : bf16[b:8, o:32] = map(%h) gelu
%s : bf16[b:8, o:32] = map(%g, %r) add
%m : bf16[b:8] = reduce(%s) max
%e : bf16[b:8, o:32] = map(%s, %m) [sub($0, $1); exp($2)]
%d : bf16[b:8] = reduce(%e) sum
%p : bf16[b:8, o:32] = map(%e, %d) div
output(%p) p
output(%h) h
)";

TEST(FusedGroups, OfALayerAndASoftmax) {
  EXPECT_EQ(GroupsFor(GpuFusion(), kLayer), R"(
group epilogue(%y, %h, %g) bias %bias gelu
group rows(%s, %m, %e, %d, %p)
)");
}

constexpr char kStatistics[] = R"(mesh{}
%x : f32[b:2, r:R, c:32] = input x
%m : f32[c:32] = input m
%d : f32[b:2, r:R, c:32] = map(%x, %m) sub
%s : f32[c:32] = reduce(%d) sum
%q : f32[c:32] = reduce(%d) sum square over [b:2, r:R, c:32]
%y : f32[b:2, r:R, c:32] = map(%x, %s) mul
output(%q) q
output(%y) y
)";

// Sums over many rows are groups of their own where a device has kernels for
// them, without what needs the sums.
TEST(FusedGroups, OfSumsOverRows) {
  const std::string many = absl::StrReplaceAll(kStatistics, {{":R", ":512"}});
  FusionCapabilities device = {.rows = {.members = 8,
                                        .columns = 64,
                                        .row_sums = 2,
                                        .summed_columns = 64,
                                        .only_row_sums = true}};
  EXPECT_EQ(GroupsFor(device, many), "\ngroup rows(%d, %s, %q)\n");
  EXPECT_EQ(
      GroupsFor(device, absl::StrReplaceAll(kStatistics, {{":R", ":511"}})),
      "");
  device.rows.summed_columns = 31;
  EXPECT_EQ(GroupsFor(device, many), "");
  device.rows.summed_columns = 64;
  device.rows.only_row_sums = false;
  EXPECT_EQ(GroupsFor(device, many), "");
}

constexpr char kBackward[] = R"(mesh{}
%x : bf16[b:8, i:16] = input x
%dy : bf16[b:8, o:32] = input dy
%w : bf16[i:16, o:32] = input w
%h : bf16[b:8, i:16] = input h
%db : bf16[o:32] = reduce(%dy) sum
%dx : bf16[b:8, i:16] = einsum(%dy, %w) sum{o}
%dw : bf16[i:16, o:32] = einsum(%x, %dy) sum{b}
%dh : bf16[b:8, i:16] = map(%dx, %h) [gelu_derivative($1); mul($0, $2)]
output(%dh) dh
output(%db) db
output(%dw) dw
)";

TEST(FusedGroups, OfTheGradientsOfALayer) {
  EXPECT_EQ(GroupsFor(GpuFusion(), kBackward), R"(
group bias_gradient(%db, %dw) of %dy
group epilogue(%dx, %dh) gelu_gradient %h
)");
}

constexpr char kUpdate[] = R"(mesh{}
%w : f32[a:100, b:9] = read_variable w
%v : f32[c:7] = read_variable v
%n : f32[a:100, b:9] = read_variable n [optimizer]
%g : f32[a:100, b:9] = input g
%f : f32[c:7] = input f
%n1 : f32[a:100, b:9] = map(%n, %g) add
%n2 : f32[a:100, b:9] = write_variable(%n1) n [optimizer]
%v1 : f32[c:7] = map(%v, %f) sub
%v2 : f32[c:7] = write_variable(%v1) v
%w1 : f32[a:100, b:9] = map(%w, %n1) sub
%w2 : f32[a:100, b:9] = write_variable(%w1) w
)";

TEST(FusedGroups, OfAnUpdateByShapes) {
  EXPECT_EQ(GroupsFor(GpuFusion(), kUpdate), "\ngroup maps(%n1, %w1; %v1)\n");
}

constexpr char kBroadcast[] = R"(mesh{}
%x : f32[a:100, b:9] = input x
%t : f32[b:9, a:100] = input t
%z : f32[b:9] = input z
%y : f32[a:100, b:9] = map(%x, %z) add
%u : f32[a:100, b:9] = map(%y, %t) add
%s : f32[b:9] = map(%z) neg
%r : f32[a:100, b:9] = map(%u, %s) mul
output(%r) r
)";

TEST(FusedGroups, OfMapsInAnyOrderOfElements) {
  EXPECT_EQ(GroupsFor({.maps = {.members = 8}}, kBroadcast), "");
  // %r reads the results of two sections.
  EXPECT_EQ(GroupsFor({.maps = {.members = 8, .any_order = true}}, kBroadcast),
            "\ngroup maps(%y, %u; %s)\n");
}

constexpr char kTable[] = R"(mesh{}
%h : f32[b:8, d:16] = input h
%dy : f32[b:8, v:32] = input dy
%dx : f32[b:8, d:16] = input dx
%i : i32[b:8] = input i
%e : f32[v:32, d:16] = einsum(%h, %dy) sum{b}
%s : f32[v:32, d:16] = scatter_add(%dx, %i) v
%g : f32[v:32, d:16] = map(%e, %s) add
output(%g) g
)";

TEST(FusedGroups, OfTheGradientOfATable) {
  EXPECT_EQ(GroupsFor({.epilogues = {.scatter_addend = true}}, kTable),
            "\ngroup epilogue(%s, %g) add %e\n");
  EXPECT_EQ(GroupsFor(GpuFusion(), kTable), "");
}

// The gradient of a tensor that three einsums read, one through a reshape.
constexpr char kThreeReaders[] = R"(mesh{}
%v : f32[m:8, k:16] = input v
%u : f32[m:8, k:16] = input u
%q : f32[b:8, k:16] = input q
%w : f32[d:32, k:16] = input w
%x : f32[b:8, d:32] = input x
%e0 : f32[m:8, d:32] = einsum(%v, %w) sum{k}
%e1 : f32[m:8, d:32] = einsum(%u, %w) sum{k}
%db : f32[k:16] = reduce(%q) sum
%s : f32[m:8, d:32] = map(%e0, %e1) add
%r : f32[b:8, d:32] = reshape(%s)
%e2 : f32[b:8, d:32] = einsum(%q, %w) sum{k}
%g : f32[b:8, d:32] = map(%e2, %r) add
%h : f32[b:8, d:32] = map(%g, %x) mul
output(%h) h
output(%db) db
)";

TEST(FusedGroups, OfGradientsThatAccumulate) {
  const FusionCapabilities device = {.epilogues = {.accumulates = true}};
  EXPECT_EQ(GroupsFor(device, kThreeReaders),
            "\ngroup epilogue(%e1, %s) accumulate %e0\n"
            "group epilogue(%e2, %g) accumulate %r\n");
  // Tensors that something else reads too are not overwritten.
  EXPECT_EQ(GroupsFor(device, absl::StrCat(kThreeReaders, "output(%e0) e\n")),
            "\ngroup epilogue(%e2, %g) accumulate %r\n");
  EXPECT_EQ(GroupsFor(device, absl::StrCat(kThreeReaders, "output(%s) s\n")),
            "\ngroup epilogue(%e1, %s) accumulate %e0\n");
  // Nor are inputs, and a product by x is not a sum.
  EXPECT_EQ(
      GroupsFor(device, absl::StrReplaceAll(
                            kThreeReaders, {{"map(%e0, %e1)", "map(%e1, %e1)"},
                                            {"map(%e2, %r)", "map(%e2, %x)"}})),
      "");
}

TEST(FusedGroups, AreThoseThatTheDeviceStates) {
  EXPECT_EQ(GroupsFor({}, kLayer), "");
  FusionCapabilities device = GpuFusion();
  device.epilogues = {.bias = true};
  EXPECT_THAT(GroupsFor(device, kLayer),
              HasSubstr("\ngroup epilogue(%y, %h) bias %bias\n"));
  device.epilogues = {.addend = true};
  EXPECT_THAT(GroupsFor(device, kLayer), Not(HasSubstr("epilogue")));
  device = GpuFusion();
  device.rows.members = 3;
  EXPECT_THAT(GroupsFor(device, kLayer),
              HasSubstr("\ngroup rows(%s, %m, %e)\n"));
  device.rows.columns = 31;
  EXPECT_THAT(GroupsFor(device, kLayer), Not(HasSubstr("rows")));
  device.maps.members = 2;
  EXPECT_EQ(GroupsFor(device, kUpdate), "\ngroup maps(%n1; %v1)\n");
}

// Lines of groups that are not those of a program.
struct WrongGroup {
  const char* name;
  const char* groups;
  const char* message;
  friend std::ostream& operator<<(std::ostream& out, const WrongGroup& wrong) {
    return out << wrong.name;
  }
};

const WrongGroup kWrong[] = {
    {"AKind", "group columns(%m, %e)",
     "no kind of group is called \"columns\""},
    {"AMember", "group rows(%m, %unknown)", "no value %unknown"},
    {"OneMember", "group rows(%m)", "a group has at least two members"},
    {"TwoGroups", "group rows(%m, %e)\ngroup rows(%e, %d)",
     "%e is in a group already"},
    {"AnOrder", "group rows(%d, %p)\ngroup rows(%m, %e)",
     "groups are in the order of their first members"},
    {"ReadsLater", "group rows(%s, %d)",
     "%d reads %e, which is computed after the first member and by no member"},
    {"NoReduction", "group rows(%g, %s)", "no member reduces"},
    {"AnEinsumInRows", "group rows(%y, %h)",
     "a group of rows has maps and reductions"},
    {"AnEpilogueOfAMap", "group epilogue(%h, %g) gelu",
     "an epilogue is an einsum or a scatter_add, then maps"},
    {"AnotherBias", "group epilogue(%y, %h) bias %w",
     "the epilogue does not read %w in the order of the elements of the "
     "product"},
    {"AnAccumulatingEinsumWithABias",
     "group epilogue(%y, %h, %g) bias %bias accumulate %r",
     "an einsum that accumulates has no other epilogue"},
    {"ASumOfAnother", "group bias_gradient(%y, %t) of %x",
     "%t does not read %x"},
    {"SectionsOfRows", "group rows(%m; %e)",
     "only groups of maps have sections, not \"rows\""},
    {"AReductionAmongMaps", "group maps(%m, %e)", "%m is not a map"},
    {"ASectionOfTwoShapes", "group maps(%k, %l)",
     "%l has another shape than its section"},
};

class WrongGroups : public ::testing::TestWithParam<WrongGroup> {};

TEST_P(WrongGroups, AreErrors) {
  const auto program = ParseText(absl::StrCat(
      kLayer, "%k : bf16[o:32] = map(%bias) exp\n",
      "%l : bf16[b:8, o:32] = map(%r) exp\n",
      "%t : bf16[b:8] = reduce(%r) sum\n", GetParam().groups, "\n"));
  EXPECT_THAT(program, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(Texts, WrongGroups, ::testing::ValuesIn(kWrong),
                         [](const auto& info) { return info.param.name; });

TEST(FusedGroups, FollowTheInstructions) {
  EXPECT_THAT(ParseText("mesh{}\n%a : f32[b:8] = input a\n"
                        "%c : f32[b:8] = map(%a) exp\n"
                        "%d : f32[b:8] = map(%c) exp\n"
                        "group maps(%c, %d)\noutput(%d) d\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("line 6, column 1: an instruction follows a "
                                 "group")));
}

// A value inside a group has no memory, and only there.
TEST(FusedGroups, OnlyValuesInsideHaveNoMemory) {
  constexpr absl::string_view kPlanned = R"(mesh{}
buffers{arena:576, commit:5}
%x : f32[b:8, c:16] @0 = input x
%e : f32[b:8, c:16] = map(%x) exp
%s : f32[b:8] @512 = reduce(%e) sum
%p : f32[b:8, c:16] @0 = map(%x, %s) div
output(%p) p
)";
  EXPECT_OK(ParseText(absl::StrCat(kPlanned, "group rows(%e, %s)\n")));
  EXPECT_OK(ParseText(absl::StrCat(kPlanned, "group rows(%e, %s, %p)\n")));
  EXPECT_THAT(ParseText(kPlanned), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("%e has no buffer")));
  EXPECT_THAT(ParseText(absl::StrCat(kPlanned, "group rows(%s, %p)\n")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("%e has no buffer")));
}

}  // namespace
}  // namespace mtf::testing
