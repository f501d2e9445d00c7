// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_ATTENTION_PREPARE_ATTENTION_H_
#define BACKENDS_CPU_ATTENTION_PREPARE_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/backend.h"

namespace mtf::cpu {

// Prepares an instruction attention or attention_gradient (attention.h).
absl::StatusOr<std::unique_ptr<Kernel>> PrepareAttentionInstruction(
    const Binding& binding);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_ATTENTION_PREPARE_ATTENTION_H_
