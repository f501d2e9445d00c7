// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/map.h"

#include <utility>
#include <vector>

#include "backends/cpu/block_program.h"
#include "backends/cpu/map_sweep.h"
#include "backends/cpu/strided_copy.h"
#include "backends/index_space.h"

namespace mtf::cpu {
namespace {

// A map that only transposes its operand.
class TransposeKernel : public Kernel {
 public:
  TransposeKernel(const BoundValue& x, const BoundValue& result)
      : copy_(static_cast<int>(DTypeSize(x.dtype())), Loops(x, result)),
        from_(x.data),
        to_(result.data) {}
  void Run(StepContext&) override { copy_.Run(from_, to_); }

 private:
  static std::vector<StridedCopy::Loop> Loops(const BoundValue& x,
                                              const BoundValue& result) {
    std::vector<StridedCopy::Loop> loops;
    for (int i = 0; i < result.value->shape.rank(); ++i) {
      const int there = x.value->shape.Find(result.value->shape[i].name);
      loops.push_back({result.dims[i].extent, there < 0 ? 0 : x.stride(there),
                       result.stride(i)});
    }
    return loops;
  }

  StridedCopy copy_;
  const void* from_;
  void* to_;
};

}  // namespace

bool IsTranspose(const MapExpression& expression,
                 absl::Span<const BoundValue> operands,
                 const BoundValue& result) {
  return expression.steps.size() == 1 && operands.size() == 1 &&
         expression.steps[0].function == ScalarFunction::kIdentity &&
         operands[0].dtype() == result.dtype() &&
         operands[0].elements() == result.elements();
}

BlockMap::BlockMap(const MapExpression& expression,
                   absl::Span<const BoundValue> operands,
                   const BoundValue& result)
    : program_(expression, operands, SpaceOf(result), /*rounds_result=*/false),
      result_(result.data) {}

void BlockMap::AddTo(BlockPrefetch& prefetch) const {
  program_.AddTo(prefetch);
  prefetch.AddTensor(result_, DTypeSize(program_.dtype()));
}

std::unique_ptr<Kernel> PrepareMap(const MapExpression& expression,
                                   absl::Span<const BoundValue> operands,
                                   const BoundValue& result) {
  if (IsTranspose(expression, operands, result)) {
    return std::make_unique<TransposeKernel>(operands[0], result);
  }
  std::vector<MapChain> chains(1);
  chains[0].emplace_back(expression, operands, result);
  return std::make_unique<MapSweep>(std::move(chains));
}

}  // namespace mtf::cpu
