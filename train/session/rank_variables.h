// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_RANK_VARIABLES_H_
#define TRAIN_SESSION_RANK_VARIABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layouts/shard.h"
#include "mtf/graph.h"
#include "mtf/host_tensor.h"

namespace mtf {
class Device;
class VariableStore;
struct Program;
}  // namespace mtf

namespace mtf::train {

// The shard of a variable on one rank.
struct VariableShard {
  int variable = 0;  // VariableInfo::id
  std::string name;
  VariableKind kind = VariableKind::kParameter;
  DType dtype = kFloat32;
  Shape shape;  // of the complete variable
  // The range of the shard in each dimension of `shape`, and its padding.
  std::vector<ShardedDimension> dims;
  // Whether no lower rank has the same range. The shards of which this is true
  // are a partition of the variable.
  bool first_replica = false;

  // The shape of the elements without padding; some sizes may be 0.
  Shape ValidShape() const;
};

// The shards of all variables on one rank: parameters, their master copies and
// moving averages, the state of optimizers, and state of the computation. They
// are copied between host and device one by one, without a program, and without
// communication. See Session::OnEachRank.
class RankVariables {
 public:
  // `in_host_memory`: whether the device computes in host memory.
  RankVariables(int64_t rank, const Graph& graph, const Program& stored,
                Device& device, VariableStore& store, bool in_host_memory);

  int64_t rank() const { return rank_; }
  // In the order in which the variables were created.
  const std::vector<VariableShard>& shards() const { return shards_; }

  // Returns the elements of one of shards(), without padding.
  absl::StatusOr<HostTensor> Read(const VariableShard& shard) const;
  // The same into `to`, an array of ValidShape() in the dtype of the shard.
  absl::Status ReadElements(const VariableShard& shard, void* to) const;

  // Sets the elements of one of shards(). Its padding becomes 0, as every
  // program leaves it. All replicas must be set to the same value, and a
  // parameter to the rounded value of its master copy. kInvalidArgument unless
  // `value` has the dtype and ValidShape() of the shard.
  absl::Status Write(const VariableShard& shard, const HostTensor& value);
  // The same with the elements of ValidShape() in the dtype of the shard.
  absl::Status WriteElements(const VariableShard& shard, const void* elements);
  // The elements of one of shards() where programs read them, for callers that
  // set all of them without a copy. Null if the device does not compute in host
  // memory, or if the shard has padding: use Write then.
  absl::StatusOr<void*> MutableElements(const VariableShard& shard);

  // The ids of the variables that were written.
  const std::vector<int>& written() const { return written_; }

 private:
  absl::StatusOr<void*> Find(const VariableShard& shard) const;
  int64_t rank_;
  const Program& stored_;
  Device& device_;
  VariableStore& store_;
  bool in_host_memory_;
  std::vector<VariableShard> shards_;
  std::vector<int> written_;
};

}  // namespace mtf::train

#endif  // TRAIN_SESSION_RANK_VARIABLES_H_
