// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/job_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "backends/communicators/launcher.h"
#include "backends/communicators/wait_options.h"
#include "backends/rank_position.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// The shared file of the ranks of a host: a header, then a slot for each rank
// of the job. Zeroed memory is a valid initial state.
struct alignas(64) SignInSlot {
  std::atomic<int32_t> process;  // 0: this rank has not started on this host
  std::atomic<uint32_t> phases;  // that this rank has begun
};
struct alignas(64) SignInHeader {
  std::atomic<bool> reported;
};
static_assert(std::atomic<int32_t>::is_always_lock_free &&
                  std::atomic<bool>::is_always_lock_free,
              "a lock would not work between processes");

// A name that the ranks of this job on this host have in common, and no other
// job.
std::string FileName(const LauncherInfo& launcher) {
  std::string job;
  for (const char* name : {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    const char* text = std::getenv(name);
    if (text != nullptr) absl::StrAppend(&job, name, "=", text, " ");
  }
  // The launchers of MPICH start the ranks of a host from one process.
  if (job.empty()) absl::StrAppend(&job, launcher.name, getppid());
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (unsigned char c : job) hash = (hash ^ c) * 0x100000001b3;
  return absl::StrCat("/mtf_start_", getuid(), "_", absl::Hex(hash), "_",
                      launcher.size);
}

// Maps `bytes` of the file, which the first rank creates; null on failure.
void* MapFile(const std::string& name, int64_t bytes) {
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (posix_fallocate(file, 0, bytes) == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  return memory == MAP_FAILED ? nullptr : memory;
}

bool IsAlive(int32_t process) {
  return process != 0 && (kill(process, 0) == 0 || errno == EPERM);
}

// Whether `process` is stopped by a signal.
bool IsStopped(int32_t process) {
  // "812 (name) T ...": the name may contain blanks and parentheses.
  std::string line;
  std::getline(std::ifstream(absl::StrCat("/proc/", process, "/stat")), line);
  const size_t end = line.rfind(')');
  if (end == std::string::npos || end + 2 >= line.size()) return false;
  return line[end + 2] == 'T' || line[end + 2] == 't';
}

// "rank 2 has not come to MPI_Init (process 812, stopped)", for all `ranks`.
std::string RanksPhrase(const std::vector<int64_t>& ranks,
                        absl::string_view one, absl::string_view many,
                        absl::string_view what, int32_t process) {
  if (ranks.size() != 1) return absl::StrCat(RanksText(ranks), many, what);
  return absl::StrCat(RanksText(ranks), one, what,
                      process == 0
                          ? ""
                          : absl::StrCat(" (process ", process,
                                         !IsAlive(process)    ? ", gone)"
                                         : IsStopped(process) ? ", stopped)"
                                                              : ")"));
}

// The state of the watch, one per process. Never destroyed: exit handlers wait
// too.
class JobWatch {
 public:
  static JobWatch& Get() {
    static JobWatch* watch = new JobWatch;
    return *watch;
  }

  void Start() {
    launcher_ = DetectLauncher();
    if (launcher_.size == 1) return;
    SignIn();
    try {
      std::thread([this] { Watch(); }).detach();
    } catch (const std::system_error&) {
      std::cerr << "note: no thread to watch the start of the job; ranks may "
                   "wait without a deadline"
                << std::endl;
    }
  }

  // Returns false if a phase has begun already.
  bool Begin(absl::string_view phase) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!phase_.empty()) return false;
    phase_ = std::string(phase);
    since_ = Clock::now();
    if (slots_ != nullptr) ++slots_[launcher_.rank].phases;
    return true;
  }
  void End() {
    std::lock_guard<std::mutex> lock(mutex_);
    phase_.clear();
  }

  bool Claim() {
    // The job ends: a rank that has not started would have deleted the file.
    if (!file_.empty()) shm_unlink(file_.c_str());
    return !header_->reported.exchange(true);
  }

 private:
  void SignIn() {
    const std::string name = FileName(launcher_);
    auto* memory = static_cast<SignInHeader*>(MapFile(
        name, static_cast<int64_t>(sizeof(SignInHeader)) +
                  launcher_.size * static_cast<int64_t>(sizeof(SignInSlot))));
    if (memory == nullptr) return;  // messages then name only the phase
    file_ = name;
    header_ = memory;
    slots_ = reinterpret_cast<SignInSlot*>(memory + 1);
    slots_[launcher_.rank].phases = 0;
    slots_[launcher_.rank].process = static_cast<int32_t>(getpid());
    int started = 0;
    for (int rank = 0; rank < launcher_.size; ++rank) {
      if (IsAlive(slots_[rank].process)) ++started;
    }
    // All have mapped it: no file is left over however the job ends.
    if (started >= launcher_.local_size) shm_unlink(name.c_str());
  }

  void Watch() {
    for (;;) {
      const double limit = CollectiveTimeout();
      std::this_thread::sleep_for(
          Seconds(limit > 0 ? std::clamp(limit / 8, 0.02, 0.5) : 0.5));
      std::string phase;
      Clock::time_point since;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        phase = phase_;
        since = since_;
      }
      if (phase.empty() || limit <= 0) continue;
      if (Clock::now() - since < Seconds(limit) + Delay()) continue;
      ReportAndEndJob(ErrorText(TimeoutError(phase, limit)), kTimeoutExitCode);
    }
  }

  // Ranks of several hosts share no claim: stagger them so that the first one
  // ends the job before the others report.
  Seconds Delay() const {
    const bool one_host =
        slots_ != nullptr && launcher_.local_size == launcher_.size;
    return Seconds(one_host ? 0. : std::min(0.1 * launcher_.rank, 3.));
  }

  absl::Status TimeoutError(const std::string& phase, double limit) const {
    return absl::DeadlineExceededError(absl::StrCat(
        MissingText(phase),
        DetailLine("waited", absl::StrCat("rank ", launcher_.rank, " waited ",
                                          limit, " s in ", phase)),
        DetailLine("help", kCollectiveTimeoutHelp)));
  }

  // Which ranks this rank waits for in `phase`, as far as it knows.
  std::string MissingText(const std::string& phase) const {
    if (slots_ == nullptr) {
      return absl::StrCat("some rank has not come to ", phase);
    }
    // Ranks without a process may be on other hosts.
    const bool one_host = launcher_.local_size == launcher_.size;
    std::vector<int64_t> absent, behind, stopped;
    int32_t process = 0;  // of the last of `behind`, else of `stopped`
    for (int rank = 0; rank < launcher_.size; ++rank) {
      const SignInSlot& slot = slots_[rank];
      const int32_t other = slot.process;
      if (other == 0) {
        if (one_host) absent.push_back(rank);
      } else if (slot.phases < slots_[launcher_.rank].phases ||
                 !IsAlive(other)) {
        behind.push_back(rank);
        process = other;
      } else if (IsStopped(other)) {
        stopped.push_back(rank);
        if (behind.empty()) process = other;
      }
    }
    if (!absent.empty()) {
      return RanksPhrase(absent, " has", " have", " not started", 0);
    }
    if (!behind.empty()) {
      return RanksPhrase(behind, " has", " have",
                         absl::StrCat(" not come to ", phase), process);
    }
    if (!stopped.empty()) {
      return RanksPhrase(stopped, " is", " are stopped",
                         absl::StrCat(" in ", phase), process);
    }
    return absl::StrCat(phase,
                        " does not end, to which all ranks of this host "
                        "have come");
  }

  LauncherInfo launcher_;
  std::string file_;  // of the sign-ins; "": none
  SignInHeader own_header_{};
  SignInHeader* header_ = &own_header_;
  SignInSlot* slots_ = nullptr;  // null: no shared memory
  std::mutex mutex_;             // guards the members below
  std::string phase_;            // "": does not wait
  Clock::time_point since_;
};

}  // namespace

void StartJobWatch() {
  static std::once_flag started;
  std::call_once(started, [] { JobWatch::Get().Start(); });
}

WatchedWait::WatchedWait(absl::string_view phase)
    : outermost_(JobWatch::Get().Begin(phase)) {}

WatchedWait::~WatchedWait() {
  if (outermost_) JobWatch::Get().End();
}

bool ClaimReport() { return JobWatch::Get().Claim(); }

void ReportAndEndJob(const std::string& text, int exit_code) {
  if (ClaimReport()) {
    std::cerr << text << std::endl;
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(3));
  }
  AbortAllRanks(exit_code);
}

}  // namespace mtf
