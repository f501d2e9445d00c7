// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/group_collectives.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "backends/communicators/job_watch.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// Watches control traffic by messages, which cannot time out by itself.
class ControlWait {
 public:
  ControlWait(const Communicator& communicator, const char* phase) {
    if (communicator.can_wait_forever()) wait_.emplace(phase);
  }

 private:
  std::optional<WatchedWait> wait_;
};

}  // namespace

absl::Status GroupedCommunicator::OpenWorld() {
  AxisList all;
  for (int axis = 0; axis < mesh().num_axes(); ++axis) all.push_back(axis);
  MTF_ASSIGN_OR_RETURN(world_, GroupOver(all));
  return absl::OkStatus();
}

absl::Status GroupedCommunicator::OpenGroup(const Group& group) {
  MTF_ASSIGN_OR_RETURN(GroupCollectives * collectives, MakeCollectives(group));
  collectives_.resize(group.id + 1, nullptr);
  collectives_[group.id] = collectives;
  return absl::OkStatus();
}

absl::StatusOr<StepError> GroupedCommunicator::Agree(const StepError& error) {
  if (size() == 1) return error;
  const ControlWait wait(*this, "the agreement on the errors of a step");
  std::vector<StepError> errors(size());
  MTF_RETURN_IF_ERROR(
      DoAllGather(*world_, &error, errors.data(), sizeof(StepError)));
  // Ranks that report the same position report the same index, unless replicas
  // have diverged; then the lowest rank decides.
  return *std::min_element(errors.begin(), errors.end(),
                           [](const StepError& a, const StepError& b) {
                             return std::tie(a.instruction, a.position) <
                                    std::tie(b.instruction, b.position);
                           });
}

absl::Status GroupedCommunicator::Barrier() {
  if (size() == 1) return absl::OkStatus();
  const ControlWait wait(*this, "a barrier of all ranks");
  return World().Barrier();
}

absl::StatusOr<bool> GroupedCommunicator::SignIn(uint64_t fingerprint) {
  if (size() == 1) return true;
  return World().SignIn(fingerprint);
}

absl::StatusOr<std::vector<std::string>> GroupedCommunicator::AllGatherText(
    const std::string& text) {
  if (size() == 1) return std::vector<std::string>{text};
  const ControlWait wait(*this, "a comparison of all ranks");
  const int64_t length = static_cast<int64_t>(text.size());
  std::vector<int64_t> lengths(size());
  MTF_RETURN_IF_ERROR(
      DoAllGather(*world_, &length, lengths.data(), sizeof(length)));
  // An all_gather has equal blocks, so texts are padded to the longest.
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = text;
  padded.resize(longest);
  std::string all(longest * size(), '\0');
  MTF_RETURN_IF_ERROR(DoAllGather(*world_, padded.data(), all.data(), longest));
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < size(); ++rank) {
    texts.push_back(all.substr(rank * longest, lengths[rank]));
  }
  return texts;
}

absl::Status GroupedCommunicator::DoAllReduce(
    const Group& group, absl::Span<const ReduceBuffer> buffers, DType dtype,
    ReduceKind kind) {
  return collectives_[group.id]->AllReduce(buffers, dtype, kind);
}

absl::Status GroupedCommunicator::DoAllGather(const Group& group,
                                              const void* in, void* out,
                                              int64_t bytes) {
  return collectives_[group.id]->AllGather(in, out, bytes);
}

absl::Status GroupedCommunicator::DoReduceScatter(const Group& group,
                                                  const void* in, void* out,
                                                  int64_t count, DType dtype,
                                                  ReduceKind kind) {
  return collectives_[group.id]->ReduceScatter(in, out, count, dtype, kind);
}

absl::Status GroupedCommunicator::DoAllToAll(const Group& group, const void* in,
                                             void* out, int64_t bytes) {
  return collectives_[group.id]->AllToAll(in, out, bytes);
}

absl::Status GroupedCommunicator::DoPermute(const Group& group, const void* in,
                                            void* out, int64_t bytes,
                                            int64_t source,
                                            int64_t destination) {
  return collectives_[group.id]->Permute(
      in, out, bytes, static_cast<int>(mesh().Coordinate(source, group.axes)),
      static_cast<int>(mesh().Coordinate(destination, group.axes)));
}

}  // namespace mtf
