// SPDX-License-Identifier: Apache-2.0
//
// The parts of PrintProgram (print_program.h) below a line.
#ifndef LOWERING_PROGRAM_PRINT_ATTRIBUTES_H_
#define LOWERING_PROGRAM_PRINT_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// `name` as it is, or in quotes if it contains more than letters, digits and
// "_-./": a Scope may have any name. Spaces are escaped because lines are
// broken at them.
std::string NameText(absl::string_view name);

// "[batch:8/data, length:13/model=7] unreduced{cols}".
std::string DimensionsText(const Program& program, const Shape& shape,
                           const TensorLayout& layout,
                           const absl::InlinedVector<int64_t, 5>& local);

// By name of a variable that is not a parameter in device memory: what it is,
// as in "optimizer" or "state offload".
using VariableMarks = absl::flat_hash_map<absl::string_view, std::string>;

// The attributes of `instruction` with a leading space, or "". Variables in
// `marks` are marked as such. An instruction that the verifier rejects prints
// too, as long as its values exist.
std::string AttributesText(const Program& program, const VariableMarks& marks,
                           const Instruction& instruction);

}  // namespace mtf::internal

#endif  // LOWERING_PROGRAM_PRINT_ATTRIBUTES_H_
