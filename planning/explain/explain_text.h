// SPDX-License-Identifier: Apache-2.0
//
// The sections that the texts of an explanation are made of.
#ifndef PLANNING_EXPLAIN_EXPLAIN_TEXT_H_
#define PLANNING_EXPLAIN_EXPLAIN_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "planning/explain/explain.h"

namespace mtf::internal {

inline constexpr int kMinTextWidth = 60;
inline constexpr char kNothingSent[] =
    "no collectives: nothing is sent between devices";

// Collectives that differ only in their layer.
struct CollectiveGroup {
  const ExplainedCollective* first = nullptr;
  std::string tensor;      // "layer_0..11/feed_forward/out/einsum"
  std::string operation;   // the user's, or "" if `tensor` includes its name
  std::string removed_by;  // "drop d_ff:model", or "none: " and the reason
  // Sums over the group; bytes and seconds are those of a rank.
  int64_t calls = 0;
  int64_t bytes = 0;
  double seconds = 0, exposed = 0;
};
// In the order of their first collectives.
std::vector<CollectiveGroup> GroupCollectives(const Explanation& explanation);

// Whether the explanation has no rule changes, for a reason that all of its
// collectives share.
bool NoChangeWasTried(const Explanation& explanation);

// The mesh, the layout, the machine, the cost of the step, and notes.
std::string HeadText(const Explanation& explanation, int width);

// Calls, bytes and times by collective and axis, and the least time of compute
// relative to that of communication over each axis. "" without collectives.
std::string TotalsText(const Explanation& explanation, int width);

// The memory of a rank by purpose, and the tensors alive at its peak: the
// largest `tensors` of them, with their types if `types` is set.
struct MemoryTextOptions {
  size_t tensors = 12;
  bool types = true;
};
std::string MemoryText(const Explanation& explanation, int width,
                       const MemoryTextOptions& options);

// Dimensions with padding, "" if there are none.
std::string PaddingText(const Explanation& explanation, int width);

// The rules with the memory that each saves.
std::string RulesText(const Explanation& explanation, int width);

// The present cost, and that of `changes`, which are indices into
// Explanation::changes.
std::string ChangesText(const Explanation& explanation,
                        const std::vector<size_t>& changes,
                        absl::string_view title, int width);

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_TEXT_H_
