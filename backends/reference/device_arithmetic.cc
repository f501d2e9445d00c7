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
  Expression(const Binding& binding, const Frame& space)
      : expression_(ExpressionOf(binding.instruction())) {
    for (const BoundValue& operand : binding.operands) {
      operands_.push_back({operand, Projection(Frame(operand), space)});
      dtypes_.push_back(operand.dtype());
    }
    for (const MapStep& step : expression_.steps) {
      dtypes_.push_back(step.dtype);
      iotas_.push_back({});
      if (step.function != ScalarFunction::kIota) continue;
      const int dim = space.shape.Find(step.dimension);
      iotas_.back() = {dim, space.dims[dim].offset};
    }
    values_.resize(dtypes_.size());
  }

  Number At(const Coordinates& at) {
    size_t next = 0;
    for (const Operand& operand : operands_) {
      values_[next++] = Load(operand.value, operand.projection.Offset(at));
    }
    for (size_t i = 0; i < expression_.steps.size(); ++i) {
      const MapStep& step = expression_.steps[i];
      Number x[3] = {0, 0, 0};
      for (size_t j = 0; j < step.arguments.size(); ++j) {
        x[j] = values_[step.arguments[j]];
      }
      int64_t index = 0;
      if (step.function == ScalarFunction::kIota) {
        index = iotas_[i].offset + at[iotas_[i].dim];
      }
      // The last operand is never the condition of a select.
      values_[next++] = EvaluateStep(
          step,
          step.arguments.empty() ? step.dtype : dtypes_[step.arguments.back()],
          x, index);
    }
    return values_.back();
  }

 private:
  struct Operand {
    BoundValue value;
    Projection projection;
  };
  struct Iota {
    int dim = 0;         // of the space
    int64_t offset = 0;  // of the shard
  };

  MapExpression expression_;
  std::vector<Operand> operands_;
  std::vector<Iota> iotas_;     // of each step
  std::vector<DType> dtypes_;   // of operands and steps
  std::vector<Number> values_;  // the same, at the coordinates of a call
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
  Expression expression(binding, Frame(result));
  return [result, expression](StepContext&) mutable {
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
  Expression expression(binding, space);
  const Projection to(Frame(result), space);
  return [=](StepContext&) mutable {
    std::vector<Number> sums(result.elements(),
                             IdentityOf(kind, result.dtype()));
    ForEach(space.Extents(), [&](const Coordinates& at) {
      Number& sum = sums[to.Offset(at)];
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
  const Projection to(Frame(result), space), of_x(Frame(x), space),
      of_y(Frame(y), space);
  return [=](StepContext&) {
    std::vector<Number> sums(result.elements(), 0);
    ForEach(space.Extents(), [&](const Coordinates& at) {
      Number& sum = sums[to.Offset(at)];
      const Number product = Product(result.dtype(), Load(x, of_x.Offset(at)),
                                     Load(y, of_y.Offset(at)));
      sum = Sum(result.dtype(), sum, product);
    });
    for (size_t i = 0; i < sums.size(); ++i) {
      Store(result, static_cast<int64_t>(i), sums[i]);
    }
  };
}

}  // namespace mtf::reference
