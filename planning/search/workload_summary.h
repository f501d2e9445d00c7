// SPDX-License-Identifier: Apache-2.0
//
// What a step consists of, whatever the layout: the bounds of a search are
// made of it (planning/search/search_bounds.h).
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

// Dimensions with their sizes, as places in SearchDimensions::names, or -1 for
// one that is not searched; ascending.
using Sizes = std::vector<std::pair<int, int64_t>>;
// The places among them.
DimSet DimsOf(const Sizes& sizes);
// A product of matrices: what its batch, m, n and k are made of.
using Matmul = std::tuple<DType, Sizes, Sizes, Sizes, Sizes>;
// Bytes of values, or a number of things, by what can cut them.
using Amount = std::map<Sizes, double>;

struct WorkloadSummary {
  std::map<Matmul, double> matmuls;  // how many
  // Bytes that kernels read and write; those of the update, and of the size of
  // a parameter, apart.
  Amount maps, update_maps, parameter_maps;
  double kernels = 0;  // how many
  Amount parameters, states;
  // Where the step holds most: values made before and read behind. That place
  // is between forward and backward.
  Amount saved;
  // Parameters that are read before that place and behind it, in the narrowest
  // dtype that they are read in: held there besides, where they are gathered
  // and kept.
  Amount kept;
};

// Of a program that was lowered on one device and planned so. Of attention that
// its plan fuses only what goes in and out counts: a layout may leave it fused.
WorkloadSummary SummarizeProgram(const SearchStep& step, const Program& program,
                                 const MachinePlan& plan,
                                 const std::vector<std::string>& dimensions);

// Of the whole step. That of a deep one follows from its few layers: an amount
// grows by the same with every layer.
absl::StatusOr<WorkloadSummary> SummarizeStep(
    const SearchStep& step, const std::vector<std::string>& dimensions,
    const SearchPrices& prices = {});

// What grows by a line with the number of repeats, from two of them.
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
