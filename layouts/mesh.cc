// SPDX-License-Identifier: Apache-2.0
#include "layouts/mesh.h"

#include "absl/strings/str_cat.h"
#include "mtf/check.h"

namespace mtf {

bool AxisList::Contains(int axis) const {
  for (int a : *this) {
    if (a == axis) return true;
  }
  return false;
}

void AxisList::Append(const AxisList& other) {
  MTF_CHECK_LE(size_ + other.size_, kMaxMeshAxes);
  for (int axis : other) push_back(axis);
}

int64_t Mesh::num_devices() const {
  int64_t devices = 1;
  for (const MeshAxis& axis : axes_) devices *= axis.size;
  return devices;
}

int Mesh::Find(absl::string_view name) const {
  for (int i = 0; i < num_axes(); ++i) {
    if (axes_[i].name == name) return i;
  }
  return -1;
}

int64_t Mesh::SizeOf(const AxisList& axes) const {
  int64_t size = 1;
  for (int axis : axes) size *= axes_[axis].size;
  return size;
}

int64_t Mesh::SizeOf(AxisSet axes) const {
  int64_t size = 1;
  for (int i = 0; i < num_axes(); ++i) {
    if (axes >> i & 1) size *= axes_[i].size;
  }
  return size;
}

int64_t Mesh::Coordinate(int64_t rank, int axis) const {
  for (int i = num_axes() - 1; i > axis; --i) rank /= axes_[i].size;
  return rank % axes_[axis].size;
}

int64_t Mesh::Coordinate(int64_t rank, const AxisList& axes) const {
  int64_t coordinate = 0;
  for (int axis : axes) {
    coordinate = coordinate * axes_[axis].size + Coordinate(rank, axis);
  }
  return coordinate;
}

int64_t Mesh::WithCoordinate(int64_t rank, const AxisList& axes,
                             int64_t coordinate) const {
  for (int i = axes.size() - 1; i >= 0; --i) {
    const int axis = axes[i];
    int64_t stride = 1;
    for (int j = num_axes() - 1; j > axis; --j) stride *= axes_[j].size;
    const int64_t digit = coordinate % axes_[axis].size;
    coordinate /= axes_[axis].size;
    rank += (digit - Coordinate(rank, axis)) * stride;
  }
  return rank;
}

std::vector<int64_t> Mesh::Group(int64_t rank, const AxisList& axes) const {
  std::vector<int64_t> group(SizeOf(axes));
  for (size_t i = 0; i < group.size(); ++i) {
    group[i] = WithCoordinate(rank, axes, static_cast<int64_t>(i));
  }
  return group;
}

std::string Mesh::ToString() const {
  std::string text;
  for (const MeshAxis& axis : axes_) {
    absl::StrAppend(&text, text.empty() ? "" : ",", axis.name, ":", axis.size);
  }
  return text;
}

std::string Mesh::AxisNames(const AxisList& axes,
                            absl::string_view separator) const {
  std::string text;
  for (int i = 0; i < axes.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : separator, axes_[axes[i]].name);
  }
  return text;
}

}  // namespace mtf
