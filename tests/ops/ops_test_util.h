// SPDX-License-Identifier: Apache-2.0
//
// Helpers for tests of operations: values by named index, gradients against
// finite differences, errors by code, text and line.
#ifndef TESTS_OPS_OPS_TEST_UTIL_H_
#define TESTS_OPS_OPS_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/reference/interpreter.h"
#include "mtf/graph.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"

// This line as errors print it: "einsum_test.cc:41)".
#define MTF_HERE \
  absl::StrCat(  \
      ::mtf::CallSite::Of(std::source_location::current()).ToString(), ")")

namespace mtf::testing {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

inline constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// The index of an element by dimension: {{"batch", 2}, {"length", 3}}.
using ElementIndex = std::map<std::string, int64_t>;

// Calls visit(index) for each element of `shape` in row-major order.
inline void ForEachElement(
    const Shape& shape, const std::function<void(const ElementIndex&)>& visit) {
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    ElementIndex index;
    int64_t rest = i;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      index[shape[d].name] = rest % shape[d].size;
      rest /= shape[d].size;
    }
    visit(index);
  }
}

// Element `index` of `tensor`; names that the tensor lacks are ignored.
inline double At(const OracleTensor& tensor, const ElementIndex& index) {
  int64_t i = 0;
  for (const Dimension& dim : tensor.shape) {
    i = i * dim.size + index.at(dim.name);
  }
  return tensor.data.at(i);
}

// Expects that every element of `tensor` is expected(index).
inline void ExpectElements(
    const OracleTensor& tensor,
    const std::function<double(const ElementIndex&)>& expected,
    double tolerance = 1e-9) {
  ASSERT_EQ(static_cast<int64_t>(tensor.data.size()),
            tensor.shape.num_elements());
  int64_t i = 0;
  ForEachElement(tensor.shape, [&](const ElementIndex& index) {
    const double want = expected(index), got = tensor.data[i++];
    if (std::isnan(want) || std::isinf(want)) {
      EXPECT_TRUE(want == got || (std::isnan(want) && std::isnan(got)))
          << "element " << i - 1 << " of [" << tensor.shape.ToString()
          << "]: " << got << ", not " << want;
    } else {
      EXPECT_NEAR(got, want, tolerance * (1 + std::abs(want)))
          << "element " << i - 1 << " of [" << tensor.shape.ToString() << "]";
    }
  });
}

// The value of `x`, which depends on no feed.
inline OracleTensor Fetch(Tensor x, InterpretOptions options = {}) {
  const auto values = Interpret(x.graph(), {}, {x}, nullptr, options);
  EXPECT_OK(values);
  return values.ok() ? (*values)[0] : OracleTensor{};
}

inline std::vector<double> DataOf(Tensor x) { return Fetch(x).data; }

// Pseudorandom numbers in [low, high), a function of the seed.
inline OracleTensor Numbers(Shape shape, uint32_t seed, double low = -2,
                            double high = 2) {
  std::mt19937 random(seed);
  OracleTensor tensor{shape, kFloat32, {}};
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    tensor.data.push_back(low + (high - low) * random() / 0x1p32);
  }
  return tensor;
}

inline Tensor ConstantOf(Graph& graph, const OracleTensor& tensor) {
  return Constant(graph, tensor.data, tensor.dtype, tensor.shape);
}

// Expects that `make` records an error with `code` in its graph, whose message
// contains all `words` and the name of the calling file.
inline void ExpectError(
    const std::function<void(Graph&)>& make,
    const std::vector<std::string>& words, absl::StatusCode code = kInvalid,
    std::source_location location = std::source_location::current()) {
  Graph graph;
  make(graph);
  for (const std::string& word : words) {
    EXPECT_THAT(graph.status(), StatusIs(code, HasSubstr(word)))
        << "called at line " << location.line();
  }
  const std::string site = absl::StrCat(", ", CallSite::Of(location).file, ":");
  EXPECT_THAT(graph.status(), StatusIs(code, HasSubstr(site)))
      << "called at line " << location.line();
}

using Builder = std::function<Tensor(Graph&, const std::vector<Tensor>&)>;

// Expects that the gradients of y = build(xs) at `points`, under a random dy,
// agree with central differences, computed by the oracle in double precision.
inline void ExpectGradients(const std::vector<OracleTensor>& points,
                            const Builder& build, double tolerance = 1e-6) {
  Graph graph;
  OracleVariables values;
  std::vector<Tensor> xs;
  for (size_t i = 0; i < points.size(); ++i) {
    const std::string name = absl::StrCat("x", i);
    xs.push_back(
        Variable(graph, name, Zeros(graph, points[i].dtype, points[i].shape)));
    values[name] = points[i];
  }
  const Tensor y = build(graph, xs);
  ASSERT_OK(graph.status());
  const Tensor dy = ConstantOf(graph, Numbers(y.shape(), 4711, 0.5, 1.5));
  const Tensor sum = ReduceSum(y * Cast(dy, y.dtype()), {});
  const std::vector<Tensor> gradients = Gradients(y, xs, Cast(dy, y.dtype()));
  ASSERT_OK(graph.status());
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!IsFloat(xs[i].dtype())) {
      EXPECT_FALSE(gradients[i].valid()) << "x" << i << " is an integer";
      continue;
    }
    ASSERT_TRUE(gradients[i].valid()) << "no gradient for x" << i;
    EXPECT_EQ(gradients[i].shape(), xs[i].shape()) << "x" << i;
    EXPECT_EQ(gradients[i].dtype(), xs[i].dtype()) << "x" << i;
    const auto found = Interpret(graph, {}, {gradients[i]}, &values);
    ASSERT_OK(found);
    std::vector<double>& x = values[absl::StrCat("x", i)].data;
    for (size_t k = 0; k < x.size(); ++k) {
      constexpr double kStep = 1e-5;
      const double middle = x[k];
      x[k] = middle + kStep;
      const double above = (*Interpret(graph, {}, {sum}, &values))[0].data[0];
      x[k] = middle - kStep;
      const double below = (*Interpret(graph, {}, {sum}, &values))[0].data[0];
      x[k] = middle;
      const double slope = (above - below) / (2 * kStep);
      EXPECT_NEAR((*found)[0].data[k], slope, tolerance * (1 + std::abs(slope)))
          << "x" << i << "[" << k << "]";
    }
  }
}

// ExpectGradients for `build` and for its gradients.
inline void ExpectSecondGradients(const std::vector<OracleTensor>& points,
                                  const Builder& build,
                                  double tolerance = 1e-5) {
  ExpectGradients(points, build);
  const Builder gradient = [&](Graph& graph, const std::vector<Tensor>& xs) {
    const Tensor y = build(graph, xs);
    std::vector<Tensor> terms;
    // Square y, so that the second order of a linear function is not 0.
    for (Tensor g : Gradients(Square(y), xs)) {
      if (!g.valid()) continue;
      const Tensor weights =
          ConstantOf(graph, Numbers(g.shape(), 815, 0.5, 1.5));
      terms.push_back(ReduceSum(g * weights, {}));
    }
    return AddN(terms);
  };
  ExpectGradients(points, gradient, tolerance);
}

}  // namespace mtf::testing

#endif  // TESTS_OPS_OPS_TEST_UTIL_H_
