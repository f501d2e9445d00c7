// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_PLACEMENT_H_
#define TRAIN_SESSION_PLACEMENT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"

namespace mtf::train {

// Everything the user says about devices.
struct Placement {
  Mesh mesh;
  LayoutRules rules;
};

// Reads the text of a mesh and of a layout.
//
//   ParsePlacement("data:2,model:2", "batch:data, d_ff:model", 0)
//   ParsePlacement("", "megatron", 4)         // mesh model:4
//   ParsePlacement("data:-1", "@fsdp.layout", 4)
//
// `layout` is a list of rules, the name of a preset, or "@" and the path of a
// layout file. An empty mesh is the one a preset is written for, else a single
// device. `num_ranks` is the number of ranks there are, or 0 where the mesh
// decides. `place` is where `layout` was written, for errors in text that is no
// file. The errors are those of Mesh::Parse and LayoutRules.
absl::StatusOr<Placement> ParsePlacement(absl::string_view mesh,
                                         absl::string_view layout,
                                         int64_t num_ranks,
                                         absl::string_view place = "--layout");

}  // namespace mtf::train

#endif  // TRAIN_SESSION_PLACEMENT_H_
