// SPDX-License-Identifier: Apache-2.0
//
// Trainable parameters that a request reads and nothing updates or loads are
// reported once.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/layers/dense.h"
#include "nn/optimizers/sgd.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "train/session/saved_state.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Dimension kBatch{"batch", 4}, kIo{"io", 3};

// A session and the notices that it has called back with.
struct Running {
  std::unique_ptr<Session> session;
  std::vector<std::string> notices;

  explicit Running(const Graph& graph) {
    SessionOptions options;
    options.on_notice = [this](const std::string& notice) {
      notices.push_back(notice);
    };
    auto made = Session::Create(graph, "data:2", "batch:data", options);
    EXPECT_OK(made);
    session = *std::move(made);
    EXPECT_OK(session->Initialize());
  }
};

Tensor Network(Tensor x) { return nn::Dense(x, {kIo}, {kIo}); }

TEST(UntrainedParameters, ANetworkBuiltTwiceIsReportedOnce) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {kBatch, kIo});
  const Tensor loss = ReduceMean(Square(Network(x)), {});
  const Tensor step = nn::Sgd().Minimize(loss);
  const Tensor logits = Network(x);  // the mistake
  Running run(graph);
  ASSERT_OK(run.session->Run({.fetches = {loss}, .updates = {step}}));
  EXPECT_THAT(run.notices, IsEmpty());
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(run.session->Run({.fetches = {logits}}));
    ASSERT_OK(run.session->Run({.fetches = {logits, x}}));
    EXPECT_THAT(
        run.notices,
        ElementsAre(AllOf(
            HasSubstr("2 trainable parameters, such as \"dense_1/kernel\""),
            HasSubstr("untrained_parameters_test.cc:"),
            HasSubstr("keep their initial values"))));
  }
  EXPECT_EQ(run.session->notices(), run.notices);
}

// Updates count before they run: an evaluation may come first.
TEST(UntrainedParameters, EvaluationBeforeTrainingIsNotReported) {
  Graph graph;
  const Tensor logits = Network(Ones(graph, kFloat32, {kBatch, kIo}));
  const Tensor loss = ReduceMean(Square(logits), {});
  nn::Sgd().Minimize(loss);
  Running run(graph);
  ASSERT_OK(run.session->Run({.fetches = {logits}}));
  EXPECT_THAT(run.notices, IsEmpty());
}

TEST(UntrainedParameters, LoadedParametersAreNotReported) {
  Graph graph;
  const Tensor logits = Network(Ones(graph, kFloat32, {kBatch, kIo}));
  const SavedState state(graph);
  Running written(graph);
  for (const char* name : {"dense/kernel", "dense/bias"}) {
    const auto value = written.session->ReadVariable(name);
    ASSERT_OK(value);
    ASSERT_OK(written.session->WriteVariable(name, *value));
  }
  ASSERT_OK(written.session->Run({.fetches = {logits}}));
  EXPECT_THAT(written.notices, IsEmpty());

  Running loaded(graph);
  const auto values = state.Save(*loaded.session);
  ASSERT_OK(values);
  ASSERT_OK(state.Load(*loaded.session, *values));
  ASSERT_OK(loaded.session->Run({.fetches = {logits}}));
  EXPECT_THAT(loaded.notices, IsEmpty());

  // That values could be loaded does not count.
  Running neither(graph);
  ASSERT_OK(neither.session->Run({.fetches = {logits}}));
  EXPECT_THAT(neither.notices, ElementsAre(HasSubstr("dense/kernel")));
}

TEST(UntrainedParameters, OtherVariablesAreNotReported) {
  Graph graph;
  const Tensor frozen = Variable(graph, "frozen", Ones(graph, kFloat32, {kIo}),
                                 {.trainable = false});
  const Tensor state = Variable(graph, "state", Ones(graph, kFloat32, {kIo}),
                                {.kind = VariableKind::kOptimizerState});
  const Tensor count = Variable(graph, "count", Ones(graph, kInt32, {}));
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {kIo}));
  const Tensor sum = frozen + state + Cast(count, kFloat32);
  Running run(graph);
  ASSERT_OK(run.session->Run({.fetches = {sum}}));
  // A fetch of the variable itself shows its value on purpose.
  ASSERT_OK(run.session->Run({.fetches = {w}}));
  ASSERT_OK(run.session->ReadVariable("w"));
  EXPECT_THAT(run.notices, IsEmpty());
}

TEST(UntrainedParameters, OneParameterIsInTheSingular) {
  Graph graph;
  const int line = __LINE__ + 1;
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {kIo}));
  const Tensor y = 2.0 * w;
  Running run(graph);
  ASSERT_OK(run.session->Run({.fetches = {y}}));
  EXPECT_THAT(run.notices,
              ElementsAre(HasSubstr(absl::StrCat(
                  "trainable parameter \"w\" (untrained_parameters_test.cc:",
                  line, ") is read but keeps its initial value: "))));
}

}  // namespace
}  // namespace mtf::train
