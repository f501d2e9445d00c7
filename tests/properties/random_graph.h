// SPDX-License-Identifier: Apache-2.0
//
// A random graph under construction: its values so far, and random choices
// among them. random_operations.h adds operations.
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

// Limits that keep programs small enough to run hundreds of them.
inline constexpr int64_t kMostElements = 3000;
inline constexpr int kMostRank = 4;

class RandomGraph {
 public:
  // Draws the sizes of the dimensions. Both arguments must outlive this object.
  RandomGraph(uint64_t seed, Graph& graph,
              std::map<std::string, HostTensor>& feeds);

  Graph& graph() { return graph_; }
  std::mt19937_64& random() { return random_; }
  // The dimensions; some names have equal sizes.
  const std::map<std::string, int64_t>& sizes() const { return sizes_; }
  std::map<std::string, HostTensor>& feeds() { return feeds_; }
  const std::vector<Tensor>& values() const { return values_; }
  // The values that are equal in float and double.
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

  // A random value, more often a recent one, so that chains grow.
  Tensor Any();
  // A value that can be combined with `x`; `x` itself if none is found.
  Tensor Partner(Tensor x);
  Shape RandomShape(int most_rank);
  Shape Shuffled(const Shape& shape);
  // A subset of the dimensions of `shape`, each with probability `keep`.
  Shape Subset(const Shape& shape, double keep);
  // Multiples of 1/64 in [-1, 1]: exact in every float.
  std::vector<double> Numbers(int64_t n);

  // Adds `tensor` to the values, unless it is invalid or too large.
  void Keep(Tensor tensor, bool exact = false);

 private:
  std::mt19937_64 random_;
  Graph& graph_;
  std::map<std::string, HostTensor>& feeds_;
  std::map<std::string, int64_t> sizes_;
  std::vector<Tensor> values_;
  std::vector<Tensor> exact_;
};

// Whether every dimension name that both tensors have has the same size.
bool CanCombine(Tensor x, Tensor y);
Shape Union(const Shape& x, const Shape& y);

}  // namespace mtf::testing

#endif  // TESTS_PROPERTIES_RANDOM_GRAPH_H_
