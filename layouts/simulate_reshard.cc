// SPDX-License-Identifier: Apache-2.0
#include "layouts/simulate_reshard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/status.h"

namespace mtf::internal {
namespace {

// Part `part` of `parts` equal ones along `dim`.
absl::StatusOr<LocalTensor> CutPart(const LocalTensor& tensor, int dim,
                                    int64_t part, int64_t parts) {
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < dim; ++i) outer *= tensor.extents[i];
  for (size_t i = dim + 1; i < tensor.extents.size(); ++i) {
    inner *= tensor.extents[i];
  }
  const int64_t extent = tensor.extents[dim];
  if (extent % parts != 0) {
    return absl::InternalError(absl::StrCat(
        extent, " places are cut into ", parts, ": a collective is regular"));
  }
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
LocalTensor JoinParts(const std::vector<LocalTensor>& parts, int dim) {
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

LocalTensor Sum(const std::vector<int>& group,
                const std::vector<LocalTensor>& held) {
  LocalTensor sum = held[group[0]];
  for (size_t i = 1; i < group.size(); ++i) {
    const std::vector<int64_t>& data = held[group[i]].data;
    for (size_t j = 0; j < data.size(); ++j) sum.data[j] += data[j];
  }
  return sum;
}

}  // namespace

SimulatedMesh::SimulatedMesh(const Mesh& mesh) : mesh_(mesh) {
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

int64_t SimulatedMesh::Place(int rank, const AxisList& axes) const {
  int64_t place = 0;
  for (int axis : axes) {
    place = place * mesh_.axis_size(axis) + coordinates_[rank][axis];
  }
  return place;
}

const std::vector<int>& SimulatedMesh::GroupOf(int rank, const AxisList& axes) {
  std::string key;
  int64_t size = 1;
  for (int axis : axes) {
    key.push_back(static_cast<char>('0' + axis));
    size *= mesh_.axis_size(axis);
  }
  const auto [found, inserted] = groups_.try_emplace(key);
  Groups& groups = found->second;
  if (inserted) {
    // Ranks of one group are those with the same coordinates elsewhere.
    std::map<std::vector<int64_t>, int> numbers;
    for (int other = 0; other < num_ranks(); ++other) {
      std::vector<int64_t> rest = coordinates_[other];
      for (int axis : axes) rest[axis] = -1;
      const auto [number, is_new] =
          numbers.try_emplace(rest, static_cast<int>(groups.groups.size()));
      if (is_new) groups.groups.emplace_back(size, -1);
      groups.groups[number->second][Place(other, axes)] = other;
      groups.group_of.push_back(number->second);
    }
  }
  return groups.groups[groups.group_of[rank]];
}

absl::StatusOr<std::vector<LocalTensor>> SimulatedMesh::Run(
    const ReshardStep& step, const TensorLayout& before,
    const std::vector<LocalTensor>& held) {
  std::vector<LocalTensor> result;
  std::vector<bool> served(num_ranks(), false);
  for (int rank = 0; rank < num_ranks(); ++rank) {
    const std::vector<int>& group = GroupOf(rank, step.axes);
    const int64_t place = Place(rank, step.axes);
    const int64_t n = static_cast<int64_t>(group.size());
    std::vector<LocalTensor> parts;
    switch (step.kind) {
      case CollectiveKind::kAllReduce:
        result.push_back(Sum(group, held));
        break;
      case CollectiveKind::kReduceScatter: {
        MTF_ASSIGN_OR_RETURN(LocalTensor part,
                             CutPart(Sum(group, held), step.dim, place, n));
        result.push_back(std::move(part));
        break;
      }
      case CollectiveKind::kAllSlice: {
        MTF_ASSIGN_OR_RETURN(LocalTensor part,
                             CutPart(held[rank], step.dim, place, n));
        result.push_back(std::move(part));
        break;
      }
      case CollectiveKind::kAllGather:
        for (int other : group) parts.push_back(held[other]);
        result.push_back(JoinParts(parts, step.dim));
        break;
      case CollectiveKind::kAllToAll:
        for (int other : group) {
          MTF_ASSIGN_OR_RETURN(LocalTensor part,
                               CutPart(held[other], step.dim, place, n));
          parts.push_back(std::move(part));
        }
        result.push_back(JoinParts(parts, step.from_dim));
        break;
      case CollectiveKind::kCollectivePermute: {
        const int from =
            static_cast<int>(PermuteSource(mesh_, before, step.layout, rank));
        if (std::find(group.begin(), group.end(), from) == group.end()) {
          return absl::InternalError(absl::StrCat(
              "rank ", rank, " takes from rank ", from, " outside its group"));
        }
        if (served[from]) {
          return absl::InternalError(
              absl::StrCat("rank ", from, " serves two ranks"));
        }
        served[from] = true;
        result.push_back(held[from]);
        break;
      }
    }
  }
  return result;
}

}  // namespace mtf::internal
