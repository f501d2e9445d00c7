// SPDX-License-Identifier: Apache-2.0
//
// Attention, the layer and their gradients are those of PyTorch
// (tests/fixtures/attention.py).
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nn/attention/attention.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "tests/fixtures.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::FixtureTensor;
using ::mtf::testing::OracleGraph;

constexpr double kTolerance = 1e-5;

const Dimension kBatch{"batch", 2}, kLength{"length", 4},
    kMemory{"memory_length", 5}, kHeads{"heads", 4}, kKey{"d_kv", 2},
    kModel{"d_model", 8};

const std::map<std::string, FixtureTensor>& Torch() {
  static const auto* fixture = new std::map<std::string, FixtureTensor>(
      testing::ReadFixture("attention"));
  return *fixture;
}

Tensor TorchParameter(OracleGraph& o, const std::string& name, Shape shape) {
  return o.Parameter(name, std::move(shape), Torch().at(name).values);
}

// Compares tensors with those of the fixture.
void ExpectTorch(OracleGraph& o, const std::string& name,
                 const std::vector<std::string>& parts,
                 const std::vector<Tensor>& tensors) {
  ASSERT_OK(o.graph.status());
  ASSERT_EQ(parts.size(), tensors.size());
  const std::vector<std::vector<double>> values = o.RunAll(tensors);
  for (size_t i = 0; i < parts.size(); ++i) {
    SCOPED_TRACE(absl::StrCat(name, "/", parts[i]));
    testing::ExpectNear(values[i],
                        Torch().at(absl::StrCat(name, "/", parts[i])).values,
                        kTolerance);
  }
}

struct AttentionInputs {
  Tensor q, k, v, dy;
  explicit AttentionInputs(OracleGraph& o)
      : q(TorchParameter(o, "q", {kBatch, kLength, kHeads, kKey})),
        k(TorchParameter(o, "k", {kBatch, kMemory, kHeads, kKey})),
        v(TorchParameter(o, "v", {kBatch, kMemory, kHeads, kKey})),
        dy(TorchParameter(o, "dy", {kBatch, kLength, kHeads, kKey})) {}
};

nn::DotProductAttentionOptions TorchOptions() {
  return {.length = kLength, .memory_length = kMemory, .d_kv = kKey};
}

void ExpectTorchAttention(OracleGraph& o, const AttentionInputs& inputs,
                          const std::string& name,
                          const nn::DotProductAttentionOptions& options) {
  const Tensor y =
      nn::DotProductAttention(inputs.q, inputs.k, inputs.v, options);
  std::vector<Tensor> of = {inputs.q, inputs.k, inputs.v};
  std::vector<std::string> parts = {"y", "dq", "dk", "dv"};
  if (options.bias.valid()) {
    of.push_back(options.bias);
    parts.push_back("dbias");
  }
  std::vector<Tensor> tensors = Gradients(y, of, inputs.dy);
  tensors.insert(tensors.begin(), y);
  ExpectTorch(o, name, parts, tensors);
}

TEST(TorchAttention, MasksAndScales) {
  for (const std::string name : {"plain", "causal", "window", "padding",
                                 "padding_causal", "bias", "scale"}) {
    OracleGraph o;
    const AttentionInputs inputs(o);
    nn::DotProductAttentionOptions options = TorchOptions();
    options.causal =
        name == "causal" || name == "window" || name == "padding_causal";
    if (name == "window") options.window = 2;
    if (name.starts_with("padding")) {
      const std::vector<double>& padding = Torch().at("padding").values;
      options.mask = Equal(
          o.Integers("padding", {kBatch, kMemory},
                     std::vector<int32_t>(padding.begin(), padding.end())),
          0.0);
    }
    if (name == "bias") {
      options.bias = TorchParameter(o, "bias", {kHeads, kLength, kMemory});
    }
    if (name == "scale") options.scale = 0.3;
    ExpectTorchAttention(o, inputs, name, options);
  }
}

// Two groups of two heads share keys and values: enable_gqa of PyTorch.
TEST(TorchAttention, GroupsOfHeads) {
  OracleGraph o;
  const Dimension groups{"groups", 2}, heads{"heads", 2};
  const Shape queries = {kBatch, kLength, groups, heads, kKey};
  const auto of_groups = [&](const std::string& name) {
    // Those of the first two of four heads.
    const std::vector<double>& all = Torch().at(name).values;
    std::vector<double> values;
    for (size_t row = 0; row < all.size(); row += 8) {
      values.insert(values.end(), all.begin() + row, all.begin() + row + 4);
    }
    return o.Parameter(name, {kBatch, kMemory, groups, kKey}, values);
  };
  const Tensor q = TorchParameter(o, "q", queries);
  const Tensor k = of_groups("k"), v = of_groups("v");
  const Tensor dy = TorchParameter(o, "dy", queries);
  const Tensor y = nn::DotProductAttention(q, k, v, TorchOptions());
  std::vector<Tensor> tensors = Gradients(y, {q, k, v}, dy);
  tensors.insert(tensors.begin(), y);
  ExpectTorch(o, "grouped", {"y", "dq", "dk", "dv"}, tensors);
}

// Compares the layer, whose parameters are those of the fixture.
void ExpectTorchLayer(OracleGraph& o, const std::string& name,
                      const std::vector<Tensor>& inputs, Tensor y) {
  std::vector<Tensor> of = inputs;
  std::vector<std::string> parts = {"z", "dx"};
  if (inputs.size() > 1) parts.push_back("dmemory");
  for (const char* layer : {"query", "key", "value", "output"}) {
    for (const char* parameter : {"kernel", "bias"}) {
      const bool is_bias = parameter == std::string("bias");
      if (is_bias && layer == std::string("output")) continue;
      parts.push_back(absl::StrCat("d", layer, is_bias ? "_bias" : ""));
      const std::string path =
          absl::StrCat("attention/", layer, "/", parameter);
      for (const VariableInfo& info : o.graph.variables()) {
        if (info.name == path) of.push_back(info.read);
      }
    }
  }
  for (const VariableInfo& info : o.graph.variables()) {
    if (!info.name.starts_with("attention/")) continue;
    const std::string in_fixture =
        absl::StrCat("layer", info.name.substr(info.name.find('/')));
    o.variables[info.name] = {info.shape, kFloat32,
                              Torch().at(in_fixture).values};
  }
  const Tensor dz = TorchParameter(o, "layer/dz", y.shape());
  std::vector<Tensor> tensors = Gradients(y, of, dz);
  tensors.insert(tensors.begin(), y);
  ExpectTorch(o, name, parts, tensors);
}

TEST(TorchAttention, SelfAttentionLayer) {
  OracleGraph o;
  const Tensor x = TorchParameter(o, "layer/x", {kBatch, kLength, kModel});
  const Tensor y = nn::SelfAttention(x, {.length = kLength,
                                         .heads = kHeads,
                                         .d_kv = kKey,
                                         .causal = true,
                                         .bias = true});
  ExpectTorchLayer(o, "self", {x}, y);
}

TEST(TorchAttention, LayerThatReadsAMemory) {
  OracleGraph o;
  const Tensor x = TorchParameter(o, "layer/x", {kBatch, kLength, kModel});
  const Tensor memory =
      TorchParameter(o, "layer/memory", {kBatch, kMemory, kModel});
  const Tensor y = nn::MultiHeadAttention(x, memory,
                                          {.length = kLength,
                                           .heads = kHeads,
                                           .d_kv = kKey,
                                           .bias = true,
                                           .memory_length = kMemory});
  ExpectTorchLayer(o, "cross", {x, memory}, y);
}

}  // namespace
}  // namespace mtf
