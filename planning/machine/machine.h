// SPDX-License-Identifier: Apache-2.0
//
// A device and its links: the numbers behind every estimated time.
#ifndef PLANNING_MACHINE_MACHINE_H_
#define PLANNING_MACHINE_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layouts/mesh.h"
#include "layouts/reshard_path.h"
#include "lowering/fusion/attention_problem.h"
#include "lowering/fusion/fusion_capabilities.h"
#include "mtf/dtype.h"
#include "planning/machine/machine_curves.h"

namespace mtf {

// How fast products of one dtype are: a peak and the share of it that a product
// reaches, as factors by its FLOPs, by the shorter side of its result and by
// the length of its sums.
struct MatmulRate {
  DType dtype = kFloat32;
  double peak = 0;  // FLOP/s
  ShareCurve flops, side, k;
};

// How fast fused attention is: its share of the speed that a matmul of as many
// FLOPs has, by the places of a head. Empty where there is none.
struct AttentionRate {
  ShareCurve forward, backward;
};

// Seconds of a collective over `ranks` ranks, by the bytes that
// CollectiveSeconds takes.
struct CollectiveTable {
  CollectiveKind kind;
  int64_t ranks = 2;
  TimeCurve seconds;
};

// A level of the network, such as the links inside of a node.
struct MachineLink {
  std::string name;
  int64_t ranks = 0;     // it joins this many; 0: any number
  double bandwidth = 0;  // bytes per second that each rank sends and receives
  double latency = 0;    // seconds of a message
  std::vector<CollectiveTable> tables;
};

// What a machine file says (docs/machines.md).
//
//   MTF_ASSIGN_OR_RETURN(const Machine machine, Machine::Load("h200_x8"));
//   machine.CollectiveSeconds(CollectiveKind::kAllReduce, mesh, axes, 1 << 20);
class Machine {
 public:
  // `origin` says where the text came from. kInvalidArgument with line and way
  // out for text that is no machine.
  static absl::StatusOr<Machine> Parse(absl::string_view text,
                                       absl::string_view origin);
  // A preset by name (lowering/machines/*.machine, built in); a file
  // NAME.machine of $MTF_MACHINES or of mtf/ in the user's configuration
  // folder, where `mtf calibrate` writes "this_host"; or the file of this path.
  // kNotFound with the nearest preset.
  static absl::StatusOr<Machine> Load(absl::string_view name_or_path);
  // Those built in, and "this_host".
  static std::vector<std::string> PresetNames();
  // Where `mtf calibrate` puts the machine called `name`: the first of
  // $MTF_MACHINES, $XDG_CONFIG_HOME/mtf and ~/.config/mtf that is set.
  // kFailedPrecondition where none is.
  static absl::StatusOr<std::string> UserPath(absl::string_view name);

  const std::string& name() const { return name_; }
  int64_t memory_bytes() const { return memory_bytes_; }  // of one device
  // Collectives run beside compute that does not need them.
  bool overlaps() const { return overlaps_; }
  // Runs chains of maps and reductions as one kernel (fused_kernels.h).
  bool fuses() const { return fuses_; }
  // Runs attention and its gradient as one kernel each, where the layout leaves
  // them whole (find_attention.h); plan_for_machine.h plans memory so.
  // What its devices fuse, as far as the memory plan depends on it.
  FusionCapabilities fusion() const { return {.attention = fuses_attention()}; }
  bool fuses_attention() const { return !attention_.forward.points.empty(); }
  const std::vector<MachineLink>& links() const {
    return links_;
  }  // inner first

  // kInvalidArgument where `mesh` has more ranks than the outermost link joins.
  absl::Status CheckMesh(const Mesh& mesh) const;

  // Seconds of one kernel, its launch included: `batch` products [m, k] x
  // [k, n], or a kernel that reads and writes `bytes` in all. A dtype without
  // rates takes those of bf16 for f16 and the other way round, else those of
  // f32, else the first.
  double MatmulSeconds(DType dtype, int64_t batch, int64_t m, int64_t n,
                       int64_t k) const;
  double CopySeconds(int64_t bytes) const;
  // Seconds of fused attention, forward or backward; on a machine without it,
  // as if all of it were matmul.
  double AttentionSeconds(const AttentionProblem& problem) const;
  // Seconds of a kernel that also computes this many scalar functions.
  double MapSeconds(int64_t bytes, double functions) const;
  // Seconds of a collective over `axes` of `mesh`. `bytes` is the whole buffer
  // of one rank: what all_reduce, reduce_scatter, all_to_all and
  // collective_permute start from, and what all_gather ends with. Never falls
  // in `bytes`; the time to answer does not depend on the number of ranks.
  double CollectiveSeconds(CollectiveKind kind, const Mesh& mesh,
                           const AxisList& axes, int64_t bytes) const;

  // Per link, inner first, how many members a group over `axes` has inside of
  // one block of ranks that the link joins: {8, 32} is 32 ranks on 4 nodes.
  // Ranks are row-major; where nodes and axes do not line up, blocks count that
  // do, so a group is never taken to be closer together than it is.
  std::vector<int64_t> Members(const Mesh& mesh, const AxisList& axes) const;

  // Text that Parse reads back.
  std::string ToString() const;

 private:
  friend class MachineParser;

  const MatmulRate& RateOf(DType dtype) const;

  std::string name_;
  int64_t memory_bytes_ = 0;
  bool overlaps_ = false;
  bool fuses_ = false;
  double bandwidth_ = 0;  // of device memory
  double latency_ = 0;    // of a kernel
  double functions_ = 0;  // of maps per second; 0: as many as memory feeds
  TimeCurve copy_;        // by bytes read and written; may be empty
  std::vector<MatmulRate> rates_;
  AttentionRate attention_;
  std::vector<MachineLink> links_;
};

}  // namespace mtf

#endif  // PLANNING_MACHINE_MACHINE_H_
