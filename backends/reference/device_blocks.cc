// SPDX-License-Identifier: Apache-2.0
//
// Instructions along one dimension in blocks: scan, reduce_blocks and top_k.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "backends/reference/device_kernels.h"

namespace mtf::reference {
namespace {

// Calls body(at) for each row along dimension `dim` of `frame`, with index 0
// along it.
void ForEachRow(const Frame& frame, int dim,
                const std::function<void(const Coordinates&)>& body) {
  std::vector<int64_t> extents = frame.Extents();
  extents[dim] = 1;
  ForEach(extents, body);
}

// Whether `x` ranks before `y` in descending order, NaN first.
bool IsAbove(Number x, Number y) {
  return std::isnan(x) ? !std::isnan(y) : x > y;
}

}  // namespace

Body MakeScan(const Binding& binding) {
  const std::vector<BoundValue> operands = binding.operands;
  const BoundValue result = binding.results[0];
  const auto& scan = binding.instruction().Get<ScanAttributes>();
  const ReduceKind kind = scan.kind;
  const bool exclusive = scan.exclusive, reverse = scan.reverse;
  const int dim = FindDim(result, scan.dimension);
  return [=](StepContext&) {
    const Frame frame(result);
    const DType dtype = result.dtype();
    const int64_t extent = frame.dims[dim].extent;
    const int64_t valid = frame.dims[dim].valid;
    const int64_t blocks =
        operands.size() == 2 ? operands[1].dims[dim].extent : 1;
    const int64_t block = blocks == 0 ? 0 : extent / blocks;
    ForEachRow(frame, dim, [&](Coordinates at) {
      for (int64_t b = 0; b < blocks; ++b) {
        Number total = IdentityOf(kind, dtype);
        if (operands.size() == 2) {
          at[dim] = b;
          total = Load(operands[1], Frame(operands[1]).Offset(at));
        }
        for (int64_t step = 0; step < block; ++step) {
          at[dim] = b * block + (reverse ? block - 1 - step : step);
          const int64_t offset = frame.Offset(at);
          if (at[dim] >= valid) {
            Store(result, offset, 0);
            continue;
          }
          const Number before = total;
          total = Combine(kind, dtype, total, Load(operands[0], offset));
          Store(result, offset, exclusive ? before : total);
        }
      }
    });
  };
}

Body MakeReduceBlocks(const Binding& binding) {
  const BoundValue x = binding.operands[0], result = binding.results[0];
  const auto& reduce = binding.instruction().Get<ReduceBlocksAttributes>();
  const ReduceKind kind = reduce.kind;
  const int dim = FindDim(result, reduce.dimension);
  return [=](StepContext&) {
    const Frame from(x), to(result);
    const int64_t block = from.dims[dim].extent / to.dims[dim].extent;
    ForEach(to.Extents(), [&](const Coordinates& at) {
      Number total = IdentityOf(kind, result.dtype());
      for (int64_t i = 0; i < block; ++i) {
        Coordinates there = at;
        there[dim] = at[dim] * block + i;
        if (there[dim] >= from.dims[dim].valid) break;
        total =
            Combine(kind, result.dtype(), total, Load(x, from.Offset(there)));
      }
      Store(result, to.Offset(at), total);
    });
  };
}

Body MakeTopK(const Binding& binding) {
  const std::vector<BoundValue> operands = binding.operands;
  const std::vector<BoundValue> results = binding.results;
  const auto& top_k = binding.instruction().Get<TopKAttributes>();
  const std::string dimension = top_k.dimension;
  const bool least = top_k.least;
  const bool in_blocks = results[0].value->shape.Contains(dimension);
  const int dim = FindDim(operands[0], dimension);
  return [=](StepContext&) {
    const BoundValue &x = operands[0], &indices = results.back();
    const Frame from(x), to(indices);
    const int64_t blocks =
        in_blocks ? indices.dims[FindDim(indices, dimension)].extent : 1;
    const int64_t block = blocks == 0 ? 0 : from.dims[dim].extent / blocks;
    const ShardedDimension k = to.dims.back();
    ForEachRow(from, dim, [&](Coordinates at) {
      for (int64_t b = 0; b < blocks; ++b) {
        std::vector<std::pair<Number, Number>> ranked;  // value, label
        for (int64_t i = b * block;
             i < std::min((b + 1) * block, from.dims[dim].valid); ++i) {
          at[dim] = i;
          const int64_t offset = from.Offset(at);
          const Number label = operands.size() == 2
                                   ? Load(operands[1], offset)
                                   : Number(from.dims[dim].offset + i);
          if (label >= 0) ranked.push_back({Load(x, offset), label});
        }
        std::stable_sort(ranked.begin(), ranked.end(),
                         [least](const auto& a, const auto& b) {
                           return least ? IsAbove(b.first, a.first)
                                        : IsAbove(a.first, b.first);
                         });
        // If the block has fewer elements, the remaining labels are -1.
        Coordinates there = to.From(from, at);
        if (in_blocks) there[to.dims.size() - 2] = b;
        for (int64_t i = 0; i < k.extent; ++i) {
          there.back() = i;
          const int64_t offset = to.Offset(there);
          const bool found = i < static_cast<int64_t>(ranked.size());
          const Number none = i < k.valid ? -1 : 0;
          const bool takes = found && i < k.valid;
          Store(indices, offset, takes ? ranked[i].second : none);
          if (results.size() == 2) {
            Store(results[0], offset, takes ? ranked[i].first : 0);
          }
        }
      }
    });
  };
}

}  // namespace mtf::reference
