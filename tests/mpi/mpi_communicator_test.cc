// SPDX-License-Identifier: Apache-2.0
//
// The MPI communicator, run by every rank of an mpirun. Launches are slow, so
// one launch checks every mesh of its number of ranks. The rank that finds a
// failure prints it and ends the job.
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "mtf/status.h"
#include "tests/backends/communicators/collective_checks.h"

namespace mtf {
namespace {

std::vector<std::string> MeshesOf(int64_t ranks) {
  switch (ranks) {
    case 4:
      return {"x:4", "x:2,y:2"};
    case 6:
      return {"x:6", "x:2,y:3"};
    case 8:
      return {"x:8", "x:2,y:2,z:2"};
    default:
      return {absl::StrCat("x:", ranks), absl::StrCat("y:1,x:", ranks)};
  }
}

absl::Status CheckMesh(const std::string& text) {
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(text));
  // Twice: a second communicator of a mesh reuses the groups of the first.
  for (int64_t largest : {mesh.num_devices() > 4 ? 9001 : 70001, 1001}) {
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                         CreateMpiCommunicator(mesh));
    MTF_RETURN_IF_ERROR(testing::CheckCommunicator(*communicator, largest));
    MTF_RETURN_IF_ERROR(testing::CheckRepeats(*communicator, 200));
  }
  return absl::OkStatus();
}

absl::Status ExpectAborted(const absl::Status& status,
                           const std::string& expected) {
  if (status.code() == absl::StatusCode::kAborted &&
      absl::StrContains(status.message(), expected)) {
    return absl::OkStatus();
  }
  return absl::InternalError("a disagreement passed: " + status.ToString());
}

// Equal calls, but the last rank makes them in the next step.
absl::Status CheckOtherPosition(int64_t ranks) {
  if (ranks == 1) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(absl::StrCat("x:", ranks)));
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                       CreateMpiCommunicator(mesh));
  MTF_ASSIGN_OR_RETURN(const auto* group, communicator->GroupOver({0}));
  const bool is_last = communicator->rank() == ranks - 1;
  std::vector<float> data(64);
  communicator->SetPosition({2, 6, 3, true});
  MTF_RETURN_IF_ERROR(communicator->AllReduce(
      *group, {{data.data(), data.data(), 64}}, kFloat32, ReduceKind::kSum));
  communicator->SetPosition({2, is_last ? 7 : 6, 4, true});
  const absl::Status status = communicator->AllReduce(
      *group, {{data.data(), data.data(), 64}}, kFloat32, ReduceKind::kSum);
  communicator->SetPosition({});
  return ExpectAborted(status, absl::StrCat("rank ", ranks - 1,
                                            " runs step 7 of program 2, where "
                                            "rank 0 runs step 6\n"));
}

// Every rank must return the error, and none may hang.
absl::Status CheckDisagreement(int64_t ranks) {
  if (ranks == 1) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(absl::StrCat("x:", ranks)));
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                       CreateMpiCommunicator(mesh));
  MTF_ASSIGN_OR_RETURN(const auto* group, communicator->GroupOver({0}));
  std::vector<float> in(64), out(64 * ranks);
  const int64_t count = communicator->rank() == ranks - 1 ? 32 : 64;
  const absl::Status status = communicator->AllReduce(
      *group, {{in.data(), out.data(), count}}, kFloat32, ReduceKind::kSum);
  return ExpectAborted(status, absl::StrCat("rank ", ranks - 1,
                                            " calls all_reduce sum of f32 x "
                                            "32"));
}

absl::Status CheckWrongMesh(int64_t ranks) {
  MTF_ASSIGN_OR_RETURN(const Mesh mesh,
                       Mesh::Parse(absl::StrCat("x:", ranks + 1)));
  const absl::Status status = CreateMpiCommunicator(mesh).status();
  if (status.code() == absl::StatusCode::kFailedPrecondition &&
      absl::StrContains(status.message(), "ranks are running")) {
    return absl::OkStatus();
  }
  return absl::InternalError("a wrong mesh passed: " + status.ToString());
}

absl::Status CheckPlacement(int64_t ranks) {
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(absl::StrCat("x:", ranks)));
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                       CreateMpiCommunicator(mesh));
  const RankPlacement placement = communicator->placement();
  if (placement.local_ranks == ranks && placement.threads >= 1) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(placement.local_ranks, " ranks, ",
                                          placement.threads, " threads"));
}

absl::Status CheckAll() {
  MTF_ASSIGN_OR_RETURN(const int64_t ranks, MpiWorldSize());
  MTF_RETURN_IF_ERROR(CheckPlacement(ranks));
  MTF_RETURN_IF_ERROR(CheckWrongMesh(ranks));
  for (const std::string& mesh : MeshesOf(ranks)) {
    MTF_RETURN_IF_ERROR(CheckMesh(mesh));
  }
  MTF_RETURN_IF_ERROR(CheckOtherPosition(ranks));
  return CheckDisagreement(ranks);
}

}  // namespace
}  // namespace mtf

int main() {
  const absl::Status status = mtf::CheckAll();
  if (status.ok()) return 0;
  std::cerr << mtf::ErrorText(status) << std::endl;
  mtf::AbortAllRanks(1);
}
