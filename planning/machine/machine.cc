// SPDX-License-Identifier: Apache-2.0
#include "planning/machine/machine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/check.h"

namespace mtf {
namespace {

// Bytes that a rank sends, as a part of its whole buffer, and messages one
// after the other, both over `n` ranks: the bounds of Thakur, Rabenseifner and
// Gropp (2005), which implementations reach within a constant.
double WireShare(CollectiveKind kind, double n) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * (n - 1) / n;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return (n - 1) / n;
    case CollectiveKind::kCollectivePermute:
      return 1;
    case CollectiveKind::kAllSlice:
      return 0;
  }
  return 0;
}
double Messages(CollectiveKind kind, double n) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * std::log2(n);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      return std::log2(n);
    case CollectiveKind::kAllToAll:
      return n - 1;
    case CollectiveKind::kCollectivePermute:
      return 1;
    case CollectiveKind::kAllSlice:
      return 0;
  }
  return 0;
}

// The table of `kind` measured at the number of ranks nearest to `n`.
const CollectiveTable* NearestTable(const MachineLink& link,
                                    CollectiveKind kind, double n) {
  const CollectiveTable* best = nullptr;
  double best_distance = 0;
  for (const CollectiveTable& table : link.tables) {
    if (table.kind != kind) continue;
    const double distance =
        std::abs(std::log(static_cast<double>(table.ranks) / n));
    if (best == nullptr || distance < best_distance) {
      best = &table;
      best_distance = distance;
    }
  }
  return best;
}

// A collective among `n` ranks of one link.
double LinkSeconds(const MachineLink& link, CollectiveKind kind, double n,
                   double bytes) {
  const CollectiveTable* table = NearestTable(link, kind, n);
  const double wire = WireShare(kind, n) * bytes;
  if (table == nullptr) {
    return Messages(kind, n) * link.latency + wire / link.bandwidth;
  }
  // As long as what puts as many bytes on the wire there, but for the messages,
  // of which the floor of the table says how long they take at most.
  const double ranks = static_cast<double>(table->ranks);
  const double seconds = table->seconds.At(wire / WireShare(kind, ranks));
  const double latency =
      std::min(link.latency, table->seconds.floor() / Messages(kind, ranks));
  return seconds + (Messages(kind, n) - Messages(kind, ranks)) * latency;
}

// The largest part of a block of `ranks` neighbours that lines up with the
// mesh, so that every such part lies in one block.
int64_t AlignedBlock(const Mesh& mesh, int64_t ranks) {
  if (ranks == 0 || mesh.num_devices() <= ranks) return mesh.num_devices();
  int64_t block = 1;
  for (int axis = mesh.num_axes() - 1; axis >= 0; --axis) {
    const int64_t part = std::gcd(mesh.axis_size(axis), ranks / block);
    block *= part;
    if (part != mesh.axis_size(axis)) break;
  }
  return block;
}

}  // namespace

absl::Status Machine::CheckMesh(const Mesh& mesh) const {
  const int64_t ranks = links_.back().ranks;
  if (ranks == 0 || mesh.num_devices() <= ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "mesh ", Quoted(mesh.ToString()), " has ", mesh.num_devices(),
      " ranks, but machine ", Quoted(name_), " joins ", ranks,
      DetailLine("link", absl::StrCat(links_.back().name, ", ranks ", ranks)),
      DetailLine("help",
                 "take a smaller mesh, or a machine with a link beyond this "
                 "one")));
}

const MatmulRate& Machine::RateOf(DType dtype) const {
  const auto find = [&](DType wanted) -> const MatmulRate* {
    for (const MatmulRate& rate : rates_) {
      if (rate.dtype == wanted) return &rate;
    }
    return nullptr;
  };
  const MatmulRate* rate = find(dtype);
  if (rate == nullptr && dtype == kFloat16) rate = find(kBFloat16);
  if (rate == nullptr && dtype == kBFloat16) rate = find(kFloat16);
  if (rate == nullptr) rate = find(kFloat32);
  return rate == nullptr ? rates_.front() : *rate;
}

double Machine::MatmulSeconds(DType dtype, int64_t batch, int64_t m, int64_t n,
                              int64_t k) const {
  // Doubles from the start: a hypothetical product may exceed 64 bits.
  const double b = static_cast<double>(batch), rows = static_cast<double>(m),
               columns = static_cast<double>(n), sums = static_cast<double>(k);
  const MatmulRate& rate = RateOf(dtype);
  const double flops = 2 * b * rows * columns * sums;
  const double share = rate.flops.At(flops) *
                       rate.side.At(std::min(rows, columns)) * rate.k.At(sums);
  const double bytes =
      b * (rows * sums + sums * columns + rows * columns) * DTypeSize(dtype);
  return std::max(latency_ + flops / (rate.peak * share),
                  CopySeconds(static_cast<int64_t>(std::min(bytes, 0x1p62))));
}

double Machine::CopySeconds(int64_t bytes) const {
  if (!copy_.empty()) return copy_.At(static_cast<double>(bytes));
  return latency_ + static_cast<double>(bytes) / bandwidth_;
}

double Machine::AttentionSeconds(const AttentionProblem& problem) const {
  const MatmulRate& rate = RateOf(problem.dtype);
  const ShareCurve& shares =
      problem.backward ? attention_.backward : attention_.forward;
  const double flops = problem.Flops();
  const double share =
      rate.flops.At(flops) * shares.At(static_cast<double>(problem.d));
  return std::max(latency_ + flops / (rate.peak * share),
                  CopySeconds(problem.Bytes()));
}

double Machine::MapSeconds(int64_t bytes, double functions) const {
  const double memory = CopySeconds(bytes);
  if (functions_ == 0) return memory;
  return std::max(memory, latency_ + functions / functions_);
}

std::vector<int64_t> Machine::Members(const Mesh& mesh,
                                      const AxisList& axes) const {
  std::vector<int64_t> members;
  for (size_t i = 0; i < links_.size(); ++i) {
    // Beyond the outermost link there is nothing: it joins all.
    const bool last = i + 1 == links_.size();
    const int64_t block = AlignedBlock(mesh, last ? 0 : links_[i].ranks);
    int64_t count = 1;
    int64_t stride = 1;
    for (int axis = mesh.num_axes() - 1; axis >= 0; --axis) {
      const int64_t size = mesh.axis_size(axis);
      if (axes.Contains(axis) && stride < block) {
        count *= std::min(size, block / stride);
      }
      stride *= size;
    }
    members.push_back(count);
  }
  return members;
}

double Machine::CollectiveSeconds(CollectiveKind kind, const Mesh& mesh,
                                  const AxisList& axes, int64_t bytes) const {
  const std::vector<int64_t> members = Members(mesh, axes);
  const double all = static_cast<double>(members.back());
  const double whole = static_cast<double>(bytes);
  if (members.back() == 1 || kind == CollectiveKind::kAllSlice) return 0;
  // Each link carries its part of the work while the others carry theirs, piece
  // by piece: the slowest sets the time, the rest add what an empty message
  // takes. The slowest is the one by which that is the most, so that the time
  // does not jump where another becomes it.
  double floors = 0, most_above_floor = 0;
  double inside = 1;
  for (size_t i = 0; i < links_.size(); ++i) {
    const double count = static_cast<double>(members[i]);
    const double units = count / inside;
    const double sharing = std::exchange(inside, count);
    if (units == 1) continue;
    double part = 0;
    if (kind == CollectiveKind::kAllToAll) {
      // Of all blocks that go to other ranks, those that go over this link.
      part = whole * count / all;
    } else if (kind == CollectiveKind::kCollectivePermute) {
      // Somebody's shard comes over the longest way.
      if (members[i] != members.back()) continue;
      part = whole;
    } else {
      // Rings and trees go through all members inside of this link: it carries
      // what each of so many sends, shared by those that a unit has.
      part = whole / sharing * WireShare(kind, count) / WireShare(kind, units);
    }
    const double floor = LinkSeconds(links_[i], kind, units, 0);
    const double seconds =
        std::max(floor, LinkSeconds(links_[i], kind, units, part));
    floors += floor;
    most_above_floor = std::max(most_above_floor, seconds - floor);
  }
  return floors + most_above_floor;
}

}  // namespace mtf
