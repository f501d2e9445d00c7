// SPDX-License-Identifier: Apache-2.0
#include "tests/properties/random_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtf::testing {

RandomGraph::RandomGraph(uint64_t seed, Graph& graph,
                         std::map<std::string, HostTensor>& feeds)
    : random_(seed), graph_(graph), feeds_(feeds) {
  for (const char* name : {"a", "b", "c", "d"}) {
    sizes_[name] = Int(1, 13);
  }
  // A second and a third name of the same size, for renames.
  for (const char* name : {"a", "b", "c"}) {
    sizes_[absl::StrCat(name, 2)] = sizes_[name];
  }
}

Tensor RandomGraph::Any() {
  if (Chance(0.5)) {
    const int n = static_cast<int>(values_.size());
    return values_[Int(std::max(0, n - 3), n - 1)];
  }
  return Pick(values_);
}

Tensor RandomGraph::Partner(Tensor x) {
  for (int tries = 0; tries < 8; ++tries) {
    Tensor y = Any();
    if (CanCombine(x, y) &&
        Union(x.shape(), y.shape()).num_elements() <= kMostElements &&
        Union(x.shape(), y.shape()).rank() <= kMostRank + 1) {
      return y;
    }
  }
  return x;
}

Shape RandomGraph::RandomShape(int most_rank) {
  std::vector<std::string> names;
  for (const auto& [name, size] : sizes_) names.push_back(name);
  std::shuffle(names.begin(), names.end(), random_);
  Shape shape;
  const int rank = Int(0, most_rank);
  for (const std::string& name : names) {
    if (shape.rank() == rank) break;
    if (shape.num_elements() * sizes_[name] > kMostElements / 4) continue;
    shape = shape.With({name, sizes_[name]});
  }
  return shape;
}

Shape RandomGraph::Shuffled(const Shape& shape) {
  std::vector<Dimension> dims = shape.dims();
  if (Chance(0.5)) std::shuffle(dims.begin(), dims.end(), random_);
  return Shape(dims);
}

Shape RandomGraph::Subset(const Shape& shape, double keep) {
  Shape subset;
  for (const Dimension& dim : Shuffled(shape)) {
    if (Chance(keep)) subset = subset.With(dim);
  }
  return subset;
}

std::vector<double> RandomGraph::Numbers(int64_t n) {
  std::vector<double> numbers(n);
  for (double& number : numbers) number = Int(-64, 64) / 64.0;
  return numbers;
}

void RandomGraph::Keep(Tensor tensor, bool exact) {
  if (!tensor.valid()) return;
  if (tensor.shape().num_elements() > kMostElements ||
      tensor.shape().num_elements() == 0 || tensor.shape().rank() > kMostRank) {
    return;
  }
  values_.push_back(tensor);
  if (exact) exact_.push_back(tensor);
}

bool CanCombine(Tensor x, Tensor y) {
  for (const Dimension& dim : x.shape()) {
    const int i = y.shape().Find(dim.name);
    if (i >= 0 && y.shape()[i].size != dim.size) return false;
  }
  return true;
}

Shape Union(const Shape& x, const Shape& y) {
  Shape both = x;
  for (const Dimension& dim : y) {
    if (!both.Contains(dim.name)) both = both.With(dim);
  }
  return both;
}

}  // namespace mtf::testing
