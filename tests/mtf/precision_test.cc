// SPDX-License-Identifier: Apache-2.0
#include "mtf/precision.h"

#include <string>

#include "mtf/graph.h"
#include "mtf/precision_text.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(Precision, TheDefaultIsF32) {
  EXPECT_OK(Precision().Validate());
  EXPECT_EQ(*ParsePrecision("float32"), Precision());
  EXPECT_EQ(Graph().precision(), Precision());
}

TEST(Precision, MasterMustRepresentParameters) {
  for (DType master : kAllDTypes) {
    for (DType parameters : kAllDTypes) {
      const Precision precision = {.master = master, .parameters = parameters};
      const bool valid = IsFloat(master) && IsFloat(parameters) &&
                         (master == parameters || master == kFloat32);
      EXPECT_EQ(precision.Validate().ok(), valid)
          << DTypeName(master) << " " << DTypeName(parameters);
    }
  }
  const Precision precision = {.master = kBFloat16};
  EXPECT_THAT(precision.Validate(),
              StatusIs(kInvalid, HasSubstr("a master copy of bf16 cannot hold "
                                           "parameters of f32\n  help ")));
}

TEST(Precision, AcceptsOnlyFloats) {
  EXPECT_THAT(Precision{.activations = kInt32}.Validate(),
              StatusIs(kInvalid,
                       "the precision of activations is i32, not a "
                       "float"));
  EXPECT_THAT(Precision{.gradients = kBool}.Validate(),
              StatusIs(kInvalid, HasSubstr("gradients is bool")));
}

TEST(PrecisionScope, LastsAsLongAsItLives) {
  Graph graph;
  const Precision outer = *ParsePrecision("bfloat16"),
                  inner = *ParsePrecision("float32");
  {
    PrecisionScope scope(graph, outer);
    EXPECT_EQ(graph.precision(), outer);
    {
      PrecisionScope scope(graph, inner);
      EXPECT_EQ(graph.precision(), inner);
    }
    EXPECT_EQ(graph.precision(), outer);
  }
  EXPECT_EQ(graph.precision(), Precision());
  EXPECT_OK(graph.status());
}

TEST(PrecisionScope, InvalidPrecisionIsAnErrorOfTheGraph) {
  Graph graph;
  PrecisionScope scope(graph, {.parameters = kInt64});
  EXPECT_EQ(graph.precision(), Precision());
  EXPECT_THAT(graph.status(),
              StatusIs(kInvalid, HasSubstr("the precision of parameters is "
                                           "i64, not a float (precision, "
                                           "precision_test.cc:")));
}

TEST(PrecisionText, NamesReadBack) {
  for (const std::string& name : PrecisionNames()) {
    const auto precision = ParsePrecision(name);
    ASSERT_OK(precision);
    EXPECT_EQ(PrecisionText(*precision), name);
  }
}

TEST(PrecisionText, EveryPrecisionReadsBack) {
  int count = 0;
  for (DType master : {kFloat32, kBFloat16, kFloat16}) {
    for (DType parameters : {kFloat32, kBFloat16, kFloat16}) {
      for (int activations = 0; activations < 4; ++activations) {
        for (int gradients = 0; gradients < 4; ++gradients) {
          Precision precision = {.master = master, .parameters = parameters};
          if (activations < 3) precision.activations = kAllDTypes[activations];
          if (gradients < 3) precision.gradients = kAllDTypes[gradients];
          if (!precision.Validate().ok()) continue;
          ++count;
          const auto read = ParsePrecision(PrecisionText(precision));
          ASSERT_OK(read) << PrecisionText(precision);
          EXPECT_EQ(*read, precision) << PrecisionText(precision);
        }
      }
    }
  }
  EXPECT_EQ(count, 5 * 16);
}

TEST(PrecisionText, FieldsOverrideTheName) {
  const Precision wanted = {kFloat32, kBFloat16, kBFloat16, kBFloat16};
  for (const char* text :
       {"bfloat16,gradients:bfloat16", "bfloat16 gradients:bf16",
        "parameters:bf16; activations:bf16, gradients:bf16"}) {
    const auto precision = ParsePrecision(text);
    ASSERT_OK(precision) << text;
    EXPECT_EQ(*precision, wanted) << text;
  }
}

struct Wrong {
  const char* text;
  const char* words;
};

TEST(PrecisionText, ErrorsHaveOneLine) {
  for (const Wrong& wrong : {
           Wrong{"", "the precision is empty; write one of float32, "},
           Wrong{" , ", "the precision is empty"},
           Wrong{"bfloat61",
                 "precision \"bfloat61\" is not one of float32, bfloat16, "
                 "mixed_bfloat16, pure_bfloat16, float16, mixed_float16: did "
                 "you mean bfloat16?"},
           Wrong{"half", "precision \"half\" is not one of "},
           Wrong{"float32 bfloat16",
                 "the name of a precision, \"bfloat16\", comes first"},
           Wrong{"gradient:f32",
                 "field \"gradient\" is not one of master, "
                 "parameters, activations, gradients: did you "
                 "mean gradients?"},
           Wrong{"gradients:f23",
                 "dtype \"f23\" is not one of float32, "
                 "bfloat16, float16, as_used"},
           Wrong{"master:as_used",
                 "dtype \"as_used\" is not one of float32, "
                 "bfloat16, float16"},
           Wrong{"master:i32", "dtype \"i32\" is not one of"},
           Wrong{"master:f32:f32", "dtype \"f32:f32\" is not one of"},
           Wrong{":", "field \"\" is not one of"},
           Wrong{"master:f32,master:f32", "field master is given twice"},
           Wrong{"master:bf16", "a master copy of bf16 cannot hold"},
           Wrong{"a\x01", "precision \"a\\x01\" is not one of"},
       }) {
    EXPECT_THAT(ParsePrecision(wrong.text),
                StatusIs(kInvalid, HasSubstr(wrong.words)))
        << wrong.text;
  }
}

}  // namespace
}  // namespace mtf
