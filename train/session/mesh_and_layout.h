// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_MESH_AND_LAYOUT_H_
#define TRAIN_SESSION_MESH_AND_LAYOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"

namespace mtf::train {

// The mesh and the layout rules that the user has given.
struct MeshAndLayout {
  Mesh mesh;
  LayoutRules rules;
};

// Reads the text of a mesh and of a layout.
//
//   ParseMeshAndLayout("data:2,model:2", "batch:data, d_ff:model", 0)
//   ParseMeshAndLayout("", "megatron", 4)         // mesh model:4
//   ParseMeshAndLayout("data:-1", "@fsdp.layout", 4)
//
// `layout` is a list of rules, the name of a preset, perhaps with a section
// [offload] after it, or "@" and the path of a layout file. An empty `mesh` is
// the mesh of the preset, or a single device without one. `num_ranks` is the
// number of running ranks, or 0 if the mesh determines it. `source` names the
// origin of `layout` in errors, unless it is a file. Returns the errors of
// Mesh::Parse and LayoutRules.
absl::StatusOr<MeshAndLayout> ParseMeshAndLayout(
    absl::string_view mesh, absl::string_view layout, int64_t num_ranks,
    absl::string_view source = "--layout");

// The preset of the text of a layout: "megatron" of "megatron" and of
// "megatron, [offload] optimizer"; "" if it does not begin with one.
absl::string_view PresetIn(absl::string_view layout);

}  // namespace mtf::train

#endif  // TRAIN_SESSION_MESH_AND_LAYOUT_H_
