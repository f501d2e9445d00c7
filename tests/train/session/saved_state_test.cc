// SPDX-License-Identifier: Apache-2.0
#include "train/session/saved_state.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/precision_text.h"
#include "nn/optimizers/adam.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "tests/train/small_lm.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The small model in a precision, under a layout.
struct Trained {
  Graph graph;
  SmallLm model;
  std::unique_ptr<SavedState> state;
  std::unique_ptr<Session> session;
  TextDataset text = SmallText();

  Trained(const std::string& precision, const std::string& mesh,
          const std::string& layout, uint32_t seed) {
    model = BuildSmallLm(graph, *ParsePrecision(precision));
    state = std::make_unique<SavedState>(graph);
    SessionOptions options;
    options.seed = seed;
    auto made = Session::Create(graph, mesh, layout, options);
    EXPECT_OK(made);
    if (!made.ok()) return;
    session = *std::move(made);
    EXPECT_OK(session->Initialize());
  }
  double Step(int step) {
    const auto feeds = TextFeeds(text, model.tokens, model.targets, 7)(step);
    EXPECT_OK(feeds);
    const auto loss = session->Run(
        {.feeds = *feeds, .fetches = {model.loss}, .updates = {model.step}});
    EXPECT_OK(loss);
    return loss.ok() ? *(*loss)[0].At(0) : 0;
  }
  SavedState::Values Save() {
    auto values = state->Save(*session);
    EXPECT_OK(values);
    return *std::move(values);
  }
};

HostTensor Rounded(const HostTensor& x, DType dtype) {
  return HostTensor::FromDoubles(x.shape(), dtype, x.ToDoubles());
}

struct Move {
  const char *precision, *mesh, *layout;
};

// For every pair: f32 to bf16 and back, from one layout to another.
TEST(SavedState, IsTheSameInEveryPrecisionAndLayout) {
  const Move moves[] = {
      {"float32", "data:2", "data"},
      {"bfloat16", "data:3", "zero3"},
      {"bfloat16,gradients:bfloat16", "data:2,model:2", "data_model"},
      {"mixed_bfloat16", "model:3", "megatron"}};
  for (const Move& from : moves) {
    Trained source(from.precision, from.mesh, from.layout, 3);
    for (int step = 0; step < 3; ++step) source.Step(step);
    const SavedState::Values saved = source.Save();
    EXPECT_EQ(saved.count("adamw/embedding/table/master"), 0u);
    EXPECT_EQ(saved.at("embedding/table").dtype(), kFloat32);
    for (const Move& to : moves) {
      SCOPED_TRACE(absl::StrCat(from.precision, " to ", to.precision));
      Trained target(to.precision, to.mesh, to.layout, 4);
      EXPECT_FALSE(target.Save() == saved);
      ASSERT_OK(target.state->Load(*target.session, saved));
      EXPECT_EQ(target.session->step(), 0)
          << "loading does not advance the step";
      EXPECT_TRUE(target.Save() == saved);
      for (const VariableInfo& info : target.graph.variables()) {
        if (info.master < 0) continue;
        const auto value = target.session->ReadVariable(info.name);
        ASSERT_OK(value);
        EXPECT_TRUE(*value == Rounded(saved.at(info.name), info.dtype))
            << info.name;
      }
    }
  }
}

TEST(SavedState, TrainingContinuesUnchanged) {
  Trained source("bfloat16", "data:2", "zero3", 3);
  for (int step = 0; step < 3; ++step) source.Step(step);
  const SavedState::Values saved = source.Save();
  Trained target("bfloat16", "data:2", "zero3", 3);
  // Dropout depends on the number of the step.
  for (int step = 0; step < 3; ++step) target.Step(step + 10);
  ASSERT_OK(target.state->Load(*target.session, saved));
  for (int step = 3; step < 6; ++step) {
    EXPECT_EQ(source.Step(step), target.Step(step)) << step;
  }
}

TEST(SavedState, AModelWithoutAnOptimizerRoundsLoadedValues) {
  Trained source("float32", "", "", 3);
  const SavedState::Values saved = source.Save();
  Graph graph;
  const PrecisionScope scope(graph, *ParsePrecision("bfloat16"));
  const Dimension d_model{"d_model", 20},
      vocab{"vocab", TextDataset::kVocabularySize};
  nn::EmbeddingTable(graph, vocab, d_model, {.name = "embedding"});
  const SavedState state(graph);
  const auto session = Session::Create(graph, "model:2", "vocab:model");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  ASSERT_OK(state.Load(**session, saved, {.partial = true}));
  const auto value = (*session)->ReadVariable("embedding/table");
  ASSERT_OK(value);
  EXPECT_TRUE(*value == Rounded(saved.at("embedding/table"), kBFloat16));
}

TEST(SavedStateErrors, KeepVariables) {
  Trained source("float32", "", "", 3);
  const SavedState::Values saved = source.Save();
  Trained pure("pure_bfloat16", "", "", 4);
  const SavedState::Values before = pure.Save();
  EXPECT_THAT(
      pure.state->Load(*pure.session, saved),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("the value of variable \"embedding/table\" "
                               "would be rounded from f32 to bf16\n  variable "
                               "bf16[vocab=256, d_model=20]\n"),
                     HasSubstr("\n  help     load it into a model with float32 "
                               "master copies, or cast the value first"))));
  EXPECT_TRUE(pure.Save() == before);
  // The other direction needs no rounding.
  Trained wide("float32", "", "", 5);
  ASSERT_OK(wide.state->Load(*wide.session, before));
  EXPECT_EQ(wide.Save().at("embedding/table").ToDoubles(),
            before.at("embedding/table").ToDoubles());

  SavedState::Values less = saved;
  auto node = less.extract("embedding/table");
  EXPECT_THAT(
      wide.state->Load(*wide.session, less),
      StatusIs(absl::StatusCode::kNotFound,
               HasSubstr("there is no value for variable "
                         "\"embedding/table\"\n  help     set .partial")));
  node.key() = "embeding/table";
  less.insert(std::move(node));
  EXPECT_THAT(wide.state->Load(*wide.session, less),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("variable \"embedding/table\"; is it "
                                 "\"embeding/table\"?")));
  SavedState::Values more = saved;
  more["other"] = HostTensor({}, kFloat32);
  EXPECT_THAT(wide.state->Load(*wide.session, more),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the model has no variable \"other\"\n")));
  EXPECT_OK(wide.state->Load(*wide.session, more, {.partial = true}));
  SavedState::Values turned = saved;
  turned["embedding/table"] = HostTensor({{"vocab", 3}}, kFloat32);
  EXPECT_THAT(
      wide.state->Load(*wide.session, turned),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("variable \"embedding/table\" has another shape than "
                         "its value\n  variable f32[vocab=256, d_model=20]\n  "
                         "value    f32[vocab=3]")));
}

// It would save the parameters and silently leave out the optimizer.
TEST(SavedStateErrors, VariablesThatItDoesNotKnow) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {}));
  const SavedState state(graph);
  nn::AdamW().Minimize(w * w);
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const auto is_error = StatusIs(
      absl::StatusCode::kFailedPrecondition,
      AllOf(HasSubstr("variable \"adamw/step\" was created after the "
                      "SavedState, which does not save it\n"),
            HasSubstr("help     create the SavedState after all other")));
  EXPECT_THAT(state.Save(**session).status(), is_error);
  EXPECT_THAT(state.Load(**session, {}, {.partial = true}), is_error);
}

// Only models in f16 have a loss scale.
TEST(SavedStateErrors, AnotherOptimizersState) {
  Trained half("float16", "", "", 3), wide("float32", "", "", 4);
  EXPECT_THAT(half.state->Load(*half.session, wide.Save()),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("variable \"adamw/loss_scale\"")));
  EXPECT_OK(half.state->Load(*half.session, wide.Save(), {.partial = true}));
  EXPECT_THAT(wide.state->Load(*wide.session, half.Save()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the model has no variable "
                                 "\"adamw/loss_scale\"")));
}

}  // namespace
}  // namespace mtf::train
