// SPDX-License-Identifier: Apache-2.0
#include "tests/properties/random_case.h"

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
        precision_(seed) {}

  RandomProgram Make() {
    const int inputs = random_.Int(1, 2), variables = random_.Int(1, 3);
    for (int i = 0; i < inputs; ++i) MakeInput(i);
    for (int i = 0; i < variables; ++i) MakeVariable(i);
    const int operations = random_.Int(3, 14);
    for (int i = 0; i < operations; ++i) AddRandomOperation(random_);
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
    Tensor variable = precision_() % 4 != 0
                          ? Variable(graph(), name, initial)
                          : NarrowVariable(graph(), name, initial);
    variables_.push_back(variable);
    // The oracle has the same numbers for both dtypes.
    random_.Keep(Cast(variable, kFloat32), true);
  }

  void Finish() {
    Tensor last = random_.values().back();
    Tensor loss = ReduceMean(last, {});
    if (random_.Chance(0.5)) {
      loss = loss + ReduceMean(Square(random_.Any()), {});
    }
    program_.fetches = {loss, last, random_.Any()};
    std::vector<Tensor> gradients = Gradients(loss, variables_);
    std::vector<Tensor> updates;
    Tensor norm;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].valid()) continue;
      program_.fetches.push_back(gradients[i]);
      Tensor square = ReduceSum(Square(gradients[i]), {});
      norm = norm.valid() ? norm + square : square;
      SectionScope section(graph(), LayoutSection::kOptimizer);
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
  std::mt19937_64
      precision_;  // separate, so that other draws do not depend on it
  std::vector<Tensor> variables_;
};

}  // namespace

RandomProgram MakeRandomProgram(uint64_t seed) {
  return Generator(seed).Make();
}

}  // namespace mtf::testing
