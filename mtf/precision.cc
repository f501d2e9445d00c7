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
  // No f16 is a bf16, nor the other way round.
  if (master == parameters || master == kFloat32) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a master copy of ", DTypeName(master),
                   " cannot hold parameters of ", DTypeName(parameters),
                   "\n  help     give the master f32, or the dtype of the "
                   "parameters for none"));
}

}  // namespace mtf
