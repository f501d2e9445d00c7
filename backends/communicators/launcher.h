// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_LAUNCHER_H_
#define BACKENDS_COMMUNICATORS_LAUNCHER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace mtf {

// What the environment says about the launcher that started this process.
struct LauncherInfo {
  int size = 1;        // ranks of the job
  int rank = 0;        // of this process
  int local_size = 1;  // ranks on this host
  std::string name;    // "Open MPI"; "" without a launcher
};

// Reads an environment variable; null where it is not set.
using EnvironmentReader = std::function<const char*(const char*)>;

// The launcher that started this process: Open MPI's mpirun, MPICH's or Intel
// MPI's (Hydra), or Slurm's srun. Variables that do not hold numbers of a
// sensible range count as not set.
LauncherInfo DetectLauncher();
LauncherInfo DetectLauncher(const EnvironmentReader& environment);

// kFailedPrecondition if `info` promises several ranks and the library that
// this program is linked with, `library`, sees only one: every process would
// then train alone. Names both.
absl::Status CheckLauncher(const LauncherInfo& info, int library_size,
                           const std::string& library);

// Cores this process may run on.
int AllowedCores();

// Cores that the launcher, the parent of this process, or this process may run
// on: what a job that binds its ranks was given.
int LaunchedCores();

// What a rank that may run on `allowed_cores` may use, when the `local_ranks`
// ranks of its host together have `job_cores`. At least 1.
int ThreadsPerRank(int local_ranks, int allowed_cores, int job_cores);

// A line for the user if ranks are bound to fewer cores than their share of
// what the launcher has, as mpirun does with one or two ranks; otherwise "".
std::string BindingWarning(int local_ranks, int allowed_cores,
                           int launched_cores);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_LAUNCHER_H_
