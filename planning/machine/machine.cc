// SPDX-License-Identifier: Apache-2.0
#include "planning/machine/machine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "lowering/fusion/device_fusion.h"
#include "mtf/check.h"

namespace mtf {
namespace {

// The bytes that a rank sends, as a share of its full buffer, and the number of
// sequential messages, both over `n` ranks: the bounds of Thakur, Rabenseifner
// and Gropp (2005), which implementations reach up to a constant.
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

// The table of `kind` with the number of ranks nearest to `n`.
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

// Seconds of a collective among `n` ranks connected by one link.
double LinkSeconds(const MachineLink& link, CollectiveKind kind, double n,
                   double bytes) {
  const CollectiveTable* table = NearestTable(link, kind, n);
  const double wire = WireShare(kind, n) * bytes;
  if (table == nullptr) {
    return Messages(kind, n) * link.latency + wire / link.bandwidth;
  }
  // The measured time for as many bytes on the wire, corrected for the number
  // of messages. The floor of the table is an upper bound on their latency.
  const double ranks = static_cast<double>(table->ranks);
  const double seconds = table->seconds.At(wire / WireShare(kind, ranks));
  const double latency =
      std::min(link.latency, table->seconds.floor() / Messages(kind, ranks));
  return seconds + (Messages(kind, n) - Messages(kind, ranks)) * latency;
}

// The size of the largest blocks of consecutive ranks that align with the axes
// of the mesh and are each within one block of `ranks` consecutive ranks.
int64_t AlignedBlock(const Mesh& mesh, int64_t ranks) {
  if (ranks == 0 || mesh.num_devices() <= ranks) return mesh.num_devices();
  int64_t block = 1;
  for (int axis = mesh.num_axes() - 1; axis >= 0; --axis) {
    const int64_t factor = std::gcd(mesh.axis_size(axis), ranks / block);
    block *= factor;
    if (factor != mesh.axis_size(axis)) break;
  }
  return block;
}

}  // namespace

FusionCapabilities Machine::fusion() const {
  if (has_all_attention_) return CpuFusion();
  return has_attention_rate() ? CudaFusion() : FusionCapabilities();
}

absl::Status Machine::CheckMesh(const Mesh& mesh) const {
  const int64_t ranks = links_.back().ranks;
  if (ranks == 0 || mesh.num_devices() <= ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "mesh ", Quoted(mesh.ToString()), " has ", mesh.num_devices(),
      " ranks, but machine ", Quoted(name_), " connects only ", ranks,
      DetailLine("link", absl::StrCat(links_.back().name, ", ranks ", ranks)),
      DetailLine("help",
                 "use a smaller mesh, or a machine with another link outside "
                 "of this one")));
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

double Machine::ProductSeconds(DType dtype, double batch, double m, double n,
                               double k) const {
  const MatmulRate& rate = RateOf(dtype);
  const double flops = 2 * batch * m * n * k;
  const double share =
      rate.flops.At(flops) * rate.side.At(std::min(m, n)) * rate.k.At(k);
  return latency_ + flops / (rate.peak * share);
}

double Machine::MatmulSeconds(DType dtype, int64_t batch, int64_t m, int64_t n,
                              int64_t k) const {
  // In doubles, because the FLOPs of a hypothetical product may exceed 64 bits.
  const double b = static_cast<double>(batch), rows = static_cast<double>(m),
               columns = static_cast<double>(n), sums = static_cast<double>(k);
  const double bytes =
      b * (rows * sums + sums * columns + rows * columns) * DTypeSize(dtype);
  return std::max(ProductSeconds(dtype, b, rows, columns, sums),
                  CopySeconds(static_cast<int64_t>(std::min(bytes, 0x1p62))));
}

double Machine::ConvolutionSeconds(const ConvolutionProblem& problem) const {
  int64_t pixels = problem.batch, window = problem.inputs;
  for (const ConvolutionProblem::Spatial& dim : problem.spatial) {
    pixels *= dim.output;
    window *= dim.window;
  }
  int64_t m = pixels, n = problem.outputs, k = window;
  if (problem.computes == ConvolutionProblem::Computes::kInput) std::swap(n, k);
  if (problem.computes == ConvolutionProblem::Computes::kFilter) {
    std::swap(m, k);
  }
  const int64_t elements = problem.InputElements() + problem.FilterElements() +
                           problem.OutputElements();
  return std::max(
      ProductSeconds(problem.dtype, static_cast<double>(problem.groups),
                     static_cast<double>(m), static_cast<double>(n),
                     static_cast<double>(k)),
      CopySeconds(elements * DTypeSize(problem.dtype)));
}

double Machine::CopySeconds(int64_t bytes) const {
  if (!copy_.empty()) return copy_.At(static_cast<double>(bytes));
  return latency_ + static_cast<double>(bytes) / bandwidth_;
}

double Machine::HostCopySeconds(int64_t bytes) const {
  // In one memory, every byte is read and written.
  if (host_link_ == 0) return CopySeconds(2 * bytes);
  return latency_ + static_cast<double>(bytes) / host_link_;
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
    // The outermost link connects all ranks.
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
  const double total_bytes = static_cast<double>(bytes);
  if (members.back() == 1 || kind == CollectiveKind::kAllSlice) return 0;
  // The links work concurrently on chunks of the buffer, so the slowest link
  // determines the time; each other link adds the time of an empty message. The
  // slowest is the link with the largest time above that, so that the result is
  // continuous where another link becomes the slowest.
  double floors = 0, max_above_floor = 0;
  double inside = 1;
  for (size_t i = 0; i < links_.size(); ++i) {
    const double count = static_cast<double>(members[i]);
    const double units = count / inside;
    const double ranks_per_unit = std::exchange(inside, count);
    if (units == 1) continue;
    double link_bytes = 0;
    if (kind == CollectiveKind::kAllToAll) {
      // The share of the blocks whose destination is within this link.
      link_bytes = total_bytes * count / all;
    } else if (kind == CollectiveKind::kCollectivePermute) {
      // Some shard takes the longest path.
      if (members[i] != members.back()) continue;
      link_bytes = total_bytes;
    } else {
      // Rings and trees pass through all ranks within this link. The bytes of a
      // unit are divided among its ranks.
      link_bytes = total_bytes / ranks_per_unit * WireShare(kind, count) /
                   WireShare(kind, units);
    }
    const double floor = LinkSeconds(links_[i], kind, units, 0);
    const double seconds =
        std::max(floor, LinkSeconds(links_[i], kind, units, link_bytes));
    floors += floor;
    max_above_floor = std::max(max_above_floor, seconds - floor);
  }
  return floors + max_above_floor;
}

}  // namespace mtf
