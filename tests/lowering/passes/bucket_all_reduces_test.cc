// SPDX-License-Identifier: Apache-2.0
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

TEST(BucketAllReduces, GradientsReadLateShareOneCall) {
  EXPECT_EQ(AfterPass("bucket_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8/data, i:4] = input x
%d : f32[b:8/data, o:4] = input d
%w : f32[i:4, o:4] = read_variable w
%v : f32[o:4] = read_variable v
%dw : f32[i:4, o:4] unreduced{data} = einsum(%x, %d) sum{b}
%dw.sum : f32[i:4, o:4] = all_reduce(%dw) sum over{data}
%dv : f32[o:4] unreduced{data} = reduce(%d) sum
%dv.sum : f32[o:4] = all_reduce(%dv) sum over{data}
%w1 : f32[i:4, o:4] = map(%w, %dw.sum) sub
%v1 : f32[o:4] = map(%v, %dv.sum) sub
%w.new : f32[i:4, o:4] = write_variable(%w1) w
%v.new : f32[o:4] = write_variable(%v1) v
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8/data, i:4] = input x
%d : f32[b:8/data, o:4] = input d
%w : f32[i:4, o:4] = read_variable w
%v : f32[o:4] = read_variable v
%dw : f32[i:4, o:4] unreduced{data} = einsum(%x, %d) sum{b}
%dv : f32[o:4] unreduced{data} = reduce(%d) sum
%dw.sum : f32[i:4, o:4], %dv.sum : f32[o:4] = all_reduce(%dw, %dv) sum over{data}
%w1 : f32[i:4, o:4] = map(%w, %dw.sum) sub
%v1 : f32[o:4] = map(%v, %dv.sum) sub
%w.new : f32[i:4, o:4] = write_variable(%w1) w
%v.new : f32[o:4] = write_variable(%v1) v
)");
}

// The second reduction comes late in the program, but its operand does not.
TEST(BucketAllReduces, ReductionEntersABucketAfterItsOperand) {
  EXPECT_EQ(AfterPass("bucket_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8/data, i:4] = input x
%d : f32[b:8/data, o:4] = input d
%w : f32[i:4, o:4] = read_variable w
%v : f32[o:4] = read_variable v
%dw : f32[i:4, o:4] unreduced{data} = einsum(%x, %d) sum{b}
%dv : f32[o:4] unreduced{data} = reduce(%d) sum
%dw.sum : f32[i:4, o:4] = all_reduce(%dw) sum over{data}
%w1 : f32[i:4, o:4] = map(%w, %dw.sum) sub
%w.new : f32[i:4, o:4] = write_variable(%w1) w
%dv.sum : f32[o:4] = all_reduce(%dv) sum over{data}
%v1 : f32[o:4] = map(%v, %dv.sum) sub
%v.new : f32[o:4] = write_variable(%v1) v
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8/data, i:4] = input x
%d : f32[b:8/data, o:4] = input d
%w : f32[i:4, o:4] = read_variable w
%v : f32[o:4] = read_variable v
%dw : f32[i:4, o:4] unreduced{data} = einsum(%x, %d) sum{b}
%dv : f32[o:4] unreduced{data} = reduce(%d) sum
%dw.sum : f32[i:4, o:4], %dv.sum : f32[o:4] = all_reduce(%dw, %dv) sum over{data}
%w1 : f32[i:4, o:4] = map(%w, %dw.sum) sub
%w.new : f32[i:4, o:4] = write_variable(%w1) w
%v1 : f32[o:4] = map(%v, %dv.sum) sub
%v.new : f32[o:4] = write_variable(%v1) v
)");
}

TEST(BucketAllReduces, ReductionReadImmediatelyStaysAlone) {
  ExpectUnchanged("bucket_all_reduces", R"(
mesh{model:2}
%x : f32[b:8, h:16/model] = input x
%y : f32[b:8] unreduced{model} = reduce(%x) sum
%y.sum : f32[b:8] = all_reduce(%y) sum over{model}
%r : f32[b:8, h:16/model] = map(%x, %y.sum) sub
%z : f32[b:8] unreduced{model} = reduce(%r) sum
%z.sum : f32[b:8] = all_reduce(%z) sum over{model}
output(%z.sum) z
)");
}

TEST(BucketAllReduces, DifferentAxesKindsAndDTypesStaySeparate) {
  EXPECT_EQ(AfterPass("bucket_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model] = input x
%k : i32[b:8/data, h:16/model] = input k
%a : f32[h:16/model] unreduced{data} = reduce(%x) sum
%a.sum : f32[h:16/model] = all_reduce(%a) sum over{data}
%b : f32[b:8/data] unreduced{model} = reduce(%x) sum
%b.sum : f32[b:8/data] = all_reduce(%b) sum over{model}
%c : f32[h:16/model] unreduced{data} max = reduce(%x) max
%c.max : f32[h:16/model] = all_reduce(%c) max over{data}
%d : i32[h:16/model] unreduced{data} = reduce(%k) sum
%d.sum : i32[h:16/model] = all_reduce(%d) sum over{data}
%e : f32[h:16/model] unreduced{data} = reduce(%x) sum
%e.sum : f32[h:16/model] = all_reduce(%e) sum over{data}
output(%a.sum) a
output(%b.sum) b
output(%c.max) c
output(%d.sum) d
output(%e.sum) e
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model] = input x
%k : i32[b:8/data, h:16/model] = input k
%a : f32[h:16/model] unreduced{data} = reduce(%x) sum
%b : f32[b:8/data] unreduced{model} = reduce(%x) sum
%c : f32[h:16/model] unreduced{data} max = reduce(%x) max
%d : i32[h:16/model] unreduced{data} = reduce(%k) sum
%e : f32[h:16/model] unreduced{data} = reduce(%x) sum
%a.sum : f32[h:16/model], %e.sum : f32[h:16/model] = all_reduce(%a, %e) sum over{data}
output(%a.sum) a
%b.sum : f32[b:8/data] = all_reduce(%b) sum over{model}
output(%b.sum) b
%c.max : f32[h:16/model] = all_reduce(%c) max over{data}
output(%c.max) c
%d.sum : i32[h:16/model] = all_reduce(%d) sum over{data}
output(%d.sum) d
output(%e.sum) e
)");
}

TEST(BucketAllReduces, BucketIsIssuedBeforeItsFirstReader) {
  EXPECT_EQ(AfterPass("bucket_all_reduces", R"(
mesh{data:2}
%x : f32[b:8/data, h:16] = input x
%a : f32[h:16] unreduced{data} = reduce(%x) sum
%a.sum : f32[h:16] = all_reduce(%a) sum over{data}
%b : f32[] unreduced{data} = reduce(%x) sum
%b.sum : f32[] = all_reduce(%b) sum over{data}
%y : f32[b:8/data, h:16] = map(%x, %a.sum) sub
%c : f32[h:16] unreduced{data} = reduce(%y) sum
%c.sum : f32[h:16] = all_reduce(%c) sum over{data}
output(%b.sum) b
output(%c.sum) c
)"),
            R"(
mesh{data:2}
%x : f32[b:8/data, h:16] = input x
%a : f32[h:16] unreduced{data} = reduce(%x) sum
%b : f32[] unreduced{data} = reduce(%x) sum
%a.sum : f32[h:16], %b.sum : f32[] = all_reduce(%a, %b) sum over{data}
%y : f32[b:8/data, h:16] = map(%x, %a.sum) sub
%c : f32[h:16] unreduced{data} = reduce(%y) sum
output(%b.sum) b
%c.sum : f32[h:16] = all_reduce(%c) sum over{data}
output(%c.sum) c
)");
}

TEST(BucketAllReduces, ReductionsOfReductionsShareACall) {
  EXPECT_EQ(AfterPass("bucket_all_reduces", R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model] = input x
%a : f32[] unreduced{data, model} = reduce(%x) sum
%b : f32[] unreduced{data, model} = reduce(%x) sum
%a.data : f32[] unreduced{model} = all_reduce(%a) sum over{data}
%a.sum : f32[] = all_reduce(%a.data) sum over{model}
%b.data : f32[] unreduced{model} = all_reduce(%b) sum over{data}
%b.sum : f32[] = all_reduce(%b.data) sum over{model}
%s : f32[] = map(%a.sum, %b.sum) add
output(%s) s
)"),
            R"(
mesh{data:2, model:2}
%x : f32[b:8/data, h:16/model] = input x
%a : f32[] unreduced{data, model} = reduce(%x) sum
%b : f32[] unreduced{data, model} = reduce(%x) sum
%a.data : f32[] unreduced{model}, %b.data : f32[] unreduced{model} = all_reduce(%a, %b) sum over{data}
%a.sum : f32[], %b.sum : f32[] = all_reduce(%a.data, %b.data) sum over{model}
%s : f32[] = map(%a.sum, %b.sum) add
output(%s) s
)");
}

// 16777216 f32 are 64 MiB: the call is issued when the second reduction fills
// the bucket, not when the first result is read; later reductions open another
// bucket.
TEST(BucketAllReduces, FullBucketIsIssuedImmediately) {
  EXPECT_EQ(AfterPass("bucket_all_reduces", R"(
mesh{data:2}
%x : f32[b:2/data, h:16777216] = input x
%y : f32[b:2/data] = input y
%a : f32[] unreduced{data} = reduce(%y) sum
%a.sum : f32[] = all_reduce(%a) sum over{data}
%b : f32[h:16777216] unreduced{data} = reduce(%x) sum
%b.sum : f32[h:16777216] = all_reduce(%b) sum over{data}
%z : f32[b:2/data] = map(%y) relu
%c : f32[] unreduced{data} = reduce(%z) sum
%c.sum : f32[] = all_reduce(%c) sum over{data}
output(%a.sum) a
output(%b.sum) b
output(%c.sum) c
)"),
            R"(
mesh{data:2}
%x : f32[b:2/data, h:16777216] = input x
%y : f32[b:2/data] = input y
%a : f32[] unreduced{data} = reduce(%y) sum
%b : f32[h:16777216] unreduced{data} = reduce(%x) sum
%a.sum : f32[], %b.sum : f32[h:16777216] = all_reduce(%a, %b) sum over{data}
%z : f32[b:2/data] = map(%y) relu
%c : f32[] unreduced{data} = reduce(%z) sum
output(%a.sum) a
output(%b.sum) b
%c.sum : f32[] = all_reduce(%c) sum over{data}
output(%c.sum) c
)");
}

// With 64 ranks each message is a 64th of the bucket, so the bucket holds 128
// MiB.
TEST(BucketAllReduces, ManyRanksHaveLargerBuckets) {
  EXPECT_EQ(AfterPass("bucket_all_reduces", R"(
mesh{data:64}
%x : f32[b:64/data, h:16777216] = input x
%a : f32[h:16777216] unreduced{data} = reduce(%x) sum
%a.sum : f32[h:16777216] = all_reduce(%a) sum over{data}
%z : f32[b:64/data, h:16777216] = map(%x) relu
%b : f32[h:16777216] unreduced{data} = reduce(%z) sum
%b.sum : f32[h:16777216] = all_reduce(%b) sum over{data}
%v : f32[b:64/data, h:16777216] = map(%z) relu
output(%a.sum) a
output(%b.sum) b
)"),
            R"(
mesh{data:64}
%x : f32[b:64/data, h:16777216] = input x
%a : f32[h:16777216] unreduced{data} = reduce(%x) sum
%z : f32[b:64/data, h:16777216] = map(%x) relu
%b : f32[h:16777216] unreduced{data} = reduce(%z) sum
%a.sum : f32[h:16777216], %b.sum : f32[h:16777216] = all_reduce(%a, %b) sum over{data}
%v : f32[b:64/data, h:16777216] = map(%z) relu
output(%a.sum) a
output(%b.sum) b
)");
}

TEST(BucketAllReduces, ReduceScattersShareACall) {
  EXPECT_EQ(AfterPass("bucket_all_reduces", R"(
mesh{data:2}
%x : f32[b:8/data, h:16] = input x
%y : f32[b:8/data, h:16, k:4] = input y
%a : f32[h:16] unreduced{data} = reduce(%x) sum
%a.shard : f32[h:16/data] = reduce_scatter(%a) sum h over{data}
%b : f32[h:16, k:4] unreduced{data} = reduce(%y) sum
%b.shard : f32[h:16, k:4/data] = reduce_scatter(%b) sum k over{data}
%c : f32[] unreduced{data} = reduce(%x) sum
%c.sum : f32[] = all_reduce(%c) sum over{data}
output(%a.shard) a
output(%b.shard) b
output(%c.sum) c
)"),
            R"(
mesh{data:2}
%x : f32[b:8/data, h:16] = input x
%y : f32[b:8/data, h:16, k:4] = input y
%a : f32[h:16] unreduced{data} = reduce(%x) sum
%b : f32[h:16, k:4] unreduced{data} = reduce(%y) sum
%c : f32[] unreduced{data} = reduce(%x) sum
%a.shard : f32[h:16/data], %b.shard : f32[h:16, k:4/data] = reduce_scatter(%a, %b) sum h, k over{data}
output(%a.shard) a
output(%b.shard) b
%c.sum : f32[] = all_reduce(%c) sum over{data}
output(%c.sum) c
)");
}

TEST(BucketAllReduces, CombinedCallsAreUnchanged) {
  ExpectUnchanged("bucket_all_reduces", R"(
mesh{data:2}
%x : f32[b:8/data, h:16] = input x
%a : f32[h:16] unreduced{data} = reduce(%x) sum
%b : f32[] unreduced{data} = reduce(%x) sum
%a.sum : f32[h:16], %b.sum : f32[] = all_reduce(%a, %b) sum over{data}
output(%a.sum) a
output(%b.sum) b
)");
}

}  // namespace
}  // namespace mtf::testing
