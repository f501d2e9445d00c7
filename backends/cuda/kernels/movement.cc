// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/movement.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "backends/constant_shard.h"
#include "backends/cuda/codegen/elements.h"
#include "backends/cuda/codegen/kernel_list.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/codegen/loop_nest.h"
#include "backends/cuda/kernels/strided_copy.h"
#include "mtf/check.h"
#include "mtf/host_tensor.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

// The word type of `size` bytes: kernels that only move data ignore dtypes.
absl::string_view WordType(int64_t size) {
  switch (size) {
    case 1:
      return "unsigned char";
    case 2:
      return "u16";
    case 4:
      return "u32";
    case 8:
      return "u64";
    default:
      return "Pack<u32, 4>";
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> OneLaunch(Runtime& runtime,
                                                  const KernelWriter& writer,
                                                  int64_t threads) {
  std::vector<Launch> launches(1);
  MTF_ASSIGN_OR_RETURN(
      launches[0],
      writer.Compile(runtime, writer.ShapeFor(runtime.info(), threads)));
  return std::make_unique<LaunchSequence>(runtime, std::move(launches));
}

uint64_t Encode(DType dtype, double value) {
  uint64_t bits = 0;
  StoreElement(&bits, dtype, 0, value);
  return bits;
}

// Sets [begin, end) along dimension `dim` of a dense value to one element.
KernelOr PrepareFill(Runtime& runtime, const BoundValue& value, int dim,
                     int64_t begin, int64_t end, uint64_t element) {
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < static_cast<int>(value.dims.size()); ++i) {
    if (i < dim) outer *= value.dims[i].extent;
    if (i > dim) inner *= value.dims[i].extent;
  }
  const int64_t size = DTypeSize(value.dtype());
  const int64_t run = (end - begin) * inner;
  const int64_t pitch = value.dims[dim].extent * inner;
  if (outer * run == 0) return std::make_unique<KernelList>();
  KernelWriter writer("fill");
  const std::string type(WordType(size));
  const std::string y =
      writer.WriteAs(value.data, type, value.elements() * size);
  const std::string word = writer.Number(static_cast<int64_t>(element));
  const std::string first = writer.Number(begin * inner);
  writer.SetIndexReach(value.elements());
  writer.Add(writer.GridLoop("i", outer * run), "    ", y, "[i / ", run, " * ",
             pitch, " + ", first, " + i % ", run, "] = (", type, ")", word,
             ";\n  }\n");
  return OneLaunch(runtime, writer, outer * run);
}

// Copies `count` indices along dimension `dim`, and everything along the
// others, from the operand to the result.
KernelOr CopyRange(Runtime& runtime, const BoundValue& from, int64_t from_begin,
                   const BoundValue& to, int dim, int64_t to_begin,
                   int64_t count) {
  StridedCopy copy{to.dtype(), to.dtype(), {}};
  int64_t from_element = 0;
  for (int i = 0; i < to.value->shape.rank(); ++i) {
    const std::string& name = to.value->shape[i].name;
    const int there = from.value->shape.Find(name);
    MTF_CHECK_LE(0, there) << name;
    if (i == dim) {
      from_element = from_begin * from.stride(there);
    } else {
      MTF_CHECK_EQ(from.dims[there].extent, to.dims[i].extent) << name;
    }
    copy.loops.push_back({i == dim ? count : to.dims[i].extent,
                          from.stride(there), to.stride(i)});
  }
  const int64_t size = DTypeSize(to.dtype());
  return PrepareStridedCopy(
      runtime, copy,
      static_cast<const std::byte*>(from.data) + from_element * size,
      static_cast<std::byte*>(to.data) + to_begin * to.stride(dim) * size);
}

// Concatenates `values` along a dimension after `before` elements of `fill`.
// The remaining valid elements become `fill`, padding becomes zero.
KernelOr PrepareConcatenation(Runtime& runtime,
                              absl::Span<const BoundValue> values,
                              const BoundValue& result,
                              const std::string& dimension, int64_t before,
                              double fill) {
  auto kernel = std::make_unique<KernelList>();
  const int dim = result.value->shape.Find(dimension);
  const ShardedDimension& local = result.dims[dim];
  const uint64_t filler = Encode(result.dtype(), fill);
  // The next local index of the result along the dimension.
  int64_t at = 0;
  const auto fill_to = [&](int64_t end, uint64_t element) {
    end = std::min(end, local.extent);
    if (at >= end) return absl::OkStatus();
    const int64_t begin = std::exchange(at, end);
    return kernel->Add(PrepareFill(runtime, result, dim, begin, end, element));
  };
  int64_t first = before - local.offset;  // of the next operand, locally
  MTF_RETURN_IF_ERROR(fill_to(std::min(first, local.valid), filler));
  for (const BoundValue& value : values) {
    const int there = value.value->shape.Find(dimension);
    const ShardedDimension& shard = value.dims[there];
    const int64_t held = first + shard.offset;
    const int64_t begin = std::max(at, held);
    const int64_t end = std::min(local.valid, held + shard.valid);
    if (begin < end) {
      MTF_RETURN_IF_ERROR(fill_to(begin, 0));  // held by another rank
      MTF_RETURN_IF_ERROR(kernel->Add(CopyRange(
          runtime, value, begin - held, result, dim, begin, end - begin)));
      at = end;
    }
    first += value.value->shape[there].size;
    MTF_RETURN_IF_ERROR(fill_to(std::min(first, local.valid), 0));
  }
  MTF_RETURN_IF_ERROR(fill_to(local.valid, filler));
  MTF_RETURN_IF_ERROR(fill_to(local.extent, 0));
  return kernel;
}

// The dimensions that a rename preserves: those of extent above 1.
std::vector<std::pair<int64_t, ShardedDimension>> Skeleton(
    const BoundValue& value) {
  std::vector<std::pair<int64_t, ShardedDimension>> skeleton;
  for (int i = 0; i < value.value->shape.rank(); ++i) {
    const int64_t size = value.value->shape[i].size;
    if (size == 1 && value.dims[i].extent == 1) continue;
    skeleton.push_back({size, value.dims[i]});
  }
  return skeleton;
}

}  // namespace

KernelOr PrepareConstant(Runtime& runtime, const Binding& binding) {
  // The local elements are sliced and converted once; a step copies them.
  class ConstantKernel : public Kernel {
   public:
    ConstantKernel(Runtime& runtime, void* from, void* to, int64_t bytes)
        : runtime_(runtime), from_(from), to_(to), bytes_(bytes) {}
    ~ConstantKernel() override { runtime_.Free(from_); }
    void Run(StepContext&) override {
      runtime_.CopyOnDevice(to_, from_, bytes_);
    }

   private:
    Runtime& runtime_;
    void* from_;
    void* to_;
    int64_t bytes_;
  };
  const std::vector<std::byte> bytes = ConstantShard(binding);
  if (bytes.empty()) return std::make_unique<KernelList>();
  const auto count = static_cast<int64_t>(bytes.size());
  MTF_ASSIGN_OR_RETURN(void* kept, runtime.Allocate(count));
  runtime.CopyToDevice(kept, bytes.data(), count);
  return std::make_unique<ConstantKernel>(runtime, kept,
                                          binding.results[0].data, count);
}

// Computes each element's global index and from it its offset in the operand,
// so one kernel covers every reshape.
KernelOr PrepareReshape(Runtime& runtime, const Binding& binding) {
  const BoundValue &x = binding.operands[0], &result = binding.results[0];
  const int64_t size = DTypeSize(result.dtype());
  const auto from = Skeleton(x), to = Skeleton(result);
  if (from == to) {
    return PrepareStridedCopy(
        runtime, StridedCopy{x.dtype(), x.dtype(), {{result.elements(), 1, 1}}},
        x.data, result.data);
  }
  if (result.elements() == 0) return std::make_unique<KernelList>();
  KernelWriter writer("reshape");
  const std::string type(WordType(size));
  const std::string source = writer.ReadAs(x.data, type, x.elements() * size);
  const std::string y =
      writer.WriteAs(result.data, type, result.elements() * size);
  writer.SetIndexReach(x.elements());
  writer.SetIndexReach(result.elements());
  writer.SetIndexReach(result.value->shape.num_elements());
  // Splits the index into coordinates from the innermost outwards; `global`
  // accumulates the global index.
  writer.Add(writer.GridLoop("i", result.elements()),
             "    Index rest = i, global = 0, offset = 0, at;\n"
             "    bool here = true;\n");
  int64_t stride = 1;
  for (auto dim = to.rbegin(); dim != to.rend(); ++dim) {
    const ShardedDimension& local = dim->second;
    writer.Add("    at = rest % ", local.extent,
               ";\n    rest /= ", local.extent, ";\n");
    if (local.valid != local.extent) {
      writer.Add("    here = here && at < ", writer.Number(local.valid), ";\n");
    }
    const std::string offset =
        local.offset == 0
            ? "at"
            : absl::StrCat("(at + (Index)", writer.Number(local.offset), ")");
    writer.Add("    global += ", offset, " * ", stride, ";\n");
    stride *= dim->first;
  }
  stride = 1;
  for (auto dim = from.rbegin(); dim != from.rend(); ++dim) {
    const ShardedDimension& local = dim->second;
    writer.Add("    at = global % ", dim->first);
    if (local.offset != 0) {
      writer.Add(" - (Index)", writer.Number(local.offset));
    }
    writer.Add(";\n    global /= ", dim->first, ";\n");
    if (local.offset != 0 || local.valid != dim->first) {
      writer.Add("    here = here && at >= 0 && at < ",
                 writer.Number(local.valid), ";\n");
    }
    writer.Add("    offset += at * ", stride, ";\n");
    stride *= local.extent;
  }
  writer.Add("    ", y, "[i] = here ? ", source, "[offset] : (", type,
             ")0;\n  }\n");
  return OneLaunch(runtime, writer, result.elements());
}

KernelOr PrepareSlice(Runtime& runtime, const Binding& binding) {
  const auto& slice = binding.instruction().Get<SliceAttributes>();
  return PrepareConcatenation(runtime, binding.operands, binding.results[0],
                              slice.dimension, -slice.begin, 0);
}

KernelOr PreparePad(Runtime& runtime, const Binding& binding) {
  const auto& pad = binding.instruction().Get<PadAttributes>();
  return PrepareConcatenation(runtime, binding.operands, binding.results[0],
                              pad.dimension, pad.before, pad.fill);
}

KernelOr PrepareConcat(Runtime& runtime, const Binding& binding) {
  return PrepareConcatenation(runtime, binding.operands, binding.results[0],
                              DimensionOf(binding.instruction()), 0, 0);
}

KernelOr PrepareMask(Runtime& runtime, const Binding& binding) {
  const auto& mask = binding.instruction().Get<MaskAttributes>();
  const BoundValue &x = binding.operands[0], &result = binding.results[0];
  auto kernel = std::make_unique<KernelList>();
  if (x.data != result.data) {
    MTF_RETURN_IF_ERROR(kernel->Add(PrepareStridedCopy(
        runtime, StridedCopy{x.dtype(), x.dtype(), {{result.elements(), 1, 1}}},
        x.data, result.data)));
  }
  const uint64_t filler = Encode(result.dtype(), mask.fill);
  for (int dim : mask.dims) {
    const ShardedDimension& local = result.dims[dim];
    if (local.valid == local.extent) continue;
    MTF_RETURN_IF_ERROR(kernel->Add(
        PrepareFill(runtime, result, dim, local.valid, local.extent, filler)));
  }
  return kernel;
}

KernelOr PrepareAllSlice(Runtime& runtime, const Binding& binding) {
  const auto& slice = binding.instruction().Get<CollectiveAttributes>();
  const BoundValue& result = binding.results[0];
  const int64_t count = result.dims[slice.dim].extent;
  const int64_t block =
      binding.program->mesh.Coordinate(binding.rank, slice.axes);
  return CopyRange(runtime, binding.operands[0], block * count, result,
                   slice.dim, 0, count);
}

KernelOr PrepareBlockCopy(Runtime& runtime, void* to, const void* from,
                          const BlockCopy& copy) {
  // The widest word that divides every address, up to 16 bytes.
  uintptr_t all = reinterpret_cast<uintptr_t>(to) |
                  reinterpret_cast<uintptr_t>(from) | copy.inner |
                  copy.from_outer | copy.from_block | copy.to_outer |
                  copy.to_block;
  const int64_t word = all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
  const int64_t words = copy.inner / word, rows = copy.outer * copy.blocks;
  if (words * rows == 0) return std::make_unique<KernelList>();
  KernelWriter writer("copy_blocks");
  const std::string type(WordType(word));
  const auto reach = [&](int64_t outer, int64_t block) {
    return (copy.outer - 1) * outer + (copy.blocks - 1) * block + copy.inner;
  };
  const std::string x =
      writer.ReadAs(from, type, reach(copy.from_outer, copy.from_block));
  const std::string y =
      writer.WriteAs(to, type, reach(copy.to_outer, copy.to_block));
  // The sizes are parameters, so that all copies share three kernels. A block
  // of threads copies kSegmentWords words of a row.
  constexpr int64_t kSegmentWords = 1024;
  const int64_t segments = (words + kSegmentWords - 1) / kSegmentWords;
  writer.SetIndexReach(int64_t{1} << 40);
  const std::string units = writer.Number(rows * segments),
                    count = writer.Number(words),
                    per_row = writer.Number(segments),
                    blocks = writer.Number(copy.blocks),
                    x_outer = writer.Number(copy.from_outer / word),
                    x_block = writer.Number(copy.from_block / word),
                    y_outer = writer.Number(copy.to_outer / word),
                    y_block = writer.Number(copy.to_block / word);
  writer.Add("  for (Index unit = blockIdx.x; unit < ", units,
             "; unit += gridDim.x) {\n    const Index row = unit / ", per_row,
             ", o = row / ", blocks, ", b = row % ", blocks,
             ";\n    const Index first = unit % ", per_row, " * ",
             kSegmentWords, ";\n    const Index last = first + ", kSegmentWords,
             " < ", count, " ? first + ", kSegmentWords, " : ", count,
             ";\n    const ", type, "* from = ", x, " + o * ", x_outer,
             " + b * ", x_block, ";\n    ", type, "* to = ", y, " + o * ",
             y_outer, " + b * ", y_block,
             ";\n    for (Index i = first + threadIdx.x; i < last; "
             "i += blockDim.x) to[i] = from[i];\n  }\n");
  return OneLaunch(runtime, writer,
                   rows * segments * static_cast<int64_t>(writer.threads()));
}

}  // namespace mtf::cuda
