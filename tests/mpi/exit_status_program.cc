// SPDX-License-Identifier: Apache-2.0
//
// Ends as the argument says, to test that a job of several ranks ends too:
//   all    every rank returns 3 from main
//   one    rank 1 returns 3 while the others wait for it in a collective
//   abort  rank 1 calls AbortAllRanks(3) while the others wait for it
#include <iostream>
#include <string>

#include "backends/communicator.h"
#include "mtf/status.h"

namespace mtf {
namespace {

absl::StatusOr<int> Run(const std::string& how) {
  MTF_ASSIGN_OR_RETURN(const int64_t ranks, MpiWorldSize());
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse("x:-1", ranks));
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                       CreateMpiCommunicator(mesh));
  MTF_RETURN_IF_ERROR(communicator->Barrier());
  if (how == "all") return 3;
  if (communicator->rank() == 1) {
    if (how == "abort") AbortAllRanks(3);
    return 3;
  }
  MTF_RETURN_IF_ERROR(communicator->Barrier());
  return 0;
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  const absl::StatusOr<int> code = mtf::Run(argc > 1 ? argv[1] : "");
  if (code.ok()) return *code;
  std::cerr << mtf::ErrorText(code.status()) << std::endl;
  return 4;
}
