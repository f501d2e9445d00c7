// SPDX-License-Identifier: Apache-2.0
//
// Invalid requests are errors that name the problem; the session stays usable.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/einsum.h"
#include "ops/input.h"
#include "tests/matchers.h"
#include "tests/train/session/counting.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(SessionErrors, TheFirstErrorOfTheGraphIsReturned) {
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {kBatch, kIo});
  Tensor w = Input(graph, "w", kFloat32, {{"io", 4}, {"hidden", 2}});
  Einsum({x, w}, {kBatch, {"hidden", 2}});
  for (const auto& [mesh, layout] :
       std::vector<std::pair<std::string, std::string>>{
           {"", ""}, {"data:2", "batch:data"}, {"data:3", "io:data"}}) {
    EXPECT_THAT(
        Session::Create(graph, mesh, layout),
        StatusIs(kInvalid,
                 AllOf(HasSubstr("\"io\""), HasSubstr("3"), HasSubstr("4"),
                       HasSubstr("session_errors_test.cc:"))));
  }
}

TEST(SessionErrors, InvalidTextsAreErrors) {
  Graph graph;
  const Counting program(graph);
  EXPECT_THAT(Session::Create(graph, "data:two", "batch:data"),
              StatusIs(kInvalid, HasSubstr("data:two")));
  EXPECT_THAT(Session::Create(graph, "data:2", "batch=data"),
              StatusIs(kInvalid, HasSubstr("batch=data")));
  // A misspelt axis, a misspelt dimension.
  EXPECT_THAT(Session::Create(graph, "data:2", "batch:dat"),
              StatusIs(kInvalid, HasSubstr("\"data\"")));
  EXPECT_THAT(Session::Create(graph, "data:2", "bacth:data"),
              StatusIs(kInvalid, HasSubstr("\"batch\"")));
  EXPECT_THAT(Session::Create(graph, "data:1000000", "batch:data"),
              StatusIs(kInvalid, HasSubstr("at most 256 ranks as threads")));
  EXPECT_THAT(Session::Create(graph, "", "", {.backend = "cpux"}),
              StatusIs(kInvalid, HasSubstr("cpu")));
}

TEST(SessionErrors, TwoDimensionsOfOneOperationOnOneAxisAreAnError) {
  Graph graph;
  const Counting program(graph);
  auto session = Session::Create(graph, "data:2", "batch:data, io:data");
  absl::Status status = session.status();
  if (status.ok()) {
    ASSERT_OK((*session)->Initialize());
    status = (*session)
                 ->Run({.feeds = {{"x", Ascending()}}, .fetches = {program.y}})
                 .status();
  }
  EXPECT_THAT(status, StatusIs(kInvalid,
                               AllOf(HasSubstr("\"batch\""),
                                     HasSubstr("\"io\""), HasSubstr("data"))));
}

TEST(SessionErrors, InertRulesAreNoticesOrErrorsWhenStrict) {
  Graph graph;
  const Counting program(graph);
  auto session = Session::Create(graph, "data:2", "batch:data, experts:data");
  ASSERT_OK(session);
  EXPECT_THAT((*session)->notices(), ElementsAre(HasSubstr("experts")));
  EXPECT_THAT(Session::Create(graph, "data:2", "batch:data, experts:data",
                              {.strict_layout = true}),
              StatusIs(kInvalid, HasSubstr("experts")));
}

TEST(SessionErrors, RunsBeforeInitializeAreErrors) {
  Graph graph;
  const Counting program(graph);
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  EXPECT_THAT((*session)->Run({.fetches = {program.counter}}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("Initialize()")));
}

TEST(SessionErrors, InvalidFeedsAreErrorsAndTheSessionStaysUsable) {
  Graph graph;
  const Counting program(graph);
  auto session = Session::Create(graph, "data:2", "batch:data");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const std::vector<Tensor> fetches = {program.y};
  EXPECT_THAT((*session)->Run({.fetches = fetches}),
              StatusIs(kInvalid, HasSubstr("\"x\"")));
  EXPECT_THAT(
      (*session)->Run({.feeds = {{"x", Ascending()}, {"xx", Ascending()}},
                       .fetches = fetches}),
      StatusIs(absl::StatusCode::kNotFound,
               HasSubstr("no input of this request is called \"xx\"; did you "
                         "mean \"x\"?")));
  EXPECT_THAT((*session)->Run({.feeds = {{"x", HostTensor({kBatch}, kFloat32)}},
                               .fetches = fetches}),
              StatusIs(kInvalid, AllOf(HasSubstr("\"x\""), HasSubstr("io"))));
  EXPECT_THAT(
      (*session)->Run({.feeds = {{"x", HostTensor({kBatch, kIo}, kInt32)}},
                       .fetches = fetches}),
      StatusIs(kInvalid, AllOf(HasSubstr("i32"), HasSubstr("f32"))));
  EXPECT_OK(
      (*session)->Run({.feeds = {{"x", Ascending()}}, .fetches = fetches}));
}

TEST(SessionErrors, UnknownNamesSuggestTheNearest) {
  Graph graph;
  const Counting program(graph);
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  EXPECT_THAT((*session)->ReadVariable("countre"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("did you mean \"counter\"?")));
  EXPECT_THAT((*session)->InputShards({.fetches = {program.y}}, "z"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"z\"")));
}

TEST(SessionErrors, TensorsOfAnotherGraphAreErrors) {
  Graph graph, other;
  const Counting program(graph), stranger(other);
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  EXPECT_THAT(
      (*session)->Run({.fetches = {stranger.y}}),
      StatusIs(kInvalid, AllOf(HasSubstr("fetch 0, \""),
                               HasSubstr("\", belongs to another graph"))));
  EXPECT_THAT((*session)->Run({.updates = {Tensor()}}),
              StatusIs(kInvalid, HasSubstr("update 0 is an empty Tensor\n")));
}

}  // namespace
}  // namespace mtf::train
