// SPDX-License-Identifier: Apache-2.0
//
// Attention layers that change logits or weights: against plain loops, or
// against plain attention where they reduce to it.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "nn/attention/branched_attention.h"
#include "nn/attention/talking_heads_attention.h"
#include "nn/layers/feed_forward.h"
#include "ops/reshape.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const Dimension kBatch{"batch", 2}, kLength{"length", 4}, kModel{"d_model", 3},
    kHeads{"heads", 2}, kKey{"d_kv", 2}, kMemory{"memory_length", 5},
    kFirst{"key_heads", 3}, kLast{"value_heads", 4};

nn::AttentionOptions Options(bool causal = false) {
  return {.length = kLength, .heads = kHeads, .d_kv = kKey, .causal = causal};
}

std::vector<double> Identity(int n) {
  std::vector<double> values(static_cast<size_t>(n) * n, 0.0);
  for (int i = 0; i < n; ++i) values[i * n + i] = 1;
  return values;
}

// Layers in the scope "net", and plain attention with the same projections.
TEST(TalkingHeads, WithIdentityKernelsAreAttention) {
  for (const bool causal : {false, true}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
    nn::AttentionOptions options = Options(causal);
    options.position_bias =
        o.Parameter("bias", {kHeads, kLength, {"memory_length", 4}});
    options.bias = true;
    options.soft_cap = 2;
    options.window = 3;
    Tensor plain, mixed;
    {
      const Scope scope(o.graph, "net");
      plain = nn::SelfAttention(x, options);
    }
    {
      const Scope scope(o.graph, "net", Scope::kReuse);
      mixed = nn::TalkingHeadsAttention(x, options, {});
    }
    ASSERT_OK(o.graph.status());
    testing::ExpectNear(o.Run(mixed), o.Run(plain), 1e-9);

    // The same heads under other names, mixed by identity.
    OracleGraph p;
    const Tensor y = p.Parameter("x", {kBatch, kLength, kModel});
    options.position_bias =
        p.Parameter("bias", {kHeads, kLength, {"memory_length", 4}});
    Tensor talking;
    {
      const Scope scope(p.graph, "net");
      talking = nn::TalkingHeadsAttention(
          y, options,
          {.key_heads = {"key_heads", 2}, .value_heads = {"value_heads", 2}});
    }
    for (const VariableInfo& info : p.graph.variables()) {
      const bool mixes = info.name.find("_heads/") != std::string::npos;
      p.variables[info.name] = {info.shape, info.dtype,
                                mixes ? Identity(2) : o.Value(info.name)};
    }
    testing::ExpectNear(p.Run(talking), o.Run(plain), 1e-9);
  }
}

TEST(TalkingHeads, MixLogitsAndWeightsByLoops) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kLength, kModel}),
               memory = o.Parameter("memory", {kMemory, kModel});
  nn::AttentionOptions options = Options();
  options.memory_length = kMemory;
  options.scale = 0.7;
  const nn::TalkingHeadsOptions heads = {.key_heads = kFirst,
                                         .value_heads = kLast,
                                         .dynamic_queries = true,
                                         .dynamic_keys = true};
  const Tensor y = nn::TalkingHeadsAttention(x, options, heads, memory);
  ASSERT_OK(o.graph.status());
  const std::vector<double> got = o.Run(y);
  const auto value = [&](const std::string& name) {
    return name == "x" || name == "memory" ? o.Value(name)
                                           : o.Value("attention/" + name);
  };
  const std::vector<double> xs = value("x"), ms = value("memory"),
                            wq = value("query/kernel"),
                            wk = value("key/kernel"),
                            wv = value("value/kernel"),
                            wo = value("output/kernel");
  // Element [from, to] of a mixing kernel at a query and a key.
  const auto mixing = [&](const std::string& name, int from_count, int to_count,
                          int q, int k, int from, int to) {
    const int at = from * to_count + to, size = from_count * to_count;
    double sum = value(name + "/kernel")[at];
    for (int d = 0; d < 3; ++d) {
      sum += xs[q * 3 + d] *
             value(name + "/dynamic_queries/kernel")[d * size + at];
      sum +=
          ms[k * 3 + d] * value(name + "/dynamic_keys/kernel")[d * size + at];
    }
    return sum;
  };
  // x w over d_model, of a kernel [d_model, heads, 2].
  const auto project = [](const std::vector<double>& in, int row,
                          const std::vector<double>& w, int count, int h,
                          int c) {
    double sum = 0;
    for (int d = 0; d < 3; ++d) {
      sum += in[row * 3 + d] * w[(d * count + h) * 2 + c];
    }
    return sum;
  };
  for (int i = 0; i < 4; ++i) {
    std::vector<double> want(3, 0.0);
    std::vector<std::vector<double>> p(2, std::vector<double>(5, 0.0));
    for (int h = 0; h < 2; ++h) {
      double total = 0;
      for (int j = 0; j < 5; ++j) {
        for (int f = 0; f < 3; ++f) {
          double dot = 0;
          for (int c = 0; c < 2; ++c) {
            dot += project(xs, i, wq, 3, f, c) * project(ms, j, wk, 3, f, c);
          }
          p[h][j] += 0.7 * dot * mixing("logit_heads", 3, 2, i, j, f, h);
        }
        p[h][j] = std::exp(p[h][j]);
        total += p[h][j];
      }
      for (double& each : p[h]) each /= total;
    }
    for (int l = 0; l < 4; ++l) {
      for (int c = 0; c < 2; ++c) {
        double sum = 0;
        for (int j = 0; j < 5; ++j) {
          double weight = 0;
          for (int h = 0; h < 2; ++h) {
            weight += p[h][j] * mixing("weight_heads", 2, 4, i, j, h, l);
          }
          sum += weight * project(ms, j, wv, 4, l, c);
        }
        for (int d = 0; d < 3; ++d) want[d] += sum * wo[(l * 2 + c) * 3 + d];
      }
    }
    for (int d = 0; d < 3; ++d) EXPECT_NEAR(got[i * 3 + d], want[d], 1e-6);
  }
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(BilinearAttention, IsAttentionWithoutProjectionsOfTheMemory) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kLength, kModel});
  const Tensor y = nn::BilinearAttention(x, Options(true));
  ASSERT_OK(o.graph.status());
  const std::vector<double> got = o.Run(y), xs = o.Value("x"),
                            wq = o.Value("attention/query/kernel"),
                            wo = o.Value("attention/output/kernel");
  for (int i = 0; i < 4; ++i) {
    std::vector<double> want(3, 0.0);
    for (int h = 0; h < 2; ++h) {
      std::vector<double> p(i + 1);
      double total = 0;
      for (int j = 0; j <= i; ++j) {
        for (int a = 0; a < 3; ++a) {
          for (int b = 0; b < 3; ++b) {
            p[j] += xs[i * 3 + a] * wq[(a * 2 + h) * 3 + b] * xs[j * 3 + b];
          }
        }
        total += p[j] = std::exp(p[j] / std::sqrt(3.0));
      }
      for (int j = 0; j <= i; ++j) {
        for (int b = 0; b < 3; ++b) {
          for (int d = 0; d < 3; ++d) {
            want[d] += p[j] / total * xs[j * 3 + b] * wo[(h * 3 + b) * 3 + d];
          }
        }
      }
    }
    for (int d = 0; d < 3; ++d) EXPECT_NEAR(got[i * 3 + d], want[d], 1e-6);
  }
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(HybridAttention, MixesTwoNormalizations) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kLength, kModel});
  nn::AttentionOptions options = Options();
  // Key 3 is masked for all queries; query 0 sees keys 1 and 2.
  options.mask =
      Constant(o.graph, {0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0}, kBool,
               {kLength, {"memory_length", 4}});
  Tensor y, plain;
  {
    const Scope scope(o.graph, "net");
    y = nn::HybridAttention(x, options);
  }
  {
    const Scope scope(o.graph, "net", Scope::kReuse);
    plain = nn::SelfAttention(x, options);
  }
  ASSERT_OK(o.graph.status());
  o.variables["net/attention/mix"] = {{kHeads}, kFloat32, {-0.5, 0.25}};
  const std::vector<double> got = o.Run(y), xs = o.Value("x"),
                            wq = o.Value("net/attention/query/kernel"),
                            wk = o.Value("net/attention/key/kernel"),
                            wv = o.Value("net/attention/value/kernel"),
                            wo = o.Value("net/attention/output/kernel");
  const auto project = [&](const std::vector<double>& w, int i, int h, int c) {
    double sum = 0;
    for (int d = 0; d < 3; ++d) sum += xs[i * 3 + d] * w[(d * 2 + h) * 2 + c];
    return sum;
  };
  std::vector<double> want(12, 0.0);
  for (int h = 0; h < 2; ++h) {
    std::vector<std::vector<double>> e(4, std::vector<double>(4, 0.0));
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 3; ++j) {
        if (i == 0 && j == 0) continue;
        double dot = 0;
        for (int c = 0; c < 2; ++c)
          dot += project(wq, i, h, c) * project(wk, j, h, c);
        e[i][j] = std::exp(dot / std::sqrt(2.0));
      }
    }
    const double share = h == 0 ? 0 : 0.25;
    for (int i = 0; i < 4; ++i) {
      double row = 0, doubly = 0;
      std::vector<double> lower(4, 0.0);
      for (int j = 0; j < 3; ++j) {
        double column = 0;
        for (int k = 0; k < 4; ++k) column += e[k][j];
        lower[j] = e[i][j] / column;
        doubly += lower[j];
        row += e[i][j];
      }
      for (int j = 0; j < 3; ++j) {
        const double weight =
            share * lower[j] / doubly + (1 - share) * e[i][j] / row;
        for (int c = 0; c < 2; ++c) {
          for (int d = 0; d < 3; ++d) {
            want[i * 3 + d] +=
                weight * project(wv, j, h, c) * wo[(h * 2 + c) * 3 + d];
          }
        }
      }
    }
  }
  testing::ExpectNear(got, want, 1e-6);
  o.variables["net/attention/mix"].data = {0.4, 0.7};
  o.ExpectGradientsOf(testing::Probe(o, y));
  // Without a share of the other, it is plain attention.
  o.variables["net/attention/mix"].data = {0, -3};
  testing::ExpectNear(o.Run(y), o.Run(plain), 1e-9);
}

TEST(BranchedAttention, IsASumOfBranches) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Dimension d_ff{"d_ff", 4};
  const Tensor y = nn::BranchedAttention(x, d_ff, Tanh, Options(true));
  ASSERT_OK(o.graph.status());
  o.Fill();
  // Each branch is attention with one head, then the feed-forward layer.
  std::vector<double> want(24, 0.0);
  const auto share = [&](const std::string& name, int h) {
    const std::vector<double> w = o.Value("attention/" + name);
    return std::exp(w[h]) / (std::exp(w[0]) + std::exp(w[1]));
  };
  for (int h = 0; h < 2; ++h) {
    OracleGraph one;
    const Tensor z = one.Parameter("x", {kBatch, kLength, kModel});
    nn::AttentionOptions options = Options(true);
    options.heads.size = 1;
    const Tensor head = nn::SelfAttention(z, options);
    const Tensor branch =
        nn::FeedForward(head * share("kappa", h), d_ff, Tanh) *
        share("alpha", h);
    one.variables["x"].data = o.Value("x");
    for (const VariableInfo& info : one.graph.variables()) {
      if (info.name == "x") continue;
      const bool of_head = info.name.starts_with("attention/");
      const std::vector<double>& all =
          o.Value(of_head ? info.name : "attention/" + info.name);
      std::vector<double> own = all;
      if (info.name == "attention/output/kernel") {
        own.assign(all.begin() + h * 6, all.begin() + h * 6 + 6);
      } else if (of_head) {  // [d_model, heads, d_kv]
        own.clear();
        for (int d = 0; d < 3; ++d) {
          for (int c = 0; c < 2; ++c) own.push_back(all[(d * 2 + h) * 2 + c]);
        }
      }
      one.variables[info.name] = {info.shape, info.dtype, own};
    }
    const std::vector<double> part = one.Run(branch);
    for (size_t i = 0; i < want.size(); ++i) want[i] += part[i];
  }
  testing::ExpectNear(o.Run(y), want, 1e-9);
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(LogitAttentionErrors, SayWhatIsWrong) {
  const auto error = [](const std::function<void(Tensor)>& make) {
    Graph graph;
    make(Input(graph, "x", kFloat32, {kBatch, kLength, kModel}));
    return graph.status();
  };
  EXPECT_THAT(error([](Tensor x) {
                nn::AttentionOptions options = Options();
                options.groups = {"groups", 2};
                nn::TalkingHeadsAttention(x, options, {});
              }),
              StatusIs(kInvalid, HasSubstr(".groups and .rotary")));
  EXPECT_THAT(error([](Tensor x) {
                nn::TalkingHeadsAttention(x, Options(),
                                          {.dynamic_queries = true});
              }),
              StatusIs(kInvalid, HasSubstr("which they mix")));
  EXPECT_THAT(error([](Tensor x) {
                nn::AttentionOptions options = Options();
                options.dropout = 1;
                nn::BilinearAttention(x, options);
              }),
              StatusIs(kInvalid, HasSubstr(".dropout")));
  EXPECT_THAT(error([](Tensor x) { nn::HybridAttention(x, Options(true)); }),
              StatusIs(kInvalid, HasSubstr(".causal is set")));
  EXPECT_THAT(error([](Tensor x) {
                nn::AttentionOptions options = Options();
                options.groups = {"groups", 2};
                nn::BranchedAttention(x, {"d_ff", 2}, Relu, options);
              }),
              StatusIs(kInvalid, HasSubstr("each head is a branch")));
}

}  // namespace
}  // namespace mtf
