// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/muon.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/status.h"
#include "nn/layers/orthogonalize.h"
#include "nn/optimizers/adam_rule.h"
#include "nn/optimizers/common_options.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

// The dimensions of stacked matrices.
struct Matrices {
  Shape stack, fan_in, fan_out;
};

Matrices MatricesOf(const VariableInfo& info,
                    const std::vector<std::string>& stacked) {
  Matrices matrices;
  for (int i = 0; i < info.shape.rank(); ++i) {
    const Dimension& dim = info.shape.dims()[i];
    const int inner = i - info.kernel.each;
    const bool is_stacked =
        inner < 0 || absl::c_linear_search(stacked, dim.name);
    Shape& side = is_stacked                   ? matrices.stack
                  : inner < info.kernel.fan_in ? matrices.fan_in
                                               : matrices.fan_out;
    side = side.With(dim);
  }
  return matrices;
}

// Makes each of the stacked matrices `x` nearly orthogonal.
Tensor Orthogonal(Tensor x, const Matrices& matrices, const MuonOptions& o) {
  const bool tall =
      matrices.fan_in.num_elements() > matrices.fan_out.num_elements();
  const Shape& rows = tall ? matrices.fan_out : matrices.fan_in;
  x = internal::Normalized(x, matrices.stack, o.epsilon);
  for (int i = 0; i < o.iterations; ++i) {
    x = internal::OrthogonalizeStep(x, matrices.stack, rows,
                                    internal::kFastQuintic);
  }
  return x;
}

// The factor of the learning rate of a kernel.
double ScaleOf(const Matrices& matrices, bool match_adam) {
  const double fan_in = static_cast<double>(matrices.fan_in.num_elements());
  const double fan_out = static_cast<double>(matrices.fan_out.num_elements());
  return match_adam ? 0.2 * std::sqrt(std::max(fan_in, fan_out))
                    : std::sqrt(std::max(1.0, fan_out / fan_in));
}

absl::Status Check(const MuonOptions& o) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckBelowOne(".momentum", o.momentum));
  MTF_RETURN_IF_ERROR(mtf::internal::CheckPositive(".epsilon", o.epsilon));
  if (o.iterations < 1 || o.iterations > 100) {
    return absl::InvalidArgumentError(
        absl::StrCat(".iterations is ", o.iterations, ", not in [1, 100]"));
  }
  return internal::CheckMoments({o.adam_beta1, o.adam_beta2, o.adam_epsilon},
                                ".adam_");
}

// The orthogonal update of a kernel, whose momentum is updated.
Tensor KernelUpdate(ParameterUpdate& p, const Matrices& matrices,
                    const MuonOptions& o) {
  const Tensor state = p.State("momentum", p.variable.shape);
  const Tensor momentum = o.momentum * state + (1.0 - o.momentum) * p.gradient;
  p.SetState(state, momentum);
  const Tensor update =
      o.nesterov ? o.momentum * momentum + (1.0 - o.momentum) * p.gradient
                 : momentum;
  return Orthogonal(update, matrices, o);
}

}  // namespace

Optimizer Muon(MuonOptions o) {
  const auto make_rule = [o](Tensor step, Tensor learning_rate) {
    const internal::AdamRule adam({o.adam_beta1, o.adam_beta2, o.adam_epsilon},
                                  step, learning_rate);
    return [o, adam, learning_rate](ParameterUpdate& p) {
      Tensor value = p.value;
      if (p.weight_decay != 0) {
        value = value * (1.0 - p.weight_decay * learning_rate);
      }
      const Matrices matrices = MatricesOf(p.variable, o.stacked);
      if (matrices.fan_in.rank() == 0 || matrices.fan_out.rank() == 0 ||
          MatchesAny(o.adam_kernels, p.variable.name)) {
        return value - adam.Direction(p);
      }
      const Tensor rate = ScaleOf(matrices, o.match_adam) * learning_rate;
      return value - rate * KernelUpdate(p, matrices, o);
    };
  };
  OptimizerOptions options =
      internal::CommonOptions(o, o.learning_rate, make_rule, Check(o));
  options.patterns = o.adam_kernels;
  options.dimensions = o.stacked;
  return Optimizer(options);
}

}  // namespace mtf::nn
