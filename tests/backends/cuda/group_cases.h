// SPDX-License-Identifier: Apache-2.0
//
// Graphs whose instructions the CUDA device runs as groups.
#ifndef TESTS_BACKENDS_CUDA_GROUP_CASES_H_
#define TESTS_BACKENDS_CUDA_GROUP_CASES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "lowering/program/program.h"
#include "mtf/graph.h"
#include "mtf/host_tensor.h"
#include "mtf/tensor.h"

namespace mtf::cuda {

// A graph over `rows` x `columns` numbers of `dtype`, and its fetches.
struct RowsCase {
  const char* name;
  std::function<std::vector<Tensor>(Graph& graph, Dimension rows,
                                    Dimension columns, DType dtype)>
      build;
  // The last fetch is an update.
  bool updates = false;
  // The memory of operands of maps of 16-bit floats may be reused, so that the
  // maps run one by one.
  bool may_stay_single = false;
  friend std::ostream& operator<<(std::ostream& out, const RowsCase& c) {
    return out << c.name;
  }
};

// Batches of maps, and rows of a tensor with their sums.
absl::Span<const RowsCase> RowsCases();

// [rows, in] x [in, out] -> [rows, out] in `dtype`, followed by some maps.
struct MatmulCase {
  const char* name;
  std::function<std::vector<Tensor>(Tensor y, Tensor residual, Tensor bias)>
      finish;
  const char* groups;
  const char* groups_of_16_bits = groups;
  friend std::ostream& operator<<(std::ostream& out, const MatmulCase& c) {
    return out << c.name;
  }
};

// Matmuls with epilogues.
absl::Span<const MatmulCase> MatmulCases();

// Random numbers for every input; small integers for those of integers.
std::map<std::string, HostTensor> RandomFeeds(const Program& program);

}  // namespace mtf::cuda

#endif  // TESTS_BACKENDS_CUDA_GROUP_CASES_H_
