// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/step_state.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr int kMaxSlots = 4096;
constexpr uint64_t kNone = ~uint64_t{0};

// The global row-major index of a local one.
int64_t GlobalIndex(const Shape& shape,
                    const std::vector<ShardedDimension>& dims, int64_t local) {
  int64_t global = 0, size = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    global += (dims[i].offset + local % dims[i].extent) * size;
    local /= dims[i].extent;
    size *= shape[i].size;
  }
  return global;
}

}  // namespace

StepState::Slot::~Slot() {
  const std::lock_guard<std::mutex> lock(owner_->mutex_);
  owner_->slots_[number_] = nullptr;
}

StepState::~StepState() {
  if (words_ != nullptr) runtime_.Free(words_);
}

absl::Status StepState::Allocate() {
  if (words_ != nullptr) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(void* words, runtime_.Allocate((1 + 2 * kMaxSlots) * 8));
  words_ = static_cast<uint64_t*>(words);
  return absl::OkStatus();
}

absl::StatusOr<const uint32_t*> StepState::SeedAndStep() {
  const std::lock_guard<std::mutex> lock(mutex_);
  MTF_RETURN_IF_ERROR(Allocate());
  return reinterpret_cast<const uint32_t*>(words_);
}

absl::StatusOr<std::unique_ptr<StepState::Slot>> StepState::NewSlot(
    int64_t instruction, const BoundValue& indices) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MTF_RETURN_IF_ERROR(Allocate());
  if (indices.elements() > UINT32_MAX) {
    return absl::UnimplementedError(absl::StrCat(
        indices.elements(), " indices in one instruction are not supported"));
  }
  auto free = std::find(slots_.begin(), slots_.end(), nullptr);
  if (free == slots_.end()) {
    if (slots_.size() == kMaxSlots) {
      return absl::UnimplementedError(
          absl::StrCat("more than ", kMaxSlots,
                       " instructions that read indices are not supported"));
    }
    free = slots_.insert(free, nullptr);
  }
  auto slot = std::make_unique<Slot>();
  slot->owner_ = this;
  slot->number_ = static_cast<int>(free - slots_.begin());
  slot->words_ = words_ + 1 + 2 * slot->number_;
  slot->instruction_ = instruction;
  slot->shape_ = indices.value->shape;
  slot->dims_ = indices.dims;
  *free = slot.get();
  return slot;
}

void StepState::BeginStep(const StepContext& context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (words_ == nullptr) return;
  host_.assign(1 + 2 * slots_.size(), kNone);
  const uint32_t first[2] = {context.seed, context.step};
  std::memcpy(host_.data(), first, sizeof(first));
  runtime_.CopyToDevice(words_, host_.data(),
                        static_cast<int64_t>(host_.size() * 8));
}

absl::Status StepState::Finish(StepContext& context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (slots_.empty()) return runtime_.Synchronize();
  host_.resize(1 + 2 * slots_.size());
  runtime_.CopyToHost(host_.data(), words_,
                      static_cast<int64_t>(host_.size() * 8));
  MTF_RETURN_IF_ERROR(runtime_.Synchronize());
  for (const Slot* slot : slots_) {
    if (slot == nullptr) continue;
    const uint64_t low = host_[1 + 2 * slot->number_];
    const uint64_t high = host_[2 + 2 * slot->number_];
    if (low == kNone && high == kNone) continue;
    context.Report(
        slot->instruction_,
        GlobalIndex(slot->shape_, slot->dims_, static_cast<int64_t>(low >> 32)),
        static_cast<int64_t>(high << 32 | (low & UINT32_MAX)));
  }
  return absl::OkStatus();
}

}  // namespace mtf::cuda
