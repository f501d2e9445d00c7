// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_MESH_H_
#define LAYOUTS_MESH_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf {

// The maximum number of axes of a mesh.
inline constexpr int kMaxMeshAxes = 8;

// An ordered list of mesh axes (indices in Mesh::axes()), major to minor.
// Stored inline, because every value of a program has several.
class AxisList {
 public:
  AxisList() = default;
  AxisList(std::initializer_list<int> axes) {
    for (int axis : axes) push_back(axis);
  }
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int operator[](int i) const { return axes_[i]; }
  const int8_t* begin() const { return axes_.data(); }
  const int8_t* end() const { return axes_.data() + size_; }
  int back() const { return axes_[size_ - 1]; }
  void push_back(int axis) { axes_[size_++] = static_cast<int8_t>(axis); }
  void pop_back() { axes_[--size_] = 0; }
  bool Contains(int axis) const;
  // The first `count` axes; the axes from `count` on.
  AxisList Prefix(int count) const {
    AxisList result;
    for (int i = 0; i < count; ++i) result.push_back(axes_[i]);
    return result;
  }
  AxisList Suffix(int count) const {
    AxisList result;
    for (int i = count; i < size_; ++i) result.push_back(axes_[i]);
    return result;
  }
  void Append(const AxisList& other);
  friend bool operator==(const AxisList&, const AxisList&) = default;

 private:
  std::array<int8_t, kMaxMeshAxes> axes_{};  // zero from size_ on
  int8_t size_ = 0;
};

// A set of mesh axes, bit i for axis i.
using AxisSet = uint32_t;
inline AxisSet SetOf(const AxisList& axes) {
  AxisSet set = 0;
  for (int axis : axes) set |= AxisSet{1} << axis;
  return set;
}
// The axes of `set` in mesh order.
inline AxisList ListOf(AxisSet set) {
  AxisList list;
  for (int axis = 0; axis < kMaxMeshAxes; ++axis) {
    if (set >> axis & 1) list.push_back(axis);
  }
  return list;
}

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

// A grid of devices with named axes. Ranks are in row-major order of their
// coordinates: the last axis varies fastest.
//
//   Mesh mesh = *Mesh::Parse("data:2,model:4");
//   mesh.num_devices();      // 8
//   mesh.Coordinate(5, 1);   // 1: rank 5 = data 1, model 1
class Mesh {
 public:
  Mesh() = default;  // one device, no axes

  // Parses "data:2,model:4". Items may be separated by commas, semicolons, dots
  // or white space. One size may be -1: `num_ranks` divided by the other sizes.
  //
  // Returns kInvalidArgument, with the item and its position, for malformed
  // text, a repeated axis, a size less than 1, more than kMaxMeshAxes axes, or,
  // if `num_ranks` is positive, another number of devices.
  static absl::StatusOr<Mesh> Parse(absl::string_view text,
                                    int64_t num_ranks = 0);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int num_axes() const { return static_cast<int>(axes_.size()); }
  int64_t axis_size(int axis) const { return axes_[axis].size; }
  int64_t num_devices() const;

  // The index of the axis called `name`, or -1.
  int Find(absl::string_view name) const;

  // The product of the sizes of the axes.
  int64_t SizeOf(const AxisList& axes) const;
  int64_t SizeOf(AxisSet axes) const;

  // The coordinate of `rank` along `axis`.
  int64_t Coordinate(int64_t rank, int axis) const;
  // The coordinate of `rank` along the combined `axes`, major to minor. This is
  // the index of the shard that the rank holds of a dimension sharded over
  // `axes`, and the index of the rank in its group over `axes`.
  int64_t Coordinate(int64_t rank, const AxisList& axes) const;
  // The rank that has `coordinate` along the combined `axes` and otherwise the
  // coordinates of `rank`.
  int64_t WithCoordinate(int64_t rank, const AxisList& axes,
                         int64_t coordinate) const;
  // The group of `rank`: the ranks that differ from it only along `axes`, in
  // order of their coordinate.
  std::vector<int64_t> Group(int64_t rank, const AxisList& axes) const;

  // "data:2,model:4"
  std::string ToString() const;
  // "data+model"
  std::string AxisNames(const AxisList& axes,
                        absl::string_view separator = "+") const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  std::vector<MeshAxis> axes_;
};

}  // namespace mtf

#endif  // LAYOUTS_MESH_H_
