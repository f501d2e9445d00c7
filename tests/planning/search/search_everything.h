// SPDX-License-Identifier: Apache-2.0
//
// All layouts of a step, listed without any code of the search.
#ifndef TESTS_PLANNING_SEARCH_SEARCH_EVERYTHING_H_
#define TESTS_PLANNING_SEARCH_SEARCH_EVERYTHING_H_

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "layouts/shard.h"
#include "lowering/lower.h"
#include "lowering/program/count_costs.h"
#include "mtf/status.h"
#include "planning/search/search_layouts.h"

namespace mtf::testing {

// Prices without a machine: one second for each byte that is sent and one for
// each multiplication of an einsum.
inline StepPrice SimplePrice(const Program& program) {
  StepPrice price;
  for (const auto& [key, count] : CountCollectives(program)) {
    price.exposed += static_cast<double>(count.second) + 10.0 * count.first;
  }
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::kEinsum) {
      price.compute += static_cast<double>(
                           instruction.Get<EinsumAttributes>().plan->flops()) /
                       8;
    }
  }
  price.seconds = price.compute + price.exposed;
  return price;
}

inline int64_t MemoryOf(const Program& program) {
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

// Lowers every layout of the documented space: for each dimension and section
// any ascending list of axes, where the lists of variables begin with the
// default one, and parameters gathered once or for each use. Which dimensions
// may share an axis is not used.
class LayoutLister {
 public:
  LayoutLister(const Graph& graph, const Targets& targets, const Mesh& mesh,
               const SearchPrices& prices, std::vector<std::string> dimensions,
               bool sections)
      : graph_(graph),
        targets_(targets),
        mesh_(mesh),
        prices_(prices),
        dimensions_(std::move(dimensions)),
        sections_(sections) {
    sets_.assign(3, std::vector<int>(dimensions_.size(), 0));
  }

  std::vector<Listed> List() {
    all_.clear();
    Choose(0, 0);
    return std::move(all_);
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
      if (section + 1 == (sections_ ? 3 : 1)) {
        Add(text);
        const std::string once = absl::StrReplaceAll(
            text, {{"[parameters]", "[parameters keep_gathered]"}});
        if (once != text) Add(once);
        return;
      }
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
                 {.last_pass = last,
                  .attention = prices_.attention,
                  .fusion = prices_.fusion,
                  .verify = false});
  }
  bool Lowers(const std::string& text) const {
    return LowerIt(text, "emit_program").ok();
  }
  void Add(const std::string& text) {
    absl::StatusOr<Program> program = LowerIt(text, "");
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

// The layouts of a space, and the best of them.
class Everything {
 public:
  explicit Everything(LayoutLister lister) : all_(lister.List()) {}

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
  // The best within the limit, fastest first, where no two cost the same.
  std::vector<Listed> Different(int64_t limit, size_t count) const {
    std::vector<Listed> fit;
    for (const Listed& listed : all_) {
      if (limit <= 0 || listed.memory <= limit) fit.push_back(listed);
    }
    std::stable_sort(fit.begin(), fit.end(),
                     [](const Listed& a, const Listed& b) {
                       const double gap = b.seconds - a.seconds;
                       if (std::abs(gap) > 1e-9 * b.seconds) return gap > 0;
                       return a.memory < b.memory;
                     });
    const auto same = [](double share, double a, double b) {
      return std::abs(a - b) <= share * std::max(a, b);
    };
    std::vector<Listed> best;
    for (const Listed& listed : fit) {
      bool known = false;
      for (const Listed& other : best) {
        known = known || (same(0.01, listed.seconds, other.seconds) &&
                          same(0.03, static_cast<double>(listed.memory),
                               static_cast<double>(other.memory)));
      }
      if (!known) best.push_back(listed);
      if (best.size() == count) break;
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
  std::vector<Listed> all_;
};

}  // namespace mtf::testing

#endif  // TESTS_PLANNING_SEARCH_SEARCH_EVERYTHING_H_
