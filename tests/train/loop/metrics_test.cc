// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/loop/metrics.h"

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

std::string Path(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/", name);
}

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Metrics, EvaluationsAreLinesOfTheirOwn) {
  const std::string path = Path("evaluations.json");
  auto writer = MetricsWriter::Create(path);
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->Write({.step = 0, .loss = 5}));
  ASSERT_OK((*writer)->WriteEvaluation({1, {{"loss", 4.5}, {"right", 0.5}}}));
  ASSERT_OK((*writer)->Write({.step = 1, .loss = 4, .share_of_peak = 0.5}));
  EXPECT_THAT(ReadText(path),
              HasSubstr("\n{\"evaluation\":{\"loss\":4.5,\"right\":0.5},"
                        "\"step\":1}\n"));
  const auto steps = ReadMetrics(path);
  ASSERT_OK(steps);
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[1].share_of_peak, 0.5);
  const auto evaluations = ReadEvaluations(path);
  ASSERT_OK(evaluations);
  ASSERT_EQ(evaluations->size(), 1u);
  EXPECT_EQ((*evaluations)[0].step, 1);
  EXPECT_EQ((*evaluations)[0].values.at("right"), 0.5);
}

TEST(Metrics, AResumedLogHasEachStepOnce) {
  const std::string path = Path("resumed.json");
  {
    auto writer = MetricsWriter::Create(path);
    ASSERT_OK(writer);
    for (int step = 0; step < 6; ++step) {
      ASSERT_OK((*writer)->Write({.step = step, .loss = 1}));
      ASSERT_OK((*writer)->WriteEvaluation({step + 1, {{"loss", 2}}}));
    }
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 6, \"lo";  // killed
  auto writer = MetricsWriter::Resume(path, 4);
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->Write({.step = 4, .loss = 3}));
  const auto steps = ReadMetrics(path);
  ASSERT_OK(steps);
  ASSERT_EQ(steps->size(), 5u);
  for (int step = 0; step < 5; ++step) EXPECT_EQ((*steps)[step].step, step);
  EXPECT_EQ(steps->back().loss, 3);
  EXPECT_EQ(ReadEvaluations(path)->size(), 4u);
  ASSERT_OK(MetricsWriter::Resume(Path("no_log_yet.json"), 4));
}

TEST(Metrics, AStepIsOneLineOfJson) {
  const std::string path = Path("one.json");
  auto writer = MetricsWriter::Create(path);
  ASSERT_OK(writer);
  ASSERT_OK(
      (*writer)->Write({.step = 3,
                        .loss = 2.5,
                        .tokens_per_s = 1000,
                        .collectives = {{"all_reduce", "data", 2, 96},
                                        {"all_reduce", "model", 4, 8},
                                        {"all_gather", "data+model", 1, 24}}}));
  EXPECT_EQ(ReadText(path),
            "{\"collectives\":{\"all_gather\":{\"data+model\":{\"bytes\":24,"
            "\"calls\":1}},\"all_reduce\":{\"data\":{\"bytes\":96,\"calls\":2},"
            "\"model\":{\"bytes\":8,\"calls\":4}}},\"loss\":2.5,\"step\":3,"
            "\"tokens_per_s\":1000.0}\n");
}

TEST(Metrics, ASummaryMayBeNaN) {
  const std::string path = Path("nan.json");
  ASSERT_OK((*MetricsWriter::Create(path))
                ->Write({.summaries = {{"norm", std::nan("")}, {"x", 1}}}));
  EXPECT_THAT(ReadText(path),
              HasSubstr("\"summaries\":{\"norm\":null,\"x\":1.0}"));
  const auto read = ReadMetrics(path);
  ASSERT_OK(read);
  EXPECT_TRUE(std::isnan((*read)[0].summaries.at("norm")));
}

TEST(Metrics, ReadsWhatItWrote) {
  const std::string path = Path("two.json");
  const StepMetrics steps[] = {
      {0, 5.545177444479562, 123.25, {}},
      {1, 0.1, 1e6, {{"all_gather", "a", 1, 24}, {"all_reduce", "b", 2, 96}}},
      {2, 0.1, 1e6, {}, {{"gradient_norm", 0.25}, {"layer/x", 1e300}}}};
  auto writer = MetricsWriter::Create(path);
  ASSERT_OK(writer);
  for (const StepMetrics& step : steps) ASSERT_OK((*writer)->Write(step));
  const auto read = ReadMetrics(path);
  ASSERT_OK(read);
  EXPECT_THAT(*read, ::testing::ElementsAreArray(steps));
  EXPECT_EQ((*read)[1].TotalCalls(), 3);
  EXPECT_EQ((*read)[1].TotalBytes(), 120);
}

TEST(Metrics, ANewLogReplacesAnOldOne) {
  const std::string path = Path("three.json");
  ASSERT_OK((*MetricsWriter::Create(path))->Write({.step = 1}));
  ASSERT_OK((*MetricsWriter::Create(path))->Write({.step = 2}));
  ASSERT_OK(ReadMetrics(path));
  EXPECT_EQ(ReadMetrics(path)->size(), 1u);
}

TEST(Metrics, AnUnwritableLogIsNamed) {
  EXPECT_THAT(MetricsWriter::Create("/no/such/folder/log.json"),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("\"/no/such/folder/log.json\"")));
}

TEST(Metrics, AFullDiskIsReported) {
  auto writer = MetricsWriter::Create("/dev/full");
  ASSERT_OK(writer);
  EXPECT_THAT(
      (*writer)->Write({.step = 4}),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cannot write step 4")));
}

TEST(Metrics, WrongLinesAreNamed) {
  EXPECT_THAT(ReadMetrics("/no/such/log.json"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("\"/no/such/log.json\"")));
  for (const char* line :
       {"{", "[]", "7", "{\"step\":1}",
        "{\"step\":1,\"loss\":\"x\",\"tokens_per_s\":1,\"collectives\":{}}",
        "{\"step\":1,\"loss\":1,\"tokens_per_s\":1,\"collectives\":[]}",
        "{\"step\":1,\"loss\":1,\"tokens_per_s\":1,\"collectives\":{},"
        "\"summaries\":{\"x\":\"y\"}}",
        "{\"step\":1,\"loss\":1,\"tokens_per_s\":1,\"collectives\":{\"a\":1}}",
        "{\"step\":1,\"loss\":1,\"tokens_per_s\":1,"
        "\"collectives\":{\"a\":{\"b\":{}}}}"}) {
    const std::string path = Path("wrong.json");
    std::ofstream(path) << line << "\n";
    EXPECT_THAT(ReadMetrics(path), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("line 1 of the log")))
        << line;
  }
}

}  // namespace
}  // namespace mtf::train
