// SPDX-License-Identifier: Apache-2.0
//
// Moving averages of parameters, and networks that read them.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "nn/layers/dense.h"
#include "nn/optimizers/sgd.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Dimension kIo{"io", 3};

Tensor Network(Tensor x) {
  x = nn::Dense(x, {kIo}, {kIo}, {.activation = Tanh});
  return nn::Dense(x, {kIo}, {kIo}, {.name = "last"});
}

// A network that is trained, built again, and built again with averages.
struct ThreeNetworks {
  OracleGraph o;
  const PrecisionScope precision;
  Tensor x, step, now, averaged;

  explicit ThreeNetworks(const Precision& precision)
      : precision(o.graph, precision) {
    x = Input(o.graph, "x", kFloat32, {kIo});
    o.feeds["x"] = HostTensor::Of<float>({kIo}, {0.5f, -1.0f, 2.0f});
    Tensor y;
    {
      const Scope network(o.graph, "network");
      y = Network(x);
    }
    const Tensor loss = ReduceSum(Square(Cast(y, kFloat32) - 1.0), {});
    step = nn::Sgd(
               {.learning_rate = 0.1,
                .groups = {{.parameters = "network/last/bias", .frozen = true}},
                .average_decay = 0.75})
               .Minimize(loss);
    {
      const Scope network(o.graph, "network", Scope::kReuse);
      now = Network(x);
    }
    const Scope network(o.graph, "network", Scope::kReuse);
    const AverageScope averages(o.graph);
    averaged = Network(x);
  }
};

TEST(AverageScope, ReadsAverages) {
  for (const Precision& precision :
       {Precision(), Precision{.parameters = kBFloat16}}) {
    ThreeNetworks f(precision);
    ASSERT_OK(f.o.graph.status());
    ASSERT_OK(InitializeVariables(f.o.graph, 1, &f.o.variables));
    // The averages begin with the initial values, before these were rounded.
    for (const VariableInfo& info : f.o.graph.variables()) {
      if (info.kind != VariableKind::kParameter) continue;
      if (info.name == "network/last/bias") {
        EXPECT_EQ(info.average, -1);
        continue;
      }
      const std::string master =
          info.master < 0 ? info.name : f.o.graph.variables()[info.master].name;
      EXPECT_EQ(f.o.Value(absl::StrCat("sgd/", info.name, "/average")),
                f.o.Value(master));
    }
    for (int i = 0; i < 3; ++i) f.o.Run(f.step);
    const auto both = f.o.RunAll({f.now, f.averaged});
    EXPECT_NE(both[0], both[1]);
    // The network itself, with the averages as its parameters.
    for (const VariableInfo& info : f.o.graph.variables()) {
      if (info.average < 0) continue;
      f.o.variables[info.name].data =
          f.o.Value(f.o.graph.variables()[info.average].name);
    }
    if (precision.parameters == kFloat32) {
      EXPECT_EQ(f.o.Run(f.now), both[1]);
    } else {
      testing::ExpectNear(f.o.Run(f.now), both[1], 1e-2);
    }
  }
}

// What is computed again reads what it read the first time.
TEST(AverageScope, IsPartOfTheStateOfARecomputeScope) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {kIo}));
  nn::Sgd({.average_decay = 0.5}).Minimize(ReduceSum(w, {}));
  const RecomputeScope::State without(graph);
  const AverageScope averages(graph);
  const RecomputeScope::State with(graph);
  const auto read = [&](const RecomputeScope::State& state) {
    const RecomputeScope again(graph, state);
    return Variable(graph, "w", Ones(graph, kFloat32, {kIo}));
  };
  EXPECT_TRUE(SameTensor(read(without), w));
  EXPECT_EQ(graph.FindVariable(read(with))->name, "sgd/w/average");
  EXPECT_OK(graph.status());
}

TEST(AverageScopeErrors, NoAverages) {
  Graph graph;
  Variable(graph, "w", Ones(graph, kFloat32, {kIo}));
  const int line = __LINE__ + 1;
  const AverageScope averages(graph);
  EXPECT_THAT(
      graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(absl::StrCat(
                         "no parameter has a moving average (average_scope, "
                         "average_scope_test.cc:",
                         line, ")")),
                     HasSubstr("set .average_decay of the optimizer"))));
}

TEST(AverageScopeErrors, TwoAveragesOfAParameter) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {kIo}));
  const nn::Optimizer sgd = nn::Sgd({.average_decay = 0.5});
  sgd.Minimize(ReduceSum(w, {}));
  const int line = __LINE__ + 1;
  sgd.Minimize(ReduceSum(w, {}));
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr(absl::StrCat(
                           "parameter \"w\" already has the moving average "
                           "\"sgd/w/average\" (sgd, average_scope_test.cc:",
                           line, ")"))));
}

}  // namespace
}  // namespace mtf
