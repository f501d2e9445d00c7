// SPDX-License-Identifier: Apache-2.0
//
// Runs the command mtf with temporary files.
#ifndef TESTS_TOOLS_RUN_MTF_H_
#define TESTS_TOOLS_RUN_MTF_H_

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/run_command.h"
#include "train/loop/metrics.h"

namespace mtf::testing {

// A temporary file that contains `text`; removed by the destructor.
class File {
 public:
  File(const std::string& name, const std::string& text)
      : path_(Temporary(name)) {
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs mtf with a time limit, so that a hang is a failure. `before` is shell
// code that precedes it.
inline Outcome RunMtf(const std::string& arguments,
                      const std::string& before = "") {
  return RunCommand(
      absl::StrCat(before, "timeout 120 ", MTF_COMMAND, " ", arguments));
}

// The losses of the log that --log_json=`path` wrote, one for each step.
inline std::vector<double> LossesOf(const std::string& path) {
  std::vector<double> losses;
  const auto steps = train::ReadMetrics(path);
  EXPECT_OK(steps);
  if (!steps.ok()) return losses;
  for (const auto& step : *steps) losses.push_back(step.loss);
  return losses;
}

}  // namespace mtf::testing

#endif  // TESTS_TOOLS_RUN_MTF_H_
