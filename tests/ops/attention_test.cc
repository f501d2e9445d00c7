// SPDX-License-Identifier: Apache-2.0
//
// Attention in the oracle against its composition from other operations, and
// gradients against finite differences.
#include "ops/attention.h"

#include <limits>
#include <random>

#include "ops/composed_attention.h"
#include "ops/random.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace ::mtf::testing;  // NOLINT

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const Dimension batch{"batch", 2}, groups{"groups", 2}, heads{"heads", 2},
    length{"length", 5}, memory{"memory", 4}, d_kv{"d_kv", 3}, d_v{"d_v", 2};

AttentionSpec Spec() {
  return {.length = "length",
          .memory_length = "memory",
          .d_kv = "d_kv",
          .d_v = "d_v",
          .scale = 0.7};
}

// A variant of attention: its spec and the dimensions of its operands. Optional
// operands without dimensions are scalars if given.
struct Variant {
  std::string name;
  AttentionSpec spec = Spec();
  Shape q = {batch, length, heads, d_kv}, k = {batch, memory, heads, d_kv},
        v = {batch, memory, heads, d_v};
  bool mask = false, bias = false, offset = false, extra_logit = false;
  Shape mask_shape = {}, bias_shape = {}, offset_shape = {}, extra_shape = {};
};

void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.name;
}

std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  const auto add = [&](const std::string& name) -> Variant& {
    variants.emplace_back();
    variants.back().name = name;
    return variants.back();
  };
  add("plain");
  add("causal").spec.causal = true;
  Variant& window = add("window");
  window.spec.causal = true;
  window.spec.window = 2;
  add("window_without_causality").spec.window = 2;
  add("soft_cap").spec.soft_cap = 1.5;
  add("dropout").spec.dropout = 0.4;
  Variant& grouped = add("grouped_queries");
  grouped.q = {batch, heads, groups, length, d_kv};
  grouped.v = {memory, heads, d_v};
  Variant& masked = add("mask_and_bias");
  masked.mask = masked.bias = true;
  masked.mask_shape = {batch, length, memory};
  masked.bias_shape = {length, heads, memory};
  Variant& row_bias = add("bias_of_keys");
  row_bias.bias = true;
  row_bias.bias_shape = {memory};
  Variant& scalar_bias = add("scalar_bias");
  scalar_bias.bias = true;
  Variant& offset = add("offset_of_each_row");
  offset.spec.causal = true;
  offset.offset = true;
  offset.offset_shape = {batch};
  Variant& extra = add("extra_logit");
  extra.extra_logit = true;
  extra.extra_shape = {heads};
  Variant& everything = add("everything");
  everything.spec.causal = true;
  everything.spec.window = 3;
  everything.spec.soft_cap = 2;
  everything.spec.dropout = 0.2;
  everything.mask = everything.bias = everything.offset = true;
  everything.extra_logit = true;
  everything.mask_shape = {memory, batch};
  everything.bias_shape = {heads, memory, length};
  everything.extra_shape = {batch, length, heads};
  return variants;
}

// The operands of a variant. The floats, in the order q, k, v, bias and extra
// logit, are taken from `floats`.
AttentionOperands<Tensor> OperandsOf(Graph& graph, const Variant& variant,
                                     const std::vector<Tensor>& floats) {
  AttentionOperands<Tensor> operands = {floats[0], floats[1], floats[2]};
  size_t next = 3;
  if (variant.bias) operands.bias = floats[next++];
  if (variant.extra_logit) operands.extra_logit = floats[next++];
  if (variant.mask) {
    OracleTensor mask = Numbers(variant.mask_shape, 9, -1, 2);
    for (double& x : mask.data) x = x > 0;
    mask.dtype = kBool;
    operands.mask = ConstantOf(graph, mask);
  }
  if (variant.offset) {
    OracleTensor offset = Numbers(variant.offset_shape, 3, -2, 3);
    for (double& x : offset.data) x = std::floor(x);
    offset.dtype = kInt32;
    operands.offset = ConstantOf(graph, offset);
  }
  return operands;
}

std::vector<OracleTensor> PointsOf(const Variant& variant) {
  std::vector<OracleTensor> points = {
      Numbers(variant.q, 1), Numbers(variant.k, 2), Numbers(variant.v, 4)};
  if (variant.bias) points.push_back(Numbers(variant.bias_shape, 5));
  if (variant.extra_logit) points.push_back(Numbers(variant.extra_shape, 6));
  return points;
}

class AttentionVariant : public ::testing::TestWithParam<Variant> {};

TEST_P(AttentionVariant, IsTheCompositionOfOtherOperations) {
  const Variant& variant = GetParam();
  Graph graph;
  std::vector<Tensor> floats;
  for (const OracleTensor& point : PointsOf(variant)) {
    floats.push_back(ConstantOf(graph, point));
  }
  const AttentionOperands<Tensor> operands = OperandsOf(graph, variant, floats);
  const AttentionResults<Tensor> y = Attention(operands, variant.spec);
  ASSERT_OK(graph.status());
  // The first random stream of a graph is that of the dropout.
  AttentionSpec spec = variant.spec;
  spec.stream = Graph().NextRandomStream();
  const AttentionResults<Tensor> composed = internal::ComposedAttention(
      spec, operands, y.output.shape(), std::source_location::current());
  ASSERT_OK(graph.status());
  for (const auto& [got, want] : {std::pair(y.output, composed.output),
                                  std::pair(y.logsumexp, composed.logsumexp)}) {
    EXPECT_EQ(got.shape(), want.shape());
    const OracleTensor expected = Fetch(want);
    size_t i = 0;
    ExpectElements(
        Fetch(got), [&](const ElementIndex&) { return expected.data[i++]; },
        1e-6);
  }
}

TEST_P(AttentionVariant, HasGradientsOfBothResults) {
  const Variant& variant = GetParam();
  ExpectGradients(PointsOf(variant), [&](Graph& graph, const auto& xs) {
    return Attention(OperandsOf(graph, variant, xs), variant.spec).output;
  });
  // Rows without a key have no finite logsumexp.
  if (variant.mask || variant.offset) return;
  ExpectGradients(PointsOf(variant), [&](Graph& graph, const auto& xs) {
    const AttentionResults<Tensor> y =
        Attention(OperandsOf(graph, variant, xs), variant.spec);
    return ReduceSum(y.output, {length}) + ReduceSum(y.logsumexp, {length});
  });
}

TEST_P(AttentionVariant, HasSecondGradients) {
  const Variant& variant = GetParam();
  if (variant.name == "everything") return;  // a minute; the parts are tested
  ExpectSecondGradients(PointsOf(variant), [&](Graph& graph, const auto& xs) {
    return Attention(OperandsOf(graph, variant, xs), variant.spec).output;
  });
}

INSTANTIATE_TEST_SUITE_P(All, AttentionVariant, ::testing::ValuesIn(Variants()),
                         [](const auto& info) { return info.param.name; });

TEST(Attention, AQueryWithoutKeysHasOutputZero) {
  Graph graph;
  const Tensor q = ConstantOf(graph, Numbers({length, d_kv}, 1)),
               k = ConstantOf(graph, Numbers({memory, d_kv}, 2)),
               v = ConstantOf(graph, Numbers({memory, d_v}, 3));
  const Tensor offset = Constant(graph, {-2}, kInt32, {});
  AttentionSpec spec = Spec();
  spec.causal = true;
  const AttentionResults<Tensor> y =
      Attention({.q = q, .k = k, .v = v, .offset = offset}, spec);
  const OracleTensor output = Fetch(y.output);
  EXPECT_THAT(std::vector<double>(output.data.begin(), output.data.begin() + 4),
              ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(Fetch(y.logsumexp).data[1], -kInfinity);
  EXPECT_NE(output.data[4], 0);
}

TEST(Attention, ResultsAreNamedAfterTheOperation) {
  Graph graph;
  const Tensor q = Zeros(graph, kBFloat16, {length, d_kv}),
               k = Zeros(graph, kBFloat16, {memory, d_kv}),
               v = Zeros(graph, kBFloat16, {memory, d_v});
  const AttentionResults<Tensor> y =
      Attention({.q = q, .k = k, .v = v}, Spec());
  EXPECT_EQ(y.output.name(), "attention");
  EXPECT_EQ(y.output.dtype(), kBFloat16);
  EXPECT_EQ(y.output.shape(), Shape({length, d_v}));
  EXPECT_EQ(y.logsumexp.name(), "attention.logsumexp");
  EXPECT_EQ(y.logsumexp.dtype(), kFloat32);
  EXPECT_EQ(y.logsumexp.shape(), Shape({length}));
  EXPECT_FALSE(SameTensor(y.output, y.logsumexp));
}

TEST(AttentionErrors, NameTheOperandAndTheDimension) {
  const auto wrong = [](const Shape& q, const Shape& k, const Shape& v,
                        std::vector<std::string> words) {
    ExpectError(
        [&](Graph& graph) {
          Attention({.q = Zeros(graph, kFloat32, q),
                     .k = Zeros(graph, kFloat32, k),
                     .v = Zeros(graph, kFloat32, v)},
                    Spec());
        },
        words);
  };
  wrong({d_kv}, {memory, d_kv}, {memory, d_v}, {"no dimension \"length\""});
  wrong({length, memory, d_kv}, {memory, d_kv}, {memory, d_v},
        {"dimension \"memory\" of the memory is also in"});
  wrong({length, d_kv}, {memory, heads, d_kv}, {memory, d_v},
        {"no dimension \"heads\""});
  wrong({length, d_kv}, {memory, {"d_kv", 4}}, {memory, d_v},
        {"\"d_kv\"", "3", "4"});
  wrong({length, d_kv}, {memory, d_kv, d_v}, {memory, d_v},
        {"the keys", "have the dimension \"d_v\" of the values"});
  wrong({length, d_kv}, {memory, d_kv}, {memory, d_kv, d_v},
        {"the values", "have the dimension \"d_kv\" of the keys"});
}

TEST(AttentionErrors, CheckOptionalOperandsAndNumbers) {
  const auto wrong =
      [](const std::function<void(Graph&, AttentionOperands<Tensor>&,
                                  AttentionSpec&)>& change,
         std::vector<std::string> words) {
        ExpectError(
            [&](Graph& graph) {
              AttentionOperands<Tensor> operands = {
                  .q = Zeros(graph, kFloat32, {length, d_kv}),
                  .k = Zeros(graph, kFloat32, {memory, d_kv}),
                  .v = Zeros(graph, kFloat32, {memory, d_v})};
              AttentionSpec spec = Spec();
              change(graph, operands, spec);
              Attention(operands, spec);
            },
            words);
      };
  wrong([](Graph& g, auto& o, auto&) { o.mask = Zeros(g, kInt32, {memory}); },
        {"the mask is i32, not bool"});
  wrong([](Graph& g, auto& o, auto&) { o.bias = Zeros(g, kInt32, {memory}); },
        {"the bias is i32, not a float"});
  wrong([](Graph& g, auto& o, auto&) { o.bias = Zeros(g, kFloat32, {heads}); },
        {"dimension \"heads\" (2) of the bias", "[length=5, memory=4]"});
  wrong([](Graph& g, auto& o, auto&) { o.offset = Zeros(g, kInt64, {}); },
        {"the offset is i64, not i32"});
  wrong([](Graph& g, auto& o, auto&) { o.offset = Zeros(g, kInt32, {length}); },
        {"dimension \"length\" (5) of the offset"});
  wrong([](Graph& g, auto& o,
           auto&) { o.extra_logit = Zeros(g, kFloat32, {memory}); },
        {"dimension \"memory\" (4) of the extra logit"});
  wrong([](Graph&, auto&, auto& spec) { spec.scale = kInfinity; },
        {"the scale inf is not finite"});
  wrong([](Graph&, auto&, auto& spec) { spec.window = -1; },
        {"the window -1 is negative"});
  wrong([](Graph&, auto&, auto& spec) { spec.dropout = 1; },
        {"the rate 1 is not in [0, 1)"});
  wrong([](Graph&, auto&, auto& spec) { spec.soft_cap = -1; }, {"soft_cap"});
}

TEST(Attention, EmptyOperandsGiveEmptyResults) {
  EXPECT_FALSE(Attention({}, Spec()).output.valid());
}

}  // namespace
}  // namespace mtf
