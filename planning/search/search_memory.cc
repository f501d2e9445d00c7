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

uint64_t Mix(uint64_t key, uint64_t part) {
  return (key ^ part) * 0x9e3779b97f4a7c15 + (key >> 29);
}

// An insertion ends where this many consecutive instructions are equal again.
constexpr size_t kEqualRun = 24;

// The number of entries inserted in `high` at `j` before the continuation of
// `low` at `i`, or -1 if `low` does not continue.
std::ptrdiff_t InsertedEntries(const std::vector<uint64_t>& low, size_t i,
                               const std::vector<uint64_t>& high, size_t j) {
  const size_t run = std::min(kEqualRun, low.size() - i);
  const auto first = low.begin() + static_cast<std::ptrdiff_t>(i);
  const auto found =
      std::search(high.begin() + static_cast<std::ptrdiff_t>(j), high.end(),
                  first, first + static_cast<std::ptrdiff_t>(run));
  return found == high.end()
             ? -1
             : found - high.begin() - static_cast<std::ptrdiff_t>(j);
}

}  // namespace

LiveBytes LiveBytesAlong(const Program& program) {
  const size_t count = program.instructions.size();
  LiveBytes live;
  live.keys.reserve(count);
  live.is_unaligned.reserve(count);
  std::vector<uint64_t> names;
  for (const Origin& origin : program.origins) {
    names.push_back(NameKey(origin.operation));
  }
  const std::vector<bool> ahead = FindDerivedFromVariables(program);
  for (size_t i = 0; i < count; ++i) {
    const Instruction& instruction = program.instructions[i];
    const bool is_reduction = ReducesAxes(instruction.opcode);
    uint64_t key = Mix(static_cast<uint64_t>(instruction.opcode),
                       instruction.origin < 0 ? 0 : names[instruction.origin]);
    for (int result : instruction.results) {
      if (is_reduction) break;
      const ProgramValue& value = program.values[result];
      key = Mix(key, static_cast<uint64_t>(value.local_bytes()));
    }
    live.keys.push_back(key);
    live.is_unaligned.push_back(is_reduction || ahead[i] ||
                                instruction.opcode == Opcode::kWait);
  }
  std::vector<int64_t> change(count + 2, 0);
  for (const Lifetime& lifetime : Lifetimes(program)) {
    if (lifetime.end < lifetime.begin) continue;
    change[lifetime.begin] += Aligned(lifetime.bytes);
    change[lifetime.end + 1] -= Aligned(lifetime.bytes);
  }
  int64_t live_bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    live.bytes.push_back(live_bytes += change[i]);
  }
  return live;
}

std::vector<std::pair<int, int>> AlignPrograms(
    const std::vector<uint64_t>& low, const std::vector<uint64_t>& high) {
  std::vector<std::pair<int, int>> pairs;
  std::vector<size_t> match(low.size());
  for (size_t i = 0, j = 0; i < low.size(); ++i, ++j) {
    if (j == high.size() || low[i] != high[j]) {
      const std::ptrdiff_t inserted = InsertedEntries(low, i, high, j);
      if (inserted < 0) return {};
      // The inserted layer may as well precede the layer that it repeats.
      const size_t length = static_cast<size_t>(inserted);
      for (size_t k = 1; k <= i && high[match[i - k] + length] == low[i - k] &&
                         match[i - k] + k == j;
           ++k) {
        pairs.emplace_back(i - k, match[i - k] + length);
      }
      j += length;
    }
    match[i] = j;
    pairs.emplace_back(i, j);
  }
  return pairs;
}

int64_t PeakLiveBytes(const LiveBytes& low, const LiveBytes& high,
                      double position) {
  const auto extrapolate = [position](int64_t a, int64_t b) {
    const double from = static_cast<double>(a);
    return from + position * (static_cast<double>(b) - from);
  };
  const auto highest_line = [&](const LiveBytes& a, const LiveBytes& b) {
    double highest = -1;
    for (const auto& [i, j] : AlignPrograms(a.keys, b.keys)) {
      highest = std::max(highest, extrapolate(a.bytes[i], b.bytes[j]));
    }
    return highest;
  };
  const double exact = highest_line(low, high);
  if (exact >= 0) return static_cast<int64_t>(exact);
  const auto only_aligned = [](const LiveBytes& live) {
    LiveBytes aligned;
    for (size_t i = 0; i < live.keys.size(); ++i) {
      if (live.is_unaligned[i]) continue;
      aligned.keys.push_back(live.keys[i]);
      aligned.bytes.push_back(live.bytes[i]);
    }
    return aligned;
  };
  const auto peak = [](const LiveBytes& live) {
    return live.bytes.empty()
               ? 0
               : *std::max_element(live.bytes.begin(), live.bytes.end());
  };
  const double peak_line = extrapolate(peak(low), peak(high));
  const double aligned_peak =
      highest_line(only_aligned(low), only_aligned(high));
  return static_cast<int64_t>(
      aligned_peak < 0 ? peak_line : std::min(aligned_peak, peak_line));
}

}  // namespace mtf::internal
