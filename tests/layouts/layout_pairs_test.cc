// SPDX-License-Identifier: Apache-2.0
#include "layouts/layout_pairs.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "layouts/all_layouts.h"

namespace mtf {
namespace {

using ::mtf::internal::AllLayouts;
using ::mtf::internal::LayoutPairs;

TEST(LayoutPairs, AreAllPairsOfLayoutsOnce) {
  for (const char* text : {"x:2", "x:2,y:3", "x:2,y:2,z:2"}) {
    const Mesh mesh = *Mesh::Parse(text);
    for (int rank : {1, 2}) {
      const Shape shape(rank == 1 ? std::vector<Dimension>{{"a", 8}}
                                  : std::vector<Dimension>{{"a", 8}, {"b", 8}});
      const auto text_of = [&](const TensorLayout& source,
                               const TensorLayout& target) {
        return absl::StrCat(LayoutText(mesh, shape, source), " to ",
                            LayoutText(mesh, shape, target));
      };
      std::set<std::string> expected;
      const auto layouts = AllLayouts(mesh, rank, /*unreduced=*/true);
      for (const TensorLayout& source : layouts) {
        for (const TensorLayout& target : layouts) {
          if ((target.unreduced & ~source.unreduced) != 0) continue;
          expected.insert(text_of(source, target));
        }
      }
      const LayoutPairs pairs(mesh, rank);
      std::set<std::string> found;
      for (int64_t i = 0; i < pairs.size(); ++i) {
        const auto [source, target] = pairs.At(i);
        found.insert(text_of(source, target));
      }
      EXPECT_EQ(pairs.size(), static_cast<int64_t>(expected.size()));
      EXPECT_EQ(found, expected) << text << ", " << rank << " dimensions";
    }
  }
}

TEST(LayoutPairs, EightAxesHaveLayoutsThatAreLegal) {
  const LayoutPairs pairs(*Mesh::Parse("a:2,b:2,c:2,d:2,e:2,f:2,g:2,h:2"), 3);
  EXPECT_GT(pairs.size(), int64_t{1} << 40);
  for (int64_t i = 0; i < 1000; ++i) {
    const auto [source, target] = pairs.At(pairs.size() / 1000 * i);
    EXPECT_TRUE(source.IsLegal());
    EXPECT_TRUE(target.IsLegal());
  }
}

}  // namespace
}  // namespace mtf
