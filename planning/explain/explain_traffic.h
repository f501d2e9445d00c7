// SPDX-License-Identifier: Apache-2.0
//
// Compares the collectives of one step under two layouts.
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

// Identifies a collective across layouts, together with its kind and axes.
// Refers to names of a Program and a NameMap, which must outlive it.
struct CollectiveKeys {
  // For each operand, the user's operation or the variable that it comes from.
  std::vector<absl::string_view> sources;
  // Pairs of a mesh axis and the dimension whose rule over that axis causes it.
  std::vector<std::pair<int, absl::string_view>> causes;
};

// The collectives of a program, by source, by cause, and by kind and axis.
class Traffic {
 public:
  // `wire_bytes` are the bytes that each instruction sends in a step. If empty,
  // they are computed from `program`.
  explicit Traffic(const Program& program,
                   absl::Span<const int64_t> wire_bytes = {});

  // Whether a change of rules removes `collective`. This is the traffic after
  // the change, `before` that of the program with `collective`, and `keys` are
  // its keys (KeysOf). A collective is removed if either
  //   * none of its causes causes a collective of its kind any more, or
  //   * its sources send nothing of its kind over its axes, and each of these
  //     axes carries fewer bytes of its kind than before, so that it has not
  //     merely moved to another operation.
  bool LacksCollective(const CollectiveCost& collective,
                       const CollectiveKeys& keys, const Traffic& before) const;

  // The collectives that the sources in `keys` need in this program but not
  // before: "all_reduce over model, all_gather over data", or "".
  std::string AddedCollectives(const CollectiveKeys& keys,
                               const Traffic& before, const Mesh& mesh) const;

 private:
  // By kind of collective: the axes that it communicates over.
  using AxesByKind = std::array<AxisSet, kNumCollectiveKinds>;

  // The collectives on values of `source`.
  AxesByKind AxesOf(absl::string_view source) const;

  absl::flat_hash_map<std::string, AxesByKind> sources_;
  absl::flat_hash_map<std::string, AxesByKind> causes_;  // by dimension
  // Bytes sent, by kind and axis.
  std::array<std::array<int64_t, kMaxMeshAxes>, kNumCollectiveKinds> bytes_{};
};

using NameMap = absl::flat_hash_map<absl::string_view, absl::string_view>;

// The keys of the collectives of a program, in their order. Names of operations
// that occur in `names` are replaced.
std::vector<CollectiveKeys> KeysOf(
    const Program& program, const std::vector<CollectiveCost>& collectives,
    const NameMap& names = {});

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_TRAFFIC_H_
