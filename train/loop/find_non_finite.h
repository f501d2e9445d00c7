// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_FIND_NON_FINITE_H_
#define TRAIN_LOOP_FIND_NON_FINITE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mtf/host_tensor.h"
#include "mtf/tensor.h"
#include "train/session/session.h"

namespace mtf::train {

// A tensor with elements that are not finite, as text: "NaN in 3 of 640
// elements of \"layer_1/einsum_2\" (einsum, model.cc:41)".
struct NonFinite {
  Tensor tensor;
  int64_t count = 0;  // of elements that are not finite
  bool nan = false;   // some are NaN; otherwise all are infinite
  std::string ToString() const;
};

// Computes every float tensor that `of` depends on, variables included, from
// the present variables and the feeds. Returns, in the order in which the graph
// computes them, the first tensor with an infinite element and the first with a
// NaN; one entry if they are the same tensor or there is only one, none if all
// elements are finite. An infinity may be meant, as that of a mask; a NaN never
// is. Changes neither variables nor the step. Slow: prepares a program for each
// two dozen tensors. Errors are those of Session::Run.
absl::StatusOr<std::vector<NonFinite>> FindNonFinite(
    Session& session, Tensor of,
    const std::map<std::string, HostTensor>& feeds);

// Returns the first variable, in the order of the graph, with an element that
// a state to go on from must not have: "NaN in 3 of 640 elements of variable
// \"layer_1/kernel\""; empty if there is none. A NaN counts in parameters and
// in the state of optimizers, an infinity only in trainable parameters, since
// others may be meant. Copies all variables to host memory, one shard at a
// time. Collective; errors are those of Session::OnEachRank.
absl::StatusOr<std::string> FindNonFiniteVariable(Session& session);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_FIND_NON_FINITE_H_
