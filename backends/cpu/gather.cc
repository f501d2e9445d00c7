// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gather.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/block_memory.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/vector_functions.h"
#include "mtf/check.h"
#include "mtf/host_tensor.h"

namespace mtf::cpu {
namespace {

// A dimension of the indices, with strides in elements: in the table (0 if it
// lacks the dimension), in the rows (gather's result, scatter's updates), and
// in the global positions that errors report.
struct IndexLoop {
  int64_t extent, valid, table, rows, global;
};

// The iteration over indices shared by gather and scatter_add: maps each index
// to its row of the table and to the row of the result or the updates.
class IndexWalk {
 public:
  // `rows` is the result of gather or the updates of scatter_add.
  IndexWalk(const Binding& binding, const BoundValue& table,
            const BoundValue& indices, const BoundValue& rows)
      : instruction_(binding.index), indices_(indices) {
    const std::string& dimension = DimensionOf(binding.instruction());
    const int dim = table.value->shape.Find(dimension);
    MTF_CHECK_LE(0, dim) << dimension;
    size_ = table.value->shape[dim].size;
    shard_ = table.dims[dim];
    row_stride_ = table.stride(dim);
    const Shape& shape = indices.value->shape;
    int64_t global = 1;
    loops_.resize(shape.rank());
    for (int i = shape.rank() - 1; i >= 0; --i) {
      const std::string& name = shape[i].name;
      const int matched =
          name == dimension ? -1 : table.value->shape.Find(name);
      const int other = rows.value->shape.Find(name);
      loops_[i] = {indices.dims[i].extent, indices.dims[i].valid,
                   matched < 0 ? 0 : table.stride(matched),
                   other < 0 ? 0 : rows.stride(other), global};
      first_position_ += indices.dims[i].offset * global;
      global *= shape[i].size;
      count_ *= indices.dims[i].extent;
    }
    FindRuns(dimension, table, rows);
  }

  int64_t count() const { return count_; }
  // A row consists of run() contiguous elements at each of these offsets.
  struct Run {
    int64_t table, rows;
  };
  const std::vector<Run>& runs() const { return runs_; }
  int64_t run() const { return run_; }

  // Calls body(table, rows) for indices [begin, end) in order, with the offsets
  // of the first elements of the rows; `table` is -1 if there is no row.
  template <class Body>
  void ForEach(int64_t begin, int64_t end, StepError* error,
               const Body& body) const {
    const int rank = static_cast<int>(loops_.size());
    std::vector<int64_t> at(rank, 0);
    for (int64_t rest = begin, i = rank - 1; i >= 0; --i) {
      at[i] = rest % loops_[i].extent;
      rest /= loops_[i].extent;
    }
    for (int64_t element = begin; element < end; ++element) {
      int64_t table = 0, rows = 0, position = first_position_;
      bool valid = true;
      for (int i = 0; i < rank; ++i) {
        table += at[i] * loops_[i].table;
        rows += at[i] * loops_[i].rows;
        position += at[i] * loops_[i].global;
        valid = valid && at[i] < loops_[i].valid;
      }
      body(valid ? RowOf(element, position, table, error) : -1, rows);
      for (int i = rank - 1; i >= 0 && ++at[i] == loops_[i].extent; --i) {
        at[i] = 0;
      }
    }
  }

 private:
  int64_t RowOf(int64_t element, int64_t position, int64_t table,
                StepError* error) const {
    int64_t index = 0;
    if (indices_.dtype() == kInt32) {
      index = static_cast<const int32_t*>(indices_.data)[element];
    } else if (indices_.dtype() == kInt64) {
      index = static_cast<const int64_t*>(indices_.data)[element];
    } else {
      index = static_cast<int64_t>(
          LoadElement(indices_.data, indices_.dtype(), element));
    }
    if (index < 0 || index >= size_) {
      StepContext context;
      context.error = *error;
      context.Report(instruction_, position, index);
      *error = context.error;
      return -1;
    }
    const int64_t row = index - shard_.offset;
    if (row < 0 || row >= shard_.valid) return -1;
    return table + row * row_stride_;
  }

  // Describes the table's dimensions without indices as contiguous runs.
  void FindRuns(const std::string& dimension, const BoundValue& table,
                const BoundValue& rows) {
    runs_ = {{0, 0}};
    const Shape& shape = table.value->shape;
    const Shape& chosen = indices_.value->shape;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      const std::string& name = shape[i].name;
      if (name == dimension || chosen.Contains(name)) continue;
      const int other = rows.value->shape.Find(name);
      MTF_CHECK_LE(0, other) << name;
      const int64_t extent = table.dims[i].extent;
      const int64_t from = table.stride(i), to = rows.stride(other);
      MTF_CHECK_EQ(rows.dims[other].extent, extent) << name;
      if (runs_.size() == 1 && from == run_ && to == run_) {
        run_ *= extent;
        continue;
      }
      std::vector<Run> longer;
      for (int64_t at = 0; at < extent; ++at) {
        for (const Run& run : runs_) {
          longer.push_back({run.table + at * from, run.rows + at * to});
        }
      }
      runs_ = std::move(longer);
    }
  }

  int64_t instruction_;
  BoundValue indices_;
  std::vector<IndexLoop> loops_;
  int64_t count_ = 1, first_position_ = 0;
  int64_t size_ = 0, row_stride_ = 1;
  ShardedDimension shard_;
  std::vector<Run> runs_;
  int64_t run_ = 1;
};

class GatherKernel : public Kernel {
 public:
  explicit GatherKernel(const Binding& binding)
      : walk_(binding, binding.operands[0], binding.operands[1],
              binding.results[0]),
        from_(static_cast<const std::byte*>(binding.operands[0].data)),
        to_(static_cast<std::byte*>(binding.results[0].data)),
        size_(DTypeSize(binding.results[0].dtype())) {}

  void Run(StepContext& context) override {
    const int64_t row_bytes =
        walk_.run() * static_cast<int64_t>(walk_.runs().size()) * size_;
    const int64_t grain = (64 << 10) / std::max<int64_t>(row_bytes, 16);
    std::mutex mutex;
    ParallelFor(walk_.count(), grain, [&](int64_t begin, int64_t end) {
      StepError error;
      Copy(begin, end, &error);
      if (error.ok()) return;
      const std::lock_guard<std::mutex> lock(mutex);
      context.Report(error.instruction, error.position, error.index);
    });
  }

 private:
  void Copy(int64_t begin, int64_t end, StepError* error) const {
    const int64_t bytes = walk_.run() * size_;
    walk_.ForEach(begin, end, error, [&](int64_t table, int64_t rows) {
      for (const IndexWalk::Run& run : walk_.runs()) {
        std::byte* to = to_ + (rows + run.rows) * size_;
        if (table < 0) {
          std::memset(to, 0, bytes);
        } else {
          std::memcpy(to, from_ + (table + run.table) * size_, bytes);
        }
      }
    });
  }

  IndexWalk walk_;
  const std::byte* from_;
  std::byte* to_;
  int64_t size_;
};

class ScatterAddKernel : public Kernel {
 public:
  // Adds to what is at `addend`, or to zeros if that is null.
  ScatterAddKernel(const Binding& binding, const BoundValue& result,
                   const void* addend)
      : walk_(binding, binding.results[0], binding.operands[1],
              binding.operands[0]),
        updates_(binding.operands[0]),
        result_(result),
        addend_(addend) {}

  void Run(StepContext& context) override {
    // Threads divide the columns, not the indices, so sums keep their order.
    const int64_t columns = walk_.runs().size() == 1 ? walk_.run() : 1;
    const DType dtype = result_.dtype();
    if (dtype == kInt32 || dtype == kInt64) {
      std::memset(result_.data, 0, result_.elements() * DTypeSize(dtype));
      StepError error;
      dtype == kInt32 ? AddInts<uint32_t>(&error) : AddInts<uint64_t>(&error);
      context.Report(error.instruction, error.position, error.index);
      return;
    }
    const int64_t elements = result_.elements();
    float* sums = static_cast<float*>(result_.data);
    if (dtype != kFloat32) {
      sums = static_cast<float*>(
          ThreadScratch(ScratchUse::kKernel, elements * sizeof(float)));
    }
    if (addend_ == nullptr || addend_ != sums) {
      ParallelFor(elements, 1 << 14, [&](int64_t begin, int64_t end) {
        if (addend_ == nullptr) {
          std::fill(sums + begin, sums + end, 0.0f);
        } else {
          ReadFloats(dtype, addend_, begin, 1, end - begin, sums + begin);
        }
      });
    }
    if (columns == 0) {
      // Indices are checked even if rows have no elements.
      StepError error;
      AddFloats(sums, 0, 0, &error);
      context.Report(error.instruction, error.position, error.index);
    }
    std::mutex mutex;
    ParallelFor(columns, 64, [&](int64_t begin, int64_t end) {
      if (columns == 1) end = walk_.run();
      StepError error;
      AddFloats(sums, begin, end, &error);
      const std::lock_guard<std::mutex> lock(mutex);
      context.Report(error.instruction, error.position, error.index);
    });
    if (dtype == kFloat32) return;
    ParallelFor(elements, 1 << 14, [&](int64_t begin, int64_t end) {
      WriteFloats(dtype, sums + begin, end - begin, result_.data, begin, 1);
    });
  }

 private:
  // Columns [begin, end) of every run.
  void AddFloats(float* sums, int64_t begin, int64_t end,
                 StepError* error) const {
    constexpr int64_t kBuffer = 256;
    const DType dtype = updates_.dtype();
    walk_.ForEach(0, walk_.count(), error, [&](int64_t table, int64_t rows) {
      if (table < 0) return;
      for (const IndexWalk::Run& run : walk_.runs()) {
        float* to = sums + table + run.table;
        const int64_t from = rows + run.rows;
        if (dtype == kFloat32) {
          AccumulateFloats(
              ReduceKind::kSum,
              static_cast<const float*>(updates_.data) + from + begin,
              to + begin, end - begin);
          continue;
        }
        float buffer[kBuffer];
        for (int64_t at = begin; at < end; at += kBuffer) {
          const int64_t count = std::min(kBuffer, end - at);
          ReadFloats(dtype, updates_.data, from + at, 1, count, buffer);
          AccumulateFloats(ReduceKind::kSum, buffer, to + at, count);
        }
      }
    });
  }

  template <class T>
  void AddInts(StepError* error) const {
    const T* from = static_cast<const T*>(updates_.data);
    T* to = static_cast<T*>(result_.data);
    walk_.ForEach(0, walk_.count(), error, [&](int64_t table, int64_t rows) {
      if (table < 0) return;
      for (const IndexWalk::Run& run : walk_.runs()) {
        for (int64_t i = 0; i < walk_.run(); ++i) {
          to[table + run.table + i] += from[rows + run.rows + i];
        }
      }
    });
  }

  IndexWalk walk_;
  BoundValue updates_, result_;
  const void* addend_;
};

}  // namespace

std::unique_ptr<Kernel> PrepareGather(const Binding& binding) {
  return std::make_unique<GatherKernel>(binding);
}

std::unique_ptr<Kernel> PrepareScatterAdd(const Binding& binding) {
  return std::make_unique<ScatterAddKernel>(binding, binding.results[0],
                                            nullptr);
}

std::unique_ptr<Kernel> PrepareScatterAddGroup(
    const EpilogueGroup& group, absl::Span<const Binding> members) {
  const Binding& sum = members.back();
  const auto& operands = sum.instruction().operands;
  const size_t addend = operands[0] == group.addend ? 0 : 1;
  return std::make_unique<ScatterAddKernel>(members[0], sum.results[0],
                                            sum.operands[addend].data);
}

}  // namespace mtf::cpu
