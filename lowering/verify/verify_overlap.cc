// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_overlap.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/status.h"

namespace mtf::internal {
namespace {

class OverlapVerifier {
 public:
  explicit OverlapVerifier(const Program& program)
      : program_(program), in_flight_by_(program.values.size(), -1) {}

  absl::Status Run(int* bad) {
    const bool overlaps =
        std::any_of(program_.instructions.begin(), program_.instructions.end(),
                    [](const Instruction& instruction) {
                      return IsAsynchronous(instruction) ||
                             instruction.opcode == Opcode::kWait;
                    });
    if (!overlaps) return absl::OkStatus();
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      *bad = static_cast<int>(i);
      MTF_RETURN_IF_ERROR(Check(static_cast<int>(i)));
    }
    if (open_.empty()) return absl::OkStatus();
    *bad = open_.front();
    return absl::InternalError(
        "there is no wait for an asynchronous collective");
  }

 private:
  absl::Status Check(int i) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.opcode == Opcode::kWait) return CheckWait(instruction);
    for (int operand : instruction.operands) {
      if (in_flight_by_[operand] < 0) continue;
      return absl::InternalError(absl::StrCat(
          "%", program_.values[operand].name, " is read before its wait"));
    }
    if (!IsAsynchronous(instruction)) return absl::OkStatus();
    if (!Communicates(instruction.opcode)) {
      return absl::InternalError(
          "only collectives that communicate can be asynchronous");
    }
    for (int result : instruction.results) in_flight_by_[result] = i;
    open_.push_back(i);
    return absl::OkStatus();
  }

  absl::Status CheckWait(const Instruction& wait) {
    for (int operand : wait.operands) {
      const int by = in_flight_by_[operand];
      if (by < 0) {
        return absl::InternalError(absl::StrCat(
            "%", program_.values[operand].name,
            " is not a result of an asynchronous collective in flight"));
      }
      const Instruction& collective = program_.instructions[by];
      if (collective.results[0] != operand) {
        return absl::InternalError(
            absl::StrCat("a wait names the first result, which is %",
                         program_.values[collective.results[0]].name, ", not %",
                         program_.values[operand].name));
      }
      for (int result : collective.results) in_flight_by_[result] = -1;
      open_.erase(std::find(open_.begin(), open_.end(), by));
    }
    return absl::OkStatus();
  }

  const Program& program_;
  std::vector<int> in_flight_by_;  // by value: the collective in flight, or -1
  std::vector<int> open_;          // in flight, in program order
};

}  // namespace

absl::Status VerifyOverlap(const Program& program, int* bad) {
  return OverlapVerifier(program).Run(bad);
}

}  // namespace mtf::internal
