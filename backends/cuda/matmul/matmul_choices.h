// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_MATMUL_MATMUL_CHOICES_H_
#define BACKENDS_CUDA_MATMUL_MATMUL_CHOICES_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/cuda/disk_cache.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// A library that knows several algorithms for a matmul, each told as bytes.
class MatmulLibrary {
 public:
  virtual ~MatmulLibrary() = default;
  // What timings hold for: the library and the GPU, in one line.
  virtual std::string Version() const = 0;
  // At least one, what its heuristics think the fastest first;
  // kUnimplemented where it has nothing for `problem`.
  virtual absl::StatusOr<std::vector<std::string>> Candidates(
      const MatmulProblem& problem, int most) = 0;
  // Whether this library on this GPU can run `algorithm`, which may come from
  // another of either.
  virtual bool Accepts(const MatmulProblem& problem,
                       const std::string& algorithm) = 0;
  // The place of the fastest; none where they cannot be timed.
  virtual std::optional<size_t> Fastest(
      const MatmulProblem& problem,
      absl::Span<const std::string> candidates) = 0;
};

// One algorithm for each problem. A process alone takes the fastest of those
// that the heuristics name, and keeps it on disk by version and problem.
//
// What ranks of a clique compute alike must be alike to the last bit, and only
// one algorithm gives that, which clocks would not: each rank begins with the
// first of its heuristics, and where all ranks meet (Settle) rank 0's choice,
// from its disk or its clocks, takes the place of that on all of them.
class MatmulChoices {
 public:
  // What a matmul runs; Settle may write it until the first run.
  struct Choice {
    std::string algorithm;
  };

  // `library` outlives this object.
  MatmulChoices(MatmulLibrary& library, DiskCache cache)
      : library_(library), cache_(std::move(cache)) {}

  // `may_time`: false while the GPU records. Errors of Candidates.
  absl::StatusOr<std::shared_ptr<const Choice>> Choose(
      const MatmulProblem& problem, bool may_time);

  // This process is a rank of several from now on, and chooses anew.
  void JoinClique();

  // Agrees on the problems that are new since the last call; `rank` is that in
  // the clique. Two exchanges whatever the ranks bring (one where rank 0 has
  // nothing new): a cache that is warm on some ranks only, clocks that fail, or
  // problems that not all have, make none of them wait for another.
  //
  // A choice that some rank cannot run, or a problem that it has not, leaves
  // each with its heuristics. What the user should know of that is returned, on
  // every rank; "" where there is nothing. Errors of `exchange`.
  absl::StatusOr<std::string> Settle(int rank, const ExchangeTexts& exchange);

 private:
  struct Pending {
    MatmulProblem problem;
    std::shared_ptr<Choice> choice;
  };

  // What a process that is alone takes.
  absl::StatusOr<std::string> ChooseAlone(const MatmulProblem& problem,
                                          bool may_time);
  // What this rank tells the others: its version, and a line for each pending
  // problem; of rank 0 with its choice.
  std::string Proposal(int rank);
  // Takes over what rank 0 has proposed where the answers of all ranks say yes.
  std::string Adopt(const std::vector<std::string>& proposals,
                    const std::vector<std::string>& answers);
  Pending* FindPending(absl::string_view problem);

  MatmulLibrary& library_;
  const DiskCache cache_;
  std::mutex mutex_;
  bool alone_ = true;
  std::map<std::string, std::shared_ptr<Choice>> chosen_;  // by problem
  std::vector<Pending> pending_;                           // as they came
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_MATMUL_MATMUL_CHOICES_H_
