// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_PRINT_PROGRAM_H_
#define LOWERING_PROGRAM_PRINT_PROGRAM_H_

#include <cstdint>
#include <string>

#include "lowering/program/program.h"

namespace mtf {

// The program as text, one typed instruction per line:
//
//   mesh{rows:2, cols:2}
//   %h : f32[batch:8/rows, hidden:16/cols] = map(%a) relu
//   %y : f32[batch:8/rows, io:4] unreduced{cols} = einsum(%h, %w2) sum{hidden}
//   %y.sum : f32[batch:8/rows, io:4] = all_reduce(%y) sum over{cols}
//   end{instructions:3}
//
// Once shards have local extents, a sharded or padded dimension also shows its
// extent on every rank, "batch:13/rows=7". A line "grains{d_model:rows}" lists
// axes that a dimension is padded for though no value here is sharded over
// them, and "tied{memory_length:length}" other names of a dimension. Printing a
// program that ParseProgram returned yields the text that was parsed.
//
// kWithOrigins adds what is needed to explain a program without its graph: a
// line for each layout rule, numbered from 0, and after each instruction its
// causes and the user's operation and line.
//
//   rule d_ff:model from "preset megatron:8"
//   %y.sum : f32[batch:8, d_model:16] = all_reduce(%y) sum over{model}
//       for{d_ff/model rule 0} at layer_0/ffn/out/einsum lm.cc:83
enum class ProgramDetail : uint8_t { kPlain, kWithOrigins };
std::string PrintProgram(const Program& program,
                         ProgramDetail detail = ProgramDetail::kPlain);
std::string PrintInstruction(const Program& program,
                             const Instruction& instruction,
                             ProgramDetail detail = ProgramDetail::kPlain);
// "group rows(%max, %e, %sum, %p)": the members by their results.
std::string PrintGroup(const Program& program, const FusedGroup& group);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_PRINT_PROGRAM_H_
