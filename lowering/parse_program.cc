// SPDX-License-Identifier: Apache-2.0
#include "lowering/parse_program.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "lowering/passes/plan_einsums.h"
#include "lowering/program/program_parser.h"
#include "lowering/verify/verify_program.h"

namespace mtf {
namespace {

using internal::ParsedProgram;

// Verifies the program; an error names its position in the text.
absl::Status Verify(const ParsedProgram& parsed) {
  int bad = -1;
  const absl::Status valid = VerifyProgram(parsed.program, &bad);
  if (valid.ok()) return valid;
  const std::string position =
      bad >= 0 ? absl::StrCat("line ", parsed.lines[bad], ", column 1")
      : bad == kBadArena && parsed.has_buffers  ? parsed.arena_position
      : bad == kBadCommit && parsed.has_buffers ? parsed.commit_position
                                                : "line 1, column 1";
  return internal::WithoutLongLines(absl::InvalidArgumentError(
      absl::StrCat(position, ": ", valid.message())));
}

// Plans the einsums and compares the plans with those of the text.
absl::Status PlanAndCheckEinsums(ParsedProgram& parsed) {
  // Once memory is planned, einsums have plans, even if the text omits them.
  if (parsed.einsum_plans.empty() && !parsed.has_buffers) {
    return absl::OkStatus();
  }
  MTF_RETURN_IF_ERROR(PlanEinsums(parsed.program));
  for (const ParsedProgram::EinsumText& given : parsed.einsum_plans) {
    const std::string plan = parsed.program.instructions[given.instruction]
                                 .Get<EinsumAttributes>()
                                 .plan->ToString();
    if (given.plan == plan) continue;
    return internal::WithoutLongLines(absl::InvalidArgumentError(absl::StrCat(
        given.position, ": the plan of this einsum is not by{", given.plan, "}",
        DetailLine("help",
                   absl::StrCat("write by{", plan, "}, or leave it out")))));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> ParseProgram(absl::string_view text) {
  MTF_ASSIGN_OR_RETURN(ParsedProgram parsed,
                       internal::ProgramParser().Run(text));
  MTF_RETURN_IF_ERROR(Verify(parsed));
  MTF_RETURN_IF_ERROR(PlanAndCheckEinsums(parsed));
  return std::move(parsed.program);
}

}  // namespace mtf
