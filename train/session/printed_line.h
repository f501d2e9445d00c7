// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_PRINTED_LINE_H_
#define TRAIN_SESSION_PRINTED_LINE_H_

#include <string>

#include "mtf/graph.h"
#include "mtf/host_tensor.h"

namespace mtf::train {

// The line of a Print() in a step: the message, the name, the shape and the
// dtype of the tensor, and its first elements, which `first` begins with.
//
//   gates: layer_0/softmax f32[batch=4, expert=8] = 0.25 0.5 0.125 ...
std::string PrintedLine(const Observation& print, const HostTensor& first);

}  // namespace mtf::train

#endif  // TRAIN_SESSION_PRINTED_LINE_H_
