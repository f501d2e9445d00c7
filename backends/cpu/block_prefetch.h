// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_BLOCK_PREFETCH_H_
#define BACKENDS_CPU_BLOCK_PREFETCH_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mtf::cpu {

// Fetches the memory of the next block into the cache while the steps of the
// present block compute. Without it a kernel alternates between waiting for
// memory, in the first step that reads an operand, and leaving it idle.
//
// Each step fetches an equal share, because a processor core can wait for some
// ten to twenty lines at once and stops at the next.
class BlockPrefetch {
 public:
  // Adds a tensor whose element i belongs to element i of the blocks.
  void AddTensor(const void* data, int64_t element_size) {
    const Tensor tensor = {static_cast<const char*>(data), element_size};
    for (const Tensor& known : tensors_) {
      if (known.data == tensor.data) return;
    }
    tensors_.push_back(tensor);
  }
  // Adds calls of Step for each block.
  void AddSteps(int64_t steps) { steps_ += steps; }

  // Begins a block, after which elements [begin, begin + count) follow.
  void Start(int64_t begin, int64_t count) {
    begin_ = begin;
    count_ = count;
    next_ = 0;
    at_ = end_ = nullptr;
    int64_t bytes = 0;
    for (const Tensor& tensor : tensors_) bytes += count * tensor.size;
    share_ = bytes / kLine / std::max<int64_t>(steps_, 1) + 1;
  }

  void Step() {
    for (int64_t i = 0; i < share_; ++i, at_ += kLine) {
      if (at_ >= end_) {
        if (next_ == tensors_.size()) return;
        const Tensor& tensor = tensors_[next_++];
        at_ = tensor.data + begin_ * tensor.size;
        end_ = at_ + count_ * tensor.size;
      }
      __builtin_prefetch(at_);
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  struct Tensor {
    const char* data;
    int64_t size;
  };

  std::vector<Tensor> tensors_;
  int64_t steps_ = 0;
  // Of the next block.
  int64_t begin_ = 0, count_ = 0, share_ = 0;
  size_t next_ = 0;  // index of the tensor after the one that is fetched
  const char *at_ = nullptr, *end_ = nullptr;
};

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_BLOCK_PREFETCH_H_
