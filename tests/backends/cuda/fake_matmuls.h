// SPDX-License-Identifier: Apache-2.0
//
// A matmul library whose algorithms add in different orders, so that the bits
// reveal which one ran.
#ifndef TESTS_BACKENDS_CUDA_FAKE_MATMULS_H_
#define TESTS_BACKENDS_CUDA_FAKE_MATMULS_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "backends/cuda/matmul/matmul_choices.h"

namespace mtf::cuda::testing {

// An algorithm is the index of k at which its sums begin, as text: "3".
class FakeMatmuls : public MatmulLibrary {
 public:
  std::string Version() const override { return version; }
  absl::StatusOr<std::vector<std::string>> Candidates(const MatmulProblem&,
                                                      int most) override {
    if (heuristics.empty()) return absl::UnimplementedError("nothing for it");
    const size_t count = std::min<size_t>(most, heuristics.size());
    return std::vector<std::string>(heuristics.begin(),
                                    heuristics.begin() + count);
  }
  bool Accepts(const MatmulProblem&, const std::string& algorithm) override {
    return algorithm != refused;
  }
  std::optional<size_t> Fastest(
      const MatmulProblem&, absl::Span<const std::string> candidates) override {
    ++timings;
    if (clock_fails) return std::nullopt;
    const auto at = std::find(candidates.begin(), candidates.end(), fastest);
    return at == candidates.end() ? 0 : at - candidates.begin();
  }

  std::string version = "fake 1";
  std::vector<std::string> heuristics = {"0", "1", "2"};
  std::string fastest = "1", refused;
  bool clock_fails = false;
  std::atomic<int> timings{0};
};

// Runs at the call, on float32.
class FakeMatmul : public PreparedMatmul {
 public:
  FakeMatmul(const MatmulProblem& problem,
             std::shared_ptr<const MatmulChoices::Choice> choice)
      : problem_(problem), choice_(std::move(choice)) {}

  void Run(const Buffers& buffers) override {
    const MatmulProblem& p = problem_;
    int begin = 0;
    (void)absl::SimpleAtoi(choice_->algorithm, &begin);
    const auto* x = static_cast<const float*>(buffers.x);
    const auto* y = static_cast<const float*>(buffers.y);
    auto* z = static_cast<float*>(buffers.z);
    for (int64_t m = 0; m < p.m; ++m) {
      for (int64_t n = 0; n < p.n; ++n) {
        float sum = 0;
        for (int64_t i = 0; i < p.k; ++i) {
          const int64_t k = (i + begin) % p.k;
          sum += x[ElementOffset(p.x, m, k)] * y[ElementOffset(p.y, k, n)];
        }
        z[ElementOffset(p.z, m, n)] = sum;
      }
    }
  }

 private:
  static int64_t ElementOffset(const MatmulProblem::Matrix& matrix, int64_t row,
                               int64_t column) {
    return matrix.transposed ? column * matrix.leading + row
                             : row * matrix.leading + column;
  }

  const MatmulProblem problem_;
  const std::shared_ptr<const MatmulChoices::Choice> choice_;
};

}  // namespace mtf::cuda::testing

#endif  // TESTS_BACKENDS_CUDA_FAKE_MATMULS_H_
