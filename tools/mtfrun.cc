// SPDX-License-Identifier: Apache-2.0
//
// mtfrun -n RANKS PROGRAM [ARGUMENTS...]
//
// Starts PROGRAM on several ranks with the mpirun of the MPI that the library
// is built with, and with settings that suit the library better than mpirun's
// defaults. Variables that are already set keep their values.
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "tools/run_launcher.h"

#ifndef MTF_MPIRUN
#define MTF_MPIRUN ""
#endif

namespace {

constexpr char kHelp[] =
    R"(usage: mtfrun -n RANKS [options] [--] PROGRAM [ARGUMENTS...]

Starts PROGRAM on RANKS ranks with the mpirun of the MPI this library is built
with.

  -n, -np RANKS      how many ranks
  --host LIST        as mpirun's: where ranks run, "node1:4,node2:4"
  --hostfile FILE    as mpirun's
  --print            print the settings and the command, start nothing
  --help             print this

Settings, each only where the environment does not have it yet:

  ranks may share cores and are not bound to single ones
    OMPI_MCA_rmaps_base_oversubscribe=1
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    OMPI_MCA_hwloc_base_binding_policy=none
  as root only: mpirun agrees to run
    OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  more ranks than cores: a rank that waits gives its core away
    OMPI_MCA_mpi_yield_when_idle=1
  on this host: the ranks share the cores
    OMP_NUM_THREADS=cores / ranks, at least 1
    OMP_WAIT_POLICY=passive if threads outnumber cores
  what mpirun hides from its ranks: whether a person looks on, and the width
    MTF_TERMINAL=1 or 0, COLUMNS

MTF_MPIRUN names another mpirun.

What mpirun adds below the message of a rank that failed is left out, unless no
rank had a message.

exit status: that of mpirun; 2 for wrong arguments, 126 if PROGRAM cannot be
run, 127 if PROGRAM or mpirun is not found
)";

constexpr int kUsage = 2;
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;
constexpr int kMaxRanks = 1 << 20;

[[noreturn]] void Fail(int status, const std::string& message,
                       const std::string& help) {
  std::cerr << "mtfrun: " << message << "\n  help  " << help << std::endl;
  std::exit(status);
}

struct Arguments {
  int ranks = 0;
  bool print = false;
  std::vector<std::string> mpirun_options;
  std::vector<std::string> command;
};

int ParseRanks(const std::string& text) {
  int ranks = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (error != std::errc() || end != text.data() + text.size() || ranks < 1 ||
      ranks > kMaxRanks) {
    Fail(kUsage, "\"" + text + "\" is not a number of ranks",
         "give -n a whole number from 1 to " + std::to_string(kMaxRanks));
  }
  return ranks;
}

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  int i = 1;
  const auto value_of = [&](const std::string& option) -> std::string {
    if (i + 1 >= argc) {
      Fail(kUsage, option + " has no value", "mtfrun --help lists the options");
    }
    return argv[++i];
  };
  for (; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      std::cout << kHelp;
      std::exit(0);
    } else if (argument == "-n" || argument == "-np") {
      arguments.ranks = ParseRanks(value_of(argument));
    } else if (argument == "--host" || argument == "--hostfile") {
      arguments.mpirun_options.push_back(argument);
      arguments.mpirun_options.push_back(value_of(argument));
    } else if (argument == "--print") {
      arguments.print = true;
    } else if (argument == "--") {
      ++i;
      break;
    } else if (argument.rfind("-n", 0) == 0 && argument.size() > 2 &&
               argument.find_first_not_of("0123456789", 2) ==
                   std::string::npos) {
      arguments.ranks = ParseRanks(argument.substr(2));  // -n4
    } else if (!argument.empty() && argument[0] == '-') {
      Fail(kUsage, "unknown option \"" + argument + "\"",
           "options of PROGRAM follow it; mtfrun --help lists those of mtfrun");
    } else {
      break;
    }
  }
  arguments.command.assign(argv + std::min(i, argc), argv + argc);
  if (arguments.ranks == 0) {
    Fail(kUsage, "the number of ranks is missing",
         "mtfrun -n RANKS PROGRAM [ARGUMENTS...]");
  }
  if (arguments.command.empty()) {
    Fail(kUsage, "the program is missing",
         "mtfrun -n RANKS PROGRAM [ARGUMENTS...]");
  }
  return arguments;
}

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// `name` itself if it contains a slash, else the first executable of that name
// in PATH, or "".
std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return IsFile(name) ? name : "";
  const char* variable = std::getenv("PATH");
  const std::string path = variable == nullptr ? "" : variable;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string found = path.substr(begin, end - begin) + "/" + name;
    if (IsFile(found) && access(found.c_str(), X_OK) == 0) return found;
    begin = end + 1;
  }
  return "";
}

std::string FindMpirun() {
  const char* chosen = std::getenv("MTF_MPIRUN");
  const std::string name =
      chosen != nullptr && *chosen != '\0' ? chosen : MTF_MPIRUN;
  if (name.empty()) {
    Fail(kNotFound, "this build has no MPI",
         "install libopenmpi-dev and openmpi-bin, configure with "
         "-DMTF_WITH_MPI=ON and build again; or let MTF_MPIRUN name an mpirun");
  }
  const std::string found = FindProgram(name);
  if (found.empty()) {
    Fail(kNotFound, "there is no mpirun at \"" + name + "\"",
         "install openmpi-bin, or let MTF_MPIRUN name another mpirun");
  }
  return found;
}

void CheckProgram(const std::string& name) {
  const std::string found = FindProgram(name);
  if (found.empty()) {
    const bool here = name.find('/') == std::string::npos && IsFile(name);
    Fail(kNotFound, "there is no program \"" + name + "\"",
         here ? "a program of this folder is called ./" + name
              : "check the path, and that the program is built");
  }
  if (access(found.c_str(), X_OK) != 0) {
    Fail(kCannotRun, "\"" + found + "\" cannot be run",
         "it is not executable: chmod +x " + found);
  }
}

int AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  }
  return std::max(1, CPU_COUNT(&set));
}

std::vector<std::pair<std::string, std::string>> Settings(
    const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> settings = {
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
  };
  if (geteuid() == 0) {
    settings.push_back({"OMPI_ALLOW_RUN_AS_ROOT", "1"});
    settings.push_back({"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"});
  }
  settings.push_back({"MTF_TERMINAL", isatty(STDOUT_FILENO) == 1 ? "1" : "0"});
  winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    settings.push_back({"COLUMNS", std::to_string(size.ws_col)});
  }
  // The number of ranks on this host is known only if it is the only host;
  // otherwise each rank finds out for itself.
  if (!arguments.mpirun_options.empty()) return settings;
  const int cores = AllowedCores();
  if (arguments.ranks > cores) {
    settings.push_back({"OMPI_MCA_mpi_yield_when_idle", "1"});
  }
  int threads = std::max(1, cores / arguments.ranks);
  if (const char* set = std::getenv("OMP_NUM_THREADS"); set == nullptr) {
    settings.push_back({"OMP_NUM_THREADS", std::to_string(threads)});
  } else {
    threads = std::max(1, std::atoi(set));
  }
  // Threads that spin while they wait take cores from others.
  if (static_cast<int64_t>(threads) * arguments.ranks > cores) {
    settings.push_back({"OMP_WAIT_POLICY", "passive"});
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  const std::string mpirun = FindMpirun();
  CheckProgram(arguments.command[0]);

  for (const auto& [name, value] : Settings(arguments)) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
    if (arguments.print)
      std::cout << name << "=" << std::getenv(name.c_str()) << "\n";
  }
  std::vector<std::string> words = {mpirun, "-n",
                                    std::to_string(arguments.ranks)};
  words.insert(words.end(), arguments.mpirun_options.begin(),
               arguments.mpirun_options.end());
  words.insert(words.end(), arguments.command.begin(), arguments.command.end());
  if (arguments.print) {
    for (size_t i = 0; i < words.size(); ++i) {
      std::cout << (i == 0 ? "" : " ") << words[i];
    }
    std::cout << std::endl;
    return 0;
  }
  const mtf::tools::LauncherEnd end = mtf::tools::RunLauncher(words);
  if (end.error != 0) {
    Fail(kCannotRun, "\"" + mpirun + "\" cannot be run",
         std::strerror(end.error));
  }
  return end.exit_code;
}
