// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/synthesizer_attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const Dimension kLength{"length", 4}, kModel{"d_model", 3}, kHeads{"heads", 2},
    kKey{"d_kv", 2};

nn::AttentionOptions Options(bool causal = false) {
  return {.length = kLength, .heads = kHeads, .d_kv = kKey, .causal = causal};
}

// The logits of each kind of synthesizer, from the parameters.
double Logit(OracleGraph& o, nn::Synthesis kind, int h, int i, int j,
             const std::vector<double>& query) {
  const auto value = [&](const std::string& name, int at) {
    return o.Value("attention/" + name)[at];
  };
  const auto linear = [&](const std::string& name, int count, int to) {
    double sum = value(name + "/bias", h * count + to);
    for (int c = 0; c < 2; ++c) {
      sum += std::max(0.0, query[(i * 2 + h) * 2 + c]) *
             value(name + "/kernel", (h * 2 + c) * count + to);
    }
    return sum;
  };
  switch (kind) {
    case nn::Synthesis::kRandom:
      return value("logits", (h * 4 + i) * 4 + j);
    case nn::Synthesis::kFactorizedRandom: {
      double sum = 0;
      for (int r = 0; r < 2; ++r) {
        sum += value("left", (h * 4 + i) * 2 + r) *
               value("right", (h * 4 + j) * 2 + r);
      }
      return sum;
    }
    case nn::Synthesis::kDense:
      return linear("synthesized", 4, j);
    case nn::Synthesis::kFactorizedDense:
      return linear("rows", 2, j / 2) * linear("columns", 2, j % 2);
  }
  return 0;
}

TEST(Synthesizer, TakesLogitsFromParameters) {
  using enum nn::Synthesis;
  for (const nn::Synthesis kind :
       {kRandom, kFactorizedRandom, kDense, kFactorizedDense}) {
    for (const nn::SynthesisMix mix :
         {nn::SynthesisMix::kNone, nn::SynthesisMix::kSum,
          nn::SynthesisMix::kWeighted}) {
      OracleGraph o;
      const Tensor x = o.Parameter("x", {kLength, kModel});
      nn::SynthesizerOptions synthesizer = {.kind = kind, .mix = mix};
      if (kind == kFactorizedRandom || kind == kFactorizedDense) {
        synthesizer.rank = {"rank", 2};
      }
      const Tensor y = nn::SynthesizerAttention(x, Options(true), synthesizer);
      ASSERT_OK(o.graph.status());
      o.Fill();
      const std::vector<double> xs = o.Value("x");
      const auto project = [&](const std::string& name) {
        std::vector<double> out(16, 0.0);
        if (!o.variables.contains("attention/" + name + "/kernel")) return out;
        const std::vector<double>& w = o.Value("attention/" + name + "/kernel");
        for (int i = 0; i < 4; ++i) {
          for (int hc = 0; hc < 4; ++hc) {
            for (int d = 0; d < 3; ++d) {
              out[i * 4 + hc] += xs[i * 3 + d] * w[d * 4 + hc];
            }
          }
        }
        return out;
      };
      const std::vector<double> q = project("query"), k = project("key"),
                                v = project("value"),
                                wo = o.Value("attention/output/kernel");
      std::vector<double> want(12, 0.0);
      for (int h = 0; h < 2; ++h) {
        double share = 1, of_dots = mix == nn::SynthesisMix::kNone ? 0 : 1;
        if (mix == nn::SynthesisMix::kWeighted) {
          share = 1 / (1 + std::exp(-o.Value("attention/mix")[h]));
          of_dots = 1 - share;
        }
        for (int i = 0; i < 4; ++i) {
          std::vector<double> p(i + 1);
          double total = 0;
          for (int j = 0; j <= i; ++j) {
            double dot = 0;
            for (int c = 0; c < 2; ++c) {
              dot += q[(i * 2 + h) * 2 + c] * k[(j * 2 + h) * 2 + c];
            }
            p[j] = std::exp(of_dots * dot / std::sqrt(2.0) +
                            share * Logit(o, kind, h, i, j, q));
            total += p[j];
          }
          for (int j = 0; j <= i; ++j) {
            for (int c = 0; c < 2; ++c) {
              for (int d = 0; d < 3; ++d) {
                want[i * 3 + d] += p[j] / total * v[(j * 2 + h) * 2 + c] *
                                   wo[(h * 2 + c) * 3 + d];
              }
            }
          }
        }
      }
      testing::ExpectNear(o.Run(y), want, 1e-6);
      o.ExpectGradientsOf(testing::Probe(o, y));
    }
  }
}

TEST(SynthesizerErrors, SayWhatIsWrong) {
  const auto synthesize = [](nn::SynthesizerOptions options) {
    Graph graph;
    nn::SynthesizerAttention(Input(graph, "x", kFloat32, {kLength, kModel}),
                             Options(), options);
    return graph.status();
  };
  EXPECT_THAT(synthesize({.kind = nn::Synthesis::kFactorizedRandom}),
              StatusIs(kInvalid, HasSubstr(".rank is missing")));
  EXPECT_THAT(synthesize({.rank = {"rank", 2}}),
              StatusIs(kInvalid, HasSubstr("the logits are not factorized")));
  EXPECT_THAT(synthesize({.kind = nn::Synthesis::kFactorizedDense,
                          .rank = {"rank", 3}}),
              StatusIs(kInvalid, HasSubstr("does not divide \"length\" of 4")));
}

}  // namespace
}  // namespace mtf
