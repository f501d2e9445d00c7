// SPDX-License-Identifier: Apache-2.0
#include "train/loop/variable_histograms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/host_tensor.h"
#include "mtf/scope_pattern.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

// Elements that are converted to double at a time.
constexpr int64_t kChunk = 1 << 16;

void CountElements(const HostTensor& shard, VariableHistogram& counts) {
  std::vector<double> values;
  for (int64_t begin = 0; begin < shard.num_elements(); begin += kChunk) {
    values.clear();
    const int64_t end = std::min(begin + kChunk, shard.num_elements());
    for (int64_t i = begin; i < end; ++i) {
      const double value = LoadElement(shard.data(), shard.dtype(), i);
      counts.infinite += static_cast<int64_t>(std::isinf(value));
      counts.nan += static_cast<int64_t>(std::isnan(value));
      values.push_back(value);
    }
    AddHistogram(MakeHistogram(values), counts.histogram);
  }
}

// The counts of several variables as bytes, for other processes: nine numbers
// for each variable, then its limits and counts.
constexpr size_t kHead = 9;

void AppendCounts(int id, const VariableHistogram& counts,
                  std::vector<double>& to) {
  const Histogram& histogram = counts.histogram;
  const auto buckets = static_cast<double>(histogram.limits.size());
  to.insert(
      to.end(),
      {static_cast<double>(id), static_cast<double>(counts.infinite),
       static_cast<double>(counts.nan), histogram.min, histogram.max,
       histogram.count, histogram.sum, histogram.sum_of_squares, buckets});
  to.insert(to.end(), histogram.limits.begin(), histogram.limits.end());
  to.insert(to.end(), histogram.counts.begin(), histogram.counts.end());
}

// Adds what AppendCounts has written to the variables by id.
void AddCounts(const std::vector<double>& from,
               std::map<int, VariableHistogram>& to) {
  for (auto at = from.begin(); at != from.end();) {
    VariableHistogram& counts = to[static_cast<int>(at[0])];
    counts.infinite += static_cast<int64_t>(at[1]);
    counts.nan += static_cast<int64_t>(at[2]);
    const auto limits = at + kHead;
    const auto buckets = static_cast<int64_t>(at[8]);
    AddHistogram({.min = at[3],
                  .max = at[4],
                  .count = at[5],
                  .sum = at[6],
                  .sum_of_squares = at[7],
                  .limits = {limits, limits + buckets},
                  .counts = {limits + buckets, limits + 2 * buckets}},
                 counts.histogram);
    at = limits + 2 * buckets;
  }
}

// The counts of the shards of this process, in the order of its ranks so that
// sums are the same in every run.
absl::StatusOr<std::vector<double>> CountShards(Session& session,
                                                const std::vector<int>& ids) {
  std::map<int64_t, std::vector<double>> by_rank;
  std::mutex mutex;
  MTF_RETURN_IF_ERROR(
      session.OnEachRank([&](RankVariables& rank) -> absl::Status {
        std::vector<double> counted;
        for (const VariableShard& shard : rank.shards()) {
          if (!shard.first_replica ||
              std::find(ids.begin(), ids.end(), shard.variable) == ids.end()) {
            continue;
          }
          MTF_ASSIGN_OR_RETURN(const HostTensor elements, rank.Read(shard));
          VariableHistogram counts;
          CountElements(elements, counts);
          AppendCounts(shard.variable, counts, counted);
        }
        const std::lock_guard<std::mutex> lock(mutex);
        by_rank[rank.rank()] = std::move(counted);
        return absl::OkStatus();
      }));
  std::vector<double> all;
  for (const auto& [rank, counted] : by_rank) {
    all.insert(all.end(), counted.begin(), counted.end());
  }
  return all;
}

absl::Status CheckPattern(const std::string& pattern,
                          const std::vector<std::string>& names) {
  if (!IsScopePattern(pattern)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(pattern), " is not a pattern of names of parameters",
        DetailLine("help",
                   "write names with * for any characters, such as "
                   "layer_*/attention")));
  }
  for (const std::string& name : names) {
    if (ScopeMatches(pattern, name)) return absl::OkStatus();
  }
  const std::string corrected = CorrectedPattern(pattern, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "no parameter matches ", Quoted(pattern), ", of which histograms are due",
      corrected.empty()
          ? ""
          : DetailLine("help",
                       absl::StrCat("is it ", Quoted(corrected), "?"))));
}

}  // namespace

absl::StatusOr<std::vector<int>> ParametersThatMatch(
    const Graph& graph, const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  std::vector<int> ids;
  for (const VariableInfo& info : graph.variables()) {
    if (info.kind != VariableKind::kParameter || info.master_of >= 0 ||
        !IsFloat(info.dtype)) {
      continue;
    }
    names.push_back(info.name);
    if (patterns.empty() || std::any_of(patterns.begin(), patterns.end(),
                                        [&](const std::string& pattern) {
                                          return ScopeMatches(pattern,
                                                              info.name);
                                        })) {
      ids.push_back(info.id);
    }
  }
  for (const std::string& pattern : patterns) {
    MTF_RETURN_IF_ERROR(CheckPattern(pattern, names));
  }
  return ids;
}

absl::StatusOr<std::vector<VariableHistogram>> HistogramsOfVariables(
    Session& session, const std::vector<int>& ids) {
  const absl::StatusOr<std::vector<double>> mine = CountShards(session, ids);
  MTF_RETURN_IF_ERROR(session.Agree(mine.status()));
  std::string bytes(mine->size() * sizeof(double), '\0');
  if (!bytes.empty()) std::memcpy(bytes.data(), mine->data(), bytes.size());
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                       session.GatherText(bytes));
  std::map<int, VariableHistogram> by_id;
  for (const std::string& each : all) {
    std::vector<double> numbers(each.size() / sizeof(double));
    if (!each.empty()) std::memcpy(numbers.data(), each.data(), each.size());
    AddCounts(numbers, by_id);
  }
  std::vector<VariableHistogram> histograms;
  for (const int id : ids) {
    histograms.push_back(std::move(by_id[id]));
    histograms.back().name = session.graph().variables()[id].name;
  }
  return histograms;
}

}  // namespace mtf::train
