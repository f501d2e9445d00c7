// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/loop/event_file.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/run_command.h"

namespace mtf::train {
namespace {

using ::mtf::testing::ReadText;
using ::mtf::testing::StatusIs;
using ::mtf::testing::Temporary;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

double FixedClock() { return 1700000000.5; }

// A new folder, removed at the end.
class EventFile : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Overwrites the file with `bytes` and reads it.
  absl::StatusOr<std::vector<Event>> Read(const std::string& bytes) {
    const std::string path = absl::StrCat(folder_, "/changed");
    std::ofstream(path, std::ios::binary) << bytes;
    return ReadEvents(path);
  }

  const std::string folder_ = Temporary("events");
};

// Files of TensorFlow begin with these bytes: the length 24 and its checksum,
// then the field wall_time and "brain.Event:2".
TEST_F(EventFile, HasTheBytesOfTheFormat) {
  const auto writer = EventWriter::Create(folder_, &FixedClock);
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->AddScalars(3, {{"loss", 0.5}}));
  ASSERT_OK((*writer)->Flush());
  const std::string bytes = ReadText((*writer)->path());
  const std::string version(
      "\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22"
      "\x09\0\0\x20\x40\xfc\x54\xd9\x41\x1a\x0d"
      "brain.Event:2",
      36);
  EXPECT_EQ(bytes.substr(0, 36), version);
  const std::string scalar(
      "\x09\0\0\x20\x40\xfc\x54\xd9\x41\x10\x03\x2a\x0d\x0a\x0b\x0a\x04"
      "loss\x15\0\0\0\x3f",
      26);
  EXPECT_EQ(bytes.substr(36 + 4 + 12, 26), scalar);
  EXPECT_EQ(bytes.size(), 36u + 4 + 12 + 26 + 4);
}

TEST_F(EventFile, ReadsWhatItWrote) {
  const auto writer = EventWriter::Create(folder_, &FixedClock);
  ASSERT_OK(writer);
  const Histogram histogram = MakeHistogram({-2, 0.25, 0.25, 1e-20, 7});
  ASSERT_OK((*writer)->AddStart(0));
  ASSERT_OK((*writer)->AddScalars(1, {{"a", 1.5}, {"b/c", -2}}));
  ASSERT_OK((*writer)->AddHistogram(1LL << 40, "weights", histogram));
  ASSERT_OK((*writer)->AddText(7, "sample", "two\nlines"));
  ASSERT_OK((*writer)->AddCharts("t", {{"loss", {"^loss$"}}}));
  ASSERT_OK((*writer)->Flush());
  const auto events = ReadEvents((*writer)->path());
  ASSERT_OK(events);
  ASSERT_EQ(events->size(), 6u);
  EXPECT_EQ((*events)[0].file_version, "brain.Event:2");
  EXPECT_EQ((*events)[0].wall_time, 1700000000.5);
  EXPECT_TRUE((*events)[1].starts);
  EXPECT_EQ((*events)[2].step, 1);
  EXPECT_EQ((*events)[2].scalars.at("a"), 1.5f);
  EXPECT_EQ((*events)[2].scalars.at("b/c"), -2.0f);
  EXPECT_EQ((*events)[3].step, 1LL << 40);
  EXPECT_TRUE((*events)[3].histograms.at("weights") == histogram);
  EXPECT_EQ((*events)[4].texts.at("sample"), "two\nlines");
  // A Layout of TensorBoard, serialized.
  EXPECT_EQ((*events)[5].texts.at("custom_scalars__config__"),
            "\x12\x15\x0a\x01t\x12\x10\x0a\x04loss\x12\x08\x0a\x06^loss$");
}

TEST_F(EventFile, ANeighbourKeepsItsFile) {
  const auto first = EventWriter::Create(folder_, &FixedClock);
  const auto second = EventWriter::Create(folder_, &FixedClock);
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_EQ((*second)->path(), (*first)->path() + ".1");
}

TEST_F(EventFile, AnUnwritableFolderIsAnError) {
  EXPECT_THAT(
      EventWriter::Create("/proc/none/events"),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("/proc/none")));
  EXPECT_THAT(
      ReadEvents("/no/such/file"),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/file")));
}

TEST_F(EventFile, EndsAtARecordThatIsNotComplete) {
  const auto writer = EventWriter::Create(folder_, &FixedClock);
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->AddScalars(1, {{"loss", 1}}));
  ASSERT_OK((*writer)->Flush());
  const std::string bytes = ReadText((*writer)->path());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto events = Read(bytes.substr(0, size));
    ASSERT_OK(events) << size;
    EXPECT_EQ(events->size(), size < 40 ? 0u : 1u) << size;
  }
}

TEST_F(EventFile, EveryFlippedBitIsFound) {
  const auto writer = EventWriter::Create(folder_, &FixedClock);
  ASSERT_OK(writer);
  const std::string bytes = ReadText((*writer)->path());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    EXPECT_THAT(Read(changed), StatusIs(absl::StatusCode::kDataLoss,
                                        HasSubstr("checksum at byte 0")));
  }
}

TEST(Histogram, CountsFiniteValuesInBucketsThatContainThem) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {1, 3, 3, -5, 0, infinity, std::nan("")};
  const Histogram histogram = MakeHistogram(values);
  EXPECT_EQ(histogram.min, -5);
  EXPECT_EQ(histogram.max, 3);
  EXPECT_EQ(histogram.count, 5);
  EXPECT_EQ(histogram.sum, 2);
  EXPECT_EQ(histogram.sum_of_squares, 44);
  EXPECT_THAT(histogram.counts, ElementsAre(1, 1, 1, 2));
  for (size_t i = 1; i < histogram.limits.size(); ++i) {
    EXPECT_LT(histogram.limits[i - 1], histogram.limits[i]);
  }
  EXPECT_GE(histogram.limits[0], -5);
  EXPECT_LE(histogram.limits[0], -5 / 1.11);
  EXPECT_GE(histogram.limits[3], 3);
  EXPECT_LE(histogram.limits[3], 3 * 1.11);
  EXPECT_EQ(MakeHistogram({}).count, 0);
}

TEST(Histogram, LimitsOfTheLargestAndSmallestValues) {
  const double most = std::numeric_limits<double>::max();
  const double least = std::numeric_limits<double>::denorm_min();
  const Histogram histogram = MakeHistogram({most, -most, least, -least});
  EXPECT_THAT(histogram.counts, ElementsAre(1, 2, 1));
  EXPECT_LT(histogram.limits[0], -1e290);
  EXPECT_EQ(histogram.limits[1], 0);
  EXPECT_GE(histogram.limits[2], most);
}

TEST(Histogram, OfTwoPartsIsTheirSum) {
  const std::vector<double> values = {-7, 0.5, 0.5, 0, 1e-13, 3, -7, 1e9};
  const absl::Span<const double> all = values;
  for (size_t first = 0; first <= values.size(); ++first) {
    Histogram sum = MakeHistogram(all.subspan(0, first));
    AddHistogram(MakeHistogram(all.subspan(first)), sum);
    const Histogram whole = MakeHistogram(all);
    EXPECT_EQ(sum.limits, whole.limits);
    EXPECT_EQ(sum.counts, whole.counts);
    EXPECT_EQ(sum.min, -7);
    EXPECT_EQ(sum.max, 1e9);
    EXPECT_EQ(sum.count, 8);
    EXPECT_DOUBLE_EQ(sum.sum, whole.sum);
    EXPECT_DOUBLE_EQ(sum.sum_of_squares, whole.sum_of_squares);
  }
}

}  // namespace
}  // namespace mtf::train
