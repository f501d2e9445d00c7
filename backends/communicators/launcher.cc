// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/launcher.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace mtf {
namespace {

// The environment variables of one launcher: number of ranks, rank, and number
// of ranks on this host.
struct Variables {
  const char* name;
  const char* size;
  const char* rank;
  const char* local_size;
};

// In order of precedence. Slurm comes last and uses its step variables, because
// it also sets the others for a batch script that calls mpirun.
constexpr Variables kLaunchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_NTASKS_PER_NODE"},
};

constexpr int kMaxRanks = 1 << 24;

int ReadNumber(const EnvironmentReader& environment, const char* name,
               int low) {
  const char* text = environment(name);
  int value = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &value)) return -1;
  return value >= low && value <= kMaxRanks ? value : -1;
}

}  // namespace

LauncherInfo DetectLauncher(const EnvironmentReader& environment) {
  for (const Variables& variables : kLaunchers) {
    LauncherInfo info;
    info.size = ReadNumber(environment, variables.size, 1);
    info.rank = ReadNumber(environment, variables.rank, 0);
    if (info.size < 1 || info.rank < 0 || info.rank >= info.size) continue;
    const int local = ReadNumber(environment, variables.local_size, 1);
    info.local_size = local < 1 ? 1 : std::min(local, info.size);
    info.name = variables.name;
    return info;
  }
  return {};
}

LauncherInfo DetectLauncher() {
  return DetectLauncher([](const char* name) { return std::getenv(name); });
}

absl::Status CheckLauncher(const LauncherInfo& info, int library_size,
                           const std::string& library) {
  if (info.size <= 1 || library_size == info.size) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this process is one of ", info.size, " started by ", info.name,
      ", but the MPI library it is linked with sees ", library_size, " rank",
      library_size == 1 ? "" : "s", "\n  launcher  ", info.name, ", rank ",
      info.rank, " of ", info.size, "\n  built with  ", library,
      "\n  help  start it with mtfrun, which uses the mpirun that belongs to "
      "the build"));
}

int AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    // Fails on machines with more cores than cpu_set_t holds.
    return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  }
  return std::max(1, CPU_COUNT(&set));
}

int LaunchedCores() {
  cpu_set_t mine, parents;
  CPU_ZERO(&mine);
  CPU_ZERO(&parents);
  if (sched_getaffinity(0, sizeof(mine), &mine) != 0 ||
      sched_getaffinity(getppid(), sizeof(parents), &parents) != 0) {
    return AllowedCores();
  }
  CPU_OR(&mine, &mine, &parents);
  return std::max(1, CPU_COUNT(&mine));
}

int ThreadsPerRank(int local_ranks, int allowed_cores, int job_cores) {
  const int share = job_cores / std::max(1, local_ranks);
  return std::max(1, std::min(allowed_cores, share));
}

std::string BindingWarning(int local_ranks, int allowed_cores,
                           int launched_cores) {
  const int share = launched_cores / std::max(1, local_ranks);
  if (allowed_cores >= share) return "";
  return absl::StrCat("each rank is bound to ", allowed_cores, " of ",
                      launched_cores, " cores, but its share is ", share,
                      "; start with mtfrun, or with mpirun --bind-to none");
}

}  // namespace mtf
