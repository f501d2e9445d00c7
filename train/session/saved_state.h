// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_SAVED_STATE_H_
#define TRAIN_SESSION_SAVED_STATE_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/graph.h"
#include "mtf/host_tensor.h"
#include "train/session/session.h"

namespace mtf::train {

// The state of a model independent of layout and precision: global tensors by
// name. A parameter that is rounded from a master copy is saved as its master,
// under its own name. Models in float32 and in bfloat16 therefore save the same
// names in the same dtypes, and each can load the state of the other.
//
//   Graph graph;
//   const Model model = BuildModel(graph);
//   SavedState state(graph);  // after all other operations
//   ...
//   MTF_ASSIGN_OR_RETURN(const auto values, state.Save(*session));
//   MTF_RETURN_IF_ERROR(state.Load(*other_session, values));
class SavedState {
 public:
  using Values = std::map<std::string, HostTensor>;

  struct Options {
    // Also saves variables of the kind kState, such as a cache of keys and
    // values, which belong to a computation and not to the model.
    bool state = false;
  };

  // Adds the inputs of Load to `graph`: "saved_state/<name>" for each existing
  // variable that is saved.
  SavedState(Graph& graph, Options options);
  explicit SavedState(Graph& graph) : SavedState(graph, Options()) {}

  // The names, in the order in which the variables were created.
  std::vector<std::string> names() const;

  // Returns the values in a session of this graph. The step does not advance.
  // kFailedPrecondition, as for Load, if a variable was added to the graph
  // after this object, such as the state of an optimizer: it would not be
  // saved.
  absl::StatusOr<Values> Save(Session& session) const;

  struct LoadOptions {
    // Ignores values without a variable and keeps variables without a value,
    // for example those of another optimizer or the loss scale of float16.
    bool partial = false;
  };

  // Sets the variables of an initialized session of this graph; parameters are
  // rounded from their masters. Every process of a job passes the same values.
  //
  // kNotFound, with the nearest name, for a variable without a value;
  // kFailedPrecondition as for Save; kInvalidArgument for a name without a
  // variable, for another shape, and for a dtype to which the value would have
  // to be rounded: a float32 value cannot be loaded into a parameter whose
  // master is bfloat16.
  absl::Status Load(Session& session, const Values& values,
                    LoadOptions options) const;
  absl::Status Load(Session& session, const Values& values) const {
    return Load(session, values, {});
  }

 private:
  struct Entry {
    std::string name, input;
    DType dtype = kFloat32;  // of the master, if there is one
    Tensor read;             // the saved tensor
    Tensor load;             // assigns the variable and its master
  };
  absl::Status CheckComplete() const;

  const Graph& graph_;
  size_t variables_;  // of the graph that this object knows
  std::vector<Entry> entries_;
};

}  // namespace mtf::train

#endif  // TRAIN_SESSION_SAVED_STATE_H_
