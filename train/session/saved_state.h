// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_SAVED_STATE_H_
#define TRAIN_SESSION_SAVED_STATE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/graph.h"
#include "mtf/host_tensor.h"
#include "train/session/session.h"

namespace mtf::train {

// What there is to save of a model, whatever its layout and its precision:
// whole tensors by name. A parameter that was rounded from a master copy is
// saved as that master, under its own name, so that models of float32 and of
// bfloat16 save the same names in the same dtypes, and each loads what the
// other saved; the rounded parameter follows from its master.
//
//   Graph graph;
//   const Model model = BuildModel(graph);
//   SavedState state(graph);  // when all else is in the graph
//   ...
//   MTF_ASSIGN_OR_RETURN(const auto values, state.Save(*session));
//   MTF_RETURN_IF_ERROR(state.Load(*other_session, values));
class SavedState {
 public:
  using Values = std::map<std::string, HostTensor>;

  // Adds to `graph` what Load needs: an input "saved_state/<name>" for each
  // variable that there is now.
  explicit SavedState(Graph& graph);

  // The names, in the order in which variables were made.
  std::vector<std::string> names() const;

  // The values of a session of this graph. The step does not advance.
  absl::StatusOr<Values> Save(Session& session) const;

  struct LoadOptions {
    // Ignores names that the model lacks, and leaves variables as they are that
    // `values` lack: another optimizer's, or the scale of a loss in float16.
    bool partial = false;
  };

  // Gives an initialized session of this graph the values, and each parameter
  // its master, rounded. Every process of a job gives the same.
  //
  // kNotFound, with the nearest name, for a variable without a value;
  // kInvalidArgument for a name that no variable has, for another shape, and
  // for a dtype of which the saved one would be rounded: what was saved in
  // float32 is no parameter whose master is bfloat16.
  absl::Status Load(Session& session, const Values& values,
                    LoadOptions options) const;
  absl::Status Load(Session& session, const Values& values) const {
    return Load(session, values, {});
  }

 private:
  struct Entry {
    std::string name, input;
    DType dtype = kFloat32;  // that loses nothing: of the master
    Tensor read;             // what is saved
    Tensor load;             // assigns all that follows from the value
  };
  std::vector<Entry> entries_;
};

}  // namespace mtf::train

#endif  // TRAIN_SESSION_SAVED_STATE_H_
