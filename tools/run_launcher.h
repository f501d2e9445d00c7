// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_RUN_LAUNCHER_H_
#define TOOLS_RUN_LAUNCHER_H_

#include <string>
#include <vector>

namespace mtf::tools {

struct LauncherEnd {
  int exit_code = 0;  // as a shell reports it: 128 + the signal, if any
  int error = 0;      // errno if the launcher could not be started
};

// Runs the command `words`, an mpirun, passes signals on to it and removes the
// noise from its error output (tools/launcher_output.h). If that leaves nothing
// of the error output of a job that failed, prints it after all.
LauncherEnd RunLauncher(std::vector<std::string> words);

}  // namespace mtf::tools

#endif  // TOOLS_RUN_LAUNCHER_H_
