// SPDX-License-Identifier: Apache-2.0
#include "lowering/fuse_maps.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "lowering/readers.h"
#include "mtf/check.h"

namespace mtf {
namespace {

// Bounds on one kernel: registers of the block interpreter, and streams that
// the prefetcher still follows.
constexpr size_t kMostSteps = 48;
constexpr size_t kMostOperands = 10;

bool IsFusible(const Instruction& instruction) {
  return instruction.opcode == Opcode::kMap ||
         instruction.opcode == Opcode::kReduce;
}

// Appends `steps` to `to`, with the arguments that `place_of` gives them.
template <class PlaceOf>
void Append(std::vector<MapStep> steps, const PlaceOf& place_of,
            std::vector<MapStep>& to) {
  for (MapStep& step : steps) {
    for (int& argument : step.arguments) argument = place_of(argument);
  }
  if (to.empty()) {
    to = std::move(steps);
    return;
  }
  to.insert(to.end(), std::make_move_iterator(steps.begin()),
            std::make_move_iterator(steps.end()));
}

// Rewrites `reader`, which reads `value` from the map `producer`, to compute it
// itself. `steps` are those of `producer`.
void Absorb(const Instruction& producer, std::vector<MapStep> steps, int value,
            Instruction& reader) {
  absl::InlinedVector<int, 4> operands;
  const auto place_of = [&operands](int value) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == value) return static_cast<int>(i);
    }
    operands.push_back(value);
    return static_cast<int>(operands.size()) - 1;
  };
  // Operands first, because steps count from behind them.
  absl::InlinedVector<int, kMostOperands> reader_map, producer_map;
  for (int operand : reader.operands) {
    reader_map.push_back(operand == value ? -1 : place_of(operand));
  }
  for (int operand : producer.operands) {
    producer_map.push_back(place_of(operand));
  }
  const int num_operands = static_cast<int>(operands.size());
  MapExpression fused;
  fused.num_operands = num_operands;
  const int producer_operands = producer.expression.num_operands;
  Append(
      std::move(steps),
      [&](int argument) {
        return argument < producer_operands
                   ? producer_map[argument]
                   : argument - producer_operands + num_operands;
      },
      fused.steps);
  const int made = num_operands + static_cast<int>(fused.steps.size()) - 1;
  const int shift = made + 1 - reader.expression.num_operands;
  // An identity in front of a reduction only passes the operand on.
  const bool passes_on =
      reader.expression.steps.size() == 1 &&
      reader.expression.steps[0].function == ScalarFunction::kIdentity;
  if (!passes_on) {
    const int reader_operands = reader.expression.num_operands;
    Append(
        std::move(reader.expression.steps),
        [&](int argument) {
          if (argument >= reader_operands) return argument + shift;
          return reader_map[argument] < 0 ? made : reader_map[argument];
        },
        fused.steps);
  }
  reader.expression = std::move(fused);
  reader.operands = std::move(operands);
}

class Fuser {
 public:
  explicit Fuser(Program& program)
      : program_(program),
        readers_(CountReaders(program)),
        producers_(FindProducers(program)) {}

  void Run() {
    for (Instruction& reader : program_.instructions) {
      if (!IsFusible(reader)) continue;
      for (size_t place = 0; place < reader.operands.size();) {
        // After an absorption the operands have moved: look at all again.
        place = TryAbsorb(reader, static_cast<int>(place)) ? 0 : place + 1;
      }
    }
    std::vector<bool> dead(program_.instructions.size(), false);
    for (size_t i = 0; i < dead.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      dead[i] = instruction.opcode == Opcode::kMap &&
                readers_[instruction.results[0]] == 0;
    }
    EraseInstructions(dead, program_);
  }

 private:
  bool TryAbsorb(Instruction& reader, int place) {
    const int value = reader.operands[place];
    if (producers_[value] < 0) return false;
    Instruction& producer = program_.instructions[producers_[value]];
    if (producer.opcode != Opcode::kMap) return false;
    const bool source = producer.operands.empty();
    const int reads = static_cast<int>(
        std::count(reader.operands.begin(), reader.operands.end(), value));
    if (!source && !(readers_[value] == reads && SameElements(reader, value))) {
      return false;
    }
    if (reader.expression.steps.size() + producer.expression.steps.size() >
            kMostSteps ||
        reader.operands.size() + producer.operands.size() > kMostOperands) {
      return false;
    }
    for (int operand : reader.operands) --readers_[operand];
    std::vector<MapStep> steps;
    if (readers_[value] == 0) {
      steps = std::move(producer.expression.steps);  // nobody needs them more
    } else {
      const std::vector<MapStep>& copied = producer.expression.steps;
      steps.reserve(copied.size() + reader.expression.steps.size());
      steps.insert(steps.end(), copied.begin(), copied.end());
    }
    Absorb(producer, std::move(steps), value, reader);
    for (int operand : reader.operands) ++readers_[operand];
    if (readers_[value] == 0) {
      for (int operand : producer.operands) --readers_[operand];
    }
    return true;
  }

  // Whether the reader runs over the very elements of `value`.
  bool SameElements(const Instruction& reader, int value) const {
    const ProgramValue& made = program_.values[value];
    if (reader.opcode == Opcode::kReduce) {
      return made.shape.SameDimensions(reader.iteration);
    }
    return made.shape.SameDimensions(program_.values[reader.results[0]].shape);
  }

  Program& program_;
  std::vector<int> readers_;
  std::vector<int> producers_;
};

}  // namespace

absl::Status FuseMaps(Program& program) {
  Fuser(program).Run();
  return absl::OkStatus();
}

}  // namespace mtf
