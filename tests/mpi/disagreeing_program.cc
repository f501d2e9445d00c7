// SPDX-License-Identifier: Apache-2.0
//
// Runs requests while the last rank makes other calls than the others
// ("--calls=...") or stops at the moment that the variable STOP_AT names. Run
// by rank_agreement_test.cc.
#include <mpi.h>
#include <signal.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "backends/communicators/launcher.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "train/loop/flags.h"
#include "train/loop/run_main.h"
#include "train/session/session.h"

namespace mtf {
namespace {

bool IsLast() {
  const LauncherInfo launcher = DetectLauncher();
  return launcher.rank == launcher.size - 1;
}

// Stops the last rank if the environment says that it stops at `moment`. An
// environment variable, because most moments lie before the flags are parsed.
void MaybeStop(const char* moment) {
  const char* text = std::getenv("STOP_AT");
  if (text != nullptr && std::strcmp(text, moment) == 0 && IsLast()) {
    raise(SIGSTOP);
  }
}

// A flag whose parser runs between the first communicators and the comparison
// of the plans.
struct Moment {};
bool AbslParseFlag(absl::string_view, Moment*, std::string*) {
  MaybeStop("plan_check");
  return true;
}
std::string AbslUnparseFlag(const Moment&) { return "none"; }

}  // namespace
}  // namespace mtf

// Replace the functions of the MPI library, which calls them by their PMPI
// names.
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  mtf::MaybeStop("init");
  return PMPI_Init_thread(argc, argv, required, provided);
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* out) {
  mtf::MaybeStop("first_communicator");
  return PMPI_Comm_dup(comm, out);
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info,
                        MPI_Comm* out) {
  mtf::MaybeStop("placement");
  return PMPI_Comm_split_type(comm, type, key, info, out);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* out) {
  mtf::MaybeStop("communicator");
  return PMPI_Comm_split(comm, color, key, out);
}
int MPI_Finalize() {
  mtf::MaybeStop("finalize");
  return PMPI_Finalize();
}

ABSL_FLAG(std::string, calls, "same", "what the last rank does otherwise");
ABSL_FLAG(mtf::Moment, moment, {}, "stops while it is parsed");

namespace mtf {
namespace {

absl::Status Main() {
  const Dimension batch{"batch", 8}, hidden{"hidden", 4};
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {batch, hidden});
  Tensor sum = Variable(graph, "sum", Zeros(graph, kFloat32, {}));
  Tensor loss = ReduceSum(Tanh(ReduceSum(x, {batch})), {});
  Tensor accuracy = ReduceMax(x, {});
  Tensor update = Assign(sum, sum + loss);
  MTF_ASSIGN_OR_RETURN(
      const std::unique_ptr<train::Session> session,
      train::StartSession(graph, {.fetches = {loss}, .updates = {update}}));
  const std::string calls = IsLast() ? absl::GetFlag(FLAGS_calls) : "same";
  const HostTensor values(x.shape(), kFloat32);
  const auto run = [&](Tensor fetch) {
    return session
        ->Run(
            {.feeds = {{"x", values}}, .fetches = {fetch}, .updates = {update}})
        .status();
  };
  if (calls == "fails_early") return absl::DataLossError("lost early");
  MTF_RETURN_IF_ERROR(run(accuracy));
  for (int step = 0; step < 20; ++step) {
    if (step == 10) {
      MaybeStop("step");
      if (calls == "fails") return absl::DataLossError("lost at step 10");
      if (calls == "exits") std::exit(0);
      if (calls == "less") continue;
      if (calls == "more") MTF_RETURN_IF_ERROR(run(loss));
      if (calls == "another_request") MTF_RETURN_IF_ERROR(run(accuracy));
      if (calls == "a_new_request") MTF_RETURN_IF_ERROR(run(x));
      if (calls == "agree") {
        MTF_RETURN_IF_ERROR(session->Agree(absl::OkStatus()));
      }
    }
    MTF_RETURN_IF_ERROR(run(loss));
  }
  MaybeStop("end");
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Disagrees.", &mtf::Main);
}
