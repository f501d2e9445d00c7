// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_TENSOR_LAYOUT_H_
#define LAYOUTS_TENSOR_LAYOUT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "layouts/mesh.h"
#include "mtf/emitter.h"
#include "mtf/shape.h"

namespace mtf {

// The layout of one value on a mesh: for each dimension of its shape the mesh
// axes that shard it, major to minor, and the unreduced axes, along which each
// device holds a summand (or a candidate of a maximum or minimum). Along all
// other axes the value is replicated, bitwise equal. Axes of size 1 do not
// occur, so equal layouts compare equal.
struct TensorLayout {
  absl::InlinedVector<AxisList, 5> dims;
  AxisSet unreduced = 0;
  ReduceKind reduction = ReduceKind::kSum;  // kSum where nothing is unreduced

  static TensorLayout Replicated(int rank) {
    TensorLayout layout;
    layout.dims.resize(rank);
    return layout;
  }
  // The axes that shard some dimension.
  AxisSet Sharded() const;
  bool IsReplicated() const { return unreduced == 0 && Sharded() == 0; }
  // Whether no axis is used twice.
  bool IsLegal() const;
  // This layout without unreduced axes.
  TensorLayout Reduced() const;

  friend bool operator==(const TensorLayout&, const TensorLayout&) = default;
};

// "batch:8/data, hidden:16/pod+model unreduced{cols}"; a maximum or minimum is
// written unreduced{cols} max.
std::string LayoutText(const Mesh& mesh, const Shape& shape,
                       const TensorLayout& layout);

// The mesh axes over which each dimension may be sharded anywhere in a program.
// The product of their sizes is the grain of the dimension; its padded extent
// is the smallest multiple of the grain that is at least its size. Shards of
// such an extent nest: each shard of a coarse layout consists of shards of a
// finer one, so every collective moves blocks of equal size.
class Grains {
 public:
  Grains() = default;
  explicit Grains(Mesh mesh) : mesh_(std::move(mesh)) {}

  // Allows `dimension` to be sharded over `axes` too.
  void Allow(absl::string_view dimension, AxisSet axes);
  // Makes two names share one grain, because a rename makes them the same
  // dimension.
  void Tie(absl::string_view a, absl::string_view b);

  // Whether the two names share one grain.
  bool Tied(absl::string_view a, absl::string_view b) const {
    return a == b || (Root(a) >= 0 && Root(a) == Root(b));
  }

  AxisSet AxesOf(absl::string_view dimension) const;
  int64_t GrainOf(absl::string_view dimension) const;
  // The padded extent of a dimension of `size` elements.
  int64_t ExtentOf(absl::string_view dimension, int64_t size) const;
  int64_t ExtentOf(const Dimension& dim) const {
    return ExtentOf(dim.name, dim.size);
  }
  const Mesh& mesh() const { return mesh_; }

 private:
  int Root(absl::string_view name) const;
  int Insert(absl::string_view name);
  Mesh mesh_;
  absl::flat_hash_map<std::string, int> ids_;
  std::vector<int> parents_;   // by id, the id of the root
  std::vector<AxisSet> axes_;  // by id of a root
};

}  // namespace mtf

#endif  // LAYOUTS_TENSOR_LAYOUT_H_
