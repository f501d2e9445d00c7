// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_rings.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lowering/verify/verify_expressions.h"

namespace mtf::internal {
namespace {

using Stripes = CollectiveAttributes::Stripes;

// How the memory of a rank differs from its shard of the value.
struct RingOrder {
  int64_t shift = 0;  // it is the shard of the rank this many positions before
  bool striped = false;
  AxisList axes = {};  // along which; empty if it is the shard
  friend bool operator==(const RingOrder&, const RingOrder&) = default;
};

class RingVerifier {
 public:
  explicit RingVerifier(const Program& program)
      : program_(program),
        orders_(program.values.size()),
        taken_(program.values.size(), false) {}

  absl::Status Check(const Instruction& instruction) {
    if (const auto* collective = instruction.Find<CollectiveAttributes>();
        collective != nullptr && collective->ReordersShards()) {
      // VerifyRows checks rows that are sent to other ranks.
      if (taken_[instruction.operands[0]]) {
        taken_[instruction.results[0]] = true;
        return absl::OkStatus();
      }
      if (!collective->sources.empty()) {
        return Bad("only rows that were taken move by a list of ranks");
      }
      return Reorder(instruction, *collective);
    }
    const auto* attention = instruction.Find<AttentionAttributes>();
    if (attention != nullptr && attention->ring) {
      return CheckStep(instruction, *attention);
    }
    if (instruction.opcode == Opcode::kTakeRows) {
      taken_[instruction.results[0]] = true;
    }
    if (instruction.opcode == Opcode::kWait || instruction.operands.empty()) {
      return absl::OkStatus();
    }
    const RingOrder& order = orders_[instruction.operands[0]];
    for (int operand : instruction.operands) {
      if (orders_[operand] == order) continue;
      return Bad("operands have their rows in different orders");
    }
    if (order == RingOrder()) return absl::OkStatus();
    if (instruction.opcode != Opcode::kMap) {
      return Bad("an operand has its rows in the order of a ring");
    }
    orders_[instruction.results[0]] = order;
    return absl::OkStatus();
  }

 private:
  absl::Status Reorder(const Instruction& instruction,
                       const CollectiveAttributes& collective) {
    const RingOrder& from = orders_[instruction.operands[0]];
    RingOrder& to = orders_[instruction.results[0]];
    to = from;
    if (collective.stripes == Stripes::kNone) {
      const int64_t ranks = program_.mesh.SizeOf(collective.axes);
      to.shift = (from.shift + collective.shift) % ranks;
      return SetAxes(from, collective.axes, to);
    }
    const bool forms = collective.stripes == Stripes::kForm;
    if (from.shift != 0 || from.striped == forms) {
      return Bad(forms ? "the operand is already shifted or in stripes"
                       : "the operand is not in stripes, or is shifted");
    }
    to.striped = forms;
    return SetAxes(from, collective.axes, to);
  }

  static absl::Status SetAxes(const RingOrder& from, const AxisList& axes,
                              RingOrder& to) {
    if (!from.axes.empty() && !(from.axes == axes)) {
      return Bad("the operand has its rows in the order of other axes");
    }
    to.axes = to.shift == 0 && !to.striped ? AxisList() : axes;
    return absl::OkStatus();
  }

  absl::Status CheckStep(const Instruction& instruction,
                         const AttentionAttributes& attention) {
    const ProgramValue& q = program_.values[instruction.operands[0]];
    const AxisList& axes = q.layout.dims[q.shape.Find(attention.spec.length)];
    const auto order_of = [&](int id) {
      const Shape& shape = program_.values[id].shape;
      const bool moves = shape.Contains(attention.spec.memory_length);
      const bool has_rows = moves || shape.Contains(attention.spec.length);
      RingOrder order = {.shift = moves ? attention.shift : 0,
                         .striped = has_rows && attention.striped};
      if (order.shift != 0 || order.striped) order.axes = axes;
      return order;
    };
    for (int operand : instruction.operands) {
      const RingOrder expected = order_of(operand);
      if (orders_[operand] == expected) continue;
      return Bad(absl::StrCat(
          "operand %", program_.values[operand].name, " is shifted by ",
          orders_[operand].shift, " ranks",
          orders_[operand].striped ? ", in stripes" : "", ", not by ",
          expected.shift, expected.striped ? ", in stripes" : ""));
    }
    for (int result : instruction.results) orders_[result] = order_of(result);
    return absl::OkStatus();
  }

  const Program& program_;
  std::vector<RingOrder> orders_;  // by value
  std::vector<bool> taken_;        // by value: rows from take_rows
};

}  // namespace

absl::Status VerifyRings(const Program& program, int* bad) {
  const bool has_ring = std::any_of(
      program.instructions.begin(), program.instructions.end(),
      [](const Instruction& instruction) {
        const auto* collective = instruction.Find<CollectiveAttributes>();
        const auto* attention = instruction.Find<AttentionAttributes>();
        return (collective != nullptr && collective->ReordersShards()) ||
               (attention != nullptr && attention->ring);
      });
  if (!has_ring) return absl::OkStatus();
  RingVerifier verifier(program);
  for (const Instruction& instruction : program.instructions) {
    const absl::Status status = verifier.Check(instruction);
    if (status.ok()) continue;
    *bad = static_cast<int>(&instruction - program.instructions.data());
    return status;
  }
  return absl::OkStatus();
}

}  // namespace mtf::internal
