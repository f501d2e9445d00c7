// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_OFFLOAD_RULES_H_
#define LAYOUTS_OFFLOAD_RULES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mtf {

// The kinds of variables that the section [offload] selects by a word.
enum class OffloadKind : uint8_t { kParameters, kOptimizer, kState };

// One item of the section: "optimizer", "parameters" or "state", or a pattern
// of names of variables (mtf/scope_pattern.h), as in "embedding" or
// "layer_*/ffn".
struct OffloadItem {
  std::string text;
  // Where it is written: "--layout, rule 2 of 3, characters 8-15" or
  // "fsdp.layout:4".
  std::string origin;

  bool Selects(OffloadKind kind, absl::string_view variable) const;
};

// A variable of a graph, as items select it.
struct OffloadVariable {
  std::string name;
  OffloadKind kind = OffloadKind::kParameters;
};

// The section [offload] of a layout: variables that are in host memory between
// steps. A step copies a shard to device memory where it is used, and copies
// its new value back.
//
//   [offload]
//   optimizer, embedding
class OffloadRules {
 public:
  // Adds an item. Returns kInvalidArgument, without a position, if it is not a
  // word or a pattern, or if it is there already.
  absl::Status Add(OffloadItem item);

  bool empty() const { return items_.empty(); }
  const std::vector<OffloadItem>& items() const { return items_; }
  bool Selects(OffloadKind kind, absl::string_view variable) const;

  // Returns a notice for each item that selects none of `variables` in
  // `notices`. Returns kInvalidArgument if such an item is probably a
  // misspelling, or for every such item if `strict`.
  absl::Status CheckItems(absl::Span<const OffloadVariable> variables,
                          bool strict, std::vector<std::string>& notices) const;

  std::string ToString() const;  // "optimizer, embedding"

 private:
  std::vector<OffloadItem> items_;
};

}  // namespace mtf

#endif  // LAYOUTS_OFFLOAD_RULES_H_
