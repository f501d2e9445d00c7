// SPDX-License-Identifier: Apache-2.0
//
// How the tests of ops/ look at operations: values by named place, gradients
// against finite differences, errors by code, words and line.
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

// The place of this line as errors print it: "einsum_test.cc:41)".
#define MTF_HERE \
  absl::StrCat(  \
      ::mtf::CallSite::Of(std::source_location::current()).ToString(), ")")

namespace mtf::testing {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

inline constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// An element by name: {{"batch", 2}, {"length", 3}}.
using Place = std::map<std::string, int64_t>;

// Calls `visit(place)` for all places of `shape`, row-major.
inline void ForEachPlace(const Shape& shape,
                         const std::function<void(const Place&)>& visit) {
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    Place place;
    int64_t rest = i;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      place[shape[d].name] = rest % shape[d].size;
      rest /= shape[d].size;
    }
    visit(place);
  }
}

// Element `place` of `tensor`; names that the tensor lacks are ignored.
inline double At(const OracleTensor& tensor, const Place& place) {
  int64_t i = 0;
  for (const Dimension& dim : tensor.shape) {
    i = i * dim.size + place.at(dim.name);
  }
  return tensor.data.at(i);
}

// `tensor` holds `expected(place)` at every place.
inline void ExpectElements(const OracleTensor& tensor,
                           const std::function<double(const Place&)>& expected,
                           double tolerance = 1e-9) {
  ASSERT_EQ(static_cast<int64_t>(tensor.data.size()),
            tensor.shape.num_elements());
  int64_t i = 0;
  ForEachPlace(tensor.shape, [&](const Place& place) {
    const double want = expected(place), got = tensor.data[i++];
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

// The value of `x` in a graph that is fed nothing.
inline OracleTensor Fetch(Tensor x, InterpretOptions options = {}) {
  const auto values = Interpret(x.graph(), {}, {x}, nullptr, options);
  EXPECT_OK(values);
  return values.ok() ? (*values)[0] : OracleTensor{};
}

inline std::vector<double> DataOf(Tensor x) { return Fetch(x).data; }

// Numbers in [low, high), the same for the same seed.
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

// `make` leaves `code` in its graph, with all `words` and the name of the file
// that calls this.
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
  const std::string place =
      absl::StrCat(", ", CallSite::Of(location).file, ":");
  EXPECT_THAT(graph.status(), StatusIs(code, HasSubstr(place)))
      << "called at line " << location.line();
}

using Builder = std::function<Tensor(Graph&, const std::vector<Tensor>&)>;

// y = build(xs) at `points`: Gradients() of y under a random dy agree with
// central differences of the oracle, which computes in double precision.
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

// The same, and then for the gradients as functions of the same points.
inline void ExpectSecondGradients(const std::vector<OracleTensor>& points,
                                  const Builder& build,
                                  double tolerance = 1e-5) {
  ExpectGradients(points, build);
  const Builder gradient = [&](Graph& graph, const std::vector<Tensor>& xs) {
    const Tensor y = build(graph, xs);
    std::vector<Tensor> terms;
    // Squares make even a linear function's second order something to check.
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
