// SPDX-License-Identifier: Apache-2.0
//
// The work of a step, independent of the layout: input of SearchBounds.
#ifndef PLANNING_SEARCH_WORKLOAD_SUMMARY_H_
#define PLANNING_SEARCH_WORKLOAD_SUMMARY_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/search/search_layouts.h"
#include "planning/search/search_space.h"
#include "planning/search/search_step.h"

namespace mtf::internal {

// Dimensions as indices in SearchDimensions::names, or -1 for one that is not
// searched, with their sizes; ascending.
using Sizes = std::vector<std::pair<int, int64_t>>;
// The set of these dimensions.
DimSet DimsOf(const Sizes& sizes);
// A matmul: the dimensions of its batch, m, n and k.
using Matmul = std::tuple<DType, Sizes, Sizes, Sizes, Sizes>;
// Bytes of values by their dimensions.
using Amount = std::map<Sizes, double>;

struct WorkloadSummary {
  std::map<Matmul, double> matmuls;  // how many
  // Bytes that kernels read and write; those of the update, and of the size of
  // a parameter, apart.
  Amount maps, update_maps, parameter_maps;
  double kernels = 0;  // how many
  Amount parameters, states;
  // At the peak of memory, which is between forward and backward pass: values
  // computed before it and read after it.
  Amount saved;
  // Parameters that are read before and after the peak, in the narrowest dtype
  // that they are read in: also in memory there if gathered parameters are
  // kept.
  Amount kept;
};

// Summarizes a program that was lowered and planned for one device. Of fused
// attention only inputs and outputs count, because a layout may leave it fused.
WorkloadSummary SummarizeProgram(const SearchStep& step, const Program& program,
                                 const MachinePlan& plan,
                                 const std::vector<std::string>& dimensions);

// Summarizes the whole step; a deep one by a line through its few layers, since
// each layer adds the same.
absl::StatusOr<WorkloadSummary> SummarizeStep(
    const SearchStep& step, const std::vector<std::string>& dimensions,
    const SearchPrices& prices = {});

// Extrapolates values that grow linearly with the number of layers.
template <class Key>
std::map<Key, double> InLine(const std::map<Key, double>& low,
                             const std::map<Key, double>& high, double place) {
  std::map<Key, double> result;
  for (const auto& [key, amount] : low) result[key] = (1 - place) * amount;
  for (const auto& [key, amount] : high) result[key] += place * amount;
  return result;
}

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_WORKLOAD_SUMMARY_H_
