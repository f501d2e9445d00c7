// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/properties/random_case.h"
#include "tests/properties/random_parameters.h"

namespace mtf::testing {

RandomProgram MakeMixedPrecisionStep(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto size = [&random] {
    return 1 + static_cast<int64_t>(random() % 13);
  };
  RandomProgram program;
  // 13 terms of up to four with relative errors of 2^-8 and random signs:
  // 4 * 2^-8 * sqrt(13).
  program.tolerance = 0.0563;
  program.graph = std::make_unique<Graph>();
  Graph& graph = *program.graph;
  const auto input = [&](const std::string& name, const Shape& shape) {
    std::vector<double> numbers(shape.num_elements());
    for (double& number : numbers) {
      number = (static_cast<double>(random() % 129) - 64) / 64;
    }
    program.feeds[name] = HostTensor::FromDoubles(shape, kFloat32, numbers);
    return Input(graph, name, kFloat32, shape);
  };
  const Dimension a{"a", size()};
  Dimension from{"b", size()};
  std::vector<Tensor> parameters;
  const auto parameter = [&](const Shape& shape) {
    parameters.push_back(NarrowVariable(
        graph, absl::StrCat("w", parameters.size()),
        RandomUniform(graph, shape, -0.5, 0.5, {.per_step = false})));
    return parameters.back();
  };
  Tensor x = Cast(input("x", {a, from}), kBFloat16);
  for (const char* name : {"c", "d", "e"}) {
    const Dimension to{name, size()};
    Tensor y = Einsum({x, parameter({from, to})}, {a, to}) + parameter({to});
    switch (random() % 3) {
      case 0:
        y = Tanh(y);
        break;
      case 1: {  // a norm
        const Tensor wide = Cast(y, kFloat32);
        const Tensor mean = ReduceMean(Square(wide), {a});
        y = Cast(wide * Rsqrt(mean + 0.1) * Cast(parameter({to}), kFloat32),
                 kBFloat16);
        break;
      }
      default:
        y = Gelu(y);
        break;
    }
    x = y;
    from = to;
  }
  const Tensor target = input("target", {a, from});
  const Tensor loss = ReduceSum(Square(Cast(x, kFloat32) - target), {});
  program.fetches = {loss};
  const std::vector<Tensor> gradients = Gradients(loss, parameters);
  std::vector<Tensor> updates;
  for (size_t i = 0; i < gradients.size(); ++i) {
    program.fetches.push_back(gradients[i]);
    const SectionScope section(graph, LayoutSection::kOptimizer);
    Descend(parameters[i], gradients[i], updates);
  }
  program.updates = {Group(graph, updates)};
  return program;
}

}  // namespace mtf::testing
