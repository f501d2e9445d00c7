// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_LAUNCHER_H_
#define BACKENDS_COMMUNICATORS_LAUNCHER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace mtf {

// The launcher that started this process, from the environment.
struct LauncherInfo {
  int size = 1;        // ranks of the job
  int rank = 0;        // of this process
  int local_size = 1;  // ranks on this host
  std::string name;    // "Open MPI"; "" if there is no launcher
};

// Reads an environment variable; null if it is not set.
using EnvironmentReader = std::function<const char*(const char*)>;

// Detects the launcher that started this process: Open MPI's mpirun, the Hydra
// launcher of MPICH and Intel MPI, or Slurm's srun. Variables without a number
// in the valid range count as not set.
LauncherInfo DetectLauncher();
LauncherInfo DetectLauncher(const EnvironmentReader& environment);

// kFailedPrecondition if the launcher started another number of ranks than the
// MPI library that this program is linked with, `library`, reports: each
// process would train alone. The message names both.
absl::Status CheckLauncher(const LauncherInfo& info, int library_size,
                           const std::string& library);

// Number of cores that this process may run on.
int AllowedCores();

// Number of cores that this process or its parent, the launcher, may run on:
// the cores available to a job that binds its ranks.
int LaunchedCores();

// Number of threads for a rank that may run on `allowed_cores` cores, if the
// `local_ranks` ranks of its host share `job_cores` cores. At least 1.
int ThreadsPerRank(int local_ranks, int allowed_cores, int job_cores);

// A warning for the user if ranks are bound to fewer cores than their share of
// the launcher's cores, as mpirun does with one or two ranks; otherwise "".
std::string BindingWarning(int local_ranks, int allowed_cores,
                           int launched_cores);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_LAUNCHER_H_
