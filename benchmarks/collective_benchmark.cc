// SPDX-License-Identifier: Apache-2.0
//
// The collectives of the MPI communicator against MPI's own, in one run:
//
//   mtfrun -n 2 collective_benchmark [LARGEST_BYTES]
//
// Prints microseconds of the slowest rank, median and best. Calls alternate
// with MPI's, so that both see the same noise; on a busy machine only the best
// is meaningful. Sizes are bytes of the larger of operand and result on one
// rank: of the operand, and of the result for all_gather.
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/communicator.h"
#include "mtf/status.h"

namespace mtf {
namespace {

constexpr int64_t kLargestBytes = 64 << 20;

// One collective, by the communicator and by MPI, on buffers of `bytes`.
struct Contest {
  const char* name;
  std::function<absl::Status(int64_t bytes)> ours;
  std::function<int(int64_t bytes)> mpis;
};

// The duration on the slowest rank after a barrier.
template <class Call>
double Time(const Call& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  call();
  double seconds = MPI_Wtime() - start;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

// {median, best} of durations, in microseconds.
std::pair<double, double> Summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2] * 1e6, times[0] * 1e6};
}

int Repeats(int64_t bytes) {
  if (bytes <= 64 << 10) return 400;
  return bytes <= 8 << 20 ? 60 : 15;
}

absl::Status Run(int64_t largest) {
  MTF_ASSIGN_OR_RETURN(const int64_t ranks, MpiWorldSize());
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse("x:-1", ranks));
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                       CreateMpiCommunicator(mesh));
  MTF_ASSIGN_OR_RETURN(const auto* group, communicator->GroupOver({0}));
  // Each side has its own buffers: writing a buffer that another rank has read
  // is slow, and that time must not count for the other side.
  std::vector<float> in(largest / 4), out(largest / 4);
  std::vector<float> mpi_in(largest / 4), mpi_out(largest / 4);
  const std::vector<Contest> contests = {
      {"all_reduce",
       [&](int64_t bytes) {
         return communicator->AllReduce(*group,
                                        {{in.data(), out.data(), bytes / 4}},
                                        kFloat32, ReduceKind::kSum);
       },
       [&](int64_t bytes) {
         return MPI_Allreduce(mpi_in.data(), mpi_out.data(),
                              static_cast<int>(bytes / 4), MPI_FLOAT, MPI_SUM,
                              MPI_COMM_WORLD);
       }},
      {"reduce_scatter",
       [&](int64_t bytes) {
         return communicator->ReduceScatter(*group, in.data(), out.data(),
                                            bytes / 4 / ranks, kFloat32,
                                            ReduceKind::kSum);
       },
       [&](int64_t bytes) {
         const std::vector<int> counts(ranks,
                                       static_cast<int>(bytes / 4 / ranks));
         return MPI_Reduce_scatter(mpi_in.data(), mpi_out.data(), counts.data(),
                                   MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }},
      {"all_gather",
       [&](int64_t bytes) {
         return communicator->AllGather(*group, in.data(), out.data(),
                                        bytes / ranks);
       },
       [&](int64_t bytes) {
         const int block = static_cast<int>(bytes / ranks);
         return MPI_Allgather(mpi_in.data(), block, MPI_BYTE, mpi_out.data(),
                              block, MPI_BYTE, MPI_COMM_WORLD);
       }},
      {"all_to_all",
       [&](int64_t bytes) {
         return communicator->AllToAll(*group, in.data(), out.data(),
                                       bytes / ranks);
       },
       [&](int64_t bytes) {
         const int block = static_cast<int>(bytes / ranks);
         return MPI_Alltoall(mpi_in.data(), block, MPI_BYTE, mpi_out.data(),
                             block, MPI_BYTE, MPI_COMM_WORLD);
       }},
  };
  const bool print = communicator->rank() == 0;
  if (print) {
    std::cout << absl::StrFormat("%d ranks %21s %31s\n", ranks, "median us",
                                 "best us")
              << absl::StrFormat("%-15s %10s %9s %9s %6s   %9s %9s %6s\n",
                                 "collective", "bytes", "ours", "MPI", "ratio",
                                 "ours", "MPI", "ratio");
  }
  for (const Contest& contest : contests) {
    for (int64_t bytes = 4 << 10; bytes <= largest; bytes *= 4) {
      std::vector<double> ours, mpis;
      absl::Status status;
      for (int i = 0; i < Repeats(bytes); ++i) {
        // Write the operand before each call, as in a step. Otherwise readers
        // would find it in their own cache from the second call on.
        std::fill_n(in.data(), bytes / 4, static_cast<float>(i));
        ours.push_back(Time([&] { status.Update(contest.ours(bytes)); }));
        std::fill_n(mpi_in.data(), bytes / 4, static_cast<float>(i));
        mpis.push_back(Time([&] { contest.mpis(bytes); }));
      }
      MTF_RETURN_IF_ERROR(status);
      const auto [our_median, our_best] = Summary(ours);
      const auto [mpi_median, mpi_best] = Summary(mpis);
      if (print) {
        std::cout << absl::StrFormat(
                         "%-15s %10d %9.1f %9.1f %6.2f   %9.1f %9.1f %6.2f\n",
                         contest.name, bytes, our_median, mpi_median,
                         mpi_median / our_median, our_best, mpi_best,
                         mpi_best / our_best)
                  << std::flush;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  int64_t largest = mtf::kLargestBytes;
  if (argc > 2 || (argc == 2 && (!absl::SimpleAtoi(argv[1], &largest) ||
                                 largest < 4096 || largest > 1 << 30))) {
    std::cerr << "usage: mtfrun -n RANKS collective_benchmark [LARGEST_BYTES]\n"
              << "LARGEST_BYTES from 4096 to " << (1 << 30) << std::endl;
    return 2;
  }
  const absl::Status status = mtf::Run(largest);
  if (status.ok()) return 0;
  std::cerr << mtf::ErrorText(status) << std::endl;
  mtf::AbortAllRanks(1);
}
