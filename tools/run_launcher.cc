// SPDX-License-Identifier: Apache-2.0
#include "tools/run_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tools/launcher_output.h"

namespace mtf::tools {
namespace {

sigset_t SignalsToPassOn() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    sigaddset(&signals, signal);
  }
  return signals;
}

void WriteErrors(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t size =
        write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (size < 0 && errno != EINTR) return;
    if (size > 0) done += size;
  }
}

// In the child: becomes the launcher. Returns only if that fails.
void Become(std::vector<std::string>& words, int errors, bool own_group,
            pid_t parent, const sigset_t& mask) {
  if (own_group) setpgid(0, 0);
  // Ranks must not outlive a parent that is killed.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) return;
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  dup2(errors, STDERR_FILENO);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
}

// A running launcher.
struct Launcher {
  pid_t pid = 0;
  bool own_group = false;
  int errors = -1;      // its error output
  int signals = -1;     // signalfd of the signals to pass on and SIGCHLD
  int last_signal = 0;  // the last one passed on, and when
  std::chrono::steady_clock::time_point last_time;
};

// Reads and prints what is there of the error output. Returns false at its end.
bool PassErrors(int errors, LauncherOutput& output) {
  char buffer[4096];
  for (;;) {
    const ssize_t size = read(errors, buffer, sizeof(buffer));
    if (size == 0) return false;
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    WriteErrors(output.Add(std::string(buffer, size)));
  }
}

// Passes pending signals on, but not those of the terminal, which reach all of
// its group: a second one would make mpirun end without ending its ranks.
void PassSignals(Launcher& launcher) {
  signalfd_siginfo info;
  while (read(launcher.signals, &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    // `timeout` sends a signal to this process and to its group, so it may
    // arrive twice.
    const auto now = std::chrono::steady_clock::now();
    if (signal == launcher.last_signal &&
        now - launcher.last_time < std::chrono::seconds(1)) {
      continue;
    }
    if (!launcher.own_group) {
      if (info.ssi_code > 0) continue;
      // Its sender may have sent it to the group too, as `timeout` does. Then
      // mpirun ends in about a second.
      std::this_thread::sleep_for(std::chrono::seconds(2));
    }
    kill(launcher.pid, signal);
    launcher.last_signal = signal;
    launcher.last_time = now;
  }
}

// Waits for the end of the launcher; returns its wait status. The end of its
// error output is not a sign of it: processes that outlive the launcher may
// keep that open.
int WaitFor(Launcher& launcher, LauncherOutput& output) {
  int status = 0;
  bool open = true;
  while (waitpid(launcher.pid, &status, WNOHANG) == 0) {
    pollfd events[] = {{launcher.signals, POLLIN, 0},
                       {open ? launcher.errors : -1, POLLIN, 0}};
    if (poll(events, 2, /*timeout=*/-1) < 0) continue;
    if (events[0].revents != 0) PassSignals(launcher);
    if (events[1].revents != 0) open = PassErrors(launcher.errors, output);
  }
  if (open) PassErrors(launcher.errors, output);
  return status;
}

}  // namespace

LauncherEnd RunLauncher(std::vector<std::string> words) {
  int errors[2], failure[2];  // pipes; the second for errno of exec
  if (pipe2(errors, O_CLOEXEC) != 0 || pipe2(failure, O_CLOEXEC) != 0) {
    return {.error = errno};
  }
  sigset_t signals = SignalsToPassOn(), mask;
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, &mask);
  Launcher launcher;
  launcher.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  launcher.errors = errors[0];
  // A process group of its own gets each signal once. In a terminal mpirun has
  // to share ours to read standard input.
  launcher.own_group = isatty(STDIN_FILENO) == 0;
  const pid_t parent = getpid();
  launcher.pid = fork();
  if (launcher.pid == 0) {
    Become(words, errors[1], launcher.own_group, parent, mask);
    const int error = errno;
    (void)!write(failure[1], &error, sizeof(error));
    _exit(127);
  }
  if (launcher.pid < 0 || launcher.signals < 0) return {.error = errno};
  close(errors[1]);
  close(failure[1]);
  fcntl(errors[0], F_SETFL, O_NONBLOCK);

  LauncherEnd end;
  if (read(failure[0], &end.error, sizeof(end.error)) > 0) return end;
  LauncherOutput output;
  const int status = WaitFor(launcher, output);
  end.exit_code =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  WriteErrors(output.End());
  const int signal = end.exit_code - 128;
  if (signal > 0 && signal < NSIG && signal != launcher.last_signal &&
      !output.names_signal()) {
    WriteErrors("mtfrun: a rank exited on signal " + std::to_string(signal) +
                " (" + strsignal(signal) + ")\n");
  }
  if (end.exit_code != 0 && !output.has_other()) WriteErrors(output.removed());
  return end;
}

}  // namespace mtf::tools
