// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/dynamic_slice.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/strided_copy.h"
#include "mtf/check.h"
#include "mtf/sliced_rows.h"

namespace mtf::cpu {
namespace {

// The elements of an index that are not padding.
class IndexElements {
 public:
  // A dimension, with strides in elements: in the value, in the rows, and in
  // the global positions that errors report.
  struct Loop {
    int64_t extent = 1, valid = 1, value = 0, rows = 0, global = 0;
  };

  explicit IndexElements(const BoundValue& index) : index_(index) {
    const Shape& shape = index.value->shape;
    loops_.resize(shape.rank());
    int64_t global = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      loops_[i] = {.extent = index.dims[i].extent,
                   .valid = index.dims[i].valid,
                   .global = global};
      first_position_ += index.dims[i].offset * global;
      global *= shape[i].size;
      count_ *= index.dims[i].extent;
    }
  }

  std::vector<Loop>& loops() { return loops_; }
  bool has_padding() const {
    return std::any_of(loops_.begin(), loops_.end(), [](const Loop& loop) {
      return loop.valid != loop.extent;
    });
  }

  struct Element {
    int64_t number = 0, index = 0;  // in memory, and its value
    int64_t value = 0, rows = 0, position = 0;
  };
  template <class Body>
  void ForEach(const Body& body) const {
    const int rank = static_cast<int>(loops_.size());
    std::vector<int64_t> at(rank, 0);
    for (int64_t number = 0; number < count_; ++number) {
      Element element = {.number = number, .position = first_position_};
      bool valid = true;
      for (int i = 0; i < rank; ++i) {
        element.value += at[i] * loops_[i].value;
        element.rows += at[i] * loops_[i].rows;
        element.position += at[i] * loops_[i].global;
        valid = valid && at[i] < loops_[i].valid;
      }
      if (valid) {
        element.index = Load(number);
        body(element);
      }
      for (int i = rank - 1; i >= 0 && ++at[i] == loops_[i].extent; --i) {
        at[i] = 0;
      }
    }
  }

 private:
  int64_t Load(int64_t number) const {
    return index_.dtype() == kInt32
               ? static_cast<const int32_t*>(index_.data)[number]
               : static_cast<const int64_t*>(index_.data)[number];
  }

  BoundValue index_;
  std::vector<Loop> loops_;
  int64_t first_position_ = 0, count_ = 1;
};

class CheckIndexKernel : public Kernel {
 public:
  explicit CheckIndexKernel(const Binding& binding)
      : instruction_(binding.index),
        limit_(binding.instruction().Get<CheckIndexAttributes>().limit()),
        elements_(binding.operands[0]),
        result_(binding.results[0]) {}

  void Run(StepContext& context) override {
    std::memset(result_.data, 0,
                result_.elements() * DTypeSize(result_.dtype()));
    elements_.ForEach([&](const IndexElements::Element& element) {
      if (element.index < 0 || element.index >= limit_) {
        context.Report(instruction_, element.position, element.index);
      } else if (result_.dtype() == kInt32) {
        static_cast<int32_t*>(result_.data)[element.number] =
            static_cast<int32_t>(element.index);
      } else {
        static_cast<int64_t*>(result_.data)[element.number] = element.index;
      }
    });
  }

 private:
  int64_t instruction_, limit_;
  IndexElements elements_;
  BoundValue result_;
};

// The rows of a dynamic_slice or update_slice that are in this rank's shard of
// the value.
class RowRanges {
 public:
  RowRanges(const BoundValue& value, const BoundValue& rows,
            const BoundValue& index, const std::string& dimension)
      : elements_(index) {
    const Shape &shape = value.value->shape, &rows_shape = rows.value->shape;
    const int along = shape.Find(dimension);
    MTF_CHECK_LE(0, along) << dimension;
    shard_ = value.dims[along];
    size_ = shape[along].size;
    value_stride_ = value.stride(along);
    const int dim = FindRowsDimension(shape, rows_shape, dimension);
    count_ = dim < 0 ? 1 : rows.dims[dim].valid;
    rows_stride_ = dim < 0 ? 0 : rows.stride(dim);
    covers_rows_ = shard_.valid == size_ && !elements_.has_padding() &&
                   (dim < 0 || rows.dims[dim].valid == rows.dims[dim].extent);
    const Shape& index_shape = index.value->shape;
    for (int i = 0; i < rows_shape.rank(); ++i) {
      if (i == dim) continue;
      const int there = shape.Find(rows_shape[i].name);
      MTF_CHECK_LE(0, there) << rows_shape[i].name;
      MTF_CHECK_EQ(value.dims[there].extent, rows.dims[i].extent)
          << rows_shape[i].name;
      const int indexed = index_shape.Find(rows_shape[i].name);
      if (indexed >= 0) {
        elements_.loops()[indexed].value = value.stride(there);
        elements_.loops()[indexed].rows = rows.stride(i);
      } else {
        columns_.push_back(
            {rows.dims[i].extent, value.stride(there), rows.stride(i)});
      }
    }
  }

  // The other dimensions of the value and the rows, `from` and `to`.
  const std::vector<StridedCopy::Loop>& columns() const { return columns_; }
  int64_t count() const { return count_; }
  int64_t value_stride() const { return value_stride_; }
  int64_t rows_stride() const { return rows_stride_; }
  // Whether every element of the rows is in the shard, whatever the index.
  bool covers_rows() const { return covers_rows_; }

  // Calls body(value, rows, count) for each range of rows in the shard, with
  // the offsets of its first row.
  template <class Body>
  void ForEach(const Body& body) const {
    elements_.ForEach([&](const IndexElements::Element& element) {
      // Keeps the sums below from overflowing.
      if (element.index <= -count_ || element.index >= size_) return;
      const int64_t first = element.index - shard_.offset;
      const int64_t begin = std::max<int64_t>(0, -first);
      const int64_t end = std::min(count_, shard_.valid - first);
      if (begin >= end) return;
      body(element.value + (first + begin) * value_stride_,
           element.rows + begin * rows_stride_, end - begin);
    });
  }

 private:
  IndexElements elements_;
  ShardedDimension shard_;
  int64_t size_ = 0, count_ = 1, value_stride_ = 0, rows_stride_ = 0;
  bool covers_rows_ = false;
  std::vector<StridedCopy::Loop> columns_;
};

// Copies ranges of rows of one size, or of some rows of it, at any offsets.
class RowCopy {
 public:
  // `loops` and the strides of a row are from the source to the destination.
  RowCopy(int64_t element_size, std::vector<StridedCopy::Loop> loops,
          StridedCopy::Loop row)
      : size_(element_size),
        row_(row),
        one_(static_cast<int>(element_size), loops),
        all_(static_cast<int>(element_size), [&] {
          loops.insert(loops.begin(), row);
          return std::move(loops);
        }()) {}

  void Run(const std::byte* from, std::byte* to, int64_t rows) const {
    if (rows == row_.extent) return all_.Run(from, to);
    for (int64_t row = 0; row < rows; ++row) {
      one_.Run(from + row * row_.from * size_, to + row * row_.to * size_);
    }
  }

 private:
  int64_t size_;
  StridedCopy::Loop row_;
  StridedCopy one_, all_;
};

class DynamicSliceKernel : public Kernel {
 public:
  explicit DynamicSliceKernel(const Binding& binding)
      : value_(binding.operands[0]),
        result_(binding.results[0]),
        size_(DTypeSize(result_.dtype())),
        ranges_(value_, result_, binding.operands[1],
                DimensionOf(binding.instruction())),
        copy_(
            size_, ranges_.columns(),
            {ranges_.count(), ranges_.value_stride(), ranges_.rows_stride()}) {}

  void Run(StepContext&) override {
    const auto* from = static_cast<const std::byte*>(value_.data);
    auto* to = static_cast<std::byte*>(result_.data);
    if (!ranges_.covers_rows() && result_.elements() > 0) {
      std::memset(to, 0, result_.elements() * size_);
    }
    ranges_.ForEach([&](int64_t value, int64_t rows, int64_t count) {
      copy_.Run(from + value * size_, to + rows * size_, count);
    });
  }

 private:
  BoundValue value_, result_;
  int64_t size_;
  RowRanges ranges_;
  RowCopy copy_;
};

std::vector<StridedCopy::Loop> Reversed(std::vector<StridedCopy::Loop> loops) {
  for (StridedCopy::Loop& loop : loops) std::swap(loop.from, loop.to);
  return loops;
}

class UpdateSliceKernel : public Kernel {
 public:
  explicit UpdateSliceKernel(const Binding& binding)
      : value_(binding.operands[0]),
        update_(binding.operands[1]),
        result_(binding.results[0]),
        size_(DTypeSize(result_.dtype())),
        ranges_(value_, update_, binding.operands[2],
                DimensionOf(binding.instruction())),
        copy_(size_, Reversed(ranges_.columns()),
              {ranges_.count(), ranges_.rows_stride(), ranges_.value_stride()}),
        all_(static_cast<int>(size_), {{result_.elements(), 1, 1}}) {}

  void Run(StepContext&) override {
    const auto* from = static_cast<const std::byte*>(update_.data);
    auto* to = static_cast<std::byte*>(result_.data);
    if (value_.data != result_.data) all_.Run(value_.data, to);
    ranges_.ForEach([&](int64_t value, int64_t rows, int64_t count) {
      copy_.Run(from + rows * size_, to + value * size_, count);
    });
  }

 private:
  BoundValue value_, update_, result_;
  int64_t size_;
  RowRanges ranges_;
  RowCopy copy_;
  StridedCopy all_;
};

}  // namespace

std::unique_ptr<Kernel> PrepareCheckIndex(const Binding& binding) {
  return std::make_unique<CheckIndexKernel>(binding);
}

std::unique_ptr<Kernel> PrepareDynamicSlice(const Binding& binding) {
  return std::make_unique<DynamicSliceKernel>(binding);
}

std::unique_ptr<Kernel> PrepareUpdateSlice(const Binding& binding) {
  return std::make_unique<UpdateSliceKernel>(binding);
}

}  // namespace mtf::cpu
