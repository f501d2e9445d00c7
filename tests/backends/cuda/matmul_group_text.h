// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_BACKENDS_CUDA_MATMUL_GROUP_TEXT_H_
#define TESTS_BACKENDS_CUDA_MATMUL_GROUP_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lowering/lower.h"
#include "lowering/program/program.h"
#include "tests/lowering/gpu_fusion.h"
#include "tests/matchers.h"

namespace mtf::cuda {

// The groups that fuse_epilogues writes for a GPU.
inline std::vector<FusedGroup> MatmulGroupsOf(Program program) {
  program.buffers = {};  // planned for single instructions
  EXPECT_OK(RunPass("fuse_epilogues", program, mtf::testing::GpuFusion()));
  return program.groups;
}

// The same as text: "2 members adds; 2 members gelu keeps".
inline std::string MatmulGroupTexts(const Program& program) {
  std::vector<std::string> texts;
  Program fused = program;
  fused.groups = MatmulGroupsOf(program);
  const std::vector<bool> internal = FindInternalValues(fused);
  for (const FusedGroup& group : fused.groups) {
    const EpilogueGroup& epilogue = *group.Find<EpilogueGroup>();
    std::string text = absl::StrCat(group.members.size(), " members");
    if (epilogue.bias >= 0) text += " bias";
    if (epilogue.gelu) text += " gelu";
    if (epilogue.addend >= 0) text += " adds";
    const int before = group.members[group.members.size() - 2];
    if (!internal[program.instructions[before].results[0]]) text += " keeps";
    if (epilogue.gelu_gradient >= 0) text += " gelu gradient";
    texts.push_back(text);
  }
  return absl::StrJoin(texts, "; ");
}

}  // namespace mtf::cuda

#endif  // TESTS_BACKENDS_CUDA_MATMUL_GROUP_TEXT_H_
