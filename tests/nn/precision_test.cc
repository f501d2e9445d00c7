// SPDX-License-Identifier: Apache-2.0
//
// The effect of a precision on layers and optimizers.
#include "mtf/precision.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "mtf/host_tensor.h"
#include "mtf/precision_text.h"
#include "nn/attention/attention.h"
#include "nn/layers/dense.h"
#include "nn/layers/embedding.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer_norm.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adafactor.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/sgd.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 2}, kLength{"length", 6}, kModel{"d_model", 8},
    kHeads{"heads", 2}, kKey{"d_kv", 4}, kHidden{"d_ff", 16},
    kVocab{"vocab", 5};

// A language model of all layers, in the precision of its graph.
Tensor LossOf(OracleGraph& o) {
  const Tensor tokens = o.Integers("tokens", {kBatch, kLength},
                                   {0, 3, 1, 4, 2, 0, 1, 4, 2, 0, 3, 1});
  const Tensor targets = o.Integers("targets", {kBatch, kLength},
                                    {3, 1, 4, 2, 0, 3, 4, 2, 0, 3, 1, 4});
  const Tensor table = nn::EmbeddingTable(o.graph, kVocab, kModel);
  Tensor x = nn::Embedding(tokens, kVocab, kModel, {.table = table});
  x = nn::PositionEmbedding(x, kLength, kModel);
  x = x + nn::SelfAttention(nn::LayerNorm(x, kModel), {.length = kLength,
                                                       .heads = kHeads,
                                                       .d_kv = kKey,
                                                       .causal = true,
                                                       .bias = true});
  x = x +
      nn::FeedForward(nn::RmsNorm(x, kModel), kHidden, Gelu, {.bias = true});
  return nn::CrossEntropy(x, kVocab, targets, {.kernel = table});
}

struct Built {
  OracleGraph o;
  Tensor loss, step;
};

void Build(Built& built, const std::string& precision) {
  const PrecisionScope scope(built.o.graph, *ParsePrecision(precision));
  built.loss = LossOf(built.o);
  built.step = nn::AdamW({.learning_rate = 0.03, .max_gradient_norm = 1.0})
                   .Minimize(built.loss);
  ASSERT_OK(built.o.graph.status());
  ASSERT_OK(InitializeVariables(built.o.graph, 1, &built.o.variables));
}

class PrecisionTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PrecisionTest, AppliesToEveryParameterProductAndState) {
  const Precision precision = *ParsePrecision(GetParam());
  Built built;
  Build(built, GetParam());
  int masters = 0, parameters = 0;
  for (const VariableInfo& info : built.o.graph.variables()) {
    if (info.kind == VariableKind::kParameter) {
      EXPECT_EQ(info.dtype, precision.parameters) << info.name;
      EXPECT_EQ(info.gradient_dtype, precision.gradients) << info.name;
      ++parameters;
    } else if (info.master_of >= 0) {
      const VariableInfo& of = built.o.graph.variables()[info.master_of];
      EXPECT_EQ(info.name, absl::StrCat("adamw/", of.name, "/master"));
      EXPECT_EQ(info.dtype, precision.master) << info.name;
      ++masters;
    } else {
      EXPECT_NE(info.dtype, kBFloat16) << info.name;
      EXPECT_NE(info.dtype, kFloat16) << info.name;
    }
  }
  EXPECT_EQ(masters, precision.master == precision.parameters ? 0 : parameters);
  EXPECT_EQ(built.loss.dtype(), kFloat32);
  const DType activations = precision.activations.value_or(kFloat32);
  for (const auto& operation : built.o.graph.operations()) {
    const absl::string_view kind = operation->kind();
    // Products of activations, and gradients of parameters.
    if (kind == "einsum" && operation->dtype() != activations) {
      EXPECT_EQ(operation->dtype(), precision.gradients) << operation->name();
      EXPECT_EQ(operation->input(0).dtype(), activations) << operation->name();
    }
    // Of norms, softmax, loss and optimizer.
    if (kind == "exp" || kind == "log" || kind == "rsqrt" || kind == "sqrt") {
      EXPECT_EQ(operation->dtype(), kFloat32) << operation->name();
    }
  }
}

TEST_P(PrecisionTest, ParametersAreRoundedF32Draws) {
  const Precision precision = *ParsePrecision(GetParam());
  Built built, plain;
  Build(built, GetParam());
  Build(plain, "float32");
  for (const VariableInfo& info : built.o.graph.variables()) {
    const bool master = info.master_of >= 0;
    if (info.kind != VariableKind::kParameter && !master) continue;
    const std::string& name =
        master ? built.o.graph.variables()[info.master_of].name : info.name;
    const std::vector<double>& draws = plain.o.Value(name);
    const std::vector<double>& values = built.o.Value(info.name);
    ASSERT_EQ(values.size(), draws.size()) << info.name;
    for (size_t i = 0; i < draws.size(); ++i) {
      // The oracle computes in doubles, so a master equals an f32 parameter.
      const double held = master && precision.master == kFloat32
                              ? draws[i]
                              : RoundToDType(draws[i], info.dtype);
      EXPECT_EQ(values[i], precision.parameters == kFloat32 ? draws[i] : held)
          << info.name;
    }
  }
}

TEST_P(PrecisionTest, LearnsWithParametersThatAreRoundedMasters) {
  Built built;
  Build(built, GetParam());
  const double first = built.o.Run(built.loss)[0];
  EXPECT_GT(first, 1);
  for (int i = 0; i < 30; ++i) built.o.Run(built.step);
  const double last = built.o.Run(built.loss)[0];
  EXPECT_LT(last, first / 5) << first << " -> " << last;
  bool any = false, differs = false;
  for (const VariableInfo& info : built.o.graph.variables()) {
    if (info.master_of < 0) continue;
    any = true;
    const VariableInfo& of = built.o.graph.variables()[info.master_of];
    const std::vector<double>&master = built.o.Value(info.name),
          &value = built.o.Value(of.name);
    for (size_t i = 0; i < master.size(); ++i) {
      EXPECT_EQ(value[i], RoundToDType(master[i], of.dtype)) << of.name;
      differs = differs || value[i] != master[i];
    }
  }
  EXPECT_EQ(any, differs) << "a master that rounding loses nothing of is none";
}

INSTANTIATE_TEST_SUITE_P(All, PrecisionTest,
                         ::testing::ValuesIn(PrecisionNames()),
                         [](const auto& info) { return info.param; });

// A precision with empty fields does not change the dtypes that the user chose.
TEST(PrecisionOfLayers, DefaultsToTheInputDType) {
  Graph graph;
  const Tensor x = Zeros(graph, kFloat16, {kBatch, kModel});
  EXPECT_EQ(nn::Dense(x, {kModel}, {kHidden}).dtype(), kFloat16);
  EXPECT_EQ(nn::LayerNorm(x, kModel).dtype(), kFloat16);
  const PrecisionScope scope(graph, {.activations = kBFloat16});
  EXPECT_EQ(nn::Dense(x, {kModel}, {kHidden}).dtype(), kBFloat16);
  EXPECT_EQ(nn::LayerNorm(x, kModel).dtype(), kBFloat16);
  EXPECT_EQ(nn::RmsNorm(x, kModel).dtype(), kBFloat16);
  EXPECT_EQ(nn::PositionEmbedding(x, kBatch, kModel).dtype(), kBFloat16);
  EXPECT_OK(graph.status());
}

TEST(MasterCopies, AreSharedByOptimizers) {
  OracleGraph o;
  const PrecisionScope scope(o.graph, {.parameters = kBFloat16});
  const Tensor x = Ones(o.graph, kFloat32, {kModel});
  const Tensor loss = ReduceMean(Square(nn::Dense(x, {kModel}, {kHidden})), {});
  const Tensor sgd = nn::Sgd({.learning_rate = 1e-3}).Minimize(loss);
  const Tensor adam = nn::Adam({.learning_rate = 1e-3}).Minimize(loss);
  ASSERT_OK(o.graph.status());
  ASSERT_OK(InitializeVariables(o.graph, 1, &o.variables));
  EXPECT_TRUE(o.variables.contains("sgd/dense/kernel/master"));
  EXPECT_FALSE(o.variables.contains("adam/dense/kernel/master"));
  const std::vector<double> start = o.Value("sgd/dense/kernel/master");
  o.Run(sgd);
  const std::vector<double> middle = o.Value("sgd/dense/kernel/master");
  o.Run(adam);
  const std::vector<double> end = o.Value("sgd/dense/kernel/master");
  EXPECT_NE(start, middle);
  EXPECT_NE(middle, end);
}

// Updates of less than half a unit in the last place of bf16 accumulate.
TEST(MasterCopies, AccumulateSmallUpdates) {
  for (const bool has_master : {true, false}) {
    OracleGraph o;
    const Tensor one = Ones(o.graph, kFloat32, {});
    const Tensor w = has_master
                         ? Variable(o.graph, "w", one, {.dtype = kBFloat16})
                         : Variable(o.graph, "w", Cast(one, kBFloat16));
    const Tensor step = nn::Sgd({.learning_rate = 1e-3}).Minimize(w * 1.0);
    ASSERT_OK(o.graph.status());
    ASSERT_OK(InitializeVariables(o.graph, 1, &o.variables));
    for (int i = 0; i < 100; ++i) o.Run(step);
    EXPECT_EQ(o.Value("w")[0], has_master ? RoundToDType(0.9, kBFloat16) : 1.0);
  }
}

TEST(MasterCopies, AreDecayedAndScaledWithoutRounding) {
  OracleGraph o;
  const Tensor w =
      Variable(o.graph, "w", Constant(o.graph, 1.001, kFloat32, {kModel}),
               {.dtype = kBFloat16});
  const Tensor step = nn::Sgd({.learning_rate = 0.5, .weight_decay = 0.5})
                          .Minimize(ReduceSum(w, {}) * 0.0);
  ASSERT_OK(o.graph.status());
  ASSERT_OK(InitializeVariables(o.graph, 1, &o.variables));
  o.Run(step);
  EXPECT_NEAR(o.Value("sgd/w/master")[0], 1.001 * 0.75, 1e-6);
}

// The loss w * x * 2^-40 in f16, whose least number is 2^-24: without a scale
// the gradient is 0.
struct SmallGradients {
  OracleGraph o;
  Tensor x, w, loss;

  explicit SmallGradients(double input) {
    x = Input(o.graph, "x", kFloat32, {});
    Set(input);
    w = Variable(o.graph, "w", Ones(o.graph, kFloat32, {}));
    const Tensor y = Cast(w, kFloat16) * Cast(x, kFloat16);
    loss = Cast(y, kFloat32) * std::ldexp(1.0, -40);
  }
  void Set(double input) {
    o.feeds["x"] = HostTensor::FromDoubles({}, kFloat32, {&input, 1});
  }
};

TEST(LossScale, KeepsGradientsAboveZero) {
  SmallGradients small(1);
  const Tensor step = nn::Sgd({.learning_rate = 1.0}).Minimize(small.loss);
  ASSERT_OK(small.o.graph.status());
  ASSERT_OK(InitializeVariables(small.o.graph, 1, &small.o.variables));
  small.o.Run(step);
  EXPECT_NEAR(1 - small.o.Value("w")[0], std::ldexp(1.0, -40),
              std::ldexp(1.0, -44));
  EXPECT_EQ(small.o.Value("sgd/loss_scale")[0], 65536);
  EXPECT_EQ(small.o.Value("sgd/loss_scale_updates")[0], 1);
}

TEST(LossScale, NonFiniteStepChangesOnlyTheScale) {
  const double bad[] = {std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity(), std::nan(""),
                        1e5};
  for (const double input : bad) {
    SmallGradients small(input);
    const Tensor step =
        nn::AdamW({.learning_rate = 1.0,
                   .max_gradient_norm = 1.0,
                   .loss_scale = {.initial = 1024, .least = 300}})
            .Minimize(small.loss);
    ASSERT_OK(small.o.graph.status());
    ASSERT_OK(InitializeVariables(small.o.graph, 1, &small.o.variables));
    const OracleVariables before = small.o.variables;
    small.o.Run(step);
    for (const auto& [name, value] : before) {
      if (name == "adamw/loss_scale") continue;
      EXPECT_EQ(small.o.Value(name), value.data) << name << " " << input;
    }
    EXPECT_EQ(small.o.Value("adamw/loss_scale")[0], 512) << input;
    small.o.Run(step);
    EXPECT_EQ(small.o.Value("adamw/loss_scale")[0], 300) << "not below .least";
    small.Set(1);
    small.o.Run(step);
    EXPECT_EQ(small.o.Value("adamw/step")[0], 1);
    EXPECT_LT(small.o.Value("w")[0], 1);
  }
}

TEST(LossScale, GrowsAfterSuccessiveUpdates) {
  SmallGradients small(1);
  const Tensor step =
      nn::Sgd({.loss_scale = {.initial = 4, .growth_interval = 3, .most = 12}})
          .Minimize(small.loss);
  ASSERT_OK(small.o.graph.status());
  ASSERT_OK(InitializeVariables(small.o.graph, 1, &small.o.variables));
  const double nan = std::nan("");
  const std::pair<double, double> expected[] = {
      {1, 4}, {1, 4}, {1, 8}, {1, 8}, {1, 8}, {nan, 4},
      {1, 4}, {1, 4}, {1, 8}, {1, 8}, {1, 8}, {1, 12}};
  for (const auto& [input, scale] : expected) {
    small.Set(input);
    small.o.Run(step);
    EXPECT_EQ(small.o.Value("sgd/loss_scale")[0], scale);
  }
}

TEST(LossScale, IsForF16Only) {
  for (const std::string& name : PrecisionNames()) {
    Built built;
    Build(built, name);
    EXPECT_EQ(built.o.variables.contains("adamw/loss_scale"),
              absl::StrContains(name, "float16") &&
                  !absl::StrContains(name, "bfloat16"))
        << name;
  }
}

TEST(LossScaleErrors, Options) {
  const struct {
    nn::LossScaleOptions options;
    const char* words;
  } cases[] = {
      {{.initial = 0}, ".loss_scale.initial is 0, not a positive number"},
      {{.growth = 0.5}, ".loss_scale.growth 0.5: backoff must be less"},
      {{.backoff = 1}, ".loss_scale.backoff is 1 and "},
      {{.growth_interval = 0}, ".loss_scale.growth_interval is 0, less than 1"},
      {{.least = -1}, ".loss_scale.least is -1, not a positive number"},
      {{.most = std::nan("")}, ".loss_scale.most is nan, not a positive"},
  };
  for (const auto& c : cases) {
    SmallGradients small(1);
    nn::Adafactor({.loss_scale = c.options}).Minimize(small.loss);
    EXPECT_THAT(
        small.o.graph.status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.words)));
    EXPECT_THAT(small.o.graph.status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("(adafactor, precision_test.cc:")));
  }
}

}  // namespace
}  // namespace mtf
