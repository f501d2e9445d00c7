// SPDX-License-Identifier: Apache-2.0
#include "mtf/precision.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mtf {

absl::Status Precision::Validate() const {
  const std::pair<const char*, DType> dtypes[] = {
      {"master", master},
      {"parameters", parameters},
      {"activations", activations.value_or(kFloat32)},
      {"gradients", gradients.value_or(kFloat32)},
  };
  for (const auto& [name, dtype] : dtypes) {
    if (IsFloat(dtype)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the precision of ", name, " is ", DTypeName(dtype), ", not a float"));
  }
  // f32 holds every f16 and bf16; f16 and bf16 do not hold each other.
  if (master == parameters || master == kFloat32) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a master copy of ", DTypeName(master),
                   " cannot hold parameters of ", DTypeName(parameters),
                   "\n  help     make the master f32, or give it the dtype of "
                   "the parameters to keep no master copy"));
}

}  // namespace mtf
