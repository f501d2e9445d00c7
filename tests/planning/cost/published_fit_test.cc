// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (large models)
//
// Fits three numbers of a100_nvlink_ib.machine to three published step times,
// and compares them with those in the file.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tests/matchers.h"
#include "tests/planning/cost/published_runs.h"

namespace mtf::testing {
namespace {

// Memory bandwidth in TB/s, and the fractions of the peak at 1e11 and 1e12
// FLOP.
using Fitted = std::array<double, 3>;

// The machine file with its fitted numbers replaced by "<0>", "<1>" and "<2>",
// and the text of these numbers.
struct MachineTemplate {
  std::string text;
  std::vector<std::string> written[3];
};

MachineTemplate ReadMachineTemplate() {
  std::ifstream in(std::filesystem::path(GOLDEN_DIR) /
                   "../../planning/machine/machines/a100_nvlink_ib.machine");
  MachineTemplate file;
  file.text.assign(std::istreambuf_iterator<char>(in), {});
  const auto replace_number = [&](const std::string& before, int which) {
    size_t at = 0;
    while ((at = file.text.find(before, at)) != std::string::npos) {
      at = file.text.find_first_not_of(' ', at + before.size());
      const size_t end = file.text.find_first_of(" \n", at);
      file.written[which].push_back(file.text.substr(at, end - at));
      file.text.replace(at, end - at, absl::StrCat("<", which, ">"));
    }
  };
  replace_number(" 1e11:", 1);
  replace_number(" 1e12:", 2);
  // Only the bandwidth of the device is fitted, not those of links.
  const size_t links = file.text.find("\n[link ");
  const std::string rest = file.text.substr(links);
  file.text.resize(links);
  replace_number("\nbandwidth ", 0);
  file.text += rest;
  return file;
}

Machine WithNumbers(const std::string& text, const Fitted& numbers) {
  const auto number = [&](int i) {
    return absl::StrFormat("%.12g", numbers[i]);
  };
  const auto machine = Machine::Parse(
      absl::StrReplaceAll(
          text, {{"<0>", number(0)}, {"<1>", number(1)}, {"<2>", number(2)}}),
      "a100_nvlink_ib");
  MTF_CHECK(machine.ok()) << machine.status().ToString();
  return *machine;
}

// Solves a x = b by Gauss-Jordan elimination.
Fitted Solve(std::array<Fitted, 3> a, Fitted b) {
  for (int i = 0; i < 3; ++i) {
    for (int row = 0; row < 3; ++row) {
      if (row == i) continue;
      const double factor = a[row][i] / a[i][i];
      for (int j = 0; j < 3; ++j) a[row][j] -= factor * a[i][j];
      b[row] -= factor * b[i];
    }
  }
  return {b[0] / a[0][0], b[1] / a[1][1], b[2] / a[2][2]};
}

// Published runs with their programs.
struct Runs {
  explicit Runs(const std::vector<PublishedRun>& runs) : published(runs) {
    for (const PublishedRun& run : runs) programs.emplace_back(run);
  }
  std::vector<double> Errors(const Machine& machine) const {
    std::vector<double> errors;
    for (size_t i = 0; i < programs.size(); ++i) {
      errors.push_back(programs[i].StepSeconds(machine) / published[i].seconds -
                       1);
    }
    return errors;
  }
  std::vector<PublishedRun> published;
  std::vector<RunPrograms> programs;
};

// Minimizes the sum of squares of the relative errors of `runs` by the
// Gauss-Newton method, starting at `numbers`.
Fitted Fit(const std::string& text, const Runs& runs, Fitted numbers) {
  for (int step = 0; step < 50; ++step) {
    const auto errors_of = [&](const Fitted& at) {
      return runs.Errors(WithNumbers(text, at));
    };
    const std::vector<double> errors = errors_of(numbers);
    std::array<std::vector<double>, 3> slopes;
    for (int j = 0; j < 3; ++j) {
      // Backward differences: fractions of a peak do not exceed 1.
      Fitted near = numbers;
      near[j] *= 1 - 1e-4;
      slopes[j] = errors_of(near);
      for (size_t i = 0; i < errors.size(); ++i) {
        slopes[j][i] = (slopes[j][i] - errors[i]) / (near[j] - numbers[j]);
      }
    }
    std::array<Fitted, 3> squares = {};
    Fitted down = {};
    for (size_t i = 0; i < errors.size(); ++i) {
      for (int j = 0; j < 3; ++j) {
        for (int k = 0; k < 3; ++k)
          squares[j][k] += slopes[j][i] * slopes[k][i];
        down[j] -= slopes[j][i] * errors[i];
      }
    }
    const Fitted change = Solve(squares, down);
    double largest = 0;
    for (int j = 0; j < 3; ++j) {
      largest = std::max(largest, std::abs(change[j] / numbers[j]));
    }
    // Limit each step to a fifth of the number.
    for (int j = 0; j < 3; ++j) {
      numbers[j] += change[j] * std::min(1.0, 0.2 / largest);
      if (j > 0) numbers[j] = std::min(numbers[j], 1.0);
    }
    if (largest < 1e-9) return numbers;
  }
  ADD_FAILURE() << "the fit does not converge";
  return numbers;
}

// Nominal bandwidth and half of the peak, independent of the shipped numbers.
constexpr Fitted kStart = {2.04, 0.5, 0.5};

TEST(PublishedFit, ShippedNumbersAreFittedToThreeRuns) {
  const MachineTemplate file = ReadMachineTemplate();
  const Runs runs(FittedRuns());
  ASSERT_EQ(runs.programs.size(), 3u);
  const Fitted numbers = Fit(file.text, runs, kStart);
  // As many equations as numbers: the errors vanish.
  for (double error : runs.Errors(WithNumbers(file.text, numbers))) {
    EXPECT_NEAR(error, 0, 1e-6);
  }
  const std::string shipped[] = {absl::StrFormat("%.2f", numbers[0]),
                                 absl::StrFormat("%.3f", numbers[1]),
                                 absl::StrFormat("%.3f", numbers[2])};
  // The device has one number, each of the two matmul sections another.
  for (int i : {0, 1, 2}) {
    EXPECT_EQ(file.written[i],
              std::vector<std::string>(i == 0 ? 1 : 2, shipped[i]));
  }
}

TEST(PublishedFit, ConvergesToTheSameNumbersFromOtherStarts) {
  const std::string text = ReadMachineTemplate().text;
  const Runs runs(FittedRuns());
  const Fitted numbers = Fit(text, runs, kStart);
  for (const Fitted& start :
       {Fitted{0.5, 0.9, 0.3}, {4, 0.2, 0.95}, {1, 0.99, 0.99}}) {
    const Fitted other = Fit(text, runs, start);
    for (int i : {0, 1, 2}) EXPECT_NEAR(other[i], numbers[i], 1e-6);
  }
}

// Increasing any of the times by 1 % changes the fit, and every number depends
// on some of the times.
TEST(PublishedFit, DependsOnEveryRunInEveryNumber) {
  const std::string text = ReadMachineTemplate().text;
  const Runs runs(FittedRuns());
  const Fitted numbers = Fit(text, runs, kStart);
  std::array<bool, 3> moved = {};
  for (size_t i = 0; i < runs.published.size(); ++i) {
    Runs slower = runs;
    slower.published[i].seconds *= 1.01;
    const Fitted other = Fit(text, slower, kStart);
    bool matters = false;
    for (int j : {0, 1, 2}) {
      const bool changes = std::abs(other[j] / numbers[j] - 1) > 0.005;
      matters = matters || changes;
      moved[j] = moved[j] || changes;
    }
    EXPECT_TRUE(matters) << runs.published[i].name;
  }
  EXPECT_TRUE(moved[0] && moved[1] && moved[2]);
}

// Halves, doubles or removes each assumed number of the file and fits again:
// the checked runs do not depend on the choice of these numbers.
TEST(PublishedFit, AssumedNumbersHardlyMatter) {
  const std::string text = ReadMachineTemplate().text;
  const Runs fitted(FittedRuns()), checked(CheckedRuns());
  const std::vector<std::pair<std::string, std::vector<std::string>>> assumed =
      {{"latency    4 us", {"latency 2 us", "latency 8 us"}},
       {"latency    6.5 us", {"latency 3.25 us", "latency 13 us"}},
       {"latency    14 us", {"latency 7 us", "latency 28 us"}},
       {"1e8:0.03 1e9:0.2 1e10:0.5",
        {"1e8:0.015 1e9:0.1 1e10:0.25", "1e8:0.06 1e9:0.4 1e10:0.6"}},
       {"side       16:0.25 64:1", {"", "side 16:0.125 128:1"}},
       {"overlap    yes", {"overlap no"}},
       {"fusion     yes", {"fusion no"}}};
  for (const auto& [line, others] : assumed) {
    for (const std::string& other : others) {
      const std::string changed = absl::StrReplaceAll(text, {{line, other}});
      ASSERT_NE(changed, text) << line;
      const Fitted numbers = Fit(changed, fitted, kStart);
      double sum = 0, largest_error = 0;
      for (double error : checked.Errors(WithNumbers(changed, numbers))) {
        sum += std::abs(error);
        largest_error = std::max(largest_error, std::abs(error));
      }
      EXPECT_LT(sum / 5, 0.05) << other;
      EXPECT_LT(largest_error, 0.10) << other;
    }
  }
}

}  // namespace
}  // namespace mtf::testing
