// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/print_dimensions.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mtf::internal {
namespace {

// A dimension with the names and axes that occur in the program.
struct SeenDimension {
  absl::string_view name;  // the first of its names
  AxisSet axes = 0;        // that shard it in some value
};

class DimensionsPrinter {
 public:
  explicit DimensionsPrinter(const Program& program) : program_(program) {}

  std::string Run(bool with_rules) {
    // The name in a rule is the one that other names are tied to. The dimension
    // of a cause may have no value left that shows it.
    if (with_rules) {
      for (const LayoutRule& rule : program_.rules) See(rule.dimension, 0);
    }
    for (const Instruction& instruction : program_.instructions) {
      if (with_rules) {
        for (const Cause& cause : instruction.causes) See(cause.dimension, 0);
      }
      for (int result : instruction.results) {
        const ProgramValue& value = program_.values[result];
        See(value.shape, value.layout);
      }
      if (const auto* reduce = instruction.Find<ReduceAttributes>()) {
        See(reduce->iteration, reduce->iteration_layout);
      }
    }
    std::string grains;
    for (const SeenDimension& dimension : seen_) {
      const AxisSet unseen =
          program_.grains.AxesOf(dimension.name) & ~dimension.axes;
      if (unseen == 0) continue;
      absl::StrAppend(&grains, grains.empty() ? "grains{" : ", ",
                      dimension.name, ":",
                      program_.mesh.AxisNames(ListOf(unseen)));
    }
    return absl::StrCat(tied_, tied_.empty() ? "" : "}\n", grains,
                        grains.empty() ? "" : "}\n");
  }

 private:
  void See(const Shape& shape, const TensorLayout& layout) {
    for (int i = 0; i < shape.rank(); ++i) {
      See(shape[i].name, SetOf(layout.dims[i]));
    }
  }
  void See(absl::string_view name, AxisSet axes) {
    const auto [index, inserted] = index_.try_emplace(name, seen_.size());
    if (inserted) index->second = AddName(name);
    seen_[index->second].axes |= axes;
  }
  // The index in `seen_` of a name that occurs for the first time.
  size_t AddName(absl::string_view name) {
    for (size_t i = 0; i < seen_.size(); ++i) {
      if (!program_.grains.Tied(seen_[i].name, name)) continue;
      absl::StrAppend(&tied_, tied_.empty() ? "tied{" : ", ", name, ":",
                      seen_[i].name);
      return i;
    }
    seen_.push_back({name});
    return seen_.size() - 1;
  }

  const Program& program_;
  std::vector<SeenDimension> seen_;
  absl::flat_hash_map<absl::string_view, size_t> index_;  // in seen_, by name
  std::string tied_;
};

}  // namespace

std::string PrintDimensions(const Program& program, bool with_rules) {
  return DimensionsPrinter(program).Run(with_rules);
}

}  // namespace mtf::internal
