// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/top_k.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "backends/block_lines.h"
#include "backends/cpu/threads.h"
#include "mtf/check.h"
#include "mtf/half.h"

namespace mtf::cpu {
namespace {

// Up to kFew elements are found by insertion, for kColumns adjacent lines at
// once.
constexpr int64_t kFew = 32;
constexpr int64_t kColumns = 16;
constexpr int64_t kTaskElements = 1 << 14;

// Unsigned keys in the order of the elements: NaN is largest, -0 equals 0.
inline uint32_t KeyOf(float x) {
  if (x != x) return 0xffffffffu;
  const uint32_t bits = x == 0 ? 0 : std::bit_cast<uint32_t>(x);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
inline uint32_t KeyOf(BFloat16 x) { return KeyOf(ToFloat(x)); }
inline uint32_t KeyOf(Float16 x) { return KeyOf(ToFloat(x)); }
inline uint32_t KeyOf(int32_t x) {
  return static_cast<uint32_t>(x) ^ 0x80000000u;
}
inline uint64_t KeyOf(int64_t x) {
  return static_cast<uint64_t>(x) ^ 0x8000000000000000u;
}

template <class T>
class TopKKernel : public Kernel {
  using Key = decltype(KeyOf(T{}));
  struct Entry {
    Key key;
    int64_t at;  // along the line
  };

 public:
  explicit TopKKernel(const Binding& binding)
      : lines_(RankedLines(binding)),
        flip_(binding.instruction().Get<TopKAttributes>().least ? ~Key{0} : 0),
        k_(binding.results[0].dims.back()),
        x_(static_cast<const T*>(binding.operands[0].data)),
        labels_(binding.operands.size() == 2
                    ? static_cast<const int32_t*>(binding.operands[1].data)
                    : nullptr),
        values_(binding.results.size() == 2
                    ? static_cast<T*>(binding.results[0].data)
                    : nullptr),
        indices_(static_cast<int32_t*>(binding.results.back().data)) {}

  void Run(StepContext&) override {
    const int64_t width = k_.valid <= kFew ? kColumns : 1;
    const int64_t strips = (lines_.inner + width - 1) / width;
    const int64_t grain =
        kTaskElements /
        std::max<int64_t>(lines_.block * std::min(lines_.inner, width), 1);
    ParallelFor(lines_.outer * lines_.blocks * strips, grain,
                [&](int64_t begin, int64_t end) {
                  std::vector<Entry> line;
                  for (int64_t task = begin; task < end; ++task) {
                    const int64_t first = task % strips * width;
                    const int64_t b = task / strips % lines_.blocks;
                    const int64_t outer = task / strips / lines_.blocks;
                    if (k_.valid <= kFew) {
                      FindFew(outer, b, first,
                              std::min(width, lines_.inner - first));
                    } else {
                      FindMany(outer, b, first, line);
                    }
                  }
                });
  }

 private:
  // The greatest key comes first.
  Key RankOf(T x) const { return KeyOf(x) ^ flip_; }
  int64_t OffsetOf(int64_t outer, int64_t at, int64_t column) const {
    return (outer * lines_.extent + at) * lines_.inner + column;
  }

  void FindFew(int64_t outer, int64_t b, int64_t first, int64_t count) const {
    const int64_t k = k_.valid, begin = lines_.begin(b), end = lines_.end(b);
    Entry best[kColumns][kFew];
    int64_t found[kColumns] = {};
    for (int64_t at = begin; at < end; ++at) {
      const int64_t offset = OffsetOf(outer, at, first);
      for (int64_t c = 0; c < count; ++c) {
        const Key key = RankOf(x_[offset + c]);
        // Of equal elements the first is ranked higher.
        if (found[c] == k && key <= best[c][k - 1].key) continue;
        if (labels_ != nullptr && labels_[offset + c] < 0) continue;
        int64_t to = found[c] == k ? k - 1 : found[c]++;
        for (; to > 0 && best[c][to - 1].key < key; --to) {
          best[c][to] = best[c][to - 1];
        }
        best[c][to] = {key, at};
      }
    }
    for (int64_t c = 0; c < count; ++c) {
      Write(outer, b, first + c, best[c], found[c]);
    }
  }

  void FindMany(int64_t outer, int64_t b, int64_t column,
                std::vector<Entry>& line) const {
    line.clear();
    for (int64_t at = lines_.begin(b); at < lines_.end(b); ++at) {
      const int64_t offset = OffsetOf(outer, at, column);
      if (labels_ != nullptr && labels_[offset] < 0) continue;
      line.push_back({RankOf(x_[offset]), at});
    }
    const auto above = [](const Entry& x, const Entry& y) {
      return x.key != y.key ? x.key > y.key : x.at < y.at;
    };
    const int64_t found = std::min(k_.valid, static_cast<int64_t>(line.size()));
    if (found < static_cast<int64_t>(line.size())) {
      std::nth_element(line.begin(), line.begin() + found, line.end(), above);
    }
    std::sort(line.begin(), line.begin() + found, above);
    Write(outer, b, column, line.data(), found);
  }

  // Missing entries have index -1; padding is zero.
  void Write(int64_t outer, int64_t b, int64_t column, const Entry* best,
             int64_t found) const {
    const int64_t line = (outer * lines_.inner + column) * lines_.blocks + b;
    int32_t* indices = indices_ + line * k_.extent;
    for (int64_t i = 0; i < k_.extent; ++i) {
      indices[i] = i < k_.valid ? -1 : 0;
      if (i >= found) continue;
      indices[i] = labels_ != nullptr
                       ? labels_[OffsetOf(outer, best[i].at, column)]
                       : static_cast<int32_t>(lines_.offset + best[i].at);
    }
    if (values_ == nullptr) return;
    T* values = values_ + line * k_.extent;
    for (int64_t i = 0; i < k_.extent; ++i) {
      values[i] = i < found ? x_[OffsetOf(outer, best[i].at, column)] : T{};
    }
  }

  const BlockLines lines_;
  const Key flip_;  // reverses the order of keys, or 0
  const ShardedDimension k_;
  const T* x_;
  const int32_t* labels_;
  T* values_;
  int32_t* indices_;
};

}  // namespace

std::unique_ptr<Kernel> PrepareTopK(const Binding& binding) {
  const DType dtype = binding.operands[0].dtype();
  switch (dtype) {
    case kFloat32:
      return std::make_unique<TopKKernel<float>>(binding);
    case kBFloat16:
      return std::make_unique<TopKKernel<BFloat16>>(binding);
    case kFloat16:
      return std::make_unique<TopKKernel<Float16>>(binding);
    case kInt32:
      return std::make_unique<TopKKernel<int32_t>>(binding);
    case kInt64:
      return std::make_unique<TopKKernel<int64_t>>(binding);
    default:
      MTF_CHECK(false) << DTypeName(dtype) << " is not ranked";
      return nullptr;
  }
}

}  // namespace mtf::cpu
