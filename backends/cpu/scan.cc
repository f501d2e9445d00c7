// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/scan.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/block_lines.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/vector_functions.h"
#include "mtf/check.h"
#include "mtf/half.h"

namespace mtf::cpu {
namespace {

// Columns that a thread processes together; their sums fit into the first-level
// cache.
constexpr int64_t kColumns = 512;
// Contiguous lines that are processed together to overlap the latency of their
// dependent sums.
constexpr int64_t kLines = 4;
constexpr int64_t kTaskElements = 1 << 15;

inline float ToTotal(float x) { return x; }
inline float ToTotal(BFloat16 x) { return ToFloat(x); }
inline float ToTotal(Float16 x) { return ToFloat(x); }
inline int32_t ToTotal(int32_t x) { return x; }
inline int64_t ToTotal(int64_t x) { return x; }
template <class T>
using Total = decltype(ToTotal(T{}));

template <class T>
T FromTotal(Total<T> x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return ToBFloat16(x);
  } else if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(x);
  } else {
    return x;
  }
}

template <ReduceKind kKind, class A>
A Identity() {
  using Limits = std::numeric_limits<A>;
  if (kKind == ReduceKind::kSum) return 0;
  if (std::is_floating_point_v<A>) {
    return kKind == ReduceKind::kMax ? -Limits::infinity() : Limits::infinity();
  }
  return kKind == ReduceKind::kMax ? Limits::lowest() : Limits::max();
}

// NaN propagates; integers wrap around.
template <ReduceKind kKind, class A>
inline A Combine(A total, A x) {
  if constexpr (kKind == ReduceKind::kMax) {
    return x > total || x != x ? x : total;
  } else if constexpr (kKind == ReduceKind::kMin) {
    return x < total || x != x ? x : total;
  } else if constexpr (std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<U>(total) + static_cast<U>(x));
  } else {
    return total + x;
  }
}

template <class T, ReduceKind kKind>
class ScanKernel : public Kernel {
  using A = Total<T>;

 public:
  explicit ScanKernel(const Binding& binding)
      : lines_(LinesOf(
            binding.operands[0], DimensionOf(binding.instruction()),
            binding.operands.size() == 2 ? &binding.operands[1] : nullptr)),
        x_(static_cast<const T*>(binding.operands[0].data)),
        starts_(binding.operands.size() == 2
                    ? static_cast<const A*>(binding.operands[1].data)
                    : nullptr),
        y_(static_cast<T*>(binding.results[0].data)),
        exclusive_(binding.instruction().Get<ScanAttributes>().exclusive),
        reverse_(binding.instruction().Get<ScanAttributes>().reverse) {}

  void Run(StepContext&) override {
    const int64_t across = lines_.inner == 1 ? lines_.outer : lines_.inner;
    const int64_t width = lines_.inner == 1 ? kLines : kColumns;
    const int64_t strips = (across + width - 1) / width;
    const int64_t groups = lines_.inner == 1 ? 1 : lines_.outer;
    const int64_t grain =
        kTaskElements /
        std::max<int64_t>(lines_.block * std::min(across, width), 1);
    ParallelFor(groups * lines_.blocks * strips, grain,
                [&](int64_t begin, int64_t end) {
                  for (int64_t task = begin; task < end; ++task) {
                    const int64_t first = task % strips * width;
                    const int64_t count = std::min(width, across - first);
                    const int64_t b = task / strips % lines_.blocks;
                    if (lines_.inner == 1) {
                      WalkLines(first, count, b);
                    } else {
                      WalkColumns(task / strips / lines_.blocks, first, count,
                                  b);
                    }
                  }
                });
  }

 private:
  A StartOf(int64_t outer, int64_t b, int64_t column) const {
    return starts_ == nullptr
               ? Identity<kKind, A>()
               : starts_[(outer * lines_.blocks + b) * lines_.inner + column];
  }

  // Scans block `b` of `count` contiguous lines.
  void WalkLines(int64_t first, int64_t count, int64_t b) const {
    if (count == kLines) {
      WalkSome<kLines>(first, b);
    } else {
      for (int64_t i = 0; i < count; ++i) WalkSome<1>(first + i, b);
    }
  }
  template <int64_t kCount>
  void WalkSome(int64_t first, int64_t b) const {
    const int64_t begin = lines_.begin(b), end = lines_.end(b);
    const T* x = x_ + first * lines_.extent;
    T* y = y_ + first * lines_.extent;
    A totals[kCount];
    for (int64_t i = 0; i < kCount; ++i) totals[i] = StartOf(first + i, b, 0);
    const int64_t step = reverse_ ? -1 : 1;
    const int64_t from = reverse_ ? end - 1 : begin;
    for (int64_t n = 0, at = from; n < end - begin; ++n, at += step) {
      for (int64_t i = 0; i < kCount; ++i) {
        const int64_t index = i * lines_.extent + at;
        const A before = totals[i];
        totals[i] = Combine<kKind>(before, ToTotal(x[index]));
        y[index] = FromTotal<T>(exclusive_ ? before : totals[i]);
      }
    }
    for (int64_t i = 0; i < kCount; ++i) {
      T* line = y + i * lines_.extent;
      std::fill(line + end, line + (b + 1) * lines_.block, T{});
    }
  }

  // Scans block `b` of columns [first, first + count).
  void WalkColumns(int64_t outer, int64_t first, int64_t count,
                   int64_t b) const {
    const int64_t begin = lines_.begin(b), end = lines_.end(b);
    const int64_t origin = outer * lines_.extent * lines_.inner + first;
    A totals[kColumns];
    for (int64_t i = 0; i < count; ++i) {
      totals[i] = StartOf(outer, b, first + i);
    }
    for (int64_t n = 0; n < end - begin; ++n) {
      const int64_t at = reverse_ ? end - 1 - n : begin + n;
      const T* x = x_ + origin + at * lines_.inner;
      T* y = y_ + origin + at * lines_.inner;
      if (exclusive_) {
        for (int64_t i = 0; i < count; ++i) {
          const A before = totals[i];
          totals[i] = Combine<kKind>(before, ToTotal(x[i]));
          y[i] = FromTotal<T>(before);
        }
      } else {
        for (int64_t i = 0; i < count; ++i) {
          totals[i] = Combine<kKind>(totals[i], ToTotal(x[i]));
          y[i] = FromTotal<T>(totals[i]);
        }
      }
    }
    for (int64_t at = end; at < (b + 1) * lines_.block; ++at) {
      T* y = y_ + origin + at * lines_.inner;
      std::fill(y, y + count, T{});
    }
  }

  const BlockLines lines_;
  const T* x_;
  const A* starts_;
  T* y_;
  const bool exclusive_, reverse_;
};

template <class T, ReduceKind kKind>
class ReduceBlocksKernel : public Kernel {
  using A = Total<T>;

 public:
  explicit ReduceBlocksKernel(const Binding& binding)
      : lines_(LinesOf(binding.operands[0], DimensionOf(binding.instruction()),
                       &binding.results[0])),
        x_(static_cast<const T*>(binding.operands[0].data)),
        y_(static_cast<A*>(binding.results[0].data)) {}

  void Run(StepContext&) override {
    const int64_t strips = (lines_.inner + kColumns - 1) / kColumns;
    const int64_t grain =
        kTaskElements /
        std::max<int64_t>(lines_.block * std::min(lines_.inner, kColumns), 1);
    ParallelFor(lines_.outer * lines_.blocks * strips, grain,
                [&](int64_t begin, int64_t end) {
                  for (int64_t task = begin; task < end; ++task) {
                    const int64_t first = task % strips * kColumns;
                    Reduce(task / strips, first,
                           std::min(kColumns, lines_.inner - first));
                  }
                });
  }

 private:
  // Reduces columns [first, first + count) of the block with index `o_b` in the
  // result.
  void Reduce(int64_t o_b, int64_t first, int64_t count) const {
    const int64_t b = o_b % lines_.blocks, outer = o_b / lines_.blocks;
    const int64_t begin = lines_.begin(b), size = lines_.end(b) - begin;
    const T* x = x_ + (outer * lines_.extent + begin) * lines_.inner + first;
    A* y = y_ + o_b * lines_.inner + first;
    if constexpr (std::is_same_v<T, float>) {
      if (lines_.inner == 1 && size > 0) {
        *y = ReduceFloats(kKind, x, size);
        return;
      }
    }
    std::fill(y, y + count, Identity<kKind, A>());
    for (int64_t n = 0; n < size; ++n, x += lines_.inner) {
      for (int64_t i = 0; i < count; ++i) {
        y[i] = Combine<kKind>(y[i], ToTotal(x[i]));
      }
    }
  }

  const BlockLines lines_;
  const T* x_;
  A* y_;
};

template <template <class, ReduceKind> class K, class T>
std::unique_ptr<Kernel> PrepareKind(const Binding& binding) {
  switch (ReductionOf(binding.instruction())) {
    case ReduceKind::kSum:
      return std::make_unique<K<T, ReduceKind::kSum>>(binding);
    case ReduceKind::kMax:
      return std::make_unique<K<T, ReduceKind::kMax>>(binding);
    case ReduceKind::kMin:
      return std::make_unique<K<T, ReduceKind::kMin>>(binding);
  }
  return nullptr;
}

template <template <class, ReduceKind> class K>
std::unique_ptr<Kernel> PrepareDType(const Binding& binding) {
  const DType dtype = binding.operands[0].dtype();
  switch (dtype) {
    case kFloat32:
      return PrepareKind<K, float>(binding);
    case kBFloat16:
      return PrepareKind<K, BFloat16>(binding);
    case kFloat16:
      return PrepareKind<K, Float16>(binding);
    case kInt32:
      return PrepareKind<K, int32_t>(binding);
    case kInt64:
      return PrepareKind<K, int64_t>(binding);
    default:
      MTF_CHECK(false) << DTypeName(dtype) << " is not scanned";
      return nullptr;
  }
}

}  // namespace

std::unique_ptr<Kernel> PrepareScan(const Binding& binding) {
  return PrepareDType<ScanKernel>(binding);
}

std::unique_ptr<Kernel> PrepareReduceBlocks(const Binding& binding) {
  return PrepareDType<ReduceBlocksKernel>(binding);
}

}  // namespace mtf::cpu
