// SPDX-License-Identifier: Apache-2.0
//
// Training in mixed precision reaches the losses of f32, and the same under
// every layout.
#include "mtf/precision.h"

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/precision_text.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/one_hot.h"
#include "ops/reduce.h"
#include "tests/matchers.h"
#include "tests/repeats.h"
#include "tests/requirements.h"
#include "tests/train/small_lm.h"
#include "train/loop/flags.h"
#include "train/loop/parse_flags.h"
#include "train/loop/text_sampler.h"

namespace mtf::train {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

constexpr int kSteps = testing::Repeats(50, 4);

// The run of a precision on one device.
const SmallRun& OneDevice(const std::string& precision) {
  static auto& runs = *new std::map<std::string, SmallRun>;
  const auto known = runs.find(precision);
  if (known != runs.end()) return known->second;
  absl::StatusOr<SmallRun> run =
      RunSmallLm("", "", kSteps, {}, *ParsePrecision(precision));
  EXPECT_OK(run) << precision;
  return runs[precision] = *std::move(run);
}

HostTensor Rounded(const HostTensor& x, DType dtype) {
  return HostTensor::FromDoubles(x.shape(), dtype, x.ToDoubles());
}

// Expects every parameter with a master copy to be its rounded value.
void ExpectRoundedMasters(const std::map<std::string, HostTensor>& variables) {
  int masters = 0;
  for (const auto& [name, master] : variables) {
    absl::string_view parameter = name;
    if (!absl::ConsumeSuffix(&parameter, "/master")) continue;
    ASSERT_TRUE(absl::ConsumePrefix(&parameter, "adamw/")) << name;
    ++masters;
    const HostTensor& value = variables.at(std::string(parameter));
    EXPECT_EQ(master.dtype(), kFloat32);
    EXPECT_TRUE(value == Rounded(master, value.dtype())) << parameter;
  }
  EXPECT_GT(masters, 10);
}

class PrecisionOnOneDevice : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { SKIP_UNDER_SANITIZERS("no ranks, many steps"); }
};

TEST_P(PrecisionOnOneDevice, FiftyStepsAreCloseToF32) {
  const SmallRun& reference = OneDevice("float32");
  const SmallRun& run = OneDevice(GetParam());
  EXPECT_NE(run.losses, reference.losses);
  EXPECT_LE(LargestLossDifference(run, reference), 0.02);
  EXPECT_LT(run.losses.back(), 0.7 * run.losses.front());
}

TEST_P(PrecisionOnOneDevice, StartsFromTheInitialValuesOfF32) {
  const Precision precision = *ParsePrecision(GetParam());
  const SmallRun& reference = OneDevice("float32");
  for (const auto& [name, value] : OneDevice(GetParam()).initial) {
    std::string source = name;
    if (absl::EndsWith(name, "/master")) {
      source = name.substr(6, name.size() - 6 - 7);
      EXPECT_EQ(value.dtype(), precision.master) << name;
    } else if (!absl::StartsWith(name, "adamw/")) {
      EXPECT_EQ(value.dtype(), precision.parameters) << name;
    }
    if (!reference.initial.contains(source)) continue;  // the loss scale
    EXPECT_TRUE(value == Rounded(reference.initial.at(source), value.dtype()))
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, PrecisionOnOneDevice,
                         ::testing::Values("bfloat16", "mixed_bfloat16",
                                           "float16", "mixed_float16"),
                         [](const auto& info) { return info.param; });

TEST(PrecisionOnOneDevice, TrainsWithBf16Gradients) {
  SKIP_UNDER_SANITIZERS("no ranks, many steps");
  const SmallRun& run = OneDevice("bfloat16,gradients:bfloat16");
  EXPECT_LE(LargestLossDifference(run, OneDevice("float32")), 0.02);
  EXPECT_NE(run.losses, OneDevice("bfloat16").losses);
}

// Sampling works for logits of every float dtype.
TEST(PrecisionOnOneDevice, SamplesFromLogitsOfEveryFloatDType) {
  SKIP_UNDER_SANITIZERS("no ranks, many steps");
  for (DType dtype : {kFloat32, kBFloat16, kFloat16, kInt32}) {
    Graph graph;
    const Dimension batch{"batch", 2}, length{"length", 3},
        vocab{"vocab", TextDataset::kVocabularySize};
    const Tensor tokens = Input(graph, "tokens", kInt32, {batch, length});
    // The byte after x is almost surely x + 1.
    const Tensor logits =
        Cast(Select(Equal(tokens + 1.0, Range(graph, vocab)), 30.0,
                    Zeros(graph, kFloat32, {batch, length, vocab})),
             dtype);
    const auto session = Session::Create(graph, "", "");
    ASSERT_OK(session);
    ASSERT_OK((*session)->Initialize());
    const auto text =
        SampleText(**session, tokens, logits, {.prompt = "ab", .bytes = 6});
    if (dtype == kInt32) {
      EXPECT_THAT(text, testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                          "logits are i32, not a float dtype"));
    } else {
      ASSERT_OK(text);
      EXPECT_EQ(*text, "abcdefgh") << DTypeName(dtype);
    }
  }
}

struct Case {
  std::string precision, mesh, layout;

  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << c.precision << " mesh \"" << c.mesh << "\" layout \"" << c.layout
         << "\"";
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string& preset : LayoutRules::PresetNames()) {
    for (const int ranks : {3, 4}) {
      cases.push_back({"bfloat16",
                       LayoutRules::PresetMesh(preset, ranks)->ToString(),
                       preset});
    }
  }
  for (const char* precision : {"bfloat16", "float16", "mixed_bfloat16"}) {
    cases.push_back(
        {precision, "data:3,model:2",
         "batch:data, heads:model [parameters] d_model:data, d_ff:model "
         "[optimizer] d_model:data, vocab:model"});
  }
  cases.push_back({"float16", "data:4", "zero2"});
  return cases;
}

class PrecisionUnderLayouts : public ::testing::TestWithParam<Case> {};

// Sums of 16-bit floats over devices round once more, so losses are only close;
// values that are copied, cast or random are bitwise equal.
TEST_P(PrecisionUnderLayouts, FiftyStepsAreCloseToOneDevice) {
  SKIP_UNDER_THREAD_SANITIZER("a dtype changes no thread");
  const Case& c = GetParam();
  const SmallRun& reference = OneDevice(c.precision);
  const absl::StatusOr<SmallRun> run =
      RunSmallLm(c.mesh, c.layout, kSteps, {}, *ParsePrecision(c.precision));
  ASSERT_OK(run);
  for (const auto& [name, value] : reference.initial) {
    EXPECT_TRUE(run->initial.at(name) == value) << "initial bits of " << name;
  }
  EXPECT_TRUE(run->masks == reference.masks);
  EXPECT_LE(LargestLossDifference(*run, reference), 0.01);
  EXPECT_EQ(run->counted, run->planned);
  if (c.precision != "mixed_bfloat16") {
    ExpectRoundedMasters(run->initial);
    ExpectRoundedMasters(run->final);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PrecisionUnderLayouts,
                         ::testing::ValuesIn(Cases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           std::string name =
                               absl::StrCat(info.param.precision, "_",
                                            info.param.layout.substr(0, 20),
                                            "_on_", info.param.mesh);
                           for (char& c : name) {
                             if (!isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           }
                           return name;
                         });

TEST(PrecisionUnderLayouts, TwoRunsOfOneLayoutAreBitwiseEqual) {
  const Precision precision = *ParsePrecision("bfloat16");
  const absl::StatusOr<SmallRun> a = RunSmallLm("data:3", "zero3", 10, {},
                                                precision),
                                 b = RunSmallLm("data:3", "zero3", 10, {},
                                                precision);
  ASSERT_OK(a);
  ASSERT_OK(b);
  EXPECT_EQ(a->losses, b->losses);
  EXPECT_TRUE(a->final == b->final);
}

// The second derivative has powers of x, which f16 could not represent.
TEST(GeluOfF16, HasFiniteGradientsOfBothOrders) {
  Graph graph;
  const Tensor x = Constant(graph, {-60000, -10, -0.5, 0.5, 10, 60000},
                            kFloat16, {{"i", 6}});
  const Tensor first = Gradients(Gelu(x), {x})[0];
  const Tensor second = Gradients(first, {x})[0];
  const auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const auto values = (*session)->Run({.fetches = {first, second}});
  ASSERT_OK(values);
  EXPECT_THAT((*values)[0].ToDoubles(),
              ElementsAre(0, 0, DoubleNear(0.1325, 0.001),
                          DoubleNear(0.8675, 0.001), 1, 1));
  EXPECT_THAT((*values)[1].ToDoubles(),
              ElementsAre(0, 0, DoubleNear(0.6155, 0.005),
                          DoubleNear(0.6155, 0.005), 0, 0));
}

// 257 is not a bf16, and 2049 not an f16.
TEST(EinsumOfF32, AddsUpWithoutRoundingUnderEveryLayout) {
  const Dimension i{"i", 3}, j{"j", 5}, k{"k", 257}, l{"l", 2049};
  for (const char* layout :
       {"", "k:x, l:y", "k:x+y", "i:x, k:y", "l:x+y", "i:x, j:y"}) {
    for (DType dtype : {kBFloat16, kFloat16}) {
      SCOPED_TRACE(absl::StrCat(layout, " ", DTypeName(dtype)));
      Graph graph;
      const auto ones = [&](const Shape& shape) {
        return Ones(graph, dtype, shape);
      };
      const EinsumOptions f32 = {.dtype = kFloat32};
      const Dimension& long_one = dtype == kBFloat16 ? k : l;
      const double sum = static_cast<double>(long_one.size);
      const std::vector<std::pair<Tensor, double>> cases = {
          {Einsum({ones({i, long_one})}, {i}, f32), sum},
          {Einsum({ones({i, long_one}), ones({long_one})}, {i}, f32), sum},
          // Summed separately before it is added to the other.
          {Einsum({ones({i, long_one}), ones({i, j})}, {i}, f32), 5 * sum},
          {Einsum({ones({i}), ones({i, j}), ones({long_one})}, {i}, f32),
           5 * sum},
          {Einsum({ones({i}), ones({j})}, {i, j}, f32), 1},
      };
      std::vector<Tensor> fetches;
      for (const auto& [tensor, wanted] : cases) fetches.push_back(tensor);
      const auto session = Session::Create(graph, "x:2,y:2", layout);
      ASSERT_OK(session);
      ASSERT_OK((*session)->Initialize());
      const auto values = (*session)->Run({.fetches = fetches});
      ASSERT_OK(values);
      for (size_t n = 0; n < cases.size(); ++n) {
        EXPECT_EQ((*values)[n].dtype(), kFloat32);
        for (double value : (*values)[n].ToDoubles()) {
          EXPECT_EQ(value, cases[n].second) << "case " << n;
        }
      }
    }
  }
}

// If a gradient overflows on one rank, all ranks skip the step.
TEST(LossScaleUnderLayouts, AStepIsSkippedByAllRanksOrNone) {
  for (const char* layout :
       {"", "batch:x", "batch:x [parameters] d:x [optimizer] d:x", "d:x",
        "batch:x [optimizer] e:x"}) {
    SCOPED_TRACE(layout);
    Graph graph;
    const Dimension batch{"batch", 4}, d{"d", 6}, e{"e", 3};
    const Tensor x = Input(graph, "x", kFloat32, {batch, d});
    const PrecisionScope scope(graph, *ParsePrecision("float16"));
    const Tensor y = nn::Dense(x, {d}, {e}, {.bias = false});
    const Tensor loss = ReduceSum(Square(Cast(y, kFloat32)), {});
    const Tensor step =
        nn::AdamW({.loss_scale = {.initial = 8, .growth_interval = 2}})
            .Minimize(loss);
    const auto session = Session::Create(graph, "x:4", layout);
    ASSERT_OK(session);
    ASSERT_OK((*session)->Initialize());
    const auto variables = [&] {
      std::map<std::string, HostTensor> values;
      for (const VariableInfo& info : graph.variables()) {
        const auto value = (*session)->ReadVariable(info.name);
        EXPECT_OK(value);
        if (value.ok()) values[info.name] = *value;
      }
      return values;
    };
    double scale = 8;
    // The third example overflows; the last update makes two in a row.
    for (const bool overflows : {true, false, true, false, false}) {
      std::vector<double> numbers(24, 0.5);
      if (overflows) numbers[2 * 6 + 1] = 60000;
      auto before = variables();
      ASSERT_OK(
          (*session)->Run({.feeds = {{"x", HostTensor::FromDoubles(
                                               {batch, d}, kFloat32, numbers)}},
                           .updates = {step}}));
      auto after = variables();
      scale *= overflows ? 0.5 : 1;
      if (*after["adamw/step"].At(0) == 3) scale *= 2;
      EXPECT_EQ(*after["adamw/loss_scale"].At(0), scale);
      for (auto* values : {&before, &after}) {
        values->erase("adamw/loss_scale");
        values->erase("adamw/loss_scale_updates");
      }
      EXPECT_EQ(before == after, overflows);
      EXPECT_TRUE(after.at("dense/kernel") ==
                  Rounded(after.at("adamw/dense/kernel/master"), kFloat16));
    }
    EXPECT_EQ(*variables().at("adamw/step").At(0), 3);
  }
}

TEST(PrecisionFlag, IsANameWithExceptions) {
  const absl::FlagSaver saver;
  const auto precision = []() -> Precision {
    return absl::GetFlag(FLAGS_precision);
  };
  EXPECT_EQ(precision(), Precision());
  ASSERT_OK(ParseFlags({"--precision=bfloat16,gradients:bf16"}));
  EXPECT_EQ(precision(),
            (Precision{kFloat32, kBFloat16, kBFloat16, kBFloat16}));
  EXPECT_THAT(
      ParseFlags({"--precision=bfloat61"}),
      testing::StatusIs(
          absl::StatusCode::kInvalidArgument,
          ::testing::HasSubstr(
              "flag --precision is \"bfloat61\", not a precision: precision "
              "\"bfloat61\" is not one of float32, bfloat16, mixed_bfloat16, "
              "pure_bfloat16, float16, mixed_float16: did you mean bfloat16?\n"
              "  default  float32\n")));
  EXPECT_THAT(ParseFlags({"--precision=master:bf16"}),
              testing::StatusIs(
                  absl::StatusCode::kInvalidArgument,
                  ::testing::HasSubstr("not a precision: a master copy of bf16 "
                                       "cannot hold parameters of f32\n")));
}

}  // namespace
}  // namespace mtf::train
