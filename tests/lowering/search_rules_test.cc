// SPDX-License-Identifier: Apache-2.0
//
// The search finds the best layout there is. What there is, is listed here a
// second time, by trying everything: every set of rules over the dimensions,
// of which those that do not lower fall out.
#include "lowering/search_rules.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/shard.h"
#include "lowering/count_costs.h"
#include "lowering/estimate_time.h"
#include "lowering/search_bounds.h"
#include "lowering/search_space.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::BuildTransformer;
using ::mtf::testing::TransformerSizes;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A price that needs no machine: a second for each byte sent, and one for each
// multiplication of an einsum.
StepPrice SimplePrice(const Program& program) {
  StepPrice price;
  for (const auto& [key, count] : CountCollectives(program)) {
    price.exposed += static_cast<double>(count.second) + 10.0 * count.first;
  }
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::kEinsum) {
      price.compute += static_cast<double>(instruction.einsum.flops()) / 8;
    }
  }
  price.seconds = price.compute + price.exposed;
  return price;
}

int64_t MemoryOf(const Program& program) {
  int64_t bytes = program.buffers.arena_bytes;
  for (const ProgramVariable& variable : program.variables) {
    bytes += LocalElements(program.grains, variable.shape, variable.layout) *
             DTypeSize(variable.dtype);
  }
  return bytes;
}

struct Listed {
  std::string text;
  double seconds = 0;
  int64_t memory = 0;
};

// Every layout of the documented space: for each dimension and section any
// ascending list of axes, where the scoped lists begin with the default one.
// Nothing is known here of which dimensions may share an axis.
class Everything {
 public:
  Everything(const Graph& graph, const Targets& targets, const Mesh& mesh,
             const SearchPrices& prices, std::vector<std::string> dimensions,
             bool sections)
      : graph_(graph),
        targets_(targets),
        mesh_(mesh),
        prices_(prices),
        dimensions_(std::move(dimensions)),
        sections_(sections) {
    sets_.assign(3, std::vector<int>(dimensions_.size(), 0));
    Choose(0, 0);
  }

  const std::vector<Listed>& all() const { return all_; }

  // The least seconds within the limit, or infinity.
  double Best(int64_t limit) const {
    double best = HUGE_VAL;
    for (const Listed& listed : all_) {
      if (limit <= 0 || listed.memory <= limit) {
        best = std::min(best, listed.seconds);
      }
    }
    return best;
  }
  int64_t Smallest() const {
    int64_t smallest = all_.front().memory;
    for (const Listed& listed : all_) {
      smallest = std::min(smallest, listed.memory);
    }
    return smallest;
  }

 private:
  std::string Axes(int set) const {
    std::vector<std::string> names;
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
      if (set >> axis & 1) names.push_back(mesh_.axes()[axis].name);
    }
    return absl::StrJoin(names, "+");
  }

  void Choose(size_t section, size_t dim) {
    if (dim == dimensions_.size()) {
      // A prefix that does not lower has no continuation that does.
      const std::string text = Text();
      if (section == 0 && !Lowers(text)) return;
      if (section + 1 == (sections_ ? 3 : 1)) return Add(text);
      return Choose(section + 1, 0);
    }
    for (int set = 0; set < 1 << mesh_.num_axes(); ++set) {
      if (section > 0 && (set & sets_[0][dim]) != 0) continue;
      sets_[section][dim] = set;
      Choose(section, dim + 1);
    }
    sets_[section][dim] = 0;
  }

  std::string Text() const {
    const char* names[] = {"", "[parameters]\n", "[optimizer]\n"};
    std::string text;
    for (int section = 0; section < 3; ++section) {
      std::string rules;
      for (size_t i = 0; i < dimensions_.size(); ++i) {
        if (sets_[section][i] == 0) continue;
        const std::string before = section == 0 ? "" : Axes(sets_[0][i]);
        absl::StrAppend(&rules, dimensions_[i], ":", before,
                        before.empty() ? "" : "+", Axes(sets_[section][i]),
                        "\n");
      }
      if (!rules.empty()) absl::StrAppend(&text, names[section], rules);
    }
    return text;
  }

  absl::StatusOr<Program> LowerIt(const std::string& text,
                                  const std::string& last) const {
    MTF_ASSIGN_OR_RETURN(const LayoutRules rules,
                         LayoutRules::Parse(text, "test"));
    MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                         BindLayout(graph_, mesh_, rules));
    return Lower(graph_, binding, targets_,
                 {.last_pass = last, .verify = false});
  }
  bool Lowers(const std::string& text) const {
    return LowerIt(text, "emit_program").ok();
  }
  void Add(const std::string& text) {
    const absl::StatusOr<Program> program = LowerIt(text, "");
    if (!program.ok()) return;
    all_.push_back({text, prices_.step(*program).seconds, MemoryOf(*program)});
  }

  const Graph& graph_;
  const Targets& targets_;
  const Mesh& mesh_;
  const SearchPrices& prices_;
  std::vector<std::string> dimensions_;
  bool sections_;
  std::vector<std::vector<int>> sets_;
  std::vector<Listed> all_;
};

struct SearchCase {
  const char* name;
  const char* mesh;
  std::vector<std::string> dimensions;
  bool sections;
  const char* machine;  // "" for SimplePrice
  TransformerSizes sizes = {.layers = 1};

  friend std::ostream& operator<<(std::ostream& out, const SearchCase& c) {
    return out << c.name;
  }
};

class Search : public ::testing::TestWithParam<SearchCase> {
 protected:
  Search() : mesh_(*Mesh::Parse(GetParam().mesh)) {
    const auto model = BuildTransformer(graph_, GetParam().sizes);
    targets_.fetches = {model.loss};
    targets_.updates = {model.step};
    if (GetParam().machine[0] == '\0') {
      prices_.step = SimplePrice;
    } else {
      prices_ = PricesOf(*Machine::Load(GetParam().machine));
    }
    options_.dimensions = GetParam().dimensions;
    options_.sections = GetParam().sections;
    options_.keep = 1;
    options_.full_space = 1e9;
  }

  Graph graph_;
  Targets targets_;
  Mesh mesh_;
  SearchPrices prices_;
  SearchOptions options_;
};

TEST_P(Search, FindsTheBestOfAllLayoutsUnderEveryMemoryLimit) {
  const Everything everything(graph_, targets_, mesh_, prices_,
                              options_.dimensions, options_.sections);
  ASSERT_GT(everything.all().size(), 1u);
  std::set<int64_t> sizes;
  for (const Listed& listed : everything.all()) sizes.insert(listed.memory);
  // No limit, the tightest that can be met, and some between.
  std::vector<int64_t> limits = {0, *sizes.begin()};
  for (int i = 1; i < 4; ++i) {
    limits.push_back(*std::next(sizes.begin(), sizes.size() * i / 5));
  }
  for (int64_t limit : limits) {
    SCOPED_TRACE(absl::StrCat("limit ", limit));
    options_.memory_limit = limit;
    const auto found =
        SearchRules({{&graph_, targets_}}, mesh_, prices_, options_);
    ASSERT_OK(found);
    EXPECT_TRUE(found->complete);
    EXPECT_FALSE(found->restricted);
    const double best = everything.Best(limit);
    EXPECT_NEAR(found->best[0].price.seconds, best, 1e-9 * best)
        << found->best[0].text;
    // What is claimed of the layout is what it costs.
    const auto program = [&]() -> absl::StatusOr<Program> {
      MTF_ASSIGN_OR_RETURN(
          const LayoutRules rules,
          LayoutRules::Parse(LayoutFileText(*found, 0, options_), "test"));
      MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                           BindLayout(graph_, mesh_, rules));
      return Lower(graph_, binding, targets_);
    }();
    ASSERT_OK(program);
    EXPECT_EQ(prices_.step(*program).seconds, found->best[0].price.seconds);
    EXPECT_EQ(MemoryOf(*program), found->best[0].memory_bytes());
  }
}

TEST_P(Search, SaysHowMuchTheSmallestTakesWhenNothingFits) {
  const Everything everything(graph_, targets_, mesh_, prices_,
                              options_.dimensions, options_.sections);
  options_.memory_limit = everything.Smallest() - 1;
  const auto found =
      SearchRules({{&graph_, targets_}}, mesh_, prices_, options_);
  EXPECT_THAT(found, testing::StatusIs(absl::StatusCode::kResourceExhausted,
                                       HasSubstr("no layout fits into")));
}

// Every bound is one: of every layout of the space.
TEST_P(Search, BoundsHoldForEveryLayout) {
  if (prices_.matmul == nullptr) GTEST_SKIP() << "no bounds without a machine";
  const auto space =
      internal::MakeSearchSpace({&graph_, targets_}, mesh_, options_);
  ASSERT_OK(space);
  const SearchInput input = {{&graph_, targets_}};
  const auto bounds = internal::SearchBounds::Make(input, *space, prices_);
  ASSERT_OK(bounds);
  internal::Roles roles(space->axes.size(), 0);
  for (;;) {
    const std::string text = RulesText(*space, roles);
    const auto rules = LayoutRules::Parse(text, "test");
    ASSERT_OK(rules);
    const auto binding = BindLayout(graph_, mesh_, *rules);
    ASSERT_OK(binding);
    const auto program = Lower(graph_, *binding, targets_, {.verify = false});
    ASSERT_OK(program) << text;
    std::vector<internal::DimSet> cuts;
    for (int role : roles) cuts.push_back(space->roles[role].cuts);
    const auto bound = bounds->Of(roles, bounds->ComputeSeconds(cuts));
    EXPECT_LE(bound.seconds, prices_.step(*program).seconds * (1 + 1e-9))
        << text;
    EXPECT_LE(bound.memory,
              static_cast<double>(MemoryOf(*program)) * (1 + 1e-9))
        << text;
    if (HasFailure()) return;
    size_t i = 0;
    while (i < roles.size() &&
           ++roles[i] == static_cast<int>(space->roles.size())) {
      roles[i++] = 0;
    }
    if (i == roles.size()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(
    SmallTransformer, Search,
    ::testing::ValuesIn(std::vector<SearchCase>{
        {"one_axis",
         "x:4",
         {"batch", "d_model", "heads", "d_ff", "vocab"},
         false,
         ""},
        {"one_axis_with_sections",
         "x:2",
         {"batch", "d_model", "d_ff"},
         true,
         ""},
        {"two_axes", "x:2,y:4", {"batch", "heads", "d_ff", "vocab"}, false, ""},
        {"two_axes_with_sections", "x:2,y:2", {"batch", "d_ff"}, true, ""},
        {"one_axis_of_nvlink",
         "x:8",
         {"batch", "length", "d_model", "heads", "d_ff", "vocab"},
         false,
         "h100_nvlink_ib"},
        {"two_alike_axes_of_nvlink",
         "x:2,y:2",
         {"batch", "d_model", "heads", "d_ff"},
         false,
         "h100_nvlink_ib"},
        {"nodes_of_nvlink",
         "x:4,y:8",
         {"batch", "heads", "d_ff", "vocab"},
         false,
         "h100_nvlink_ib"},
        {"nodes_with_sections",
         "x:2,y:8",
         {"batch", "d_ff"},
         true,
         "h100_nvlink_ib"},
        {"large_layers",
         "x:4,y:8",
         {"batch", "heads", "d_ff"},
         false,
         "h100_nvlink_ib",
         {.layers = 1,
          .batch = 32,
          .length = 256,
          .d_model = 1024,
          .heads = 16,
          .d_kv = 64,
          .d_ff = 4096,
          .vocab = 8192}},
        {"large_layers_with_sections",
         "x:2,y:8",
         {"batch", "d_ff"},
         true,
         "h100_nvlink_ib",
         {.layers = 1,
          .batch = 16,
          .length = 128,
          .d_model = 2048,
          .heads = 16,
          .d_kv = 128,
          .d_ff = 8192,
          .vocab = 8192}},
        {"uneven_sizes",
         "x:3,y:4",
         {"batch", "heads", "d_ff"},
         false,
         "h100_nvlink_ib",
         {.layers = 1,
          .batch = 7,
          .length = 5,
          .d_model = 9,
          .heads = 3,
          .d_kv = 2,
          .d_ff = 13,
          .vocab = 11}},
        {"without_overlap",
         "x:2,y:2",
         {"batch", "heads", "d_ff", "vocab"},
         false,
         "tpu_v3"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mtf
