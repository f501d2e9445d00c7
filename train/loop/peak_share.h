// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_PEAK_SHARE_H_
#define TRAIN_LOOP_PEAK_SHARE_H_

#include "absl/status/statusor.h"
#include "mtf/graph.h"
#include "planning/machine/machine.h"
#include "train/session/session.h"

namespace mtf::train {

// What Training needs to show the share of the peak ("model FLOP/s
// utilization").
struct PeakShare {
  // Multiplications and additions of the matmuls and attentions of a step on
  // one device, so without padding and work that several ranks repeat.
  double flops_per_step = 0;
  // Of all devices of the mesh: the speed of `machine` at a large matmul in the
  // dtype of most of the results.
  double peak_flops = 0;
};

// Lowers the request for one device. Errors are those of Lower.
absl::StatusOr<PeakShare> PeakShareOf(const Session& session,
                                      const RunRequest& request,
                                      const Machine& machine);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_PEAK_SHARE_H_
