// SPDX-License-Identifier: Apache-2.0
#include "tests/properties/random_case.h"

#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/check.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/properties/random_graph.h"
#include "tests/properties/random_numbers.h"
#include "tests/properties/random_operations.h"
#include "tests/properties/random_parameters.h"

namespace mtf::testing {
namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed)
      : program_(OfNothing()),
        random_(seed, *program_.graph, program_.feeds),
        precision_(seed),
        scopes_(seed) {}

  RandomProgram Make() {
    const int inputs = random_.Int(1, 2), variables = random_.Int(1, 3);
    for (int i = 0; i < inputs; ++i) MakeInput(i);
    for (int i = 0; i < variables; ++i) MakeVariable(i);
    const int operations = random_.Int(3, 14);
    for (int i = 0; i < operations; ++i) {
      const std::unique_ptr<Scope> scope = RandomScope();
      AddRandomOperation(random_);
    }
    if (random_.Chance(0.4)) MakeState();
    const int counts = random_.Int(0, 2);
    for (int i = 0; i < counts; ++i) {
      const Shape shape = random_.RandomShape(3);
      program_.exact.push_back(
          MakeRandomNumbers(random_.random(), graph(), shape,
                            random_.Subset(shape, 0.3), &program_.feeds));
    }
    Finish();
    MTF_CHECK(graph().status().ok()) << graph().status().ToString();
    return std::move(program_);
  }

 private:
  static RandomProgram OfNothing() {
    RandomProgram program;
    program.graph = std::make_unique<Graph>();
    return program;
  }
  Graph& graph() { return *program_.graph; }

  // A scope that layouts may have rules for (MakeRandomRules), or none.
  std::unique_ptr<Scope> RandomScope() {
    static const char* const kScopes[] = {"", "", "m_1", "m_2", "m_1/n", "n"};
    const char* name = kScopes[scopes_() % std::size(kScopes)];
    return *name == 0 ? nullptr : std::make_unique<Scope>(graph(), name);
  }

  void MakeInput(int i) {
    const Shape shape = random_.RandomShape(3);
    const std::string name = absl::StrCat("input_", i);
    random_.Keep(Input(graph(), name, kFloat32, shape), /*exact=*/true);
    program_.feeds[name] = HostTensor::FromDoubles(
        shape, kFloat32, random_.Numbers(shape.num_elements()));
  }

  void MakeVariable(int i) {
    const Shape shape = random_.RandomShape(3);
    Tensor initial;
    if (random_.Chance(0.5)) {
      initial = RandomUniform(graph(), shape, -1, 1, {.per_step = false});
    } else {
      initial = Constant(graph(), random_.Numbers(shape.num_elements()),
                         kFloat32, shape);
    }
    const std::string name = absl::StrCat("variable_", i);
    const std::unique_ptr<Scope> scope = RandomScope();
    Tensor variable = precision_() % 4 != 0
                          ? Variable(graph(), name, initial)
                          : NarrowVariable(graph(), name, initial);
    variables_.push_back(variable);
    // The oracle has the same numbers for both dtypes.
    random_.Keep(Cast(variable, kFloat32), true);
  }

  // State whose rows are updated, sometimes while its old value is read.
  void MakeState() {
    const Shape shape = random_.RandomShape(3);
    const Tensor state =
        StateVariable(graph(), "state",
                      Constant(graph(), random_.Numbers(shape.num_elements()),
                               kFloat32, shape));
    Tensor x = state;
    const int count = random_.Int(1, 3);
    for (int i = 0; i < count; ++i) {
      x = WithRandomRows(random_, x);
      if (random_.Chance(0.5)) random_.Keep(x);
    }
    if (random_.Chance(0.3)) random_.Keep(state);
    state_updates_ = {random_.Chance(0.3) ? AssignSub(state, x * 0.5)
                                          : Assign(state, x)};
  }

  void Finish() {
    Tensor last = random_.values().back();
    Tensor loss = ReduceMean(last, {});
    if (random_.Chance(0.5)) {
      loss = loss + ReduceMean(Square(random_.Any()), {});
    }
    program_.fetches = {loss, last, random_.Any()};
    std::vector<Tensor> gradients = Gradients(loss, variables_);
    std::vector<Tensor> updates = state_updates_;
    Tensor norm;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].valid()) continue;
      program_.fetches.push_back(gradients[i]);
      Tensor square = ReduceSum(Square(gradients[i]), {});
      norm = norm.valid() ? norm + square : square;
      SectionScope section(graph(), LayoutSection::kOptimizer);
      const RulesScope rules(variables_[i]);
      Descend(variables_[i], gradients[i], updates);
    }
    if (norm.valid()) {
      program_.fetches.push_back(norm);
      // Second order: the gradient of the squared length of the gradient.
      if (random_.Chance(0.4)) {
        for (Tensor second : Gradients(norm, variables_)) {
          if (second.valid()) program_.fetches.push_back(second);
        }
      }
    }
    if (!updates.empty()) program_.updates = {Group(graph(), updates)};
  }

  RandomProgram program_;
  RandomGraph random_;
  // Separate, so that other draws do not depend on them.
  std::mt19937_64 precision_, scopes_;
  std::vector<Tensor> variables_;
  std::vector<Tensor> state_updates_;
};

}  // namespace

RandomProgram MakeRandomProgram(uint64_t seed) {
  return Generator(seed).Make();
}

}  // namespace mtf::testing
