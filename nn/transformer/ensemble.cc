// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer/ensemble.h"

#include <cmath>

#include "mtf/graph.h"
#include "mtf/status.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/softmax.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace mtf::nn {
namespace {

absl::Status Check(Tensor logits, const Dimension& ensemble,
                   const Dimension& vocab) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(logits, "an ensemble"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(logits, ensemble));
  return internal::CheckDimension(logits, vocab);
}

}  // namespace

Tensor EnsembleLogits(Tensor logits, Dimension ensemble, Dimension vocab,
                      EnsembleReduction reduction,
                      std::source_location location) {
  if (!logits.valid()) return {};
  LayerScope layer(logits.graph(), "ensemble_logits", location);
  const absl::Status status = Check(logits, ensemble, vocab);
  if (!status.ok()) {
    return logits.graph().Fail(status, "ensemble_logits", location,
                               logits.shape().Without(ensemble.name),
                               logits.dtype());
  }
  const Tensor wide = internal::To(kFloat32, logits);
  if (reduction == EnsembleReduction::kMeanLogit) {
    return internal::To(logits.dtype(), MeanOver(wide, {ensemble}));
  }
  // log(mean(p)) = logsumexp(log(p)) - log(members), without underflow.
  const Tensor sum = LogSumExpOver(LogSoftmax(wide, vocab), {ensemble});
  return internal::To(logits.dtype(),
                      sum - std::log(static_cast<double>(ensemble.size)));
}

}  // namespace mtf::nn
