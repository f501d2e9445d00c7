// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/row_sums.h"

#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/codegen/kernel_writer.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

// Neighbouring columns taken by the lanes of a warp.
constexpr int64_t kWarpSize = 32;
// Stripes per thread below which there are fewer threads, and the most warps of
// a block.
constexpr int64_t kGoodShare = 8;
constexpr int kMaxWarps = 32;

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareRowSums(
    Runtime& runtime, const void* partial, int64_t stripes,
    absl::Span<const BoundValue> sums) {
  const int64_t count = static_cast<int64_t>(sums.size());
  const int64_t columns = sums[0].elements();
  if (columns == 0) {
    return std::make_unique<LaunchSequence>(runtime, std::vector<Launch>());
  }
  const int64_t elements = count * stripes * columns;
  const int64_t tiles = (columns + kWarpSize - 1) / kWarpSize;
  int warps = 1;
  while (warps < kMaxWarps && warps * kGoodShare < stripes) warps *= 2;

  KernelWriter writer("row_sums", static_cast<int>(warps * kWarpSize));
  writer.UseCombine();
  const std::string x = writer.Read(partial, kFloat32, elements);
  writer.SetIndexReach(elements + warps * columns);
  writer.Add("  __shared__ double shared[", warps, "][", kWarpSize,
             "];\n  const int lane = threadIdx.x % ", kWarpSize,
             ", warp = threadIdx.x / ", kWarpSize,
             ";\n  for (Index unit = blockIdx.x; unit < ", count * tiles,
             "; unit += gridDim.x) {\n    const Index sum = unit / ", tiles,
             ", c = unit % ", tiles, " * ", kWarpSize,
             " + lane;\n    double total = 0.0;\n    if (c < ", columns,
             ") {\n#pragma unroll ", kGoodShare,
             "\n      for (Index stripe = warp; stripe < ", stripes,
             "; stripe += ", warps, ") {\n        total = Sum::Of(total, ",
             "(double)", x, "[(sum * ", stripes, " + stripe) * ", columns,
             " + c]);\n      }\n    }\n    shared[warp][lane] = total;\n",
             "    __syncthreads();\n    if (warp == 0 && c < ", columns,
             ") {\n      for (int w = 1; w < ", warps,
             "; ++w) total = Sum::Of(total, shared[w][lane]);\n");
  for (int64_t i = 0; i < count; ++i) {
    const BoundValue& sum = sums[i];
    if (sum.data == nullptr) continue;  // has no reader
    writer.Add("      if (sum == ", i, ") Put(",
               writer.Write(sum.data, sum.dtype(), columns),
               "[c], Register(total));\n");
  }
  writer.Add("    }\n    __syncthreads();\n  }\n");
  std::vector<Launch> launches(1);
  MTF_ASSIGN_OR_RETURN(
      launches[0],
      writer.Compile(
          runtime,
          writer.ShapeFor(runtime.info(), count * tiles * warps * kWarpSize)));
  return std::make_unique<LaunchSequence>(runtime, std::move(launches));
}

}  // namespace mtf::cuda
