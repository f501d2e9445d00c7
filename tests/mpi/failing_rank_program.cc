// SPDX-License-Identifier: Apache-2.0
//
// Trains until its last rank fails alone ("--alone") or stops ("--stall"), or
// until all ranks find their own error at the same step. With
// "--another_program" the last rank runs another program from the start; with
// "--no_memory" its allocation fails when it prepares the step. Run by
// training_errors_test.cc and plan_check_test.cc.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "backends/communicators/launcher.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "train/loop/flags.h"
#include "train/loop/run_main.h"
#include "train/session/session.h"

ABSL_FLAG(bool, alone, false, "only the last rank fails");
ABSL_FLAG(bool, stall, false, "the last rank stops");
ABSL_FLAG(bool, another_program, false, "the last rank runs another program");
ABSL_FLAG(bool, no_memory, false, "the last rank gets no more memory");

namespace mtf {
namespace {

// Limits the memory of this process to `bytes` more than it has.
void LimitMemory(uint64_t bytes) {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit = {};
  limit.rlim_cur = pages * sysconf(_SC_PAGESIZE) + bytes;
  limit.rlim_max = limit.rlim_cur;
  setrlimit(RLIMIT_AS, &limit);
}

absl::Status Main() {
  const LauncherInfo launcher = DetectLauncher();
  const Dimension batch{"batch", 8};
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {batch});
  Tensor sum = Variable(graph, "sum", Zeros(graph, kFloat32, {}));
  const bool is_last = launcher.rank == launcher.size - 1;
  const bool other = is_last && absl::GetFlag(FLAGS_another_program);
  Tensor step = Assign(sum, other ? ReduceMax(x, {}) : ReduceSum(x, {}));
  if (absl::GetFlag(FLAGS_no_memory)) {
    // A step of many megabytes, with collectives of its own.
    Tensor row = Ones(graph, kFloat32, {{"wide", 4 << 20}});
    Tensor table = Einsum({x, row}, {x.shape()[0], row.shape()[0]});
    step = Group(
        graph,
        {step, Assign(Variable(graph, "other", Zeros(graph, kFloat32, {})),
                      ReduceSum(Einsum({table, x}, row.shape()), {}))});
  }
  train::SessionOptions options;
  if (absl::GetFlag(FLAGS_stall)) options.collective_timeout = 1;
  MTF_ASSIGN_OR_RETURN(
      const std::unique_ptr<train::Session> session,
      train::Session::Create(graph, "data:-1,one:1", "batch:data", options));
  MTF_RETURN_IF_ERROR(session->Initialize());
  if (is_last && absl::GetFlag(FLAGS_no_memory)) LimitMemory(16 << 20);
  const bool alone = absl::GetFlag(FLAGS_alone);
  const bool stall = absl::GetFlag(FLAGS_stall);
  // Far more steps than run within the test.
  for (int64_t i = 0; i < 1000000000; ++i) {
    if (i == 10 && stall && is_last) {
      std::this_thread::sleep_for(std::chrono::hours(1));
    }
    if (i == 10 && !stall && (!alone || is_last)) {
      return absl::DataLossError(
          absl::StrCat("rank ", launcher.rank, " has lost its data"));
    }
    MTF_RETURN_IF_ERROR(
        session
            ->Run({.feeds = {{"x", HostTensor(x.shape(), kFloat32)}},
                   .updates = {step}})
            .status());
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Fails.", &mtf::Main);
}
