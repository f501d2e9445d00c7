// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (starts other programs)
//
// What mtf train reads, and how.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/tools/run_mtf.h"

namespace mtf {
namespace {

using ::mtf::testing::Outcome;
using ::mtf::testing::RunMtf;
using ::mtf::testing::Temporary;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MtfTrainData : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    std::ofstream lines(Path("lines.jsonl")), other(Path("other.jsonl"));
    for (int file = 0; file < 3; ++file) {
      std::string text;
      for (int i = 0; i < 60; ++i) {
        absl::StrAppend(&text, file * i, " and ", i * i, "; ");
      }
      std::ofstream(Path(absl::StrCat("text_", file))) << text;
      lines << "{\"id\": " << file << ", \"text\": \"" << text << "\"}\n";
      other << "{\"body\": \"" << text << "\"}\n";
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) {
    return absl::StrCat(folder_, "/", name);
  }
  Outcome Train(const std::string& data, const std::string& more) {
    return RunMtf(absl::StrCat(
        "train --data=", Path(data), " --log_json=", Path("log"),
        " --batch=4 --length=8 --warmup_steps=2 --steps=5 "
        "--config='{\"layers\":1,\"d_model\":12,\"heads\":2,\"d_kv\":6,"
        "\"d_ff\":16}' ",
        more));
  }
  // The losses of a run that must succeed.
  std::vector<double> Losses(const std::string& data,
                             const std::string& more = "") {
    const Outcome run = Train(data, more);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return testing::LossesOf(Path("log"));
  }

  const std::string folder_ = Temporary("mtf_train_data");
};

// With the end token between two of them, as between files.
TEST_F(MtfTrainData, LinesOfJsonAreTexts) {
  const std::vector<double> expected = Losses("text_*");
  ASSERT_EQ(expected.size(), 5u);
  EXPECT_EQ(Losses("lines.jsonl"), expected);
  EXPECT_EQ(Losses("other.jsonl", "--text_field=body"), expected);
}

TEST_F(MtfTrainData, BadLinesFailOrAreLeftOut) {
  const std::vector<double> expected = Losses("lines.jsonl");
  std::ofstream(Path("lines.jsonl"), std::ios::app)
      << "{\"text\": 5}\n{\"text\"\n";
  const Outcome failed = Train("lines.jsonl", "");
  EXPECT_EQ(failed.exit_code, 74);
  EXPECT_THAT(failed.errors,
              AllOf(StartsWith("DATA_LOSS "), HasSubstr("lines.jsonl:4")));
  const Outcome skipped = Train("lines.jsonl", "--skip_bad_records");
  EXPECT_EQ(skipped.exit_code, 0) << skipped.errors;
  EXPECT_THAT(skipped.out, AllOf(HasSubstr("note: left out 2 bad records\n"),
                                 HasSubstr("lines.jsonl:4"),
                                 HasSubstr("lines.jsonl:5")));
  EXPECT_EQ(Losses("lines.jsonl", "--skip_bad_records"), expected);
  const Outcome none =
      Train("lines.jsonl", "--skip_bad_records --text_field=title");
  EXPECT_THAT(none.errors, HasSubstr("has 0 tokens, but a window needs"));
}

TEST_F(MtfTrainData, AnyNumberOfReadersHasTheSameLosses) {
  const std::vector<double> expected = Losses("text_0", "--readers=0");
  for (const char* readers : {"--readers=1", "--readers=3"}) {
    EXPECT_EQ(Losses("text_0", readers), expected) << readers;
  }
  EXPECT_EQ(Train("text_0", "--readers=300").exit_code, 2);
}

}  // namespace
}  // namespace mtf
