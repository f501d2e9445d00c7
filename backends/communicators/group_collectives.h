// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_GROUP_COLLECTIVES_H_
#define BACKENDS_COMMUNICATORS_GROUP_COLLECTIVES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/communicator.h"

namespace mtf {

// The collectives of one group of at least two ranks, called by this rank.
// Communicator documents each.
class GroupCollectives {
 public:
  virtual ~GroupCollectives() = default;

  virtual absl::Status AllReduce(
      absl::Span<const Communicator::ReduceBuffer> buffers, DType dtype,
      ReduceKind kind) = 0;
  virtual absl::Status AllGather(const void* in, void* out, int64_t bytes) = 0;
  virtual absl::Status ReduceScatter(const void* in, void* out, int64_t count,
                                     DType dtype, ReduceKind kind) = 0;
  virtual absl::Status AllToAll(const void* in, void* out, int64_t bytes) = 0;
  // `source` and `destination` are indices in the group.
  virtual absl::Status Permute(const void* in, void* out, int64_t bytes,
                               int source, int destination) = 0;
  virtual absl::Status Barrier() = 0;
  virtual absl::StatusOr<bool> SignIn(uint64_t fingerprint) = 0;
};

// A communicator that delegates each call to the collectives of the group, and
// control traffic to those of the group of all ranks.
class GroupedCommunicator : public Communicator {
 public:
  using Communicator::Communicator;

  absl::StatusOr<StepError> Agree(const StepError& error) override;
  absl::Status Barrier() override;
  absl::StatusOr<bool> SignIn(uint64_t fingerprint) override;
  absl::StatusOr<std::vector<std::string>> AllGatherText(
      const std::string& text) override;

 protected:
  // The collectives of a group of at least two ranks. They outlive this object.
  virtual absl::StatusOr<GroupCollectives*> MakeCollectives(
      const Group& group) = 0;

  // Opens the group of all ranks. Derived classes call this before first use.
  absl::Status OpenWorld();

  absl::Status OpenGroup(const Group& group) final;
  absl::Status DoAllReduce(const Group& group,
                           absl::Span<const ReduceBuffer> buffers, DType dtype,
                           ReduceKind kind) final;
  absl::Status DoAllGather(const Group& group, const void* in, void* out,
                           int64_t bytes) final;
  absl::Status DoReduceScatter(const Group& group, const void* in, void* out,
                               int64_t count, DType dtype,
                               ReduceKind kind) final;
  absl::Status DoAllToAll(const Group& group, const void* in, void* out,
                          int64_t bytes) final;
  absl::Status DoPermute(const Group& group, const void* in, void* out,
                         int64_t bytes, int64_t source,
                         int64_t destination) final;

 private:
  // The collectives of all ranks, for control traffic.
  GroupCollectives& World() { return *collectives_[world_->id]; }

  const Group* world_ = nullptr;
  std::vector<GroupCollectives*> collectives_;  // by Group::id
};

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_GROUP_COLLECTIVES_H_
