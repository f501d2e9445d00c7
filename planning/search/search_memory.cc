// SPDX-License-Identifier: Apache-2.0
#include "planning/search/search_memory.h"

#include <algorithm>
#include <cstddef>

#include "lowering/program/derived_from_parameters.h"
#include "planning/cost/layer_names.h"
#include "planning/cost/lifetimes.h"
#include "planning/machine/units.h"
#include "planning/search/search_names.h"

namespace mtf::internal {
namespace {

constexpr int64_t kAlignment = 64;  // of buffers in the arena

int64_t Aligned(int64_t bytes) {
  return std::max<int64_t>(1, (bytes + kAlignment - 1) / kAlignment) *
         kAlignment;
}

uint64_t Mixed(uint64_t key, uint64_t part) {
  return (key ^ part) * 0x9e3779b97f4a7c15 + (key >> 29);
}

// Consecutive equal instructions that mark the end of an insertion.
constexpr size_t kAgree = 24;

// The number of entries inserted in `high` at `j` before the continuation of
// `low` at `i`, or -1 if `low` does not continue.
std::ptrdiff_t InsertedEntries(const std::vector<uint64_t>& low, size_t i,
                               const std::vector<uint64_t>& high, size_t j) {
  const size_t agree = std::min(kAgree, low.size() - i);
  const auto first = low.begin() + static_cast<std::ptrdiff_t>(i);
  const auto found =
      std::search(high.begin() + static_cast<std::ptrdiff_t>(j), high.end(),
                  first, first + static_cast<std::ptrdiff_t>(agree));
  return found == high.end()
             ? -1
             : found - high.begin() - static_cast<std::ptrdiff_t>(j);
}

}  // namespace

HeldBytes HeldAlong(const Program& program,
                    absl::Span<const FusedGroup> groups) {
  const size_t count = program.instructions.size();
  HeldBytes held;
  held.keys.reserve(count);
  held.floats.reserve(count);
  std::vector<uint64_t> names;
  for (const Origin& origin : program.origins) {
    names.push_back(NameKey(origin.operation));
  }
  const std::vector<bool> ahead = FindDerivedFromVariables(program);
  for (size_t i = 0; i < count; ++i) {
    const Instruction& instruction = program.instructions[i];
    const bool joins = ReducesAxes(instruction.opcode);
    uint64_t key =
        Mixed(static_cast<uint64_t>(instruction.opcode),
              instruction.origin < 0 ? 0 : names[instruction.origin]);
    for (int result : instruction.results) {
      if (joins) break;
      const ProgramValue& value = program.values[result];
      key = Mixed(key, static_cast<uint64_t>(value.local_bytes()));
    }
    held.keys.push_back(key);
    held.floats.push_back(joins || ahead[i] ||
                          instruction.opcode == Opcode::kWait);
  }
  std::vector<int64_t> change(count + 2, 0);
  for (const Lifetime& lifetime : Lifetimes(program, groups)) {
    if (lifetime.end < lifetime.begin) continue;
    change[lifetime.begin] += Aligned(lifetime.bytes);
    change[lifetime.end + 1] -= Aligned(lifetime.bytes);
  }
  int64_t now = 0;
  for (size_t i = 0; i < count; ++i) held.bytes.push_back(now += change[i]);
  return held;
}

std::vector<std::pair<int, int>> MatchPositions(
    const std::vector<uint64_t>& low, const std::vector<uint64_t>& high) {
  std::vector<std::pair<int, int>> places;
  std::vector<size_t> match(low.size());
  for (size_t i = 0, j = 0; i < low.size(); ++i, ++j) {
    if (j == high.size() || low[i] != high[j]) {
      const std::ptrdiff_t more = InsertedEntries(low, i, high, j);
      if (more < 0) return {};
      // The insertion may equally come before the block that it repeats.
      const size_t length = static_cast<size_t>(more);
      for (size_t k = 1; k <= i && high[match[i - k] + length] == low[i - k] &&
                         match[i - k] + k == j;
           ++k) {
        places.emplace_back(i - k, match[i - k] + length);
      }
      j += length;
    }
    match[i] = j;
    places.emplace_back(i, j);
  }
  return places;
}

int64_t MostHeld(const HeldBytes& low, const HeldBytes& high, double place) {
  const auto in_line = [place](int64_t a, int64_t b) {
    const double from = static_cast<double>(a);
    return from + place * (static_cast<double>(b) - from);
  };
  const auto most = [&](const HeldBytes& a, const HeldBytes& b) {
    double highest = -1;
    for (const auto& [i, j] : MatchPositions(a.keys, b.keys)) {
      highest = std::max(highest, in_line(a.bytes[i], b.bytes[j]));
    }
    return highest;
  };
  const double exact = most(low, high);
  if (exact >= 0) return static_cast<int64_t>(exact);
  const auto fixed = [](const HeldBytes& held) {
    HeldBytes left;
    for (size_t i = 0; i < held.keys.size(); ++i) {
      if (held.floats[i]) continue;
      left.keys.push_back(held.keys[i]);
      left.bytes.push_back(held.bytes[i]);
    }
    return left;
  };
  const auto peak = [](const HeldBytes& held) {
    return held.bytes.empty()
               ? 0
               : *std::max_element(held.bytes.begin(), held.bytes.end());
  };
  const double line = in_line(peak(low), peak(high));
  const double near = most(fixed(low), fixed(high));
  return static_cast<int64_t>(near < 0 ? line : std::min(near, line));
}

}  // namespace mtf::internal
