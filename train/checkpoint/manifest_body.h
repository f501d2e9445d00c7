// SPDX-License-Identifier: Apache-2.0
//
// What manifest.cc, which writes, and parse_manifest.cc share.
#ifndef TRAIN_CHECKPOINT_MANIFEST_BODY_H_
#define TRAIN_CHECKPOINT_MANIFEST_BODY_H_

#include <array>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf::train {

// The names of VariableKind, by its value.
inline constexpr std::array<absl::string_view, 3> kManifestKinds = {
    "parameter", "optimizer", "state"};

// Compares the checksum at the beginning of a manifest with that of its body,
// which it returns. kDataLoss if they differ or there is none.
absl::StatusOr<absl::string_view> CheckedManifestBody(absl::string_view text);

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_MANIFEST_BODY_H_
