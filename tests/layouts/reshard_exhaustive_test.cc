// SPDX-License-Identifier: Apache-2.0
//
// The promise that the ancestor broke: every reshard between any two layouts
// moves every element to its place. Proved by running each path on all ranks'
// data, for all pairs of layouts on small meshes.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "layouts/construct_reshard.h"
#include "layouts/reshard_path.h"
#include "layouts/shard.h"
#include "tests/layouts/all_layouts.h"
#include "tests/layouts/simulate_reshard.h"

namespace mtf {
namespace {

using ::mtf::testing::AllLayouts;
using ::mtf::testing::LocalTensor;
using ::mtf::testing::SimulatedMesh;

constexpr int64_t kGarbage = int64_t{-1} << 50;

struct ReshardCase {
  const char* mesh;
  int rank;

  std::string ToString() const {
    return absl::StrCat("mesh_",
                        absl::StrReplaceAll(mesh, {{":", ""}, {",", "_"}}), "_",
                        rank, rank == 1 ? "_dimension" : "_dimensions");
  }
};
std::ostream& operator<<(std::ostream& out, const ReshardCase& c) {
  return out << c.ToString();
}

// A value on all ranks: element e is the sum of one summand for each
// combination of coordinates u along the axes that the source leaves
// unreduced, (e + 1) * 16^u, so no wrong choice of summands or of elements
// gives a right sum.
class ReshardedValue {
 public:
  ReshardedValue(const Grains& grains, const Shape& shape,
                 const TensorLayout& source)
      : grains_(grains),
        shape_(shape),
        source_(source),
        ranks_(grains.mesh()),
        held_(ranks_.num_ranks()) {
    for (int rank = 0; rank < ranks_.num_ranks(); ++rank) {
      LocalTensor& local = held_[rank];
      ForEachPlace(source, rank, [&](int64_t element) {
        local.data.push_back(element < 0 ? kGarbage - rank
                                         : Expected(source, rank, element));
      });
      for (int i = 0; i < shape.rank(); ++i) {
        local.extents.push_back(Extent(source, i));
      }
    }
  }

  void Run(const ReshardStep& step, const TensorLayout& before) {
    held_ = ranks_.Run(step, before, held_);
  }

  // "" when every rank holds what `layout` says, else what is wrong.
  std::string WrongIn(const TensorLayout& layout) const {
    for (int rank = 0; rank < ranks_.num_ranks(); ++rank) {
      const LocalTensor& local = held_[rank];
      for (int i = 0; i < shape_.rank(); ++i) {
        if (local.extents[i] != Extent(layout, i)) return "wrong extents";
      }
      size_t place = 0;
      std::string wrong;
      ForEachPlace(layout, rank, [&](int64_t element) {
        const int64_t value = local.data[place++];
        if (element < 0 || !wrong.empty()) return;
        const int64_t expected = Expected(layout, rank, element);
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

  // Calls visit(element) with the global number of the element at each place
  // of the rank's shard in order, -1 for padding.
  template <class Visit>
  void ForEachPlace(const TensorLayout& layout, int rank, Visit visit) const {
    std::vector<int64_t> begin(shape_.rank()), extent(shape_.rank());
    for (int i = 0; i < shape_.rank(); ++i) {
      extent[i] = Extent(layout, i);
      begin[i] = ranks_.Place(rank, layout.dims[i]) * extent[i];
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

  // What `rank` should hold of `element`: the summands over the axes that
  // `layout` has reduced.
  int64_t Expected(const TensorLayout& layout, int rank,
                   int64_t element) const {
    const AxisList summed = ListOf(source_.unreduced);
    int64_t weights = 0;
    for (int other : ranks_.GroupOf(rank, summed)) {
      bool included = true;
      for (int axis : ListOf(layout.unreduced)) {
        included &= ranks_.At(other, axis) == ranks_.At(rank, axis);
      }
      if (included) weights += int64_t{1} << 4 * ranks_.Place(other, summed);
    }
    return (element + 1) * weights;
  }

  const Grains& grains_;
  const Shape& shape_;
  const TensorLayout& source_;
  SimulatedMesh ranks_;
  std::vector<LocalTensor> held_;
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

// Everything that must hold of a path from `source` to `target`.
void CheckPath(const Grains& grains, const Shape& shape,
               const TensorLayout& source, const TensorLayout& target,
               const std::vector<ReshardStep>& path) {
  SCOPED_TRACE(Describe(grains, shape, source, path));
  ReshardedValue value(grains, shape, source);
  const int64_t limit = std::max(LocalElements(grains, shape, source),
                                 LocalElements(grains, shape, target));
  TensorLayout layout = source;
  for (const ReshardStep& step : path) {
    ASSERT_TRUE(step.layout.IsLegal());
    ASSERT_LE(LocalElements(grains, shape, step.layout), limit);
    value.Run(step, layout);
    layout = step.layout;
    ASSERT_EQ(value.WrongIn(layout), "");
  }
  ASSERT_EQ(layout, target);
  const std::vector<ReshardStep> naive =
      PlanNaiveReshard(grains, shape, source, target);
  ASSERT_LE(PathBytes(grains, shape, source, path, 4),
            PathBytes(grains, shape, source, naive, 4));
}

void CheckReshard(const Grains& grains, const Shape& shape,
                  const TensorLayout& source, const TensorLayout& target) {
  const std::vector<ReshardStep> path =
      PlanReshard(grains, shape, source, target);
  CheckPath(grains, shape, source, target, path);
  // What the search starts from must be right too: on meshes of many axes it
  // is the answer.
  const std::vector<ReshardStep> constructed =
      internal::ConstructReshard(source, target);
  if (constructed != path) {
    CheckPath(grains, shape, source, target, constructed);
  }
}

class ReshardPairs : public ::testing::TestWithParam<ReshardCase> {
 protected:
  ReshardPairs() : mesh_(*Mesh::Parse(GetParam().mesh)) {}

  // A shape for the case's `number`, so that each size of 1 to 13 occurs and
  // most do not divide.
  Shape ShapeOf(int number) const {
    constexpr const char* kNames[] = {"a", "b", "c"};
    std::vector<Dimension> dims;
    for (int i = 0; i < GetParam().rank; ++i) {
      dims.push_back({kNames[i], 1 + number % 13});
      number = number * 5 / 3 + 7;
    }
    return Shape(dims);
  }

  // Either the dimensions may use every axis of the mesh, so that the search
  // has the widest choice and the padding is largest, or only those that the
  // two layouts use.
  Grains GrainsOf(const Shape& shape, const TensorLayout& source,
                  const TensorLayout& target, bool all) const {
    Grains grains(mesh_);
    for (int i = 0; i < shape.rank(); ++i) {
      grains.Allow(shape[i].name,
                   all ? (AxisSet{1} << mesh_.num_axes()) - 1
                       : SetOf(source.dims[i]) | SetOf(target.dims[i]));
    }
    return grains;
  }

  Mesh mesh_;
};

TEST_P(ReshardPairs, EveryPairOfLayoutsMovesEveryElementToItsPlace) {
  const std::vector<TensorLayout> targets =
      AllLayouts(mesh_, GetParam().rank, /*unreduced=*/false);
  int pairs = 0;
  for (const TensorLayout& source :
       AllLayouts(mesh_, GetParam().rank, /*unreduced=*/true)) {
    for (const TensorLayout& target : targets) {
      for (bool all_axes : {false, true}) {
        const Shape shape = ShapeOf(2 * pairs + all_axes);
        const Grains grains = GrainsOf(shape, source, target, all_axes);
        CheckReshard(grains, shape, source, target);
        if (HasFatalFailure()) return;
      }
      ++pairs;
    }
  }
  RecordProperty("pairs", pairs);
}

TEST_P(ReshardPairs, SomeAxesCanStayUnreduced) {
  const std::vector<TensorLayout> layouts =
      AllLayouts(mesh_, GetParam().rank, /*unreduced=*/true);
  int pairs = 0;
  for (const TensorLayout& source : layouts) {
    if (source.unreduced == 0) continue;
    for (const TensorLayout& target : layouts) {
      if (target.unreduced == 0) continue;
      if ((target.unreduced & ~source.unreduced) != 0) continue;
      for (bool all_axes : {false, true}) {
        const Shape shape = ShapeOf(2 * pairs + all_axes);
        const Grains grains = GrainsOf(shape, source, target, all_axes);
        CheckReshard(grains, shape, source, target);
        if (HasFatalFailure()) return;
      }
      ++pairs;
    }
  }
  RecordProperty("pairs", pairs);
}

// The ancestor's defect: it slices by "rows" before it gathers "cols", and the
// values come out as 0 2 4 6 1 3 5 7.
TEST(Reshard, RenameFromColsToRowsKeepsTheOrderThatTheAncestorPermutes) {
  const Mesh mesh = *Mesh::Parse("rows:2,cols:4");
  const Shape shape = {{"a2", 8}};
  Grains grains(mesh);
  grains.Allow("a", 0b10);
  grains.Allow("a2", 0b01);
  grains.Tie("a", "a2");
  TensorLayout source = TensorLayout::Replicated(1);
  source.dims[0] = {1};
  TensorLayout target = TensorLayout::Replicated(1);
  target.dims[0] = {0};

  const SimulatedMesh ranks(mesh);
  std::vector<LocalTensor> held;
  for (int rank = 0; rank < 8; ++rank) {
    const int64_t first = rank % 4 * 2;
    held.push_back({{2}, {first, first + 1}});
  }
  TensorLayout layout = source;
  for (const ReshardStep& step : PlanReshard(grains, shape, source, target)) {
    held = ranks.Run(step, layout, held);
    layout = step.layout;
  }
  EXPECT_EQ(layout, target);
  for (int rank = 0; rank < 8; ++rank) {
    const int64_t first = rank / 4 * 4;
    EXPECT_EQ(held[rank].data,
              (std::vector<int64_t>{first, first + 1, first + 2, first + 3}))
        << "rank " << rank;
  }
}

std::vector<ReshardCase> AllCases() {
  std::vector<ReshardCase> cases;
  for (const char* mesh :
       {"x:2", "x:3", "x:4", "x:2,y:2", "x:2,y:3", "x:2,y:4", "x:2,y:2,z:2"}) {
    for (int rank : {1, 2, 3}) cases.push_back({mesh, rank});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Exhaustive, ReshardPairs,
                         ::testing::ValuesIn(AllCases()), [](const auto& info) {
                           return info.param.ToString();
                         });

}  // namespace
}  // namespace mtf
