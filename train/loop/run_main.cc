// SPDX-License-Identifier: Apache-2.0
#include "train/loop/run_main.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "backends/communicator.h"
#include "backends/communicators/job_watch.h"
#include "backends/communicators/launcher.h"
#include "backends/communicators/rank_errors.h"
#include "backends/communicators/wait_options.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"
#include "train/loop/flag_types.h"
#include "train/loop/parse_flags.h"
#include "train/session/plan_check.h"
#include "train/session/rank_set.h"
#include "train/session/sign_in.h"

namespace mtf::train {
namespace {

// The name of the payload of EndOfProgram().
constexpr absl::string_view kEndOfProgram = "mtf/end_of_program";

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
          ReportAndEndJob(text, exit_code);
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
  MTF_RETURN_IF_ERROR(SignIn(*job, "the comparison of the plans"));
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
    const absl::Status status = body();
    const bool ended = status.GetPayload(kEndOfProgram).has_value();
    if (!status.ok() && !ended) return status;
  }
  return FlushOutput();
}

// Prints `status` if it is an error and this is the primary process; returns
// its exit code.
int Report(const absl::Status& status, bool primary) {
  if (!status.ok() && primary) std::cerr << ErrorText(status) << std::endl;
  return ExitCode(status.code());
}

// Uses --collective_timeout from the start, before flags are parsed. An invalid
// value is reported when they are.
void SetTimeoutOfStart(const std::vector<std::string>& arguments) {
  const absl::optional<std::string> text =
      FindFlagValue(arguments, "collective_timeout");
  TimeLimit limit;
  std::string error;
  if (text.has_value() && AbslParseFlag(*text, &limit, &error)) {
    SetCollectiveTimeout(limit.seconds);
  }
}

// Watches a rank that failed with `status` while it waits for the others.
std::unique_ptr<Watchdog> WatchFailure(const absl::Status& status, int rank) {
  const std::string text = absl::StrCat("rank ", rank, ": ", ErrorText(status));
  const int exit_code = ExitCode(status.code());
  std::unique_ptr<Watchdog> watchdog;
  const absl::Status watched = CatchExceptions([&] {
    watchdog = std::make_unique<Watchdog>(text, exit_code,
                                          Patience(status.code(), rank));
    return absl::OkStatus();
  });
  // Without a thread nothing would end the wait.
  if (!watched.ok()) ReportAndEndJob(text, exit_code);
  return watchdog;
}

// Waits for all ranks to end, prints the first error, and returns its exit
// code. If some rank does not come, ends the job with one message.
int EndTogether(Communicator& job, const absl::Status& status) {
  const int rank = static_cast<int>(job.rank());
  // From here on, ranks that wait for this one in a step stop waiting.
  job.SetState(status.ok() ? RankState::kEnded : RankState::kFailed);
  std::unique_ptr<Watchdog> watchdog;
  if (!status.ok()) watchdog = WatchFailure(status, rank);
  const absl::Status met = SignIn(job, "the end of the program");
  if (!met.ok()) {
    const absl::Status& cause = status.ok() ? met : status;
    // Let the rank that knows the cause report it.
    if (IsAnotherRankFailed(cause)) {
      std::this_thread::sleep_for(std::chrono::seconds(2));
    }
    ReportAndEndJob(ErrorText(cause), ExitCode(cause.code()));
  }
  const absl::Status agreed = AgreeOnStatus(job, status);
  watchdog.reset();
  const int exit_code = Report(agreed, rank == 0);
  // No rank exits before the message is printed.
  (void)job.Barrier();
  return exit_code;
}

}  // namespace

int RunMain(int argc, char** argv, absl::string_view usage,
            const std::function<absl::Status()>& body) {
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

  // Ranks sign in at the start, so that a rank that does not start is missed.
  SetTimeoutOfStart(arguments);
  StartJobWatch();
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
  const absl::Status status = parse_and_run(job->get());
  return EndTogether(**job, status);
}

absl::Status EndOfProgram() {
  absl::Status status = absl::CancelledError(
      "the program has printed what was asked for and ends; RunMain() takes "
      "this for success");
  status.SetPayload(kEndOfProgram, absl::Cord());
  return status;
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
