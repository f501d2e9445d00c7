// SPDX-License-Identifier: Apache-2.0
#include "planning/search/search_space.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "lowering/emit/emit_program.h"
#include "mtf/status.h"
#include "planning/cost/parallel_for.h"
#include "planning/search/workload_summary.h"

namespace mtf::internal {
namespace {

constexpr int kMostDimensions = 64;  // bits of a DimSet
constexpr size_t kMostRoles = 20000;

DimSet Bit(int i) { return DimSet{1} << i; }

absl::StatusOr<std::vector<std::string>> LargeDimensions(
    const SearchStep& step, const SearchOptions& options) {
  const std::vector<std::string>& names = step.dimensions().names;
  for (const std::string& wanted : options.dimensions) {
    if (std::find(names.begin(), names.end(), wanted) != names.end()) continue;
    const std::string nearest = NearestName(wanted, names);
    return absl::InvalidArgumentError(absl::StrCat(
        "no tensor has a dimension ", Quoted(wanted),
        nearest.empty() ? ""
                        : absl::StrCat("; did you mean \"", nearest, "\"?"),
        DetailLine("names", absl::StrJoin(names, ", "))));
  }
  // Sharding a dimension of size 1 leaves all devices but one without work.
  absl::flat_hash_set<std::string> large;
  for (const auto& operation : step.graph().operations()) {
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
        "the graph has ", dimensions.size(), " dimensions to shard, more than ",
        kMostDimensions,
        DetailLine(
            "help",
            "list the dimensions to search (SearchOptions::dimensions)")));
  }
  return dimensions;
}

// Whether the step lowers on one axis under these rules.
bool Lowers(const SearchStep& step, const std::string& text) {
  // A program with few layers has every combination of dimensions that one with
  // all layers has.
  return step
      .Lower(*Mesh::Parse("axis:2"), text, step.LayerSubsets()[0],
             {.last_pass = "emit_program"})
      .ok();
}

// The pairs of dimensions of which one is gathered, in operations that are
// composed of others, if they share an axis. A layout without its rule sends no
// more.
std::vector<std::pair<std::string, std::string>> GatheredPairs(
    const SearchStep& step) {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (step.attention() == AttentionSupport::kAll) return pairs;
  for (const auto& operation : step.graph().operations()) {
    const Decomposition* decomposition = operation->decomposition();
    if (decomposition == nullptr) continue;
    // All operations of a decomposition have the same conflict.
    const AxisConflict* conflict =
        decomposition->operations().front()->axis_conflict();
    if (conflict == nullptr) continue;
    for (const std::string& yielding : conflict->yielding) {
      for (const std::string& sharded : conflict->sharded) {
        std::pair<std::string, std::string> pair(yielding, sharded);
        // Layers mostly have the names of the layer before.
        if (pairs.empty() || pairs.back() != pair) {
          pairs.push_back(std::move(pair));
        }
      }
    }
  }
  return pairs;
}

Neighbours FindNeighbours(const SearchStep& step,
                          const std::vector<std::string>& dimensions,
                          absl::string_view section, DimSet dims) {
  Neighbours result;
  result.ruled = result.dims = dims;
  const int count = static_cast<int>(dimensions.size());
  result.clash.assign(count, 0);
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < count; ++i) {
    for (int j = i + 1; j < count; ++j) {
      if ((dims & Bit(i)) != 0 && (dims & Bit(j)) != 0) {
        pairs.emplace_back(i, j);
      }
    }
  }
  const auto gathered = GatheredPairs(step);
  std::vector<char> may_share(pairs.size());
  ParallelFor(pairs.size(), [&](size_t k) {
    const auto& [i, j] = pairs[k];
    may_share[k] = Lowers(step, absl::StrCat(section, "\n", dimensions[i],
                                             ":axis\n", dimensions[j], ":axis"))
                       ? 1
                       : 0;
  });
  for (size_t k = 0; k < pairs.size(); ++k) {
    const std::string &first = dimensions[pairs[k].first],
                      &second = dimensions[pairs[k].second];
    const bool gathers =
        std::any_of(gathered.begin(), gathered.end(), [&](const auto& pair) {
          return pair == std::pair(first, second) ||
                 pair == std::pair(second, first);
        });
    if (may_share[k] != 0 && !gathers) continue;
    const auto& [i, j] = pairs[k];
    result.clash[i] |= Bit(j);
    result.clash[j] |= Bit(i);
  }
  return result;
}

// A section that replicates `dim` in `scopes`, or "".
std::string ReplicatedIn(const std::vector<std::string>& scopes,
                         const std::string& dim) {
  if (scopes.empty()) return "";
  return absl::StrCat("[in ", absl::StrJoin(scopes, ", "), "]\n", dim, ":",
                      kReplicated, "\n");
}

std::vector<OuterSharding> FindOutside(const SearchStep& step,
                                       const SearchDimensions& found) {
  const size_t count = found.names.size();
  std::vector<OuterSharding> outside(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < count; ++j) {
      if (j == i || (found.defaults.clash[i] >> j & 1) == 0) continue;
      const std::string section =
          ReplicatedIn(found.scopes->WhereTheyMeet(static_cast<int>(i),
                                                   Bit(static_cast<int>(j))),
                       found.names[i]);
      const bool frees =
          !section.empty() &&
          Lowers(step, absl::StrCat(found.names[i], ":axis\n", found.names[j],
                                    ":axis\n", section));
      (frees ? outside[i].frees : outside[i].clash) |= Bit(static_cast<int>(j));
    }
  }
  return outside;
}

// Whether the step lowers with `all_to_all` on one axis, and computes attention
// without sums over the devices.
bool IsAllToAll(const SearchStep& step,
                const std::vector<std::string>& dimensions,
                const InnerAllToAll& all_to_all) {
  std::string rules,
      section = absl::StrCat("[in ", all_to_all.scope, "]\n",
                             dimensions[all_to_all.enters], ":axis\n");
  for (size_t dim = 0; dim < dimensions.size(); ++dim) {
    if ((all_to_all.leave >> dim & 1) == 0) continue;
    absl::StrAppend(&rules, dimensions[dim], ":axis\n");
    absl::StrAppend(&section, dimensions[dim], ":", kReplicated, "\n");
  }
  const auto program =
      step.Lower(*Mesh::Parse("axis:2"), absl::StrCat(rules, section),
                 step.LayerSubsets()[0], {.last_pass = "emit_program"});
  if (!program.ok()) return false;
  return std::none_of(
      program->values.begin(), program->values.end(),
      [&](const ProgramValue& value) {
        return std::any_of(
            value.causes.begin(), value.causes.end(), [&](const Cause& cause) {
              return cause.dimension == dimensions[all_to_all.enters];
            });
      });
}

std::vector<InnerAllToAll> FindAllToAlls(const SearchStep& step,
                                         const SearchDimensions& found) {
  std::vector<InnerAllToAll> all_to_alls;
  for (const LayerScopes::Attention& attention : found.scopes->Attentions()) {
    for (int dim = 0; dim < static_cast<int>(found.names.size()); ++dim) {
      if ((attention.own & Bit(dim)) == 0) continue;
      InnerAllToAll all_to_all{attention.scope, dim, attention.lengths};
      if (IsAllToAll(step, found.names, all_to_all)) {
        all_to_alls.push_back(std::move(all_to_all));
      }
    }
  }
  return all_to_alls;
}

// The dimensions of variables of one kind.
DimSet DimensionsOfVariables(const Graph& graph,
                             const std::vector<std::string>& dimensions,
                             bool parameters, bool state) {
  DimSet set = 0;
  for (const VariableInfo& variable : graph.variables()) {
    // State has the rules of its scope.
    if (variable.kind == VariableKind::kState) continue;
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

// Finds SearchDimensions::minor and tiny. If a dimension occurs in the same
// variables as a larger one, sharding the larger one has the same effect.
void FindMinor(const Graph& graph, SearchDimensions& found) {
  const std::vector<std::string>& names = found.names;
  struct Use {
    std::vector<int> variables;
    int64_t size = 0;
    double bytes = 0;
  };
  std::vector<Use> uses(names.size());
  double all = 0;
  for (const VariableInfo& variable : graph.variables()) {
    const double bytes = static_cast<double>(variable.shape.num_elements() *
                                             DTypeSize(variable.dtype));
    all += bytes;
    for (size_t i = 0; i < names.size(); ++i) {
      const int index = variable.shape.Find(names[i]);
      if (index < 0) continue;
      uses[i].variables.push_back(variable.id);
      uses[i].size = variable.shape[index].size;
      uses[i].bytes += bytes;
    }
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].bytes < 0.001 * all) found.tiny |= Bit(static_cast<int>(i));
    bool is_minor = uses[i].bytes < 0.01 * all;
    for (size_t j = 0; j < uses.size(); ++j) {
      const bool larger = uses[j].size > uses[i].size ||
                          (uses[j].size == uses[i].size && j < i);
      is_minor = is_minor || (larger && uses[i].variables == uses[j].variables);
    }
    if (is_minor) found.minor |= Bit(static_cast<int>(i));
  }
}

// Appends `set` and its union with every set of dimensions from `first` on that
// conflicts neither with `set` nor with `fixed`; if `only_maximal`, only the
// sets that cannot be extended, and the empty one.
void AddSets(const Neighbours& neighbours, DimSet fixed, bool only_maximal,
             int first, DimSet set, std::vector<DimSet>& sets) {
  const int count = static_cast<int>(neighbours.clash.size());
  if (sets.size() > kMostRoles) return;
  bool maximal = true;
  for (int i = 0; i < count; ++i) {
    const bool free = (neighbours.dims & ~(set | fixed) & Bit(i)) != 0;
    maximal = maximal && !(free && neighbours.Fits(set | fixed, i));
  }
  if (!only_maximal || set == 0 || maximal) sets.push_back(set);
  for (int i = first; i < count; ++i) {
    if ((neighbours.dims & ~fixed & Bit(i)) == 0) continue;
    if (!neighbours.Fits(set | fixed, i)) continue;
    AddSets(neighbours, fixed, only_maximal, i + 1, set | Bit(i), sets);
  }
}

void MakeRoles(const SearchDimensions& dimensions, bool restricted,
               SearchSpace& space) {
  space.restricted = restricted;
  space.roles.clear();
  space.groups.clear();
  Neighbours of_parameters = dimensions.parameters,
             of_optimizer = dimensions.optimizer;
  if (restricted) {
    of_parameters.dims &= ~dimensions.minor;
    of_optimizer.dims &= ~dimensions.minor;
  }
  std::vector<DimSet> sharded;
  AddSets(dimensions.defaults, 0, false, 0, 0, sharded);
  for (DimSet set : sharded) {
    space.groups.push_back(static_cast<int>(space.roles.size()));
    std::vector<DimSet> parameters, optimizer;
    AddSets(of_parameters, set & of_parameters.ruled, restricted, 0, 0,
            parameters);
    AddSets(of_optimizer, set & of_optimizer.ruled, restricted, 0, 0,
            optimizer);
    for (DimSet p : parameters) {
      for (DimSet o : optimizer) {
        // An update runs on the shards of its state: a parameter that is
        // sharded further would be gathered for it.
        if (restricted && p != 0 && p != (o & of_parameters.dims)) continue;
        if (space.roles.size() > kMostRoles) break;
        space.roles.push_back({set, p, o});
      }
    }
  }
  space.groups.push_back(static_cast<int>(space.roles.size()));
}

}  // namespace

double SearchSpace::size() const {
  const auto layouts = [this](double roles) {
    return std::pow(roles, static_cast<double>(axes.size()));
  };
  const double all = static_cast<double>(roles.size());
  const double plain = static_cast<double>(
      std::count_if(roles.begin(), roles.end(),
                    [](const AxisRole& role) { return role.parameters == 0; }));
  // Sharded parameters may be gathered once or for each use.
  return 2 * layouts(all) - layouts(plain);
}

absl::StatusOr<SearchDimensions> FindSearchDimensions(
    const SearchStep& step, const SearchOptions& options) {
  const Graph& graph = step.graph();
  SearchDimensions found;
  found.num_layers = step.num_layers();
  MTF_ASSIGN_OR_RETURN(found.names, LargeDimensions(step, options));
  const int count = static_cast<int>(found.names.size());
  const DimSet all = count == kMostDimensions ? ~DimSet{0} : Bit(count) - 1;
  found.defaults = FindNeighbours(step, found.names, "", all);
  found.outside.resize(found.names.size());
  // A user who lists the dimensions wants rules for no others.
  if (options.dimensions.empty()) {
    found.scopes = std::make_shared<LayerScopes>(graph, found.names);
    found.outside = FindOutside(step, found);
    found.all_to_alls = FindAllToAlls(step, found);
  }
  found.parameters.clash.assign(count, 0);
  found.optimizer.clash.assign(count, 0);
  if (!options.sections) return found;
  found.parameters =
      FindNeighbours(step, found.names, "[parameters]",
                     DimensionsOfVariables(graph, found.names, true, false));
  // The operations of an update also have the dimensions of the parameters.
  found.optimizer =
      FindNeighbours(step, found.names, "[optimizer]",
                     DimensionsOfVariables(graph, found.names, true, true));
  FindMinor(graph, found);
  return found;
}

absl::StatusOr<SearchSpace> MakeSearchSpace(const SearchDimensions& dimensions,
                                            const Mesh& mesh,
                                            const SearchOptions& options) {
  SearchSpace space;
  space.mesh = mesh;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.axis_size(axis) > 1) space.axes.push_back(axis);
  }
  space.dimensions = dimensions.names;
  space.outside = dimensions.outside;
  space.all_to_alls = dimensions.all_to_alls;
  space.scopes = dimensions.scopes;
  MakeRoles(dimensions, /*restricted=*/false, space);
  if (IsLarge(space.size(), dimensions.num_layers, options) &&
      options.sections) {
    MakeRoles(dimensions, /*restricted=*/true, space);
  }
  if (space.roles.size() > kMostRoles) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an axis could shard more than ", kMostRoles, " sets of dimensions",
        DetailLine("names", absl::StrJoin(space.dimensions, ", ")),
        DetailLine(
            "help",
            "list the dimensions to search (SearchOptions::dimensions)")));
  }
  return space;
}

AxisRoles RolesOf(const SearchSpace& space, const Roles& roles) {
  AxisRoles result;
  for (int role : roles) result.axes.push_back(space.roles[role]);
  return result;
}

bool CanShardOutside(const std::vector<OuterSharding>& outside, int dim,
                     const AxisRole& role) {
  return (role.sharded & outside[dim].frees) != 0 &&
         (role.by_default() & (outside[dim].clash | Bit(dim))) == 0;
}

void ShardOutside(int dim, AxisRole& role) {
  role.outside |= Bit(dim);
  role.parameters &= ~Bit(dim);
  role.optimizer &= ~Bit(dim);
}

std::string RulesText(const SearchSpace& space, const AxisRoles& roles) {
  std::string text;
  // The names of the axes whose set (`set`) contains the dimension.
  const auto axes_of = [&](size_t dim, const auto& set) {
    std::vector<std::string> names;
    for (size_t i = 0; i < roles.axes.size(); ++i) {
      if (set(roles.axes[i]) >> dim & 1) {
        names.push_back(space.mesh.axes()[space.axes[i]].name);
      }
    }
    return names;
  };
  const auto rule = [](const std::string& name,
                       const std::vector<std::string>& axes) {
    return absl::StrCat(
        name, ":", axes.empty() ? kReplicated : absl::StrJoin(axes, "+"), "\n");
  };
  const auto by_default = [](const AxisRole& role) {
    return role.by_default();
  };
  std::string sections;
  for (size_t dim = 0; dim < space.dimensions.size(); ++dim) {
    const std::vector<std::string> axes = axes_of(dim, by_default);
    if (axes.empty()) continue;
    text += rule(space.dimensions[dim], axes);
    const std::vector<std::string> inside =
        axes_of(dim, [](const AxisRole& role) { return role.sharded; });
    if (inside == axes) continue;
    DimSet others = 0;  // that are sharded over its axes in layers
    for (const AxisRole& role : roles.axes) {
      if (role.outside >> dim & 1) others |= role.sharded;
    }
    const std::vector<std::string> scopes =
        space.scopes->WhereTheyMeet(static_cast<int>(dim), others);
    if (scopes.empty()) continue;
    absl::StrAppend(&sections, "[in ", absl::StrJoin(scopes, ", "), "]\n",
                    rule(space.dimensions[dim], inside));
  }
  for (size_t e = 0; e < space.all_to_alls.size(); ++e) {
    const InnerAllToAll& all_to_all = space.all_to_alls[e];
    const auto has_all_to_all = [e](const AxisRole& role) {
      return role.all_to_all == static_cast<int>(e);
    };
    if (std::none_of(roles.axes.begin(), roles.axes.end(), has_all_to_all)) {
      continue;
    }
    absl::StrAppend(&sections, "[in ", all_to_all.scope, "]\n");
    for (size_t dim = 0; dim < space.dimensions.size(); ++dim) {
      const bool enters = static_cast<int>(dim) == all_to_all.enters;
      if (!enters && (all_to_all.leave >> dim & 1) == 0) continue;
      sections +=
          rule(space.dimensions[dim], axes_of(dim, [&](const AxisRole& role) {
                 if (!has_all_to_all(role)) return role.sharded;
                 return enters ? Bit(static_cast<int>(dim)) : DimSet{0};
               }));
    }
  }
  text += sections;
  const auto add = [&](absl::string_view section, DimSet AxisRole::*set) {
    std::string rules;
    for (size_t dim = 0; dim < space.dimensions.size(); ++dim) {
      const std::vector<std::string> more =
          axes_of(dim, [set](const AxisRole& role) { return role.*set; });
      if (more.empty()) continue;
      std::vector<std::string> names = axes_of(dim, by_default);
      names.insert(names.end(), more.begin(), more.end());
      rules += rule(space.dimensions[dim], names);
    }
    if (!rules.empty()) absl::StrAppend(&text, section, rules);
  };
  add(roles.keep_gathered ? "[parameters keep_gathered]\n" : "[parameters]\n",
      &AxisRole::parameters);
  add("[optimizer]\n", &AxisRole::optimizer);
  return text;
}

}  // namespace mtf::internal
