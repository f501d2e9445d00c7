// SPDX-License-Identifier: Apache-2.0
//
// Processes of an mpirun choose the same algorithm for each matmul, even if
// some have chosen before, timing fails on one, or heuristics differ.
#include "backends/cuda/matmul/matmul_choices.h"

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "mtf/status.h"
#include "tests/backends/cuda/fake_matmuls.h"

namespace mtf::cuda {
namespace {

using testing::FakeMatmuls;

MatmulProblem Problem(int64_t m) {
  MatmulProblem problem;
  problem.m = m;
  return problem;
}

// Settles the choices for a few problems in a folder of this process and checks
// that every rank has the expected algorithms.
absl::Status Check(Communicator& ranks, const std::string& folder,
                   const std::function<void(FakeMatmuls&, DiskCache&)>& setup,
                   const std::vector<std::string>& expected) {
  FakeMatmuls library;
  DiskCache cache(folder);
  setup(library, cache);
  MatmulChoices choices(library, cache);
  choices.JoinClique();
  std::vector<std::shared_ptr<const MatmulChoices::Choice>> chosen;
  for (size_t i = 0; i < expected.size(); ++i) {
    MTF_ASSIGN_OR_RETURN(
        auto choice, choices.Choose(Problem(static_cast<int64_t>(i)), true));
    chosen.push_back(std::move(choice));
  }
  MTF_RETURN_IF_ERROR(choices
                          .Settle(static_cast<int>(ranks.rank()),
                                  [&](const std::string& text) {
                                    return ranks.AllGatherText(text);
                                  })
                          .status());
  std::string mine, wanted;
  for (size_t i = 0; i < expected.size(); ++i) {
    absl::StrAppend(&mine, chosen[i]->algorithm, " ");
    absl::StrAppend(&wanted, expected[i], " ");
  }
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                       ranks.AllGatherText(mine));
  for (const std::string& other : all) {
    if (other == wanted) continue;
    return absl::InternalError(
        absl::StrCat("a rank took ", other, "and not ", wanted));
  }
  if (ranks.rank() != 0 && library.timings != 0) {
    return absl::InternalError("a rank timed what rank 0 had to");
  }
  return absl::OkStatus();
}

absl::Status Run(const std::string& folder) {
  MTF_ASSIGN_OR_RETURN(const int64_t size, MpiWorldSize());
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(absl::StrCat("x:", size)));
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> ranks,
                       CreateMpiCommunicator(mesh));
  const int64_t rank = ranks->rank();
  const auto key = [](const FakeMatmuls& library, int64_t m) {
    return absl::StrCat(library.Version(), " ", Problem(m).ToString());
  };
  // Ranks other than 0 have timed both before, rank 0 one of them.
  MTF_RETURN_IF_ERROR(Check(*ranks, absl::StrCat(folder, "/warm"),
                            [&](FakeMatmuls& library, DiskCache& cache) {
                              cache.Keep(key(library, 0),
                                         rank == 0 ? "2" : "0");
                              if (rank != 0) cache.Keep(key(library, 1), "0");
                            },
                            {"2", "1"}));
  // Rank 0 cannot time, and its heuristics name other algorithms.
  MTF_RETURN_IF_ERROR(Check(*ranks, absl::StrCat(folder, "/cold"),
                            [&](FakeMatmuls& library, DiskCache&) {
                              if (rank != 0) return;
                              library.clock_fails = true;
                              library.heuristics = {"5", "6"};
                            },
                            {"5", "5", "5"}));
  // The last rank cannot run the choice of rank 0.
  return Check(*ranks, absl::StrCat(folder, "/refused"),
               [&](FakeMatmuls& library, DiskCache&) {
                 if (rank == ranks->size() - 1 && rank > 0)
                   library.refused = std::string("1");
               },
               {ranks->size() == 1 ? "1" : "0"});
}

}  // namespace
}  // namespace mtf::cuda

int main() {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() /
      absl::StrCat("mtf_matmul_choices_mpi.", getpid());
  const absl::Status status = mtf::cuda::Run(folder.string());
  std::filesystem::remove_all(folder);
  if (status.ok()) return 0;
  std::cerr << status << std::endl;
  return 1;
}
