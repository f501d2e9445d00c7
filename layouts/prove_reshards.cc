// SPDX-License-Identifier: Apache-2.0
#include "layouts/prove_reshards.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/construct_reshard.h"
#include "layouts/layout_pairs.h"
#include "layouts/shard.h"
#include "layouts/simulate_reshard.h"
#include "mtf/status.h"

namespace mtf {
namespace {

using internal::LocalTensor;
using internal::SimulatedMesh;

constexpr int64_t kGarbage = int64_t{-1} << 40;

// The shards of a value on all ranks during a reshard. Element e is the sum of
// one summand (e + 1) * weight(u) for each combination of coordinates u along
// the unreduced axes of the source. No weight is a sum of others, so a wrong
// choice of summands or of elements gives a wrong sum.
class ReshardedValue {
 public:
  ReshardedValue(const Grains& grains, const Shape& shape,
                 const TensorLayout& source)
      : grains_(grains),
        shape_(shape),
        source_(source),
        ranks_(grains.mesh()),
        shards_(ranks_.num_ranks()) {
    const std::vector<int64_t> weights = WeightsOf(source);
    const AxisList open = ListOf(source.unreduced);
    for (int rank = 0; rank < ranks_.num_ranks(); ++rank) {
      LocalTensor& local = shards_[rank];
      const int64_t weight = weights[ranks_.Index(rank, open)];
      ForEachElement(source, rank, [&](int64_t element) {
        local.data.push_back(element < 0 ? kGarbage - rank
                                         : (element + 1) * weight);
      });
      for (int i = 0; i < shape.rank(); ++i) {
        local.extents.push_back(Extent(source, i));
      }
    }
  }

  absl::Status Run(const ReshardStep& step, const TensorLayout& before) {
    MTF_ASSIGN_OR_RETURN(shards_, ranks_.Run(step, before, shards_));
    return absl::OkStatus();
  }

  // "" if every rank holds its shard under `layout`, else what is wrong.
  std::string WrongIn(const TensorLayout& layout) {
    const std::vector<int64_t> weights = WeightsOf(layout);
    const AxisList open = ListOf(layout.unreduced);
    for (int rank = 0; rank < ranks_.num_ranks(); ++rank) {
      const LocalTensor& local = shards_[rank];
      for (int i = 0; i < shape_.rank(); ++i) {
        if (local.extents[i] != Extent(layout, i)) return "wrong extents";
      }
      const int64_t weight = weights[ranks_.Index(rank, open)];
      size_t index = 0;
      std::string wrong;
      ForEachElement(layout, rank, [&](int64_t element) {
        const int64_t value = local.data[index++];
        if (element < 0 || !wrong.empty()) return;
        const int64_t expected = (element + 1) * weight;
        if (value == expected) return;
        wrong = absl::StrCat("element ", element, " of rank ", rank, " is ",
                             value, " and not ", expected);
      });
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  int64_t Extent(const TensorLayout& layout, int dim) const {
    int64_t grain = 1, shards = 1;
    for (int axis : ListOf(grains_.AxesOf(shape_[dim].name))) {
      grain *= grains_.mesh().axis_size(axis);
    }
    for (int axis : layout.dims[dim]) shards *= grains_.mesh().axis_size(axis);
    int64_t padded = 0;
    while (padded < shape_[dim].size) padded += grain;
    return padded / shards;
  }

  // Calls visit(element) for each element of the rank's shard in order, with
  // its global row-major index, or -1 for padding.
  template <class Visit>
  void ForEachElement(const TensorLayout& layout, int rank, Visit visit) const {
    std::vector<int64_t> begin(shape_.rank()), extent(shape_.rank());
    for (int i = 0; i < shape_.rank(); ++i) {
      extent[i] = Extent(layout, i);
      begin[i] = ranks_.Index(rank, layout.dims[i]) * extent[i];
    }
    const auto walk = [&](const auto& self, int dim, int64_t element) -> void {
      if (dim == shape_.rank()) return visit(element);
      for (int64_t i = 0; i < extent[dim]; ++i) {
        const int64_t at = begin[dim] + i;
        const bool valid = element >= 0 && at < shape_[dim].size;
        self(self, dim + 1, valid ? element * shape_[dim].size + at : -1);
      }
    };
    walk(walk, 0, 0);
  }

  // Few summands each get a hexadecimal digit of their own; many get a
  // pseudorandom number below 2^24, so that sums stay exact.
  int64_t SummandWeight(int64_t u, int64_t summands) const {
    if (summands <= 8) return int64_t{1} << 4 * u;
    uint64_t x = static_cast<uint64_t>(u + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<int64_t>((x ^ (x >> 31)) >> 40);
  }

  // By coordinate along the unreduced axes of `layout`, the value of element 0:
  // the sum of the weights over the axes that `layout` has reduced.
  std::vector<int64_t> WeightsOf(const TensorLayout& layout) {
    const AxisList summed = ListOf(source_.unreduced);
    const AxisList open = ListOf(layout.unreduced);
    std::vector<int64_t> weights(grains_.mesh().SizeOf(open), 0);
    const std::vector<int>& group = ranks_.GroupOf(0, summed);
    for (int rank : group) {
      weights[ranks_.Index(rank, open)] += SummandWeight(
          ranks_.Index(rank, summed), static_cast<int64_t>(group.size()));
    }
    return weights;
  }

  const Grains& grains_;
  const Shape& shape_;
  const TensorLayout& source_;
  SimulatedMesh ranks_;
  std::vector<LocalTensor> shards_;
};

std::string Describe(const Grains& grains, const Shape& shape,
                     const TensorLayout& source,
                     const std::vector<ReshardStep>& path) {
  std::string text = LayoutText(grains.mesh(), shape, source);
  for (const ReshardStep& step : path) {
    absl::StrAppend(&text, "\n  ", CollectiveName(step.kind), " over ",
                    grains.mesh().AxisNames(step.axes), " -> ",
                    LayoutText(grains.mesh(), shape, step.layout));
  }
  return text;
}

// A shape for case `number`. Over all cases every size of 1 to 13 occurs; most
// do not divide.
Shape ShapeOf(int dimensions, int64_t number) {
  constexpr const char* kNames[] = {"a", "b", "c"};
  std::vector<Dimension> dims;
  for (int i = 0; i < dimensions; ++i) {
    dims.push_back({kNames[i], 1 + number % 13});
    number = number * 5 / 3 + 7;
  }
  return Shape(dims);
}

// With `all`, dimensions may use every axis of the mesh, so that the search has
// the most choices and the padding is largest; otherwise only the axes that the
// two layouts use.
Grains GrainsOf(const Mesh& mesh, const Shape& shape,
                const TensorLayout& source, const TensorLayout& target,
                bool all) {
  Grains grains(mesh);
  for (int i = 0; i < shape.rank(); ++i) {
    grains.Allow(shape[i].name,
                 all ? (AxisSet{1} << mesh.num_axes()) - 1
                     : SetOf(source.dims[i]) | SetOf(target.dims[i]));
  }
  return grains;
}

// The mesh without its axes of size 1, which occur in no layout
// (ResolvedRules).
Mesh WithoutUnitAxes(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size > 1) axes.push_back(absl::StrCat(axis.name, ":", axis.size));
  }
  return axes.empty() ? Mesh() : *Mesh::Parse(absl::StrJoin(axes, ","));
}

// Shard elements of all ranks together, at the larger end of a path.
double TotalElements(const Grains& grains, const Shape& shape,
                     const TensorLayout& source, const TensorLayout& target) {
  return static_cast<double>(grains.mesh().num_devices()) *
         static_cast<double>(std::max(LocalElements(grains, shape, source),
                                      LocalElements(grains, shape, target)));
}

// Proves the planned path, and the constructed one, which PlanReshard may
// return on meshes of many axes.
absl::Status ProveBoth(const Grains& grains, const Shape& shape,
                       const TensorLayout& source, const TensorLayout& target) {
  const std::vector<ReshardStep> path =
      PlanReshard(grains, shape, source, target);
  MTF_RETURN_IF_ERROR(ProveReshard(grains, shape, source, target, path));
  const std::vector<ReshardStep> constructed =
      internal::ConstructReshard(source, target);
  if (constructed == path) return absl::OkStatus();
  return ProveReshard(grains, shape, source, target, constructed);
}

}  // namespace

absl::Status ProveReshard(const Grains& grains, const Shape& shape,
                          const TensorLayout& source,
                          const TensorLayout& target,
                          const std::vector<ReshardStep>& path) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InternalError(
        absl::StrCat("a reshard is wrong: ", what, "\n  ",
                     Describe(grains, shape, source, path)));
  };
  ReshardedValue value(grains, shape, source);
  const int64_t limit = std::max(LocalElements(grains, shape, source),
                                 LocalElements(grains, shape, target));
  TensorLayout layout = source;
  for (const ReshardStep& step : path) {
    if (!step.layout.IsLegal()) return wrong("an axis is used twice");
    if (LocalElements(grains, shape, step.layout) > limit) {
      return wrong("a step takes more memory than both ends");
    }
    const absl::Status status = value.Run(step, layout);
    if (!status.ok()) return wrong(status.message());
    layout = step.layout;
    const std::string difference = value.WrongIn(layout);
    if (!difference.empty()) return wrong(difference);
  }
  if (!(layout == target)) return wrong("it ends in another layout");
  const std::vector<ReshardStep> naive =
      PlanNaiveReshard(grains, shape, source, target);
  if (PathBytes(grains, shape, source, path, 4) >
      PathBytes(grains, shape, source, naive, 4)) {
    return wrong("it sends more bytes than gathering and slicing");
  }
  return absl::OkStatus();
}

absl::StatusOr<ReshardProof> ProveReshards(const Mesh& mesh_with_units,
                                           int dimensions,
                                           const ProveOptions& options) {
  if (dimensions < 1 || dimensions > 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reshards are proved for one to three dimensions, not ", dimensions));
  }
  const auto begin = std::chrono::steady_clock::now();
  const Mesh mesh = WithoutUnitAxes(mesh_with_units);
  const internal::LayoutPairs pairs(mesh, dimensions);
  ReshardProof proof;
  proof.dimensions = dimensions;
  proof.pairs = pairs.size();
  // A stride that is coprime to the number of pairs visits all of them.
  int64_t stride = std::max<int64_t>(1, proof.pairs / 1000 * 618);
  while (std::gcd(stride, proof.pairs) != 1) ++stride;
  int64_t done = 0, at = 0;
  for (; done < proof.pairs; ++done, at = (at + stride) % proof.pairs) {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
    if (seconds > options.seconds) {
      proof.not_reached = proof.pairs - done;
      break;
    }
    if (options.progress && done % 64 == 0) {
      options.progress(done, proof.pairs);
    }
    const auto [source, target] = pairs.At(at);
    bool small = true;
    for (bool all_axes : {false, true}) {
      const Shape shape = ShapeOf(dimensions, 2 * at + all_axes);
      const Grains grains = GrainsOf(mesh, shape, source, target, all_axes);
      small = small && TotalElements(grains, shape, source, target) <=
                           static_cast<double>(options.most_elements);
    }
    if (!small) {
      ++proof.too_large;
      continue;
    }
    for (bool all_axes : {false, true}) {
      const Shape shape = ShapeOf(dimensions, 2 * at + all_axes);
      const Grains grains = GrainsOf(mesh, shape, source, target, all_axes);
      MTF_RETURN_IF_ERROR(ProveBoth(grains, shape, source, target));
    }
    ++proof.proved;
  }
  if (options.progress) options.progress(done, proof.pairs);
  return proof;
}

}  // namespace mtf
