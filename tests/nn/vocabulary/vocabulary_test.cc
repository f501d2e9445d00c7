// SPDX-License-Identifier: Apache-2.0
//
// Embeddings and output layers for large vocabularies, against plain loops.
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "nn/layers/softmax.h"
#include "nn/vocabulary/adaptive_vocabulary.h"
#include "nn/vocabulary/factorized_embedding.h"
#include "nn/vocabulary/mixture_of_softmaxes.h"
#include "ops/einsum.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const Dimension kBatch{"batch", 4}, kModel{"d_model", 3}, kInner{"inner", 2},
    kVocab{"vocab", 7};

// [rows, n] times [n, columns].
std::vector<double> Product(const std::vector<double>& a,
                            const std::vector<double>& b, int rows, int n,
                            int columns) {
  std::vector<double> c(static_cast<size_t>(rows) * columns, 0.0);
  for (int i = 0; i < rows; ++i) {
    for (int k = 0; k < n; ++k) {
      for (int j = 0; j < columns; ++j) {
        c[i * columns + j] += a[i * n + k] * b[k * columns + j];
      }
    }
  }
  return c;
}

double Dot(const double* a, const double* b, int n) {
  return std::inner_product(a, a + n, b, 0.0);
}

TEST(FactorizedEmbedding, IsAProductOfTwoMatrices) {
  OracleGraph o;
  const Tensor tokens = o.Integers("tokens", {kBatch}, {6, 0, 3, 3});
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const nn::FactorizedTable table =
      nn::MakeFactorizedTable(o.graph, kVocab, kInner, kModel);
  const Tensor rows = nn::FactorizedEmbedding(tokens, table);
  const Tensor logits = nn::FactorizedLogits(x, table);
  ASSERT_OK(o.graph.status());
  o.Fill();
  const std::vector<double> product =
      Product(o.Value("factorized_embedding/table"),
              o.Value("factorized_embedding/projection"), 7, 2, 3);
  const std::vector<double> got = o.Run(rows), products = o.Run(logits);
  const int ids[] = {6, 0, 3, 3};
  for (int b = 0; b < 4; ++b) {
    for (int d = 0; d < 3; ++d) {
      EXPECT_NEAR(got[b * 3 + d], product[ids[b] * 3 + d], 1e-9);
    }
    for (int v = 0; v < 7; ++v) {
      EXPECT_NEAR(products[b * 7 + v],
                  Dot(&o.Value("x")[b * 3], &product[v * 3], 3), 1e-9);
    }
  }
  o.ExpectGradientsOf(testing::Probe(o, rows) + testing::Probe(o, logits));
}

// Clusters of tokens 0 to 2, 3 and 4, 5 and 6, the second without a projection.
nn::AdaptiveTable Clusters(OracleGraph& o, bool softmax) {
  return nn::MakeAdaptiveTable(
      o.graph, kVocab, kModel,
      {{.tokens = 3, .columns = 2}, {.tokens = 2}, {.tokens = 2, .columns = 1}},
      {.softmax = softmax});
}

// The table [rows, d_model] of cluster `c`.
std::vector<double> TableOf(OracleGraph& o, int c, int rows) {
  const std::string scope =
      "adaptive_embedding/cluster_" + std::to_string(c) + "/";
  const std::vector<double>& table = o.Value(scope + "table");
  if (c == 1) return table;
  return Product(table, o.Value(scope + "projection"), rows, c == 0 ? 2 : 1, 3);
}

TEST(AdaptiveEmbedding, LooksUpTheTableOfTheCluster) {
  OracleGraph o;
  const std::vector<int32_t> ids = {0, 1, 2, 3, 4, 5, 6, 7, -1};
  const Dimension many{"batch", 9};
  const Tensor tokens = o.Integers("tokens", {many}, ids);
  const nn::AdaptiveTable table = Clusters(o, false);
  const Tensor rows = nn::AdaptiveEmbedding(tokens, table);
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor logits = nn::AdaptiveLogits(x, table);
  ASSERT_OK(o.graph.status());
  o.Fill();
  std::vector<double> all;
  for (int c = 0; c < 3; ++c) {
    const std::vector<double> own = TableOf(o, c, c == 0 ? 3 : 2);
    all.insert(all.end(), own.begin(), own.end());
  }
  std::vector<double> want = all;
  want.resize(27, 0.0);  // no rows for 7 and -1
  testing::ExpectNear(o.Run(rows), want);
  std::vector<double> products;
  for (int b = 0; b < 4; ++b) {
    for (int v = 0; v < 7; ++v) {
      products.push_back(Dot(&o.Value("x")[b * 3], &all[v * 3], 3));
    }
  }
  testing::ExpectNear(o.Run(logits), products);
  o.ExpectGradientsOf(testing::Probe(o, rows) + testing::Probe(o, logits));
}

TEST(AdaptiveSoftmax, SumsToOneAndEqualsLoops) {
  OracleGraph o;
  const nn::AdaptiveTable table = Clusters(o, true);
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor logs = nn::AdaptiveLogSoftmax(x, table);
  const Tensor targets = o.Integers("targets", {kBatch}, {1, 3, 6, 4});
  const Tensor weights = Constant(o.graph, {1, 2, 0, 1}, kFloat32, {kBatch});
  const Tensor loss = nn::AdaptiveCrossEntropy(x, table, targets);
  const Tensor weighted =
      nn::AdaptiveCrossEntropy(x, table, targets, {.weights = weights});
  const Tensor each =
      nn::AdaptiveCrossEntropy(x, table, targets, {.per_position = true});
  ASSERT_OK(o.graph.status());
  o.Fill();
  const std::vector<double> got = o.Run(logs);
  const auto log_softmax = [&](int b, int c, int rows) {
    const std::vector<double> own = TableOf(o, c, rows);
    std::vector<double> logits(rows);
    double sum = 0;
    for (int v = 0; v < rows; ++v) {
      logits[v] = Dot(&o.Value("x")[b * 3], &own[v * 3], 3);
      sum += std::exp(logits[v]);
    }
    for (double& logit : logits) logit -= std::log(sum);
    return logits;
  };
  for (int b = 0; b < 4; ++b) {
    const std::vector<double> first = log_softmax(b, 0, 5);
    std::vector<double> want(first.begin(), first.begin() + 3);
    for (int c = 1; c < 3; ++c) {
      for (const double log : log_softmax(b, c, 2)) {
        want.push_back(first[3 + c - 1] + log);
      }
    }
    double sum = 0;
    for (int v = 0; v < 7; ++v) {
      EXPECT_NEAR(got[b * 7 + v], want[v], 1e-6);
      sum += std::exp(got[b * 7 + v]);
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
  const double a = -got[1], b = -got[7 + 3], c = -got[14 + 6], d = -got[21 + 4];
  EXPECT_NEAR(o.Run(loss)[0], (a + b + c + d) / 4, 1e-6);
  EXPECT_NEAR(o.Run(weighted)[0], (a + 2 * b + d) / 4, 1e-6);
  testing::ExpectNear(o.Run(each), {a, b, c, d});
  o.ExpectGradientsOf(loss + testing::Probe(o, logs));
}

TEST(MixtureOfSoftmaxes, OfOneComponentIsASoftmax) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor table = o.Parameter("table", {kVocab, kModel});
  const Tensor logs = nn::MixtureOfSoftmaxes(
      x, kVocab, {.components = {"components", 1}, .table = table});
  ASSERT_OK(o.graph.status());
  o.Fill();
  std::vector<double> h = Product(
      o.Value("x"), o.Value("mixture_of_softmaxes/context/kernel"), 4, 3, 3);
  for (double& each : h) each = std::tanh(each);
  const Tensor hidden = Constant(o.graph, h, kFloat32, {kBatch, kModel});
  const Tensor want =
      nn::LogSoftmax(Einsum({hidden, table}, {kBatch, kVocab}), kVocab);
  testing::ExpectNear(o.Run(logs), o.Run(want), 1e-6);
}

TEST(MixtureOfSoftmaxes, EqualsLoops) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor logs =
      nn::MixtureOfSoftmaxes(x, kVocab, {.components = {"components", 2}});
  ASSERT_OK(o.graph.status());
  const std::vector<double> got = o.Run(logs), xs = o.Value("x"),
                            w = o.Value("mixture_of_softmaxes/kernel"),
                            prior = Product(
                                xs,
                                o.Value("mixture_of_softmaxes/prior/kernel"), 4,
                                3, 2),
                            context = Product(
                                xs,
                                o.Value("mixture_of_softmaxes/context/kernel"),
                                4, 3, 6);
  for (int b = 0; b < 4; ++b) {
    std::vector<double> want(7, 0.0);
    for (int k = 0; k < 2; ++k) {
      std::vector<double> p(7, 0.0);
      double sum = 0;
      for (int v = 0; v < 7; ++v) {
        for (int d = 0; d < 3; ++d) {
          p[v] += std::tanh(context[(b * 2 + k) * 3 + d]) * w[d * 7 + v];
        }
        sum += p[v] = std::exp(p[v]);
      }
      const double share =
          1 / (1 + std::exp(prior[b * 2 + 1 - k] - prior[b * 2 + k]));
      for (int v = 0; v < 7; ++v) want[v] += share * p[v] / sum;
    }
    for (int v = 0; v < 7; ++v) {
      EXPECT_NEAR(got[b * 7 + v], std::log(want[v]), 1e-6);
    }
  }
  o.ExpectGradientsOf(testing::Probe(o, logs));
}

TEST(Mixtape, EqualsLoops) {
  for (const int frequent : {0, 3, 7}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kBatch, kModel});
    const Tensor logits =
        nn::Mixtape(x, kVocab, {.d_gate = {"d_gate", 2}, .frequent = frequent});
    ASSERT_OK(o.graph.status());
    const std::vector<double> got = o.Run(logits), xs = o.Value("x");
    const auto linear = [&](const std::string& name, int n, bool bias) {
      std::vector<double> y =
          Product(xs, o.Value("mixtape/" + name + "/kernel"), 4, 3, n);
      for (int i = 0; bias && i < 4 * n; ++i) {
        y[i] += o.Value("mixtape/" + name + "/bias")[i % n];
      }
      return y;
    };
    const std::vector<double> context = linear("context", 12, true),
                              shared = linear("shared", 3, false),
                              w = o.Value("mixtape/kernel");
    std::vector<double> gate, u, bias;
    if (frequent > 0) {
      gate = linear("gate", 6, true);
      u = o.Value("mixtape/frequent/kernel");
      bias = o.Value("mixtape/frequent_bias");
    }
    for (int b = 0; b < 4; ++b) {
      for (int v = 0; v < 7; ++v) {
        double s[3];
        for (int j = 0; j < 3; ++j) {
          double node = shared[b * 3 + j];
          if (v < frequent) {
            node += bias[j * frequent + v];
            for (int g = 0; g < 2; ++g) {
              node +=
                  std::tanh(gate[(b * 3 + j) * 2 + g]) * u[g * frequent + v];
            }
          }
          s[j] = 1 / (1 + std::exp(-node));
        }
        const double pi[] = {s[0] * s[1], s[0] * (1 - s[1]), (1 - s[0]) * s[2],
                             (1 - s[0]) * (1 - s[2])};
        double want = 0;
        for (int k = 0; k < 4; ++k) {
          for (int d = 0; d < 3; ++d) {
            want +=
                pi[k] * std::tanh(context[(b * 4 + k) * 3 + d]) * w[d * 7 + v];
          }
        }
        EXPECT_NEAR(got[b * 7 + v], want, 1e-6);
      }
    }
    o.ExpectGradientsOf(testing::Probe(o, logits));
  }
}

TEST(Mixtape, HasNoNoiseInEvaluation) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const nn::MixtapeOptions options = {.dropout = 0.5, .noise = 1};
  const Tensor y = nn::Mixtape(x, kVocab, options);
  EXPECT_NE(o.Run(y), o.Run(y));  // another step
  const ModeScope mode(o.graph, Mode::kEvaluate);
  const Tensor z = nn::Mixtape(x, kVocab, options);
  EXPECT_EQ(o.Run(z), o.Run(z));
}

TEST(VocabularyErrors, SayWhatIsWrong) {
  const auto error = [](const std::function<void(Graph&, Tensor)>& make) {
    Graph graph;
    make(graph, Input(graph, "x", kFloat32, {kBatch, kModel}));
    return graph.status();
  };
  const auto clusters = [&](std::vector<nn::VocabularyCluster> list) {
    return error([&](Graph& g, Tensor) {
      nn::MakeAdaptiveTable(g, kVocab, kModel, list);
    });
  };
  EXPECT_THAT(clusters({{.tokens = 3}, {.tokens = 2}}),
              StatusIs(kInvalid, HasSubstr("the clusters have 5 tokens, but "
                                           "\"vocab\" is 7")));
  EXPECT_THAT(clusters({{.tokens = 7}, {.tokens = 1}}),
              StatusIs(kInvalid, HasSubstr("cluster 1 has 1 tokens")));
  EXPECT_THAT(clusters({}), StatusIs(kInvalid, HasSubstr("have 0 tokens")));
  const auto plain = [](Graph& g) {
    return nn::MakeAdaptiveTable(g, kVocab, kModel,
                                 {{.tokens = 4}, {.tokens = 3}});
  };
  EXPECT_THAT(
      error([&](Graph& g, Tensor x) { nn::AdaptiveLogSoftmax(x, plain(g)); }),
      StatusIs(kInvalid, HasSubstr("not for an adaptive softmax")));
  EXPECT_THAT(
      error([&](Graph& g, Tensor x) { nn::AdaptiveEmbedding(x, plain(g)); }),
      StatusIs(kInvalid, HasSubstr("must have an integer dtype")));
  EXPECT_THAT(error([&](Graph& g, Tensor x) {
                const nn::AdaptiveTable table = nn::MakeAdaptiveTable(
                    g, kVocab, kModel, {{.tokens = 4}, {.tokens = 3}},
                    {.softmax = true});
                nn::AdaptiveCrossEntropy(x, table, Zeros(g, kInt32, {kBatch}),
                                         {.label_smoothing = 0.1});
              }),
              StatusIs(kInvalid, HasSubstr("no .label_smoothing")));
  EXPECT_THAT(error([](Graph& g, Tensor x) {
                nn::FactorizedLogits(x, nn::MakeFactorizedTable(
                                            g, kVocab, kInner, {"d_other", 3}));
              }),
              StatusIs(kInvalid, HasSubstr("d_other")));
  EXPECT_THAT(
      error([](Graph&, Tensor x) {
        nn::MixtureOfSoftmaxes(x, kVocab, {.components = {"components", 0}});
      }),
      StatusIs(kInvalid, HasSubstr("at least one component")));
  EXPECT_THAT(error([](Graph& g, Tensor x) {
                nn::MixtureOfSoftmaxes(x, kVocab,
                                       {.table = Ones(g, kFloat32, {kVocab})});
              }),
              StatusIs(kInvalid, HasSubstr("the table is [vocab=7]")));
  EXPECT_THAT(
      error([](Graph&, Tensor x) { nn::Mixtape(x, kVocab, {.frequent = 8}); }),
      StatusIs(kInvalid, HasSubstr(".frequent is 8, not in [-1, 7]")));
}

}  // namespace
}  // namespace mtf
