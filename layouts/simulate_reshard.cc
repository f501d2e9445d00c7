// SPDX-License-Identifier: Apache-2.0
#include "layouts/simulate_reshard.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/status.h"

namespace mtf::internal {
namespace {

// Block `index` of `count` equal blocks along `dim`.
absl::StatusOr<LocalTensor> BlockOf(const LocalTensor& tensor, int dim,
                                    int64_t index, int64_t count) {
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < dim; ++i) outer *= tensor.extents[i];
  for (size_t i = dim + 1; i < tensor.extents.size(); ++i) {
    inner *= tensor.extents[i];
  }
  const int64_t extent = tensor.extents[dim];
  if (extent % count != 0) {
    return absl::InternalError(absl::StrCat("a collective splits an extent of ",
                                            extent, " into ", count,
                                            " blocks of unequal size"));
  }
  const int64_t size = extent / count;
  LocalTensor result = {tensor.extents, {}};
  result.extents[dim] = size;
  result.data.reserve(outer * size * inner);
  for (int64_t o = 0; o < outer; ++o) {
    const auto begin =
        tensor.data.begin() + (o * extent + index * size) * inner;
    result.data.insert(result.data.end(), begin, begin + size * inner);
  }
  return result;
}

// The blocks, concatenated along `dim`.
LocalTensor Concatenate(const std::vector<LocalTensor>& blocks, int dim) {
  int64_t outer = 1;
  for (int i = 0; i < dim; ++i) outer *= blocks[0].extents[i];
  LocalTensor result = {blocks[0].extents, {}};
  result.extents[dim] = 0;
  for (const LocalTensor& block : blocks) {
    result.extents[dim] += block.extents[dim];
  }
  for (int64_t o = 0; o < outer; ++o) {
    for (const LocalTensor& block : blocks) {
      const int64_t run = static_cast<int64_t>(block.data.size()) / outer;
      result.data.insert(result.data.end(), block.data.begin() + o * run,
                         block.data.begin() + (o + 1) * run);
    }
  }
  return result;
}

// The sum of the shards of `group`.
LocalTensor Sum(const std::vector<int>& group,
                const std::vector<LocalTensor>& shards) {
  LocalTensor sum = shards[group[0]];
  for (size_t i = 1; i < group.size(); ++i) {
    const std::vector<int64_t>& data = shards[group[i]].data;
    for (size_t j = 0; j < data.size(); ++j) sum.data[j] += data[j];
  }
  return sum;
}

}  // namespace

SimulatedMesh::SimulatedMesh(const Mesh& mesh) : mesh_(mesh) {
  // Count through the coordinates; the last axis varies fastest.
  std::vector<int64_t> at(mesh.num_axes(), 0);
  for (int64_t rank = 0; rank < mesh.num_devices(); ++rank) {
    coordinates_.push_back(at);
    for (int i = mesh.num_axes() - 1; i >= 0; --i) {
      if (++at[i] < mesh.axis_size(i)) break;
      at[i] = 0;
    }
  }
}

int64_t SimulatedMesh::Index(int rank, const AxisList& axes) const {
  int64_t index = 0;
  for (int axis : axes) {
    index = index * mesh_.axis_size(axis) + coordinates_[rank][axis];
  }
  return index;
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
    // The ranks of a group have the same coordinates along all other axes.
    std::map<std::vector<int64_t>, int> numbers;
    for (int other = 0; other < num_ranks(); ++other) {
      std::vector<int64_t> rest = coordinates_[other];
      for (int axis : axes) rest[axis] = -1;
      const auto [number, is_new] =
          numbers.try_emplace(rest, static_cast<int>(groups.groups.size()));
      if (is_new) groups.groups.emplace_back(size, -1);
      groups.groups[number->second][Index(other, axes)] = other;
      groups.group_of.push_back(number->second);
    }
  }
  return groups.groups[groups.group_of[rank]];
}

absl::StatusOr<std::vector<LocalTensor>> SimulatedMesh::Run(
    const ReshardStep& step, const TensorLayout& before,
    const std::vector<LocalTensor>& shards) {
  std::vector<LocalTensor> result;
  std::vector<bool> has_sent(num_ranks(), false);
  std::map<const std::vector<int>*, LocalTensor> sums;  // by group
  const auto sum_of = [&](const std::vector<int>& group) {
    const auto [sum, inserted] = sums.try_emplace(&group);
    if (inserted) sum->second = Sum(group, shards);
    return sum->second;
  };
  for (int rank = 0; rank < num_ranks(); ++rank) {
    const std::vector<int>& group = GroupOf(rank, step.axes);
    const int64_t index = Index(rank, step.axes);
    const int64_t n = static_cast<int64_t>(group.size());
    std::vector<LocalTensor> blocks;
    switch (step.kind) {
      case CollectiveKind::kAllReduce:
        result.push_back(sum_of(group));
        break;
      case CollectiveKind::kReduceScatter: {
        MTF_ASSIGN_OR_RETURN(LocalTensor block,
                             BlockOf(sum_of(group), step.dim, index, n));
        result.push_back(std::move(block));
        break;
      }
      case CollectiveKind::kAllSlice: {
        MTF_ASSIGN_OR_RETURN(LocalTensor block,
                             BlockOf(shards[rank], step.dim, index, n));
        result.push_back(std::move(block));
        break;
      }
      case CollectiveKind::kAllGather:
        for (int other : group) blocks.push_back(shards[other]);
        result.push_back(Concatenate(blocks, step.dim));
        break;
      case CollectiveKind::kAllToAll:
        for (int other : group) {
          MTF_ASSIGN_OR_RETURN(LocalTensor block,
                               BlockOf(shards[other], step.dim, index, n));
          blocks.push_back(std::move(block));
        }
        result.push_back(Concatenate(blocks, step.from_dim));
        break;
      case CollectiveKind::kCollectivePermute: {
        const int from =
            static_cast<int>(PermuteSource(mesh_, before, step.layout, rank));
        if (&GroupOf(from, step.axes) != &group) {
          return absl::InternalError(absl::StrCat("rank ", rank,
                                                  " receives from rank ", from,
                                                  " outside its group"));
        }
        if (has_sent[from]) {
          return absl::InternalError(
              absl::StrCat("rank ", from, " sends to two ranks"));
        }
        has_sent[from] = true;
        result.push_back(shards[from]);
        break;
      }
    }
  }
  return result;
}

}  // namespace mtf::internal
