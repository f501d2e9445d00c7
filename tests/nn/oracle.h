// SPDX-License-Identifier: Apache-2.0
//
// A graph with values for its variables, for tests of layers: evaluates it by
// the oracle and checks gradients against finite differences.
#ifndef TESTS_NN_ORACLE_H_
#define TESTS_NN_ORACLE_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/reference/interpreter.h"
#include "mtf/graph.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"

namespace mtf::testing {

// Pseudorandom values in [-1, 1], by a linear congruential generator.
inline std::vector<double> SomeNumbers(int64_t count, uint64_t seed) {
  std::vector<double> numbers(count);
  uint64_t state = seed * 2654435761u + 12345;
  for (double& number : numbers) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    number = static_cast<double>(state >> 40) / (1 << 23) - 1.0;
  }
  return numbers;
}

class OracleGraph {
 public:
  Graph graph;
  OracleFeeds feeds;
  OracleVariables variables;

  // A parameter with `values`, or with pseudorandom numbers.
  Tensor Parameter(const std::string& name, Shape shape,
                   std::vector<double> values = {}) {
    if (values.empty()) {
      values = SomeNumbers(shape.num_elements(), ++seed_);
    }
    const Tensor x = Variable(graph, name, Zeros(graph, kFloat32, shape));
    variables[name] = {shape, kFloat32, std::move(values)};
    return x;
  }

  // An input of integers.
  Tensor Integers(const std::string& name, Shape shape,
                  const std::vector<int32_t>& values) {
    feeds[name] = HostTensor::Of<int32_t>(shape, values);
    return Input(graph, name, kInt32, shape);
  }

  // Sets all variables: to the value that the test has set; otherwise
  // parameters to pseudorandom numbers, so that no scale is 1 and no bias 0,
  // and others to 0.
  void Fill() {
    for (const VariableInfo& info : graph.variables()) {
      if (variables.contains(info.name)) continue;
      const int64_t count = info.shape.num_elements();
      variables[info.name] = {info.shape, info.dtype,
                              info.kind == VariableKind::kParameter
                                  ? SomeNumbers(count, ++seed_)
                                  : std::vector<double>(count, 0.0)};
    }
  }

  // The values of `fetches` after a step.
  std::vector<std::vector<double>> RunAll(const std::vector<Tensor>& fetches) {
    Fill();
    const auto values = Interpret(graph, feeds, fetches, &variables,
                                  {.seed = 7, .step = step_++});
    EXPECT_OK(values);
    std::vector<std::vector<double>> data(fetches.size());
    if (!values.ok()) return data;
    for (size_t i = 0; i < fetches.size(); ++i) data[i] = (*values)[i].data;
    return data;
  }
  std::vector<double> Run(Tensor fetch) { return RunAll({fetch})[0]; }

  // The current value of `variable`.
  const std::vector<double>& Value(const std::string& variable) {
    Fill();
    EXPECT_TRUE(variables.contains(variable)) << variable;
    return variables[variable].data;
  }

  // Expects that the gradients of the scalar `loss` with respect to all
  // trainable parameters agree with finite differences.
  void ExpectGradientsOf(Tensor loss) {
    Fill();
    std::vector<std::string> names;
    std::vector<Tensor> parameters;
    for (const VariableInfo& info : graph.variables()) {
      if (info.kind != VariableKind::kParameter || !info.trainable) continue;
      names.push_back(info.name);
      parameters.push_back(info.read);
    }
    const std::vector<Tensor> gradients = Gradients(loss, parameters);
    ASSERT_OK(graph.status());
    for (size_t i = 0; i < names.size(); ++i) {
      ASSERT_TRUE(gradients[i].valid()) << names[i];
      const std::vector<double> gradient = Run(gradients[i]);
      std::vector<double>& values = variables[names[i]].data;
      ASSERT_EQ(gradient.size(), values.size());
      for (size_t j = 0; j < values.size(); ++j) {
        constexpr double kStep = 1e-5;
        const double value = std::exchange(values[j], values[j] + kStep);
        const double above = Run(loss)[0];
        values[j] = value - kStep;
        const double below = Run(loss)[0];
        values[j] = value;
        const double slope = (above - below) / (2 * kStep);
        EXPECT_NEAR(gradient[j], slope, 1e-6 * (1 + std::abs(slope)))
            << names[i] << "[" << j << "]";
      }
    }
  }

 private:
  uint64_t seed_ = 0;
  uint32_t step_ = 0;
};

inline void ExpectNear(const std::vector<double>& actual,
                       const std::vector<double>& expected,
                       double tolerance = 1e-6) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i])))
        << "element " << i;
  }
}

// A scalar that depends on each element of `x` with a different weight.
inline Tensor Probe(OracleGraph& oracle, Tensor x) {
  const Tensor weights =
      Constant(oracle.graph, SomeNumbers(x.shape().num_elements(), 99),
               x.dtype(), x.shape());
  return ReduceSum(x * weights, {});
}

}  // namespace mtf::testing

#endif  // TESTS_NN_ORACLE_H_
