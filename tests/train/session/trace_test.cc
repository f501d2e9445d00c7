// SPDX-License-Identifier: Apache-2.0
//
// --trace: a file for trace viewers with the first steps of all ranks.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/matchers.h"
#include "tests/run_command.h"
#include "tests/train/small_lm.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

json ReadTrace(const std::string& path) {
  std::ifstream file(path);
  json trace = json::parse(file, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(trace.is_discarded()) << path << " is not JSON";
  return trace;
}

struct Traced {
  std::vector<double> losses;
  CollectiveCounts counts;  // of a step, of rank 0
  json events;
};

// Five steps of the small model on four ranks, `steps` of them traced.
absl::StatusOr<Traced> Train(const std::string& path, int64_t steps,
                             const std::string& backend = "cpu") {
  Graph graph;
  const SmallLm model = BuildSmallLm(graph);
  const TextDataset text = SmallText();
  SessionOptions options;
  options.seed = 7;
  options.backend = backend;
  options.trace = path;
  options.trace_steps = steps;
  MTF_ASSIGN_OR_RETURN(
      const std::unique_ptr<Session> session,
      Session::Create(graph, "data:2,model:2", "data_model", options));
  MTF_RETURN_IF_ERROR(session->Initialize());
  const auto feeds = TextFeeds(text, model.tokens, model.targets, 7);
  Traced traced;
  for (int step = 0; step < 5; ++step) {
    // Runs without updates are not traced.
    MTF_RETURN_IF_ERROR(session->Run({.fetches = {model.mask}}).status());
    RunRequest request = {.fetches = {model.loss}, .updates = {model.step}};
    MTF_ASSIGN_OR_RETURN(request.feeds, feeds(step));
    session->ResetCounts();
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> loss,
                         session->Run(request));
    traced.losses.push_back(*loss[0].At(0));
    traced.counts = session->counts();
  }
  if (!path.empty()) traced.events = ReadTrace(path)["traceEvents"];
  return traced;
}

std::string TracePath(const std::string& name) {
  return mtf::testing::Temporary(absl::StrCat(name, ".json"));
}

class TraceOn : public ::testing::TestWithParam<std::string> {};

TEST_P(TraceOn, HasARowForEachRankWithItsInstructions) {
  const absl::StatusOr<Traced> traced = Train(TracePath("rows"), 2, GetParam());
  ASSERT_OK(traced);
  std::map<int, int64_t> instructions, wire_bytes;
  std::map<int, double> last_end;
  std::set<std::string> names, lines;
  for (const json& event : traced->events) {
    const int rank = event["pid"];
    if (event["ph"] == "M") continue;
    ASSERT_EQ(event["ph"], "X");
    // The events of a rank do not overlap.
    const double begin = event["ts"], duration = event["dur"];
    EXPECT_GE(begin, last_end[rank] - 0.002);
    EXPECT_GE(duration, 0);
    last_end[rank] = begin + duration;
    names.insert(event["name"].get<std::string>());
    const json& arguments = event["args"];
    if (event["cat"] == "step") continue;
    ++instructions[rank];
    EXPECT_GE(arguments["bytes"], 0);
    EXPECT_NE(arguments["instruction"], "");
    if (arguments.contains("line")) lines.insert(arguments["line"]);
    if (event["cat"] != "collective") continue;
    wire_bytes[rank] += arguments["wire_bytes"].get<int64_t>();
    EXPECT_THAT(arguments["axes"].get<std::string>(),
                ::testing::AnyOf("data", "model", "data+model"));
    // The group of a rank contains it.
    const std::string ranks =
        absl::StrCat(",", arguments["ranks"].get<std::string>(), ",");
    EXPECT_THAT(ranks, HasSubstr(absl::StrCat(",", rank, ",")));
  }
  ASSERT_EQ(instructions.size(), 4u);
  for (const auto& [rank, count] : instructions) {
    EXPECT_EQ(count, instructions[0]);
    EXPECT_GT(count, 50);
  }
  int64_t counted = 0;
  for (const auto& [key, count] : traced->counts) counted += count.bytes;
  EXPECT_GT(counted, 0);
  EXPECT_EQ(wire_bytes[0], 2 * counted) << "of two steps";
  EXPECT_TRUE(names.contains("feeds"));
  bool from_here = false;
  for (const std::string& line : lines) {
    from_here = from_here || line.rfind("small_lm.h:", 0) == 0;
  }
  EXPECT_TRUE(from_here) << "no line of the user";
}

TEST_P(TraceOn, DoesNotChangeResultsOrCounts) {
  const absl::StatusOr<Traced> plain = Train("", 3, GetParam());
  const absl::StatusOr<Traced> traced = Train(TracePath("same"), 3, GetParam());
  ASSERT_OK(plain);
  ASSERT_OK(traced);
  EXPECT_EQ(plain->losses, traced->losses);
  EXPECT_EQ(plain->counts, traced->counts);
}

INSTANTIATE_TEST_SUITE_P(Backends, TraceOn,
                         ::testing::Values("cpu", "cuda_emulated"),
                         [](const auto& info) { return info.param; });

TEST(Trace, HasTheRequestedNumberOfSteps) {
  std::map<int64_t, size_t> events;
  for (int64_t steps : {1, 2, 100}) {
    const absl::StatusOr<Traced> traced = Train(TracePath("steps"), steps);
    ASSERT_OK(traced);
    events[steps] = traced->events.size();
  }
  EXPECT_EQ(events[2], 2 * events[1]);
  EXPECT_EQ(events[100], 5 * events[1]) << "five steps are all there were";
}

TEST(Trace, AFileThatCannotBeWrittenIsAnErrorOfTheStep) {
  EXPECT_THAT(Train("/no/such/folder/trace.json", 1),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("cannot write the trace to "
                                 "\"/no/such/folder/trace.json\"")));
}

}  // namespace
}  // namespace mtf::train
