// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_SESSION_DEVICES_ALLOCATED_BYTES_H_
#define TESTS_SESSION_DEVICES_ALLOCATED_BYTES_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace mtf::testing {

// The memory that the devices of this binary have handed out.
class AllocatedBytes {
 public:
  static AllocatedBytes& Get() {
    static auto& bytes = *new AllocatedBytes;
    return bytes;
  }
  void Add(void* data, int64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    sizes_[data] = bytes;
    now_ += bytes;
    most_ = std::max(most_, now_);
  }
  void Remove(void* data) {
    std::lock_guard<std::mutex> lock(mutex_);
    now_ -= sizes_[data];
    sizes_.erase(data);
  }
  int64_t now() {
    std::lock_guard<std::mutex> lock(mutex_);
    return now_;
  }
  // The most since the last call.
  int64_t TakeMost() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(most_, now_);
  }

 private:
  std::mutex mutex_;
  std::map<void*, int64_t> sizes_;
  int64_t now_ = 0, most_ = 0;
};

}  // namespace mtf::testing

#endif  // TESTS_SESSION_DEVICES_ALLOCATED_BYTES_H_
