// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/einsum.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "backends/cpu/block_memory.h"
#include "backends/cpu/block_program.h"
#include "backends/cpu/map.h"
#include "backends/cpu/matmul.h"
#include "backends/cpu/reduce.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/strided_copy.h"
#include "backends/cpu/threads.h"
#include "backends/index_space.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements of a conversion per thread

int64_t Align(int64_t bytes) { return (bytes + 63) / 64 * 64; }

int64_t Count(const std::vector<EinsumLoop>& loops) {
  int64_t count = 1;
  for (const EinsumLoop& loop : loops) count *= loop.extent;
  return count;
}

// Copies between a value in place and its dense packed form.
StridedCopy PackCopy(DType dtype, const std::vector<StridedDimension>& pack,
                     bool unpack) {
  std::vector<StridedCopy::Loop> loops;
  int64_t dense = 1;
  for (auto dim = pack.rbegin(); dim != pack.rend(); ++dim) {
    loops.push_back({dim->extent, unpack ? dense : dim->stride,
                     unpack ? dim->stride : dense});
    dense *= dim->extent;
  }
  return StridedCopy(static_cast<int>(DTypeSize(dtype)), std::move(loops));
}

void ConvertToFloats(DType dtype, const void* from, int64_t count, float* to) {
  ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    ReadFloats(dtype, from, begin, 1, end - begin, to + begin);
  });
}

void ConvertFromFloats(DType dtype, const float* from, int64_t count,
                       void* to) {
  ParallelFor(count, kGrain, [&](int64_t begin, int64_t end) {
    WriteFloats(dtype, from + begin, end - begin, to, begin, 1);
  });
}

// The stages between an operand or result and the matmul: conversion to float,
// which keeps the element order, then packing; each optional.
struct Stage {
  BoundValue value;
  bool convert = false;
  bool pack = false;
  StridedCopy copy{1, {}};
  int64_t convert_offset = 0, pack_offset = 0;  // into the scratch memory

  static Stage Make(const BoundValue& value, DType compute, bool pack,
                    const std::vector<StridedDimension>& dims, bool is_result,
                    int64_t* scratch_bytes) {
    Stage stage;
    stage.value = value;
    stage.convert = value.dtype() != compute;
    stage.pack = pack;
    const int64_t bytes = Align(value.elements() * DTypeSize(compute));
    if (stage.convert) {
      stage.convert_offset = *scratch_bytes;
      *scratch_bytes += bytes;
    }
    if (stage.pack) {
      stage.copy = PackCopy(compute, dims, is_result);
      stage.pack_offset = *scratch_bytes;
      *scratch_bytes += bytes;
    }
    return stage;
  }

  void* Converted(char* scratch) const {
    return convert ? scratch + convert_offset : value.data;
  }
  void* Packed(char* scratch) const {
    return pack ? scratch + pack_offset : Converted(scratch);
  }
  void Load(char* scratch) const {
    if (convert) {
      ConvertToFloats(value.dtype(), value.data, value.elements(),
                      static_cast<float*>(Converted(scratch)));
    }
    if (pack) copy.Run(Converted(scratch), Packed(scratch));
  }
  void Store(char* scratch) const {
    if (pack) copy.Run(Packed(scratch), Converted(scratch));
    if (convert) {
      ConvertFromFloats(value.dtype(),
                        static_cast<const float*>(Converted(scratch)),
                        value.elements(), value.data);
    }
  }
};

class MatmulKernel : public Kernel {
 public:
  // With an `addend`, which needs a result that is not packed, z is its sum
  // with the product.
  absl::Status Init(const EinsumPlan& plan, const BoundValue& first,
                    const BoundValue& second, const BoundValue& z,
                    DType compute, const void* addend) {
    addend_ = addend;
    const BoundValue& x = plan.swapped ? second : first;
    const BoundValue& y = plan.swapped ? first : second;
    outer_k_ = plan.outer_k;
    sweeps_ = Count(outer_k_);
    compute_ = compute;
    MatmulSpec spec{compute, plan.batch, plan.m, plan.n, plan.k};
    spec.wide = z.dtype() == kFloat32;
    if (addend == nullptr) {
      MTF_ASSIGN_OR_RETURN(matmul_, Matmul::Create(spec));
    }
    if (sweeps_ > 1 || addend != nullptr) {
      spec.accumulate = true;
      MTF_ASSIGN_OR_RETURN(accumulate_, Matmul::Create(spec));
    }
    x_ = Stage::Make(x, compute, plan.copy_x, plan.pack_x, false,
                     &scratch_bytes_);
    y_ = Stage::Make(y, compute, plan.copy_y, plan.pack_y, false,
                     &scratch_bytes_);
    z_ = Stage::Make(z, spec.result_dtype(), plan.copy_z, plan.pack_z, true,
                     &scratch_bytes_);
    return absl::OkStatus();
  }

  void Run(StepContext&) override {
    char* scratch =
        static_cast<char*>(ThreadScratch(ScratchUse::kKernel, scratch_bytes_));
    x_.Load(scratch);
    y_.Load(scratch);
    const char* x = static_cast<const char*>(x_.Packed(scratch));
    const char* y = static_cast<const char*>(y_.Packed(scratch));
    void* z = z_.Packed(scratch);
    if (addend_ != nullptr) LoadAddend(scratch);
    const int64_t size = DTypeSize(compute_);
    for (int64_t sweep = 0; sweep < sweeps_; ++sweep) {
      int64_t at_x = 0, at_y = 0, rest = sweep;
      for (auto loop = outer_k_.rbegin(); loop != outer_k_.rend(); ++loop) {
        at_x += rest % loop->extent * loop->x;
        at_y += rest % loop->extent * loop->y;
        rest /= loop->extent;
      }
      const bool overwrites = sweep == 0 && addend_ == nullptr;
      Matmul& matmul = overwrites ? *matmul_ : *accumulate_;
      matmul.Run(x + at_x * size, y + at_y * size, z);
    }
    z_.Store(scratch);
  }

 private:
  // Puts the addend where the matmul adds to it.
  void LoadAddend(char* scratch) const {
    const BoundValue& z = z_.value;
    if (z_.convert) {
      ConvertToFloats(z.dtype(), addend_, z.elements(),
                      static_cast<float*>(z_.Converted(scratch)));
    } else if (addend_ != z.data) {
      const int64_t size = DTypeSize(z.dtype());
      ParallelFor(z.elements(), kGrain, [&](int64_t begin, int64_t end) {
        std::memcpy(static_cast<char*>(z.data) + begin * size,
                    static_cast<const char*>(addend_) + begin * size,
                    (end - begin) * size);
      });
    }
  }

  std::unique_ptr<Matmul> matmul_, accumulate_;
  const void* addend_ = nullptr;
  DType compute_ = kFloat32;
  std::vector<EinsumLoop> outer_k_;
  int64_t sweeps_ = 1;
  Stage x_, y_, z_;
  int64_t scratch_bytes_ = 0;
};

class ZeroKernel : public Kernel {
 public:
  explicit ZeroKernel(const BoundValue& z)
      : data_(z.data), bytes_(z.elements() * DTypeSize(z.dtype())) {}
  void Run(StepContext&) override {
    if (bytes_ > 0) std::memset(data_, 0, bytes_);
  }

 private:
  void* data_;
  int64_t bytes_;
};

// Prepares z = x y, or z = addend + x y.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmul(const EinsumPlan& plan,
                                                      const BoundValue& x,
                                                      const BoundValue& y,
                                                      const BoundValue& z,
                                                      const void* addend) {
  auto kernel = std::make_unique<MatmulKernel>();
  absl::Status status = absl::UnimplementedError("");
  // Several sweeps accumulate in the result, whose dtype may be too narrow.
  if (x.dtype() == kBFloat16 &&
      (z.dtype() == kFloat32 || plan.outer_k.empty())) {
    status = kernel->Init(plan, x, y, z, kBFloat16, addend);
  }
  if (absl::IsUnimplemented(status)) {
    kernel = std::make_unique<MatmulKernel>();
    status = kernel->Init(plan, x, y, z, kFloat32, addend);
  }
  if (!status.ok()) return status;
  return kernel;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareEinsum(const EinsumPlan& plan,
                                                      const BoundValue& x,
                                                      const BoundValue& y,
                                                      const BoundValue& z) {
  if (plan.flops() == 0) return std::make_unique<ZeroKernel>(z);
  const int64_t summands = plan.k.extent * Count(plan.outer_k);
  const BoundValue operands[] = {x, y};
  if (summands == 1) {
    const auto product =
        MapExpression::Single(ScalarFunction::kMultiply, z.dtype(), 2);
    return PrepareMap(product, operands, z);
  }
  if (!IsFloat(z.dtype()) || (plan.m.extent == 1 && plan.n.extent == 1)) {
    // Products of narrow floats are exact in float.
    const DType wide = IsFloat(z.dtype()) ? kFloat32 : z.dtype();
    const auto product =
        MapExpression::Single(ScalarFunction::kMultiply, wide, 2);
    return PrepareReduce(ReduceKind::kSum, product, operands,
                         UnionOf({&z, &x, &y}), z);
  }
  return PrepareMatmul(plan, x, y, z, /*addend=*/nullptr);
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareEinsumGroup(
    const EpilogueGroup& group, absl::Span<const Binding> members) {
  const Binding &einsum = members[0], &sum = members.back();
  const EinsumPlan& plan = *einsum.instruction().Get<EinsumAttributes>().plan;
  MTF_CHECK(group.accumulates && !plan.copy_z);
  const size_t addend = sum.instruction().operands[0] == group.addend ? 0 : 1;
  return PrepareMatmul(plan, einsum.operands[0], einsum.operands[1],
                       sum.results[0], sum.operands[addend].data);
}

}  // namespace mtf::cpu
