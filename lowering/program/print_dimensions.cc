// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/print_dimensions.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mtf::internal {
namespace {

// A dimension as the program shows it.
struct Shown {
  absl::string_view name;  // the first that is seen
  AxisSet axes = 0;        // that cut some value
};

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  std::string Run(bool with_rules) {
    // What a rule cuts is what other names are called after. Of what causes an
    // instruction, nothing else need be left.
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
    for (const Shown& dimension : shown_) {
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
    const auto [place, inserted] = places_.try_emplace(name, shown_.size());
    if (inserted) place->second = PlaceOf(name);
    shown_[place->second].axes |= axes;
  }
  // The place of a name that is seen for the first time.
  size_t PlaceOf(absl::string_view name) {
    for (size_t i = 0; i < shown_.size(); ++i) {
      if (!program_.grains.Tied(shown_[i].name, name)) continue;
      absl::StrAppend(&tied_, tied_.empty() ? "tied{" : ", ", name, ":",
                      shown_[i].name);
      return i;
    }
    shown_.push_back({name});
    return shown_.size() - 1;
  }

  const Program& program_;
  std::vector<Shown> shown_;
  absl::flat_hash_map<absl::string_view, size_t> places_;  // in shown_, by name
  std::string tied_;
};

}  // namespace

std::string PrintDimensions(const Program& program, bool with_rules) {
  return Printer(program).Run(with_rules);
}

}  // namespace mtf::internal
