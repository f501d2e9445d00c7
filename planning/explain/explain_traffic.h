// SPDX-License-Identifier: Apache-2.0
//
// What is sent in a program, by what can be compared between layouts.
#ifndef PLANNING_EXPLAIN_EXPLAIN_TRAFFIC_H_
#define PLANNING_EXPLAIN_EXPLAIN_TRAFFIC_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "layouts/mesh.h"
#include "layouts/reshard_path.h"
#include "lowering/program/count_costs.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// What a collective is known by in programs of several layouts, beside its kind
// and axes. The names are those of a program and of a NameMap, which are to
// outlive it.
struct CollectiveKeys {
  // By operand: the user's operation it comes from, or the variable.
  std::vector<absl::string_view> sources;
  // An axis, and a dimension whose rule over that axis causes it.
  std::vector<std::pair<int, absl::string_view>> causes;
};

// What is sent in a program, by such keys.
class Traffic {
 public:
  // `wire_bytes` are what each instruction sends; without them, by itself.
  explicit Traffic(const Program& program,
                   absl::Span<const int64_t> wire_bytes = {});

  // Whether nothing of a collective of another program is left in this one.
  // Either nothing of its kind is here that a rule causes which causes it, or
  // nothing here comes from its operations, and it has not moved elsewhere:
  // less is sent than `before` over each of its axes. `keys` are its own
  // (KeysOf).
  bool LacksCollective(const CollectiveCost& collective,
                       const CollectiveKeys& keys, const Traffic& before) const;

  // What the operations of a collective send in this program and not
  // `before`, "all_reduce over model, all_gather over data"; "" for nothing.
  std::string AddedCollectives(const CollectiveKeys& keys,
                               const Traffic& before, const Mesh& mesh) const;

 private:
  // The axes that something is sent over, by kind of collective.
  using AxesByKind = std::array<AxisSet, kNumCollectiveKinds>;

  // Of what is sent from `source`.
  AxesByKind AxesOf(absl::string_view source) const;

  absl::flat_hash_map<std::string, AxesByKind> sources_;
  absl::flat_hash_map<std::string, AxesByKind> causes_;  // by dimension
  // By kind and axis.
  std::array<std::array<int64_t, kMaxMeshAxes>, kNumCollectiveKinds> bytes_{};
};

using NameMap = absl::flat_hash_map<absl::string_view, absl::string_view>;

// The keys of the collectives of a program, in their order. An operation that
// has another name in `names` is known by that.
std::vector<CollectiveKeys> KeysOf(
    const Program& program, const std::vector<CollectiveCost>& collectives,
    const NameMap& names = {});

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_TRAFFIC_H_
