// SPDX-License-Identifier: Apache-2.0
//
// The performance model of a device and its links, used for time estimates.
#ifndef PLANNING_MACHINE_MACHINE_H_
#define PLANNING_MACHINE_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layouts/mesh.h"
#include "layouts/reshard_path.h"
#include "lowering/fusion/fusion_capabilities.h"
#include "lowering/program/attention_problem.h"
#include "lowering/program/convolution_problem.h"
#include "lowering/program/fused_attention.h"
#include "mtf/dtype.h"
#include "planning/machine/machine_curves.h"

namespace mtf {

// The speed of matrix products of one dtype: a peak, and the share of it that a
// product reaches, as three factors: by its FLOPs, by the shorter side of its
// result and by the length of its sums.
struct MatmulRate {
  DType dtype = kFloat32;
  double peak = 0;  // FLOP/s
  ShareCurve flops, side, k;
};

// The speed of fused attention as a share of the speed of a matmul with as many
// FLOPs, by the size of a head. Empty if the machine has no fused attention.
struct AttentionRate {
  ShareCurve forward, backward;
};

// Measured seconds of a collective over `ranks` ranks, by bytes as in
// CollectiveSeconds.
struct CollectiveTable {
  CollectiveKind kind;
  int64_t ranks = 2;
  TimeCurve seconds;
};

// A level of the network, such as the links within a node.
struct MachineLink {
  std::string name;
  int64_t ranks = 0;     // number of ranks that it connects; 0: any number
  double bandwidth = 0;  // bytes per second sent and received by each rank
  double latency = 0;    // seconds per message
  std::vector<CollectiveTable> tables;
};

// The contents of a machine file (docs/machines.md).
//
//   MTF_ASSIGN_OR_RETURN(const Machine machine, Machine::Load("h200_x8"));
//   machine.CollectiveSeconds(CollectiveKind::kAllReduce, mesh, axes, 1 << 20);
class Machine {
 public:
  // Parses the text of a machine file; `origin` names it in errors.
  // kInvalidArgument, with the line and a hint, if the text is invalid.
  static absl::StatusOr<Machine> Parse(absl::string_view text,
                                       absl::string_view origin);
  // Loads, in this order, the preset of this name (planning/machine/machines/,
  // built in); the file NAME.machine in $MTF_MACHINES or in mtf/ of the user's
  // configuration folder, where `mtf calibrate` writes "this_host"; or the file
  // at this path. kNotFound, with the nearest preset, if there is none.
  static absl::StatusOr<Machine> Load(absl::string_view name_or_path);
  // The built-in presets and "this_host".
  static std::vector<std::string> PresetNames();
  // The path to which `mtf calibrate` writes the machine called `name`, in the
  // first of $MTF_MACHINES, $XDG_CONFIG_HOME/mtf and ~/.config/mtf that is set.
  // kFailedPrecondition if none is.
  static absl::StatusOr<std::string> UserPath(absl::string_view name);

  const std::string& name() const { return name_; }
  // The measured training steps that estimates with this machine were compared
  // to, "five step times of ..., within 4 %"; "" if there are none.
  const std::string& checked() const { return checked_; }
  int64_t memory_bytes() const { return memory_bytes_; }  // of one device
  // Whether collectives overlap with compute that does not depend on them.
  bool overlaps() const { return overlaps_; }
  // Whether chains of maps and reductions run as one kernel.
  bool fuses() const { return fuses_; }
  // Which attentions are instructions of the device (LowerOptions::attention):
  // all, as on the CPU, or those of fused kernels, whose rates are known.
  AttentionSupport attention() const {
    return has_all_attention_     ? AttentionSupport::kAll
           : has_attention_rate() ? AttentionSupport::kFusedKernels
                                  : AttentionSupport::kNone;
  }
  bool has_attention_rate() const { return !attention_.forward.points.empty(); }
  // What the device runs as one kernel (LowerOptions::fusion): that of the CPU
  // device if all attentions are instructions, that of the CUDA device with
  // rates of fused attention. Other machines plan memory for single
  // instructions.
  FusionCapabilities fusion() const;
  // The links, innermost first.
  const std::vector<MachineLink>& links() const { return links_; }

  // kInvalidArgument if `mesh` has more ranks than the outermost link connects.
  absl::Status CheckMesh(const Mesh& mesh) const;

  // Seconds of one kernel including its launch: `batch` products [m, k] x
  // [k, n], or a kernel that reads and writes `bytes` in total. A dtype without
  // a rate of its own uses that of bf16 for f16 and vice versa, else that of
  // f32, else the first.
  double MatmulSeconds(DType dtype, int64_t batch, int64_t m, int64_t n,
                       int64_t k) const;
  double CopySeconds(int64_t bytes) const;
  // Whether the host has memory of its own, not that of the device.
  bool has_host_memory() const { return host_link_ > 0; }
  // Seconds of a copy of `bytes` between device and host memory.
  double HostCopySeconds(int64_t bytes) const;
  // Seconds of fused attention, forward or backward. On a machine without it,
  // the time of a matmul with the same FLOPs.
  double AttentionSeconds(const AttentionProblem& problem) const;
  // Seconds of a convolution or one of its gradients in one call: those of the
  // matmul that windows would be multiplied by, or of reading or writing
  // images, filter and result once.
  double ConvolutionSeconds(const ConvolutionProblem& problem) const;
  // Seconds of a kernel that also computes this many scalar functions.
  double MapSeconds(int64_t bytes, double functions) const;
  // Seconds of a collective over `axes` of `mesh`. `bytes` is the size of the
  // full buffer of one rank: the operand of all_reduce, reduce_scatter,
  // all_to_all and collective_permute, the result of all_gather. Non-decreasing
  // in `bytes`. The time to compute it does not depend on the number of ranks.
  double CollectiveSeconds(CollectiveKind kind, const Mesh& mesh,
                           const AxisList& axes, int64_t bytes) const;

  // The number of ranks of a group over `axes` within one block of ranks
  // connected by a link, for each link, innermost first: {8, 32} is 32 ranks on
  // 4 nodes. Ranks are row-major. If nodes and axes do not align, smaller
  // blocks that do are used, so that a group is never assumed to be closer than
  // it is.
  std::vector<int64_t> Members(const Mesh& mesh, const AxisList& axes) const;

  // The machine file; Parse reads it back.
  std::string ToString() const;

 private:
  friend class MachineParser;

  const MatmulRate& RateOf(DType dtype) const;
  // Seconds of `batch` products [m, k] x [k, n] whose operands are in caches.
  double ProductSeconds(DType dtype, double batch, double m, double n,
                        double k) const;

  std::string name_, checked_;
  int64_t memory_bytes_ = 0;
  bool overlaps_ = false;
  bool fuses_ = false;
  bool has_all_attention_ = false;
  double bandwidth_ = 0;  // of device memory
  double latency_ = 0;    // of a kernel
  // Between device and host memory, one way; 0: one memory.
  double host_link_ = 0;
  double functions_ = 0;  // scalar functions per second; 0: memory-bound
  TimeCurve copy_;        // by bytes read and written; may be empty
  std::vector<MatmulRate> rates_;
  AttentionRate attention_;
  std::vector<MachineLink> links_;
};

}  // namespace mtf

#endif  // PLANNING_MACHINE_MACHINE_H_
