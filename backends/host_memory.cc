// SPDX-License-Identifier: Apache-2.0
#include "backends/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace mtf {
namespace {

// The number in a file; empty for "max" and for a file that does not exist.
std::optional<int64_t> ReadLimit(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  int64_t bytes = 0;
  if (!(file >> text) || !absl::SimpleAtoi(text, &bytes) || bytes < 0) {
    return std::nullopt;
  }
  return bytes;
}

// Sets `least` to the smallest of itself and the limits that the files `name`
// state for `group` and the groups around it, below `folder`.
void TakeLimits(const std::string& folder, std::string group,
                const std::string& name, std::optional<int64_t>& least) {
  while (true) {
    const std::optional<int64_t> limit =
        ReadLimit(absl::StrCat(folder, group, "/", name));
    if (limit.has_value()) least = std::min(least.value_or(*limit), *limit);
    if (group.empty()) return;
    group.resize(group.rfind('/'));
  }
}

}  // namespace

std::optional<int64_t> ControlGroupMemoryLimit(const std::string& root) {
  const std::string groups = absl::StrCat(root, "/sys/fs/cgroup");
  std::optional<int64_t> least;
  // Lines "number:controllers:group". Version 2 has no controllers there. In a
  // container the group may be a path of the host that does not exist here; the
  // folder at the top is then that of the container.
  std::ifstream file(absl::StrCat(root, "/proc/self/cgroup"));
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || fields[2].empty() || fields[2][0] != '/') {
      continue;
    }
    const std::string group = fields[2] == "/" ? "" : fields[2];
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (fields[1].empty()) {
      TakeLimits(groups, group, "memory.max", least);
    } else if (std::find(controllers.begin(), controllers.end(), "memory") !=
               controllers.end()) {
      TakeLimits(absl::StrCat(groups, "/memory"), group,
                 "memory.limit_in_bytes", least);
    }
  }
  return least;
}

int64_t HostMemoryBytes() {
  const int64_t physical = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
                           static_cast<int64_t>(sysconf(_SC_PAGE_SIZE));
  // Version 1 states "no limit" as a number above all memory.
  return std::min(physical, ControlGroupMemoryLimit("").value_or(physical));
}

}  // namespace mtf
