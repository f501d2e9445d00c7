// SPDX-License-Identifier: Apache-2.0
#include "train/loop/run_main.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "backends/communicators/launcher.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"
#include "train/loop/parse_flags.h"
#include "train/session/plan_check.h"
#include "train/session/rank_set.h"

namespace mtf::train {
namespace {

// How long a failed rank waits for the others to reach the end. After a timeout
// the others will hardly arrive, so it is short; a rank that was released
// because another failed lets that one report first.
std::chrono::milliseconds Patience(absl::StatusCode code, int rank) {
  switch (code) {
    case absl::StatusCode::kDeadlineExceeded:
      return std::chrono::milliseconds(1000 + 200 * std::min(rank, 10));
    case absl::StatusCode::kAborted:
      return std::chrono::seconds(15);
    default:
      return std::chrono::seconds(10);
  }
}

// Prints `text` and ends the job unless destroyed within `patience`.
class Watchdog {
 public:
  Watchdog(std::string text, int exit_code, std::chrono::milliseconds patience)
      : thread_([this, text = std::move(text), exit_code, patience] {
          std::unique_lock<std::mutex> lock(mutex_);
          if (over_.wait_for(lock, patience, [this] { return met_; })) return;
          std::cerr << text << std::endl;
          AbortAllRanks(exit_code);
        }) {}
  ~Watchdog() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      met_ = true;
    }
    over_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool met_ = false;
  std::thread thread_;
};

// Checks that all ranks of `job` were started with the same flags, environment
// and files. `job` is null for a single rank.
absl::Status CheckSameStart(Communicator* job, absl::Status parsed, bool help) {
  if (job == nullptr) return parsed;
  MTF_RETURN_IF_ERROR(AgreeOnStatus(*job, parsed));
  std::vector<PlanField> fields = FieldsOfProcess();
  if (help) fields.push_back({"--help", ""});
  MTF_RETURN_IF_ERROR(CheckSamePlan(*job, fields));
  // After the flags, so that the paths are known to be equal.
  return help ? absl::OkStatus() : CheckSamePlan(*job, FieldsOfInputFiles());
}

absl::Status ParseAndRun(const std::vector<std::string>& arguments,
                         absl::string_view usage,
                         const std::function<absl::Status()>& body,
                         Communicator* job) {
  const bool help = HasHelpFlag(arguments);
  MTF_RETURN_IF_ERROR(CheckSameStart(
      job, help ? absl::OkStatus() : ParseFlags(arguments), help));
  if (help) {
    Say(HelpText(usage));
  } else {
    MTF_RETURN_IF_ERROR(body());
  }
  return FlushOutput();
}

// Prints `status` if it is an error and this is the primary process; returns
// its exit code.
int Report(const absl::Status& status, bool primary) {
  if (!status.ok() && primary) std::cerr << ErrorText(status) << std::endl;
  return ExitCode(status.code());
}

// Restarts the program with an OpenMP pool that yields its cores early. By
// default a thread that waits for work spins for milliseconds; on a shared
// machine it takes the core from the thread it waits for, and a step takes ten
// times as long. The pool reads its environment before main(), so it must be
// set before the program starts; mtfrun does so too.
void StartWithYieldingThreads(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr ||
      std::getenv("GOMP_SPINCOUNT") != nullptr) {
    return;
  }
  // About twenty microseconds: longer than the gap between two kernels.
  setenv("GOMP_SPINCOUNT", "10000", /*overwrite=*/1);
  // Use the path of the program if possible, so that the process keeps its name
  // for tools such as pgrep.
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (size > 0) {
    path[size] = '\0';
    execv(path, argv);
  }
  execv("/proc/self/exe", argv);
  // If both fail, continue with the default pool.
}

}  // namespace

int RunMain(int argc, char** argv, absl::string_view usage,
            const std::function<absl::Status()>& body) {
  StartWithYieldingThreads(argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const LauncherInfo launcher = DetectLauncher();
  const bool primary = launcher.rank == 0;
  const auto parse_and_run = [&](Communicator* job) {
    return CatchExceptions(
        [&] { return ParseAndRun(arguments, usage, body, job); });
  };
  if (launcher.size == 1) {
    return Report(parse_and_run(nullptr), primary);
  }

  absl::StatusOr<std::unique_ptr<Communicator>> job =
      JobCommunicator(launcher.size, JobPurpose::kBeginAndEnd);
  if (!job.ok()) {
    // Launchers stop a job at the first rank that fails: let rank 0 print
    // first.
    if (!primary) std::this_thread::sleep_for(std::chrono::seconds(1));
    return Report(job.status(), primary);
  }
  const std::string warning = (*job)->placement().warning;
  if (primary && !warning.empty()) {
    std::cerr << "note: " << warning << std::endl;
  }
  absl::Status status = parse_and_run(job->get());
  std::unique_ptr<Watchdog> watchdog;
  if (!status.ok()) {
    const std::string text =
        absl::StrCat("rank ", launcher.rank, ": ", ErrorText(status));
    const int exit_code = ExitCode(status.code());
    const absl::Status watched = CatchExceptions([&] {
      watchdog = std::make_unique<Watchdog>(
          text, exit_code, Patience(status.code(), launcher.rank));
      return absl::OkStatus();
    });
    if (!watched.ok()) {  // no watchdog thread would end the wait below
      std::cerr << text << std::endl;
      AbortAllRanks(exit_code);
    }
  }
  status = AgreeOnStatus(**job, status);
  watchdog.reset();
  const int exit_code = Report(status, primary);
  // No rank exits before the message is printed.
  (void)(*job)->Barrier();
  return exit_code;
}

absl::Status FlushOutput() {
  if (std::cout.flush()) return absl::OkStatus();
  return absl::DataLossError(
      "cannot write to the standard output; is the disk full?");
}

void Say(absl::string_view line) {
  if (DetectLauncher().rank == 0) std::cout << line << std::endl;
}

int ExitCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kAlreadyExists:
      return 2;
    case absl::StatusCode::kOutOfRange:
      return 65;
    case absl::StatusCode::kNotFound:
      return 66;
    case absl::StatusCode::kUnimplemented:
      return 69;
    case absl::StatusCode::kResourceExhausted:
      return 71;
    case absl::StatusCode::kPermissionDenied:
      return 73;
    case absl::StatusCode::kDataLoss:
      return 74;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
      return 75;
    case absl::StatusCode::kFailedPrecondition:
      return 78;
    default:
      return 70;
  }
}

}  // namespace mtf::train
