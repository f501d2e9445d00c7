// SPDX-License-Identifier: Apache-2.0
#include "lowering/search_space.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "lowering/emit_program.h"
#include "mtf/status.h"

namespace mtf::internal {
namespace {

constexpr int kMostDimensions = 64;  // bits of a DimSet
constexpr size_t kMostRoles = 20000;

DimSet Bit(int i) { return DimSet{1} << i; }

// Which dimensions may share a mesh axis in one section.
struct Neighbours {
  DimSet ruled = 0;           // that the section rules
  DimSet dims = 0;            // of these, the ones to search
  std::vector<DimSet> clash;  // by dimension
  bool Fits(DimSet set, int dim) const { return (clash[dim] & set) == 0; }
};

absl::StatusOr<std::vector<std::string>> DimensionsOf(
    const Graph& graph, const SearchOptions& options) {
  const std::vector<std::string> names = DimensionNames(graph);
  for (const std::string& wanted : options.dimensions) {
    if (std::find(names.begin(), names.end(), wanted) != names.end()) continue;
    const std::string nearest = NearestName(wanted, names);
    return absl::InvalidArgumentError(absl::StrCat(
        "no tensor has a dimension ", Quoted(wanted),
        nearest.empty() ? ""
                        : absl::StrCat("; did you mean \"", nearest, "\"?"),
        DetailLine("names", absl::StrJoin(names, ", "))));
  }
  // A cut of one element leaves all devices but one without work.
  absl::flat_hash_set<std::string> large;
  for (const auto& operation : graph.operations()) {
    for (const Dimension& dim : operation->shape()) {
      if (dim.size > 1) large.insert(dim.name);
    }
  }
  std::vector<std::string> dimensions;
  for (const std::string& name : names) {
    const bool wanted =
        options.dimensions.empty() ||
        std::find(options.dimensions.begin(), options.dimensions.end(), name) !=
            options.dimensions.end();
    if (wanted && large.contains(name)) dimensions.push_back(name);
  }
  if (static_cast<int>(dimensions.size()) > kMostDimensions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph has ", dimensions.size(), " dimensions to cut, more than ",
        kMostDimensions, DetailLine("help", "name those that rules may cut")));
  }
  return dimensions;
}

// Whether the step lowers when both dimensions are cut over one axis.
bool MayShare(const SearchProgram& program, absl::string_view section,
              const std::string& a, const std::string& b) {
  const auto mesh = Mesh::Parse("axis:2");
  const auto rules = LayoutRules::Parse(
      absl::StrCat(section, "\n", a, ":axis\n", b, ":axis"), "search");
  if (!rules.ok()) return false;
  const auto binding = BindLayout(*program.graph, *mesh, *rules);
  return binding.ok() && Lower(*program.graph, *binding, program.targets,
                               {.last_pass = "emit_program", .verify = false})
                             .ok();
}

Neighbours FindNeighbours(const SearchProgram& program,
                          const std::vector<std::string>& dimensions,
                          absl::string_view section, DimSet dims) {
  Neighbours result;
  result.ruled = result.dims = dims;
  const int count = static_cast<int>(dimensions.size());
  result.clash.assign(count, 0);
  for (int i = 0; i < count; ++i) {
    for (int j = i + 1; j < count; ++j) {
      const bool ruled = (dims & Bit(i)) != 0 && (dims & Bit(j)) != 0;
      if (!ruled || MayShare(program, section, dimensions[i], dimensions[j])) {
        continue;
      }
      result.clash[i] |= Bit(j);
      result.clash[j] |= Bit(i);
    }
  }
  return result;
}

// The dimensions of variables of one kind.
DimSet DimensionsOfVariables(const Graph& graph,
                             const std::vector<std::string>& dimensions,
                             bool parameters, bool state) {
  DimSet set = 0;
  for (const VariableInfo& variable : graph.variables()) {
    const bool is_state = variable.kind == VariableKind::kOptimizerState;
    if (is_state ? !state : !parameters) continue;
    for (size_t i = 0; i < dimensions.size(); ++i) {
      if (variable.shape.Contains(dimensions[i])) {
        set |= Bit(static_cast<int>(i));
      }
    }
  }
  return set;
}

// The dimensions that stand in every variable where a larger one does and in no
// other, as heads beside d_kv: to cut the larger one does the same.
DimSet FindShadowed(const Graph& graph,
                    const std::vector<std::string>& dimensions) {
  struct Use {
    std::vector<int> variables;
    int64_t size = 0;
  };
  std::vector<Use> uses(dimensions.size());
  for (const VariableInfo& variable : graph.variables()) {
    for (size_t i = 0; i < dimensions.size(); ++i) {
      const int place = variable.shape.Find(dimensions[i]);
      if (place < 0) continue;
      uses[i].variables.push_back(variable.id);
      uses[i].size = variable.shape[place].size;
    }
  }
  DimSet shadowed = 0;
  for (size_t i = 0; i < uses.size(); ++i) {
    for (size_t j = 0; j < uses.size(); ++j) {
      const bool larger = uses[j].size > uses[i].size ||
                          (uses[j].size == uses[i].size && j < i);
      if (larger && uses[i].variables == uses[j].variables) {
        shadowed |= Bit(static_cast<int>(i));
      }
    }
  }
  return shadowed;
}

// Appends every set of dimensions from `first` on that may be added to `set`
// without meeting `fixed`; with `whole`, only those to which no more can be
// added, and the empty one.
void AddSets(const Neighbours& neighbours, DimSet fixed, bool whole, int first,
             DimSet set, std::vector<DimSet>& sets) {
  const int count = static_cast<int>(neighbours.clash.size());
  if (sets.size() > kMostRoles) return;
  bool maximal = true;
  for (int i = 0; i < count; ++i) {
    const bool free = (neighbours.dims & ~(set | fixed) & Bit(i)) != 0;
    maximal = maximal && !(free && neighbours.Fits(set | fixed, i));
  }
  if (!whole || set == 0 || maximal) sets.push_back(set);
  for (int i = first; i < count; ++i) {
    if ((neighbours.dims & ~fixed & Bit(i)) == 0) continue;
    if (!neighbours.Fits(set | fixed, i)) continue;
    AddSets(neighbours, fixed, whole, i + 1, set | Bit(i), sets);
  }
}

struct Sections {
  Neighbours defaults, parameters, optimizer;
};

void MakeRoles(const Sections& sections, bool restricted, SearchSpace& space) {
  space.restricted = restricted;
  space.roles.clear();
  space.groups.clear();
  std::vector<DimSet> cuts;
  AddSets(sections.defaults, 0, false, 0, 0, cuts);
  for (DimSet cut : cuts) {
    space.groups.push_back(static_cast<int>(space.roles.size()));
    std::vector<DimSet> parameters, optimizer;
    AddSets(sections.parameters, cut & sections.parameters.ruled, restricted, 0,
            0, parameters);
    AddSets(sections.optimizer, cut & sections.optimizer.ruled, restricted, 0,
            0, optimizer);
    for (DimSet p : parameters) {
      for (DimSet o : optimizer) {
        // An update works where its state is: a parameter that is cut further
        // would be gathered for it.
        if (restricted && p != 0 && p != (o & sections.parameters.dims)) {
          continue;
        }
        if (space.roles.size() > kMostRoles) break;
        space.roles.push_back({cut, p, o});
      }
    }
  }
  space.groups.push_back(static_cast<int>(space.roles.size()));
}

}  // namespace

double SearchSpace::size() const {
  return std::pow(static_cast<double>(roles.size()),
                  static_cast<double>(axes.size()));
}

absl::StatusOr<SearchSpace> MakeSearchSpace(const SearchProgram& program,
                                            const Mesh& mesh,
                                            const SearchOptions& options) {
  const Graph& graph = *program.graph;
  MTF_RETURN_IF_ERROR(graph.status());
  SearchSpace space;
  space.mesh = mesh;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.axis_size(axis) > 1) space.axes.push_back(axis);
  }
  MTF_ASSIGN_OR_RETURN(space.dimensions, DimensionsOf(graph, options));

  const int count = static_cast<int>(space.dimensions.size());
  const DimSet all = count == kMostDimensions ? ~DimSet{0} : Bit(count) - 1;
  Sections sections;
  sections.defaults = FindNeighbours(program, space.dimensions, "", all);
  sections.parameters.clash.assign(count, 0);
  sections.optimizer.clash.assign(count, 0);
  if (options.sections) {
    sections.parameters = FindNeighbours(
        program, space.dimensions, "[parameters]",
        DimensionsOfVariables(graph, space.dimensions, true, false));
    // The arithmetic of an update has the dimensions of the parameters too.
    sections.optimizer = FindNeighbours(
        program, space.dimensions, "[optimizer]",
        DimensionsOfVariables(graph, space.dimensions, true, true));
  }
  MakeRoles(sections, /*restricted=*/false, space);
  if (space.size() > options.full_space) {
    const DimSet shadowed = FindShadowed(graph, space.dimensions);
    sections.parameters.dims &= ~shadowed;
    sections.optimizer.dims &= ~shadowed;
    MakeRoles(sections, /*restricted=*/true, space);
  }
  if (space.roles.size() > kMostRoles) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an axis could cut more than ", kMostRoles, " sets of dimensions",
        DetailLine("names", absl::StrJoin(space.dimensions, ", ")),
        DetailLine("help", "name those that rules may cut")));
  }
  return space;
}

std::string RulesText(const SearchSpace& space, const Roles& roles) {
  std::string text;
  const auto axes_of = [&](size_t dim, DimSet AxisRole::*set) {
    std::vector<std::string> names;
    for (size_t i = 0; i < roles.size(); ++i) {
      if (space.roles[roles[i]].*set >> dim & 1) {
        names.push_back(space.mesh.axes()[space.axes[i]].name);
      }
    }
    return names;
  };
  const auto add = [&](absl::string_view section, DimSet AxisRole::*set) {
    std::string rules;
    for (size_t dim = 0; dim < space.dimensions.size(); ++dim) {
      const std::vector<std::string> more = axes_of(dim, set);
      if (more.empty()) continue;
      std::vector<std::string> names;
      if (set != &AxisRole::cuts) names = axes_of(dim, &AxisRole::cuts);
      names.insert(names.end(), more.begin(), more.end());
      absl::StrAppend(&rules, space.dimensions[dim], ":",
                      absl::StrJoin(names, "+"), "\n");
    }
    if (!rules.empty()) absl::StrAppend(&text, section, rules);
  };
  add("", &AxisRole::cuts);
  add("[parameters]\n", &AxisRole::parameters);
  add("[optimizer]\n", &AxisRole::optimizer);
  return text;
}

}  // namespace mtf::internal
