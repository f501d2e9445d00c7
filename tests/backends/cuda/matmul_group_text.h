// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_BACKENDS_CUDA_MATMUL_GROUP_TEXT_H_
#define TESTS_BACKENDS_CUDA_MATMUL_GROUP_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lowering/fusion/matmul_groups.h"
#include "lowering/program/program.h"

namespace mtf::cuda {

inline std::vector<MatmulGroup> MatmulGroupsOf(const Program& program) {
  return FindMatmulGroups(
      program, std::vector<bool>(program.instructions.size(), false));
}

// The matmul groups of a program, as text: "2 members adds; 2 members gelu
// keeps".
inline std::string MatmulGroupTexts(const Program& program) {
  std::vector<std::string> texts;
  for (const MatmulGroup& group : MatmulGroupsOf(program)) {
    std::string text = absl::StrCat(group.members.size(), " members");
    if (group.bias >= 0) text += " bias";
    if (group.gelu) text += " gelu";
    if (group.addend >= 0) text += " adds";
    if (group.kept >= 0) text += " keeps";
    if (group.gelu_gradient_input >= 0) text += " gelu gradient";
    if (group.late && group.gelu_gradient_input < 0) text += " late";
    texts.push_back(text);
  }
  return absl::StrJoin(texts, "; ");
}

}  // namespace mtf::cuda

#endif  // TESTS_BACKENDS_CUDA_MATMUL_GROUP_TEXT_H_
