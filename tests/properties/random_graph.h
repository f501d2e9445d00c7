// SPDX-License-Identifier: Apache-2.0
//
// A graph that grows by draws from a seed: the values so far, and what picks
// among them. random_operations.h adds to it.
#ifndef TESTS_PROPERTIES_RANDOM_GRAPH_H_
#define TESTS_PROPERTIES_RANDOM_GRAPH_H_

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "mtf/graph.h"
#include "mtf/host_tensor.h"

namespace mtf::testing {

// Programs stay small enough to run hundreds of them.
inline constexpr int64_t kMostElements = 3000;
inline constexpr int kMostRank = 4;

class RandomGraph {
 public:
  // Draws the sizes of the dimensions. Both must outlive this.
  RandomGraph(uint64_t seed, Graph& graph,
              std::map<std::string, HostTensor>& feeds);

  Graph& graph() { return graph_; }
  std::mt19937_64& random() { return random_; }
  // Names of dimensions with their sizes; some names are of one size.
  const std::map<std::string, int64_t>& sizes() const { return sizes_; }
  std::map<std::string, HostTensor>& feeds() { return feeds_; }
  const std::vector<Tensor>& values() const { return values_; }
  // Those that are equal in float and in double.
  const std::vector<Tensor>& exact() const { return exact_; }

  int Int(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }
  bool Chance(double p) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < p;
  }
  template <class T>
  const T& Pick(const std::vector<T>& from) {
    return from[Int(0, static_cast<int>(from.size()) - 1)];
  }

  // A value, late ones more often, so that chains grow.
  Tensor Any();
  // A value that can meet `x`; `x` itself if none is found.
  Tensor Partner(Tensor x);
  Shape RandomShape(int most_rank);
  Shape Shuffled(const Shape& shape);
  // Each dimension of `shape` with probability `keep`.
  Shape Subset(const Shape& shape, double keep);
  // Multiples of 1/64 in [-1, 1]: exact in every float.
  std::vector<double> Numbers(int64_t n);

  // Makes `tensor` one of the values, unless it is none or too large.
  void Keep(Tensor tensor, bool exact = false);

 private:
  std::mt19937_64 random_;
  Graph& graph_;
  std::map<std::string, HostTensor>& feeds_;
  std::map<std::string, int64_t> sizes_;
  std::vector<Tensor> values_;
  std::vector<Tensor> exact_;
};

// Two tensors may meet where every shared name has one size.
bool CanMeet(Tensor x, Tensor y);
Shape Union(const Shape& x, const Shape& y);

}  // namespace mtf::testing

#endif  // TESTS_PROPERTIES_RANDOM_GRAPH_H_
