// SPDX-License-Identifier: Apache-2.0
//
// Norms and their gradients are those of PyTorch (tests/fixtures/norms.py).
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nn/layers/layer_norm.h"
#include "ops/gradients.h"
#include "tests/fixtures.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;

const Dimension kRows{"rows", 4}, kModel{"d_model", 7};

// Compares the norm, its gradient, and those of its parameters.
void ExpectTorchNorm(const std::string& name,
                     const std::function<Tensor(Tensor)>& norm) {
  SCOPED_TRACE(name);
  const auto torch = testing::ReadFixture("norms");
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kRows, kModel}, torch.at("x").values);
  const Tensor dy = o.Parameter("dy", {kRows, kModel}, torch.at("dy").values);
  const Tensor y = norm(x);
  ASSERT_OK(o.graph.status());
  std::vector<Tensor> of = {x};
  std::vector<std::string> parts = {"y", "dx"};
  for (const std::string parameter : {"scale", "bias"}) {
    for (const VariableInfo& info : o.graph.variables()) {
      if (!info.name.ends_with("/" + parameter)) continue;
      o.variables[info.name] = {info.shape, kFloat32,
                                torch.at(parameter).values};
      of.push_back(info.read);
      parts.push_back("d" + parameter);
    }
  }
  std::vector<Tensor> tensors = Gradients(y, of, dy);
  tensors.insert(tensors.begin(), y);
  const std::vector<std::vector<double>> values = o.RunAll(tensors);
  constexpr double kTolerance = 1e-5;
  for (size_t i = 0; i < parts.size(); ++i) {
    SCOPED_TRACE(parts[i]);
    testing::ExpectNear(values[i],
                        torch.at(absl::StrCat(name, "/", parts[i])).values,
                        kTolerance);
  }
  // As many gradients as PyTorch has.
  EXPECT_EQ(torch.contains(name + "/dscale"), parts.size() > 2);
  EXPECT_EQ(torch.contains(name + "/dbias"), parts.size() > 3);
}

TEST(TorchNorms, LayerNorm) {
  ExpectTorchNorm("layer_norm",
                  [](Tensor x) { return nn::LayerNorm(x, kModel); });
  ExpectTorchNorm("layer_norm_plain", [](Tensor x) {
    return nn::LayerNorm(x, kModel,
                         {.epsilon = 1e-3, .scale = false, .bias = false});
  });
  ExpectTorchNorm("layer_norm_scale", [](Tensor x) {
    return nn::LayerNorm(x, kModel, {.bias = false});
  });
}

TEST(TorchNorms, RmsNorm) {
  ExpectTorchNorm("rms_norm", [](Tensor x) { return nn::RmsNorm(x, kModel); });
  ExpectTorchNorm("rms_norm_plain", [](Tensor x) {
    return nn::RmsNorm(x, kModel, {.epsilon = 1e-2, .scale = false});
  });
}

}  // namespace
}  // namespace mtf
