// SPDX-License-Identifier: Apache-2.0
//
// The six collectives on the shards of all ranks at once, in plain loops over
// one process's memory. Shares no partition arithmetic with layouts/: ranks
// are lists of coordinates here, and extents follow from the data.
#ifndef TESTS_LAYOUTS_SIMULATE_RESHARD_H_
#define TESTS_LAYOUTS_SIMULATE_RESHARD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "layouts/reshard_path.h"

namespace mtf::testing {

// What one rank holds: row-major places with extents of their own.
struct LocalTensor {
  std::vector<int64_t> extents;
  std::vector<int64_t> data;
};

// Part `part` of `parts` equal ones along `dim`.
inline LocalTensor CutPart(const LocalTensor& tensor, int dim, int64_t part,
                           int64_t parts) {
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < dim; ++i) outer *= tensor.extents[i];
  for (size_t i = dim + 1; i < tensor.extents.size(); ++i) {
    inner *= tensor.extents[i];
  }
  const int64_t extent = tensor.extents[dim];
  EXPECT_EQ(extent % parts, 0) << "a collective must be regular";
  const int64_t size = extent / parts;
  LocalTensor result = {tensor.extents, {}};
  result.extents[dim] = size;
  result.data.reserve(outer * size * inner);
  for (int64_t o = 0; o < outer; ++o) {
    const auto begin = tensor.data.begin() + (o * extent + part * size) * inner;
    result.data.insert(result.data.end(), begin, begin + size * inner);
  }
  return result;
}

// The tensors one behind the other along `dim`.
inline LocalTensor JoinParts(const std::vector<LocalTensor>& parts, int dim) {
  int64_t outer = 1;
  for (int i = 0; i < dim; ++i) outer *= parts[0].extents[i];
  LocalTensor result = {parts[0].extents, {}};
  result.extents[dim] = 0;
  for (const LocalTensor& part : parts) {
    result.extents[dim] += part.extents[dim];
  }
  for (int64_t o = 0; o < outer; ++o) {
    for (const LocalTensor& part : parts) {
      const int64_t run = static_cast<int64_t>(part.data.size()) / outer;
      result.data.insert(result.data.end(), part.data.begin() + o * run,
                         part.data.begin() + (o + 1) * run);
    }
  }
  return result;
}

class SimulatedMesh {
 public:
  explicit SimulatedMesh(const Mesh& mesh) : mesh_(mesh) {
    // Odometer over the coordinates, last axis fastest.
    std::vector<int64_t> at(mesh.num_axes(), 0);
    for (int64_t rank = 0; rank < mesh.num_devices(); ++rank) {
      coordinates_.push_back(at);
      for (int i = mesh.num_axes() - 1; i >= 0; --i) {
        if (++at[i] < mesh.axis_size(i)) break;
        at[i] = 0;
      }
    }
  }

  int num_ranks() const { return static_cast<int>(coordinates_.size()); }
  int64_t At(int rank, int axis) const { return coordinates_[rank][axis]; }

  // The number made of the coordinates along `axes`, major to minor.
  int64_t Place(int rank, const AxisList& axes) const {
    int64_t place = 0;
    for (int axis : axes) {
      place = place * mesh_.axis_size(axis) + coordinates_[rank][axis];
    }
    return place;
  }

  // The ranks that share all coordinates with `rank` but those along `axes`,
  // in the order of their places.
  std::vector<int> GroupOf(int rank, const AxisList& axes) const {
    int64_t size = 1;
    for (int axis : axes) size *= mesh_.axis_size(axis);
    std::vector<int> group(size, -1);
    for (int other = 0; other < num_ranks(); ++other) {
      bool same = true;
      for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
        same &= axes.Contains(axis) || At(other, axis) == At(rank, axis);
      }
      if (same) group[Place(other, axes)] = other;
    }
    return group;
  }

  // What all ranks hold after `step`, which follows the layout `before`.
  std::vector<LocalTensor> Run(const ReshardStep& step,
                               const TensorLayout& before,
                               const std::vector<LocalTensor>& held) const {
    std::vector<LocalTensor> result;
    std::vector<int> served(num_ranks(), 0);
    for (int rank = 0; rank < num_ranks(); ++rank) {
      const std::vector<int> group = GroupOf(rank, step.axes);
      const int64_t place = Place(rank, step.axes);
      const int64_t n = static_cast<int64_t>(group.size());
      std::vector<LocalTensor> parts;
      switch (step.kind) {
        case CollectiveKind::kAllReduce:
          result.push_back(Sum(group, held));
          break;
        case CollectiveKind::kReduceScatter:
          result.push_back(CutPart(Sum(group, held), step.dim, place, n));
          break;
        case CollectiveKind::kAllSlice:
          result.push_back(CutPart(held[rank], step.dim, place, n));
          break;
        case CollectiveKind::kAllGather:
          for (int other : group) parts.push_back(held[other]);
          result.push_back(JoinParts(parts, step.dim));
          break;
        case CollectiveKind::kAllToAll:
          for (int other : group) {
            parts.push_back(CutPart(held[other], step.dim, place, n));
          }
          result.push_back(JoinParts(parts, step.from_dim));
          break;
        case CollectiveKind::kCollectivePermute: {
          const int from =
              static_cast<int>(PermuteSource(mesh_, before, step.layout, rank));
          EXPECT_NE(std::find(group.begin(), group.end(), from), group.end())
              << "rank " << rank << " takes from outside its group";
          EXPECT_EQ(++served[from], 1) << "rank " << from << " serves twice";
          result.push_back(held[from]);
          break;
        }
      }
    }
    return result;
  }

 private:
  static LocalTensor Sum(const std::vector<int>& group,
                         const std::vector<LocalTensor>& held) {
    LocalTensor sum = held[group[0]];
    for (size_t i = 1; i < group.size(); ++i) {
      const std::vector<int64_t>& data = held[group[i]].data;
      for (size_t j = 0; j < data.size(); ++j) sum.data[j] += data[j];
    }
    return sum;
  }

  const Mesh& mesh_;
  std::vector<std::vector<int64_t>> coordinates_;
};

}  // namespace mtf::testing

#endif  // TESTS_LAYOUTS_SIMULATE_RESHARD_H_
