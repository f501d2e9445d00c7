// SPDX-License-Identifier: Apache-2.0
//
// What goes along one dimension, block by block: scans, the totals of blocks,
// the greatest elements.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "backends/reference/device_kernels.h"
#include "mtf/check.h"

namespace mtf::reference {
namespace {

int Find(const BoundValue& value, const std::string& name) {
  const int dim = value.value->shape.Find(name);
  MTF_CHECK_LE(0, dim) << name;
  return dim;
}

// Calls body(at) for each row along dimension `dim` of `frame`, with its place
// along it 0.
void ForEachRow(const Frame& frame, int dim,
                const std::function<void(const Coordinates&)>& body) {
  std::vector<int64_t> extents = frame.Extents();
  extents[dim] = 1;
  ForEach(extents, body);
}

// Whether `x` stands before `y` where equal ones keep their order.
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
  const int dim = Find(result, scan.dimension);
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
          total = Load(operands[1], Frame(operands[1]).Place(at));
        }
        for (int64_t step = 0; step < block; ++step) {
          at[dim] = b * block + (reverse ? block - 1 - step : step);
          const int64_t place = frame.Place(at);
          if (at[dim] >= valid) {
            Store(result, place, 0);
            continue;
          }
          const Number before = total;
          total = Combine(kind, dtype, total, Load(operands[0], place));
          Store(result, place, exclusive ? before : total);
        }
      }
    });
  };
}

Body MakeReduceBlocks(const Binding& binding) {
  const BoundValue x = binding.operands[0], result = binding.results[0];
  const auto& reduce = binding.instruction().Get<ReduceBlocksAttributes>();
  const ReduceKind kind = reduce.kind;
  const int dim = Find(result, reduce.dimension);
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
            Combine(kind, result.dtype(), total, Load(x, from.Place(there)));
      }
      Store(result, to.Place(at), total);
    });
  };
}

Body MakeTopK(const Binding& binding) {
  const std::vector<BoundValue> operands = binding.operands;
  const std::vector<BoundValue> results = binding.results;
  const std::string dimension = DimensionOf(binding.instruction());
  const int dim = Find(operands[0], dimension);
  return [=](StepContext&) {
    const BoundValue &x = operands[0], &places = results.back();
    const Frame from(x), to(places);
    const int64_t blocks =
        results.size() == 2 ? places.dims[Find(places, dimension)].extent : 1;
    const int64_t block = blocks == 0 ? 0 : from.dims[dim].extent / blocks;
    const ShardedDimension k = to.dims.back();
    ForEachRow(from, dim, [&](Coordinates at) {
      for (int64_t b = 0; b < blocks; ++b) {
        std::vector<std::pair<Number, Number>> ranked;  // values and labels
        for (int64_t i = b * block;
             i < std::min((b + 1) * block, from.dims[dim].valid); ++i) {
          at[dim] = i;
          const int64_t place = from.Place(at);
          const Number label = operands.size() == 2
                                   ? Load(operands[1], place)
                                   : Number(from.dims[dim].offset + i);
          if (label >= 0) ranked.push_back({Load(x, place), label});
        }
        std::stable_sort(ranked.begin(), ranked.end(),
                         [](const auto& a, const auto& b) {
                           return IsAbove(a.first, b.first);
                         });
        // A block of too few leaves what has no label.
        Coordinates there = to.From(from, at);
        if (results.size() == 2) there[to.dims.size() - 2] = b;
        for (int64_t i = 0; i < k.extent; ++i) {
          there.back() = i;
          const int64_t place = to.Place(there);
          const bool found = i < static_cast<int64_t>(ranked.size());
          const Number none = i < k.valid ? -1 : 0;
          const bool takes = found && i < k.valid;
          Store(places, place, takes ? ranked[i].second : none);
          if (results.size() == 2) {
            Store(results[0], place, takes ? ranked[i].first : 0);
          }
        }
      }
    });
  };
}

}  // namespace mtf::reference
