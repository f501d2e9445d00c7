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
// Bytes of values, by their dimensions.
using BytesByDims = std::map<Sizes, double>;

struct WorkloadSummary {
  std::map<Matmul, double> matmuls;  // and their number
  // Bytes that elementwise kernels read and write: those of the update, those
  // of other tensors with the dimensions of a parameter, and all others
  // (`maps`).
  BytesByDims maps, update_maps, parameter_maps;
  double kernels = 0;  // number of elementwise kernels
  BytesByDims parameters, states;
  // Values that are live at the peak of memory, which is between the forward
  // and the backward pass: computed before it and read after it.
  BytesByDims saved;
  // Parameters that are read both before and after the peak, in the narrowest
  // dtype in which they are read. They are live at the peak too if gathered
  // parameters are kept.
  BytesByDims kept;
};

// Summarizes a program that was lowered and planned for one device. Only the
// inputs and outputs of fused attention count, because a layout may leave it
// fused.
WorkloadSummary SummarizeProgram(const SearchStep& step, const Program& program,
                                 const std::vector<std::string>& dimensions);

// Summarizes the step. A deep step is extrapolated linearly from two programs
// with few layers, since each layer adds the same.
absl::StatusOr<WorkloadSummary> SummarizeStep(
    const SearchStep& step, const std::vector<std::string>& dimensions,
    const SearchPrices& prices = {});

// Extrapolates values that grow linearly with the number of layers to
// `position` on the line through `low` (0) and `high` (1).
template <class Key>
std::map<Key, double> Extrapolate(const std::map<Key, double>& low,
                                  const std::map<Key, double>& high,
                                  double position) {
  std::map<Key, double> result;
  for (const auto& [key, value] : low) result[key] = (1 - position) * value;
  for (const auto& [key, value] : high) result[key] += position * value;
  return result;
}

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_WORKLOAD_SUMMARY_H_
