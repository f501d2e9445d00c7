// SPDX-License-Identifier: Apache-2.0
#include "train/weights/weight_pieces.h"

#include <algorithm>
#include <cstddef>

#include "absl/functional/function_ref.h"
#include "mtf/half.h"
#include "mtf/host_tensor.h"

namespace mtf::train {
namespace {

using nn::WeightFactor;

// A contiguous run along one dimension of a tensor in the file.
struct FactorRun {
  ElementRange range;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

class PieceFinder {
 public:
  PieceFinder(const nn::ParameterWeights& weights, const Shape& shape,
              const ElementRanges& wanted)
      : weights_(weights), wanted_(wanted), strides_(shape.rank(), 1) {
    for (int i = shape.rank() - 2; i >= 0; --i) {
      strides_[i] = strides_[i + 1] * wanted[i + 1].size;
    }
  }

  std::vector<WeightPiece> Find() {
    for (const std::vector<WeightFactor>& factors : weights_.dims) {
      runs_.push_back(RunsOf(factors));
    }
    if (weights_.stacked < 0) {
      Combine(0, WeightPiece());
      return pieces_;
    }
    const ElementRange& stack = wanted_[weights_.stacked];
    for (int64_t i = 0; i < stack.size; ++i) {
      WeightPiece piece;
      piece.tensor = static_cast<int>(stack.begin + i);
      piece.offset = i * strides_[weights_.stacked];
      Combine(0, piece);
    }
    return pieces_;
  }

 private:
  // The elements of a factor that are wanted.
  ElementRange Wanted(const WeightFactor& factor) const {
    if (factor.dim < 0) return {factor.index, 1};
    return wanted_[factor.dim];
  }
  int64_t StrideOf(const WeightFactor& factor) const {
    return factor.dim < 0 ? 0 : strides_[factor.dim];
  }

  // The runs along a dimension that consists of `factors`: the last factors of
  // which all elements are wanted are contiguous, and so is the range of the
  // one before; of those before it each combination is a run.
  std::vector<FactorRun> RunsOf(
      const std::vector<WeightFactor>& factors) const {
    size_t outer = factors.size();
    while (outer > 0) {
      const WeightFactor& factor = factors[outer - 1];
      --outer;
      if (Wanted(factor).size != factor.size) break;
    }
    FactorRun run;
    run.range.size = 1;
    int64_t unit = 1;  // elements of the tensor between those of a factor
    for (size_t i = factors.size(); i-- > outer;) {
      const ElementRange wanted = Wanted(factors[i]);
      run.range.begin += wanted.begin * unit;
      run.range.size *= wanted.size;
      run.sizes.insert(run.sizes.begin(), wanted.size);
      run.strides.insert(run.strides.begin(), StrideOf(factors[i]));
      unit *= factors[i].size;
    }
    std::vector<FactorRun> runs = {run};
    for (size_t i = outer; i-- > 0;) {
      const ElementRange wanted = Wanted(factors[i]);
      std::vector<FactorRun> more;
      for (int64_t index = 0; index < wanted.size; ++index) {
        for (FactorRun each : runs) {
          each.range.begin += (wanted.begin + index) * unit;
          each.offset += index * StrideOf(factors[i]);
          more.push_back(each);
        }
      }
      runs = more;
      unit *= factors[i].size;
    }
    return runs;
  }

  // Adds `piece` with each combination of runs of the dimensions from `dim` on.
  void Combine(size_t dim, const WeightPiece& piece) {
    if (dim == runs_.size()) {
      pieces_.push_back(piece);
      return;
    }
    for (const FactorRun& run : runs_[dim]) {
      WeightPiece next = piece;
      next.ranges.push_back(run.range);
      next.sizes.insert(next.sizes.end(), run.sizes.begin(), run.sizes.end());
      next.strides.insert(next.strides.end(), run.strides.begin(),
                          run.strides.end());
      next.offset += run.offset;
      Combine(dim + 1, next);
    }
  }

  const nn::ParameterWeights& weights_;
  const ElementRanges& wanted_;
  std::vector<int64_t> strides_;              // of the range of the parameter
  std::vector<std::vector<FactorRun>> runs_;  // by dimension of the tensor
  std::vector<WeightPiece> pieces_;
};

// Calls visit(element, offset, stride, count) for the rows of the last counter:
// `count` elements of the piece from `element`, which are at `offset`, `offset
// + stride`, ... of the parameter.
void ForEachRow(const WeightPiece& piece,
                absl::FunctionRef<void(int64_t element, int64_t offset,
                                       int64_t stride, int64_t count)>
                    visit) {
  const size_t rank = piece.sizes.size();
  if (rank == 0) return visit(0, piece.offset, 0, 1);
  const int64_t count = piece.sizes.back();
  const int64_t rows = count == 0 ? 0 : piece.num_elements() / count;
  std::vector<int64_t> index(rank, 0);
  int64_t offset = piece.offset;
  for (int64_t row = 0; row < rows; ++row) {
    visit(row * count, offset, piece.strides.back(), count);
    for (size_t i = rank - 1; i-- > 0;) {
      offset += piece.strides[i];
      if (++index[i] < piece.sizes[i]) break;
      offset -= piece.strides[i] * piece.sizes[i];
      index[i] = 0;
    }
  }
}

// Adds `piece` to `blocks`, split along its first counter that counts more than
// one, and each value of that counter again if it has more than `elements`.
void SplitPiece(const WeightPiece& piece, int64_t elements,
                std::vector<WeightPiece>& blocks) {
  const int64_t total = piece.num_elements();
  if (total <= std::max<int64_t>(elements, 1)) {
    blocks.push_back(piece);
    return;
  }
  // The sizes of a dimension's counters multiply to its range, so the first
  // counter above 1 is the major one of the first range above 1.
  size_t counter = 0, dim = 0;
  while (piece.sizes[counter] == 1) ++counter;
  while (piece.ranges[dim].size == 1) ++dim;
  const int64_t size = piece.sizes[counter], each = total / size;
  const int64_t rows = piece.ranges[dim].size / size;
  const int64_t step = std::max<int64_t>(1, elements / each);
  for (int64_t i = 0; i < size; i += step) {
    WeightPiece block = piece;
    block.sizes[counter] = std::min(step, size - i);
    block.ranges[dim] = {piece.ranges[dim].begin + i * rows,
                         block.sizes[counter] * rows};
    block.offset += i * piece.strides[counter];
    SplitPiece(block, elements, blocks);
  }
}

}  // namespace

std::vector<WeightPiece> PiecesOf(const nn::ParameterWeights& weights,
                                  const Shape& shape,
                                  const ElementRanges& wanted) {
  if (NumElements(wanted) == 0) return {};
  return PieceFinder(weights, shape, wanted).Find();
}

std::vector<WeightPiece> BlocksOf(const WeightPiece& piece, int64_t elements) {
  std::vector<WeightPiece> blocks;
  SplitPiece(piece, elements, blocks);
  return blocks;
}

void ScatterPiece(const WeightPiece& piece, absl::Span<const float> elements,
                  DType dtype, void* parameter) {
  ForEachRow(piece, [&](int64_t element, int64_t offset, int64_t stride,
                        int64_t count) {
    const float* const from = elements.data() + element;
    // Loops of one dtype are vector loops where the stride is 1.
    if (dtype == kFloat32) {
      float* const to = static_cast<float*>(parameter) + offset;
      for (int64_t i = 0; i < count; ++i) to[i * stride] = from[i];
    } else if (dtype == kBFloat16) {
      BFloat16* const to = static_cast<BFloat16*>(parameter) + offset;
      for (int64_t i = 0; i < count; ++i) to[i * stride] = ToBFloat16(from[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        StoreElement(parameter, dtype, offset + i * stride, from[i]);
      }
    }
  });
}

void GatherPiece(const WeightPiece& piece, absl::Span<const float> parameter,
                 absl::Span<float> elements) {
  ForEachRow(piece, [&](int64_t element, int64_t offset, int64_t stride,
                        int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      elements[element + i] = parameter[offset + i * stride];
    }
  });
}

}  // namespace mtf::train
