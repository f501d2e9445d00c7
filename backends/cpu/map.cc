// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/map.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "backends/cpu/block_memory.h"
#include "backends/cpu/block_program.h"
#include "backends/cpu/strided_copy.h"
#include "backends/cpu/threads.h"

namespace mtf::cpu {
namespace {

constexpr int64_t kBlock = BlockMap::kBlock;
// Minimum number of blocks per thread, about 10 microseconds of work.
constexpr int64_t kGrain = 32;

class MapKernel : public Kernel {
 public:
  explicit MapKernel(std::unique_ptr<BlockMap> map) : map_(std::move(map)) {}

  void Run(StepContext&) override {
    const int64_t elements = map_->elements();
    const int64_t blocks = (elements + kBlock - 1) / kBlock;
    ParallelFor(blocks, kGrain, [&](int64_t first, int64_t last) {
      const std::unique_ptr<BlockMap::Runner> runner = map_->MakeRunner();
      for (int64_t block = first; block < last; ++block) {
        const int64_t begin = block * kBlock;
        runner->Run(begin, std::min(kBlock, elements - begin));
      }
    });
  }

 private:
  std::unique_ptr<BlockMap> map_;
};

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

bool IsTranspose(const MapExpression& expression,
                 absl::Span<const BoundValue> operands,
                 const BoundValue& result) {
  return expression.steps.size() == 1 && operands.size() == 1 &&
         expression.steps[0].function == ScalarFunction::kIdentity &&
         operands[0].dtype() == result.dtype() &&
         operands[0].elements() == result.elements();
}

}  // namespace

std::unique_ptr<BlockMap> BlockMap::Create(
    const MapExpression& expression, absl::Span<const BoundValue> operands,
    const BoundValue& result) {
  if (IsTranspose(expression, operands, result)) return nullptr;
  std::vector<SpaceDimension> space;
  for (int i = 0; i < result.value->shape.rank(); ++i) {
    space.push_back({result.value->shape[i].name, result.dims[i].extent,
                     result.dims[i].offset});
  }
  return absl::WrapUnique(new BlockMap(
      BlockProgram(expression, operands, space, /*rounds_result=*/false),
      result.data));
}

void BlockMap::Runner::Run(int64_t begin, int64_t count) {
  const DType dtype = map_.program_.dtype();
  void* const result = map_.result_;
  if (!map_.program_.is_float()) {
    const int64_t* x = evaluator_.Ints(begin, count);
    WriteInts(dtype, x, count, result, begin, 1);
    return;
  }
  float* out = nullptr;
  if (dtype == kFloat32 && count % kLanes == 0) {
    out = static_cast<float*>(result) + begin;
  }
  const float* x = evaluator_.Floats(begin, count, out);
  if (x != out) WriteFloats(dtype, x, count, result, begin, 1);
}

std::unique_ptr<Kernel> PrepareMap(const MapExpression& expression,
                                   absl::Span<const BoundValue> operands,
                                   const BoundValue& result) {
  std::unique_ptr<BlockMap> map =
      BlockMap::Create(expression, operands, result);
  if (map == nullptr) {
    return std::make_unique<TransposeKernel>(operands[0], result);
  }
  return std::make_unique<MapKernel>(std::move(map));
}

}  // namespace mtf::cpu
