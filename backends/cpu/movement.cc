// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/movement.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "backends/constant_shard.h"
#include "backends/cpu/reshape_runs.h"
#include "backends/cpu/strided_copy.h"
#include "backends/cpu/threads.h"
#include "mtf/check.h"
#include "mtf/host_tensor.h"

namespace mtf::cpu {
namespace {

using Element = std::array<std::byte, 8>;

Element Encode(DType dtype, double value) {
  Element element{};
  StoreElement(element.data(), dtype, 0, value);
  return element;
}

// A dense value relative to one dimension: `outer` rows of `extent` times
// `inner` elements.
struct DimensionView {
  int64_t outer = 1, extent = 1, inner = 1;
  DimensionView(const BoundValue& value, int dim) {
    for (int i = 0; i < static_cast<int>(value.dims.size()); ++i) {
      int64_t& count = i < dim ? outer : i == dim ? extent : inner;
      count *= value.dims[i].extent;
    }
  }
};

// Sets [begin, end) along a dimension of the result to one element.
struct RangeFill {
  DimensionView view;
  int64_t begin, end;
  Element element;

  void Run(std::byte* to, int64_t size) const {
    const int64_t run = (end - begin) * view.inner;
    const bool zero = element == Element{};
    for (int64_t row = 0; row < view.outer; ++row) {
      std::byte* at = to + (row * view.extent + begin) * view.inner * size;
      if (zero) {
        std::memset(at, 0, run * size);
        continue;
      }
      for (int64_t i = 0; i < run; ++i) {
        std::memcpy(at + i * size, element.data(), size);
      }
    }
  }
};

struct CopyTask {
  StridedCopy boxes;
  const void* from;
  int64_t from_element, to_element;
};

// Copies boxes of elements to the result and fills the rest.
class MoveKernel : public Kernel {
 public:
  explicit MoveKernel(const BoundValue& result)
      : to_(static_cast<std::byte*>(result.data)),
        bytes_(result.elements() * DTypeSize(result.dtype())),
        size_(DTypeSize(result.dtype())) {}

  void Clear() { clears_ = true; }
  void Add(CopyTask copy) { copies_.push_back(std::move(copy)); }
  void Add(RangeFill fill) { fills_.push_back(std::move(fill)); }

  void Run(StepContext&) override {
    if (clears_ && bytes_ > 0) std::memset(to_, 0, bytes_);
    for (const CopyTask& copy : copies_) {
      copy.boxes.Run(
          static_cast<const std::byte*>(copy.from) + copy.from_element * size_,
          to_ + copy.to_element * size_);
    }
    // After the copies, because a mask fills padding that they wrote.
    for (const RangeFill& fill : fills_) fill.Run(to_, size_);
  }

 private:
  std::byte* to_;
  int64_t bytes_, size_;
  bool clears_ = false;
  std::vector<CopyTask> copies_;
  std::vector<RangeFill> fills_;
};

// Copies a range of `count` indices along dimension `dim`, and all of the other
// dimensions, from the operand to the result.
CopyTask CopyRange(const BoundValue& from, int64_t from_begin,
                   const BoundValue& to, int dim, int64_t to_begin,
                   int64_t count) {
  const int size = static_cast<int>(DTypeSize(to.dtype()));
  std::vector<StridedCopy::Loop> loops;
  int64_t from_element = 0;
  for (int i = 0; i < to.value->shape.rank(); ++i) {
    const int there = from.value->shape.Find(to.value->shape[i].name);
    MTF_CHECK_LE(0, there) << to.value->shape[i].name;
    if (i == dim) {
      from_element = from_begin * from.stride(there);
      loops.push_back({count, from.stride(there), to.stride(i)});
    } else {
      MTF_CHECK_EQ(from.dims[there].extent, to.dims[i].extent)
          << to.value->shape[i].name;
      loops.push_back({to.dims[i].extent, from.stride(there), to.stride(i)});
    }
  }
  return {StridedCopy(size, std::move(loops)), from.data, from_element,
          to_begin * to.stride(dim)};
}

// Writes `before` elements of `fill`, then the concatenation of `values` along
// a dimension, then `fill` up to the valid elements of the result. Padding is
// zero.
std::unique_ptr<Kernel> PrepareJoin(absl::Span<const BoundValue> values,
                                    const BoundValue& result,
                                    const std::string& dimension,
                                    int64_t before, double fill) {
  auto kernel = std::make_unique<MoveKernel>(result);
  const int dim = result.value->shape.Find(dimension);
  const ShardedDimension& local = result.dims[dim];
  const DimensionView view(result, dim);
  const Element filler = Encode(result.dtype(), fill);
  // The local index along the dimension up to which the result is complete.
  int64_t at = 0;
  const auto fill_to = [&](int64_t end, const Element& element) {
    end = std::min(end, local.extent);
    if (at >= end) return;
    kernel->Add(RangeFill{view, at, end, element});
    at = end;
  };
  int64_t first = before - local.offset;  // of the next operand, locally
  fill_to(std::min(first, local.valid), filler);
  for (const BoundValue& value : values) {
    const int there = value.value->shape.Find(dimension);
    const ShardedDimension& shard = value.dims[there];
    const int64_t size = value.value->shape[there].size;
    const int64_t held = first + shard.offset;
    const int64_t begin = std::max(at, held);
    const int64_t end = std::min(local.valid, held + shard.valid);
    if (begin < end) {
      fill_to(begin, Element{});  // elements of another rank's shard
      kernel->Add(
          CopyRange(value, begin - held, result, dim, begin, end - begin));
      at = end;
    }
    first += size;
    fill_to(std::min(first, local.valid), Element{});
  }
  fill_to(local.valid, filler);
  fill_to(local.extent, Element{});
  return kernel;
}

}  // namespace

std::unique_ptr<Kernel> PrepareConstant(const Binding& binding) {
  // The local shard is extracted and converted here; a step copies it.
  class ConstantKernel : public Kernel {
   public:
    ConstantKernel(std::vector<std::byte> bytes, void* to)
        : bytes_(std::move(bytes)), to_(to) {}
    void Run(StepContext&) override {
      if (!bytes_.empty()) std::memcpy(to_, bytes_.data(), bytes_.size());
    }

   private:
    std::vector<std::byte> bytes_;
    void* to_;
  };
  return std::make_unique<ConstantKernel>(ConstantShard(binding),
                                          binding.results[0].data);
}

std::unique_ptr<Kernel> PrepareReshape(const Binding& binding) {
  const BoundValue &x = binding.operands[0], &result = binding.results[0];
  auto kernel = std::make_unique<MoveKernel>(result);
  const int size = static_cast<int>(DTypeSize(result.dtype()));
  const ReshapeRuns runs = FindReshapeRuns(x, result);
  if (!runs.complete) kernel->Clear();
  for (const ReshapeRuns::Box& box : runs.boxes) {
    kernel->Add(
        CopyTask{StridedCopy(size, box.loops), x.data, box.from, box.to});
  }
  return kernel;
}

std::unique_ptr<Kernel> PrepareSlice(const Binding& binding) {
  const auto& slice = binding.instruction().Get<SliceAttributes>();
  return PrepareJoin(binding.operands, binding.results[0], slice.dimension,
                     -slice.begin, 0);
}

std::unique_ptr<Kernel> PreparePad(const Binding& binding) {
  const auto& pad = binding.instruction().Get<PadAttributes>();
  return PrepareJoin(binding.operands, binding.results[0], pad.dimension,
                     pad.before, pad.fill);
}

std::unique_ptr<Kernel> PrepareConcat(const Binding& binding) {
  return PrepareJoin(binding.operands, binding.results[0],
                     DimensionOf(binding.instruction()), 0, 0);
}

std::unique_ptr<Kernel> PrepareMask(const Binding& binding) {
  const auto& mask = binding.instruction().Get<MaskAttributes>();
  const BoundValue &x = binding.operands[0], &result = binding.results[0];
  auto kernel = std::make_unique<MoveKernel>(result);
  const int size = static_cast<int>(DTypeSize(result.dtype()));
  if (x.data != result.data) {
    kernel->Add(
        CopyTask{StridedCopy(size, {{result.elements(), 1, 1}}), x.data, 0, 0});
  }
  const Element filler = Encode(result.dtype(), mask.fill);
  for (int dim : mask.dims) {
    const ShardedDimension& local = result.dims[dim];
    if (local.valid == local.extent) continue;
    kernel->Add(RangeFill{DimensionView(result, dim), local.valid, local.extent,
                          filler});
  }
  return kernel;
}

std::unique_ptr<Kernel> PrepareAllSlice(const Binding& binding) {
  const auto& slice = binding.instruction().Get<CollectiveAttributes>();
  const BoundValue& result = binding.results[0];
  const int64_t count = result.dims[slice.dim].extent;
  const int64_t block =
      binding.program->mesh.Coordinate(binding.rank, slice.axes);
  auto kernel = std::make_unique<MoveKernel>(result);
  kernel->Add(CopyRange(binding.operands[0], block * count, result, slice.dim,
                        0, count));
  return kernel;
}

std::unique_ptr<Kernel> PrepareBlockCopy(void* to, const void* from,
                                         const BlockCopy& copy) {
  class BlockCopyKernel : public Kernel {
   public:
    BlockCopyKernel(void* to, const void* from, const BlockCopy& copy)
        : to_(static_cast<std::byte*>(to)),
          from_(static_cast<const std::byte*>(from)),
          copy_(copy) {}
    void Run(StepContext&) override {
      const int64_t rows = copy_.outer * copy_.blocks;
      const int64_t grain = (64 << 10) / std::max<int64_t>(copy_.inner, 1) + 1;
      if (copy_.inner == 0) return;
      ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t outer = row / copy_.blocks, block = row % copy_.blocks;
          std::memcpy(
              to_ + outer * copy_.to_outer + block * copy_.to_block,
              from_ + outer * copy_.from_outer + block * copy_.from_block,
              copy_.inner);
        }
      });
    }

   private:
    std::byte* to_;
    const std::byte* from_;
    BlockCopy copy_;
  };
  return std::make_unique<BlockCopyKernel>(to, from, copy);
}

}  // namespace mtf::cpu
