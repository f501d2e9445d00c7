// SPDX-License-Identifier: Apache-2.0
//
// Checks that every communicator must pass, for threads and for processes. Each
// rank derives its data from its number, so it can compute what every other
// rank sends and the expected results.
#ifndef TESTS_BACKENDS_COMMUNICATORS_COLLECTIVE_CHECKS_H_
#define TESTS_BACKENDS_COMMUNICATORS_COLLECTIVE_CHECKS_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/communicator.h"
#include "mtf/status.h"
#include "tests/backends/communicators/collective_data.h"

namespace mtf::testing {

// A buffer with guard bytes before and after it.
class Guarded {
 public:
  explicit Guarded(int64_t bytes) : data_(bytes + 2 * kGuard, kMark) {}
  explicit Guarded(const std::string& content)
      : Guarded(static_cast<int64_t>(content.size())) {
    if (!content.empty()) std::memcpy(data(), content.data(), content.size());
  }
  char* data() { return &data_[kGuard]; }

  absl::Status Expect(const std::string& content,
                      const std::string& what) const {
    const std::string guard(kGuard, kMark);
    if (data_.substr(0, kGuard) != guard ||
        data_.substr(kGuard + content.size()) != guard) {
      return absl::InternalError(what + ": wrote outside its buffer");
    }
    for (size_t i = 0; i < content.size(); ++i) {
      if (data_[kGuard + i] != content[i]) {
        return absl::InternalError(
            absl::StrCat(what, ": byte ", i, " of ", content.size(), " is ",
                         static_cast<int>(data_[kGuard + i]), ", not ",
                         static_cast<int>(content[i])));
      }
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kGuard = 64;
  static constexpr char kMark = 0x5a;
  std::string data_;
};

using Group = Communicator::Group;

inline std::string Describe(const Communicator& communicator,
                            const Group& group, const std::string& what) {
  return absl::StrCat("rank ", communicator.rank(), " over ",
                      communicator.mesh().AxisNames(group.axes), " of ",
                      communicator.mesh().ToString(), ": ", what);
}

// Checks that the counters grew by one call of `kind` over the group with
// `operand` bytes.
class CountCheck {
 public:
  CountCheck(const Communicator& communicator, const Group& group,
             CollectiveKind kind, int64_t operand)
      : communicator_(communicator), expected_(communicator.counts()) {
    CollectiveCount& count = expected_[{kind, SetOf(group.axes)}];
    const int64_t n = static_cast<int64_t>(group.ranks.size());
    ++count.calls;
    count.bytes += WireBytes(kind, n, operand);
  }
  absl::Status Check(const std::string& what) const {
    if (communicator_.counts() == expected_) return absl::OkStatus();
    return absl::InternalError(what + ": the counters are off");
  }

 private:
  const Communicator& communicator_;
  CollectiveCounts expected_;
};

inline absl::Status CheckAllReduce(Communicator& communicator,
                                   const Group& group, DType dtype,
                                   ReduceKind kind,
                                   const std::vector<int64_t>& counts,
                                   bool in_place) {
  const std::string what =
      Describe(communicator, group,
               absl::StrCat("all_reduce ", static_cast<int>(kind), " ",
                            DTypeName(dtype), " x ", absl::StrJoin(counts, "+"),
                            in_place ? " in place" : ""));
  std::vector<Guarded> in, out;
  std::vector<std::string> expected;
  std::vector<Communicator::ReduceBuffer> buffers;
  int64_t begin = 0;
  for (int64_t count : counts) {
    in.emplace_back(MakeData(dtype, communicator.rank(), begin, count));
    out.emplace_back(count * DTypeSize(dtype));
    expected.push_back(ReducedData(dtype, kind, group.ranks, begin, count));
    begin += count;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    buffers.push_back(
        {in[i].data(), in_place ? in[i].data() : out[i].data(), counts[i]});
  }
  const CountCheck count(communicator, group, CollectiveKind::kAllReduce,
                         begin * DTypeSize(dtype));
  MTF_RETURN_IF_ERROR(communicator.AllReduce(group, buffers, dtype, kind));
  for (size_t i = 0; i < counts.size(); ++i) {
    MTF_RETURN_IF_ERROR((in_place ? in : out)[i].Expect(expected[i], what));
  }
  return count.Check(what);
}

inline absl::Status CheckReduceScatter(Communicator& communicator,
                                       const Group& group, DType dtype,
                                       ReduceKind kind, int64_t count) {
  const std::string what =
      Describe(communicator, group,
               absl::StrCat("reduce_scatter ", static_cast<int>(kind), " ",
                            DTypeName(dtype), " x ", count));
  const int64_t n = static_cast<int64_t>(group.ranks.size());
  Guarded in(MakeData(dtype, communicator.rank(), 0, n * count));
  Guarded out(count * DTypeSize(dtype));
  const CountCheck counted(communicator, group, CollectiveKind::kReduceScatter,
                           n * count * DTypeSize(dtype));
  MTF_RETURN_IF_ERROR(communicator.ReduceScatter(group, in.data(), out.data(),
                                                 count, dtype, kind));
  MTF_RETURN_IF_ERROR(out.Expect(
      ReducedData(dtype, kind, group.ranks, group.index * count, count), what));
  return counted.Check(what);
}

inline absl::Status CheckAllGather(Communicator& communicator,
                                   const Group& group, int64_t bytes) {
  const std::string what =
      Describe(communicator, group, absl::StrCat("all_gather ", bytes));
  const int64_t n = static_cast<int64_t>(group.ranks.size());
  Guarded in(MakeBytes(communicator.rank(), 0, bytes));
  Guarded out(n * bytes);
  std::string expected;
  for (int64_t rank : group.ranks) expected += MakeBytes(rank, 0, bytes);
  const CountCheck count(communicator, group, CollectiveKind::kAllGather,
                         bytes);
  MTF_RETURN_IF_ERROR(
      communicator.AllGather(group, in.data(), out.data(), bytes));
  MTF_RETURN_IF_ERROR(out.Expect(expected, what));
  return count.Check(what);
}

inline absl::Status CheckAllToAll(Communicator& communicator,
                                  const Group& group, int64_t bytes) {
  const std::string what =
      Describe(communicator, group, absl::StrCat("all_to_all ", bytes));
  const int64_t n = static_cast<int64_t>(group.ranks.size());
  std::string sent, expected;
  for (int64_t p = 0; p < n; ++p) {
    sent += MakeBytes(communicator.rank(), p, bytes);
    expected += MakeBytes(group.ranks[p], group.index, bytes);
  }
  Guarded in(sent);
  Guarded out(n * bytes);
  const CountCheck count(communicator, group, CollectiveKind::kAllToAll,
                         n * bytes);
  MTF_RETURN_IF_ERROR(
      communicator.AllToAll(group, in.data(), out.data(), bytes));
  MTF_RETURN_IF_ERROR(out.Expect(expected, what));
  return count.Check(what);
}

// Rank p of the group receives from rank `source_of(p)`, a permutation.
inline absl::Status CheckPermute(
    Communicator& communicator, const Group& group, int64_t bytes,
    const std::function<int64_t(int64_t)>& source_of) {
  const std::string what =
      Describe(communicator, group, absl::StrCat("permute ", bytes));
  const int64_t n = static_cast<int64_t>(group.ranks.size());
  int64_t destination = -1;
  for (int64_t p = 0; p < n; ++p) {
    if (source_of(p) == group.index) destination = group.ranks[p];
  }
  const int64_t source = group.ranks[source_of(group.index)];
  Guarded in(MakeBytes(communicator.rank(), 5, bytes));
  Guarded out(bytes);
  const CountCheck count(communicator, group,
                         CollectiveKind::kCollectivePermute, bytes);
  MTF_RETURN_IF_ERROR(communicator.Permute(group, in.data(), out.data(), bytes,
                                           source, destination));
  MTF_RETURN_IF_ERROR(out.Expect(MakeBytes(source, 5, bytes), what));
  return count.Check(what);
}

// Every ordered list of distinct axes of a mesh, including the empty one.
inline std::vector<AxisList> AllAxisLists(const Mesh& mesh) {
  std::vector<AxisList> lists = {AxisList()};
  for (size_t i = 0; i < lists.size(); ++i) {
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (lists[i].Contains(axis)) continue;
      AxisList longer = lists[i];
      longer.push_back(axis);
      lists.push_back(longer);
    }
  }
  return lists;
}

// Checks all collectives over one group, with message sizes on both sides of
// every threshold up to `largest` elements.
inline absl::Status CheckGroup(Communicator& communicator, const Group& group,
                               int64_t largest) {
  if (group.ranks[group.index] != communicator.rank()) {
    return absl::InternalError("a group has a wrong index for this rank");
  }
  const int64_t n = static_cast<int64_t>(group.ranks.size());
  for (int64_t size : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{64},
                       int64_t{1001}, int64_t{9000}, largest}) {
    if (size > largest) continue;
    MTF_RETURN_IF_ERROR(CheckAllGather(communicator, group, size));
    MTF_RETURN_IF_ERROR(CheckAllToAll(communicator, group, size));
    MTF_RETURN_IF_ERROR(CheckPermute(communicator, group, size,
                                     [&](int64_t p) { return (p + 1) % n; }));
    MTF_RETURN_IF_ERROR(CheckPermute(communicator, group, size,
                                     [&](int64_t p) { return n - 1 - p; }));
    for (DType dtype : kAllDTypes) {
      for (ReduceKind kind : kAllReduceKinds) {
        // Large messages in every dtype, but only for one kind of reduction.
        if (size > 64 && kind != ReduceKind::kSum && dtype != kFloat32) {
          continue;
        }
        MTF_RETURN_IF_ERROR(CheckAllReduce(communicator, group, dtype, kind,
                                           {size}, /*in_place=*/size % 2 == 1));
        MTF_RETURN_IF_ERROR(
            CheckReduceScatter(communicator, group, dtype, kind, size));
      }
    }
    for (bool in_place : {false, true}) {
      MTF_RETURN_IF_ERROR(CheckAllReduce(communicator, group, kFloat32,
                                         ReduceKind::kSum,
                                         {size, 0, 1, size / 3, 5}, in_place));
    }
  }
  MTF_RETURN_IF_ERROR(CheckAllReduce(communicator, group, kBFloat16,
                                     ReduceKind::kSum, {}, false));
  return absl::OkStatus();
}

// The smallest error is agreed on, whichever rank has it; at first none has.
inline absl::Status CheckAgree(Communicator& communicator) {
  const auto expect = [&](const StepError& mine, int64_t instruction,
                          int64_t position, int64_t index) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(const StepError agreed, communicator.Agree(mine));
    if (agreed.instruction == instruction && agreed.position == position &&
        agreed.index == index) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat("agreed on ", agreed.instruction,
                                            ", ", agreed.position, ", ",
                                            agreed.index));
  };
  const int64_t rank = communicator.rank();
  const int64_t last = communicator.size() - 1;
  MTF_RETURN_IF_ERROR(expect({}, INT64_MAX, INT64_MAX, 0));
  MTF_RETURN_IF_ERROR(
      expect({.instruction = 7, .position = 100 - rank, .index = rank}, 7,
             100 - last, last));
  MTF_RETURN_IF_ERROR(
      expect({.instruction = 3 + rank, .position = 9 - rank, .index = -rank}, 3,
             9, 0));
  StepError only_last;
  if (rank == last) {
    only_last = {.instruction = 1, .position = 2, .index = 3};
  }
  return expect(only_last, 1, 2, 3);
}

inline absl::Status CheckControl(Communicator& communicator) {
  const CollectiveCounts before = communicator.counts();
  MTF_RETURN_IF_ERROR(CheckAgree(communicator));
  MTF_RETURN_IF_ERROR(communicator.Barrier());
  const auto text = [](int64_t rank) {
    return std::string(rank * 10, 'x') + absl::StrCat(rank);
  };
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                       communicator.AllGatherText(text(communicator.rank())));
  for (int64_t rank = 0; rank < communicator.size(); ++rank) {
    if (texts[rank] != text(rank)) {
      return absl::InternalError("AllGatherText brought \"" + texts[rank] +
                                 "\"");
    }
  }
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> empty,
                       communicator.AllGatherText(""));
  if (empty != std::vector<std::string>(communicator.size())) {
    return absl::InternalError("AllGatherText of nothing brought something");
  }
  if (communicator.counts() != before) {
    return absl::InternalError("control traffic was counted");
  }
  return absl::OkStatus();
}

// Runs all checks above over every group of the mesh.
inline absl::Status CheckCommunicator(Communicator& communicator,
                                      int64_t largest) {
  for (const AxisList& axes : AllAxisLists(communicator.mesh())) {
    MTF_ASSIGN_OR_RETURN(const Group* group, communicator.GroupOver(axes));
    MTF_ASSIGN_OR_RETURN(const Group* again, communicator.GroupOver(axes));
    if (group != again) return absl::InternalError("a group was made twice");
    MTF_RETURN_IF_ERROR(CheckGroup(communicator, *group, largest));
  }
  return CheckControl(communicator);
}

// Runs many small collectives over changing groups, to detect slots or segments
// that are reused too early.
inline absl::Status CheckRepeats(Communicator& communicator, int repeats) {
  std::vector<const Group*> groups;
  for (const AxisList& axes : AllAxisLists(communicator.mesh())) {
    MTF_ASSIGN_OR_RETURN(const Group* group, communicator.GroupOver(axes));
    groups.push_back(group);
  }
  for (int i = 0; i < repeats; ++i) {
    const Group& group = *groups[Mix(i) % groups.size()];
    const int64_t count = static_cast<int64_t>(Mix(i + 77) % 40);
    switch (Mix(i + 5) % 5) {
      case 0:
        MTF_RETURN_IF_ERROR(CheckAllReduce(communicator, group, kFloat32,
                                           ReduceKind::kSum, {count, 3},
                                           i % 2 == 0));
        break;
      case 1:
        MTF_RETURN_IF_ERROR(CheckAllGather(communicator, group, count));
        break;
      case 2:
        MTF_RETURN_IF_ERROR(CheckReduceScatter(communicator, group, kInt32,
                                               ReduceKind::kMax, count));
        break;
      case 3:
        MTF_RETURN_IF_ERROR(CheckAllToAll(communicator, group, count));
        break;
      default:
        MTF_RETURN_IF_ERROR(CheckAgree(communicator));
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_COMMUNICATORS_COLLECTIVE_CHECKS_H_
