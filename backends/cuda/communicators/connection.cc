// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/communicators/connection.h"

#include <unistd.h>

#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda/communicators/loopback.h"
#include "backends/cuda/communicators/nccl.h"
#include "backends/cuda/communicators/recorded_segment.h"
#include "backends/environment_switch.h"
#include "mtf/status.h"

namespace mtf::cuda {

bool RecordingIsOff() { return !EnvironmentSwitch("MTF_CUDA_RECORD", true); }

absl::StatusOr<CollectiveCounts> Connection::Counted(
    const std::function<absl::Status()>& work) {
  const CollectiveCounts before = counts();
  MTF_RETURN_IF_ERROR(work());
  CollectiveCounts more;
  for (const auto& [key, count] : counts()) {
    const auto known = before.find(key);
    const CollectiveCount old =
        known == before.end() ? CollectiveCount{} : known->second;
    if (count == old) continue;
    more[key] = {count.calls - old.calls, count.bytes - old.bytes};
  }
  return more;
}

absl::StatusOr<std::unique_ptr<Connection>> Connect(
    std::shared_ptr<Runtime> runtime, Communicator& host) {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> processes,
                       host.AllGatherText(absl::StrCat(
                           name, " ", getpid(), " ",
                           reinterpret_cast<uintptr_t>(runtime.get()))));
  const size_t different =
      std::set<std::string>(processes.begin(), processes.end()).size();
  if (different == 1) return ConnectLoopback(std::move(runtime), host);
  if (different == processes.size()) {
    return ConnectNccl(std::move(runtime), host);
  }
  return absl::UnimplementedError(absl::StrCat(
      processes.size(), " ranks in ", different,
      " processes: a process has one GPU, and either all ranks or one"));
}

}  // namespace mtf::cuda
