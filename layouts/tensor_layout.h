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

// How one value lies on the mesh: for each dimension of its shape the axes it
// is cut over, and the axes over which its elements are still summands (or
// candidates of a maximum or minimum). Axes named nowhere hold replicas, which
// are bitwise equal. Axes of size 1 never occur.
struct TensorLayout {
  absl::InlinedVector<AxisList, 5> dims;
  AxisSet unreduced = 0;
  ReduceKind reduction = ReduceKind::kSum;  // kSum where nothing is unreduced

  static TensorLayout Replicated(int rank) {
    TensorLayout layout;
    layout.dims.resize(rank);
    return layout;
  }
  // The axes that cut some dimension.
  AxisSet Sharded() const;
  bool IsReplicated() const { return unreduced == 0 && Sharded() == 0; }
  // True when no axis is used twice.
  bool IsLegal() const;
  // The same cut of dimensions with nothing unreduced.
  TensorLayout Reduced() const;

  friend bool operator==(const TensorLayout&, const TensorLayout&) = default;
};

// "batch:8/data, hidden:16/pod+model unreduced{cols}"; a maximum or minimum is
// written unreduced{cols}max.
std::string LayoutText(const Mesh& mesh, const Shape& shape,
                       const TensorLayout& layout);

// Which mesh axes each dimension may ever be cut over in one program, and with
// that its padded extent: the smallest multiple of the product of those axes
// (the grain) that is at least its size. Under one Grains finer and coarser
// shards nest and every collective is regular.
class Grains {
 public:
  Grains() = default;
  explicit Grains(Mesh mesh) : mesh_(std::move(mesh)) {}

  // Lets `dimension` be cut over `axes` too.
  void Allow(absl::string_view dimension, AxisSet axes);
  // Gives two names one grain: a rename makes them the same dimension.
  void Tie(absl::string_view a, absl::string_view b);

  // Whether the two names are one dimension.
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
