// SPDX-License-Identifier: Apache-2.0
#include "train/loop/find_non_finite.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/operation.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

// Tensors fetched at a time.
constexpr size_t kFetches = 24;
constexpr int64_t kFetchedElements = 1 << 24;

// The float results that `of` depends on and `of` itself, in the order of the
// graph, which is topological.
std::vector<Tensor> FloatAncestors(Tensor of) {
  std::vector<const Operation*> open = {of.operation()}, found;
  std::vector<bool> seen(of.operation()->id() + 1, false);
  while (!open.empty()) {
    const Operation* operation = open.back();
    open.pop_back();
    if (seen[operation->id()]) continue;
    seen[operation->id()] = true;
    found.push_back(operation);
    for (const Tensor& input : operation->inputs()) {
      open.push_back(input.operation());
    }
  }
  std::sort(
      found.begin(), found.end(),
      [](const Operation* a, const Operation* b) { return a->id() < b->id(); });
  std::vector<Tensor> tensors;
  for (const Operation* operation : found) {
    for (int i = 0; i < operation->num_results(); ++i) {
      if (IsFloat(operation->dtype(i))) {
        tensors.push_back(operation->result(i));
      }
    }
  }
  return tensors;
}

NonFinite CountNonFinite(Tensor tensor, const HostTensor& value) {
  NonFinite result = {.tensor = tensor};
  for (int64_t i = 0; i < value.num_elements(); ++i) {
    const double element = LoadElement(value.data(), value.dtype(), i);
    if (std::isfinite(element)) continue;
    ++result.count;
    result.nan = result.nan || std::isnan(element);
  }
  return result;
}

// How many elements of a variable are infinite, and how many NaN.
struct NonFiniteCounts {
  int64_t infinite = 0, nan = 0;
};

// Counts in `values`, floats of `Bits` whose exponent has the bits `exponent`.
// Without branches, so that it runs at the speed of memory.
template <class Bits>
NonFiniteCounts CountBits(const void* values, int64_t count, Bits exponent) {
  const auto* const bits = static_cast<const Bits*>(values);
  NonFiniteCounts counts;
  for (int64_t i = 0; i < count; ++i) {
    // The sign is the highest bit.
    const auto magnitude = static_cast<Bits>(
        bits[i] & static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1));
    counts.infinite += static_cast<int64_t>(magnitude == exponent);
    counts.nan += static_cast<int64_t>(magnitude > exponent);
  }
  return counts;
}

NonFiniteCounts CountNonFiniteElements(const HostTensor& value) {
  switch (value.dtype()) {
    case kFloat32:
      return CountBits<uint32_t>(value.data(), value.num_elements(),
                                 0x7f800000u);
    case kBFloat16:
      return CountBits<uint16_t>(value.data(), value.num_elements(), 0x7f80);
    case kFloat16:
      return CountBits<uint16_t>(value.data(), value.num_elements(), 0x7c00);
    default:
      return {};
  }
}

// By id of the variable.
using VariableCounts = std::map<int, NonFiniteCounts>;

absl::StatusOr<VariableCounts> CountInThisProcess(Session& session) {
  VariableCounts counts;
  std::mutex mutex;
  MTF_RETURN_IF_ERROR(
      session.OnEachRank([&](RankVariables& rank) -> absl::Status {
        for (const VariableShard& shard : rank.shards()) {
          if (!shard.first_replica || !IsFloat(shard.dtype) ||
              shard.kind == VariableKind::kState) {
            continue;
          }
          MTF_ASSIGN_OR_RETURN(const HostTensor value, rank.Read(shard));
          const NonFiniteCounts found = CountNonFiniteElements(value);
          if (found.infinite + found.nan == 0) continue;
          const std::lock_guard<std::mutex> lock(mutex);
          counts[shard.variable].infinite += found.infinite;
          counts[shard.variable].nan += found.nan;
        }
        return absl::OkStatus();
      }));
  return counts;
}

// Adds up the counts of all processes.
absl::StatusOr<VariableCounts> CountInAllProcesses(Session& session) {
  const absl::StatusOr<VariableCounts> mine = CountInThisProcess(session);
  MTF_RETURN_IF_ERROR(session.Agree(mine.status()));
  std::string text;
  for (const auto& [id, count] : *mine) {
    absl::StrAppend(&text, id, " ", count.infinite, " ", count.nan, "\n");
  }
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                       session.GatherText(text));
  VariableCounts all;
  for (const std::string& each : texts) {
    std::istringstream numbers(each);
    int id = 0;
    for (NonFiniteCounts count; numbers >> id >> count.infinite >> count.nan;) {
      all[id].infinite += count.infinite;
      all[id].nan += count.nan;
    }
  }
  return all;
}

}  // namespace

absl::StatusOr<std::string> FindNonFiniteVariable(Session& session) {
  MTF_ASSIGN_OR_RETURN(const VariableCounts counts,
                       CountInAllProcesses(session));
  for (const auto& [id, count] : counts) {
    const VariableInfo& variable = session.graph().variables()[id];
    if (count.nan == 0 && !variable.trainable) continue;
    return absl::StrCat(count.nan > 0 ? "NaN" : "infinite", " in ",
                        count.nan + count.infinite, " of ",
                        Plural(variable.shape.num_elements(), "element"),
                        " of variable ", Quoted(variable.name));
  }
  return "";
}

std::string NonFinite::ToString() const {
  const Operation& operation = *tensor.operation();
  return absl::StrCat(nan ? "NaN" : "infinite", " in ", count, " of ",
                      Plural(tensor.shape().num_elements(), "element"), " of ",
                      Quoted(tensor.name()), " (", operation.kind(), ", ",
                      operation.call_site().ToString(), ")");
}

absl::StatusOr<std::vector<NonFinite>> FindNonFinite(
    Session& session, Tensor of,
    const std::map<std::string, HostTensor>& feeds) {
  const std::vector<Tensor> tensors = FloatAncestors(of);
  std::vector<NonFinite> result;
  for (size_t begin = 0; begin < tensors.size();) {
    RunRequest request = {.feeds = feeds};
    int64_t elements = 0;
    size_t end = begin;
    for (; end < tensors.size() && end < begin + kFetches; ++end) {
      elements += tensors[end].shape().num_elements();
      if (end > begin && elements > kFetchedElements) break;
      request.fetches.push_back(tensors[end]);
    }
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> values,
                         session.Run(request));
    for (size_t i = begin; i < end; ++i) {
      const NonFinite found = CountNonFinite(tensors[i], values[i - begin]);
      if (found.count == 0) continue;
      if (found.nan || result.empty()) result.push_back(found);
      if (found.nan) return result;
    }
    begin = end;
  }
  return result;
}

}  // namespace mtf::train
