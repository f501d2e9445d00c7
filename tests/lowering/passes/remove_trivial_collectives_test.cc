// SPDX-License-Identifier: Apache-2.0
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

TEST(RemoveTrivialCollectives, SliceThatUndoesAGatherIsRemoved) {
  EXPECT_EQ(AfterPass("remove_trivial_collectives", R"(
mesh{data:2}
%x : f32[b:8, h:16/data] = input x
%full : f32[b:8, h:16] = all_gather(%x) h over{data}
%shard : f32[b:8, h:16/data] = all_slice(%full) h over{data}
%y : f32[b:8, h:16/data] = map(%shard) relu
output(%y) y
)"),
            R"(
mesh{data:2}
%x : f32[b:8, h:16/data] = input x
%y : f32[b:8, h:16/data] = map(%x) relu
output(%y) y
)");
}

TEST(RemoveTrivialCollectives, GatherWithAnotherReaderIsKept) {
  EXPECT_EQ(AfterPass("remove_trivial_collectives", R"(
mesh{data:2}
%x : f32[b:8, h:16/data] = input x
%full : f32[b:8, h:16] = all_gather(%x) h over{data}
%shard : f32[b:8, h:16/data] = all_slice(%full) h over{data}
%y : f32[b:8, h:16/data] = map(%shard) relu
%r : f32[b:8, h:16] = map(%full) relu
output(%y) y
output(%r) r
)"),
            R"(
mesh{data:2}
%x : f32[b:8, h:16/data] = input x
%full : f32[b:8, h:16] = all_gather(%x) h over{data}
%y : f32[b:8, h:16/data] = map(%x) relu
%r : f32[b:8, h:16] = map(%full) relu
output(%y) y
output(%r) r
)");
}

TEST(RemoveTrivialCollectives, SliceOfAnotherDimensionIsKept) {
  ExpectUnchanged("remove_trivial_collectives", R"(
mesh{data:2}
%x : f32[b:8, h:16/data] = input x
%full : f32[b:8, h:16] = all_gather(%x) h over{data}
%shard : f32[b:8/data, h:16] = all_slice(%full) b over{data}
%y : f32[b:8/data, h:16] = map(%shard) relu
output(%y) y
)");
}

// Every device can compute its own shard of these.
TEST(RemoveTrivialCollectives, SourcesAreProducedSharded) {
  EXPECT_EQ(AfterPass("remove_trivial_collectives", R"(
mesh{data:2}
%in : f32[b:8] = input in
%in.shard : f32[b:8/data] = all_slice(%in) b over{data}
%c : f32[b:2] = constant {1, 2}
%c.shard : f32[b:2/data] = all_slice(%c) b over{data}
%n : f32[b:8] = random normal stream 3
%n.shard : f32[b:8/data] = all_slice(%n) b over{data}
%i : f32[b:8] = map [iota.f32(b)]
%i.shard : f32[b:8/data] = all_slice(%i) b over{data}
%s : f32[b:8/data] = map(%in.shard, %n.shard, %i.shard) [add($0, $1); add($3, $2)]
output(%s) s
output(%c.shard) c
)"),
            R"(
mesh{data:2}
%in : f32[b:8/data] = input in
%c : f32[b:2/data] = constant {1, 2}
%n : f32[b:8/data] = random normal stream 3
%i : f32[b:8/data] = map [iota.f32(b)]
%s : f32[b:8/data] = map(%in, %n, %i) [add($0, $1); add($3, $2)]
output(%s) s
output(%c) c
)");
}

TEST(RemoveTrivialCollectives, SourceAlsoReadReplicatedStaysReplicated) {
  ExpectUnchanged("remove_trivial_collectives", R"(
mesh{data:2}
%in : f32[b:8] = input in
%shard : f32[b:8/data] = all_slice(%in) b over{data}
%y : f32[b:8/data] = map(%shard) relu
%z : f32[b:8] = map(%in) relu
output(%y) y
output(%z) z
)");
}

// The first slice costs nothing; the second would take the source from its
// other reader.
TEST(RemoveTrivialCollectives, SourceSlicedTwoWaysKeepsItsFirstSharding) {
  EXPECT_EQ(AfterPass("remove_trivial_collectives", R"(
mesh{data:2, model:2}
%in : f32[b:8] = input in
%once : f32[b:8/data] = all_slice(%in) b over{data}
%y : f32[b:8/data] = map(%once) relu
%twice : f32[b:8/data+model] = all_slice(%once) b over{model}
%z : f32[b:8/data+model] = map(%twice) relu
output(%y) y
output(%z) z
)"),
            R"(
mesh{data:2, model:2}
%in : f32[b:8/data] = input in
%y : f32[b:8/data] = map(%in) relu
%twice : f32[b:8/data+model] = all_slice(%in) b over{model}
%z : f32[b:8/data+model] = map(%twice) relu
output(%y) y
output(%z) z
)");
}

TEST(RemoveTrivialCollectives, SourceSlicedInTwoStepsIsProducedSharded) {
  EXPECT_EQ(AfterPass("remove_trivial_collectives", R"(
mesh{data:2, model:2}
%in : f32[b:8] = input in
%once : f32[b:8/data] = all_slice(%in) b over{data}
%twice : f32[b:8/data+model] = all_slice(%once) b over{model}
%z : f32[b:8/data+model] = map(%twice) relu
output(%z) z
)"),
            R"(
mesh{data:2, model:2}
%in : f32[b:8/data+model] = input in
%z : f32[b:8/data+model] = map(%in) relu
output(%z) z
)");
}

TEST(RemoveTrivialCollectives, UnreadValuesAreRemoved) {
  EXPECT_EQ(AfterPass("remove_trivial_collectives", R"(
mesh{model:2}
%x : f32[b:8, h:16/model] = input x
%y : f32[b:8] unreduced{model} = reduce(%x) sum
%s : f32[b:8] = all_reduce(%y) sum over{model}
%r : f32[b:8] = map(%s) relu
%z : f32[b:8, h:16/model] = map(%x) relu
output(%z) z
)"),
            R"(
mesh{model:2}
%x : f32[b:8, h:16/model] = input x
%z : f32[b:8, h:16/model] = map(%x) relu
output(%z) z
)");
}

TEST(RemoveTrivialCollectives, WritesAndOutputsAreKept) {
  ExpectUnchanged("remove_trivial_collectives", R"(
mesh{model:2}
%w : f32[b:8] = read_variable w
%n : f32[b:8] = map(%w) neg
%w.new : f32[b:8] = write_variable(%n) w
output(%n) n
)");
}

}  // namespace
}  // namespace mtf::testing
