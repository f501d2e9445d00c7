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

// A library with several algorithms for a matmul, each described by bytes.
class MatmulLibrary {
 public:
  virtual ~MatmulLibrary() = default;
  // The library's version and the GPU in one line; timings are valid for both.
  virtual std::string Version() const = 0;
  // Up to `most` algorithms, the fastest first according to the heuristics; at
  // least one. kUnimplemented if the library does not support `problem`.
  virtual absl::StatusOr<std::vector<std::string>> Candidates(
      const MatmulProblem& problem, int most) = 0;
  // Whether this library on this GPU can run `algorithm`, which may come from
  // another library version or GPU.
  virtual bool Accepts(const MatmulProblem& problem,
                       const std::string& algorithm) = 0;
  // The index of the fastest; nullopt if they cannot be timed.
  virtual std::optional<size_t> Fastest(
      const MatmulProblem& problem,
      absl::Span<const std::string> candidates) = 0;
};

// Chooses one algorithm per problem. A single process takes the fastest of
// those that the heuristics propose, and caches it on disk by version and
// problem.
//
// In a clique, replicas must be bitwise equal, so all ranks must run the same
// algorithm, and timings differ between ranks. Each rank starts with the first
// candidate of its heuristics. Settle, which is collective, replaces it on all
// ranks by rank 0's choice, from its disk or its timings.
class MatmulChoices {
 public:
  // The algorithm that a matmul runs. Settle may change it until the first run.
  struct Choice {
    std::string algorithm;
  };

  // `library` outlives this object.
  MatmulChoices(MatmulLibrary& library, DiskCache cache)
      : library_(library), cache_(std::move(cache)) {}

  // `may_time` is false during a recording. Errors of Candidates.
  absl::StatusOr<std::shared_ptr<const Choice>> Choose(
      const MatmulProblem& problem, bool may_time);

  // From now on this process is a rank of a clique, and chooses again.
  void JoinClique();

  // Agrees on the problems added since the last call; `rank` is that in the
  // clique. Always gathers twice (once if rank 0 has nothing new), so ranks do
  // not wait for each other if only some have a warm cache, if timings fail, or
  // if some lack a problem.
  //
  // If some rank cannot run a choice or lacks its problem, all ranks keep their
  // heuristics. Returns a note about that for the user, the same on every rank,
  // or "". Errors of `all_gather`.
  absl::StatusOr<std::string> Settle(int rank,
                                     const AllGatherTexts& all_gather);

 private:
  struct Pending {
    MatmulProblem problem;
    std::shared_ptr<Choice> choice;
  };

  // The choice of a single process.
  absl::StatusOr<std::string> ChooseAlone(const MatmulProblem& problem,
                                          bool may_time);
  // This rank's proposal: its version and a line per pending problem; rank 0's
  // also contains its choices.
  std::string Proposal(int rank);
  // Adopts rank 0's proposal where all ranks accept it.
  std::string Adopt(const std::vector<std::string>& proposals,
                    const std::vector<std::string>& answers);
  Pending* FindPending(absl::string_view problem);

  MatmulLibrary& library_;
  const DiskCache cache_;
  std::mutex mutex_;
  bool alone_ = true;
  std::map<std::string, std::shared_ptr<Choice>> chosen_;  // by problem
  std::vector<Pending> pending_;  // in order of arrival
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_MATMUL_MATMUL_CHOICES_H_
