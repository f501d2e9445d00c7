// SPDX-License-Identifier: Apache-2.0
//
// Invalid requests are errors that name the problem; the session stays usable.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/einsum.h"
#include "ops/input.h"
#include "ops/variable.h"
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
               HasSubstr("no input of the graph is called \"xx\"; did you "
                         "mean \"x\"?")));
  EXPECT_THAT((*session)->Run({.feeds = {{"x", HostTensor({kBatch}, kFloat32)}},
                               .fetches = fetches}),
              StatusIs(kInvalid, AllOf(HasSubstr("\"x\""), HasSubstr("io"))));
  EXPECT_THAT(
      (*session)->Run({.feeds = {{"x", HostTensor({kBatch, kIo}, kInt32)}},
                       .fetches = fetches}),
      StatusIs(kInvalid, AllOf(HasSubstr("i32"), HasSubstr("f32"))));
  EXPECT_THAT(
      (*session)->Run(
          {.feeds = {{"x", HostTensor::Of<float>({kBatch, kIo}, {1, 2})}},
           .fetches = fetches}),
      StatusIs(kInvalid,
               AllOf(HasSubstr("the feed of \"x\": 2 values for the 15 "),
                     HasSubstr("session_errors_test.cc:"))));
  EXPECT_OK(
      (*session)->Run({.feeds = {{"x", Ascending()}}, .fetches = fetches}));
}

TEST(SessionErrors, UpdatesThatSetNoVariableAreErrors) {
  Graph graph;
  const Counting program(graph);
  const int line = __LINE__ + 1;
  const Tensor next = program.counter + 1.0;
  const Tensor group = Group(graph, {next, program.counter});
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  EXPECT_THAT(
      (*session)->Run({.updates = {next}}),
      StatusIs(
          kInvalid,
          AllOf(HasSubstr("update 0, \"add"), HasSubstr("sets no variable"),
                HasSubstr(absl::StrCat("session_errors_test.cc:", line)),
                HasSubstr("Assign()"), HasSubstr("fetch"))));
  EXPECT_THAT((*session)->Run({.feeds = {{"x", Ascending()}},
                               .updates = {program.update, group}}),
              StatusIs(kInvalid, HasSubstr("update 1, \"group")));
  EXPECT_EQ((*session)->step(), 0);
  EXPECT_EQ(*(*session)->ReadVariable("counter")->At(0), 0);
}

// One map of feeds serves requests that need different inputs.
TEST(SessionErrors, FeedsThatARequestDoesNotNeedAreAccepted) {
  Graph graph;
  const Counting program(graph);
  const Tensor labels = Input(graph, "labels", kInt32, {kBatch});
  const Tensor count = ReduceSum(labels, {});
  auto session = Session::Create(graph, "data:2", "batch:data");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const std::map<std::string, HostTensor> feeds = {
      {"x", Ascending()},
      {"labels", HostTensor::Of<int32_t>({kBatch}, {1, 2, 3, 4, 5})}};
  EXPECT_OK((*session)->Run({.feeds = feeds, .fetches = {program.y}}));
  const auto sum = (*session)->Run({.feeds = feeds, .fetches = {count}});
  ASSERT_OK(sum);
  EXPECT_EQ(*(*sum)[0].At(0), 15);
  const auto shards = (*session)->InputShards({.fetches = {program.y}}, "x");
  ASSERT_OK(shards);
  EXPECT_OK((*session)->Run({.feeds = {{"labels", feeds.at("labels")}},
                             .feed_shards = {{"x", *shards}},
                             .fetches = {count}}));
  EXPECT_THAT((*session)->Run({.feeds = {{"labels", feeds.at("labels")}},
                               .feed_shards = {{"xs", *shards}},
                               .fetches = {count}}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no input of the graph is called \"xs\"")));
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
