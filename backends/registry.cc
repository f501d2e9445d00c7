// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/backend.h"
#include "backends/cpu/device.h"
#include "backends/cuda/device.h"
#include "backends/reference/device.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// The table of devices: each backend is one line. `is_available` says whether
// this machine has the device (null: always). `create` is called even if it
// does not, and returns the reason.
struct Entry {
  const char* name;
  absl::StatusOr<std::unique_ptr<Device>> (*create)(const DeviceOptions&);
  bool (*is_available)() = nullptr;
};
constexpr Entry kDevices[] = {
    {"cpu", cpu::CreateDevice},
    {"reference", reference::CreateDevice},
    {"cuda", cuda::CreateDevice, cuda::HasGpu},
    {"cuda_emulated", cuda::CreateEmulatedDevice},
};

}  // namespace

std::vector<std::string> DeviceNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kDevices) {
    if (entry.is_available == nullptr || entry.is_available()) {
      names.emplace_back(entry.name);
    }
  }
  return names;
}

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(
    absl::string_view name, const DeviceOptions& options) {
  if (options.num_threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_threads of device \"", name, "\" is ",
                     options.num_threads, ", below 1"));
  }
  for (const Entry& entry : kDevices) {
    if (name == entry.name) return entry.create(options);
  }
  std::vector<std::string> names;
  for (const Entry& entry : kDevices) names.emplace_back(entry.name);
  const std::string nearest = NearestName(name, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "this build has no device \"", name, "\"",
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      "\n  devices  ", absl::StrJoin(names, ", ")));
}

}  // namespace mtf
