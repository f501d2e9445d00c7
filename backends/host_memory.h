// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_HOST_MEMORY_H_
#define BACKENDS_HOST_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>

namespace mtf {

// The bytes of memory that the processes of this job may use on this host
// together: its physical memory, or the limit of the control group of this
// process or of a group around it (memory.max of version 2,
// memory.limit_in_bytes of version 1), as a container sets it, if that is less.
int64_t HostMemoryBytes();

// The smallest limit of those groups; empty if there is none. `root` is the
// folder with proc/self/cgroup and sys/fs/cgroup, "" for that of the system.
std::optional<int64_t> ControlGroupMemoryLimit(const std::string& root);

}  // namespace mtf

#endif  // BACKENDS_HOST_MEMORY_H_
