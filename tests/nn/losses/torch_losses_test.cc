// SPDX-License-Identifier: Apache-2.0
//
// Losses and their gradients are those of PyTorch (tests/fixtures/losses.py).
#include <functional>
#include <string>

#include "nn/losses/cross_entropy.h"
#include "nn/losses/mean_squared_error.h"
#include "nn/losses/sigmoid_cross_entropy.h"
#include "tests/fixtures.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::FixtureTensor;
using ::mtf::testing::OracleGraph;

const Dimension kBatch{"batch", 3}, kLength{"length", 4}, kVocab{"vocab", 5};

const std::map<std::string, FixtureTensor>& Torch() {
  static const auto* fixture =
      new std::map<std::string, FixtureTensor>(testing::ReadFixture("losses"));
  return *fixture;
}

// Compares the loss of the case `name` and its gradients.
void ExpectTorch(const std::string& name, const std::string& targets,
                 const std::function<Tensor(Tensor, Tensor)>& loss_of) {
  SCOPED_TRACE(name);
  OracleGraph o;
  const Tensor logits = o.Parameter("logits", {kBatch, kLength, kVocab},
                                    Torch().at("logits").values);
  const std::vector<double>& numbers = Torch().at(targets).values;
  const bool soft = Torch().contains(name + "/dtargets");
  const Tensor t =
      soft ? o.Parameter("targets", {kBatch, kLength, kVocab}, numbers)
           : o.Integers("targets", {kBatch, kLength},
                        std::vector<int32_t>(numbers.begin(), numbers.end()));
  const Tensor loss = loss_of(logits, t);
  ASSERT_OK(o.graph.status());
  std::vector<Tensor> to = {logits};
  if (soft) to.push_back(t);
  const std::vector<Tensor> gradients = Gradients(loss, to);
  constexpr double kTolerance = 1e-5;
  testing::ExpectNear(o.Run(loss), Torch().at(name + "/loss").values,
                      kTolerance);
  testing::ExpectNear(o.Run(gradients[0]), Torch().at(name + "/dlogits").values,
                      kTolerance);
  if (!soft) return;
  testing::ExpectNear(o.Run(gradients[1]),
                      Torch().at(name + "/dtargets").values, kTolerance);
}

TEST(TorchLosses, SoftmaxCrossEntropy) {
  for (const std::string kind : {"hard", "soft"}) {
    for (const bool smooth : {false, true}) {
      const nn::CrossEntropyOptions options = {
          .label_smoothing = smooth ? 0.1 : 0, .z_loss = smooth ? 1e-2 : 0};
      ExpectTorch(kind + (smooth ? "_smooth" : "_plain"), kind,
                  [&](Tensor logits, Tensor targets) {
                    return nn::SoftmaxCrossEntropy(logits, kVocab, targets,
                                                   options);
                  });
    }
  }
}

TEST(TorchLosses, SigmoidCrossEntropy) {
  ExpectTorch("sigmoid", "multi", [](Tensor logits, Tensor targets) {
    return nn::SigmoidCrossEntropy(logits, targets);
  });
}

TEST(TorchLosses, MeanSquaredError) {
  ExpectTorch("mse", "multi", [](Tensor x, Tensor targets) {
    return nn::MeanSquaredError(x, targets);
  });
}

}  // namespace
}  // namespace mtf
