// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "backends/reference/device_kernels.h"
#include "mtf/philox.h"

namespace mtf::reference {
namespace {

// Evaluates a map expression at coordinates of `space`.
class Expression {
 public:
  Expression(const Binding& binding, Frame space)
      : expression_(ExpressionOf(binding.instruction())),
        operands_(binding.operands),
        space_(std::move(space)) {}

  Number At(const Coordinates& at) const {
    std::vector<Number> values;
    std::vector<DType> dtypes;
    for (const BoundValue& operand : operands_) {
      const Frame frame(operand);
      values.push_back(Load(operand, frame.Offset(frame.From(space_, at))));
      dtypes.push_back(operand.dtype());
    }
    for (const MapStep& step : expression_.steps) {
      Number x[3] = {0, 0, 0};
      for (size_t i = 0; i < step.arguments.size(); ++i) {
        x[i] = values[step.arguments[i]];
      }
      int64_t index = 0;
      if (step.function == ScalarFunction::kIota) {
        const int dim = space_.shape.Find(step.dimension);
        index = space_.dims[dim].offset + at[dim];
      }
      // The last operand is never the condition of a select.
      values.push_back(EvaluateStep(
          step,
          step.arguments.empty() ? step.dtype : dtypes[step.arguments.back()],
          x, index));
      dtypes.push_back(step.dtype);
    }
    return values.back();
  }

 private:
  MapExpression expression_;
  std::vector<BoundValue> operands_;
  Frame space_;
};

}  // namespace

Number IdentityOf(ReduceKind kind, DType dtype) {
  if (kind == ReduceKind::kSum) return 0;
  if (dtype == kBool) return kind == ReduceKind::kMin;
  // Store clamps infinities to the range of an integer.
  const Number infinity = std::numeric_limits<Number>::infinity();
  return kind == ReduceKind::kMax ? -infinity : infinity;
}

Number Combine(ReduceKind kind, DType dtype, Number x, Number y) {
  // NaN propagates, so that an invalid value is never hidden.
  if (std::isnan(x) || std::isnan(y)) return x + y;
  switch (kind) {
    case ReduceKind::kSum:
      return Sum(dtype, x, y);
    case ReduceKind::kMax:
      return std::max(x, y);
    case ReduceKind::kMin:
      return std::min(x, y);
  }
  return 0;
}

Body MakeConstant(const Binding& binding) {
  const BoundValue result = binding.results[0];
  const std::vector<double> data =
      binding.instruction().Get<ConstantAttributes>().elements;
  return [result, data](StepContext&) {
    const Frame frame(result);
    ForEach(frame.Extents(), [&](const Coordinates& at) {
      const bool valid = frame.IsValid(at);
      Store(result, frame.Offset(at), valid ? data[frame.GlobalIndex(at)] : 0);
    });
  };
}

Body MakeRandom(const Binding& binding) {
  const BoundValue result = binding.results[0];
  const auto random = binding.instruction().Get<RandomAttributes>();
  return [=](StepContext& context) {
    const Frame frame(result);
    ForEach(frame.Extents(), [&](const Coordinates& at) {
      if (!frame.IsValid(at)) return;
      const PhiloxWords words = PhiloxAt(
          context.seed, random.stream, random.per_step ? context.step : 0,
          static_cast<uint64_t>(frame.GlobalIndex(at)));
      Store(result, frame.Offset(at),
            random.kind == RandomKind::kUniform ? UniformFromWord(words.word[0])
                                                : NormalFromWords(words));
    });
  };
}

Body MakeMap(const Binding& binding) {
  const BoundValue result = binding.results[0];
  const Expression expression(binding, Frame(result));
  return [result, expression](StepContext&) {
    const Frame frame(result);
    ForEach(frame.Extents(), [&](const Coordinates& at) {
      Store(result, frame.Offset(at), expression.At(at));
    });
  };
}

Body MakeReduce(const Binding& binding) {
  const BoundValue result = binding.results[0];
  const auto& reduce = binding.instruction().Get<ReduceAttributes>();
  const ReduceKind kind = reduce.kind;
  const Frame space(reduce.iteration, binding.iteration);
  const Expression expression(binding, space);
  return [=](StepContext&) {
    const Frame frame(result);
    std::vector<Number> sums(result.elements(),
                             IdentityOf(kind, result.dtype()));
    ForEach(space.Extents(), [&](const Coordinates& at) {
      Number& sum = sums[frame.Offset(frame.From(space, at))];
      sum = Combine(kind, result.dtype(), sum, expression.At(at));
    });
    for (size_t i = 0; i < sums.size(); ++i) {
      Store(result, static_cast<int64_t>(i), sums[i]);
    }
  };
}

Body MakeEinsum(const Binding& binding) {
  const BoundValue x = binding.operands[0], y = binding.operands[1];
  const BoundValue result = binding.results[0];
  // The dimensions of the result, then the summed ones.
  Frame space(result);
  for (const BoundValue* operand : {&x, &y}) {
    for (int i = 0; i < operand->value->shape.rank(); ++i) {
      const Dimension& dim = operand->value->shape[i];
      if (space.shape.Contains(dim.name)) continue;
      space.shape = space.shape.With(dim);
      space.dims.push_back(operand->dims[i]);
    }
  }
  return [=](StepContext&) {
    const Frame frame(result), frame_x(x), frame_y(y);
    std::vector<Number> sums(result.elements(), 0);
    ForEach(space.Extents(), [&](const Coordinates& at) {
      Number& sum = sums[frame.Offset(frame.From(space, at))];
      const Number product = Product(
          result.dtype(), Load(x, frame_x.Offset(frame_x.From(space, at))),
          Load(y, frame_y.Offset(frame_y.From(space, at))));
      sum = Sum(result.dtype(), sum, product);
    });
    for (size_t i = 0; i < sums.size(); ++i) {
      Store(result, static_cast<int64_t>(i), sums[i]);
    }
  };
}

}  // namespace mtf::reference
