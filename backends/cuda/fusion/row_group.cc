// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/row_group.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backends/cuda/codegen/kernel_list.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/fusion/group_dataflow.h"
#include "backends/cuda/fusion/row_plan.h"
#include "backends/cuda/fusion/row_sums.h"
#include "backends/cuda/fusion/row_writer.h"
#include "mtf/status.h"

namespace mtf::cuda {

RowGroupSource WriteRowGroup(const GpuInfo& gpu,
                             absl::Span<const Binding> members) {
  const GroupDataflow dataflow = GroupDataflow::Of(members);
  const RowPlan plan(gpu, members, dataflow);
  RowGroupSource written;
  written.source = {"row_group", RowGroupWriter(plan).Write()};
  for (const BoundValue& input : dataflow.inputs) {
    written.pointers.push_back(input.data);
  }
  for (int i = 0; i < plan.members(); ++i) {
    if (!dataflow.stored[i] || plan.IsRowSum(i)) continue;
    written.pointers.push_back(plan.result(i).data);
  }
  written.row_sums = plan.row_sums();
  written.stripes = plan.stripes();
  written.kept = plan.tiling().kept;
  written.bytes_read = plan.BytesRead();
  written.bytes_written = plan.BytesWritten();
  const int block_rows = plan.tiling().block_rows;
  const int threads = plan.tiling().threads * block_rows;
  written.shape.threads = threads;
  written.shape.shared_bytes = plan.tiling().shared_bytes;
  // Four waves of resident blocks: the partially filled last one costs little,
  // and the per-block setup is shared by many rows.
  const int64_t at_once =
      int64_t{gpu.multiprocessors} * std::max(1, 2048 / threads);
  const int64_t units =
      plan.stripes() > 0 ? plan.stripes() : plan.space().rows();
  written.shape.blocks = std::clamp<int64_t>(
      (units + block_rows - 1) / block_rows, 1, 4 * at_once);
  return written;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareRowGroup(
    Runtime& runtime, Scratch& scratch, absl::Span<const Binding> members) {
  const RowGroupSource written = WriteRowGroup(runtime.info(), members);
  MTF_ASSIGN_OR_RETURN(Function * function, runtime.Compile(written.source));
  Launch launch{function, written.shape, {}};
  for (void* pointer : written.pointers) {
    launch.arguments.push_back(reinterpret_cast<uintptr_t>(pointer));
  }
  std::vector<BoundValue> sums;
  for (int member : written.row_sums) {
    sums.push_back(members[member].results[0]);
  }
  auto kernels = std::make_unique<KernelList>();
  std::unique_ptr<Kernel> row_sums;
  if (!sums.empty()) {
    const int64_t elements = static_cast<int64_t>(sums.size()) *
                             written.stripes * sums[0].elements();
    MTF_ASSIGN_OR_RETURN(void* const partial,
                         scratch.Reserve(elements * int64_t{sizeof(float)}));
    launch.arguments.push_back(reinterpret_cast<uintptr_t>(partial));
    MTF_ASSIGN_OR_RETURN(
        row_sums, PrepareRowSums(runtime, partial, written.stripes, sums));
  }
  std::unique_ptr<Kernel> rows =
      std::make_unique<LaunchSequence>(runtime, std::vector<Launch>{launch});
  kernels->Add(std::move(rows));
  if (row_sums != nullptr) kernels->Add(std::move(row_sums));
  return kernels;
}

}  // namespace mtf::cuda
