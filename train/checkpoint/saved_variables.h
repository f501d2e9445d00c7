// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_CHECKPOINT_SAVED_VARIABLES_H_
#define TRAIN_CHECKPOINT_SAVED_VARIABLES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "train/checkpoint/manifest.h"

namespace mtf::train {

// A variable of a model as checkpoints have it, under the names of SavedState:
// a parameter that is rounded from a master copy is saved as its master, under
// its own name.
struct SavedVariable {
  std::string name;
  VariableKind kind = VariableKind::kParameter;
  Shape shape;
  int variable = 0;        // id of the variable of this name
  int master = -1;         // id of its master copy, or -1
  DType dtype = kFloat32;  // of what is saved: the master, if there is one
  // The widest dtype that can be restored: float32 for a parameter that was
  // rounded from float32, even without a master copy.
  DType restorable = kFloat32;

  // The id of the variable whose values are saved.
  int source() const { return master >= 0 ? master : variable; }
};

// The variables of a graph, in the order in which they were created. Without
// `state`, those of the kind kState are left out.
std::vector<SavedVariable> SavedVariablesOf(const Graph& graph, bool state);

// Compares the variables of a checkpoint with those of a model. One
// kFailedPrecondition lists all differences: missing and extra variables with
// the nearest names, other shapes, and dtypes that would have to be rounded.
// With `partial`, missing and extra variables are listed in `notices` instead.
// `help` says what to do, unless it is empty.
absl::Status CompareWithModel(const Manifest& manifest,
                              const std::vector<SavedVariable>& model,
                              bool partial, std::vector<std::string>* notices,
                              const std::string& help);

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_SAVED_VARIABLES_H_
