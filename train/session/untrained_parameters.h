// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_UNTRAINED_PARAMETERS_H_
#define TRAIN_SESSION_UNTRAINED_PARAMETERS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"

namespace mtf::train {

// Finds trainable parameters that a request reads and that keep their initial
// values: a network that was built twice by accident trains one copy and
// evaluates the other.
//
// An assignment whose value depends on a variable, such as the update of an
// optimizer, counts as soon as the graph has it: it may run later. Any other,
// such as one of a saved value, counts once it has run.
class UntrainedParameters {
 public:
  // Returns one line about the parameters that `targets` read and that nothing
  // updates or has set, or "". Each parameter is reported once. A target that
  // is a variable itself is not looked at.
  std::string Report(const Graph& graph, const std::vector<Tensor>& targets);

  // Records that a step with `targets` has run, and that a variable was set.
  void NoteRun(const Graph& graph, const std::vector<Tensor>& targets);
  void NoteSet(const VariableInfo& variable) { known_.insert(variable.id); }

 private:
  void FindUpdates(const Graph& graph);

  bool found_updates_ = false;
  // The ids of variables that are updated, set, or reported.
  absl::flat_hash_set<int> known_;
};

}  // namespace mtf::train

#endif  // TRAIN_SESSION_UNTRAINED_PARAMETERS_H_
