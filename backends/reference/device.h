// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_REFERENCE_DEVICE_H_
#define BACKENDS_REFERENCE_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"

namespace mtf::reference {

// Creates the device that computes every instruction by its definition: one
// loop over coordinates, one element at a time, in double precision. Other
// devices are tested against it; it shares no kernel with them and is slow.
absl::StatusOr<std::unique_ptr<Device>> CreateDevice(
    const DeviceOptions& options);

}  // namespace mtf::reference

#endif  // BACKENDS_REFERENCE_DEVICE_H_
